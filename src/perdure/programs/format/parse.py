"""Text to plain data: YAML 1.2 or JSON, and where in the text everything stands.

What comes out is what JSON can say and the values of Perdure can keep. Nothing is constructed but that: tags are refused, keys are always text, an alias stands
for what it names and counts in full against the bounds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from perdure.programs.format.finding import Finding, error, joined, place
from perdure.programs.format.json_text import Spot, spots

BYTES_MAX = 4 * 1024 * 1024
DEPTH_MAX = 100
VALUES_MAX = 250_000
INTEGERS = range(-(2**63), 2**64)

Language = Literal["json", "yaml", "data"]


class Parsed(msgspec.Struct, frozen=True, dict=True):
    """Plain data read from text; `findings` are why it could not be, and then `document` is None."""

    document: Any
    language: Language
    text: str = ""
    yaml_spots: Mapping[str, Spot] = {}
    findings: tuple[Finding, ...] = ()

    @cached_property
    def positions(self) -> Mapping[str, Spot]:
        """JSON pointers, each with the line and column, from 1, where the thing begins: of a field, its name."""
        return spots(self.text)[0] if self.language == "json" else self.yaml_spots


def parsed(received: str | bytes | Any) -> Parsed:
    """Read text, UTF-8, or data that has been read already; JSON is tried on text that begins like it, and YAML otherwise."""
    if isinstance(received, bytes | bytearray | memoryview):
        try:
            received = bytes(received).decode("utf-8")
        except UnicodeDecodeError as mistake:
            return _refused("yaml", error("not_text", "", f"byte {mistake.start} is not UTF-8; save the file as UTF-8"))
    if not isinstance(received, str):
        problem = unfit(received)
        return _refused("data", problem) if problem else Parsed(received, "data")
    if len(received) > BYTES_MAX or len(received.encode("utf-8", "surrogatepass")) > BYTES_MAX:
        return _refused(
            "yaml", error("too_large", "", f"the definition is larger than {BYTES_MAX // 1024**2} MiB; keep large values elsewhere and pass their names")
        )
    text = received.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        found = _json(text)
        if not found.findings or found.findings[0].code != "not_json":
            return found
        other = _yaml(text)
        return found if other.findings and _looks_like_json(text) else other
    return _yaml(text)


Where = tuple["Where", Any] | None
"""A place in a document: the one around it, and the name or number in that; None is the document."""


def unfit(document: Any) -> Finding | None:
    """Why `document` is not plain data within the bounds; None if it is."""
    count, waiting = 1, list[tuple[Where, Any, int]]([(None, document, 1)])
    if type(document) is not dict and type(document) is not list and (why := _unfit_scalar(document)):
        return error("not_plain", "", f"{place(document, '')}: {why}")
    while waiting:
        where, value, depth = waiting.pop()
        if type(value) is not dict and type(value) is not list:
            continue
        if depth > DEPTH_MAX:
            return error("too_deep", _pointer(where), f"the definition is nested more than {DEPTH_MAX} deep")
        count += len(value)
        if count > VALUES_MAX:
            return error(
                "too_large", _pointer(where), f"the definition holds more than {VALUES_MAX:,} values; keep large values elsewhere and pass their names"
            )
        for key, item in value.items() if type(value) is dict else enumerate(value):
            if type(value) is dict and (why := _unfit_key(key)):
                return error("not_plain", _pointer(where), f"{place(document, _pointer(where))}: {why}")
            if type(item) is dict or type(item) is list:
                waiting.append(((where, key), item, depth + 1))
            elif why := _unfit_scalar(item):
                return error("not_plain", _pointer((where, key)), f"{place(document, _pointer((where, key)))}: {why}")
    return None


def _pointer(where: Where) -> str:
    """The JSON pointer of a place."""
    found = list[Any]()
    while where is not None:
        where, key = where
        found.append(key)
    return joined("", *reversed(found))


def _unfit_key(key: Any) -> str:
    if type(key) is not str:
        return f"a field's name is text, not {type(key).__name__}"
    return _unfit_scalar(key)


def _unfit_scalar(value: Any) -> str:
    match value:
        case None | bool():
            return ""
        case str() if type(value) is str:
            return "" if value.isascii() or _encodes(value) else "text with half a character (a lone surrogate); replace it"
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


def _refused(language: Language, *findings: Finding) -> Parsed:
    return Parsed(None, language, findings=findings)


def _json(text: str) -> Parsed:
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
        return _refused("json", Finding("not_json", "error", "", f"{where}: this is not JSON: {problem.msg}", problem.lineno, problem.colno))
    except RecursionError:
        return _refused("json", error("too_deep", "", f"the definition is nested more than {DEPTH_MAX} deep"))
    except ValueError:
        return _refused("json", error("not_plain", "", "a whole number takes 64 bits at most; write it as text"))
    problem_found = unfit(document)
    if problem_found:
        line, column = spots(text)[0].get(problem_found.pointer, (0, 0)) if problem_found.pointer else (0, 0)
        return _refused("json", msgspec.structs.replace(problem_found, line=line, column=column))
    if repeated:
        return _refused("json", *spots(text)[1])
    return Parsed(document, "json", text)


def _yaml(text: str) -> Parsed:
    from perdure.programs.format import yaml_text

    document, positions, findings = yaml_text.read(text)
    if not findings and (problem := unfit(document)):
        line, column = positions.get(problem.pointer, (0, 0))
        findings = (msgspec.structs.replace(problem, line=line, column=column),)
    return _refused("yaml", *findings) if findings else Parsed(document, "yaml", text, positions)


def _looks_like_json(text: str) -> bool:
    """Whether the first name in a mapping is quoted, as JSON has it, wherever it ends."""
    return text.lstrip().removeprefix("{").lstrip().startswith(('"', "[", "{", "}"))
