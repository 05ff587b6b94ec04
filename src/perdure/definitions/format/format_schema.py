"""The JSON Schema of the format (draft 2020-12), derived from the model, for completion and validation in editors.

The validator checks what a schema can not express, such as whether a reference leads to a step or a cycle is bounded.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.definitions.expr.condition import CONDITION_KEYS
from perdure.definitions.format import model
from perdure.definitions.format.shapes import (
    NOTHING,
    ChoiceShape,
    ConditionShape,
    DurationShape,
    EitherShape,
    FieldsShape,
    FlagShape,
    FormatField,
    IdShape,
    ListShape,
    MapShape,
    NameShape,
    NumberShape,
    PlainShape,
    SchemaShape,
    Shape,
    StepsShape,
    TextShape,
    ValueShape,
    WholeShape,
)

ADDRESS = "urn:perdure:definition:1"
_REFERENCE = r"^@[^@]|@\{"
_UNIT = r"\d+(?:\.\d+)?\s*(?:ms|s|m|h|d|w)"


def format_schema() -> dict[str, Any]:
    """The schema, a new one with each call."""
    found = schema_of_shape(model.DOCUMENT)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ADDRESS,
        "title": "A Perdure definition",
        **found,
        "$defs": {"step": _step(), "condition": _condition(), "duration": _duration(False), "wait": _duration(True)},
    }


def schema_of_shape(shape: Shape) -> dict[str, Any]:
    """The schema of what a shape takes."""
    match shape:
        case TextShape():
            pattern = {"pattern": f"^(?:{shape.pattern})$"} if shape.pattern else {}
            return {"type": "string", "minLength": 1} | pattern
        case FlagShape():
            return {"type": "boolean"}
        case WholeShape():
            return {"type": "integer", "minimum": shape.least}
        case NumberShape():
            return {"type": "number", "minimum": shape.least}
        case ChoiceShape():
            return {"enum": list(shape.values)}
        case DurationShape():
            return {"$ref": "#/$defs/wait" if shape.template else "#/$defs/duration"}
        case ConditionShape():
            return {"$ref": "#/$defs/condition"}
        case SchemaShape():
            return {"type": "object"}
        case NameShape():
            return {"type": "string", "pattern": f"^(?:{model.ID_PATTERN})$", "maxLength": 256}
        case IdShape():
            return {"type": "string", "minLength": 1}
        case ValueShape() | PlainShape():
            return {}
    return _nested(shape)


def _nested(shape: Shape) -> dict[str, Any]:
    match shape:
        case StepsShape():
            return {"type": "array", "items": {"$ref": "#/$defs/step"}} | ({"minItems": shape.least} if shape.least else {})
        case ListShape():
            item = schema_of_shape(shape.of)
            several = {"type": "array", "items": item} | ({"minItems": shape.least} if shape.least else {})
            return {"anyOf": [item, several]} if shape.sugar else several
        case MapShape():
            return {"type": "object", "additionalProperties": schema_of_shape(shape.of)}
        case EitherShape():
            return {"anyOf": [schema_of_shape(option) for option in shape.options]}
        case FieldsShape():
            found = _mapping(shape.fields) | {"additionalProperties": False}
            if shape.one_of:
                found["oneOf"] = [{"required": [name]} for name in shape.one_of]
            meant = shape.field(shape.sugar)
            return found if meant is None else {"anyOf": [schema_of_shape(meant.shape), found]}
    raise TypeError(f"{type(shape).__name__} has no schema")


def _mapping(fields: tuple[FormatField, ...]) -> dict[str, Any]:
    required = [field.name for field in fields if field.required]
    return {"type": "object", "properties": {field.name: _field(field) for field in fields}} | ({"required": required} if required else {})


def _field(field: FormatField) -> dict[str, Any]:
    found = schema_of_shape(field.shape)
    if field.doc:
        found["description"] = field.doc
    if field.default is not NOTHING:
        found["default"] = field.default
    return found


def _step() -> dict[str, Any]:
    """The schema of a step: exactly one verb, and the modifiers of a verb only beside it."""
    fields = tuple(model.step_fields().values())
    beside = [field for field in fields if field.verbs]
    found = _mapping(tuple(msgspec.structs.replace(field, required=False) for field in fields))
    needed = [{"if": {"required": [verb]}, "then": {"required": [field.name]}} for field in beside if field.required for verb in field.verbs]
    several = [
        {"if": {"required": [field.name]}, "then": {"anyOf": [{"required": [verb]} for verb in field.verbs]}} for field in beside if len(field.verbs) > 1
    ]
    return found | {
        "additionalProperties": False,
        "oneOf": [{"required": [verb.name]} for verb in model.VERBS],
        "dependentRequired": {field.name: list(field.verbs) for field in beside if len(field.verbs) == 1},
        "allOf": [*needed, *several],
    }


def _duration(template: bool) -> dict[str, Any]:
    text = rf"^\s*{_UNIT}(?:\s*{_UNIT})*\s*$"
    found = [{"type": "number", "minimum": 0}, {"type": "string", "pattern": text}]
    computed = [{"type": "string", "pattern": _REFERENCE}, {"type": "object", "properties": {"expr": {"type": "string"}}, "required": ["expr"]}]
    return {"description": "seconds, or text such as '30s' or '2h 30m'", "anyOf": [*found, *computed] if template else found}


def _condition() -> dict[str, Any]:
    """Rows, groups, and expressions."""
    inner = {"$ref": "#/$defs/condition"}
    groups = [
        {"type": "object", "properties": {name: {"type": "array", "items": inner, "minItems": 1}}, "required": [name], "additionalProperties": False}
        for name in ("all", "any")
    ]
    rest = [
        {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
        for name, schema in (("not", inner), ("python", {"type": "string"}))
    ]
    text = {"type": "string"}
    expression = {"type": "object", "properties": {"expr": text, "source": text}, "required": ["expr"], "additionalProperties": False}
    operators: dict[str, Any] = {name: {} for name in sorted(CONDITION_KEYS)}
    row = {
        "type": "object",
        "properties": {"ref": {"type": "string", "minLength": 1}, **operators},
        "required": ["ref"],
        "additionalProperties": False,
        "maxProperties": 2,
    }
    return {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": r"^[@$]"}, row, *groups, *rest, expression]}
