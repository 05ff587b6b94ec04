"""Loans: pieces of work that somebody outside of this process has for a while, and how each of them has ended.

A loan is open until it is answered, its time is over, or nobody wants its answer any more; what comes later is told which of these it was.
"""

import asyncio
from collections.abc import Callable
from hashlib import sha256
from math import inf
from typing import Any, Literal, NamedTuple

import msgspec

from perdure.core.mail import Ack, Mail
from perdure.core.masks import NO_MASK, Find, Mask
from perdure.core.messages import Work
from perdure.core.ops import Outcome
from perdure.core.paths import UNDO
from perdure.core.thread_calls import carried
from perdure.core.values import NOTHING, Blob
from perdure.runtime.beats import Beats
from perdure.runtime.payloads import Payloads
from perdure.runtime.perform import of_what_is_undone, payload
from perdure.runtime.secrets import revealed

LEASE_S, LEASE_MAX_S = 60.0, 3600.0
"""How long a borrower may be silent, unless it asks for another time; and for how long it may ask."""

WAIT_MAX_S = 30.0
"""How long a borrower may wait for work in one request."""

LIMIT_MAX = 100
"""How many pieces of work are lent in one request."""

PAST_MAX = 10_000
"""How many loans that have ended are remembered, to tell those who come late how."""

End = Literal["answered", "ran_out", "timed_out", "unwanted", "lost", "stopping", "given_back", "unknown"]


class Borrower(NamedTuple):
    """Who has loans: `owner` is how they have shown who they are, `name` what they call themselves."""

    owner: str
    name: str


class Gone(msgspec.Struct, frozen=True):
    """A loan is open no longer: how it ended, and in words."""

    end: End
    why: str


ENDS: dict[End, str] = {
    "answered": "it was answered otherwise before",
    "ran_out": "nothing was heard of it for longer than its lease, so it was given back, and may be with another worker",
    "timed_out": "the time that this try has is over",
    "unwanted": "nobody waits for it any more: the execution was cancelled, has ended, or goes on without it",
    "lost": "the process that had lent it has lost touch with the store, so it was given back, and may be with another worker",
    "stopping": "the process that had lent it is stopping, and has given it back",
    "given_back": "it was given back",
    "unknown": "there is no such loan here, or it is somebody else's; the process that had lent it may have ended",
}
UNKNOWN = Gone("unknown", ENDS["unknown"])


class Beat(msgspec.Struct, frozen=True):
    """What a borrower is told that says it is alive: whether the answer is still wanted, if not why, and for how long it may now be silent."""

    wanted: bool
    why: str = ""
    lease_s: float = 0.0


class Given(NamedTuple):
    """What is to be done with: the positional and the named arguments, and what the last try said of how far it was."""

    args: list[Any]
    named: dict[str, Any]
    progress: Any


class Loan:
    """A piece of work that is lent. `ended` is done when there is no use in going on with it, `cancelled` when nobody waits for it any more; between the
    two, it may still be answered. Times are the event loop's.

    Its borrower may be silent for `lease_s` (None: for as long as it likes), or for as long as the work itself says; this try has `left_s`.
    """

    __slots__ = (
        "answer",
        "beats",
        "borrower",
        "cancelled",
        "ended",
        "given",
        "id",
        "lease_s",
        "mail",
        "mask",
        "sent",
        "silent_until_s",
        "timer",
        "until_s",
        "until_store_s",
        "work",
    )

    def __init__(self, id: str, borrower: Borrower, mail: Mail, work: Work, lease_s: float | None, left_s: float = inf) -> None:
        loop = asyncio.get_running_loop()
        self.id, self.borrower, self.mail, self.work = id, borrower, mail, work
        times_s = [one_s for one_s in (lease_s, work.heartbeat_s) if one_s is not None]
        self.lease_s = min(times_s, default=inf)
        self.silent_until_s = loop.time() + self.lease_s
        self.until_s = loop.time() + left_s
        self.until_store_s: float | None = None
        self.given, self.mask = Given([], {}, None), NO_MASK
        self.ended: asyncio.Future[Gone] = loop.create_future()
        self.cancelled: asyncio.Future[Gone] = loop.create_future()
        self.answer: bytes | None = None
        self.sent: asyncio.Task[bool] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.beats: Beats | None = None

    @property
    def due_s(self) -> float:
        """When something becomes of it though nobody says anything."""
        return min(self.silent_until_s, self.until_s)

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for its answer, as far as is known."""
        return not self.cancelled.done()

    def cancel(self, end: "End") -> None:
        """Nobody waits for it any more."""
        if not self.cancelled.done():
            self.cancelled.set_result(Gone(end, ENDS[end]))

    @property
    def mark(self) -> Ack:
        """Its place in the mail."""
        return Ack(self.mail.to, self.mail.key)

    def alive(self) -> None:
        """Its borrower was heard."""
        self.silent_until_s = asyncio.get_running_loop().time() + self.lease_s


class Past(NamedTuple):
    """A loan that has ended: whose it was, how it ended, and what it was answered with."""

    borrower: Borrower
    gone: Gone
    answer: bytes | None


class Loans:
    """All loans of a process: those that are open, and the last of those that were."""

    def __init__(self) -> None:
        self.open: dict[str, Loan] = {}
        self.past: dict[str, Past] = {}

    def find(self, borrower: Borrower, id: str) -> Loan | Past | None:
        """The loan of this id, if it is the borrower's."""
        loan = self.open.get(id)
        if loan is not None:
            return loan if loan.borrower.owner == borrower.owner and borrower.name in ("", loan.borrower.name) else None
        past = self.past.get(id)
        return past if past is not None and past.borrower.owner == borrower.owner else None

    def end(self, loan: Loan, end: End) -> None:
        """A loan is open no longer."""
        if self.open.pop(loan.id, None) is None:
            return
        gone = Gone(end, ENDS[end])
        self.past[loan.id] = Past(loan.borrower, gone, loan.answer)
        while len(self.past) > PAST_MAX:
            del self.past[next(iter(self.past))]
        if loan.timer is not None:
            loan.timer.cancel()
        if loan.beats is not None:
            loan.beats.close()
        loan.cancel(end)
        if not loan.ended.done():
            loan.ended.set_result(gone)

    def watch(self, loan: Loan, due: Callable[[Loan], None]) -> None:
        """Have `due` called once nothing was heard of a loan for too long, or its time is over."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            if loop.time() >= loan.due_s:
                due(loan)
            else:
                self.watch(loan, due)

        loan.timer = None if loan.due_s == inf else loop.call_at(loan.due_s, look)


def fingerprint(outcome: Outcome) -> bytes:
    """What tells answers to a loan apart."""
    return sha256(msgspec.msgpack.encode(outcome)).digest()


async def given(work: Work, payloads: Payloads, find: Find) -> tuple[Given, Mask]:
    """What work is to be done with, as plain data with its secrets in their places, ready for whoever does it outside of this process: nothing else
    makes it so. With it, what hides those secrets in all that comes back.

    Raises:
        Undecodable, LogDamaged: it can't be read.
        MissingSecret: nothing finds a secret that it is to be given.
    """
    raw, mask = await payload(work.args, payloads), NO_MASK
    args, named = msgspec.msgpack.decode(raw)
    if work.path[:1] == (UNDO,) and not isinstance(named, dict):  # the handler of a step, whose result comes before its arguments
        raw = await of_what_is_undone(raw, payloads)
    if work.secrets:
        raw, mask = await asyncio.get_running_loop().run_in_executor(None, carried(revealed), raw, work.secrets, find)
    args, named = msgspec.msgpack.decode(raw)
    progress = None if work.progress == NOTHING or isinstance(work.progress, Blob) else msgspec.msgpack.decode(work.progress)
    return Given(args, named, progress), mask
