"""Needs: which secrets a definition reads, and where. Its calls to other definitions are theirs to say."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from perdure.core.errors import BadExpression
from perdure.expr import template
from perdure.programs.format.sources import SOURCES
from perdure.programs.graph.ir import IR, Node


def needed(ir: IR, triggers: Any = ()) -> dict[str, list[str]]:
    """The names of the secrets that a definition reads, each with the ids of its steps that do, in their order; of its `triggers`, ``triggers``."""
    found: dict[str, list[str]] = {}
    readers = [*((node.id, value) for node in ir.nodes for value in _given(node)), ("triggers", list(triggers or ()))]
    for who, value in readers:
        for name in _names(value, ir.dialect == "003"):
            if who not in found.setdefault(name, []):
                found[name].append(who)
    return found


def _given(node: Node) -> Iterator[Any]:
    config = node.config
    if node.kind in SOURCES:
        config = {name: value for name, value in config.items() if name != SOURCES[node.kind]} if isinstance(config, Mapping) else None
    yield from (config, node.input, node.env, None if node.undo is None else node.undo.input)


def _names(value: Any, braces: bool) -> Iterator[str]:
    with suppress(BadExpression):  # what stands behind some verbs is no template
        reads = template.compiled(value, expressions="braces" if braces else "none").reads
        yield from sorted({str(read.path[0]) for read in reads if read.root == "secrets" and read.path})
