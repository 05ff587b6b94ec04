"""Where things stand in JSON text that is known to be valid, and which names stand twice in one mapping."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any

from perdure.programs.format.finding import Finding, joined

Spot = tuple[int, int]
"""A line and a column, both from 1."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def spots(text: str) -> tuple[dict[str, Spot], list[Finding]]:
    """Each JSON pointer with where it begins (a field with its name), and a finding for each name that repeats another of its mapping."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: dict[str, Spot] = {}
    repeated: list[Finding] = []
    frames: list[_Frame] = []
    for token in _TOKEN.finditer(text):
        word, line = token[0], bisect_right(starts, token.start())
        spot = (line, token.start() - starts[line - 1] + 1)
        frame = frames[-1] if frames else None
        if word in (",", ":"):
            if frame is not None:
                frame.after(word)
        elif word in ("}", "]"):
            frames.pop()
        elif frame is not None and frame.wants_name:
            if finding := frame.named(json.loads(word), spot, found):
                repeated.append(finding)
        else:
            pointer = frame.pointer_of_value() if frame is not None else ""
            found.setdefault(pointer, spot)
            if word in ("{", "["):
                frames.append(_Frame(pointer, word == "{"))
    return found, repeated


class _Frame:
    """A mapping or list in which the scanner is."""

    def __init__(self, pointer: str, mapping: bool) -> None:
        self.pointer, self.mapping, self.wants_name = pointer, mapping, mapping
        self.key: Any = "" if mapping else 0
        self.names: dict[str, int] = {}

    def after(self, word: str) -> None:
        self.wants_name = self.mapping and word == ","
        if not self.mapping:
            self.key += 1

    def pointer_of_value(self) -> str:
        return joined(self.pointer, self.key)

    def named(self, name: str, spot: Spot, found: dict[str, Spot]) -> Finding | None:
        self.key, self.wants_name = name, False
        if name in self.names:
            return repeated_name(self.pointer, name, spot, self.names[name])
        self.names[name] = spot[0]
        found[joined(self.pointer, name)] = spot
        return None


def repeated_name(pointer: str, name: str, spot: Spot, first_line: int) -> Finding:
    """The finding that `name` stands a second time in the mapping at `pointer`."""
    message = f"line {spot[0]}, column {spot[1]}: {name!r} stands twice in one mapping (first on line {first_line}); keep one of them"
    return Finding("duplicate_key", "error", joined(pointer, name), message, *spot)
