"""Shapes, which describe the values of a field. The check, the canonical form, the JSON Schema and the formatter are functions of these."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.definitions.expr.template import is_expression

NOTHING: Any = msgspec.UNSET
"""No default: the absence of the field means something that no value expresses."""


class TextShape(msgspec.Struct, frozen=True):
    """Text that is not empty and matches all of `pattern` (RE2 syntax); messages call it `what`. With `template`, it may contain references."""

    what: str = "text"
    pattern: str = ""
    template: bool = False
    secrets: bool = False


class FlagShape(msgspec.Struct, frozen=True):
    """True or false."""


class WholeShape(msgspec.Struct, frozen=True):
    """A whole number from `least`."""

    least: int = 0


class NumberShape(msgspec.Struct, frozen=True):
    """A number from `least`."""

    least: float = 0


class ChoiceShape(msgspec.Struct, frozen=True):
    """One of these values."""

    values: tuple[str | bool | int | None, ...]


class DurationShape(msgspec.Struct, frozen=True):
    """Seconds, or text such as ``"2h 30m"``; with `template`, also a reference or an expression, which may also read `roots`."""

    template: bool = False
    roots: tuple[str, ...] = ()


class ValueShape(msgspec.Struct, frozen=True):
    """Any value, with references in it. They may read `roots` besides those that are allowed everywhere, and secrets only with `secrets`.

    Without `expressions`, what looks like an expression belongs to a kind that has expressions of its own.
    """

    roots: tuple[str, ...] = ()
    secrets: bool = False
    expressions: bool = True


class PlainShape(msgspec.Struct, frozen=True):
    """Any value, without references."""


class ConditionShape(msgspec.Struct, frozen=True):
    """A condition: rows, groups, an expression. It may read `roots` besides those that are allowed everywhere."""

    roots: tuple[str, ...] = ()


class StepsShape(msgspec.Struct, frozen=True):
    """A list of steps; with `error`, the steps that replace a failed one."""

    error: bool = False
    least: int = 0


class SchemaShape(msgspec.Struct, frozen=True):
    """A JSON Schema, or the properties of an object, of which those without a default are required."""


class IdShape(msgspec.Struct, frozen=True):
    """The id of a step of this document."""


class NameShape(msgspec.Struct, frozen=True):
    """A name that this document defines: ASCII letters, digits, ``_`` and ``-``."""

    what: str = "a name"


class FormatField(msgspec.Struct, frozen=True):
    """A field: its shape, its meaning, whether it is required, and its default."""

    name: str
    shape: Shape
    doc: str = ""
    required: bool = False
    default: Any = NOTHING
    verbs: tuple[str, ...] = ()
    """The only verbs with which it is allowed; empty: any."""
    ports_only: bool = False
    """Whether it is allowed only with the order of ports."""


class FieldsShape(msgspec.Struct, frozen=True):
    """A mapping of these fields. Exactly one of the fields `one_of` is required. A value that is not a mapping is short for a mapping of the field `sugar`."""

    what: str
    fields: tuple[FormatField, ...]
    one_of: tuple[str, ...] = ()
    sugar: str = ""

    def field(self, name: str) -> FormatField | None:
        """The field of this name."""
        return next((field for field in self.fields if field.name == name), None)


class ListShape(msgspec.Struct, frozen=True):
    """A list. With `sugar`, a single item is short for a list of it."""

    of: Shape
    least: int = 0
    sugar: bool = False


class MapShape(msgspec.Struct, frozen=True):
    """A mapping from names of any kind."""

    of: Shape


class EitherShape(msgspec.Struct, frozen=True):
    """One of several shapes: the first whose type the value has."""

    options: tuple[Shape, ...]
    what: str


Shape = (
    TextShape
    | FlagShape
    | WholeShape
    | NumberShape
    | ChoiceShape
    | DurationShape
    | ValueShape
    | PlainShape
    | ConditionShape
    | StepsShape
    | SchemaShape
    | IdShape
    | NameShape
    | FieldsShape
    | ListShape
    | MapShape
    | EitherShape
)


def suits_shape(shape: Shape, value: Any) -> bool:
    """Whether `value` has the type of `shape`, so that findings refer to `shape`."""
    match shape:
        case TextShape() | IdShape() | NameShape():
            return isinstance(value, str)
        case FlagShape():
            return isinstance(value, bool)
        case WholeShape() | NumberShape():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ChoiceShape():
            return any(value is one or (type(value) is type(one) and value == one) for one in shape.values)
        case DurationShape():
            return (isinstance(value, int | float | str) and not isinstance(value, bool)) or is_expression(value)
        case StepsShape():
            return isinstance(value, list)
        case ListShape():
            return (isinstance(value, list) and (not value or suits_shape(shape.of, value[0]))) or (shape.sugar and suits_shape(shape.of, value))
        case FieldsShape():
            if not isinstance(value, dict):
                return (meant := shape.field(shape.sugar)) is not None and suits_shape(meant.shape, value)
            return not shape.one_of or any(name in value for name in shape.one_of)
        case ConditionShape():
            return isinstance(value, dict | bool | str)
        case SchemaShape() | MapShape():
            return isinstance(value, dict)
        case EitherShape():
            return any(suits_shape(option, value) for option in shape.options)
        case ValueShape() | PlainShape():
            return True


def matching_option(shape: EitherShape, value: Any) -> Shape | None:
    """Returns the option against which `value` is checked."""
    return next((option for option in shape.options if suits_shape(option, value)), None)


def is_template(value: Any) -> bool:
    """Whether text is or contains a reference."""
    return isinstance(value, str) and (("@{" in value) or (value.startswith("@") and not value.startswith("@@")))


def is_computed(value: Any) -> bool:
    """Whether a value is computed at run time: it contains a reference, or is an expression."""
    return is_template(value) or is_expression(value)
