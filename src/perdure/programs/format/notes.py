"""What YAML text says to people only: its comments, blank lines, and what stands on one line in braces. Kept beside the data, by pointer."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.programs.format.finding import joined
from perdure.programs.format.yaml_text import events

_COMMENT = re.compile(r"#[^\n\r]*")
_LINE = re.compile(r"[^\n]*(?:\n|$)")


class Notes(msgspec.Struct, frozen=True):
    """By pointer of a field or item: the comments `before` it, the one `beside` it, those `after` all that is in it; where a blank line stands before.

    `inline` are the lists and mappings in brackets and braces; `end` are the comments that close the text.
    """

    before: dict[str, list[str]] = {}
    beside: dict[str, str] = {}
    after: dict[str, list[str]] = {}
    spaced: set[str] = set()
    inline: set[str] = set()
    end: list[str] = []


class _Entry(msgspec.Struct, frozen=True):
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


def of(text: str) -> Notes:
    """The notes of YAML that can be read.

    Raises:
        Refused: it can't.
    """
    found = Notes({}, {}, {}, set(), set(), [])
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


def _heading(comments: list[_Comment], entries: list[_Entry], lines: list[str]) -> int:
    """How many comments stand above all, apart from what follows by a blank line."""
    first = entries[0].line if entries else len(lines)
    above = [comment.line for comment in comments if comment.line < first]
    return next((place + 1 for place in reversed(range(len(above))) if not lines[above[place] + 1].strip()), 0)


def _attach(comment: _Comment, entries: list[_Entry], found: Notes) -> None:
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


def _outline(text: str, found: Notes) -> tuple[list[_Entry], list[tuple[int, int]]]:
    """The entries of all blocks in order, and the spans of text that scalars take. Fills in `inline`."""
    entries: list[_Entry] = []
    spans: list[tuple[int, int]] = []
    frames: list[_Frame] = []
    for event in events(text):
        kind, mark = type(event).__name__, event.start_mark
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            frames.pop()
            continue
        if kind not in ("ScalarEvent", "AliasEvent", "MappingStartEvent", "SequenceStartEvent"):
            continue
        if kind == "ScalarEvent":
            spans.append((mark.index, _end(text, event)))
        frame = frames[-1] if frames else None
        if frame is not None and frame.names and frame.name is None:
            frame.name = event.value
            if not frame.inline:
                entries.append(_Entry(mark.index, mark.line, mark.column, joined(frame.pointer, event.value)))
            continue
        pointer = ""
        if frame is not None:
            pointer = joined(frame.pointer, frame.name if frame.names and frame.name is not None else frame.count)
            if not frame.names and not frame.inline:
                entries.append(_dash(text, mark, frame.column, pointer))
            frame.name, frame.count = None, frame.count + 1
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            if event.flow_style:
                found.inline.add(pointer)
            frames.append(_Frame(pointer, kind == "MappingStartEvent", bool(event.flow_style), mark.column))
    return entries, spans


class _Frame(msgspec.Struct):
    """A mapping (`names`) or list that is being gone through."""

    pointer: str
    names: bool
    inline: bool
    column: int
    name: str | None = None
    count: int = 0


def _dash(text: str, mark: Any, column: int, pointer: str) -> _Entry:
    """The item of a block list whose value begins at `mark`: where its dash stands, on the same line or further above."""
    line, start = mark.line, mark.index - mark.column
    while start > 0 and (text[start + column : start + column + 1] != "-" or text[start : start + column].strip("- ")):
        line, start = line - 1, text.rfind("\n", 0, start - 1) + 1
    return _Entry(start + column, line, column, pointer)


def _end(text: str, event: Any) -> int:
    """Where a scalar ends; of a block, the end of the last line that is indented like it."""
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
    """Where the comment behind the head of a block scalar begins; -1 if there is none."""
    match = re.match(r"[|>][0-9+-]{0,2}[ \t]+(#)", text[span[0] : span[0] + 400])
    return span[0] + match.start(1) if match else -1
