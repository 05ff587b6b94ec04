"""The effect log of a scenario: what its steps have done in the world, a line each, written by the step itself and by nothing of Perdure.

A line is one write at the end of the file, so the lines of many processes do not mix, and what a killed process has written is there.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from perdure import StepInfo, step_info
from tests.runtime.processes import EFFECTS, RecordedEffect

_decode = msgspec.json.Decoder(RecordedEffect).decode


def note(event: str, about: Any = None) -> None:
    """Write down what the running step does."""
    info = step_info()
    write(event, info.key, info.attempt, about)


def write(event: str, key: str, attempt: int = 0, about: Any = None) -> None:
    """Write down what is done under this key."""
    line = json.dumps({"event": event, "key": key, "attempt": attempt, "process": os.getpid(), "at_s": time.monotonic(), "about": about}) + "\n"
    file = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(file, line.encode())
    os.close(file)


@contextmanager
def doing(about: Any = None) -> Iterator[StepInfo]:
    """What the running step does within this is an effect: it began, and it ended, or failed."""
    note("began", about)
    try:
        yield step_info()
    except BaseException:
        note("failed", about)
        raise
    note("ended", about)


class EffectLog:
    """The lines so far; what was read is not read again."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / EFFECTS
        self._bytes = 0
        self._lines: list[RecordedEffect] = []

    def read(self) -> list[RecordedEffect]:
        """All lines that are whole, in order."""
        if self._file.exists():
            with self._file.open("rb") as file:
                file.seek(self._bytes)
                whole = file.read().rpartition(b"\n")[0]
            self._lines += [_decode(line) for line in whole.splitlines()]
            self._bytes += len(whole) + bool(whole)
        return self._lines

    def of(self, event: str) -> list[RecordedEffect]:
        """Those that say this."""
        return [effect for effect in self.read() if effect.event == event]

    def keys(self, event: str) -> set[str]:
        """The keys under which this was done."""
        return {effect.key for effect in self.of(event)}

    def is_busy(self, process: int) -> bool:
        """Whether a process is in the middle of a step."""
        done = [effect.event for effect in self.read() if effect.process == process]
        return done.count("began") > done.count("ended") + done.count("failed")
