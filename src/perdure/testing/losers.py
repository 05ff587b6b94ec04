"""Losers in random programs: branches that receive messages, do this or that, and lose; then what they have not used is received again.

Such a race is put between the nodes of a sequence, wherever that stands, but for losing branches. Where it depends on what the loser has done by
then, its winner waits for longer than any fault takes; that is done once in a program at most, and not in turns or items.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from perdure.testing import nodes as n
from perdure.testing.nodes import Node, Program

LOSERS_MAX = 4
"""How many such races are put into a program at most."""

HOUR_S = 3600.0


def with_losers(program: Program, rng: Random) -> Program:
    """The program with races that are lost by who received messages: at least one, in its own sequence."""
    losers = _Losers(rng)
    root = losers.within(program.root, _Place())
    return replace(program, root=n.Sequence((losers.race(_Place()), root)))


class _Place(NamedTuple):
    """Where a race will stand: whether it runs once."""

    once: bool = True


class _Losers:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._count = self._names = 0
        self._waited = False

    def within(self, node: Node, place: _Place) -> Node:
        """The node, with races in the sequences in it."""
        match node:
            case n.Sequence(nodes, fixed=False):
                return n.Sequence(tuple(self._between([self.within(one, place) for one in nodes], place)))
            case n.Guard(body) | n.Call(body=body):
                return replace(node, body=self.within(body, place))
            case n.Map(body=body) | n.Loop(body=body):
                return replace(node, body=self.within(body, _Place(once=False)))
            case n.Join(branches):
                return replace(node, branches={name: self.within(body, place) for name, body in branches.items()})
        return node

    def _between(self, nodes: list[Node], place: _Place) -> list[Node]:
        there: list[Node] = []
        for node in nodes:
            if self._count < LOSERS_MAX and self._rng.random() < 0.2:
                there.append(self.race(place))
            there.append(node)
        return there

    def race(self, place: _Place) -> Node:
        """A race that is lost by who received messages, and what they come to: that is the value of the whole."""
        self._count += 1
        if place.once and not self._waited and self._rng.random() < 0.7:
            self._waited = True
            return self._used()
        return self._unused()

    def _unused(self) -> Node:
        """The loser has used nothing, however far it came."""
        name, count = self._name("m"), self._rng.randint(1, 3)
        winner = self._rng.choice((n.Sleep(0.5), n.Sleep(2.0), n.Sleep(2.0), self._step()))
        return self._sequence(*self._sends(name, count), self._race(self._idle(name), winner), n.Gather(name, count, HOUR_S))

    def _idle(self, name: str) -> Node:
        """What receives messages and uses none."""
        heard = self._rng.choice((n.Listen(name), n.Listen(name), n.Gather(name, 2)))
        forms: list[Callable[[], Node]] = [
            lambda: self._sequence(heard, self._record(), self._never()),
            lambda: self._sequence(heard, self._record(), n.Listen(name), self._record(), self._never()),
            lambda: n.Join({"a": heard, "b": self._never()}),
            lambda: self._sequence(n.Race({"a": heard, "b": self._never()}), self._record(), self._never()),
            lambda: self._sequence(n.Join({"a": heard, "b": self._record()}), self._never()),
            lambda: self._sequence(heard, n.Raise()),
            lambda: self._sequence(heard, n.Step(self._name("s"), n.Hangs())),
            lambda: n.Loop(self._name("l"), 2, self._sequence(heard, self._record(), self._never())),
        ]
        return self._rng.choice(forms)()

    def _used(self) -> Node:
        """The loser has used some, and has had the time for it."""
        name, gate, count = self._name("m"), self._name("m"), self._rng.randint(2, 4)
        waits = n.Gather(gate, 2, HOUR_S)  # one comes, the other never
        return self._sequence(*self._sends(name, count), *self._sends(gate, 1), self._race(self._busy(name), waits), n.Gather(name, count, HOUR_S))

    def _busy(self, name: str) -> Node:
        """What receives messages and uses some of them."""
        heard, use = n.Listen(name), self._use()
        forms: list[Callable[[], Node]] = [
            lambda: self._sequence(heard, use, self._never()),
            lambda: self._sequence(heard, use, heard, self._record(), self._never()),
            lambda: self._sequence(heard, self._record(), heard, self._record(), use, self._never()),
            lambda: self._sequence(heard, n.Join({"a": use, "b": n.Sleep(0.5)}), self._never()),
            lambda: self._sequence(n.Join({"a": heard, "b": n.Sleep(0.5)}), use, self._never()),
            lambda: n.Join({"a": self._sequence(heard, use, self._never()), "b": self._never()}),
            lambda: n.Join({"a": self._sequence(heard, self._record(), self._never()), "b": self._sequence(n.Sleep(2.0), use, self._never())}),
            lambda: self._sequence(heard, use, n.Raise()),
            lambda: n.Loop(self._name("l"), 9, heard, self._rng.choice(({}, {"commit_every": 2}, {"commit_every": 3, "keep": 1}))),
            lambda: n.Loop(self._name("l"), 9, self._sequence(heard, use, heard), {"keep": 1}),
        ]
        return self._rng.choice(forms)()

    def _use(self) -> Node:
        """What uses up the messages that were received before."""
        uses: list[Callable[[], Node]] = [
            self._step,
            lambda: n.Attempt(n.Step(self._name("s"), n.Fails("RuntimeError"), tries=2)),
            lambda: n.Call(self._name("child"), self._step()),
            lambda: n.Approve(f"{self._name('a')}?", 1.0, approves=True),
            lambda: n.Send(self._name("m"), 1),
        ]
        return self._rng.choice(uses)()

    def _record(self) -> Node:
        """What only waits or records."""
        records: list[Callable[[], Node]] = [
            lambda: n.Sleep(self._rng.choice((0.0, 0.5))),
            lambda: n.Keep(self._name("k"), 1),
            lambda: n.Tell(self._name("t"), 2),
            lambda: n.Gate(self._name("g"), 2),
            lambda: n.Listen(self._name("never"), 0.5, (None,)),
        ]
        return self._rng.choice(records)()

    def _never(self) -> Node:
        return self._rng.choice((n.Listen(self._name("never")), n.Sleep(100 * 365 * 86_400.0)))

    def _step(self) -> n.Step:
        return n.Step(self._name("s"), n.Answers(self._rng.randint(0, 9), self._rng.choice((0, 0, 1))))

    def _race(self, loser: Node, winner: Node) -> Node:
        branches = [loser, winner]
        self._rng.shuffle(branches)
        return n.Race(dict(zip("ab", branches, strict=True)))

    def _sends(self, name: str, count: int) -> list[Node]:
        return [n.Send(name, number) for number in range(count)]

    def _sequence(self, *nodes: Node) -> n.Sequence:
        return n.Sequence(nodes, fixed=True)

    def _name(self, prefix: str) -> str:
        """A name that the program does not have yet."""
        self._names += 1
        return f"{prefix}{self._names} lost"
