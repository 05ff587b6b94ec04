"""The rows of a file, from any place on: of a .csv with the names of its columns on the first line, or a .jsonl with an object on each.

A line that can't be read as a row is a reject, and the next line is read as if it had not been there. Nothing is lost: together, rows
and rejects are the whole file but for empty lines. However long a file or a line is, little of it is in memory.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

LINE_BYTES_MAX = 2**20
"""A longer line is rejected, in pieces of this size."""

COLUMNS_MAX = 500

FORMS = (".csv", ".jsonl")
KEYS = ("_import", "_line")
"""Names that no column may have: the importer's own."""


class BadInput(Exception):
    """What is wrong with the input, and what to do about it."""


@dataclass(frozen=True)
class Header:
    """What a file says before its rows: of a .csv the columns and what divides them, of a .jsonl nothing; and where the rows begin."""

    columns: list[str]
    divider: str
    offset: int
    line: int


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the line at which it begins, and its values by column."""

    line: int
    values: dict[str, Any]

    def lower(self) -> dict[str, Any]:
        """Its values by columns in lower case: to SQL they are the same."""
        return {name.lower(): value for name, value in self.values.items()}


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that is no row, or a part of one that is too long: as it stands, and why it is none."""

    line: int
    raw: bytes
    why: str


class Lines:
    """The lines of a file from a place on, as text. It knows the place behind what was read, and can go back.

    Raises:
        ValueError: a line is no text in UTF-8, or too long.
    """

    def __init__(self, file: BinaryIO, offset: int, line: int) -> None:
        self._file, self.offset, self.line = file, offset, line
        file.seek(offset)

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        raw = self.take()
        if not raw:
            raise StopIteration
        if len(raw) >= LINE_BYTES_MAX:
            raise ValueError(f"the line is longer than {LINE_BYTES_MAX} bytes")
        return raw.decode("utf-8-sig" if self.offset == len(raw) else "utf-8")

    def take(self) -> bytes:
        """The next line as it stands, or as much of it as a line may have; nothing at the end."""
        raw = self._file.readline(LINE_BYTES_MAX)
        self.offset += len(raw)
        self.line += raw.endswith(b"\n")
        return raw

    def reject(self, offset: int, line: int, why: str) -> Iterator[Reject]:
        """Go back to a place and read one line from there, as rejects."""
        self.offset, self.line = offset, line
        self._file.seek(offset)
        while raw := self.take():
            yield Reject(line, raw, why)
            if raw.endswith(b"\n"):
                return


def header(file: Path) -> Header:
    """What a file says before its rows.

    Raises:
        BadInput: it is of no form that can be imported.
    """
    if file.suffix.lower() not in FORMS:
        raise BadInput(f"{file} is neither of {' and '.join(FORMS)}; name a file that is")
    try:
        with file.open("rb") as opened:
            lines = Lines(opened, 0, 1)
            if file.suffix.lower() == ".jsonl":
                return Header([], "", 0, 1)
            first = next(lines, "")
            divider = max(",;\t|", key=first.count)
            lines = Lines(opened, 0, 1)
            names = next(csv.reader(lines, delimiter=divider, strict=True), [])
    except OSError as error:
        raise BadInput(f"{file} can't be read ({error.strerror}); name a file that can, such as examples/data/time-zones.csv") from error
    except (ValueError, csv.Error) as error:
        raise BadInput(f"{file} does not begin with the names of its columns ({error}); put them on the first line, divided by commas") from error
    columns = [name.strip() or f"column_{number}" for number, name in enumerate(names, 1)]
    folded = [*KEYS, *(name.lower() for name in columns)]
    if not names or len(set(folded)) < len(folded) or len(folded) > COLUMNS_MAX or "\0" in "".join(columns):
        raise BadInput(f"{file} does not begin with the names of its columns; give up to {COLUMNS_MAX - 2}, each once, and none of {' and '.join(KEYS)}")
    return Header(columns, divider, lines.offset, lines.line)


def rows_of(lines: Lines, head: Header) -> Iterator[Row | Reject]:
    """What the lines are: rows, and rejects. After one that is none, it goes on with the next line."""
    return rows_of_csv(lines, head) if head.columns else rows_of_json(lines)


def rows_of_csv(lines: Lines, head: Header) -> Iterator[Row | Reject]:
    """A row may span several lines. When it is none, only its first line is rejected: a quote that is never closed takes no others with it."""
    wanted = len(head.columns)
    reader = csv.reader(lines, delimiter=head.divider, strict=True)
    while True:
        offset, line = lines.offset, lines.line
        try:
            values = next(reader)
        except StopIteration:
            return
        except (ValueError, csv.Error) as error:
            why = str(error)
        else:
            if len(values) == wanted:
                yield Row(line, dict(zip(head.columns, values, strict=True)))
                continue
            if not values:
                continue  # an empty line
            why = f"it has {len(values)} values for {wanted} columns"
        yield from lines.reject(offset, line, why)
        reader = csv.reader(lines, delimiter=head.divider, strict=True)


def rows_of_json(lines: Lines) -> Iterator[Row | Reject]:
    """An object on each line; what is not flat stays JSON."""
    while True:
        offset, line = lines.offset, lines.line
        try:
            text = next(lines, None)
            if text is None:
                return
            if text.strip():
                yield Row(line, checked(msgspec.json.decode(text)))
        except ValueError as error:
            yield from lines.reject(offset, line, str(error))


def checked(found: object) -> dict[str, Any]:
    """The values of a row by column.

    Raises:
        ValueError: it is no object, or its names can't be those of columns.
    """
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    folded = [*KEYS, *(name.lower() for name in found)]
    if len(set(folded)) < len(folded) or len(folded) > COLUMNS_MAX or not all(found) or "\0" in "".join(found):
        raise ValueError(f"its names can't be those of columns: give up to {COLUMNS_MAX - 2}, each once, and none of {' and '.join(KEYS)}")
    return {name: plain(value) for name, value in found.items()}


def plain(value: Any) -> Any:
    """A value as SQLite takes it: lists, objects and numbers that are too large as text."""
    if isinstance(value, list | dict) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        return msgspec.json.encode(value).decode() if isinstance(value, list | dict) else str(value)
    return value
