"""A selection of everybody else: `Selection`, the sync face of `AsyncSelection`, method by method. What holds of the async twin holds here."""

from __future__ import annotations

from perdure.async_selection import AsyncSelection, Keys
from perdure.loop_thread import LoopThread
from perdure.programs.code.durations import Duration
from perdure.service.bulk import Told


class Selection:
    """Executions that are told the same, 500 in each commit. See `AsyncSelection`."""

    def __init__(self, thread: LoopThread, inner: AsyncSelection) -> None:
        self._thread = thread
        self._inner = inner

    def keys(self) -> Keys:
        """See `AsyncSelection.keys`."""
        return self._thread.call(self._inner.keys())

    def cancel(self, reason: str = "", *, undo: bool = True, wait: bool = False, timeout: Duration | None = None) -> Told:
        """See `AsyncSelection.cancel`."""
        return self._thread.call(self._inner.cancel(reason, undo=undo, wait=wait, timeout=timeout))

    def terminate(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """See `AsyncSelection.terminate`."""
        return self._thread.call(self._inner.terminate(reason, wait=wait, timeout=timeout))

    def pause(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """See `AsyncSelection.pause`."""
        return self._thread.call(self._inner.pause(reason, wait=wait, timeout=timeout))

    def resume(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """See `AsyncSelection.resume`."""
        return self._thread.call(self._inner.resume(reason, wait=wait, timeout=timeout))

    def evict(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """See `AsyncSelection.evict`."""
        return self._thread.call(self._inner.evict(reason, wait=wait, timeout=timeout))

    def retry(self, reason: str = "", *, from_step: str | None = None, wait: bool = False, timeout: Duration | None = None) -> Told:
        """See `AsyncSelection.retry`."""
        return self._thread.call(self._inner.retry(reason, from_step=from_step, wait=wait, timeout=timeout))

    def undo(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """See `AsyncSelection.undo`."""
        return self._thread.call(self._inner.undo(reason, wait=wait, timeout=timeout))

    def requeue(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """See `AsyncSelection.requeue`."""
        return self._thread.call(self._inner.requeue(reason, wait=wait, timeout=timeout))

    def discard(self, reason: str = "", *, wait: bool = False, timeout: Duration | None = None) -> Told:
        """See `AsyncSelection.discard`."""
        return self._thread.call(self._inner.discard(reason, wait=wait, timeout=timeout))
