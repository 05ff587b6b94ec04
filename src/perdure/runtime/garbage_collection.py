"""Relaxes Python's garbage collector in processes that run engines: a fifth of an engine's time would otherwise go there.

An engine makes few cycles. What is in memory when it begins is no longer looked through, and the collector looks more rarely. The setting belongs to
the whole process, so it is left as it was found once no engine asks for it any more.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

RELAXED = (50_000, 20, 50)
"""The thresholds of the three generations. A process whose first threshold is higher, or 0 (never), keeps its own."""


class _Tuning:
    """How many ask for the setting at present, and what it was before the first of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._before: tuple[int, int, int] | None = None
        self._freezes = False

    def begin(self) -> None:
        with self._lock:
            self._users += 1
            found = gc.get_threshold()
            if self._users == 1 and 0 < found[0] < RELAXED[0]:
                self._before, self._freezes = found, gc.get_freeze_count() == 0
                if self._freezes:  # otherwise the program has chosen what is never looked through
                    gc.freeze()
                gc.set_threshold(*RELAXED)

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users or self._before is None:
                return
            if gc.get_threshold() == RELAXED:  # otherwise the program has set something else meanwhile
                gc.set_threshold(*self._before)
            if self._freezes:
                gc.unfreeze()
            self._before = None


_tuning = _Tuning()


@contextmanager
def relaxed_garbage_collection(wanted: bool = True) -> Iterator[None]:
    """While this lasts, if it is `wanted`, the collector is relaxed in this process."""
    if not wanted:
        yield
        return
    _tuning.begin()
    try:
        yield
    finally:
        _tuning.end()
