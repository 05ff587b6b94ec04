"""Selects executions by their attributes: conditions as people write them, and as ranges of bytes, which is all that a store compares.

A condition matches only executions that have the attribute. It compares within the type of its value: numbers with numbers, text with text, times with
times; a value of another type is not equal to it, and neither greater nor less. All conditions of a filter must hold.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

from perdure.core import limits
from perdure.core.attributes import (
    ATTRIBUTE_NAME,
    AttributeValue,
    IndexedAttributes,
    checked_attribute_name,
    checked_attribute_value,
    sortable_bytes,
    sortable_number,
)
from perdure.core.errors import BadValue

Comparison = Literal["=", "!=", "<", "<=", ">", ">=", "exists"]
ALL_VALUES = (b"", b"\xff")
"""The bounds of every sortable form."""

_CONDITION_TEXT = re.compile(rf"\s*(?P<name>{ATTRIBUTE_NAME.pattern})\s*(?:(?P<sign>!=|<=|>=|=|<|>)(?P<value>.*))?", re.DOTALL)
_TIME_TEXT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d.*")


@dataclasses.dataclass(frozen=True)
class Is:
    """A comparison: ``Is(">=", 500)``, ``Is("!=", "c1")``, or ``Is("exists")``, which matches any value. True and False are compared by = and != only.

    Raises:
        BadValue: the comparison is unknown, or does not take such a value.
    """

    comparison: Comparison
    value: AttributeValue | None = None

    def __post_init__(self) -> None:
        if self.comparison not in get_args(Comparison):
            raise BadValue("Is(comparison)", self.comparison, f"one of {', '.join(get_args(Comparison))}")
        if (self.comparison == "exists") != (self.value is None):
            raise BadValue(f"Is({self.comparison!r})", self.value, "accepted here: exists takes no value, and every other comparison takes one")
        if isinstance(self.value, bool) and self.comparison not in ("=", "!="):
            raise BadValue(f"Is({self.comparison!r})", self.value, "ordered; compare True and False with = or !=")


AttributeFilter = Mapping[str, AttributeValue | Is | Sequence[Is]]
"""Conditions by the name of the attribute: the value that it equals, a comparison, or several that must all hold."""


class AttributeCondition(msgspec.Struct, frozen=True, gc=False):
    """The execution has the attribute `name`, and its sortable form is in one of `spans`: from the first up to but not including the second."""

    name: str
    spans: tuple[tuple[bytes, bytes], ...]

    def holds(self, attributes: IndexedAttributes) -> bool:
        """Whether an execution with these attributes matches."""
        return any(name == self.name and any(low <= form < high for low, high in self.spans) for name, form in attributes)

    @property
    def points(self) -> tuple[bytes, ...]:
        """Returns the only sortable forms that match, if the condition is an equality."""
        return tuple(low for low, _ in self.spans) if all(high == low + b"\0" for low, high in self.spans) else ()


def attribute_conditions(where: AttributeFilter | None) -> tuple[AttributeCondition, ...]:
    """Returns the conditions in the form that stores take.

    Raises:
        BadName, BadValue: a name, a comparison or a value is not valid.
    """
    if where is None:
        return ()
    if not isinstance(where, Mapping):
        raise BadValue("where", where, 'a mapping of attributes to values or comparisons, such as {"customer": "c1", "cents": Is(">=", 500)}')
    found = [(checked_attribute_name(name), one) for name, wanted in where.items() for one in _comparisons_of(wanted)]
    if len(found) > limits.CONDITIONS_MAX:
        raise BadValue("how many conditions", len(found), f"at most {limits.CONDITIONS_MAX}")
    return tuple(_condition_of(name, one) for name, one in found)


def parse_filter(texts: Iterable[str]) -> dict[str, Sequence[Is]]:
    """Parses conditions: ``customer=c1``, ``cents>=500``, ``due<2026-01-31T12:00:00Z``, or a name alone for executions that have the attribute.

    Raises:
        BadValue: a text is not a condition.
    """
    found: dict[str, list[Is]] = {}
    for text in texts:
        match = _CONDITION_TEXT.fullmatch(text)
        if match is None:
            raise BadValue("where", text, "of the form name=value, with one of =, !=, <, <=, >, >=, or a name alone")
        sign: Any = match["sign"] or "exists"
        value = None if match["sign"] is None else parse_attribute_value(match["value"], match["name"])
        try:
            found.setdefault(match["name"], []).append(Is(sign, value))
        except BadValue as error:
            raise BadValue("where", text, error.expected) from error
    return dict(found)


def parse_attribute_value(text: str, name: str) -> AttributeValue:
    """Parses a value: a number, true or false, a time with its zone, or text ``"in quotes"``. Anything else is taken as text without quotes.

    Raises:
        BadValue: it looks like a time and has no zone, begins like a comparison, or is a value that no attribute can have.
    """
    try:
        read = msgspec.json.decode(text)
    except msgspec.DecodeError:
        text = text.strip()
        if text.startswith(("=", "<", ">")):
            raise BadValue(f"attribute {name}", text, "a value; put text that begins with a comparison sign in double quotes ('\"...\"')") from None
        return _parse_time(text, name) if _TIME_TEXT.fullmatch(text) else text
    if not isinstance(read, str | int | float | bool):
        raise BadValue(f"attribute {name}", text, "a value that an attribute can have; put text in double quotes")
    return read


def attribute_text(name: str, value: AttributeValue) -> str:
    """Returns an attribute as text that `parse_filter` reads."""
    if isinstance(value, datetime):
        return f"{name}={msgspec.to_builtins(value)}"
    if not isinstance(value, str):
        return f"{name}={msgspec.json.encode(value).decode()}"
    try:
        as_it_stands = parse_attribute_value(value, name) == value and value.isprintable() and value.split() == [value]
    except BadValue:
        as_it_stands = False
    return f"{name}={value if as_it_stands else msgspec.json.encode(value).decode()}"


def _parse_time(text: str, name: str) -> datetime:
    wanted = "a time with its zone, such as 2026-01-31T12:00:00Z; put text that is not a time in double quotes ('\"...\"')"
    try:
        found = msgspec.convert(text, datetime)
    except msgspec.ValidationError as error:
        raise BadValue(f"attribute {name}", text, wanted) from error
    if found.tzinfo is None:
        raise BadValue(f"attribute {name}", text, wanted)
    return found


def _comparisons_of(wanted: Any) -> Sequence[Is]:
    if isinstance(wanted, Is):
        return (wanted,)
    if isinstance(wanted, list | tuple):
        if not all(isinstance(one, Is) for one in wanted):
            raise BadValue("where", wanted, 'a list of comparisons, such as [Is(">=", 1), Is("<", 9)]')
        return wanted
    return (Is("=", wanted),)


def _condition_of(name: str, wanted: Is) -> AttributeCondition:
    if wanted.value is None:
        return AttributeCondition(name, (ALL_VALUES,))
    value = checked_attribute_value(name, wanted.value)
    form = sortable_bytes(value)
    is_number = not isinstance(value, bool) and isinstance(value, int | float)
    forms = tuple(sortable_number(value) + written for written in (b"f", b"i")) if is_number else (form,)  # type: ignore[arg-type]  # it is a number
    first, behind = forms[0], forms[-1] + b"\0"
    lowest, highest = form[:1], bytes((form[0] + 1,))
    spans = {
        "=": [(one, one + b"\0") for one in forms],
        "!=": [(ALL_VALUES[0], first), (behind, ALL_VALUES[1])],
        "<": [(lowest, first)],
        "<=": [(lowest, behind)],
        ">": [(behind, highest)],
        ">=": [(first, highest)],
    }
    return AttributeCondition(name, tuple(spans[wanted.comparison]))
