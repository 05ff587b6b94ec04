"""Telling: the events of an execution in words, a line each, for people who look for what went wrong in a test."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from perdure.core import events as e
from perdure.core.ops import Call, Err, Keep, Ok, Op, Outcome, Receive, Send, Sleep, Spawn
from perdure.core.paths import Path, text
from perdure.core.values import Blob, Value

SHOWN_MAX = 100
"""How many characters of a value are shown."""


class Line(NamedTuple):
    """What happened at `at_s`, seconds since 1970: to which operation (empty: to the execution), and what."""

    at_s: float
    subject: str
    said: str

    def since(self, start_s: float) -> str:
        """As a line of a trace that began at `start_s`."""
        return f"{offset(self.at_s - start_s):>14}  {self.subject:<24} {self.said}".rstrip()


class Teller:
    """Tells the events of one execution, in their order."""

    def __init__(self) -> None:
        self._at_s = 0.0
        self._ops: dict[Path, Op] = {}

    def tell(self, row: Sequence[e.Event]) -> Iterator[Line]:
        """The lines of some events; some need none."""
        for event in row:
            self._at_s = getattr(event, "at_s", self._at_s)
            said = self._given(event) or self._asked(event)
            if said:
                yield Line(self._at_s, text(getattr(event, "path", ())), said)

    def _given(self, event: e.Event) -> str:
        match event:
            case e.Started(input=value):
                return f"started with ({self._arguments(value)})"
            case e.Arrived(name=name, body=body):
                return f"message {name} arrived: {self._shown(body)}"
            case e.Refused(name=name):
                return f"message {name} was refused: the mailbox is full"
            case e.Received(numbers=numbers):
                return f"received {len(numbers)} {'message' if len(numbers) == 1 else 'messages'}"
            case e.Settled(path, outcome):
                return self._settled(self._ops.get(path), outcome)
            case e.Recalled():
                return "remembered from before"
            case e.Retrying(_, attempt, kind, error, due_s, at_s):
                return f"try {attempt} {'failed' if kind == 'failed' else kind}: {error.type}: {error.message}; again in {offset(due_s - at_s)}"
            case e.Interrupted(_, attempt, given_back=given_back):
                return f"try {attempt} was {'given back' if given_back else 'lost with its process'}"
            case e.Tried(_, attempt):
                return f"try {attempt} begins"
        return self._life(event)

    def _life(self, event: e.Event) -> str:
        match event:
            case e.Cancelling(reason=reason, deadline=deadline):
                return f"{'deadline exceeded' if deadline else 'cancelled'}{reason and f': {reason}'}; it unwinds"
            case e.Stopped():
                return "has not unwound in its grace, and is stopped where it stands"
            case e.Undoing(reason=reason):
                return f"is to be undone{reason and f': {reason}'}"
            case e.Parked(reason, _, detail):
                return f"{'paused' if reason == 'paused' else f'needs attention ({reason})'}{''.join(f': {one}' for one in detail)}"
            case e.Resumed():
                return "resumed"
            case e.Evicted(reason=reason):
                return f"evicted{reason and f': {reason}'}"
            case e.Reopened():
                return "retried"
            case e.Snapshot():
                return "its log was compacted; what is before is not told"
            case e.Ended(status, outcome):
                return f"{status}{f': {outcome.error.type}: {outcome.error.message}' if isinstance(outcome, Err) else f' with {self._shown(outcome.value)}'}"
        return ""

    def _asked(self, event: e.Event) -> str:
        match event:
            case e.Opened(path, op):
                self._ops[path] = op
                return self._opened(op)
            case e.Dropped():
                return "is not wanted any more"
        return ""

    def _opened(self, op: Op) -> str:
        match op:
            case Call(target, args):
                return f"try 1 begins: {target}({self._arguments(args)})"
            case Sleep(duration_s, until_s):
                return f"sleeps for {offset(duration_s)}" if duration_s is not None else f"sleeps until {until_s}"
            case Receive(names=names, timeout_s=timeout_s):
                return f"waits for {', '.join(names)}{'' if timeout_s is None else f' for {offset(timeout_s)} at most'}"
            case Spawn(workflow, input=value, awaited=awaited):
                return f"{'calls' if awaited else 'starts'} {workflow}({self._arguments(value)})"
            case Send(to, name, body):
                return f"sends {name} to {to}: {self._shown(body)}"
            case Keep(value, role, label):
                return f"keeps {'' if role == 'value' else f'{role} '}{f'{label} = ' if label else ''}{self._shown(value)}"

    def _settled(self, op: Op | None, outcome: Outcome) -> str:
        if isinstance(outcome, Ok):
            return "is over" if isinstance(op, Sleep) else f"returned {self._shown(outcome.value)}"
        if isinstance(op, Receive):
            return "nothing came in time"
        return f"failed for good ({outcome.kind}): {outcome.error.type}: {outcome.error.message}"

    def _shown(self, value: Value) -> str:
        return short(_plain(value))

    def _arguments(self, value: Value) -> str:
        match _plain(value):
            case [[*args], {**named}]:
                return ", ".join([*map(short, args), *(f"{name}={short(one)}" for name, one in named.items())])
        return ""


def short(value: object) -> str:
    """A value as text, cut where it is too long."""
    shown = repr(value)
    return shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}…"


def offset(length_s: float) -> str:
    """A length of time: ``0:00:01.500``, ``3 days, 0:00:00``."""
    return str(timedelta(seconds=round(length_s, 3))).removesuffix("000")


def _plain(value: Value) -> Any:
    return f"<{value.size_bytes:,} bytes>" if isinstance(value, Blob) else msgspec.msgpack.decode(value)
