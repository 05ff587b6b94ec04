"""The ports of each verb: by which a step that settled may be left, besides ``error`` and ``skipped``, that every step has."""

from collections.abc import Mapping
from typing import Any

from perdure.programs.graph.ir import AFTER

OWN_PORTS = {
    "approve": ("approved", "rejected", "timeout"),
    "listen": ("success", "timeout"),
    "test": ("true", "false"),
    "if": ("true", "false"),
}
BLOCKS = ("if", "do", "parallel", "race")
MUST_LEAD_ON = {"approve": ("approved", "rejected"), "test": ("true", "false"), "if": ("true", "false")}
"""The ports of verbs with several, of which each is expected to lead somewhere once one of them does."""


def ports(verb: str, step: Mapping[str, Any]) -> tuple[str, ...]:
    """All ports by which the step may be left, by the names that a document has for them."""
    own = OWN_PORTS.get(verb, ("success",))
    if "each" in step:
        own = ("success", "done")
    if "repeat" in step:
        own = (*own, "done", "max")
    if "timeout" in step and (verb in BLOCKS or "each" in step or "repeat" in step):
        own = (*own, "timeout")
    named = ("error", "skipped", "success") if "success" not in own else ("error", "skipped")
    return tuple(dict.fromkeys((*own, *named)))


def port(name: str) -> str:
    """The port of an edge that a document calls `name`."""
    return AFTER if name in ("success", "done") else name
