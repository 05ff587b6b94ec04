"""Findings: an error or a warning in a definition, its location and its fix, as data and as one sentence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec


class DefinitionFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem of a definition. `message` says where, what and what to do; `pointer` is a JSON pointer into the document, or into
    the set of documents that it came with.

    `line` and `column` count from 1, 0 where they are not known. `code` is stable. `suggestion` is a similar valid name; `fix` is a JSON Patch of the
    document, given only where it is safe to apply.
    """

    code: str
    severity: Literal["error", "warning"]
    pointer: str
    message: str
    line: int = 0
    column: int = 0
    suggestion: str = ""
    fix: tuple[dict[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.message} (line {self.line})" if self.line and not self.message.startswith("line ") else self.message


def error_finding(code: str, pointer: str, message: str, suggestion: str = "", fix: Iterable[dict[str, Any]] = ()) -> DefinitionFinding:
    """Returns a finding with which the definition can't be used."""
    return DefinitionFinding(code, "error", pointer, message, suggestion=suggestion, fix=tuple(fix))


def warning_finding(code: str, pointer: str, message: str, suggestion: str = "", fix: Iterable[dict[str, Any]] = ()) -> DefinitionFinding:
    """Returns a finding with which the definition can still be used."""
    return DefinitionFinding(code, "warning", pointer, message, suggestion=suggestion, fix=tuple(fix))


def closest_name(name: str, known: Iterable[str]) -> str:
    """Returns the one of `known` that is most similar to `name`; empty if none is."""
    candidates = sorted(set(known))
    folded = {one.casefold(): one for one in reversed(candidates)}
    if name.casefold() in folded:
        return folded[name.casefold()]
    return next(iter(difflib.get_close_matches(name[:200], candidates[:2000], 1, 0.6)), "")


def joined_pointer(pointer: str, *parts: str | int) -> str:
    """Returns `pointer` extended by further parts, escaped."""
    return pointer + "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def pointer_parts(pointer: str) -> list[str]:
    """Returns the unescaped parts of a JSON pointer."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def value_at_pointer(document: Any, pointer: str) -> Any:
    """The value at `pointer`; None if there is none."""
    for part in pointer_parts(pointer):
        match document:
            case dict() if part in document:
                document = document[part]
            case list() if _INDEX.fullmatch(part) and int(part) < len(document):
                document = document[int(part)]
            case _:
                return None
    return document


def readable_location(document: Any, pointer: str) -> str:
    """Returns the location of `pointer` for people: ``steps[1] (b)`` for a step, ``steps[0].when`` for a field of one."""
    text = "".join(f"[{part}]" if _INDEX.fullmatch(part) else f".{part}" if _WORD.fullmatch(part) else f"[{part!r}]" for part in pointer_parts(pointer)).lstrip(
        "."
    )
    step = value_at_pointer(document, pointer)
    named = isinstance(step, dict) and isinstance(step.get("id"), str) and step_pointer_of(pointer) == pointer
    return f"{text} ({_cut(step['id'])})" if named else text or "the definition"


def step_pointer_of(pointer: str) -> str:
    """Returns the pointer of the step that contains `pointer`; empty if none does."""
    match = _STEP.match(pointer)
    return match[0] if match else ""


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"


_LISTS = "then|else|do|parallel|parallel/steps|race|on_error"
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_STEP = re.compile(rf"/steps/\d+(?:/(?:{_LISTS})/\d+)*(?=/|$)")
