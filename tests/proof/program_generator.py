"""Random workflow programs: `generate` makes them, `as_workflow` runs them on a real context, `oracle.predict` says what must come of them.

Every program ends, and its result does not depend on when things happen: steps that are interrupted and run again, and delays
of some minutes, change nothing. So a listen with a timeout waits for a message that is sent before the start, or for one that
never comes; at most one branch of a race can return within a century; messages of one name have one sender and one receiver at
a time; a step that recovers fails fewer times than it has tries.
"""

from collections.abc import Callable, Collection
from itertools import product
from random import Random
from typing import Literal, NamedTuple, TypeVar, get_args

import msgspec

from tests.proof import program_nodes as n
from tests.proof.program_interpreter import Child, ProgramWorld, as_workflow, children
from tests.proof.program_nodes import Json, Message, Node, Program

T = TypeVar("T")

__all__ = ["Child", "Program", "ProgramWorld", "as_workflow", "children", "generate"]

CENTURY_S = 100 * 365 * 86_400.0
HOUR_S = 3600.0
DEPTH_MAX = 4
"""How deep branches, items, turns and children are nested at most; what loses a race may go one deeper."""
TIMES_MAX = 40
"""How often one node is run at most, in turns of loops and items of maps."""

VALUES: tuple[Json, ...] = (None, True, 0, -1, 7, 1 << 40, 0.5, "", "text", "ü\n🜁", [], [1, [None]], {}, {"a": {"b": [False]}})


def generate(rng: Random, size: int, without: Collection[type] = ()) -> Program:
    """A program of about `size` nodes, at most twice as many and 8 more.

    It has no nodes of the kinds in `without`; steps, sequences and guards can't be left out. The same `rng` gives the same program in every process.
    """
    generator = _Generator(rng, without)
    root = generator.sequence(max(size, 2), _Place())
    return Program(root, tuple(sorted(generator.messages, key=lambda message: message.at_s)))


class _Place(NamedTuple):
    """Where a node will stand: how deep, how often it runs, in how many turns and in which items, whether failing is caught, whether in a child."""

    depth: int = 0
    times: int = 1
    turns: int = 1
    items: tuple[int, ...] = ()
    guarded: bool = False
    child: bool = False

    def within(self, guarded: bool | None = None) -> "_Place":
        return self._replace(depth=self.depth + 1, guarded=self.guarded if guarded is None else guarded)


class _Generator:
    def __init__(self, rng: Random, without: Collection[type]) -> None:
        self.messages: list[Message] = []
        self._rng = rng
        self._numbers = 0
        leaves: list[tuple[int, Callable[[_Place], Node], tuple[type, ...]]] = [
            (9, self._good_step, ()),
            (4, self._bad_step, ()),
            (2, self._attempt, (n.Attempt,)),
            (2, self._sleep, (n.Sleep,)),
            (3, self._listen, (n.Listen,)),
            (2, self._gather, (n.Gather,)),
            (2, self._keep, (n.Keep,)),
            (1, self._tell, (n.Tell,)),
            (1, lambda place: self._guarded(n.Raise(), place), (n.Raise,)),
            (1, self._approve, (n.Approve,)),
            (1, self._gate, (n.Gate,)),
        ]
        composites: list[tuple[int, Callable[[int, _Place], Node], tuple[type, ...]]] = [
            (4, self.sequence, ()),
            (1, lambda size, place: n.Guard(self.node(size - 1, place._replace(guarded=True))), ()),
            (4, self._join, (n.Join,)),
            (3, self._map, (n.Map,)),
            (3, self._race, (n.Race,)),
            (1, self._lost_race, (n.Race,)),
            (3, self._loop, (n.Loop,)),
            (1, self._long_loop, (n.Loop,)),
            (1, self._together, (n.Together,)),
            (2, self._call, (n.Call,)),
            (1, self._send_then_listen, (n.Send, n.Listen)),
            (1, self._send_to_sibling, (n.Send, n.Listen, n.Join)),
            (1, self._send_and_lose, (n.Send, n.Listen, n.Race)),
        ]
        self._leaves = [(weight, make) for weight, make, kinds in leaves if not set(kinds) & set(without)]
        self._composites = [(weight, make) for weight, make, kinds in composites if not set(kinds) & set(without)]
        self._without = without

    def node(self, size: int, place: _Place) -> Node:
        if size <= 1 or place.depth >= DEPTH_MAX:
            return self._drawn(self._leaves)(place)
        return self._drawn(self._composites)(size, place)

    def sequence(self, size: int, place: _Place) -> Node:
        """Two to five nodes, one after the other."""
        return n.Sequence(tuple(self.node(share, place) for share in self._shares(size - 1, 2, 5)))

    def _drawn(self, weighted: list[tuple[int, T]]) -> T:
        return self._rng.choices([made for _, made in weighted], [weight for weight, _ in weighted])[0]

    def _shares(self, size: int, least: int, most: int) -> list[int]:
        """`size`, cut at random into `least` to `most` parts of at least 1."""
        count = min(self._rng.randint(least, most), max(size, least))
        cuts = sorted(self._rng.randint(0, max(size - count, 0)) for _ in range(count - 1))
        ends = [*cuts, max(size - count, 0)]
        return [1 + end - start for start, end in zip([0, *cuts], ends, strict=True)]

    def _name(self, prefix: str) -> str:
        self._numbers += 1
        return f"{prefix}{self._numbers}"

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def _value(self) -> Json:
        return self._rng.choice(VALUES)

    def _guarded(self, node: Node, place: _Place) -> Node:
        """A node that may fail, mostly in a guard where nobody else would catch it."""
        return n.Guard(node) if self._chance(0.3 if place.guarded else 0.9) else node

    # leaves

    def _good_step(self, place: _Place) -> n.Step:
        rng = self._rng
        sync, failures = self._chance(0.2), rng.choice((0, 0, 0, 0, 1, 2))
        duration_s = 0.0 if sync else rng.choice((0.0, 0.0, 0.0, 0.5, 2.0, 30.0, 600.0))
        timeout_s = None if duration_s > 2 or self._chance(0.6) else rng.choice((5.0, 60.0))
        padding_chars = rng.choice((1000, 70_000)) if self._chance(0.04) else 0
        tries = rng.choice((None, None, None, failures + 1, 6))
        behaviour = n.Answers(self._value(), failures, duration_s, padding_chars)
        return n.Step(self._name("s"), behaviour, self._form(), tries, timeout_s, sync, self._chance(0.3), self._undo(place))

    def _undo(self, place: _Place) -> Literal["", "done", "in_doubt"]:
        """When a step is undone: in children, which may fail by themselves."""
        return self._rng.choice(("", "done", "in_doubt")) if place.child and self._chance(0.5) else ""

    def _form(self) -> n.Form:
        return self._rng.choice(get_args(n.Form))

    def _failing(self) -> n.Step:
        """A step that fails."""
        rng = self._rng
        behaviour = rng.choice((n.Fails(rng.choice(list(n.ERRORS))), n.GivesUp(), n.Hangs()))
        timeout_s = 5.0 if isinstance(behaviour, n.Hangs) else rng.choice((None, None, 60.0))
        sync = not isinstance(behaviour, n.Hangs) and self._chance(0.2)
        return n.Step(self._name("s"), behaviour, self._form(), rng.choice((None, None, None, 1, 2, 4)), timeout_s, sync)

    def _bad_step(self, place: _Place) -> Node:
        return self._guarded(self._failing(), place)

    def _attempt(self, place: _Place) -> Node:
        return n.Attempt(self._good_step(place) if self._chance(0.3) else self._failing())

    def _sleep(self, place: _Place) -> Node:
        """A sleep that is long only where it happens once: an engine that polls makes much work of a day."""
        long = (60.0, 600.0, HOUR_S, HOUR_S, 24 * HOUR_S) if place.times == 1 else ()
        return n.Sleep(self._rng.choice((0.0, 0.5, 2.0, 60.0, 600.0, *long)))

    def _keep(self, _: _Place) -> Node:
        return n.Keep(self._name("k"), self._value())

    def _tell(self, _: _Place) -> Node:
        return n.Tell(self._name("t"), self._value())

    def _approve(self, place: _Place) -> Node:
        """An approval that takes long only where there is one, as with sleeps."""
        return n.Approve(f"{self._name('a')}?", self._rng.choice((0.0, 2.0, *((600.0,) if place.times == 1 else ()))), self._chance(0.5))

    def _gate(self, _: _Place) -> Node:
        return n.Gate(self._name("g"), self._rng.randint(1, 3))

    def _listen(self, place: _Place) -> Node:
        name, rng = self._name("m"), self._rng
        if place.child or self._chance(0.3):
            timeout_s = rng.choice((1.0, 60.0, 600.0))
            return n.Listen(name, timeout_s, (self._value(),)) if self._chance(0.5) else self._guarded(n.Listen(name, timeout_s), place)
        sure = self._chance(0.5)
        self._post(name, place.turns, place, before=sure)
        return n.Listen(name, rng.choice((HOUR_S, 24 * HOUR_S)) if sure else None, (self._value(),) if sure and self._chance(0.5) else ())

    def _gather(self, place: _Place) -> Node:
        """Messages that are all there before the start, or come one by one long before the timeout; in the last turn some may be missing."""
        name, limit = self._name("m"), self._rng.randint(1, 4)
        if place.child:
            return n.Gather(name, limit, 60.0)
        timeout_s = self._rng.choice((None, HOUR_S))
        missing = self._rng.randint(0, limit if timeout_s else limit - 1)
        self._post(name, place.turns * limit - missing, place, before=timeout_s is None and limit > 1)
        return n.Gather(name, limit, timeout_s)

    def _post(self, name: str, count: int, place: _Place, before: bool) -> None:
        """Send so many messages from outside, to each item of the maps around; some of them twice."""
        rng = self._rng
        for items in product(*map(range, place.items)):
            for _ in range(count):
                at_s = 0.0 if before else rng.choice((0.0, 0.0, 1.0, 10.0, 60.0, float(rng.randint(0, 600))))
                message = Message(at_s, name + "".join(f"[{item}]" for item in items), self._value(), f"key {self._name('')}")
                self.messages += [message, message._replace(at_s=at_s + rng.choice((0.0, 1.0, 600.0)))] if self._chance(0.15) else [message]

    # composites

    def _join(self, size: int, place: _Place) -> Node:
        catch = self._chance(0.8 if place.guarded else 0.95)
        shares = self._shares(size - 1, 1, 4)
        return n.Join({name: self.node(share, place.within(guarded=True)) for name, share in zip("abcd", shares, strict=False)}, catch)

    def _map(self, size: int, place: _Place) -> Node:
        count = self._rng.randint(0, min(4, TIMES_MAX // place.times))
        inside = place.within(guarded=True)._replace(times=place.times * max(count, 1), items=(*place.items, count))
        limit = self._rng.choice((None, 1, 2, 10))
        return n.Map(tuple(self._value() for _ in range(count)), self.node(size - 1, inside), limit, self._chance(0.8 if place.guarded else 0.95))

    def _loop(self, size: int, place: _Place) -> Node:
        return self._turns(self._rng.randint(1, min(6, TIMES_MAX // place.times)), size, place)

    def _long_loop(self, _: int, place: _Place) -> Node:
        return self._turns(self._rng.randint(1, min(30, TIMES_MAX // place.times)), 1, place)

    def _turns(self, turns: int, size: int, place: _Place) -> Node:
        rng = self._rng
        options = {option: rng.randint(1, 5) for option in ("commit_every", "keep", "trim_every") if self._chance(0.5)}
        inside = place.within()._replace(times=place.times * turns, turns=place.turns * turns)
        return n.Loop(self._name("l"), turns, self.node(size - 1, inside), options)

    def _together(self, size: int, place: _Place) -> Node:
        steps = [self._good_step(place) for _ in range(min(size, self._rng.randint(1, 4)))]
        light = [msgspec.structs.replace(step, behaviour=n.Answers(self._value(), failures=self._rng.randint(0, 1)), tries=None) for step in steps]
        return n.Together((*light, n.Sleep(2.0)) if n.Sleep not in self._without else tuple(light))

    def _call(self, size: int, place: _Place) -> Node:
        inside = place.within()._replace(turns=1, items=(), child=True)
        undo = place.child and self._chance(0.5)
        return self._guarded(n.Call(self._name("child"), self.node(size - 1, inside), undo), place)

    def _race(self, size: int, place: _Place) -> Node:
        """One branch that returns, and up to three that don't."""
        losers = [self._loser(place) for _ in range(self._rng.randint(1, max(1, min(3, size // 4))))]
        winner = self._good_step(place) if self._chance(0.3) else n.Guard(self.node(size - 1 - len(losers), place.within(guarded=True)))
        return n.Race(self._shuffled([winner, *losers]))

    def _lost_race(self, _: int, place: _Place) -> Node:
        catch = self._chance(0.7)
        race = n.Race({name: self._failure() for name in "abc"[: self._rng.randint(1, 3)]}, catch)
        return race if catch else self._guarded(race, place)

    def _shuffled(self, branches: list[Node]) -> dict[str, Node]:
        self._rng.shuffle(branches)
        return dict(zip("abcd", branches, strict=False))

    def _loser(self, place: _Place) -> Node:
        """A branch that fails, or does a few things and then waits for ever."""
        leaves: list[tuple[int, Callable[[_Place], Node], type]] = [(2, self._good_step, n.Step), (1, self._keep, n.Keep), (1, self._tell, n.Tell)]
        harmless = self._drawn([(weight, make) for weight, make, kind in leaves if kind not in self._without])
        forms: list[tuple[int, Callable[[], Node]]] = [
            (6, self._never),
            (2, self._failure),
            (2, lambda: n.Sequence((harmless(place), self._never()))),
            (1, lambda: n.Join({"a": self._never(), "b": self._failure()})),
            (1, lambda: n.Map((1, 2), self._never())),
            (1, lambda: n.Race({"a": self._failure(), "b": self._never()})),
            (1, lambda: n.Loop(self._name("l"), 2, n.Sequence((harmless(place), self._never())))),
        ]
        kinds = (None, None, None, n.Join, n.Map, None, n.Loop)
        return self._drawn([form for form, kind in zip(forms, kinds, strict=True) if kind not in self._without])()

    def _never(self) -> Node:
        """Something that does not end in a century."""
        hangs = n.Step(self._name("s"), n.Hangs(), self._form())
        nodes: list[Node] = [hangs, n.Sleep(CENTURY_S * self._rng.randint(1, 3)), n.Listen(self._name("never"))]
        return self._rng.choice([node for node in nodes if type(node) not in self._without])

    def _failure(self) -> Node:
        failures: list[Node] = [self._failing(), self._failing(), n.Raise(), n.Listen(self._name("never"), self._rng.choice((1.0, 60.0)))]
        return self._rng.choice([node for node in failures if type(node) not in self._without])

    # messages that the program sends to itself

    def _send_then_listen(self, size: int, place: _Place) -> Node:
        name, between = self._name("m"), self.node(size - 2, place)
        if self._chance(0.3) and n.Gather not in self._without:
            return n.Sequence((n.Send(name, self._value()), between, n.Send(name, self._value()), n.Gather(name, 2, HOUR_S)))
        return n.Sequence((n.Send(name, self._value()), between, n.Listen(name)))

    def _send_to_sibling(self, size: int, place: _Place) -> Node:
        """One branch sends, the other listens and perhaps answers, each after a while."""
        there, back = self._name("m"), self._name("m")
        sender: list[Node] = [n.Send(there, self._value())]
        receiver: list[Node] = [n.Listen(there)]
        if self._chance(0.5):
            sender.append(n.Listen(back))
            receiver.append(n.Send(back, self._value()))
        if size >= 6:
            delayed = self._rng.choice((sender, receiver))
            delayed.insert(0, n.Guard(self.node(size - 5, place.within(guarded=True))))
        return n.Join(self._shuffled([n.Sequence(tuple(sender)), n.Sequence(tuple(receiver))]))

    def _send_and_lose(self, _: int, place: _Place) -> Node:
        """A branch that sends and then waits for ever loses to the one that listens."""
        name = self._name("m")
        return n.Race(self._shuffled([n.Sequence((n.Send(name, self._value()), self._never())), n.Listen(name)]))
