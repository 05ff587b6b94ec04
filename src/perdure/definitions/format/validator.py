"""Validates a document and returns a list of findings, whatever it is given.

It checks shapes, references and triggers first, and compiles the document only if these have no errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from perdure.core.errors import BadExpression, MissingExtra
from perdure.definitions.expr import jsonpath
from perdure.definitions.format import compiler
from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.definition_findings import DefinitionFinding, closest_name, error_finding, joined_pointer, pointer_parts, readable_location
from perdure.definitions.format.dialect_rules import document_rules
from perdure.definitions.format.document_parser import TextPosition, plain_data_finding
from perdure.definitions.format.reference_check import ReferenceCheck
from perdure.definitions.format.shape_check import FINDINGS_MAX, ShapeCheck

CRON_ALIASES: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

CRON_FIELDS: Mapping[str, str] = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, in a month that has it",
    "month": "1 to 12, or jan to dec",
    "day-of-week": "0 to 7, or sun to sat",
}
"""The fields in their order, with the values of each."""

CRON_CHARACTERS_MAX = 1_000
"""The longest cron expression."""

_ANY_DAY = datetime(2024, 1, 1, tzinfo=UTC)


def cron_problem(text: str) -> str:
    """The reason why a text is no cron expression; empty if it is one."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise MissingExtra("schedules", "cronsim", "definitions") from None
    fields = text[: CRON_CHARACTERS_MAX + 1].split()
    if len(fields) == 1 and fields[0].startswith("@"):
        return "" if fields[0] in CRON_ALIASES else f"there is no {fields[0][:40]!r}; there are {', '.join(CRON_ALIASES)}"
    if len(fields) != len(CRON_FIELDS) or len(text) > CRON_CHARACTERS_MAX:
        return f"a cron expression has five fields ({', '.join(CRON_FIELDS)}), found {len(fields)}"
    try:
        CronSim(text, _ANY_DAY)
    except CronSimError as error:
        name = str(error).removeprefix("Bad ")
        said = dict(zip(CRON_FIELDS, fields, strict=True)).get(name, "")
        return f"{name} {said[:40]!r} is not {CRON_FIELDS[name]}" if name in CRON_FIELDS else str(error)
    return ""


def trigger_findings(document: Mapping[str, Any]) -> Iterator[DefinitionFinding]:
    """The findings of the triggers of a document: schedules without a valid time and webhooks that map to unknown inputs."""
    triggers = document.get("triggers")
    for number, trigger in enumerate(triggers if isinstance(triggers, list) else ()):
        pointer = joined_pointer("/triggers", number)
        if not isinstance(trigger, dict):
            continue
        if isinstance(schedule := trigger.get("schedule"), dict) and isinstance(said := schedule.get("cron"), str) and (why := cron_problem(said)):
            spot = joined_pointer(pointer, "schedule", "cron")
            yield error_finding("bad_cron", spot, f"{readable_location(document, spot)}: {said[:60]!r} is not a cron expression: {why}")
        for kind in ("webhook", "event"):
            if isinstance(config := trigger.get(kind), dict) and isinstance(mapping := config.get("map"), dict):
                yield from _mapping_findings(document, mapping, joined_pointer(pointer, kind, "map"))
        if isinstance(given := trigger.get("with"), dict) and given.keys() != {"expr"}:
            yield from _unknown_inputs(document, given, joined_pointer(pointer, "with"))


def _unknown_inputs(document: Mapping[str, Any], given: Mapping[str, Any], pointer: str) -> Iterator[DefinitionFinding]:
    """Findings for the given names that the document does not declare as inputs."""
    declared, variables = document.get("input"), document.get("vars")
    is_checked = document_rules(document).declared_names_only
    inputs = [*declared, *(variables if isinstance(variables, dict) else ())] if is_checked and isinstance(declared, dict) else []
    for name in given if inputs else ():
        if name not in inputs:
            meant = closest_name(name, inputs)
            hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(inputs[:12])}"
            spot = joined_pointer(pointer, name)
            yield error_finding("unknown_input", spot, f"{readable_location(document, spot)}: {name[:60]!r} is not an input of this definition; {hint}", meant)


def _mapping_findings(document: Mapping[str, Any], mapping: Mapping[str, Any], pointer: str) -> Iterator[DefinitionFinding]:
    yield from _unknown_inputs(document, mapping, pointer)
    for name, path in mapping.items():
        spot = joined_pointer(pointer, name)
        where = readable_location(document, spot)
        if isinstance(path, str):
            try:
                jsonpath.compile_jsonpath(path, "")
            except BadExpression as bad:
                yield error_finding("bad_expression", spot, f"{where}: {bad.what}; {bad.hint}")


def definition_findings(document: Any, positions: Mapping[str, TextPosition] | None = None) -> list[DefinitionFinding]:
    """Returns all findings of a document; with `positions` from the parser, each has its line and column.

    The graph is checked only if everything else is valid.
    """
    refused = plain_data_finding(document)
    if refused is not None:
        return [refused]
    fit = ShapeCheck(document)
    fit.walk()
    findings = list(fit.findings)
    if isinstance(document, dict):
        findings += ReferenceCheck(document).findings(fit.expressions)
        findings += trigger_findings(document)
    if isinstance(document, dict) and not any(finding.severity == "error" for finding in findings):
        findings += _compile_problems(document)
    return [with_position(finding, positions or {}) for finding in findings[:FINDINGS_MAX]]


def with_position(finding: DefinitionFinding, positions: Mapping[str, TextPosition]) -> DefinitionFinding:
    """Returns the finding with the line and column of its pointer, or of the nearest enclosing one that is in the text."""
    pointer = finding.pointer
    while pointer and pointer not in positions:
        pointer = pointer.rpartition("/")[0]
    line, column = positions.get(pointer, (0, 0))
    return msgspec.structs.replace(finding, line=line, column=column) if line and not finding.line else finding


def _compile_problems(document: dict[str, Any]) -> list[DefinitionFinding]:
    """The findings of the compiler, with their locations in the document as written."""
    spelled_out = canonical_document(document)
    found = []
    for finding in compiler.compile_findings(spelled_out):
        pointer = _pointer_as_written(document, finding.pointer)
        there, here = readable_location(spelled_out, finding.pointer), readable_location(document, pointer)
        message = here + finding.message.removeprefix(there) if finding.message.startswith(f"{there}:") else finding.message
        found.append(msgspec.structs.replace(finding, pointer=pointer, message=message))
    return found


def _pointer_as_written(document: Any, pointer: str) -> str:
    """The location in the document, where sugar is not spelled out, of a `pointer` into the canonical form."""
    found = ""
    for part in pointer_parts(pointer):
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        else:
            continue
        found = joined_pointer(found, part)
    return found
