"""The text of a statement: its placeholders, and what may not be in it.

A placeholder is ``:name``. It is found outside of quoted text, quoted names, comments and casts (``::``), and becomes the placeholder of the driver. A value
therefore never becomes part of the text, and the text is the same in every execution.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from perdure.definitions.format.shapes import is_template

KEY_NAME = "idempotency_key"
"""The placeholder of the step's idempotency key, which every statement may use."""

TRANSACTION_WORDS = frozenset(("abort", "begin", "commit", "end", "prepare", "release", "rollback", "savepoint", "start"))
SESSION_WORDS = frozenset(
    ("attach", "copy", "deallocate", "detach", "discard", "execute", "listen", "load", "pragma", "reset", "set", "unlisten", "use", "vacuum")
)
"""Statements that act on the session or the server and not on rows, and would outlast the step or reach beyond the database."""

_TOKEN = re.compile(
    r"""(?P<quoted>[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | --[^\n]* | /\*.*?\*/
        | \$(?P<tag>[A-Za-z_]\w*)?\$.*?\$(?(tag)(?P=tag))\$ )
      | (?P<cast>::)
      | (?<![\w:]):(?P<name>[A-Za-z_]\w*)
      | (?<![\w$])(?P<number>\$\d+)
      | (?P<mark>\?)
      | (?P<end>;)""",
    re.DOTALL | re.VERBOSE,
)
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*(\w*)", re.DOTALL)
_REST = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|;)*", re.DOTALL)
LABEL_CHARACTERS_MAX = 60


class SqlText(NamedTuple):
    """A statement, cut at its placeholders: `parts` are the texts between them, `names` the placeholders in order. `marks` is whether it has a ``?``."""

    parts: tuple[str, ...]
    names: tuple[str, ...]
    marks: bool

    @property
    def distinct_names(self) -> tuple[str, ...]:
        """Its placeholders, each once, in the order of their first use."""
        return tuple(dict.fromkeys(self.names))

    def with_placeholders(self, placeholder: Callable[[str, int], str], literal: Callable[[str], str] = str) -> str:
        """Returns the text for a driver: `placeholder` is called with each name and its number among the distinct names, from 1, `literal` with the rest."""
        numbers = {name: number for number, name in enumerate(self.distinct_names, 1)}
        found = [literal(self.parts[0])]
        for name, part in zip(self.names, self.parts[1:], strict=True):
            found += (placeholder(name, numbers[name]), literal(part))
        return "".join(found)


@lru_cache(maxsize=512)
def parse_sql(text: str) -> SqlText:
    """Cuts the text of a statement at its placeholders."""
    parts, names, begin, marks = list[str](), list[str](), 0, False
    for found in _TOKEN.finditer(text):
        marks |= found["mark"] is not None
        if found["name"] is not None:
            parts.append(text[begin : found.start()])
            names.append(found["name"])
            begin = found.end()
    return SqlText((*parts, text[begin:]), tuple(names), marks)


def label_of_sql(text: str) -> str:
    """The beginning of a statement on one line, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= LABEL_CHARACTERS_MAX else f"{line[:LABEL_CHARACTERS_MAX]}…"


def first_word(text: str) -> str:
    """The first word of a statement, in lower case."""
    found = _FIRST_WORD.match(text)
    return "" if found is None else found[1].lower()


def text_problems(text: str, *, reads: bool) -> Iterator[str]:
    """Yields why a text can't be a statement of a step: of a query, if it `reads`."""
    if "@{" in text or (is_template(text) and " " not in text.strip()):
        yield 'values reach a statement as placeholders, not through its text; write :name there, and with: {name: "@input.name"}'
    word = first_word(text)
    if not word:
        yield "it has no statement"
    elif word in TRANSACTION_WORDS:
        yield f"{word.upper()} is for transactions, and each step is one; leave it out"
    elif word in SESSION_WORDS:
        yield f"{word.upper()} acts on the session or the server; a step has statements on rows and tables"
    elif reads and word in ("insert", "update", "delete", "merge", "replace", "create", "drop", "alter", "truncate"):
        yield f"{word.upper()} changes data; write it behind `execute`"
    for found in _TOKEN.finditer(text):
        if found["number"] is not None:
            yield f"{found['number']} is no placeholder here; write :name, and give the value in `with`"
        if found["end"] is not None and _REST.fullmatch(text, found.end()) is None:
            yield "it has several statements; write them as a list behind `execute`"
            return
