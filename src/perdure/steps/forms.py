"""Forms: the config of a kind as somebody fills it in: its inputs in order, each with what it is for and by which means it is asked for.

Of Perdure's own verbs they follow from the model of the format, of other kinds from their JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from perdure.programs.format import shapes
from perdure.programs.format.shapes import NOTHING, Field, Fields, Shape
from perdure.programs.format.sources import SOURCES

Means = Literal["text", "source", "number", "flag", "choice", "duration", "condition", "schema", "step", "steps", "list", "mapping", "group", "value"]
"""By what an input is asked for. ``value`` is anything, as JSON; a ``group`` has inputs of its own, a ``list`` and a ``mapping`` one for each item."""


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """One input. `references` and `secrets` say whether such may stand in it; `of` are the inputs of a group, or the one of an item."""

    name: str
    means: Means
    help: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[Any, ...] = ()
    least: float | None = None
    references: bool = False
    secrets: bool = False
    of: tuple[Input, ...] = ()


MEANS: dict[type, Means] = {
    shapes.Flag: "flag",
    shapes.Duration: "duration",
    shapes.Condition: "condition",
    shapes.Schema: "schema",
    shapes.Id: "step",
    shapes.Steps: "steps",
    shapes.Name: "text",
    shapes.Plain: "value",
}


def of_verb(verb: str, shape: Shape) -> tuple[Input, ...]:
    """The inputs of a verb: those of the mapping that may stand behind it; where none may, one that is called as the verb."""
    fields = _mapping(shape)
    if fields is None:
        return (_input(verb, shape, source=verb in SOURCES),)
    return tuple(_field(field, source=SOURCES.get(verb) == field.name) for field in fields.fields)


def of_schema(schema: Mapping[str, Any]) -> tuple[Input, ...]:
    """The inputs of an object's JSON Schema; none of what is no object."""
    required = schema.get("required", ())
    return tuple(_of_property(name, about, name in required) for name, about in schema.get("properties", {}).items())


def _mapping(shape: Shape) -> Fields | None:
    match shape:
        case Fields():
            return shape
        case shapes.Either(options):
            return next((found for option in options if (found := _mapping(option)) is not None), None)
    return None


def _field(field: Field, source: bool = False) -> Input:
    default = None if field.default is NOTHING else field.default
    return msgspec.structs.replace(_input(field.name, field.shape, source), help=field.doc, required=field.required, default=default)


def _input(name: str, shape: Shape, source: bool = False) -> Input:
    match shape:
        case shapes.Text(template=template, secrets=secrets):
            return Input(name, "source" if source else "text", references=template, secrets=secrets)
        case shapes.Value(secrets=secrets):
            return Input(name, "value", references=True, secrets=secrets)
        case shapes.Whole(least) | shapes.Number(least):
            return Input(name, "number", least=least)
        case shapes.Choice(values):
            return Input(name, "choice", choices=values)
        case shapes.ListOf(of):
            return Input(name, "list", of=(_input("", of),))
        case shapes.MapOf(of):
            return Input(name, "mapping", of=(_input("", of),))
        case Fields(fields=fields):
            return Input(name, "group", of=tuple(map(_field, fields)))
        case shapes.Either(options):
            found = _mapping(shape)
            return _input(name, options[0] if found is None else found, source)
    template = isinstance(shape, shapes.Duration) and shape.template
    return Input(name, MEANS[type(shape)], references=template or isinstance(shape, shapes.Condition))


_OF_TYPE: dict[str, Means] = {"string": "text", "integer": "number", "number": "number", "boolean": "flag", "array": "list", "object": "mapping"}


def _of_property(name: str, about: Mapping[str, Any], required: bool) -> Input:
    kind = about.get("type")
    inner = of_schema(about) if kind == "object" else ()
    means: Means = "choice" if "enum" in about else "group" if inner else _OF_TYPE.get(kind, "value") if isinstance(kind, str) else "value"
    of = inner or ((_of_property("", about["items"], False),) if kind == "array" and isinstance(about.get("items"), Mapping) else ())
    help, choices = str(about.get("description", "")), tuple(about.get("enum", ()))
    return Input(name, means, help, required, about.get("default"), choices, about.get("minimum"), references=True, of=of)
