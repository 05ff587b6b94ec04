"""`perdure fmt`: one way to write a definition. Fields in the order of the model, quotes where they are needed, two blanks of indentation; comments, blank
lines and what stands on one line stay as they are. Formatting what is formatted changes nothing, and what the text says never changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from perdure.core.errors import BadDefinition, ProgrammingError
from perdure.programs.format import model, notes
from perdure.programs.format.finding import joined
from perdure.programs.format.parse import parsed
from perdure.programs.format.shapes import Either, Field, Fields, ListOf, MapOf, Plain, Shape, Steps, chosen
from perdure.programs.format.yaml_text import meaning

WIDTH = 160
NAME_MAX = 1000

_PLAIN = re.compile(r"[^\W\d][^'\"{}\[\]&*|>%`#!\\]*|[/$^(][^'\"{}\[\]&*|>%`#!\\]*|\d+(?:ms|s|m|h|d|w)|\d+\.\d+\.\d+(?:[-+][\w.+-]+)?")
_OTHERWISE = frozenset("y n yes no on off true false null".split())  # noqa: SIM905  # it reads as one line
_ESCAPED = re.compile(r"[^\x20-\x7e\u00a0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029]")


def formatted(text: str) -> str:
    """The same definition, written in the one way; JSON stays JSON.

    Raises:
        BadDefinition: the text can't be read. What it says is not looked at.
    """
    read = parsed(text)
    if read.findings:
        raise BadDefinition(read.findings)
    if read.language == "json":
        found = json.dumps(ordered(_shape_of(read.document), read.document), indent=2, ensure_ascii=False) + "\n"
    elif isinstance(read.document, dict | list) and read.document:
        found = "\n".join(_Writer(notes.of(text)).document(read.document)) + "\n"
    else:
        found = text
    again = parsed(found)
    if again.findings or again.document != read.document:
        raise ProgrammingError(
            f"formatting would change what the definition says ({'; '.join(map(str, again.findings)) or 'another document'}); leave it as it is"
        )
    return found


def yaml(document: Any) -> str:
    """A document as YAML, its steps in blocks and what is small on one line."""
    small = {
        pointer for pointer, value in _inner(document, "") if isinstance(value, dict | list) and not any(isinstance(one, dict | list) for one in _values(value))
    }
    return "\n".join(_Writer(notes.Notes(inline=small - {""})).document(document)) + "\n"


def ordered(shape: Shape, value: Any) -> Any:
    """`value` with the fields of mappings in the order of the model, and those that it does not know behind them."""
    match value:
        case dict():
            shapes = dict(_fields(shape, value))
            return {name: ordered(shapes[name], value[name]) for name in shapes}
        case list():
            inner = _item(shape, value)
            return [ordered(inner, item) for item in value]
    return value


def _shape_of(document: Any) -> Shape:
    """The shape by which a document is ordered: that of the format, or none for what comes in another."""
    return model.DOCUMENT if isinstance(document, dict) and "perdure" in document else Plain()


def _fields(shape: Shape, value: dict[str, Any]) -> list[tuple[str, Shape]]:
    """The names of a mapping in the order in which they are written, each with the shape of what it holds."""
    option = chosen(shape, value) if isinstance(shape, Either) else shape
    match option:
        case Fields():
            table: dict[str, Field] = {field.name: field for field in option.fields}
        case Steps():
            table = model.step_fields()
        case MapOf():
            return [(name, option.of) for name in value]
        case _:
            return [(name, Plain()) for name in value]
    known = [(name, field.shape) for name, field in table.items() if name in value]
    return known + [(name, Plain()) for name in value if name not in table]


def _item(shape: Shape, value: list[Any]) -> Shape:
    """The shape of what is in a list. A list of steps is the shape of its steps."""
    option = chosen(shape, value) if isinstance(shape, Either) else shape
    if isinstance(option, Fields) and (meant := option.field(option.sugar)) is not None:
        option = meant.shape
    return option.of if isinstance(option, ListOf) else option if isinstance(option, Steps) else Plain()


class _Writer:
    """Writes blocks, line by line."""

    def __init__(self, noted: notes.Notes) -> None:
        self.notes = noted

    def document(self, value: Any) -> Iterator[str]:
        """All lines."""
        if "" in self.notes.before:
            yield from (*self.notes.before[""], "")
        if isinstance(value, dict | list) and value:
            yield from self._block(_shape_of(value), value, "", 0)
        else:
            yield self._inline(Plain(), value, "", True)
        yield from self.notes.end

    def _block(self, shape: Shape, value: Any, pointer: str, indent: int) -> Iterator[str]:
        margin = " " * indent
        if isinstance(value, dict):
            for name, inner in _fields(shape, value):
                key, where = scalar(name, False), joined(pointer, name)
                yield from self._above(where, margin)
                if len(key) > NAME_MAX:
                    yield f"{margin}? {key}"
                    key = ""
                yield from self._entry(f"{margin}{key}:", inner, value[name], where, indent)
                yield from self._below(where, margin)
        else:
            item_shape = _item(shape, value)
            for index, item in enumerate(value):
                where = joined(pointer, index)
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
        """An item; of a block in a block, the first line stands behind the dash, and comments above it."""
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
                inner = (f"{scalar(name, True)}: {self._inline(kind, value[name], joined(where, name), False)}" for name, kind in _fields(shape, value))
                return f"{{{', '.join(inner)}}}"
            case list():
                kind = _item(shape, value)
                return f"[{', '.join(self._inline(kind, item, joined(where, index), False) for index, item in enumerate(value))}]"
        return scalar(value, not top)


def scalar(value: Any, inline: bool) -> str:
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
    return bool(meaning(value) == value)


def _is_literal(value: str) -> bool:
    """Whether text is written line by line behind a |."""
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
            yield from _inner(item, joined(pointer, name))
