"""Checks what steps give to tools against what the tools take, as far as it is known before anything runs. Its findings are warnings: tools may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.code.declarations import Step
from perdure.core.errors import BadExpression, MissingExtra
from perdure.definitions.expr import json_schema
from perdure.definitions.format.definition_findings import DefinitionFinding, closest_name, joined_pointer, readable_location, warning_finding
from perdure.definitions.format.shapes import is_computed
from perdure.definitions.format.step_tree import placed_steps

PROBLEMS_SHOWN = 3


def argument_findings(document: dict[str, Any], tools: Mapping[str, Step[Any, Any, Any]], *, are_all: bool = True) -> Iterator[DefinitionFinding]:
    """Yields what is wrong with the tools that steps name, and with their arguments: unknown, missing, or values that do not fit.

    Unless these `are_all` tools that there are, one that is not among them may be known elsewhere.
    """
    for one in placed_steps(document):
        name = one.step.get("tool")
        if not isinstance(name, str) or is_computed(name):
            continue
        where = readable_location(document, one.pointer)
        if name not in tools:
            if not are_all:
                continue
            meant = closest_name(name, tools)
            hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(sorted(tools)[:10]) or 'none'}"
            yield warning_finding("unknown_tool", joined_pointer(one.pointer, "tool"), f"{where}: no tool {name[:80]!r} is given; {hint}", meant)
            continue
        given = one.step.get("with", {})
        if isinstance(given, dict) and not is_computed(given):
            yield from _of_arguments(where, joined_pointer(one.pointer, "with"), name, given, tools[name].codec.schema())


def _of_arguments(where: str, pointer: str, name: str, given: dict[str, Any], takes: Mapping[str, Any]) -> Iterator[DefinitionFinding]:
    properties = takes.get("properties")
    if not isinstance(properties, Mapping):
        return
    for argument in takes.get("required", ()):
        if argument not in given:
            yield warning_finding("missing_argument", pointer, f"{where}: {name} needs {argument!r}")
    for argument, value in given.items():
        at = joined_pointer(pointer, argument)
        if argument not in properties:
            if takes.get("additionalProperties") is False:
                meant = closest_name(argument, properties)
                hint = f"did you mean {meant!r}?" if meant else f"it takes {', '.join(properties) or 'nothing'}"
                yield warning_finding("unknown_argument", at, f"{where}: {name} takes no {argument[:80]!r}; {hint}", meant)
        elif not _holds_computed(value):
            about = {**properties[argument], **({"$defs": takes["$defs"]} if "$defs" in takes else {})} if isinstance(properties[argument], Mapping) else {}
            yield from (warning_finding("bad_argument", at, f"{where}: {argument!r} of {name}: {why}") for why in _problems(about, value))


def _problems(schema: dict[str, Any], value: Any) -> list[str]:
    try:
        return json_schema.schema_problems(schema, value)[:PROBLEMS_SHOWN]
    except (BadExpression, MissingExtra):  # a server may describe its tool by what is no schema; without the library, the arguments are checked where it runs
        return []


def _holds_computed(value: Any) -> bool:
    match value:
        case dict():
            return is_computed(value) or any(map(_holds_computed, value.values()))
        case list():
            return any(map(_holds_computed, value))
    return is_computed(value)
