"""Changes: a program with places that deploys change, each by a gate or a mark of what was removed. What comes of it depends on none of them.

A change is put between the nodes of a sequence, wherever that stands: in branches that win or lose, items, turns, children.
"""

from random import Random
from typing import Literal, NamedTuple

from msgspec.structs import replace

from perdure.testing import nodes as n
from perdure.testing.nodes import Node, Program

CHANGES_MAX = 12
"""How many places of a program are changed at most."""


def changed(program: Program, rng: Random) -> Program:
    """The program with places that deploys change: at least one, in its own sequence."""
    changes = _Changes(rng)
    root = changes.within(program.root, _Place())
    if not changes.count:
        root = n.Sequence((changes.change(_Place()), root))
    return Program(root, program.messages)


class _Place(NamedTuple):
    """Where a change will stand: whether in a child, and whether in turns, which may be forgotten before they are undone."""

    child: bool = False
    turns: bool = False


class _Changes:
    def __init__(self, rng: Random) -> None:
        self.count = 0
        self._rng = rng
        self._names = 0

    def within(self, node: Node, place: _Place) -> Node:
        """The node, with changes in the sequences in it."""
        match node:
            case n.Sequence(nodes):
                return n.Sequence(tuple(self._between([self.within(one, place) for one in nodes], place)))
            case n.Guard(body) | n.Map(body=body):
                return replace(node, body=self.within(body, place))
            case n.Loop(body=body):
                return replace(node, body=self.within(body, place._replace(turns=True)))
            case n.Call(body=body):
                return replace(node, body=self.within(body, _Place(child=True)))
            case n.Join(branches) | n.Race(branches):
                return replace(node, branches={name: self.within(body, place) for name, body in branches.items()})
        return node

    def _between(self, nodes: list[Node], place: _Place) -> list[Node]:
        there: list[Node] = []
        for node in nodes:
            if self.count < CHANGES_MAX and self._rng.random() < 0.3:
                there.append(self.change(place))
            there.append(node)
        return there

    def change(self, place: _Place) -> Node:
        """A place that one deploy changes, or several."""
        self.count += 1
        if self._rng.random() < 0.4:
            return n.Removed(self._verb(place._replace(child=False)), self._rng.randint(1, 2))
        ways = tuple(self._way(place) for _ in range(self._rng.randint(2, 3)))
        return n.Changed(self._name("g"), ways)

    def _way(self, place: _Place) -> Node:
        """What does not fail, and takes a few seconds at most."""
        match self._rng.randint(0, 9):
            case 0:
                return n.Sequence(())
            case 1:
                return n.Sequence((self._verb(place), self._verb(place)))
            case 2:
                return n.Join({"a": self._verb(place), "b": self._verb(place)})
            case 3:
                return n.Tell(self._name("t"), self._rng.randint(0, 9))
            case 4:
                return n.Attempt(n.Step(self._name("s"), n.Fails("RuntimeError"), tries=2))
            case 5:
                return n.Approve(f"{self._name('a')}?", 1.0, approves=True)
            case _:
                return self._verb(place)

    def _verb(self, place: _Place) -> n.Verb:
        rng = self._rng
        match rng.randint(0, 7):
            case 0 | 1:
                return n.Sleep(rng.choice((0.0, 0.5, 2.0)))
            case 2:
                return n.Listen(self._name("never"), 1.0, (None,))
            case 3:
                return n.Keep(self._name("k"), rng.randint(0, 9))
            case 4:
                return n.Call(self._name("child"), self._step(_Place()))
            case _:
                return self._step(place)

    def _step(self, place: _Place) -> n.Step:
        rng = self._rng
        undo: Literal["", "done", "in_doubt"] = rng.choice(("", "done", "in_doubt")) if place.child and not place.turns else ""
        behaviour = n.Answers(rng.randint(0, 9), rng.choice((0, 0, 1)), rng.choice((0.0, 0.0, 0.5, 4.0)))
        return n.Step(
            self._name("s"), behaviour, rng.choice(("plain", "declared", "named", "renamed")), sync=not behaviour.duration_s and rng.random() < 0.3, undo=undo
        )

    def _name(self, prefix: str) -> str:
        """A name that the program does not have yet."""
        self._names += 1
        return f"{prefix}{self._names} since"
