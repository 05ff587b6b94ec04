"""Reads text as rows of CSV, as lines or as the data of XML, and writes rows as CSV.

The number of values is limited, not only the size in bytes, as each value takes memory of its own.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any
from xml.parsers import expat

from perdure.definitions.expr.plain_values import shortened

VALUES_MAX = 1_000_000
"""More fields, lines or elements than this are not read."""

DEPTH_MAX = 60
"""Elements may stand so deep in one another."""

TEXT = "#text"
"""Where the text of an element stands that has attributes or elements as well."""


class ContentError(ValueError):
    """The text is not in the expected format."""


def csv_rows(text: str, delimiter: str = ",", names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of CSV (RFC 4180). The first line or `names` names the fields. All values are text; values that a short row lacks are null.

    Raises:
        ContentError: it is not CSV, has two fields of one name or a row that is too long, or exceeds a limit.
    """
    found, called, values = list[dict[str, Any]](), list(names), 0
    for number, fields in _lines_of(text, delimiter):
        if not fields:
            continue
        if not called:
            called = _called(fields)
            continue
        if len(fields) > len(called):
            raise ContentError(f"line {number} has {len(fields)} fields, and there are {len(called)} names; is {delimiter!r} the right delimiter?")
        values += len(called)
        if values > VALUES_MAX:
            raise ContentError(f"it has more than {VALUES_MAX:,} fields; read it in parts")
        found.append(dict(zip_longest(called, fields)))
    return found


def _lines_of(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row, with the number of its last line."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter, strict=True)
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ContentError(f"line {reader.line_num}: {error}") from None
        yield reader.line_num, fields


def _called(fields: Sequence[str]) -> list[str]:
    called = dict[str, None]()
    for number, name in enumerate((one.strip() for one in fields), 1):
        if not name:
            raise ContentError(f"field {number} of its first line has no name; give names")
        if name in called:
            raise ContentError(f"two fields in its first line are named {shortened(name)!r}; give names")
        called[name] = None
    return list(called)


def text_lines(text: str) -> list[str]:
    """The lines of a text without their ends.

    Raises:
        ContentError: there are too many.
    """
    found = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not found[-1]:
        _ = found.pop()
    if len(found) > VALUES_MAX:
        raise ContentError(f"it has more than {VALUES_MAX:,} lines; read it in parts")
    return found


def xml_data(raw: bytes | str) -> dict[str, Any]:
    """The data of XML: an element is its text, or a mapping of its attributes (``@name``), its elements (a list if several share a name) and its text.

    A document type is refused, so the only entities are the five of XML itself: nothing is fetched, and nothing expands.

    Raises:
        ContentError: it is not well-formed, has a document type, or exceeds a limit.
    """
    tree = _Tree()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = tree.start, tree.end, tree.text
    try:
        _ = parser.Parse(raw, True)
    except expat.ExpatError as error:
        raise ContentError(f"it is not XML: {error}") from None
    except (ValueError, LookupError) as error:  # an encoding that is not known, or text that has none
        raise error if isinstance(error, ContentError) else ContentError(f"it is not XML: {error}") from None
    return tree.found


def _refuse_doctype(*_: Any) -> None:
    raise ContentError("it has a document type, which may define entities; send it without <!DOCTYPE>")


class _Tree:
    """The open elements, each with its content so far."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._open: list[tuple[str, dict[str, Any], list[str]]] = []
        self._values = 0

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._values += 1 + len(attributes)
        if self._values > VALUES_MAX:
            raise ContentError(f"it has more than {VALUES_MAX:,} elements and attributes; read it in parts")
        if len(self._open) >= DEPTH_MAX:
            raise ContentError(f"its elements are nested more than {DEPTH_MAX} levels deep")
        self._open.append((name, {f"@{key}": value for key, value in attributes.items()}, []))

    def text(self, text: str) -> None:
        self._open[-1][2].append(text)

    def end(self, name: str) -> None:
        _, fields, texts = self._open.pop()
        text = "".join(texts).strip()
        if fields and text:
            fields[TEXT] = text
        value: Any = fields or text
        into = self._open[-1][1] if self._open else self.found
        if name not in into:
            into[name] = value
        elif isinstance(into[name], list):
            into[name].append(value)
        else:
            into[name] = [into[name], value]


def csv_text(given: Iterable[Mapping[str, Any]], with_names: bool = True) -> str:
    """Rows as CSV, its first line the names of their fields in the order in which they are first met. Null is empty.

    Raises:
        BadContent: a value is no text, number, truth or null.
    """
    all_rows = list(given)
    names = list(dict.fromkeys(str(name) for row in all_rows for name in row))
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\n")
    if with_names:
        writer.writerow(names)
    for number, row in enumerate(all_rows, 1):
        writer.writerow([_field(row.get(name), number, name) for name in names])
    return written.getvalue()


def _field(value: Any, number: int, name: str) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return value
    raise ContentError(f"row {number}: {shortened(name)!r} can't be a field of CSV, which is text, a number, a boolean or null; select other fields")
