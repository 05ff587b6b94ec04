"""Needs: what has to be there so that a definition can be run to its end: tools, other workflows, what does the work of a kind of steps."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from perdure.programs.format.sources import sourced
from perdure.programs.graph.ir import IR, Node

ELSEWHERE = frozenset(("task", "approve", "listen", "emit", "sleep", "set", "test", "loop", "if", "parallel", "race", "do", "return", "fail"))
"""The verbs that take nothing that a definition has to be given: Perdure does them itself, or whoever serves a queue."""


class Need(NamedTuple):
    """One thing that is needed: what it is, what it is called, and by which step; of what is called when all has failed, that has no id.

    An extra is one of the package, which a kind takes."""

    what: Literal["tool", "workflow", "kind", "extra"]
    name: str
    id: str


def needed(ir: IR) -> Iterator[Need]:
    """All that a definition needs, step by step."""
    for node in ir.nodes:
        yield from _of(node)
        if (source := sourced(node.transform)) is not None:
            yield Need("kind", source[0], node.id)
        if node.undo is not None:
            yield Need("tool", node.undo.tool, node.id)
    if ir.on_failure.call:
        yield Need("workflow", ir.on_failure.call.partition("@")[0], "")


def _of(node: Node) -> Iterator[Need]:
    if node.kind == "tool":
        yield Need("tool", str(node.config), node.id)
    elif node.kind == "call":
        target = _target(node.config)
        yield Need("tool", target, node.id) if target.startswith("py:") else Need("workflow", target.partition("@")[0], node.id)
    elif node.kind not in ELSEWHERE:
        yield Need("kind", node.kind, node.id)


def _target(config: Any) -> str:
    return str(config["target"] if isinstance(config, Mapping) else config)
