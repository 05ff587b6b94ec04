"""Finds the replies to messages in the log, and hands those that an engine has just committed to who waits for them in its process.

The message arrives in the log under a number, and the workflow completes it by keeping a value of that number.
"""

import asyncio
from collections.abc import Iterable, Sequence

from perdure.core import events as e
from perdure.core import messages, values
from perdure.core.errors import ErrorInfo, MessageRejected, NoReply
from perdure.core.events import ended_event_of
from perdure.core.operations import KeepOperation
from perdure.core.paths import Key
from perdure.core.values import Value


class ReplySearch:
    """Looks for the reply to one message in the log."""

    def __init__(self, key: Key, signal: messages.SignalMessage) -> None:
        self.reply: Value | None = None
        self._key, self._signal = key, signal
        self._number: int | None = None
        self._ended: e.EndedEvent | None = None

    @property
    def has_arrived(self) -> bool:
        """Whether the message is in the log."""
        return self._number is not None

    def take(self, row: Iterable[e.Event]) -> None:
        """Reads the events of a commit.

        Raises:
            NoReply: there will be no reply.
            MessageRejected: a validator has rejected the message.
        """
        for event in row:
            match event:
                case e.MessageArrivedEvent(number=number, key=key) if key == self._signal.key:
                    self._number = number
                case e.MessageRefusedEvent(key=key) if key == self._signal.key:
                    raise NoReply(self._key, self._signal.name, "its mailbox is full")
                case e.OpenedEvent(op=KeepOperation(value=bytes(value), role="reply", label=label, port="rejected")) if label == str(self._number):
                    raise MessageRejected(self._signal.name, values.decode(value, ErrorInfo, "a rejection"))
                case e.OpenedEvent(op=KeepOperation(value=value, role="reply", label=label)) if label == str(self._number):
                    self.reply = value
                    return
                case e.SnapshotEvent(keys=keys) if self._number is None and self._signal.key in dict(keys):
                    raise NoReply(self._key, self._signal.name, "it was handled in an iteration of a loop that is forgotten")
                case e.EndedEvent():
                    self._ended = event
                case e.RemovedEvent():
                    self._ended = ended_event_of(event)
                case e.ReopenedEvent():
                    self._ended = None
        if self._ended is not None:
            raise NoReply(self._key, self._signal.name, f"it has ended ({self._ended.status})")


def is_reply(event: e.Event) -> bool:
    """Whether an event has the reply to a message."""
    return isinstance(event, e.OpenedEvent) and isinstance(event.op, KeepOperation) and event.op.role == "reply"


class ReplyWait:
    """The wait for the reply to a message that was delivered to an execution in the engine of this process.

    `arrived` resolves when the message is durable, and `reply` with the reply; with None, the execution has left the engine, and the log has what is known.
    """

    def __init__(self, key: Key, signal: messages.SignalMessage) -> None:
        self.key = key
        self.arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.reply: asyncio.Future[Value | None] = asyncio.get_running_loop().create_future()
        self._search = ReplySearch(key, signal)

    def take(self, events: Sequence[e.Event]) -> None:
        """Reads the events of a commit of the execution."""
        if self.reply.done():
            return
        try:
            self._search.take(events)
        except (NoReply, MessageRejected) as error:
            self.reply.set_exception(error)
            self._end()
            return
        if self._search.has_arrived and not self.arrived.done():
            self.arrived.set_result(None)
        if self._search.reply is not None:
            self.reply.set_result(self._search.reply)

    def leave(self) -> None:
        """Ends the wait, because the execution has left the engine."""
        if not self.reply.done():
            self.reply.set_result(None)
        self._end()

    def _end(self) -> None:
        if not self.arrived.done():
            self.arrived.set_result(None)


class ReplyWaits:
    """The waits for replies in one engine, by execution."""

    def __init__(self) -> None:
        self._waits: dict[Key, list[ReplyWait]] = {}

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(self, wait: ReplyWait) -> None:
        """Adds a wait, until it is removed."""
        self._waits.setdefault(wait.key, []).append(wait)

    def remove(self, wait: ReplyWait) -> None:
        """Removes a wait."""
        waits = self._waits.get(wait.key, [])
        if wait in waits:
            waits.remove(wait)
        if not waits:
            self._waits.pop(wait.key, None)

    def take(self, key: Key, events: Sequence[e.Event]) -> None:
        """Hands the events of a commit to the waits for its execution."""
        for wait in self._waits.get(key, ()):
            wait.take(events)

    def leave(self, key: Key) -> None:
        """Ends the waits for an execution that leaves the engine."""
        for wait in self._waits.get(key, ()):
            wait.leave()
