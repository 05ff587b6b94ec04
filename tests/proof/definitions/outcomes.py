"""Moments, and what a step, a list or a cycle can come to: the words in which `sequential` and `passages` speak.

A moment is (seconds, round): work that takes no time ends in the next round of the same second.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from tests.proof.definitions.facts import Json, Place, Status
from tests.proof.definitions.shape import Step

Moment = tuple[float, int]
NEVER: Moment = (math.inf, 0)
SLACK_S = 0.05
"""What is nearer to each other than this may happen in either order."""


class DefinitionStuck(Exception):
    """The definition waits for what never comes, or does not end."""


class Settled(NamedTuple):
    """It ended by a port; at NEVER if it goes on for ever."""

    at: Moment
    port: str
    value: Json


class Failed(NamedTuple):
    """It failed; `error` is {type, message, kind}."""

    at: Moment
    error: dict[str, Json]


class Ended(NamedTuple):
    """The whole execution ended in it."""

    at: Moment
    status: Status
    value: Json


Outcome = Settled | Failed | Ended


class Where(NamedTuple):
    """The frames around something, the names that they give, and how often rules were taken in each present stay in a cycle, by its head."""

    place: Place = ()
    names: Mapping[str, Json] = {}
    stays: Mapping[str, Counter[tuple[str, int]]] = {}

    def within(self, frame: str, /, **names: Json) -> "Where":
        """A frame further in."""
        return self._replace(place=(*self.place, frame), names={**self.names, **names})

    def naming(self, /, **names: Json) -> "Where":
        """The same frame, with further names."""
        return self._replace(names={**self.names, **names})

    def staying(self, head: str) -> "Where":
        """A new stay in the cycle with this head."""
        return self._replace(stays={**self.stays, head: Counter()})


class Trace(NamedTuple):
    """Something that was: "work" (opened, and settled with a value or a failure), "step" (a step's result as others see it), "dead" (a step that never
    ran), "turn" (one of a repetition), "set" (a variable), "said" (a message to itself) or "emitted".
    """

    what: Literal["work", "step", "dead", "turn", "set", "said", "emitted"]
    name: str
    place: Place
    began: Moment
    ended: Moment
    value: Json = None
    failed: str = ""
    tries: int = 0
    skipped: bool = False


class Reader(Protocol):
    """Who reads steps."""

    trace: list[Trace]

    def step(self, step: Step, at: Moment, where: Where, routed: frozenset[str]) -> Outcome:
        """A step that fires at this moment, by the ports of which edges `routed` leave it."""

    def holds(self, condition: Json, at: Moment, where: Where) -> bool:
        """Whether a condition holds then and there."""

    def dead(self, name: str, at: Moment, where: Where) -> None:
        """A step is known never to run."""

    def first(self, mark: int, stops: Sequence[Outcome]) -> Outcome:
        """The first of what stops all that was traced since `mark`; the rest did not happen."""


def error(kind: str, type_: str, message: str = "") -> dict[str, Json]:
    """An error as steps see it."""
    return {"type": type_, "message": message, "kind": kind}


def after(at: Moment, seconds: float) -> Moment:
    """So much later; the next round if that is no time at all."""
    return (at[0] + seconds, 0) if seconds > 0 else (at[0], at[1] + 1)


def near(one: Moment, other: Moment) -> bool:
    """Whether two moments are so near to each other that nobody can say which is first, but not the same."""
    return one != other and math.isfinite(one[0]) and abs(one[0] - other[0]) < SLACK_S
