"""The canonical form of a definition (sugar spelled out, ids filled in, constant durations in seconds, defaults removed) and its hash.

Two documents that mean the same by these rules have one canonical form and one hash. The rules belong to format version 1 and never change within it.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from perdure.code.durations import duration_seconds
from perdure.definitions.expr import json_schema
from perdure.definitions.format import model
from perdure.definitions.format.document_parser import INTEGERS
from perdure.definitions.format.shapes import (
    ChoiceShape,
    ConditionShape,
    DurationShape,
    EitherShape,
    FieldsShape,
    FormatField,
    ListShape,
    MapShape,
    SchemaShape,
    Shape,
    StepsShape,
    ValueShape,
    is_computed,
    matching_option,
)
from perdure.definitions.format.step_tree import nested_lists, placed_steps, verb_of


def canonical_document(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the canonical form of a valid document, which is not changed."""
    found = _fields(model.DOCUMENT.fields, document)
    _fill_ids(found)
    return found


def definition_hash(canonical: dict[str, Any]) -> str:
    """The hash of a canonical definition, ``sha256:`` and 64 hexadecimal digits. Fields for editors (`ui`) are left out."""
    return "sha256:" + sha256(definition_bytes(canonical)).hexdigest()


def definition_bytes(canonical: dict[str, Any]) -> bytes:
    """The bytes of a canonical definition, without the fields for editors. Their SHA-256 is the hash to which executions are pinned."""
    shown = {name: value for name, value in canonical.items() if name != "ui"}
    shown["steps"] = _unshown(shown.get("steps", []))
    return canonical_json(shown).encode("utf-8")


def canonical_json(value: Any) -> str:
    """Returns a value as JSON by the rules of RFC 8785: names sorted as UTF-16, numbers as JavaScript writes them, minimal escapes.

    Unlike RFC 8785, integers of more than 53 bits are written exactly, and a float of a whole value keeps its ``.0``, so that it is read as a float.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True) if _is_simple(value) else _canonical_json(value)


def _is_simple(value: Any) -> bool:
    """Whether a value has no floats and no names beyond the basic plane, so that the JSON library already writes it in this form."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case float():
                return False
            case list() as items:
                waiting += [item for item in items if not isinstance(item, int | str)]
            case dict() as fields:
                if not all(isinstance(name, str) and (name.isascii() or max(name) <= "\uffff") for name in fields):
                    return False
                waiting += [item for item in fields.values() if not isinstance(item, int | str)]
            case None | bool() | int() | str():
                pass
            case _:
                return False
    return True


def _canonical_json(value: Any) -> str:
    match value:
        case None | bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return str(value)
        case float():
            text = str(int(value)) if value.is_integer() and int(value) in INTEGERS else _float(value)
            return text if {".", "e"} & set(text) else f"{text}.0"
        case list():
            return f"[{','.join(map(_canonical_json, value))}]"
        case dict():
            names = sorted(value, key=lambda name: name.encode("utf-16-be"))
            return f"{{{','.join(f'{json.dumps(name, ensure_ascii=False)}:{_canonical_json(value[name])}' for name in names)}}}"
    raise TypeError(f"{type(value).__name__} is not plain data")


def normalized_copy(value: Any) -> Any:
    """Returns a copy of plain data with floats of a whole value as integers, for data that is compared and never computed with."""
    match value:
        case float() if value.is_integer() and int(value) in INTEGERS:
            return int(value)
        case list():
            return [normalized_copy(item) for item in value]
        case dict():
            return {name: normalized_copy(item) for name, item in value.items()}
    return value


def canonical_value(shape: Shape, value: Any) -> Any:
    """The canonical form of a value of a shape."""
    match shape:
        case DurationShape():
            return plain_copy(value) if is_computed(value) else normalized_copy(duration_seconds(value))
        case StepsShape():
            return [_step(step) for step in value]
        case ConditionShape():
            return _condition(value)
        case SchemaShape():
            return _schema(value)
        case ValueShape():
            return plain_copy(value)
        case ChoiceShape():
            return "null" if value is None else normalized_copy(value)
        case FieldsShape():
            return _fields(shape.fields, value if isinstance(value, dict) else {shape.sugar: value})
        case ListShape():
            return [canonical_value(shape.of, item) for item in (value if isinstance(value, list) else [value])]
        case MapShape():
            return {name: canonical_value(shape.of, item) for name, item in value.items()}
        case EitherShape():
            option = matching_option(shape, value)
            return normalized_copy(value) if option is None else canonical_value(option, value)
    return normalized_copy(value)


def plain_copy(value: Any) -> Any:
    """A copy of plain data, with its floats."""
    match value:
        case list():
            return [plain_copy(item) for item in value] if any(isinstance(item, list | dict) for item in value) else list(value)
        case dict():
            return {name: plain_copy(item) for name, item in value.items()}
    return value


def _schema(value: Any) -> Any:
    found: dict[str, Any] = normalized_copy(json_schema.full_schema(value))
    return found | {"default": plain_copy(value["default"])} if "default" in value and "default" in found else found


def _step(step: dict[str, Any]) -> dict[str, Any]:
    found = _fields(tuple(model.step_fields().values()), step)
    task = found.get("task")
    if task is not None and task.get("queue") == task["type"]:
        del task["queue"]
    return found


def _condition(value: Any) -> Any:
    """Returns a condition with a bare reference spelled out as a row."""
    match value:
        case str():
            return {"ref": value}
        case {"all": list(parts)} | {"any": list(parts)} if "ref" not in value:
            return {next(iter(value)): [_condition(part) for part in parts]}
        case {"not": part} if "ref" not in value:
            return {"not": _condition(part)}
    return normalized_copy(value)


def _fields(fields: tuple[FormatField, ...], value: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for field in fields:
        if field.name in value:
            item = canonical_value(field.shape, value[field.name])
            if type(item) is not type(field.default) or item != field.default:
                found[field.name] = item
    return found


def _fill_ids(document: dict[str, Any]) -> None:
    """Gives each step without an id one of its verb and a number; ids that are taken are skipped."""
    every = list(placed_steps(document))
    taken = {one.id for one in every} | model.ROOTS
    counts: dict[str, int] = {}
    for one in every:
        if "id" not in one.step:
            verb = verb_of(one.step)
            while (name := f"{verb}_{counts.setdefault(verb, 1)}") in taken:
                counts[verb] += 1
            taken.add(name)
            fields = {"id": name} | one.step
            one.step.clear()
            one.step.update(fields)


def _unshown(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps without `ui`."""
    found = []
    for step in steps:
        shown = {name: value for name, value in step.items() if name != "ui"}
        for field, where, inner in nested_lists(step):
            clean = _unshown(inner)
            shown[field] = {**step[field], "steps": clean} if where == "/parallel/steps" else clean
        found.append(shown)
    return found


def _float(value: float) -> str:
    """As ECMAScript writes it: the shortest digits that read back as the same number."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0") or "0"
    if len(digits) <= point <= 21:
        text = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        text = f"{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1:+d}"
    return "-" + text if value < 0 else text
