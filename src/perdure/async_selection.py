"""A selection of executions, of asyncio programs: all that a filter or a list of keys means, to be told the same in batches.

No rule stands here: it is the typed face of `perdure.service.bulk`. What it says holds for its sync twin, `perdure.selection`.
"""

from __future__ import annotations

from perdure.core.paths import Key
from perdure.programs.code.durations import Duration
from perdure.service import bulk
from perdure.service.access import Access
from perdure.service.bulk import Told, Which

Keys = list[Key]


class AsyncSelection:
    """Executions that are told the same, 500 in each commit. It is what `AsyncClient.select` returns.

    Each verb does to all what the verb of a handle does to one; of a selection without `status`, to those on which it has an effect. Which these are is found
    out when the verb is called. The answer is durable when it returns, and names the executions that were `told`, those that had `ended` before, and those
    that `failed`, with their errors. With `wait`, each batch is waited for before the next is told, each execution for up to `timeout`. Whoever has started
    others is told to end before them; `retry` and `requeue` begin with those that were started last.

    A process that dies in the middle has told the first batches and not the others; calling the verb again tells the rest.
    """

    def __init__(self, access: Access, which: Which) -> None:
        self._access = access
        self._which = which

    async def keys(self) -> Keys:
        """The executions that are meant now, newest first; of all statuses, if none is chosen."""
        return await bulk.chosen(self._access, self._which)

    async def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> Told:
        """Have each unwind, undo what it has done unless that is not wanted, and end as cancelled, as `AsyncHandle.cancel` does."""
        return await bulk.tell(self._access, self._which, bulk.cancel(reason, undo), wait, timeout)

    async def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """End each as cancelled, at once, as `AsyncHandle.terminate` does."""
        return await bulk.tell(self._access, self._which, bulk.terminate(reason), wait, timeout)

    async def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """Have each begin nothing more until it is resumed, as `AsyncHandle.pause` does."""
        return await bulk.tell(self._access, self._which, bulk.pause(reason), wait, timeout)

    async def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """Have each go on that is paused or needs attention, as `AsyncHandle.resume` does."""
        return await bulk.tell(self._access, self._which, bulk.resume(reason), wait, timeout)

    async def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """Have each leave the engine that has it, and go on from its log, as `AsyncHandle.evict` does."""
        return await bulk.tell(self._access, self._which, bulk.evict(reason), wait, timeout)

    async def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> Told:
        """Have each go on from what failed, or from where it is parked, as `AsyncHandle.retry` does."""
        return await bulk.tell(self._access, self._which, bulk.retry(reason, from_step), wait, timeout)

    async def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """Undo what each has done, as `AsyncHandle.undo` does."""
        return await bulk.tell(self._access, self._which, bulk.undo(reason), wait, timeout)

    async def requeue(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """Run each dead letter again, from what failed, as `AsyncDeadLetterOffice.requeue` does."""
        return await bulk.tell(self._access, self._which, bulk.requeue(reason), wait, timeout)

    async def discard(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """Cancel each dead letter as it stands, as `AsyncDeadLetterOffice.discard` does."""
        return await bulk.tell(self._access, self._which, bulk.discard(reason), wait, timeout)
