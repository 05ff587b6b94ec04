"""Gives the memory of evicted executions back to the system. The allocator of C would keep most of it for the process."""

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from functools import cache


def release_free_memory() -> None:
    """Collects garbage, and returns the free memory of this process to the system, where the C library can (glibc). It takes a few milliseconds."""
    gc.collect()
    _trimmer()(0)


@cache
def _trimmer() -> Callable[[int], object]:
    with suppress(OSError, AttributeError):
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
        return trim
    return lambda _: None
