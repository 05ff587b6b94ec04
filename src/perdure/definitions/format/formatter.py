"""Formats definitions, as `perdure fmt` does: fields in the order of the model, quotes only where necessary, an indentation of two.

Comments, blank lines and collections on one line stay as they are; they are collected from the text by pointer, beside the data. Formatting twice changes
nothing more, and formatting never changes the data.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.core.errors import BadDefinition, ProgrammingError
from perdure.definitions.format import model
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.definitions.format.document_parser import parse_document, yaml_events, yaml_scalar_value
from perdure.definitions.format.shapes import EitherShape, FieldsShape, FormatField, ListShape, MapShape, PlainShape, Shape, StepsShape, matching_option

_COMMENT = re.compile(r"#[^\n\r]*")
_LINE = re.compile(r"[^\n]*(?:\n|$)")


class YamlComments(msgspec.Struct, frozen=True):
    """Comments by pointer of a field or item: `before` it, `beside` it and `after` its content; and the blank lines before it.

    `inline` are the lists and mappings in brackets and braces; `end` are the comments that close the text.
    """

    before: dict[str, list[str]] = {}
    beside: dict[str, str] = {}
    after: dict[str, list[str]] = {}
    spaced: set[str] = set()
    inline: set[str] = set()
    end: list[str] = []


class _BlockEntry(msgspec.Struct, frozen=True):
    """A field or an item of a block: where it begins."""

    index: int
    line: int
    column: int
    pointer: str


class _Comment(msgspec.Struct, frozen=True):
    """A comment: its text from the # on, and whether it has its line for itself."""

    index: int
    line: int
    column: int
    text: str
    alone: bool


def yaml_comments(text: str) -> YamlComments:
    """Collects the comments and blank lines of a YAML text.

    Raises:
        YamlRefused: the text can't be read.
    """
    found = YamlComments({}, {}, {}, set(), set(), [])
    entries, spans = _outline(text, found)
    lines = text.split("\n")
    comments = list(_comments(text, spans))
    heading = _heading(comments, entries, lines)
    found.before.update({"": [comment.text for comment in comments[:heading]]} if heading else {})
    for comment in comments[heading:]:
        _attach(comment, entries, found)
    owned = {comment.line for comment in comments if comment.alone}
    for entry, last in zip(entries[1:], entries, strict=False):
        line = entry.line - 1
        while line in owned:
            line -= 1
        if last.line <= line and not lines[line].strip():
            found.spaced.add(entry.pointer)
    return found


def _heading(comments: list[_Comment], entries: list[_BlockEntry], lines: list[str]) -> int:
    """The number of comments at the top, separated from the rest by a blank line."""
    first = entries[0].line if entries else len(lines)
    above = [comment.line for comment in comments if comment.line < first]
    return next((place + 1 for place in reversed(range(len(above))) if not lines[above[place] + 1].strip()), 0)


def _attach(comment: _Comment, entries: list[_BlockEntry], found: YamlComments) -> None:
    place = bisect_right([entry.index for entry in entries], comment.index)
    earlier = entries[:place]
    following = entries[place] if place < len(entries) else None
    if not comment.alone:
        here = [entry for entry in earlier if entry.line == comment.line]
        if here:
            found.beside[here[-1].pointer] = comment.text
        elif earlier:
            found.before.setdefault(earlier[-1].pointer, []).append(comment.text)
        else:
            found.before.setdefault(entries[0].pointer if entries else "", []).append(comment.text)
        return
    inner = next((entry for entry in reversed(earlier) if entry.column <= comment.column), None)
    if inner is not None and inner.column > (following.column if following else 0):
        found.after.setdefault(inner.pointer, []).append(comment.text)
    elif following is not None:
        found.before.setdefault(following.pointer, []).append(comment.text)
    else:
        found.end.append(comment.text)


def _outline(text: str, found: YamlComments) -> tuple[list[_BlockEntry], list[tuple[int, int]]]:
    """The entries of all blocks in order, and the spans of text that scalars take. Fills in `inline`."""
    entries: list[_BlockEntry] = []
    spans: list[tuple[int, int]] = []
    frames: list[_BlockFrame] = []
    for event in yaml_events(text):
        kind, mark = type(event).__name__, event.start_mark
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            frames.pop()
            continue
        if kind not in ("ScalarEvent", "AliasEvent", "MappingStartEvent", "SequenceStartEvent"):
            continue
        if kind == "ScalarEvent":
            spans.append((mark.index, _scalar_end(text, event)))
        frame = frames[-1] if frames else None
        if frame is not None and frame.names and frame.name is None:
            frame.name = event.value
            if not frame.inline:
                entries.append(_BlockEntry(mark.index, mark.line, mark.column, joined_pointer(frame.pointer, event.value)))
            continue
        pointer = ""
        if frame is not None:
            pointer = joined_pointer(frame.pointer, frame.name if frame.names and frame.name is not None else frame.count)
            if not frame.names and not frame.inline:
                entries.append(_dash(text, mark, frame.column, pointer))
            frame.name, frame.count = None, frame.count + 1
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            if event.flow_style:
                found.inline.add(pointer)
            frames.append(_BlockFrame(pointer, kind == "MappingStartEvent", bool(event.flow_style), mark.column))
    return entries, spans


class _BlockFrame(msgspec.Struct):
    """A mapping (`names`) or list that the scanner is in."""

    pointer: str
    names: bool
    inline: bool
    column: int
    name: str | None = None
    count: int = 0


def _dash(text: str, mark: Any, column: int, pointer: str) -> _BlockEntry:
    """The line of the dash of the block list item whose value begins at `mark`: the same line or one above."""
    line, start = mark.line, mark.index - mark.column
    while start > 0 and (text[start + column : start + column + 1] != "-" or text[start : start + column].strip("- ")):
        line, start = line - 1, text.rfind("\n", 0, start - 1) + 1
    return _BlockEntry(start + column, line, column, pointer)


def _scalar_end(text: str, event: Any) -> int:
    """Returns the end of a scalar; for a block scalar, the end of its last indented line."""
    if event.style not in ("|", ">"):
        return int(event.end_mark.index)
    header = text.find("\n", event.start_mark.index)
    if header < 0:
        return len(text)
    end, indent, explicit = header, -1, re.match(r"[|>][+-]?([1-9])", text[event.start_mark.index : header])
    for line in _LINE.finditer(text, header + 1, int(event.end_mark.index)):
        content = line[0].rstrip("\r\n")
        depth = len(content) - len(content.lstrip(" "))
        if not content.strip(" "):
            continue
        if indent < 0 and not explicit:
            indent = depth
        if depth < indent:
            break
        end = line.start() + len(content)
    return end


def _comments(text: str, spans: list[tuple[int, int]]) -> Iterator[_Comment]:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    spans = sorted(spans)
    begins = [start for start, _ in spans]
    position = 0
    while match := _COMMENT.search(text, position):
        index = match.start()
        span = bisect_right(begins, index) - 1
        if span >= 0 and spans[span][0] <= index < spans[span][1]:
            header = _header_comment(text, spans[span])
            if header != index:
                position = max(index + 1, header if index < header else spans[span][1])
                continue
        line = bisect_right(starts, index) - 1
        ahead = text[starts[line] : index]
        position = match.end()
        if not ahead or ahead[-1] in " \t":
            yield _Comment(index, line, index - starts[line], match[0].rstrip(), ahead.strip() in ("", "-", "---"))


def _header_comment(text: str, span: tuple[int, int]) -> int:
    """Returns the start of the comment after the header of a block scalar; -1 if there is none."""
    match = re.match(r"[|>][0-9+-]{0,2}[ \t]+(#)", text[span[0] : span[0] + 400])
    return span[0] + match.start(1) if match else -1


WIDTH = 160
NAME_MAX = 1000

_PLAIN = re.compile(r"[^\W\d][^'\"{}\[\]&*|>%`#!\\]*|[/$^(][^'\"{}\[\]&*|>%`#!\\]*|\d+(?:ms|s|m|h|d|w)|\d+\.\d+\.\d+(?:[-+][\w.+-]+)?")
_OTHERWISE = frozenset("y n yes no on off true false null".split())  # noqa: SIM905  # it reads as one line
_ESCAPED = re.compile(r"[^\x20-\x7e\u00a0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029]")


def format_document(text: str) -> str:
    """Returns the same definition in the standard format; JSON stays JSON.

    Raises:
        BadDefinition: the text can't be read. Its content is not validated.
    """
    read = parse_document(text)
    if read.findings:
        raise BadDefinition(read.findings)
    if read.language == "json":
        found = json.dumps(in_model_order(_shape_of(read.document), read.document), indent=2, ensure_ascii=False) + "\n"
    elif isinstance(read.document, dict | list) and read.document:
        found = "\n".join(_Writer(yaml_comments(text)).document(read.document)) + "\n"
    else:
        found = text
    again = parse_document(found)
    if again.findings or again.document != read.document:
        raise ProgrammingError(
            f"formatting would change the definition ({'; '.join(map(str, again.findings)) or 'another document'}); leave the text unformatted"
        )
    return found


def document_as_yaml(document: Any) -> str:
    """Returns a document as YAML, with steps as blocks and small values on one line."""
    small = {
        pointer for pointer, value in _inner(document, "") if isinstance(value, dict | list) and not any(isinstance(one, dict | list) for one in _values(value))
    }
    return "\n".join(_Writer(YamlComments(inline=small - {""})).document(document)) + "\n"


def in_model_order(shape: Shape, value: Any) -> Any:
    """Returns `value` with the fields of mappings in the order of the model, followed by unknown ones."""
    match value:
        case dict():
            shapes = dict(_fields(shape, value))
            return {name: in_model_order(shapes[name], value[name]) for name in shapes}
        case list():
            inner = _item(shape, value)
            return [in_model_order(inner, item) for item in value]
    return value


def _shape_of(document: Any) -> Shape:
    """The shape that orders a document: that of the format, or none for a dialect."""
    return model.DOCUMENT if isinstance(document, dict) and "perdure" in document else PlainShape()


def _fields(shape: Shape, value: dict[str, Any]) -> list[tuple[str, Shape]]:
    """The names of a mapping in the order in which they are written, each with the shape of what it holds."""
    option = matching_option(shape, value) if isinstance(shape, EitherShape) else shape
    match option:
        case FieldsShape():
            table: dict[str, FormatField] = {field.name: field for field in option.fields}
        case StepsShape():
            table = model.step_fields()
        case MapShape():
            return [(name, option.of) for name in value]
        case _:
            return [(name, PlainShape()) for name in value]
    known = [(name, field.shape) for name, field in table.items() if name in value]
    return known + [(name, PlainShape()) for name in value if name not in table]


def _item(shape: Shape, value: list[Any]) -> Shape:
    """The shape of what is in a list. A list of steps is the shape of its steps."""
    option = matching_option(shape, value) if isinstance(shape, EitherShape) else shape
    if isinstance(option, FieldsShape) and (meant := option.field(option.sugar)) is not None:
        option = meant.shape
    return option.of if isinstance(option, ListShape) else option if isinstance(option, StepsShape) else PlainShape()


class _Writer:
    """Writes blocks, line by line."""

    def __init__(self, noted: YamlComments) -> None:
        self.notes = noted

    def document(self, value: Any) -> Iterator[str]:
        """All lines."""
        if "" in self.notes.before:
            yield from (*self.notes.before[""], "")
        if isinstance(value, dict | list) and value:
            yield from self._block(_shape_of(value), value, "", 0)
        else:
            yield self._inline(PlainShape(), value, "", True)
        yield from self.notes.end

    def _block(self, shape: Shape, value: Any, pointer: str, indent: int) -> Iterator[str]:
        margin = " " * indent
        if isinstance(value, dict):
            for name, inner in _fields(shape, value):
                key, where = yaml_scalar(name, False), joined_pointer(pointer, name)
                yield from self._above(where, margin)
                if len(key) > NAME_MAX:
                    yield f"{margin}? {key}"
                    key = ""
                yield from self._entry(f"{margin}{key}:", inner, value[name], where, indent)
                yield from self._below(where, margin)
        else:
            item_shape = _item(shape, value)
            for index, item in enumerate(value):
                where = joined_pointer(pointer, index)
                yield from self._above(where, margin)
                yield from self._dashed(item_shape, item, where, indent)
                yield from self._below(where, margin)

    def _above(self, where: str, margin: str) -> Iterator[str]:
        if where in self.notes.spaced:
            yield ""
        for comment in self.notes.before.get(where, ()):
            yield margin + comment

    def _below(self, where: str, margin: str) -> Iterator[str]:
        for comment in self.notes.after.get(where, ()):
            yield margin + comment

    def _entry(self, head: str, shape: Shape, value: Any, where: str, indent: int) -> Iterator[str]:
        """A field or item whose name or dash is `head`."""
        beside = f" {self.notes.beside[where]}" if where in self.notes.beside else ""
        if isinstance(value, str) and _is_literal(value):
            first, *rest = _literal(value, indent + 2)
            yield f"{head} {first}{beside}"
            yield from rest
        elif not isinstance(value, dict | list) or not value:
            yield f"{head} {self._inline(shape, value, where, True)}{beside}"
        elif where in self.notes.inline and len(line := f"{head} {self._inline(shape, value, where, True)}") <= WIDTH:
            yield line + beside
        else:
            yield head + beside
            yield from self._block(shape, value, where, indent + 2)

    def _dashed(self, shape: Shape, item: Any, where: str, indent: int) -> Iterator[str]:
        """Yields the lines of an item. The first line of a block follows the dash, with its comments above."""
        margin = " " * indent
        entry = list(self._entry(f"{margin}-", shape, item, where, indent))
        if entry[0].rstrip() != f"{margin}-" and not entry[0].startswith(f"{margin}- #"):
            yield from entry
            return
        if entry[0].startswith(f"{margin}- #"):
            yield margin + entry[0][len(margin) + 2 :]
        inner = entry[1:]
        first = next(place for place, line in enumerate(inner) if line.strip() and not line.lstrip().startswith("#"))
        yield from (line[2:] for line in inner[:first])
        yield f"{margin}- {inner[first].lstrip(' ')}"
        yield from inner[first + 1 :]

    def _inline(self, shape: Shape, value: Any, where: str, top: bool) -> str:
        match value:
            case dict():
                inner = (
                    f"{yaml_scalar(name, True)}: {self._inline(kind, value[name], joined_pointer(where, name), False)}" for name, kind in _fields(shape, value)
                )
                return f"{{{', '.join(inner)}}}"
            case list():
                kind = _item(shape, value)
                return f"[{', '.join(self._inline(kind, item, joined_pointer(where, index), False) for index, item in enumerate(value))}]"
        return yaml_scalar(value, not top)


def yaml_scalar(value: Any, inline: bool) -> str:
    """A value on one line; `inline` within braces or brackets."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _is_plain(value, inline):
        return value
    if ('"' in value or "\\" in value) and "'" not in value and value.isprintable() and value.isascii():
        return f"'{value}'"
    quoted = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}" if ord(match[0]) < 0x10000 else f"\\U{ord(match[0]):08x}", quoted)


def _is_plain(value: str, inline: bool) -> bool:
    if not _PLAIN.fullmatch(value) or not value.isprintable() or value != value.strip() or value.lower() in _OTHERWISE:
        return False
    if ": " in value or " #" in value or value.endswith(":") or (inline and any(letter in value for letter in ",[]{}")):
        return False
    return bool(yaml_scalar_value(value) == value)


def _is_literal(value: str) -> bool:
    """Whether text is written as a block after a |."""
    lines = value.removesuffix("\n").split("\n")
    whole = all(not line or (line.isprintable() and not line.endswith(" ")) for line in lines)
    return "\n" in value and whole and bool(lines[0] and lines[-1]) and len(value) > 1


def _literal(value: str, indent: int) -> list[str]:
    head = "|" + ("2" if value.startswith(" ") else "") + ("" if value.endswith("\n") else "-")
    return [head, *(" " * indent + line if line else "" for line in value.removesuffix("\n").split("\n"))]


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)


def _inner(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    yield pointer, value
    if isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _inner(item, joined_pointer(pointer, name))
