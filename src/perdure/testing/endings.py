"""Endings in random programs: executions that fail, are late, are cancelled, lose a race or return while steps of theirs are in flight.

Each is a child, put between the nodes of a sequence; what comes of it does not depend on how far its steps came. What is done and undone of them
is held to its log by the auditor.
"""

from random import Random
from typing import Literal

from msgspec.structs import replace

from perdure.testing import nodes as n
from perdure.testing.nodes import Node, Program

ENDINGS_MAX = 2
"""How many endings are put into a program at most."""

CENTURY_S = 100 * 365 * 86_400.0


def with_endings(program: Program, rng: Random, queues: list[str]) -> Program:
    """The program with executions that end while steps are in flight, at least one. Some of these are done by workers, from `queues` if there are any.

    Without queues, such steps are also in flight beside the program itself: should it be cancelled, they are undone.
    """
    endings = _Endings(rng, queues)
    root = n.Sequence((endings.ending(), endings.within(program.root)))
    if not queues and rng.random() < 0.7:
        return replace(program, root=n.Beside(endings.steps(), n.Sequence((n.Sleep(0.5), root), fixed=True)))
    return replace(program, root=root)


class _Endings:
    def __init__(self, rng: Random, queues: list[str]) -> None:
        self._rng = rng
        self._queues = queues
        self._count = self._names = 0

    def within(self, node: Node) -> Node:
        """The node, with endings in the sequences in it; not in turns and items, nor in branches that may lose."""
        match node:
            case n.Sequence(nodes, fixed=False):
                return n.Sequence(tuple(self._between([self.within(one) for one in nodes])))
            case n.Guard(body) | n.Call(body=body):
                return replace(node, body=self.within(body))
            case n.Join(branches):
                return replace(node, branches={name: self.within(body) for name, body in branches.items()})
        return node

    def _between(self, nodes: list[Node]) -> list[Node]:
        there: list[Node] = []
        for node in nodes:
            if self._count < ENDINGS_MAX and self._rng.random() < 0.2:
                there.append(self.ending())
            there.append(node)
        return there

    def ending(self) -> Node:
        """A child that ends in one of the ways in which executions end."""
        self._count += 1
        rng, steps = self._rng, self.steps()
        a_while = n.Sleep(rng.choice((0.0, 0.5, 2.0)))
        match rng.choice(("failure", "failure", "sibling", "deadline", "cancel", "race", "return")):
            case "failure":
                return self._child(n.Beside(steps, self._fixed(a_while, n.Raise())))
            case "sibling":
                return self._child(n.Beside(steps, self._failing()))
            case "deadline":
                return self._child(n.Beside(steps, rng.choice((n.Sleep(CENTURY_S), n.Stubborn()))), deadline_s=rng.choice((0.5, 3.0)))
            case "cancel":
                waits = n.Call(self._name("child"), n.Beside(steps, n.Sleep(CENTURY_S)))
                return n.Race({"a": waits, "b": n.Sleep(rng.choice((0.5, 2.0)))})
            case "race":
                race = n.Race({"a": n.Beside(steps, n.Sleep(CENTURY_S)), "b": n.Sleep(rng.choice((0.5, 2.0)))})
                return self._child(self._fixed(race, a_while, n.Raise()) if rng.random() < 0.5 else race)
            case _:
                return self._child(n.Beside(steps, n.Sleep(rng.choice((0.5, 2.0)))))

    def _child(self, body: Node, deadline_s: float | None = None) -> Node:
        return n.Guard(n.Call(self._name("child"), body, deadline_s=deadline_s))

    def steps(self) -> tuple[n.Step, ...]:
        """Steps that are in flight for a while, or until they are interrupted."""
        return tuple(self._step() for _ in range(self._rng.randint(1, 3)))

    def _step(self) -> n.Step:
        rng = self._rng
        undo: Literal["", "done", "in_doubt"] = rng.choice(("", "done", "in_doubt", "in_doubt"))
        takes_s = rng.choice((0.0, 0.3, 1.0, 4.0, 40.0))
        queue = rng.choice(("", *self._queues))
        hangs = not queue and rng.random() < 0.3
        behaviour = n.Hangs() if hangs else n.Answers(rng.randint(0, 9), rng.choice((0, 0, 1)), takes_s)
        sync = not hangs and not takes_s and rng.random() < 0.5
        return n.Step(self._name("s"), behaviour, rng.choice(("declared", "named", "renamed")), None, None, sync, False, undo, queue, 0, self._grace_s())

    def _grace_s(self) -> float | None:
        return self._rng.choice((None, None, 0.0, 1.0, 5.0))

    def _failing(self) -> n.Step:
        return n.Step(self._name("s"), n.GivesUp(), undo=self._rng.choice(("", "done", "in_doubt")))

    def _fixed(self, *nodes: Node) -> n.Sequence:
        return n.Sequence(nodes, fixed=True)

    def _name(self, prefix: str) -> str:
        """A name that the program does not have yet."""
        self._names += 1
        return f"{prefix}{self._names} at the end"
