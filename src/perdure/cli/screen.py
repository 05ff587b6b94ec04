"""The screen: whether somebody looks at a terminal, how wide it is, and what it can show."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class Screen:
    """Where text goes. `columns` and `rows` are those of a terminal; without one, nothing is cut."""

    terminal: bool = False
    columns: int = 80
    rows: int = 24
    color: bool = False
    unicode: bool = True


def screen(stream: TextIO | None = None) -> Screen:
    """What `stream` (standard output) is. NO_COLOR turns colours off, whatever it says; so does TERM=dumb."""
    stream = stream or sys.stdout
    terminal = stream.isatty()
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    size = shutil.get_terminal_size()
    return Screen(terminal, size.columns, size.lines, terminal and not plain, _shows("✓└…", stream))


def _shows(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
