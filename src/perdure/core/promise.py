"""Promises: an operation while it is open, and what is kept of it once it has settled."""

from typing import Literal

import msgspec

from perdure.core.mailbox import Letter
from perdure.core.ops import Op, Outcome
from perdure.core.paths import Path
from perdure.core.values import NOTHING, Value

State = Literal["waiting", "performing", "retrying", "interrupted", "parked"]


class Promise(msgspec.Struct, gc=False):
    """An open operation. `attempt` numbers its tries, interrupted ones included; `failures` counts those that failed.

    `by` is the holder that performs the present try itself; at `due_s` time alone makes it go on; `events` counts what it takes in the log. The present
    try has until `until_s`; `progress` is what was said last of how far it is. One that nobody waits for any more may be answered until `grace_until_s`.
    """

    path: Path
    op: Op
    number: int
    opened_at_s: float
    state: State = "waiting"
    attempt: int = 1
    failures: int = 0
    interruptions: int = 0
    by: str | None = None
    due_s: float | None = None
    events: int = 1
    sent: int = 0
    until_s: float | None = None
    progress: Value = NOTHING
    grace_until_s: float | None = None

    @property
    def in_flight(self) -> bool:
        """Whether a try is being made, or waits on its queue."""
        return self.state in ("waiting", "performing")


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """A settled operation: its outcome, or the messages that it received, with the numbers of those that were completed since.

    `attempt` counts the tries that were begun; `events` what it takes in the log; `number` is its place in the order of opening.
    """

    op: Op
    outcome: Outcome | None
    letters: tuple[Letter, ...]
    opened_at_s: float
    at_s: float
    attempt: int
    events: int
    number: int = 0
    completed: tuple[int, ...] = ()
