"""Selects executions by their attributes: conditions as people write them, and as ranges of bytes, which is all that a store compares.

A condition matches only executions that have the attribute. It compares within the type of its value: numbers with numbers, text with text, times with
times; a value of another type is not equal to it, and neither greater nor less. A filter has one or several alternatives, each of which is a set of conditions
that must all hold.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import product
from math import prod
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

SPANS_MAX, FORM_BYTES_MAX = 2, limits.ATTRIBUTE_BYTES_MAX + 2
"""The most spans of a condition, and the longest bound of one: a text, its type, and a byte behind it."""

_CONDITION_TEXT = re.compile(rf"\s*(?P<name>{ATTRIBUTE_NAME.pattern})\s*(?:(?P<sign>!=|<=|>=|=|<|>)(?P<value>.*))?", re.DOTALL)
_OR_OR_QUOTED = re.compile(r'\|\||"(?:[^"\\]|\\.)*"', re.DOTALL)
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


AttributeConditions = Mapping[str, AttributeValue | Is | Sequence[Is]]
"""Conditions by the name of the attribute: the value that it equals, a comparison, or several that must all hold."""

AttributeFilter = AttributeConditions | Sequence[AttributeConditions]
"""Conditions that must all hold, or a list of alternatives, one of which must hold with all its conditions."""

_EXPECTED = 'a mapping of attributes to values or comparisons, such as {"customer": "c1", "cents": Is(">=", 500)}'


class AttributeCondition(msgspec.Struct, frozen=True, gc=False):
    """The execution has the attribute `name`, and its sortable form is in one of `spans`: from the first up to but not including the second."""

    name: str
    spans: tuple[tuple[bytes, bytes], ...]

    def holds(self, attributes: IndexedAttributes) -> bool:
        """Is true if an execution with these attributes matches."""
        return any(name == self.name and any(low <= form < high for low, high in self.spans) for name, form in attributes)

    @property
    def points(self) -> tuple[bytes, ...]:
        """Returns the only sortable forms that match, if the condition is an equality."""
        return tuple(low for low, _ in self.spans) if all(high == low + b"\0" for low, high in self.spans) else ()


AttributeAlternatives = tuple[tuple[AttributeCondition, ...], ...]
"""A filter in the form that stores take: alternatives, one of which must hold with all its conditions."""


class AttributeOrder(msgspec.Struct, frozen=True, gc=False):
    """The order of a list by the attribute `name`: from its least value on or, with `descending`, from its greatest. What lacks it is not listed."""

    name: str
    descending: bool = False

    def value_in(self, attributes: IndexedAttributes) -> bytes | None:
        """The value that something with these attributes is listed at: of several its least, or with `descending` its greatest."""
        values = [value for name, value in attributes if name == self.name]
        return None if not values else max(values) if self.descending else min(values)


def filter_alternatives(where: AttributeFilter | None) -> AttributeAlternatives:
    """Returns the alternatives of a filter in the form that stores take: at least one, which has no conditions if there is no filter.

    Raises:
        BadName, BadValue: a name, a comparison or a value is not valid; a list has no alternatives, or one without conditions.
    """
    if where is None or isinstance(where, Mapping):
        return (attribute_conditions(where),)
    if not isinstance(where, list | tuple):
        raise BadValue("where", where, f"{_EXPECTED}, or a list of such mappings, one of which must hold")
    if not where or not all(where):
        raise BadValue("where", where, "a list of mappings that each have conditions; leave them out to list all executions")
    found = tuple(attribute_conditions(one) for one in where)
    _check_count(sum(map(len, found)))
    return found


def attribute_conditions(where: AttributeConditions | None) -> tuple[AttributeCondition, ...]:
    """Returns conditions that must all hold, in the form that stores take.

    Raises:
        BadName, BadValue: a name, a comparison or a value is not valid.
    """
    if where is None:
        return ()
    if not isinstance(where, Mapping):
        raise BadValue("where", where, _EXPECTED)
    found = [(checked_attribute_name(name), one) for name, wanted in where.items() for one in _comparisons_of(wanted)]
    _check_count(len(found))
    return tuple(_condition_of(name, one) for name, one in found)


def check_alternatives(where: AttributeAlternatives) -> None:
    """Checks conditions that came from another process in the form that stores take.

    Raises:
        BadName, BadValue: they are not of a form that `filter_alternatives` returns.
    """
    if not where:
        raise BadValue("where", where, "at least one alternative, which may be empty")
    _check_count(sum(map(len, where)))
    for condition in (condition for one in where for condition in one):
        checked_attribute_name(condition.name)
        if not 1 <= len(condition.spans) <= SPANS_MAX or any(len(bound) > FORM_BYTES_MAX for span in condition.spans for bound in span):
            raise BadValue("where", condition, f"a condition of 1 to {SPANS_MAX} spans, each bound of up to {FORM_BYTES_MAX:,} bytes")


def _check_count(conditions: int) -> None:
    if conditions > limits.CONDITIONS_MAX:
        raise BadValue("how many conditions", conditions, f"at most {limits.CONDITIONS_MAX}, those of all alternatives together")


def parse_filter(texts: Sequence[str]) -> AttributeFilter:
    """Parses conditions that must all hold: ``customer=c1``, ``cents>=500``, ``due<2026-01-31T12:00:00Z``, or a name alone for executions that have the
    attribute. One text may have several with ``||`` in between, one of which must hold: ``customer=c1 || vip=true``.

    Raises:
        BadValue: a text is not a condition, or there are too many.
    """
    alternatives = [[_parse_condition(one, text) for one in _split_at_or(text)] for text in texts]
    _check_count(prod(map(len, alternatives)))
    found = list[dict[str, list[Is]]]()
    for conditions in product(*alternatives):
        one: dict[str, list[Is]] = {}
        for name, comparison in conditions:
            one.setdefault(name, []).append(comparison)
        found.append(one)
    return found if len(found) > 1 else found[0]


def _split_at_or(text: str) -> list[str]:
    """Splits a text at each ``||`` that is not in double quotes."""
    ends = [match.span() for match in _OR_OR_QUOTED.finditer(text) if match[0] == "||"]
    return [text[first:end] for first, end in zip([0, *(end for _, end in ends)], [*(first for first, _ in ends), len(text)], strict=True)]


def _parse_condition(text: str, whole: str) -> tuple[str, Is]:
    match = _CONDITION_TEXT.fullmatch(text)
    if match is None:
        raise BadValue("where", whole, "of the form name=value, with one of =, !=, <, <=, >, >=, or a name alone; || separates alternatives")
    sign: Any = match["sign"] or "exists"
    value = None if match["sign"] is None else parse_attribute_value(match["value"], match["name"])
    try:
        return match["name"], Is(sign, value)
    except BadValue as error:
        raise BadValue("where", whole, error.expected) from error


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
        as_it_stands = parse_attribute_value(value, name) == value and value.isprintable() and value.split() == [value] and "||" not in value
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
