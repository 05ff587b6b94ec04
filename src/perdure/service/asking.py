"""Asking: a message to an execution, and the reply that its workflow gives by completing it.

The reply stands in the log: the message arrives there under a number, and is completed by a kept value of that number.
"""

from collections.abc import Iterable

from perdure.core import events as e
from perdure.core import messages
from perdure.core.errors import NoReply, NotFound
from perdure.core.ops import Keep
from perdure.core.paths import Key
from perdure.core.removal import end_of
from perdure.core.values import Value
from perdure.service.access import Access
from perdure.service.fold import Tail
from perdure.service.operations import send


class Search:
    """The reply to one message, looked for in the log."""

    def __init__(self, key: Key, signal: messages.Signal) -> None:
        self.reply: Value | None = None
        self._key, self._signal = key, signal
        self._number: int | None = None
        self._ended: e.Ended | None = None

    def take(self, row: Iterable[e.Event]) -> None:
        """Look through the events of a commit.

        Raises:
            NoReply: there will be none.
        """
        for event in row:
            match event:
                case e.Arrived(number=number, key=key) if key == self._signal.key:
                    self._number = number
                case e.Refused(key=key) if key == self._signal.key:
                    raise NoReply(self._key, self._signal.name, "its mailbox is full")
                case e.Opened(op=Keep(value=value, role="reply", label=label)) if label == str(self._number):
                    self.reply = value
                    return
                case e.Snapshot(keys=keys) if self._number is None and self._signal.key in dict(keys):
                    raise NoReply(self._key, self._signal.name, "it was dealt with in a turn of a loop that is forgotten")
                case e.Ended():
                    self._ended = event
                case e.Removed():
                    self._ended = end_of(event)
                case e.Reopened():
                    self._ended = None
        if self._ended is not None:
            raise NoReply(self._key, self._signal.name, f"it has ended ({self._ended.status})")


async def ask(access: Access, key: Key, signal: messages.Signal) -> Value:
    """Send a signal, which carries a key that is its own, and wait for the reply.

    Raises:
        NotFound, HasEnded: nobody would read it.
        NoReply: the execution has ended without one, or could not take the message.
    """
    before = await send(access, key, signal)
    if before is None:
        raise NotFound(key)
    tail, search = Tail(access.store, key, before.version, closely=True), Search(key, signal)
    while True:
        while (row := await tail.next()) is not None:
            search.take(row)
            if search.reply is not None:
                return search.reply
        _ = await access.watch.until(key, lambda head: head is None or head.version > tail.version, quick=True)
