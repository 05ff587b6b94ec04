"""Reads nested_steps: ``{steps: [{id, type, then, else, steps, condition, outputVariable, …}], variables, constraints, runtime, triggers}``.

Steps run one after the other. A document may also be a table row with the steps in `data`. An execution opens at most 50 steps unless
``runtime.policy.maxSteps`` changes that. Triggers are webhooks, schedules or manual.
"""

from __future__ import annotations

import json
import re
from typing import Any

from perdure.dialects.foreign_document import (
    FindingCollector,
    ForeignDefinition,
    ForeignFields,
    StepNames,
    without_empty,
    workflow_title,
)
from perdure.dialects.nested_steps.document_variables import NestedStepsListing, NestedStepsVariables
from perdure.dialects.nested_steps.step_reader import STEPS_MAX, NestedStepsReader


def read_triggers(top: ForeignFields, notes: FindingCollector) -> list[dict[str, Any]]:
    """The triggers of a document, as those of a definition."""
    given = top.listed("triggers") if not isinstance(top.any("triggers"), dict) else [top.any("triggers")]
    found = [_trigger(ForeignFields(value, top.at("triggers", index), notes), notes) for index, value in enumerate(given)]
    return [trigger for trigger in found if trigger]


def _trigger(trigger: ForeignFields, notes: FindingCollector) -> dict[str, Any]:
    config = trigger.inside("config") or trigger
    type_name = trigger.text("type") or config.text("type")
    read: dict[str, Any] = without_empty({"name": trigger.text("name")})
    if not trigger.flag("enabled", default=True):
        read["enabled"] = False
    trigger.ignore("id", "userId", "workflowId", "lastRunAt", "createdAt", "updatedAt", "type")
    config.ignore("type")
    match type_name:
        case "webhook":
            read["webhook"] = _webhook(config, trigger.mapping("variableMapping"), notes)
        case "schedule":
            if config.text("target", default="workflow") != "workflow":
                notes.warning("unsupported", config.at("target"), "this schedule asks the user's agent and starts no workflow, so it is ignored")
                config.ignore("cron", "timezone", "prompt")
                return {}
            read["schedule"] = without_empty({"cron": config.text("cron"), "timezone": config.text("timezone")})
        case "manual":
            read["manual"] = {}
        case _:
            notes.error("unknown_type", trigger.at("type"), f"a trigger is a webhook, a schedule or manual; found {type_name[:40]!r}")
            return {}
    config.left()
    trigger.left()
    return read


def _webhook(config: ForeignFields, mapping: dict[str, Any], notes: FindingCollector) -> dict[str, Any]:
    path = config.text("path")
    read: dict[str, Any] = {"path": path}
    if method := config.text("method"):
        read["method"] = method.upper()
    if headers := config.mapping("headers"):
        read["headers"] = headers
    if config.text("secret"):
        name = re.sub(r"\W+", "_", f"{path}_SECRET").strip("_").upper()
        text = f"a secret does not stand in a definition: it is taken from the secret {name!r}, which has to be set"
        notes.warning("literal_secret", config.at("secret"), text)
        read["verify"] = {"scheme": "generic", "secret": f"@secrets.{name}"}
    if mapping:
        read["map"] = {name: source for name, source in mapping.items() if isinstance(source, str)}
    return read


_OF_THE_ROW = ("id", "userId", "enabled", "createdAt", "updatedAt", "workflowHash", "hash")


def to_definition(document: Any) -> ForeignDefinition:
    """Reads a document as a definition."""
    document = _flat(document)
    notes = FindingCollector(document)
    top = ForeignFields(document, "", notes)
    names = StepNames(notes)
    variables = NestedStepsVariables(names, notes)
    variables.declare(top.mapping("variables"))
    if not top.listed("steps"):
        notes.error("no_steps", "/steps", "a workflow is a mapping with a list of steps that is not empty")
    listing = NestedStepsListing(top, names, variables, notes)
    steps_max = _steps_max(top, notes)
    steps = NestedStepsReader(variables, notes, steps_max).listed(listing.steps)
    path, name = top.text("slug"), top.text("name")
    definition: dict[str, Any] = {"perdure": 1, "dialect": "nested_steps", "name": workflow_title(path, name, top.text("id")), "order": "listed"}
    definition |= without_empty(
        {
            "version": top.text("version"),
            "description": top.text("description"),
            "tags": top.texts("tags"),
            "input": variables.inputs,
            "vars": variables.vars(),
            "triggers": read_triggers(top, notes),
            "limits": {"max_steps": steps_max},
            "allow": _allowed(top, notes),
            "ui": {"name": name} if path and name and path != name else {},
        }
    )
    begun = variables.begun()
    definition["steps"] = [{"id": names.free("variables"), "set": begun}, *steps] if begun else steps
    if outputs := variables.outputs():
        definition["output"] = outputs
    if top.value.get("enabled") is False:
        notes.warning("unsupported", "/enabled", "whether a definition is enabled is no part of its document; disable it once it is published")
    top.ignore(*_OF_THE_ROW)
    top.left()
    return ForeignDefinition("nested_steps", definition, tuple(notes.findings))


def _flat(document: Any) -> Any:
    """The document itself; of a row that holds it in `data`, as JSON or as text, that with what the row says of it."""
    if not isinstance(document, dict) or "data" not in document or "steps" in document:
        return document
    data = document["data"]
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            return document
    row = {name: value for name, value in document.items() if name != "data"}
    if isinstance(row.get("tags"), str):
        try:
            row["tags"] = json.loads(row["tags"])
        except (ValueError, RecursionError):
            del row["tags"]
    return {**data, **row} if isinstance(data, dict) else document


def _steps_max(top: ForeignFields, notes: FindingCollector) -> int:
    runtime = top.inside("runtime") or ForeignFields({}, "/runtime", notes)
    policy = runtime.inside("policy") or ForeignFields({}, runtime.at("policy"), notes)
    most = policy.whole("maxSteps", least=1)
    policy.left()
    runtime.left()
    return most or STEPS_MAX


def _allowed(top: ForeignFields, notes: FindingCollector) -> dict[str, Any]:
    constraints = top.inside("constraints") or ForeignFields({}, "/constraints", notes)
    allowed = constraints.flag("allowSelfModification")
    constraints.left()
    return {"self_edit": True} if allowed else {}
