"""Changes to random programs: places that deploys change, each by a gate or a mark of what was removed, and queues. What comes of a program depends on neither.

A place that deploys change is put between the nodes of a sequence, wherever that stands: in branches that win or lose, items, turns, children.
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
    return replace(program, root=root)


def queued(program: Program, rng: Random, lines: list[n.Line]) -> Program:
    """The program, some of whose steps and children, or itself, are put into these queues.

    A step that hangs for ever is not, as nobody would tell its worker to let go of it; and as whoever performs it itself is at work for as long,
    and takes a place that its own children may wait for, nothing of such a program begins in a queue of few places.
    """
    hangs = any(isinstance(node, n.Step) and isinstance(node.behaviour, n.Hangs) and node.timeout_s is None for node in n.walk(program.root))
    spacious = [line.name for line in lines if not hangs or (line.concurrency is None and line.per_key is None)]

    def perhaps(node: Node) -> Node:
        if not isinstance(node, n.Step | n.Call) or rng.random() < 0.4:
            return node
        priority = rng.choice((0, 0, 0, 5))
        if isinstance(node, n.Call):
            return replace(node, queue=rng.choice(spacious), priority=priority) if spacious else node
        waits = isinstance(node.behaviour, n.Hangs)
        if waits and node.timeout_s is None:
            return node
        timeout_s = node.timeout_s if waits else None  # the time that it waits in the queue counts
        return replace(node, queue=rng.choice(lines).name, priority=priority, timeout_s=timeout_s)

    return replace(program, root=n.rebuilt(program.root, perhaps), queue=rng.choice(["", *spacious]))


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
            case n.Sequence(nodes, fixed=False):
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
