"""Warns of mistakes in a document of port_graph that can run: names of nothing, values never read, loops that never return to their head.

The dialect reads all of these as null without an error, so this is the only place where an author learns of them.
"""

from __future__ import annotations

from typing import Any

from perdure.definitions.expr.braces import BRACES_ROOTS
from perdure.definitions.format.definition_findings import closest_name
from perdure.dialects.foreign_document import FindingCollector, ForeignFields
from perdure.dialects.port_graph.brace_expressions import BraceExpressionReader, BraceNameUse
from perdure.dialects.port_graph.step_reader import loop_body, reachable_steps, targets_by_step

STEP_KEYS = ("output", "stepType", "name")
OUTPUT_KEYS = ("data", "meta", "type", "port")
INJECTED_INPUT = "organizationId"


class PortGraphWarnings:
    """Looks over a whole document: its expressions, and the steps as they were given and as they were read."""

    def __init__(self, notes: FindingCollector, texts: BraceExpressionReader, given: dict[str, ForeignFields], steps: list[dict[str, Any]]) -> None:
        self._notes, self._texts, self._given, self._steps = notes, texts, given, steps
        self._graph = targets_by_step(steps)
        self._loops = {step["id"]: step for step in steps if "loop" in step}
        self._bodies = {head: loop_body(self._graph, head, step["next"].get("loop", [])) for head, step in self._loops.items()}

    def tell(self, variables: dict[str, Any], declared: dict[str, Any], pointer: str) -> None:
        """Adds what is odd to the notes. `pointer` is that of the variables."""
        set_here = {name: step["id"] for step in self._steps for name in step.get("set", ())}
        known = {*variables, *declared, *set_here, *BRACES_ROOTS, *self._items(), "variables", "config"}
        for seen in dict.fromkeys(self._texts.seen):
            if seen.name == "steps":
                self._step(seen)
            elif seen.name == "lastOutput":
                self._output(seen, "lastOutput", seen.path)
            elif seen.name == "loop":
                self._loop(seen)
            elif seen.name == "variables" and seen.path and str(seen.path[0]) not in known:
                self._unknown(seen._replace(name=str(seen.path[0])), known)
            elif seen.name not in known:
                self._unknown(seen, known)
        self._unread(variables, set_here, pointer)
        self._open_loops()
        self._unguarded()

    def _items(self) -> set[str]:
        return {str(step["loop"].get(name, name)) for step in self._loops.values() for name in ("as", "index")} | {"item", "index"} if self._loops else set()

    def _step(self, seen: BraceNameUse) -> None:
        if not seen.path:
            return
        name = str(seen.path[0])
        called = self._texts.names[name]
        if name not in self._texts.names:
            meant = closest_name(name, self._texts.names)
            what = f"steps.{name} is no step, so it is null" + (f"; did you mean steps.{meant}?" if meant else "")
            self._notes.warning("unknown_reference", seen.pointer, what, meant)
            return
        if seen.step and seen.step not in reachable_steps(self._graph, self._graph.get(called, [])):
            what = f"steps.{name} never comes before {seen.step!r}, so it is null here; lead {name!r} there, or read another step"
            self._notes.warning("read_too_early", seen.pointer, what)
        if len(seen.path) > 1 and seen.path[1] not in STEP_KEYS:
            what = f"steps.{name}.{seen.path[1]} is null: what a step gave stands in steps.{name}.output.data"
            self._notes.warning("unknown_reference", seen.pointer, what, f"steps.{name}.output.data.{seen.path[1]}")
        elif seen.path[1:2] == ("output",):
            self._output(seen, f"steps.{name}.output", seen.path[2:])

    def _output(self, seen: BraceNameUse, shown: str, path: tuple[str | int, ...]) -> None:
        if path and path[0] not in OUTPUT_KEYS:
            what = f"{shown}.{path[0]} is null: an output has {', '.join(OUTPUT_KEYS)}; what the step gave is its data"
            self._notes.warning("unknown_reference", seen.pointer, what, f"{shown}.data.{path[0]}")

    def _loop(self, seen: BraceNameUse) -> None:
        around = [head for head in self._loops if seen.step in reachable_steps(self._graph, [head])]
        if not around:
            self._notes.warning("loop_outside", seen.pointer, "no loop comes before this step, so 'loop' is null here")

    def _unknown(self, seen: BraceNameUse, known: set[str]) -> None:
        meant = closest_name(seen.name, known)
        hint = f"did you mean {meant!r}?" if meant else "declare it in variables, or set it with set_variables"
        what = f"{seen.name[:60]!r} is neither a variable nor set by a step, so it is null unless the input has it; {hint}"
        self._notes.warning("unknown_reference", seen.pointer, what, meant)

    def _unread(self, variables: dict[str, Any], set_here: dict[str, str], pointer: str) -> None:
        read = {seen.name for seen in self._texts.seen} | {
            str(seen.path[0]) for seen in self._texts.seen if seen.name in ("input", "variables", "config") and seen.path
        }
        outputs = {self._texts.names[str(seen.path[0])] for seen in self._texts.seen if seen.name == "steps" and seen.path}
        for name in variables:
            here = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            if name == INJECTED_INPUT:
                what = f"{name} is taken from the deployment; the value here counts only if that has none"
                self._notes.warning("variable_overridden", here, what)
            elif name not in read:
                what = (
                    f"no expression reads the variable {name[:60]!r}; a tool is given its parameters alone, so add it there if the tool needs it, or remove it"
                )
                self._notes.warning("unread_variable", here, what)
        for name, called in set_here.items():
            if name not in read and name not in variables and called not in outputs:
                self._notes.warning("unread_variable", self._given[called].at("config"), f"no expression reads {name[:60]!r}, which {called!r} sets")
        for head, step in self._loops.items():
            for name in (str(step["loop"][key]) for key in ("as", "index") if key in step["loop"]):
                if name not in read and name not in ("item", "index"):
                    what = f"no step reads {name[:60]!r}, as which {head!r} hands on its items; they read loop.item, or nothing of it"
                    self._notes.warning("unread_variable", self._given[head].at("config"), what)

    def _open_loops(self) -> None:
        for head, step in self._loops.items():
            if step["next"].get("loop", []) != [head] and not self._bodies[head]:
                start = step["next"]["loop"][0]
                what = f"nothing leads from {start!r} back to this loop, so only the first batch is worked on; lead the last step of its body to {head!r}"
                self._notes.warning("loop_not_closed", self._given[head].at("nextSteps", "loop"), what)

    def _unguarded(self) -> None:
        """Actions whose failure ends all, though those that follow lead theirs to a step that deals with it, and that does not need them."""
        handlers: dict[str, list[str]] = {}
        for step in self._steps:
            for target in step.get("next", {}).get("error", ()):
                if target not in self._loops:
                    handlers.setdefault(target, []).append(step["id"])
        for handler, guarded in handlers.items():
            needed = {
                str(seen.path[0]) for seen in self._texts.seen if seen.step in reachable_steps(self._graph, [handler]) and seen.name == "steps" and seen.path
            }
            for step in self._steps:
                if "tool" not in step or "error" in step.get("next", {}) or step["id"] in needed:
                    continue
                if handler in reachable_steps(self._graph, self._graph[step["id"]]) and step["id"] not in reachable_steps(self._graph, [handler]):
                    others = ", ".join(map(repr, guarded[:3])) + (" …" if len(guarded) > 3 else "")
                    what = f"if {step['id']!r} fails, all fails and {handler!r} is not told; {others} lead there by failure: do the same here if that is meant"
                    self._notes.warning("failure_not_led", self._given[step["id"]].at("nextSteps"), what)
