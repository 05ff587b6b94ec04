"""Shapes: what may stand in a field of a definition. The check, the canonical form, the JSON Schema and the formatter are all functions of these."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.expr.template import is_expression

NOTHING: Any = msgspec.UNSET
"""No default: a field that is absent means something that no value says."""


class Text(msgspec.Struct, frozen=True):
    """Text, not empty, that fits `pattern` (RE2 syntax, whole) and is called `what`. With `template`, references may stand in it."""

    what: str = "text"
    pattern: str = ""
    template: bool = False
    secrets: bool = False


class Flag(msgspec.Struct, frozen=True):
    """True or false."""


class Whole(msgspec.Struct, frozen=True):
    """A whole number from `least`."""

    least: int = 0


class Number(msgspec.Struct, frozen=True):
    """A number from `least`."""

    least: float = 0


class Choice(msgspec.Struct, frozen=True):
    """One of these values."""

    values: tuple[str | bool | int | None, ...]


class Duration(msgspec.Struct, frozen=True):
    """Seconds, or text such as ``"2h 30m"``; with `template`, a reference or an expression as well, which also sees `roots`."""

    template: bool = False
    roots: tuple[str, ...] = ()


class Value(msgspec.Struct, frozen=True):
    """Any value, with references in it. Besides the roots that are seen everywhere, `roots` are; secrets only with `secrets`.

    Without `expressions`, what looks like an expression in it belongs to a kind, which has its own.
    """

    roots: tuple[str, ...] = ()
    secrets: bool = False
    expressions: bool = True


class Plain(msgspec.Struct, frozen=True):
    """Any value, taken as it is."""


class Condition(msgspec.Struct, frozen=True):
    """A condition: rows, groups, an expression. `roots` are seen besides those that are seen everywhere."""

    roots: tuple[str, ...] = ()


class Steps(msgspec.Struct, frozen=True):
    """A list of steps; with `error`, those that stand in for a step that failed."""

    error: bool = False
    least: int = 0


class Schema(msgspec.Struct, frozen=True):
    """A JSON Schema, or the properties of an object, of which those without a default are required."""


class Id(msgspec.Struct, frozen=True):
    """The id of a step of this document."""


class Name(msgspec.Struct, frozen=True):
    """A name that this document gives: letters, digits, ``_`` and ``-``."""

    what: str = "a name"


class Field(msgspec.Struct, frozen=True):
    """A field: what may stand in it, what it means, whether it must stand, what it is when it doesn't."""

    name: str
    shape: Shape
    doc: str = ""
    required: bool = False
    default: Any = NOTHING
    verbs: tuple[str, ...] = ()
    """The verbs beside which alone it stands; none: any."""
    ports_only: bool = False
    """Whether it stands only where the order is ports."""


class Fields(msgspec.Struct, frozen=True):
    """A mapping of these fields. `one_of`: of these fields one must stand, and only one. `sugar`: a value that
    is no mapping stands for a mapping of this field alone.
    """

    what: str
    fields: tuple[Field, ...]
    one_of: tuple[str, ...] = ()
    sugar: str = ""

    def field(self, name: str) -> Field | None:
        """The field of this name."""
        return next((field for field in self.fields if field.name == name), None)


class ListOf(msgspec.Struct, frozen=True):
    """A list. With `sugar`, one alone stands for a list of it."""

    of: Shape
    least: int = 0
    sugar: bool = False


class MapOf(msgspec.Struct, frozen=True):
    """A mapping from names of any kind."""

    of: Shape


class Either(msgspec.Struct, frozen=True):
    """One of several shapes: the first that suits the value."""

    options: tuple[Shape, ...]
    what: str


Shape = Text | Flag | Whole | Number | Choice | Duration | Value | Plain | Condition | Steps | Schema | Id | Name | Fields | ListOf | MapOf | Either


def suits(shape: Shape, value: Any) -> bool:
    """Whether `value` is of the kind that `shape` is for, so that what is wrong with it is told in the terms of `shape`."""
    match shape:
        case Text() | Id() | Name():
            return isinstance(value, str)
        case Flag():
            return isinstance(value, bool)
        case Whole() | Number():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Choice():
            return any(value is one or (type(value) is type(one) and value == one) for one in shape.values)
        case Duration():
            return (isinstance(value, int | float | str) and not isinstance(value, bool)) or is_expression(value)
        case Steps():
            return isinstance(value, list)
        case ListOf():
            return (isinstance(value, list) and (not value or suits(shape.of, value[0]))) or (shape.sugar and suits(shape.of, value))
        case Fields():
            if not isinstance(value, dict):
                return (meant := shape.field(shape.sugar)) is not None and suits(meant.shape, value)
            return not shape.one_of or any(name in value for name in shape.one_of)
        case Condition():
            return isinstance(value, dict | bool | str)
        case Schema() | MapOf():
            return isinstance(value, dict)
        case Either():
            return any(suits(option, value) for option in shape.options)
        case Value() | Plain():
            return True


def chosen(shape: Either, value: Any) -> Shape | None:
    """The option that `value` is to be held against."""
    return next((option for option in shape.options if suits(option, value)), None)


def is_template(value: Any) -> bool:
    """Whether text has a reference in it, or is one."""
    return isinstance(value, str) and (("@{" in value) or (value.startswith("@") and not value.startswith("@@")))


def is_computed(value: Any) -> bool:
    """Whether a value is known only while it runs: it has a reference in it, or is an expression."""
    return is_template(value) or is_expression(value)
