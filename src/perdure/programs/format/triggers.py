"""Triggers: whether a schedule says a time, and whether a webhook maps to inputs that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.core.errors import BadExpression
from perdure.expr import jsonpath
from perdure.programs.format import cron
from perdure.programs.format.finding import Finding, closest, error, joined, place


def findings(document: Mapping[str, Any]) -> Iterator[Finding]:
    """What is wrong with the triggers of a document, whose shapes are looked at elsewhere."""
    triggers = document.get("triggers")
    for number, trigger in enumerate(triggers if isinstance(triggers, list) else ()):
        pointer = joined("/triggers", number)
        if not isinstance(trigger, dict):
            continue
        if isinstance(schedule := trigger.get("schedule"), dict) and isinstance(said := schedule.get("cron"), str) and (why := cron.problem(said)):
            spot = joined(pointer, "schedule", "cron")
            yield error("bad_cron", spot, f"{place(document, spot)}: {said[:60]!r} is no cron: {why}")
        if isinstance(webhook := trigger.get("webhook"), dict) and isinstance(mapping := webhook.get("map"), dict):
            yield from _mapped(document, mapping, joined(pointer, "webhook", "map"))
        if isinstance(given := trigger.get("with"), dict) and given.keys() != {"expr"}:
            yield from _unknown(document, given, joined(pointer, "with"))


def _unknown(document: Mapping[str, Any], given: Mapping[str, Any], pointer: str) -> Iterator[Finding]:
    """The names of what is given that are no inputs of the document, if it says what its inputs are."""
    declared, variables = document.get("input"), document.get("vars")
    inputs = [*declared, *(variables if isinstance(variables, dict) else ())] if isinstance(declared, dict) and "dialect" not in document else []
    for name in given if inputs else ():
        if name not in inputs:
            meant = closest(name, inputs)
            hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(inputs[:12])}"
            spot = joined(pointer, name)
            yield error("unknown_input", spot, f"{place(document, spot)}: {name[:60]!r} is not an input of this definition; {hint}", meant)


def _mapped(document: Mapping[str, Any], mapping: Mapping[str, Any], pointer: str) -> Iterator[Finding]:
    yield from _unknown(document, mapping, pointer)
    for name, path in mapping.items():
        spot = joined(pointer, name)
        where = place(document, spot)
        if isinstance(path, str):
            try:
                jsonpath.compiled(path, "")
            except BadExpression as bad:
                yield error("bad_expression", spot, f"{where}: {bad.what}; {bad.hint}")
