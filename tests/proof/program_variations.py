"""Changes to random programs: places that deploys change, each by a gate or a mark of what was removed, and queues. What comes of a program depends on neither.

A place that deploys change is put between the nodes of a sequence, wherever that stands: in branches that win or lose, items, turns, children.

Endings in random programs: executions that fail, are late, are cancelled, lose a race or return while steps of theirs are in flight.

Each is a child, put between the nodes of a sequence; what comes of it does not depend on how far its steps came. What is done and undone of them
is held to its log by the auditor.

Losers in random programs: branches that receive messages, do this or that, and lose; then what they have not used is received again.

Such a race is put between the nodes of a sequence, wherever that stands, but for losing branches. Where it depends on what the loser has done by
then, its winner waits for longer than any fault takes; that is done once in a program at most, and not in turns or items.
"""

from collections.abc import Callable
from random import Random
from typing import Literal, NamedTuple

from msgspec.structs import replace

from tests.proof import program_nodes as n
from tests.proof.program_nodes import Node, Program

CHANGES_MAX = 12
"""How many places of a program are changed at most."""


def changed(program: Program, rng: Random) -> Program:
    """The program with places that deploys change: at least one, in its own sequence."""
    changes = _Changes(rng)
    root = changes.within(program.root, _ChangePlace())
    if not changes.count:
        root = n.Sequence((changes.change(_ChangePlace()), root))
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


class _ChangePlace(NamedTuple):
    """Where a change will stand: whether in a child, and whether in turns, which may be forgotten before they are undone."""

    child: bool = False
    turns: bool = False


class _Changes:
    def __init__(self, rng: Random) -> None:
        self.count = 0
        self._rng = rng
        self._names = 0

    def within(self, node: Node, place: _ChangePlace) -> Node:
        """The node, with changes in the sequences in it."""
        match node:
            case n.Sequence(nodes, fixed=False):
                return n.Sequence(tuple(self._between([self.within(one, place) for one in nodes], place)))
            case n.Guard(body) | n.Map(body=body):
                return replace(node, body=self.within(body, place))
            case n.Loop(body=body):
                return replace(node, body=self.within(body, place._replace(turns=True)))
            case n.Call(body=body):
                return replace(node, body=self.within(body, _ChangePlace(child=True)))
            case n.Join(branches) | n.Race(branches):
                return replace(node, branches={name: self.within(body, place) for name, body in branches.items()})
        return node

    def _between(self, nodes: list[Node], place: _ChangePlace) -> list[Node]:
        there: list[Node] = []
        for node in nodes:
            if self.count < CHANGES_MAX and self._rng.random() < 0.3:
                there.append(self.change(place))
            there.append(node)
        return there

    def change(self, place: _ChangePlace) -> Node:
        """A place that one deploy changes, or several."""
        self.count += 1
        if self._rng.random() < 0.4:
            return n.Removed(self._verb(place._replace(child=False)), self._rng.randint(1, 2))
        ways = tuple(self._way(place) for _ in range(self._rng.randint(2, 3)))
        return n.Changed(self._name("g"), ways)

    def _way(self, place: _ChangePlace) -> Node:
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

    def _verb(self, place: _ChangePlace) -> n.Verb:
        rng = self._rng
        match rng.randint(0, 7):
            case 0 | 1:
                return n.Sleep(rng.choice((0.0, 0.5, 2.0)))
            case 2:
                return n.Listen(self._name("never"), 1.0, (None,))
            case 3:
                return n.Keep(self._name("k"), rng.randint(0, 9))
            case 4:
                return n.Call(self._name("child"), self._step(_ChangePlace()))
            case _:
                return self._step(place)

    def _step(self, place: _ChangePlace) -> n.Step:
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


LOSERS_MAX = 4
"""How many such races are put into a program at most."""

HOUR_S = 3600.0


def with_losers(program: Program, rng: Random) -> Program:
    """The program with races that are lost by who received messages: at least one, in its own sequence."""
    losers = _Losers(rng)
    root = losers.within(program.root, _RacePlace())
    return replace(program, root=n.Sequence((losers.race(_RacePlace()), root)))


class _RacePlace(NamedTuple):
    """Where a race will stand: whether it runs once."""

    once: bool = True


class _Losers:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._count = self._names = 0
        self._waited = False

    def within(self, node: Node, place: _RacePlace) -> Node:
        """The node, with races in the sequences in it."""
        match node:
            case n.Sequence(nodes, fixed=False):
                return n.Sequence(tuple(self._between([self.within(one, place) for one in nodes], place)))
            case n.Guard(body) | n.Call(body=body):
                return replace(node, body=self.within(body, place))
            case n.Map(body=body) | n.Loop(body=body):
                return replace(node, body=self.within(body, _RacePlace(once=False)))
            case n.Join(branches):
                return replace(node, branches={name: self.within(body, place) for name, body in branches.items()})
        return node

    def _between(self, nodes: list[Node], place: _RacePlace) -> list[Node]:
        there: list[Node] = []
        for node in nodes:
            if self._count < LOSERS_MAX and self._rng.random() < 0.2:
                there.append(self.race(place))
            there.append(node)
        return there

    def race(self, place: _RacePlace) -> Node:
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
            lambda: self._sequence(_of_known_count(heard), self._record(), n.Listen(name), self._record(), self._never()),
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


def _of_known_count(heard: n.Listen | n.Gather) -> n.Listen | n.Gather:
    """The same wait, for exactly so many messages. Without a timeout a wait for several ends as soon as one is there, so that what a later wait finds would
    depend on when the others came."""
    return replace(heard, timeout_s=HOUR_S) if isinstance(heard, n.Gather) else heard
