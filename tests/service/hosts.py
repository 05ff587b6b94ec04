"""Engines of tests that run definitions which they do not know."""

from types import SimpleNamespace
from typing import Any

from perdure.definition_host import definition_host


def host(*tools: Any, **options: Any) -> list[Any]:
    """The workflows of such an engine, for `Cluster.engine`."""
    return [SimpleNamespace(code=one) for one in definition_host(tools, **options)]
