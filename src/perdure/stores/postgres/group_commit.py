"""Group commit: changes that arrive while others are on their way to the server go there together, as one statement, one transaction and one durable write.

Up to `STATEMENTS_MAX` statements are on their way at a time, so that the server works on one while it waits for the disk for another. If a statement fails, it
may be that the fault lies with the changes of one caller. When it is certain that nothing has happened, those of each caller are sent once more by themselves.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import NamedTuple

from perdure.stores.protocol import ChangeAnswer, Commit, Post

STATEMENTS_MAX = 2
CHANGES_MAX, BYTES_MAX = 500, 4_000_000
"""How many changes one statement has, and how many bytes, unless one caller has more."""

CarryOut = Callable[[Sequence[Commit | Post]], Awaitable[list[ChangeAnswer]]]


class _Asked(NamedTuple):
    """The changes of a caller, who waits for their answers, and when they were asked for: how many callers came before."""

    number: int
    changes: Sequence[Commit | Post]
    size_bytes: int
    answers: asyncio.Future[list[ChangeAnswer]]


class GroupCommit:
    """Carries out the changes of many callers on one event loop. `carry_out` sends a batch to the server; `is_refused` says that an error changed nothing.

    Changes of callers for which `is_simple` holds go in batches of their own, since a whole batch of such is carried out at less cost.
    """

    def __init__(self, carry_out: CarryOut, is_refused: Callable[[BaseException], bool], is_simple: Callable[[Commit | Post], bool]) -> None:
        self._carry_out, self._is_refused, self._is_simple = carry_out, is_refused, is_simple
        self._asked = {True: deque[_Asked](), False: deque[_Asked]()}
        self._numbers = count()
        self._senders = set[asyncio.Task[None]]()
        self._is_lone = self._sends_itself = False

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        """See `Store.commit`. A caller that is cancelled does not stop the others, and its changes may take effect.

        A caller that comes alone, again and again, sends its changes itself, which spares it a task.
        """
        if self._is_lone and not self._senders and not self._sends_itself:
            self._sends_itself = True
            try:
                return await self._carry_out(changes)
            finally:
                self._sends_itself = False
                self._is_lone = not self._senders
        asked = _Asked(next(self._numbers), changes, sum(map(_size_bytes, changes)), asyncio.get_running_loop().create_future())
        self._asked[all(map(self._is_simple, changes))].append(asked)
        if len(self._senders) + self._sends_itself < STATEMENTS_MAX:
            self._senders.add(asyncio.create_task(self._send()))
        return await asked.answers

    async def _send(self) -> None:
        try:
            while any(self._asked.values()):
                await self._send_together(self._batch())
        finally:  # At once, not by a callback: a change that arrives in between would have nobody to send it.
            self._senders.discard(asyncio.current_task())

    def _batch(self) -> list[_Asked]:
        """Takes the next batch: changes of one kind, beginning with those that have waited longest."""
        waiting = min(filter(None, self._asked.values()), key=lambda queue: queue[0].number)
        batch = [waiting.popleft()]
        changes, size_bytes = len(batch[0].changes), batch[0].size_bytes
        while waiting and changes + len(waiting[0].changes) <= CHANGES_MAX and size_bytes + waiting[0].size_bytes <= BYTES_MAX:
            batch.append(waiting.popleft())
            changes += len(batch[-1].changes)
            size_bytes += batch[-1].size_bytes
        self._is_lone = len(batch) == 1 and not any(self._asked.values())
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
