"""Paths and keys: where an operation lives in its execution, and where an execution lives in its store.

A path is a tuple, never joined text, so a name may contain anything and two paths never collide. Text is made only to be
shown, and is made so that it can be read back: ``outer/~0/inner`` is turn 0 of the loop ``outer``, ``pay#2`` the second ``pay``,
``~undo/pay`` what undoes ``pay``.
"""

from typing import NamedTuple
from urllib.parse import quote, unquote

Segment = tuple[str, int] | int
"""A name with its number among equal names in one scope (from 1; 0 is Perdure's own), or the turn of a loop (from 0)."""

Path = tuple[Segment, ...]
"""Where an operation lives in its execution: its identity."""

ROOT: Path = ()
UNDO: Segment = ("undo", 0)
"""Under it lies what undoes the operation at the rest of the path. No name of a program has the number 0."""

_RESERVED = str.maketrans({character: f"%{ord(character):02X}" for character in "%/#~"})


class Key(NamedTuple):
    """Which execution: an id is unique per tenant and workflow."""

    tenant: str
    workflow: str
    id: str

    def __str__(self) -> str:
        return "/".join(quote(part, safe=" @.-_") for part in self)


class QueueAddress(NamedTuple):
    """Where calls wait for a worker."""

    tenant: str
    name: str

    def __str__(self) -> str:
        return f"{quote(self.tenant, safe='')}/{quote(self.name, safe='')}"


Address = Key | QueueAddress


def path_text(path: Path) -> str:
    """Show `path` as text that `parse` reads back, such as ``audit/~3/charge#2``; the root is the empty text."""
    return "/".join(_segment_text(segment) for segment in path)


def parse_path(shown: str) -> Path:
    """Read what `text` wrote.

    Raises:
        ValueError: the text was not written by `text`.
    """
    path = tuple(_parse_segment(part) for part in shown.split("/")) if shown else ROOT
    if path_text(path) != shown:
        raise ValueError(f"{shown!r} is not the text of a path; copy it from where it is shown")
    return path


def is_internal_path(path: Path) -> bool:
    """Whether Perdure itself keeps something here, beside what a program calls by name."""
    return bool(path) and isinstance(path[-1], tuple) and path[-1][1] == 0


def idempotency_key(key: Key, path: Path) -> str:
    """The key for the outside world: execution and path, the same in every try, different for any other operation."""
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
