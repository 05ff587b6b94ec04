"""Paths and keys: the address of an operation in its execution, and of an execution in its store.

A path is a tuple, never joined text, so a name may contain anything and two paths never collide. Its text is for display and can be parsed again:
``outer/~0/inner`` lies in iteration 0 of the loop ``outer``, ``pay#2`` is the second ``pay``, ``~undo/pay`` undoes ``pay``.
"""

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

Segment = tuple[str, int] | int
"""A name with its number among equal names in one scope (from 1; 0 is internal), or the iteration of a loop (from 0)."""

Path = tuple[Segment, ...]
"""The address and identity of an operation in its execution."""

ROOT: Path = ()
UNDO: Segment = ("undo", 0)
"""The first segment of the path of an undo; the rest is the path of what it undoes. No name of a program has the number 0."""

_RESERVED = str.maketrans({character: f"%{ord(character):02X}" for character in "%/#~"})


_is_plain = re.compile(r"[A-Za-z0-9_.~@ -]*").fullmatch
"""Matches a text that stands in the text of a key as it is, so that `quote`, which is slow, need not be called."""


class Key(NamedTuple):
    """Identifies an execution: an id is unique per tenant and workflow."""

    tenant: str
    workflow: str
    id: str

    def __str__(self) -> str:
        return "/".join(self if all(map(_is_plain, self)) else (quote(part, safe=" @.-_") for part in self))


class QueueAddress(NamedTuple):
    """Identifies a queue, in which calls wait for a worker."""

    tenant: str
    name: str

    def __str__(self) -> str:
        return f"{quote(self.tenant, safe='')}/{quote(self.name, safe='')}"


Address = Key | QueueAddress


def path_text(path: Path) -> str:
    """Returns `path` as text that `parse_path` reads back, such as ``audit/~3/charge#2``; the root is the empty text."""
    return _path_text(path)


@lru_cache(4_096)
def _path_text(path: Path) -> str:
    return "/".join(_segment_text(segment) for segment in path)


def parse_path(shown: str) -> Path:
    """Parses what `path_text` wrote.

    Raises:
        ValueError: the text is not what `path_text` writes.
    """
    path = tuple(_parse_segment(part) for part in shown.split("/")) if shown else ROOT
    if path_text(path) != shown:
        raise ValueError(f"{shown!r} is not the text of a path; copy it from where it is shown")
    return path


def is_internal_path(path: Path) -> bool:
    """Whether the path ends in an internal name, not in one of a program."""
    return bool(path) and isinstance(path[-1], tuple) and path[-1][1] == 0


def idempotency_key(key: Key, path: Path) -> str:
    """Returns the idempotency key of an operation: execution and path, the same in every attempt."""
    return f"{key}:{path_text(path)}"


def _segment_text(segment: Segment) -> str:
    if isinstance(segment, int):
        return f"~{segment}"
    name, number = segment
    shown = name.translate(_RESERVED) or "%"
    if number == 0:
        return f"~{shown}"
    return shown if number == 1 else f"{shown}#{number}"


def _parse_segment(part: str) -> Segment:
    if part.startswith("~"):
        return int(part[1:]) if part[1:].isdecimal() else (unquote(part[1:]), 0)
    name, _, number = part.partition("#")
    return ("" if name == "%" else unquote(name), int(number) if number else 1)
