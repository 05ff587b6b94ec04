"""The ports of each verb: by which a step that settled may be left, besides ``error`` and ``skipped``, that every step has."""

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.programs.format.model import verbs
from perdure.programs.graph.ir import AFTER

BLOCKS = ("if", "do", "parallel", "race")
MUST_LEAD_ON = {"approve": ("approved", "rejected"), "test": ("true", "false"), "if": ("true", "false"), "loop": ("loop", "done")}
"""The ports of verbs with several, of which each is expected to lead somewhere once one of them does."""

FREE = frozenset(("ts", "python", "bash", "http", "file", "agent", "agent_message", "llm", "pipeline", "task"))
"""The verbs of which only what does them knows by which ports they are left."""


def ports(verb: str, step: Mapping[str, Any]) -> tuple[str, ...]:
    """All ports by which the step may be left, by the names that a document has for them. ``success`` is however it succeeds, whatever its verb."""
    own = verbs()[verb].ports
    if own and "each" in step:
        own = ("success", "done")
    if own and "repeat" in step:
        own = (*own, "done", "max")
    if "timeout" in step and (verb in BLOCKS or "each" in step or "repeat" in step):
        own = (*own, "timeout")
    return tuple(dict.fromkeys((*own, *(("success",) if own else ()), "error", "skipped")))


def must_lead_on(verb: str, step: Mapping[str, Any], named: Iterable[str]) -> tuple[str, ...]:
    """The ports that ought to lead somewhere, as others of the verb do, and that are not among those `named`."""
    given = set(named)
    if "each" in step or given & {"success", "done"}:
        return ()
    return tuple(one for one in MUST_LEAD_ON.get(verb, ()) if one not in given)


def port(name: str, verb: str) -> str:
    """The port of an edge that a document calls `name`. A `loop` has succeeded when it is done, and not by each of its turns."""
    if name in ("success", "done"):
        return "done" if verb == "loop" else AFTER
    return name
