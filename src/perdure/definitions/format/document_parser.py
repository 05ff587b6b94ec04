"""Parses YAML 1.2 or JSON text to plain data, with the line and column of every value.

The result holds only what JSON can express and Perdure's values can store. YAML is read event by event, so that every bound is checked before anything is
built. Plain scalars follow the core schema of YAML 1.2: `yes`, `on` and `2026-01-01` are text, `true` and `1.5` are not. Tags, merge keys and NaN are refused
with the spelling to use instead; keys are always text; an alias counts in full against the bounds.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec

from perdure.core.errors import ProgrammingError
from perdure.definitions.format.definition_findings import DefinitionFinding, error_finding, joined_pointer, readable_location

TextPosition = tuple[int, int]
"""A line and a column, both from 1."""

DEPTH_MAX = 100


class TextBounds(NamedTuple):
    """The bounds of a text, and what findings call it. So many scalars of YAML as a definition may have take about five seconds to read, in JSON a hundredth
    of that."""

    what: str
    bytes_max: int
    values_max: int
    yaml_scalars_max: int


DEFINITION_BOUNDS = TextBounds("the definition", 4 * 1024 * 1024, 250_000, 50_000)

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def json_positions(text: str) -> tuple[dict[str, TextPosition], list[DefinitionFinding]]:
    """Each JSON pointer with where it begins (a field with its name), and a finding for each name that repeats another of its mapping."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: dict[str, TextPosition] = {}
    repeated: list[DefinitionFinding] = []
    frames: list[_JsonFrame] = []
    for token in _JSON_TOKEN.finditer(text):
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
                frames.append(_JsonFrame(pointer, word == "{"))
    return found, repeated


class _JsonFrame:
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
        return joined_pointer(self.pointer, self.key)

    def named(self, name: str, spot: TextPosition, found: dict[str, TextPosition]) -> DefinitionFinding | None:
        self.key, self.wants_name = name, False
        if name in self.names:
            return repeated_name_finding(self.pointer, name, spot, self.names[name])
        self.names[name] = spot[0]
        found[joined_pointer(self.pointer, name)] = spot
        return None


def repeated_name_finding(pointer: str, name: str, spot: TextPosition, first_line: int) -> DefinitionFinding:
    """The finding that `name` occurs twice in the mapping at `pointer`."""
    message = f"line {spot[0]}, column {spot[1]}: {name!r} occurs twice in one mapping (first on line {first_line}); keep one of them"
    return DefinitionFinding("duplicate_key", "error", joined_pointer(pointer, name), message, *spot)


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


class YamlRefused(Exception):
    """The text can't be read; `finding` says why."""

    def __init__(self, finding: DefinitionFinding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def read_yaml(text: str, bounds: TextBounds = DEFINITION_BOUNDS) -> tuple[Any, dict[str, TextPosition], tuple[DefinitionFinding, ...]]:
    """Returns the document, the position of everything in it, and the findings if it can't be read."""
    reader = _YamlReader(bounds)
    try:
        for event in yaml_events(text):
            reader.take(event)
    except YamlRefused as refused:
        return None, {}, (refused.finding,)
    except RecursionError:
        return None, {}, (DefinitionFinding("too_deep", "error", "", f"{bounds.what} is nested more than {DEPTH_MAX} deep"),)
    if reader.repeated:
        return None, {}, tuple(reader.repeated)
    return reader.document, reader.spots, ()


def yaml_events(text: str) -> Iterator[Any]:
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
        raise YamlRefused(_unreadable_yaml(text, problem)) from problem
    except (YAMLError, YAMLStreamError, ValueError, IndexError) as problem:
        why = " ".join(str(problem).split())[:200]
        raise YamlRefused(DefinitionFinding("not_yaml", "error", "", f"this is not YAML: {why}; write the document as YAML 1.2 or JSON")) from problem


class _YamlFrame(msgspec.Struct):
    """A mapping or list that is being read. `name` is the field whose value comes next."""

    pointer: str
    value: Any
    anchor: str | None
    spot: TextPosition
    name: str | None = None
    lines: dict[str, int] = {}


class _YamlReader:
    """Builds the document from events."""

    def __init__(self, bounds: TextBounds) -> None:
        self._bounds = bounds
        self.document: Any = None
        self.spots: dict[str, TextPosition] = {}
        self.repeated: list[DefinitionFinding] = []
        self._documents = self._count = 0
        self._frames: list[_YamlFrame] = []
        self._anchors: dict[str, tuple[Any] | None] = {}

    def take(self, event: Any) -> None:
        spot = (event.start_mark.line + 1, event.start_mark.column + 1)
        match type(event).__name__:
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise _yaml_refusal("several_documents", spot, f"{self._bounds.what} is one YAML document; put what follows '---' into a file of its own")
            case "ScalarEvent":
                self._count += 1
                if self._count > self._bounds.yaml_scalars_max:
                    what = f"{self._bounds.what} has more than {self._bounds.yaml_scalars_max:,} names and values, which is slow to read in YAML"
                    raise _yaml_refusal("too_large", spot, f"{what}; write it as JSON, or pass large values as input")
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

    def _begin(self, event: Any, spot: TextPosition) -> None:
        tag = _yaml_tag(event)
        if tag is not None and tag not in _PLAIN_TAGS:
            raise _tagged(tag, spot)
        pointer = self._arrive(spot, scalar=False)
        if len(self._frames) >= DEPTH_MAX:
            raise _yaml_refusal("too_deep", spot, f"{self._bounds.what} is nested more than {DEPTH_MAX} deep here")
        if event.anchor:
            self._anchors[event.anchor] = None
        value: Any = {} if type(event).__name__ == "MappingStartEvent" else []
        self._frames.append(_YamlFrame(pointer, value, event.anchor, spot, lines={}))

    def _scalar(self, event: Any, spot: TextPosition) -> None:
        tag = _yaml_tag(event)
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

    def _named(self, frame: _YamlFrame, name: str, plain: bool, spot: TextPosition) -> None:
        if plain and name == "<<":
            raise _yaml_refusal("merge_key", spot, "'<<' belongs to YAML 1.1 and does not merge here; write the fields out")
        frame.name = name
        pointer = joined_pointer(frame.pointer, name)
        if name in frame.lines:
            self.repeated.append(repeated_name_finding(frame.pointer, name, spot, frame.lines[name]))
        else:
            frame.lines[name] = spot[0]
            self.spots[pointer] = spot

    def _alias(self, name: str, spot: TextPosition) -> None:
        known = self._anchors.get(name)
        if known is None:
            why = f"'*{name}' is inside of the value that it names" if name in self._anchors else f"there is no '&{name}' before '*{name}'"
            raise _yaml_refusal("bad_alias", spot, f'{why}; to have it as text, quote it: "*{name}"')
        self._arrive(spot, scalar=not isinstance(known[0], dict | list))
        self._place(known[0])

    def _arrive(self, spot: TextPosition, scalar: bool) -> str:
        """Records the position of a value that begins here, and returns its pointer."""
        frame = self._frames[-1] if self._frames else None
        if frame is None:
            pointer = ""
        elif isinstance(frame.value, list):
            pointer = joined_pointer(frame.pointer, len(frame.value))
        elif frame.name is not None:
            pointer = joined_pointer(frame.pointer, frame.name)
        else:
            raise _yaml_refusal("bad_name", spot, "a field's name is text, not a list, a mapping or an alias")
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


def _yaml_tag(event: Any) -> str | None:
    tag = getattr(event, "tag", None)
    return None if tag is None else str(tag)


def yaml_scalar_value(text: str) -> Any:
    """Returns the value of a plain scalar by the core schema; NaN for a number that is not finite or too long."""
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


def _resolved(text: str, spot: TextPosition) -> Any:
    value = yaml_scalar_value(text)
    if isinstance(value, float) and math.isnan(value):
        raise _yaml_refusal("not_plain", spot, f"{text[:40]} is not a number of at most 64 bits; quote it to make it text")
    return value


def _yaml_refusal(code: str, spot: TextPosition, why: str) -> YamlRefused:
    return YamlRefused(DefinitionFinding(code, "error", "", f"line {spot[0]}, column {spot[1]}: {why}", *spot))


def _tagged(tag: str, spot: TextPosition) -> YamlRefused:
    shown = tag.replace("tag:yaml.org,2002:", "!!")[:60]
    return _yaml_refusal("tag", spot, f"the tag {shown} is not supported, because a definition is plain data; remove it, or quote the text")


def _unreadable_yaml(text: str, problem: Any) -> DefinitionFinding:
    mark = problem.problem_mark or problem.context_mark
    spot = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    line = (text.splitlines() or [""])[min(spot[0], text.count("\n") + 1) - 1 :][:1]
    rest = line[0][spot[1] - 1 :] if line else ""
    said = str(problem.problem or "")
    return _yaml_refusal("not_yaml", spot, _advice(said, rest, " ".join(str(problem.context or "").split()))).finding


def _advice(said: str, rest: str, context: str) -> str:
    """Returns what to do about an error of the YAML parser, if its cause is known; else the parser's own message."""
    if "that cannot start any token" in said and rest[:1] in ("@", "`", "%"):
        return f'quote it: "{_token(rest)}" (YAML reserves a leading {rest[0]})'
    if "that cannot start any token" in said and rest[:1] == "\t":
        return "YAML does not allow a tab here; indent with spaces"
    if "mapping values are not allowed" in said:
        return "an unquoted text contains ': ', or the line is indented too far; quote the text"
    if "expected <block end>" in said or "did not find expected '-' indicator" in said:
        return "this line does not fit those around it; indent it like its neighbours, or quote the text before it"
    if "found unexpected end of stream" in said or "expected ',' or" in said:
        return f"{said or 'this ends too early'}; close what was opened before (quote, bracket or brace), or put a comma"
    return f"this is not YAML: {context + ': ' if context else ''}{said or 'it can not be read'}"


def _token(rest: str) -> str:
    """The unquoted text at the start of `rest`."""
    depth = 0
    for place, letter in enumerate(rest):
        depth += (letter in "{[") - (letter in "}]")
        if depth < 0 or (letter == "," and depth == 0) or (letter == "#" and rest[place - 1 : place] == " "):
            return rest[:place].rstrip().replace('"', '\\"')
    return rest.rstrip().replace('"', '\\"')


INTEGERS = range(-(2**63), 2**64)

TextLanguage = Literal["json", "yaml", "data"]


class ParsedDocument(msgspec.Struct, frozen=True, dict=True):
    """Plain data read from text. If it could not be read, `findings` has the reasons and `document` is None."""

    document: Any
    language: TextLanguage
    text: str = ""
    yaml_spots: Mapping[str, TextPosition] = {}
    findings: tuple[DefinitionFinding, ...] = ()

    @cached_property
    def positions(self) -> Mapping[str, TextPosition]:
        """The line and column, from 1, at which each JSON pointer begins; a field begins at its name."""
        return json_positions(self.text)[0] if self.language == "json" else self.yaml_spots


def parse_document(received: str | bytes | Any, bounds: TextBounds = DEFINITION_BOUNDS) -> ParsedDocument:
    """Parses text or UTF-8 as JSON if it looks like JSON, and as YAML otherwise; plain data is only checked. `bounds` are those of the text."""
    if isinstance(received, bytes | bytearray | memoryview):
        try:
            received = bytes(received).decode("utf-8")
        except UnicodeDecodeError as mistake:
            return _refused_text("yaml", error_finding("not_text", "", f"byte {mistake.start} is not UTF-8; save the file as UTF-8"))
    if not isinstance(received, str):
        problem = plain_data_finding(received, bounds)
        return _refused_text("data", problem) if problem else ParsedDocument(received, "data")
    if len(received) > bounds.bytes_max or len(received.encode("utf-8", "surrogatepass")) > bounds.bytes_max:
        size = f"{bounds.bytes_max:,} bytes" if bounds.bytes_max % 1024**2 else f"{bounds.bytes_max // 1024**2} MiB"
        return _refused_text("yaml", error_finding("too_large", "", f"{bounds.what} is larger than {size}; keep large values elsewhere and pass their names"))
    text = received.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        found = _json(text, bounds)
        if not found.findings or found.findings[0].code != "not_json":
            return found
        other = _yaml(text, bounds)
        return found if other.findings and _looks_like_json(text) else other
    return _yaml(text, bounds)


_ParentChain = tuple["_ParentChain", Any] | None
"""A location in a document: that of its parent, and the name or number in it; None is the document."""


def plain_data_finding(document: Any, bounds: TextBounds = DEFINITION_BOUNDS) -> DefinitionFinding | None:
    """Returns the finding that `document` is not plain data within the bounds; None if it is."""
    count, waiting = 1, list[tuple[_ParentChain, Any, int]]([(None, document, 1)])
    if type(document) is not dict and type(document) is not list and (why := _unfit_scalar(document)):
        return error_finding("not_plain", "", f"{readable_location(document, '')}: {why}")
    while waiting:
        where, value, depth = waiting.pop()
        if type(value) is not dict and type(value) is not list:
            continue
        if depth > DEPTH_MAX:
            return error_finding("too_deep", _pointer(where), f"{bounds.what} is nested more than {DEPTH_MAX} deep")
        count += len(value)
        if count > bounds.values_max:
            return error_finding(
                "too_large", _pointer(where), f"{bounds.what} holds more than {bounds.values_max:,} values; keep large values elsewhere and pass their names"
            )
        for key, item in value.items() if type(value) is dict else enumerate(value):
            if type(value) is dict and (why := _unfit_key(key)):
                return error_finding("not_plain", _pointer(where), f"{readable_location(document, _pointer(where))}: {why}")
            if type(item) is dict or type(item) is list:
                waiting.append(((where, key), item, depth + 1))
            elif why := _unfit_scalar(item):
                return error_finding("not_plain", _pointer((where, key)), f"{readable_location(document, _pointer((where, key)))}: {why}")
    return None


def _pointer(where: _ParentChain) -> str:
    """The JSON pointer of a place."""
    found = list[Any]()
    while where is not None:
        where, key = where
        found.append(key)
    return joined_pointer("", *reversed(found))


def _unfit_key(key: Any) -> str:
    if type(key) is not str:
        return f"a field's name is text, not {type(key).__name__}"
    return _unfit_scalar(key)


def _unfit_scalar(value: Any) -> str:
    match value:
        case None | bool():
            return ""
        case str() if type(value) is str:
            return "" if value.isascii() or _encodes(value) else "a text contains half a character (a lone surrogate); replace it"
        case int() if type(value) is int:
            return "" if value in INTEGERS else "a whole number takes 64 bits at most; write it as text"
        case float() if type(value) is float:
            return "" if math.isfinite(value) else "a number is finite; write null or text"
    return f"a value is text, a number, true, false, null, a list or a mapping, not {type(value).__name__}"


def _encodes(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refused_text(language: TextLanguage, *findings: DefinitionFinding) -> ParsedDocument:
    return ParsedDocument(None, language, findings=findings)


def _json(text: str, bounds: TextBounds) -> ParsedDocument:
    repeated = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        found = dict(items)
        repeated = repeated or len(found) < len(items)
        return found

    try:
        document = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        return _refused_text("json", DefinitionFinding("not_json", "error", "", f"{where}: this is not JSON: {problem.msg}", problem.lineno, problem.colno))
    except RecursionError:
        return _refused_text("json", error_finding("too_deep", "", f"{bounds.what} is nested more than {DEPTH_MAX} deep"))
    except ValueError:
        return _refused_text("json", error_finding("not_plain", "", "a whole number takes 64 bits at most; write it as text"))
    problem_found = plain_data_finding(document, bounds)
    if problem_found:
        line, column = json_positions(text)[0].get(problem_found.pointer, (0, 0)) if problem_found.pointer else (0, 0)
        return _refused_text("json", msgspec.structs.replace(problem_found, line=line, column=column))
    if repeated:
        return _refused_text("json", *json_positions(text)[1])
    return ParsedDocument(document, "json", text)


def _yaml(text: str, bounds: TextBounds) -> ParsedDocument:

    document, positions, findings = read_yaml(text, bounds)
    if not findings and (problem := plain_data_finding(document, bounds)):
        line, column = positions.get(problem.pointer, (0, 0))
        findings = (msgspec.structs.replace(problem, line=line, column=column),)
    return _refused_text("yaml", *findings) if findings else ParsedDocument(document, "yaml", text, positions)


def _looks_like_json(text: str) -> bool:
    """Whether the text begins like JSON: with a mapping whose first name is quoted."""
    return text.lstrip().removeprefix("{").lstrip().startswith(('"', "[", "{", "}"))
