"""What is said about one execution of a definition, as plain data: what the world does to it, what is predicted to come of it, and what came of it.

Places: where something ran is a tuple of texts, one for each frame around it, outermost first: ``invite[3]`` within the fourth item of the step's `each`,
``poll~2`` within the third turn of its `repeat`, and the same with the head's id within a turn of a cycle.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

Json = Any
"""None, bool, int, float, str, list, or dict by str."""

Place = tuple[str, ...]
"""The frames around something, outermost first."""

Status = Literal["completed", "failed", "cancelled"]

WORK = frozenset(("tool", "task", "call", "approve", "listen", "emit", "sleep"))
"""The verbs that are opened and settle, of which an execution's log tells; all others are decided at once."""


class ScheduledMessage(NamedTuple):
    """A message to the execution: so long after its start, under this name."""

    at_s: float
    name: str
    body: Json


class Decision(msgspec.Struct, frozen=True):
    """What is decided about an approval so long after it was asked for; `by` is who."""

    after_s: float
    approved: bool
    form: Json = None
    by: str = "ada"
    comment: str = ""


class OutsideEvents(msgspec.Struct, frozen=True):
    """What the world does: the input, messages from outside, and decisions by the titles of approvals; no decision: nobody decides."""

    input: Mapping[str, Json] = {}
    messages: Sequence[ScheduledMessage] = ()
    decisions: Mapping[str, Decision] = {}


class Ran(msgspec.Struct, frozen=True):
    """One piece of work: of which step, where, what came of it, in how many tries.

    `failed` is the kind of its failure (exhausted, timeout, fatal), and `result` is then None. `tries` 0: not known. Of an approval only `approved` and
    `expired` are told.
    """

    step: str
    place: Place
    result: Json = None
    failed: str = ""
    tries: int = 0


class Undone(msgspec.Struct, frozen=True):
    """A piece of work that was undone, or `failed` to be: of which step, where it had run, and what it had come to."""

    step: str
    place: Place
    result: Json = None
    failed: bool = False


class Facts(msgspec.Struct, frozen=True):
    """What came of an execution: how it ended and with what, the pieces of work that settled, and what was undone, in the order in which that was done.

    `failed` is the kind of the error with which it failed. `emitted` are the items of its stream.
    """

    status: Status
    result: Json = None
    failed: str = ""
    ran: Sequence[Ran] = ()
    undone: Sequence[Undone] = ()
    emitted: Sequence[Json] = ()


class DefinitionPrediction(msgspec.Struct, frozen=True):
    """What must come of it: `facts`, and of `facts.undone` the numbers of those that may change places with their neighbour as they ended together.

    `doubts` say where it hangs on less than `sequential.SLACK_S`: then nothing is predicted. `ended_s` is how long it takes.
    """

    facts: Facts
    ended_s: float
    together: Sequence[int] = ()
    doubts: Sequence[str] = ()


class Runner(Protocol):
    """Whoever runs definitions, in virtual time, with the tools of `tools.behave`."""

    def run(self, definition: dict[str, Json], script: OutsideEvents) -> Facts:
        """Run `definition` to its end in the world of `script`; an error of the engine itself is raised."""
