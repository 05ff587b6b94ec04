"""Where the steps of seed 003 lead: ``nextSteps`` as port maps of a definition."""

from __future__ import annotations

from typing import Any

from perdure.programs.format.dialects.reading import Fields, Names, Notes, kind
from perdure.programs.format.finding import closest

ENDS = "noop"
"""A target that ends the path, unless a step is called so."""

PORTS = {
    "condition": ("true", "false"),
    "approval": ("approved", "rejected"),
    "loop": ("loop", "done"),
}
MEANT = {"approve": "approved", "reject": "rejected", "failure": "error", "failed": "error"}
OF_APPROVALS = ("timeout",)


class Routes:
    """Reads `nextSteps` of the steps of one document."""

    def __init__(self, names: Names, notes: Notes) -> None:
        self._names, self._notes = names, notes

    def read(self, called: str, step: Fields) -> dict[str, Any]:
        """Where a step leads, as its `next`; nothing if it leads nowhere."""
        following = step.inside("nextSteps") or Fields({}, step.at("nextSteps"), self._notes)
        said = step.value.get("stepType", "action")
        own = PORTS.get(said, ("success",)) if isinstance(said, str) else ("success",)
        known = (*own, "error", *(OF_APPROVALS if said == "approval" else ()))
        found: dict[str, list[str]] = {}
        for name, target in following.value.items():
            following.ignore(name)
            port = MEANT.get(name, name) if name not in known else name
            if port == "default":
                continue
            if port not in known:
                meant = closest(name, (*own, "failure", "default"))
                what = f"{said} has no port {name[:40]!r}; it has {', '.join(own)}, and failure and default" + (f"; did you mean {meant!r}?" if meant else "")
                self._notes.error("unknown_port", following.at(name), what, meant)
                continue
            found[port] = self._target(target, following.at(name))
        if "default" in following.value:
            rest = self._target(following.value["default"], following.at("default"))
            found = {port: found.get(port, rest) for port in own} | found
        if said == "loop" and not found.get("loop"):
            found = {"loop": [called]} | {port: target for port, target in found.items() if port != "loop"}
        return {"next": found} if found else {}

    def _target(self, target: Any, pointer: str) -> list[str]:
        if target is None or (target == ENDS and ENDS not in self._names) or target == "":
            return []
        if not isinstance(target, str):
            self._notes.error("wrong_type", pointer, f"expected the stepSlug of a step, or null, found {kind(target)}")
            return []
        if target not in self._names:
            meant = closest(target, self._names)
            what = f"{target[:60]!r} is not a step" + (f"; did you mean {meant!r}?" if meant else "; write null to end here")
            self._notes.error("unknown_step", pointer, what, meant)
            return []
        return [self._names[target]]


def ways(steps: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Where each step leads, by any port."""
    return {step["id"]: [target for targets in step.get("next", {}).values() for target in targets] for step in steps}


def behind(graph: dict[str, list[str]], start: list[str], without: str = "") -> set[str]:
    """All that is reached from `start`, itself included, on ways that do not pass by `without`."""
    found, waiting = set[str](), [one for one in start if one != without]
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting.extend(target for target in graph.get(one, ()) if target != without)
    return found


def body(graph: dict[str, list[str]], head: str, start: list[str]) -> set[str]:
    """The steps of a loop: those between its port `loop` and its next tick."""
    before: dict[str, list[str]] = {}
    for source, targets in graph.items():
        for target in targets:
            before.setdefault(target, []).append(source)
    return behind(graph, start, head) & behind(before, before.get(head, []), head)


def wired(steps: list[dict[str, Any]]) -> None:
    """Lead failures in the body of a loop that goes on when one fails back to it, the innermost of several."""
    graph = ways(steps)
    loops = [step for step in steps if "loop" in step and step.get("ui", {}).get("continueOnError")]
    bodies = {step["id"]: body(graph, step["id"], step["next"]["loop"]) for step in loops}
    for head, inside in sorted(bodies.items(), key=lambda pair: len(pair[1])):
        for step in steps:
            if step["id"] in inside and "loop" not in step and "error" not in step.get("next", {}):
                step["next"] = {**step.get("next", {}), "error": [head]}
