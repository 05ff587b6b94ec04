"""Sources: the files that are meant by paths, and what is in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

STDIN = "-"
NOT_LOOKED_INTO = {"__pycache__", "node_modules", "site-packages"}


def files(paths: Iterable[str]) -> Iterator[str]:
    """The files that are meant, each once: those named, and every .py in and below a directory, by name.

    Directories that are hidden, hold an environment or are not written by hand are left out, unless they are named themselves.

    Raises:
        FileNotFoundError: there is nothing of a name.
    """
    seen: set[str] = set()
    for path in paths:
        for file in _files_of(path):
            if (real := os.path.realpath(file)) not in seen:
                seen.add(real)
                yield file


def _files_of(path: str) -> Iterator[str]:
    if path == STDIN:
        yield path
    elif Path(path).is_dir():
        for directory, inner, names in os.walk(path):
            inner[:] = sorted(name for name in inner if _is_looked_into(Path(directory, name)))
            yield from (os.path.normpath(Path(directory, name)) for name in sorted(names) if name.endswith(".py"))
    elif Path(path).exists():
        yield path
    else:
        raise FileNotFoundError(path)


def _is_looked_into(directory: Path) -> bool:
    return not directory.name.startswith(".") and directory.name not in NOT_LOOKED_INTO and not (directory / "pyvenv.cfg").exists()


def read(file: str) -> bytes:
    """What is in a file.

    Raises:
        OSError: it can't be read.
    """
    if file != STDIN:
        return Path(file).read_bytes()
    if sys.stdin is None or sys.stdin.closed:  # a process may be started without one
        raise OSError("it is closed")
    return sys.stdin.buffer.read()
