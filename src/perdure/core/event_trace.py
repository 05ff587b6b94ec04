"""Describes the events of an execution in words, a line each, for people who look at its log or debug a failing test."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from perdure.core import events as e
from perdure.core.operations import (
    CallOperation,
    Failure,
    KeepOperation,
    Operation,
    Outcome,
    ReceiveOperation,
    SendOperation,
    SleepOperation,
    SpawnOperation,
    Success,
)
from perdure.core.paths import Path, path_text
from perdure.core.values import Blob, Value

SHOWN_MAX = 100
"""How many characters of a value are shown."""


class TraceLine(NamedTuple):
    """An event at `at_s` (seconds since 1970), and its operation; an empty `subject` is the execution itself."""

    at_s: float
    subject: str
    said: str

    def since(self, start_s: float) -> str:
        """The line, with the time since `start_s`."""
        return f"{time_offset(self.at_s - start_s):>14}  {self.subject:<24} {self.said}".rstrip()


class EventTracer:
    """Describes the events of one execution, which must be passed in order. Values of users are left out unless it `shows_values`."""

    def __init__(self, shows_values: bool = True) -> None:
        self._shows_values = shows_values
        self._at_s = 0.0
        self._ops: dict[Path, Operation] = {}

    def describe(self, row: Sequence[e.Event]) -> Iterator[TraceLine]:
        """Describes events; some have no line."""
        for event in row:
            self._at_s = getattr(event, "at_s", self._at_s)
            said = self._given(event) or self._asked(event)
            if said:
                yield TraceLine(self._at_s, path_text(getattr(event, "path", ())), said)

    def _given(self, event: e.Event) -> str:
        match event:
            case e.StartedEvent(input=value):
                return f"started with ({self._arguments(value)})" if self._shows_values else "started"
            case e.MessageArrivedEvent(name=name, body=body):
                return f"message {name} arrived{self._shown(body, ': ')}"
            case e.MessageRefusedEvent(name=name):
                return f"message {name} was refused: the mailbox is full"
            case e.ReceivedEvent(numbers=numbers):
                return f"received {len(numbers)} {'message' if len(numbers) == 1 else 'messages'}"
            case e.SettledEvent(path, outcome):
                return self._settled(self._ops.get(path), outcome)
            case e.RecalledEvent():
                return "recalled from the original"
            case e.RetryingEvent(_, attempt, kind, error, due_at_s, at_s):
                return f"attempt {attempt} {'failed' if kind == 'failed' else kind}: {error.line}; again in {time_offset(due_at_s - at_s)}"
            case e.InterruptedEvent(_, attempt, given_back=given_back):
                return f"attempt {attempt} was {'given back' if given_back else 'lost with its process'}"
            case e.AttemptStartedEvent(_, attempt):
                return f"attempt {attempt} begins"
        return self._life(event)

    def _life(self, event: e.Event) -> str:
        match event:
            case e.CancellingEvent(reason=reason, deadline=deadline):
                return f"{'deadline exceeded' if deadline else 'cancelled'}{reason and f': {reason}'}; it unwinds"
            case e.StoppedEvent():
                return "has not unwound within its grace, and is stopped"
            case e.UndoingEvent(reason=reason):
                return f"is to be undone{reason and f': {reason}'}"
            case e.ParkedEvent(reason, _, detail):
                return f"{'paused' if reason == 'paused' else f'needs attention ({reason})'}{''.join(f': {one}' for one in detail)}"
            case e.ResumedEvent():
                return "resumed"
            case e.EvictedEvent(reason=reason):
                return f"evicted{reason and f': {reason}'}"
            case e.ReopenedEvent():
                return "retried"
            case e.SnapshotEvent():
                return "its log was compacted; earlier events are not shown"
            case e.EndedEvent(status, outcome):
                return f"{status}{f': {outcome.error.line}' if isinstance(outcome, Failure) else self._shown(outcome.value, ' with ')}"
        return ""

    def _asked(self, event: e.Event) -> str:
        match event:
            case e.OpenedEvent(path, op):
                self._ops[path] = op
                return self._opened(op)
            case e.DroppedEvent():
                return "is no longer needed"
        return ""

    def _opened(self, op: Operation) -> str:
        match op:
            case CallOperation(target, args):
                return f"attempt 1 begins: {target}({self._arguments(args)})"
            case SleepOperation(duration_s, until_s):
                return f"sleeps for {time_offset(duration_s)}" if duration_s is not None else f"sleeps until {until_s}"
            case ReceiveOperation(names=names, timeout_s=timeout_s):
                return f"waits for {', '.join(names)}{'' if timeout_s is None else f' for {time_offset(timeout_s)} at most'}"
            case SpawnOperation(workflow, input=value, awaited=awaited):
                return f"{'calls' if awaited else 'starts'} {workflow}({self._arguments(value)})"
            case SendOperation(to, name, body):
                return f"sends {name} to {to}{self._shown(body, ': ')}"
            case KeepOperation(value, role, label):
                return self._kept(value, role, label)

    def _settled(self, op: Operation | None, outcome: Outcome) -> str:
        if isinstance(outcome, Success):
            return "is over" if isinstance(op, SleepOperation) else f"returned{self._shown(outcome.value, ' ')}"
        if isinstance(op, ReceiveOperation):
            return "nothing came in time"
        return f"failed for good ({outcome.kind}): {outcome.error.line}"

    def _kept(self, value: Value, role: str, label: str) -> str:
        what = " ".join(filter(None, ("" if role == "value" else role, label)))
        return f"keeps {what}{self._shown(value, ' = ' if label else ' ' if what else '')}" if what or self._shows_values else "keeps a value"

    def _shown(self, value: Value, before: str) -> str:
        """A value behind the text `before`; nothing if values are left out."""
        return f"{before}{short_text(_plain(value))}" if self._shows_values else ""

    def _arguments(self, value: Value) -> str:
        if not self._shows_values:
            return "…"
        match _plain(value):
            case [[*args], {**named}]:
                return ", ".join([*map(short_text, args), *(f"{name}={short_text(one)}" for name, one in named.items())])
        return ""


def short_text(value: object) -> str:
    """A value as text, shortened to `SHOWN_MAX` characters."""
    shown = repr(value)
    return shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}…"


def time_offset(length_s: float) -> str:
    """A length of time: ``0:00:01.500``, ``3 days, 0:00:00``."""
    return str(timedelta(seconds=round(length_s, 3))).removesuffix("000")


def _plain(value: Value) -> Any:
    return f"<{value.size_bytes:,} bytes>" if isinstance(value, Blob) else msgspec.msgpack.decode(value)
