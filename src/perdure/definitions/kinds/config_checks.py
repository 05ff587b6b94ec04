"""Checks the configs of a definition's nodes against their kinds, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from perdure.code.declarations import Step
from perdure.core.errors import KindFailed, MissingExtra
from perdure.definitions.expr import json_schema
from perdure.definitions.format.definition_findings import DefinitionFinding, closest_name, error_finding, joined_pointer, readable_location, warning_finding
from perdure.definitions.format.shapes import is_template
from perdure.definitions.format.step_tree import PlacedStep, placed_steps, verb_of
from perdure.definitions.graph.step_kind import Kind, config_problems, undo_by_input, undo_parts
from perdure.definitions.kinds.kind_registry import KindRegistry
from perdure.dialects import definition_reader
from perdure.dialects.definition_reader import ReadDefinition

NO_TOOLS: Mapping[str, Step[Any, Any, Any]] = {}


def read_checked(
    text_or_data: Any,
    name: str = "",
    kinds: Mapping[str, Kind] | None = None,
    blobs: Mapping[str, Any] | None = None,
    tools: Mapping[str, Step[Any, Any, Any]] = NO_TOOLS,
    *,
    more: Callable[[dict[str, Any]], Iterator[DefinitionFinding]] | None = None,
) -> ReadDefinition:
    """Reads a definition and checks its configs against the installed kinds, as every run does.

    `blobs` holds the values of references ``cas://…``; `tools` are the known tools, which decide what may accompany their use. `more` yields
    further findings for those who write definitions, such as `argument_findings`.

    Raises:
        BadDefinition: it is not valid; its `findings` are all problems.
    """
    known = KindRegistry() if kinds is None else kinds

    def checked(document: dict[str, Any]) -> Iterator[DefinitionFinding]:
        yield from config_findings(document, known, tools)
        if more is not None:
            yield from more(document)

    return definition_reader.read_definition(text_or_data, name, blobs, checked)


def config_findings(document: dict[str, Any], kinds: Mapping[str, Kind], tools: Mapping[str, Step[Any, Any, Any]] = NO_TOOLS) -> Iterator[DefinitionFinding]:
    """The problems of the configs in a document that is valid otherwise, according to the installed kinds. Values that are known only at run are not checked.

    Time zones of triggers are checked too, against those of this machine.
    """
    yield from _time_zones(document)
    for one in placed_steps(document):
        yield from _timed(document, one, tools)
        found = _of(one, kinds)
        yield from _of_task(document, one, found)
        yield from _of_undo(document, one, kinds, tools)
        if found is not None:
            kind, pointer, config = found
            if verb_of(one.step) == "task":  # what stands behind another verb, the format itself says
                yield from (
                    error_finding("bad_config", pointer, f"{readable_location(document, one.pointer)}: {kind.name}: {why}") for why in _unfit(kind, config)
                )
            for where, why in config_problems(kind, config, one.step):
                at = pointer + where
                yield error_finding("bad_config", at, f"{readable_location(document, one.pointer)}: {_named(verb_of(one.step), where)}{why}")


def _timed(document: dict[str, Any], one: PlacedStep, tools: Mapping[str, Step[Any, Any, Any]]) -> Iterator[DefinitionFinding]:
    """Findings for timeouts of tools that run in a transaction, which supports none."""
    undo = one.step.get("undo")
    used = [(one.step.get("tool"), one.step, one.pointer)]
    used += [(undo.get("tool"), undo, joined_pointer(one.pointer, "undo"))] if isinstance(undo, dict) else []
    for name, said, pointer in used:
        if not isinstance(name, str) or name not in tools or not tools[name].transaction:
            continue
        for field in ("timeout", "grace"):
            if field in said:
                why = f"{name[:60]!r} runs in a transaction, which is never left half done; leave {field!r} away, and keep the transaction short"
                yield error_finding("misplaced", joined_pointer(pointer, field), f"{readable_location(document, pointer)}: {why}")


def _of_undo(document: dict[str, Any], one: PlacedStep, kinds: Mapping[str, Kind], tools: Mapping[str, Step[Any, Any, Any]]) -> Iterator[DefinitionFinding]:
    """Findings for an undo by a kind that takes a config, and not all of it as its input."""
    undo = one.step.get("undo")
    name = undo.get("tool") if isinstance(undo, dict) else None
    kind = kinds.get(name) if isinstance(name, str) and name not in tools and name in kinds else None
    if kind is None or kind.undoes is undo_by_input or not isinstance(undo, dict):
        return
    pointer = joined_pointer(one.pointer, "undo", "with")
    try:
        given = undo_parts(kind, undo.get("with"))
        problems = config_problems(kind, given["config"], {kind.name: given["config"], "with": given["input"]})
    except KindFailed as failed:
        problems = [("", str(failed))]
    yield from (error_finding("bad_config", pointer + where, f"{readable_location(document, pointer)}: {kind.name}: {why}") for where, why in problems)


def _time_zones(document: dict[str, Any]) -> Iterator[DefinitionFinding]:
    for number, trigger in enumerate(document.get("triggers", ())):
        name = trigger.get("schedule", {}).get("timezone", "UTC")
        try:
            ZoneInfo(name)
        except (ValueError, OSError, ZoneInfoNotFoundError):
            pointer = joined_pointer("/triggers", number, "schedule", "timezone")
            where, known = readable_location(document, pointer), available_timezones()
            meant = closest_name(name, known)
            if known:
                hint = f"did you mean {meant!r}?" if meant else "write one such as Europe/London"
                yield error_finding("bad_timezone", pointer, f"{where}: {name[:60]!r} is not a time zone; {hint}", meant)
            else:
                why = f"{name[:60]!r} can't be looked up, as no time zones are installed here; pip install tzdata"
                yield warning_finding("unknown_timezone", pointer, f"{where}: {why}")


def _of_task(document: dict[str, Any], one: PlacedStep, found: tuple[Kind, str, Any] | None) -> Iterator[DefinitionFinding]:
    """Findings for fields of a task that have no effect: in this engine if the kind is installed here, else in a worker."""
    task = one.step.get("task")
    if task is None:
        return
    about, where = (task if isinstance(task, dict) else {"type": task}), readable_location(document, one.pointer)
    if found is None:
        said = [(joined_pointer(one.pointer, "env"), "'env'")] if "env" in one.step else []
        said += [(joined_pointer(one.pointer, "task", "config"), "'config'")] if "config" in about else []
        for pointer, name in said:
            text = f"{name} is for what an engine does itself, and no kind {str(about.get('type'))[:60]!r} is known here; a worker is given 'with' alone"
            yield warning_finding("worker_task", pointer, f"{where}: {text}")
        return
    for name in ("priority", "heartbeat"):
        if name in about:
            why = f"{name!r} is for work in the queue of a worker, and the engine does {found[0].name!r} itself; leave it away"
            yield error_finding("misplaced", joined_pointer(one.pointer, "task", name), f"{where}: {why}")


def _of(one: PlacedStep, kinds: Mapping[str, Kind]) -> tuple[Kind, str, Any] | None:
    """The kind of a step, its config, and the config's location; None if the kind is not installed."""
    verb = verb_of(one.step)
    said = one.step.get(verb)
    if verb == "task":
        about = said if isinstance(said, dict) else {"type": said}
        kind = None if "queue" in about else kinds.get(str(about.get("type")))
        return (
            None
            if kind is None
            else (kind, joined_pointer(one.pointer, verb, "config") if "config" in about else joined_pointer(one.pointer, verb), about.get("config"))
        )
    kind = kinds.get(verb)
    return None if kind is None else (kind, joined_pointer(one.pointer, verb), said)


def _unfit(kind: Kind, config: Any) -> list[str]:
    if kind.config is None or _holds_templates(config):
        return []
    try:
        return json_schema.schema_problems(dict(kind.config), config)[:3]
    except MissingExtra:  # then it is held against its schema where it runs
        return []


def _holds_templates(value: Any) -> bool:
    match value:
        case dict():
            return any(map(_holds_templates, value.values()))
        case list():
            return any(map(_holds_templates, value))
    return is_template(value)


def _named(verb: str, where: str) -> str:
    return f"{verb}{where.replace('/', '.')}: "
