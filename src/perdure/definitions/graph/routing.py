"""Routing: where a node that has settled leads. Its port says it, or its rules do, in the order in which they are written; the choice is kept."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.core import values
from perdure.core.errors import ErrorInfo
from perdure.core.operations import Failure, KeepOperation
from perdure.definitions.graph.bodies import BlockRun
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.ir import NOT_AFTER
from perdure.definitions.graph.node_scope import NodeOutcome, Output
from perdure.definitions.graph.token_walk import Firing

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram

NEXT_NOTE = ("next", 0)
"""Where it is kept, beside a node, which way its rules or its own choice led."""


class Router:
    """The ways that lead on from nodes."""

    def __init__(self, run: "GraphProgram") -> None:
        self.run = run

    def settled(self, firing: Firing, how: NodeOutcome | Failure) -> None:
        """A node has settled, or failed: go on by its edges, or fail what holds it."""
        place = firing.place
        self.run.note_settled(firing, how)
        if isinstance(how, Failure):
            self._failed(firing, how)
        elif how.port == "rejected" and not self.run.plan.has_port(place, "rejected") and self.run.dialect_rules.rejection_fails:
            self._rejected(firing, how)
        elif how.port == "timeout" and not self.run.plan.has_port(place, "timeout"):
            self._failed(firing, Failure("timeout", 1, ErrorInfo("Timeout", f"{place.node.id} has waited in vain")))
        else:
            how.output.port = how.port
            self._go_on(firing, how.output, how.port)

    def _failed(self, firing: Firing, error: Failure) -> None:
        node, plan, names = firing.place.node, self.run.plan, self.run.names(firing)
        self.run.note_settled(firing, error)
        told = {"type": error.error.type, "message": error.error.message, "kind": error.kind}
        if isinstance(node.on_error, int):
            path = (*firing.path, ("on_error", 0))
            self.run.pass_by(names, self.run.plan.ids_below(firing.place))
            stand_in = VerbRun(firing, path, names.inside({"error": told}), lambda how: self._error_body_ended(firing, how))
            BlockRun(self.run, stand_in, "do", is_timed=False).begin(node.on_error)
        elif plan.has_port(firing.place, "error"):
            output = Output.of(told, "an error")
            output.port = "error"
            self.run.store(firing, output)
            self.run.follow(firing, output, self.run.walk.by_port(firing, "error"), "error")
        elif node.on_error == "go_on":
            self._go_on(firing, Output(port="error"), "success")
        else:
            self.run.fail(firing, error)

    def _error_body_ended(self, firing: Firing, how: NodeOutcome | Failure) -> None:
        if isinstance(how, Failure):
            self.run.fail(firing, how)
        else:
            self._go_on(firing, how.output, "success")

    def _rejected(self, firing: Firing, how: NodeOutcome) -> None:
        verdict: Any = how.output.value
        by, comment = (verdict.get("by"), verdict.get("comment")) if isinstance(verdict, dict) else (None, None)
        why = f"{firing.place.node.id} was rejected" + (f" by {by}" if by else "") + (f": {comment}" if comment else "")
        match firing.place.node.on_rejected:
            case "go_on":
                how.output.port = how.port
                self._go_on(firing, how.output, "success")
            case "fail":
                self._failed(firing, Failure("fatal", 1, ErrorInfo("Rejected", why)))
            case "cancel":
                self.run.ending.reject(why)

    def _go_on(self, firing: Firing, output: Output, port: str) -> None:
        node = firing.place.node
        self.run.store(firing, output)  # before its rules, which may read it
        if port in NOT_AFTER or not (node.rules or node.choose):
            self.run.follow(firing, output, self.run.walk.by_port(firing, port), port)
        elif node.choose:
            self._choose(firing, output)
        else:
            self._look(firing, output, 0)

    # rules

    def _look(self, firing: Firing, output: Output, start: int) -> None:
        """Look at the rules from `start` on; the first that holds is taken. On replay, the one that is noted."""
        run, rules = self.run, firing.place.node.rules
        names = run.names(firing).inside({"self": output.value})
        for number in range(start, len(rules)):
            if self._is_noted(firing, output):
                return
            path, condition = (*firing.path, ("rule", number)), rules[number].when
            if condition is None:
                holds: bool | KeepOperation | Failure | None = None if run.log.replaying else True
            elif (compiled := run.condition(condition, names)).python:
                run.judge(path, condition, names, partial(self._continue_rules, firing, output, number))
                return
            else:
                holds = run.judged(path, compiled, names)
            if self._is_decided(firing, output, number, holds):
                return
        if not self._is_noted(firing, output):
            self._take(firing, output, "")

    def _continue_rules(self, firing: Firing, output: Output, number: int, holds: bool | KeepOperation | Failure | None) -> None:
        """What a rule in Python comes to is known."""
        if not self._is_decided(firing, output, number, holds):
            self._look(firing, output, number + 1)

    def _is_noted(self, firing: Firing, output: Output) -> bool:
        """Whether, on replay, it is noted that a rule was taken, which then is."""
        path = (*firing.path, NEXT_NOTE)
        noted = self.run.log.upcoming(path)
        if not isinstance(noted, KeepOperation):
            return False
        self._take(firing, output, self.run.log.note(path, noted).label)
        return True

    def _is_decided(self, firing: Firing, output: Output, number: int, holds: bool | KeepOperation | Failure | None) -> bool:
        """Whether a rule that has been judged decides where to go on, which then is done."""
        run = self.run
        if isinstance(holds, Failure):
            self._failed(firing, holds)
        elif holds is True and (taken := self._usable(firing, number)):
            targets = [run.plan.places[run.plan.edges[edge].target].node.id for edge in self._edges(firing, taken)]
            _ = run.log.ask((*firing.path, NEXT_NOTE), KeepOperation(values.encode(targets, "where to go on"), label=taken))
            self._take(firing, output, taken)
        else:
            return False
        return True

    def _usable(self, firing: Firing, number: int) -> str:
        """How rule `number` is noted if it is taken: its number; with ``max``, when it has been used up. Empty, if the next one is to be looked at."""
        rule = firing.place.node.rules[number]
        if not rule.max or self.run.walk.uses(firing, str(number), rule.edges) < rule.max:
            return str(number)
        return f"{number} max" if rule.on_max else ""

    def _edges(self, firing: Firing, noted: str) -> Sequence[int]:
        """The edges of a rule as it is noted."""
        if not noted:
            return ()
        number, _, is_max = noted.partition(" ")
        rule = firing.place.node.rules[int(number)]
        return rule.on_max if is_max else rule.edges

    def _take(self, firing: Firing, output: Output, noted: str) -> None:
        self.run.follow(firing, output, self._edges(firing, noted), chosen=noted or "none")

    def _choose(self, firing: Firing, output: Output) -> None:
        """Go where the node's result says, which may name only what the list allows."""
        node, plan = firing.place.node, self.run.plan

        def chosen() -> KeepOperation:
            named = output.value
            if isinstance(named, dict):
                named = named.get("next", named.get("next_nodes"))
            ids = [named] if isinstance(named, str) else named if isinstance(named, list) else []
            for id in ids:
                if id not in node.choose:
                    allowed = ", ".join(node.choose)
                    raise self.run.failure(f"{node.id} tried to go on to {str(id)[:60]!r}, which is unauthorized; allowed are {allowed}", "Unauthorized")
            return KeepOperation(values.encode(list(dict.fromkeys(ids)), "where to go on"), label="choose")

        kept = self.run.log.judged((*firing.path, NEXT_NOTE), chosen)
        if isinstance(kept, Failure):
            self._failed(firing, kept)
            return
        ids = [] if kept is None else values.decode(self.run.log.raw(kept.value), list[str], "where to go on")
        edges = [number for number in firing.place.out if not plan.edges[number].port and plan.places[plan.edges[number].target].node.id in ids]
        self.run.follow(firing, output, edges if ids else node.default, chosen="choose")
