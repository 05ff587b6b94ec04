"""Writing a definition in another dialect: what was written is read again, and only if that is the same definition it is given out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from perdure.expr.template import is_expression
from perdure.programs.format.canonical import canonical
from perdure.programs.format.check import checked
from perdure.programs.format.dialects.reading import Dialect, Notes, Read, Written
from perdure.programs.format.finding import Finding, error, joined, place, warning
from perdure.programs.format.fit import Fit
from perdure.programs.format.shapes import Value

SHOWN_MAX = 10

Document = dict[str, Any]


def written(definition: Document, dialect: Dialect, write: Callable[[Document, Notes], Document], read: Callable[[Document], Read]) -> Written:
    """A definition as `write` puts it, if `read` makes the same of it again."""
    if wrong := [one for one in checked(definition) if one.severity == "error"]:
        return Written(None, tuple(wrong[:SHOWN_MAX]))
    whole = canonical(definition)
    if computed := list(_computed(whole))[:SHOWN_MAX]:
        return Written(
            None, tuple(error("unsayable", pointer, f"{place(whole, pointer)}: seed {dialect} has no values that are computed") for pointer in computed)
        )
    notes = Notes(whole)
    document = write(whole, notes)
    if notes.findings:
        return Written(None, tuple(notes.findings[:SHOWN_MAX]))
    again = read(document)
    if errors := [one for one in again.findings if one.severity == "error"]:
        return Written(None, tuple(error("unsayable", "", f"seed {dialect} does not take it: {one.message}") for one in errors[:SHOWN_MAX]))
    asked, said = ({name: value for name, value in one.items() if name not in ("dialect", "ui")} for one in (whole, canonical(again.document)))
    different = list(differences(_without_sources(asked), _without_sources(said), ""))[:SHOWN_MAX]
    if different:
        return Written(None, tuple(error("unsayable", pointer, f"{place(whole, pointer)}: seed {dialect} has no words for this") for pointer in different))
    return Written(document, tuple(_other(whole, dialect)))


def _without_sources(value: Any) -> Any:
    """The value with its expressions alone: the text that one was made from says nothing more."""
    match value:
        case {"expr": str(text), "source": str()} if len(value) == 2:
            return {"expr": text}
        case dict():
            return {name: _without_sources(item) for name, item in value.items()}
        case list():
            return [_without_sources(item) for item in value]
    return value


def _computed(definition: Document) -> Iterator[str]:
    """Where values stand that are what an expression comes to, which in a dialect would be data."""
    fit = Fit(definition)
    fit.walk()
    for one in fit.expressions if "dialect" not in definition else ():
        if isinstance(one.shape, Value) and one.shape.expressions:
            yield from _expressions(one.value, one.pointer)


def _expressions(value: Any, pointer: str) -> Iterator[str]:
    match value:
        case dict() if is_expression(value):
            yield pointer
        case dict():
            for name, item in value.items():
                yield from _expressions(item, joined(pointer, name))
        case list():
            for index, item in enumerate(value):
                yield from _expressions(item, joined(pointer, index))


def differences(one: Any, other: Any, pointer: str) -> Iterator[str]:
    """Where two values differ, as pointers into the first."""
    match one, other:
        case dict(), dict():
            for name in [*one, *(name for name in other if name not in one)]:
                if name in one and name in other:
                    yield from differences(one[name], other[name], joined(pointer, name))
                else:
                    yield joined(pointer, name)
        case list(), list() if len(one) == len(other):
            for index, (first, second) in enumerate(zip(one, other, strict=True)):
                yield from differences(first, second, joined(pointer, index))
        case _:
            if type(one) is not type(other) or one != other:
                yield pointer


def _other(definition: Document, dialect: Dialect) -> Iterator[Finding]:
    if definition.get("dialect") != dialect:
        text = f"in seed {dialect} what is missing is taken in its own way, and so is what was rejected"
        yield warning("other_dialect", "", text)
