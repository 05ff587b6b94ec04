"""How a list of steps runs, edge by edge: which step fires when, what its edges carry, and how cycles turn. A function of the moment at which it begins.

The steps of a list are taken in any order in which what leads to a step comes before it; what an edge carries is known for all time once its source is done.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.proof.definitions.facts import Json
from tests.proof.definitions.outcomes import NEVER, DefinitionStuck, Failed, Moment, Outcome, Reader, Settled, Where, error
from tests.proof.definitions.shape import AT_ALL, FAILING, Cycle, Edge, Shape, targets

TURNS_MAX = 500


class Passed(NamedTuple):
    """How it ended, and when the edges that lead out of it, or back to the head of the cycle, were taken."""

    outcome: Outcome
    leaving: Mapping[Edge, list[Moment]]
    errors: Mapping[str, list[tuple[Moment, Json]]]
    """The errors that came to steps over edges: by the step, when each came."""


class _Carried(NamedTuple):
    """The moments at which an edge carried something; if there is none, it is known at `over` that it never will."""

    live: list[Moment]
    over: Moment

    @property
    def decided(self) -> Moment:
        return self.live[0] if self.live else self.over


def passage(reader: Reader, shape: Shape, at: Moment, where: Where, cycle: Cycle | None = None) -> Passed:
    """A whole list, or one turn of a cycle in it: settles when nothing in it goes on."""
    return _Passage(reader, shape, at, where, cycle).run()


class _Passage:
    def __init__(self, reader: Reader, shape: Shape, at: Moment, where: Where, cycle: Cycle | None) -> None:
        self._reader, self._shape, self._at, self._where, self._cycle = reader, shape, at, where, cycle
        self._inner = {one.head: one for one in shape.within(cycle)}
        hidden = {name for one in self._inner.values() for name in one.members - {one.head}}
        names = [name for name in shape.steps if name not in hidden and (cycle is None or name in cycle.members)]
        self._members = {name: self._inner[name].members if name in self._inner else frozenset((name,)) for name in names}
        self._carried: dict[Edge, _Carried] = {}
        self._ends = [at]
        self._stops: list[Outcome] = []
        self._errors: dict[str, list[tuple[Moment, Json]]] = {}

    def run(self) -> Passed:
        """Take each step and inner cycle once all that leads to it is known."""
        mark = len(self._reader.trace)
        left = list(self._members)
        while left:
            name = next(name for name in left if all(edge in self._carried for edge in self._inward(name)))
            left.remove(name)
            self._take(name)
        cycle = self._cycle
        leaving = {edge: one.live for edge, one in self._carried.items() if cycle and (edge.target not in cycle.members or edge in cycle.back)}
        if self._stops:
            first = self._reader.first(mark, self._stops)
            return Passed(first, {edge: [moment for moment in live if moment < first.at] for edge, live in leaving.items()}, self._errors)
        return Passed(Settled(max(self._ends), "success", None), leaving, self._errors)

    def _inward(self, name: str) -> Iterator[Edge]:
        for edge in self._shape.edges:
            here = self._cycle is None or (edge.source in self._cycle.members and edge not in self._cycle.back)
            if here and edge.target == name and edge.source not in self._members[name]:
                yield edge

    def _outward(self, name: str) -> list[Edge]:
        """The edges that leave a step or a cycle. A step's edge to itself makes it a cycle of its own, which it does not leave."""
        return [edge for edge in self._shape.edges if edge.source in self._members[name] and (edge.target not in self._members[name] or self._turns_back(edge))]

    def _turns_back(self, edge: Edge) -> bool:
        return self._cycle is not None and edge in self._cycle.back

    def _take(self, name: str) -> None:
        fires, dead_at = self._fires(name)
        over = dead_at
        sent: dict[Edge, list[Moment]] = {edge: [] for edge in self._outward(name)}
        for at in fires:
            outcome = self._turning(self._inner[name], at, sent) if name in self._inner else self._step(name, at, sent)
            over = outcome.at
            self._ends.append(over)
            if not isinstance(outcome, Settled):
                self._stops.append(outcome)
                over = NEVER
        if not fires and dead_at != NEVER:
            for member in self._members[name]:
                self._reader.dead(member, dead_at, self._where)
        elif not fires:
            self._ends.append(NEVER)
        for edge, moments in sent.items():
            self._carried[edge] = _Carried(sorted(moments), over)

    def _fires(self, name: str) -> tuple[list[Moment], Moment]:
        """When a step fires, by its join; and when it is known that it never does."""
        edges = list(self._inward(name))
        if not edges:
            return [self._at], self._at
        carried = [self._carried[edge] for edge in edges]
        live, decided = sorted(moment for one in carried for moment in one.live), max(one.decided for one in carried)
        join = self._shape.steps[name].get("join", "all")
        if join == "each":
            return live, decided
        for edge, one in zip(edges, carried, strict=True):
            if len(one.live) > 1:
                self._stops.append(Failed(one.live[1], error("fatal", "unsafe_loop", f"{edge.source} -> {edge.target}")))
        if join == "all":
            return ([decided] if live and decided != NEVER else []), decided
        count = 1 if join == "any" else int(join)
        return live[count - 1 : count], decided

    def _step(self, name: str, at: Moment, sent: dict[Edge, list[Moment]]) -> Outcome:
        where, routed = self._behind(name, at), self._shape.routed(name)
        outcome = self._reader.step(self._shape.steps[name], at, where, routed)
        if isinstance(outcome, Settled) and outcome.at != NEVER:
            carried = outcome.value if outcome.port == "error" and "error" in routed else where.names.get("error")
            for edge in self._chosen(name, outcome, where):
                sent[edge].append(outcome.at)
                if carried is not None:
                    self._errors.setdefault(edge.target, []).append((outcome.at, carried))
        return outcome

    def _behind(self, name: str, at: Moment) -> Where:
        """What a step sees that fires at this moment: the last error that has come to it as well."""
        came = [one for one in self._errors.get(name, ()) if one[0] <= at]
        return self._where.naming(error=max(came, key=lambda one: one[0])[1]) if came else self._where

    def _turning(self, cycle: Cycle, at: Moment, sent: dict[Edge, list[Moment]]) -> Outcome:
        """A stay in a cycle, turn by turn; the next begins when nothing in this one goes on."""
        where = self._behind(cycle.head, at).staying(cycle.head)
        for turn in range(TURNS_MAX):
            outcome, leaving, errors = passage(self._reader, self._shape, at, where.within(f"{cycle.head}~{turn}"), cycle)
            for target, came in errors.items():
                self._errors.setdefault(target, []).extend(came)
            where = where.naming(error=errors[cycle.head][-1][1]) if cycle.head in errors else where
            for edge, moments in leaving.items():
                if edge not in cycle.back:
                    sent[edge] += moments
            at = outcome.at
            if not isinstance(outcome, Settled) or at == NEVER or not any(moments for edge, moments in leaving.items() if edge in cycle.back):
                return outcome
        raise DefinitionStuck(f"the cycle of {cycle.head} does not end")

    # which edges

    def _chosen(self, name: str, outcome: Settled, where: Where) -> list[Edge]:
        edges, port = [edge for edge in self._shape.edges if edge.source == name], outcome.port
        if port in ("error", "rejected") and port not in self._shape.routed(name):
            port = "success"  # it goes on
        taken = [edge for edge in edges if _by_port(edge, port)]
        ruled = () if port in FAILING else self._by_rules(name, outcome, where)
        return taken + [edge for edge in edges if edge.how == "rule" and edge.port in ruled]

    def _by_rules(self, name: str, outcome: Settled, where: Where) -> tuple[str, ...]:
        """The rule that is taken, or the ids that an agent chose, as the ports of edges."""
        match self._shape.steps[name].get("next"):
            case {"choose": list(closed)}:
                given = outcome.value if isinstance(outcome.value, list) else [outcome.value]
                if strange := [one for one in given if one is not None and one not in closed]:
                    self._stops.append(Failed(outcome.at, error("fatal", "unauthorized", f"{name} chose {strange[0]}")))
                return tuple(one for one in closed if one in given) or ("default",)
            case [{}, *_] as rules:
                for number, rule in enumerate(rules):
                    if port := self._rule(name, number, rule, outcome, where):
                        return (port,)
        return ()

    def _rule(self, name: str, number: int, rule: dict[str, Json], outcome: Settled, where: Where) -> str:
        if "when" in rule and not self._reader.holds(rule["when"], outcome.at, where.naming(self=outcome.value)):
            return ""
        heads = [head for head in self._where.stays if head in targets(rule.get("to"))]
        if heads and "max" in rule:
            used = self._where.stays[heads[0]]
            if used[name, number] >= rule["max"]:
                return f"{number}!" if "on_max" in rule else ""
            used[name, number] += 1
        return str(number)


def _by_port(edge: Edge, port: str) -> bool:
    match edge.how:
        case "after":
            return port not in FAILING
        case "always":
            return port not in AT_ALL
        case "port":
            return edge.port == port or (edge.port == "done" and port == "success")
    return False
