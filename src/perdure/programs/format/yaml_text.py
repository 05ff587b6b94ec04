"""YAML 1.2 text to plain data and positions, event by event, so that nothing is built before it has been bounded.

Plain scalars are taken by the core schema of YAML 1.2: `yes`, `on` and `2026-01-01` are text, `true` and `1.5` are not. Whatever would build more than plain
data (tags, merge keys, NaN) is refused with what to write instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.core.errors import ProgrammingError
from perdure.programs.format.finding import Finding, joined
from perdure.programs.format.json_text import Spot, repeated_name
from perdure.programs.format.parse import DEPTH_MAX

_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS = (
    {"": None, "~": None, "null": None, "Null": None, "NULL": None}
    | dict.fromkeys(("true", "True", "TRUE"), True)
    | dict.fromkeys(("false", "False", "FALSE"), False)
)
_TEXT_TAGS = {"!", "tag:yaml.org,2002:str"}
_PLAIN_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


class Refused(Exception):
    """The text can't be read; `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def read(text: str) -> tuple[Any, dict[str, Spot], tuple[Finding, ...]]:
    """The document, where everything in it begins, and why it can't be read."""
    reader = _Reader()
    try:
        for event in events(text):
            reader.take(event)
    except Refused as refused:
        return None, {}, (refused.finding,)
    except RecursionError:
        return None, {}, (Finding("too_deep", "error", "", f"the definition is nested more than {DEPTH_MAX} deep"),)
    if reader.repeated:
        return None, {}, tuple(reader.repeated)
    return reader.document, reader.spots, ()


def events(text: str) -> Iterator[Any]:
    """The events of the parser.

    Raises:
        Refused: the text is no YAML.
    """
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLStreamError
    except ImportError as missing:
        raise ProgrammingError('definitions in YAML need ruamel.yaml; install it: pip install "perdure[definitions]", or write JSON') from missing
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as problem:
        raise Refused(_unreadable(text, problem)) from problem
    except (YAMLError, YAMLStreamError, ValueError, IndexError) as problem:
        why = " ".join(str(problem).split())[:200]
        raise Refused(Finding("not_yaml", "error", "", f"this is not YAML: {why}; write the document as YAML 1.2 or JSON")) from problem


SCALARS_MAX = 50_000
"""So many take some five seconds to read; in JSON a hundredth of that."""


class _Frame(msgspec.Struct):
    """A mapping or list that is being read. `name` is the field whose value comes next."""

    pointer: str
    value: Any
    anchor: str | None
    spot: Spot
    name: str | None = None
    lines: dict[str, int] = {}


class _Reader:
    """Builds the document from events."""

    def __init__(self) -> None:
        self.document: Any = None
        self.spots: dict[str, Spot] = {}
        self.repeated: list[Finding] = []
        self._documents = self._count = 0
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[Any] | None] = {}

    def take(self, event: Any) -> None:
        spot = (event.start_mark.line + 1, event.start_mark.column + 1)
        match type(event).__name__:
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise _refusal("several_documents", spot, "a definition is one YAML document; put what follows '---' into a file of its own")
            case "ScalarEvent":
                self._count += 1
                if self._count > SCALARS_MAX:
                    what = f"the definition has more than {SCALARS_MAX:,} names and values, which YAML takes long to read"
                    raise _refusal("too_large", spot, f"{what}; write it as JSON, or give large values as input")
                self._scalar(event, spot)
            case "AliasEvent":
                self._alias(event.anchor, spot)
            case "MappingStartEvent" | "SequenceStartEvent":
                self._begin(event, spot)
            case "MappingEndEvent" | "SequenceEndEvent":
                frame = self._frames.pop()
                if frame.anchor:
                    self._anchors[frame.anchor] = (frame.value,)
                self._place(frame.value)

    def _begin(self, event: Any, spot: Spot) -> None:
        tag = _tag(event)
        if tag is not None and tag not in _PLAIN_TAGS:
            raise _tagged(tag, spot)
        pointer = self._arrive(spot, scalar=False)
        if len(self._frames) >= DEPTH_MAX:
            raise _refusal("too_deep", spot, f"the definition is nested more than {DEPTH_MAX} deep here")
        if event.anchor:
            self._anchors[event.anchor] = None
        value: Any = {} if type(event).__name__ == "MappingStartEvent" else []
        self._frames.append(_Frame(pointer, value, event.anchor, spot, lines={}))

    def _scalar(self, event: Any, spot: Spot) -> None:
        tag = _tag(event)
        if tag is not None and tag not in _TEXT_TAGS:
            raise _tagged(tag, spot)
        frame = self._frames[-1] if self._frames else None
        plain = event.style in (None, "") and tag is None
        if frame is not None and isinstance(frame.value, dict) and frame.name is None:
            self._named(frame, event.value, plain, spot)
            return
        self._arrive(spot, scalar=True)
        value = _resolved(event.value, spot) if plain else event.value
        if event.anchor:
            self._anchors[event.anchor] = (value,)
        self._place(value)

    def _named(self, frame: _Frame, name: str, plain: bool, spot: Spot) -> None:
        if plain and name == "<<":
            raise _refusal("merge_key", spot, "'<<' is of YAML 1.1 and merges nothing here; write the fields out")
        frame.name = name
        pointer = joined(frame.pointer, name)
        if name in frame.lines:
            self.repeated.append(repeated_name(frame.pointer, name, spot, frame.lines[name]))
        else:
            frame.lines[name] = spot[0]
            self.spots[pointer] = spot

    def _alias(self, name: str, spot: Spot) -> None:
        known = self._anchors.get(name)
        if known is None:
            why = f"'*{name}' stands inside of what it names" if name in self._anchors else f"there is no '&{name}' before '*{name}'"
            raise _refusal("bad_alias", spot, f'{why}; to have it as text, quote it: "*{name}"')
        self._arrive(spot, scalar=not isinstance(known[0], dict | list))
        self._place(known[0])

    def _arrive(self, spot: Spot, scalar: bool) -> str:
        """A value begins: its pointer, noted with its place."""
        frame = self._frames[-1] if self._frames else None
        if frame is None:
            pointer = ""
        elif isinstance(frame.value, list):
            pointer = joined(frame.pointer, len(frame.value))
        elif frame.name is not None:
            pointer = joined(frame.pointer, frame.name)
        else:
            raise _refusal("bad_name", spot, "a field's name is text, not a list, a mapping or an alias")
        self.spots.setdefault(pointer, spot)
        return pointer

    def _place(self, value: Any) -> None:
        if not self._frames:
            self.document = value
            return
        frame = self._frames[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.name is not None:
            frame.value[frame.name] = value
            frame.name = None


def _tag(event: Any) -> str | None:
    tag = getattr(event, "tag", None)
    return None if tag is None else str(tag)


def meaning(text: str) -> Any:
    """What a plain scalar means by the core schema; a number that is not finite, or too long to be one, is NaN."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INT.fullmatch(text):
        return int(text) if len(text) <= 100 else math.nan
    if _BASED.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if _FLOAT.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else math.nan
    return math.nan if _NOT_FINITE.fullmatch(text) else text


def _resolved(text: str, spot: Spot) -> Any:
    value = meaning(text)
    if isinstance(value, float) and math.isnan(value):
        raise _refusal("not_plain", spot, f"{text[:40]} is no number of at most 64 bits; quote it to have it as text")
    return value


def _refusal(code: str, spot: Spot, why: str) -> Refused:
    return Refused(Finding(code, "error", "", f"line {spot[0]}, column {spot[1]}: {why}", *spot))


def _tagged(tag: str, spot: Spot) -> Refused:
    shown = tag.replace("tag:yaml.org,2002:", "!!")[:60]
    return _refusal("tag", spot, f"the tag {shown} is not taken: a definition is plain data; remove it, or quote the text")


def _unreadable(text: str, problem: Any) -> Finding:
    mark = problem.problem_mark or problem.context_mark
    spot = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    line = (text.splitlines() or [""])[min(spot[0], text.count("\n") + 1) - 1 :][:1]
    rest = line[0][spot[1] - 1 :] if line else ""
    said = str(problem.problem or "")
    return _refusal("not_yaml", spot, _advice(said, rest, " ".join(str(problem.context or "").split()))).finding


def _advice(said: str, rest: str, context: str) -> str:
    """What to do about an error of the parser, in the words of a person where the reason is a known one."""
    if "that cannot start any token" in said and rest[:1] in ("@", "`", "%"):
        return f'quote it: "{_token(rest)}" (YAML reserves a leading {rest[0]})'
    if "that cannot start any token" in said and rest[:1] == "\t":
        return "indent with spaces; YAML takes no tab here"
    if "mapping values are not allowed" in said:
        return "a ': ' stands in text that is not quoted, or the line is indented too far; quote the text"
    if "expected <block end>" in said or "did not find expected '-' indicator" in said:
        return "this line does not fit those around it; indent it like its neighbours, or quote the text before it"
    if "found unexpected end of stream" in said or "expected ',' or" in said:
        return f"{said or 'this ends too early'}; close what was opened before (quote, bracket or brace), or put a comma"
    return f"this is not YAML: {context + ': ' if context else ''}{said or 'it can not be read'}"


def _token(rest: str) -> str:
    """The text that was meant to stand unquoted at the start of `rest`."""
    depth = 0
    for place, letter in enumerate(rest):
        depth += (letter in "{[") - (letter in "}]")
        if depth < 0 or (letter == "," and depth == 0) or (letter == "#" and rest[place - 1 : place] == " "):
            return rest[:place].rstrip().replace('"', '\\"')
    return rest.rstrip().replace('"', '\\"')
