"""The confinement of a sandbox process: the rights that it drops before its first job, and the resource limits of each job.

Where the system does not support such limits, none are set.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]  # what is absent is None

ORPHAN_S = 1.0
"""How long work may exceed its time before its process kills itself, because the process that should have killed it has died."""

HAS_LIMITS = resource is not None

_GIVEN_UP = ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC")


def drop_privileges() -> None:
    """Drops the rights to write, to open files and to start processes, for good. Everything that is needed must be imported before.

    The environment is emptied as well: Python has added a variable to the empty one.
    """
    os.environ.clear()
    if resource is None:
        return
    _ = _pages()
    for name in _GIVEN_UP:
        limit = getattr(resource, name, None)
        if limit is not None:
            resource.setrlimit(limit, (0, 0))


@contextmanager
def resource_limits(memory_bytes: int, wall_s: float) -> Iterator[None]:
    """Limits the memory that the process may allocate in addition, and kills it some time after the job's time is over.

    An allocation beyond the limit fails with `MemoryError`, or ends the process by SIGABRT.
    """
    if resource is None:
        yield
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    present_bytes = _present_bytes()
    if present_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (present_bytes + memory_bytes, hard))
    signal.setitimer(signal.ITIMER_REAL, wall_s + ORPHAN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if present_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def peak_bytes() -> int:
    """The most memory that this process has ever had; 0 where that is not known."""
    if resource is None:
        return 0
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes


@cache
def _pages() -> int | None:
    """The file that says how much memory this process has, opened while files can be; None where there is none."""
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _present_bytes() -> int:
    file = _pages()
    return 0 if file is None or resource is None else int(os.pread(file, 64, 0).split()[0]) * resource.getpagesize()
