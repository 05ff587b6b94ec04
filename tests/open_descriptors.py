"""Counts what a test may leave open."""

import os
from contextlib import suppress


def open_descriptors() -> int:
    """How many pipes, sockets and the like this process has open.

    Files are not counted: an engine that an earlier test has left may open or close its database at any time. It may also end its event loop, so expect no more
    than before, not as many.
    """
    count = 0
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208  # names alone, of what may be gone by then
        with suppress(FileNotFoundError):
            count += not os.readlink(f"/proc/self/fd/{number}").startswith("/")  # noqa: PTH115  # it is no path
    return count
