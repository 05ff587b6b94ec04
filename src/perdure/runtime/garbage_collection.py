"""Makes Python's garbage collector run more rarely in processes that run engines, which would otherwise spend a fifth of their time on it.

An engine creates few cycles. Objects that exist when it begins are exempt from collection, and the thresholds are raised. The settings are those of the
whole process, so the former ones return once the last engine has ended.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

RELAXED = (50_000, 20, 50)
"""The thresholds of the three generations. A process whose first threshold is higher, or 0 (never), keeps its own."""


class _Tuning:
    """The number of users of the raised thresholds, and the thresholds before the first of them."""

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
                if self._freezes:  # otherwise the program has chosen itself what is exempt
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
    """Raises the thresholds of the collector for the duration of a block, if `wanted`."""
    if not wanted:
        yield
        return
    _tuning.begin()
    try:
        yield
    finally:
        _tuning.end()
