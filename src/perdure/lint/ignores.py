"""Ignores: comments that say that a finding on their line is known: `# perdure: ignore[PD101]`, or `ignore[PD101, PD203]`."""

import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_COMMENT = re.compile(r"#\s*perdure:\s*ignore(?:\[([^\]]*)\])?")


@dataclass
class Ignore:
    """A comment: where it is, which codes it names, and which of them were needed."""

    line: int
    column: int
    end: int
    codes: tuple[str, ...]
    used: set[str] = field(default_factory=set)


class Ignores:
    """The ignores of a file, by line."""

    def __init__(self, lines: list[str]) -> None:
        self._by_line: dict[int, list[Ignore]] = {}
        for one in _read(lines):
            self._by_line.setdefault(one.line, []).append(one)

    def covers(self, code: str, first_line: int, last_line: int) -> bool:
        """Whether a finding on these lines is ignored, which makes the ignore a used one."""
        found = [one for line in range(first_line, last_line + 1) for one in self._by_line.get(line, ()) if code in one.codes]
        for one in found:
            one.used.add(code)
        return bool(found)

    def unused(self) -> Iterator[tuple[Ignore, str]]:
        """The ignores that nothing needed, with each code; without a code, those that name none."""
        for one in (one for line in self._by_line.values() for one in line):
            if not one.codes:
                yield one, ""
            for code in one.codes:
                if code not in one.used:
                    yield one, code


def _read(lines: list[str]) -> Iterator[Ignore]:
    if not any("perdure:" in line for line in lines):
        return
    for token in _tokens(lines):
        if token.type == tokenize.COMMENT:
            for found in _COMMENT.finditer(token.string):
                codes = tuple(dict.fromkeys(code.strip() for code in (found[1] or "").split(",") if code.strip()))
                column = token.start[1] + found.start()
                yield Ignore(token.start[0], column, column + len(found[0]), codes)


def _tokens(lines: Iterable[str]) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(iter(lines).__next__)
    except (tokenize.TokenError, SyntaxError):  # where it ends in the middle of something, what comes before still counts
        return
