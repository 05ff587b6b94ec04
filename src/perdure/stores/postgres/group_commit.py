"""Group commit: changes that arrive while others are on their way to the server go there together, as one statement, one transaction and one durable write.

Up to `STATEMENTS_MAX` statements are on their way at a time, so that the server works on one while it waits for the disk for another. If a statement fails, it
may be that the fault lies with the changes of one caller. When it is certain that nothing has happened, those of each caller are sent once more by themselves.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from perdure.stores.protocol import ChangeAnswer, Commit, Post

STATEMENTS_MAX = 2
CHANGES_MAX, BYTES_MAX = 500, 4_000_000
"""How many changes one statement has, and how many bytes, unless one caller has more."""

CarryOut = Callable[[Sequence[Commit | Post]], Awaitable[list[ChangeAnswer]]]


class _Asked(NamedTuple):
    """The changes of a caller, who waits for their answers."""

    changes: Sequence[Commit | Post]
    size_bytes: int
    answers: asyncio.Future[list[ChangeAnswer]]


class GroupCommit:
    """Carries out the changes of many callers on one event loop. `carry_out` sends a batch to the server; `is_refused` says that an error changed nothing."""

    def __init__(self, carry_out: CarryOut, is_refused: Callable[[BaseException], bool]) -> None:
        self._carry_out, self._is_refused = carry_out, is_refused
        self._asked = deque[_Asked]()
        self._senders = set[asyncio.Task[None]]()

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`. A caller that is cancelled does not stop the others, and its changes may take effect."""
        asked = _Asked(changes, sum(map(_size_bytes, changes)), asyncio.get_running_loop().create_future())
        self._asked.append(asked)
        if len(self._senders) < STATEMENTS_MAX:
            sender = asyncio.create_task(self._send())
            self._senders.add(sender)
        return await asked.answers

    async def _send(self) -> None:
        try:
            while self._asked:
                await self._send_together(self._batch())
        finally:  # At once, not by a callback: a change that arrives in between would have nobody to send it.
            self._senders.discard(asyncio.current_task())

    def _batch(self) -> list[_Asked]:
        batch = [self._asked.popleft()]
        changes, size_bytes = len(batch[0].changes), batch[0].size_bytes
        while self._asked and changes + len(self._asked[0].changes) <= CHANGES_MAX and size_bytes + self._asked[0].size_bytes <= BYTES_MAX:
            batch.append(self._asked.popleft())
            changes += len(batch[-1].changes)
            size_bytes += batch[-1].size_bytes
        return batch

    async def _send_together(self, batch: Sequence[_Asked]) -> None:
        try:
            answers = await self._carry_out([change for asked in batch for change in asked.changes])
        except BaseException as error:
            if len(batch) > 1 and self._is_refused(error):
                for asked in batch:
                    await self._send_together([asked])
                return
            for asked in batch:
                if not asked.answers.done():
                    asked.answers.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        first = 0
        for asked in batch:
            if not asked.answers.done():
                asked.answers.set_result(answers[first : first + len(asked.changes)])
            first += len(asked.changes)


def _size_bytes(change: Commit | Post) -> int:
    size_bytes = len(change.row) if isinstance(change, Commit) else 0
    if change.blobs or change.messages:
        size_bytes += sum(len(payload) for _, payload in change.blobs) + sum(len(send.body) for send in change.messages)
    return size_bytes
