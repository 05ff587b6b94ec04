"""Runs a module on a system clock that a test can set: ``python -m tests.runtime.shifted_clock MODULE ...``.

By how many seconds the clock is off stands in the file `CLOCK` of the working directory, in machine form, and is looked up at each
reading. Only `time.time` is changed, and that before anything else is imported.
"""

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

CLOCK = "clock"
_OFFSET = struct.Struct("d")


def set_clock(directory: Path, offset_s: float) -> None:
    """Have the clock of all processes in the directory off by so much from now on."""
    if (directory / CLOCK).exists():
        with (directory / CLOCK).open("r+b") as file:
            file.write(_OFFSET.pack(offset_s))
    else:
        (directory / CLOCK).write_bytes(_OFFSET.pack(offset_s))


def _shift() -> None:
    true_time = time.time
    with Path(CLOCK).open("r+b") as file:
        offset = mmap.mmap(file.fileno(), _OFFSET.size)

    def shifted_time() -> float:
        (offset_s,) = _OFFSET.unpack_from(offset)
        return true_time() + float(offset_s)

    time.time = shifted_time


if __name__ == "__main__":
    _shift()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
