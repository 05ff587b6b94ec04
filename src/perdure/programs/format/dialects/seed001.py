"""Seed 001: steps one after the other, nested, ``{steps: [{id, type, then, else, steps, condition, outputVariable, …}], variables, constraints, runtime}``.

A document may also be the row of a table that holds it, with the steps in `data`. At most 50 steps are opened unless ``runtime.policy.maxSteps`` says
otherwise.
"""

from __future__ import annotations

import json
from typing import Any

from perdure.programs.format.dialects.defaults001 import STEPS_MAX
from perdure.programs.format.dialects.listing001 import Listing
from perdure.programs.format.dialects.reading import Fields, Names, Notes, Read, Written, title, without_nothing
from perdure.programs.format.dialects.steps001 import Steps
from perdure.programs.format.dialects.triggers001 import triggers
from perdure.programs.format.dialects.variables001 import Variables
from perdure.programs.format.dialects.writing import written
from perdure.programs.format.dialects.written001 import Writer

_OF_THE_ROW = ("id", "userId", "enabled", "createdAt", "updatedAt", "workflowHash", "hash")


def to_definition(document: Any) -> Read:
    """The definition that a document of this shape is."""
    document = _flat(document)
    notes = Notes(document)
    top = Fields(document, "", notes)
    names = Names(notes)
    variables = Variables(names, notes)
    variables.declare(top.mapping("variables"))
    if not top.listed("steps"):
        notes.error("no_steps", "/steps", "a workflow is a mapping with a list of steps that is not empty")
    listing = Listing(top, names, variables, notes)
    steps_max = _steps_max(top, notes)
    steps = Steps(variables, notes, steps_max).listed(listing.steps)
    path, name = top.text("slug"), top.text("name")
    definition: dict[str, Any] = {"perdure": 1, "dialect": "001", "name": title(path, name, top.text("id")), "order": "listed"}
    definition |= without_nothing(
        {
            "version": top.text("version"),
            "description": top.text("description"),
            "tags": top.texts("tags"),
            "input": variables.inputs,
            "vars": variables.vars(),
            "triggers": triggers(top, notes),
            "limits": {"max_steps": steps_max},
            "allow": _allowed(top, notes),
            "ui": {"name": name} if path and name and path != name else {},
        }
    )
    begun = variables.begun()
    definition["steps"] = [{"id": names.free("variables"), "set": begun}, *steps] if begun else steps
    if outputs := variables.outputs():
        definition["output"] = outputs
    top.ignore(*_OF_THE_ROW)
    top.left()
    return Read("001", definition, tuple(notes.findings))


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


def _steps_max(top: Fields, notes: Notes) -> int:
    runtime = top.inside("runtime") or Fields({}, "/runtime", notes)
    policy = runtime.inside("policy") or Fields({}, runtime.at("policy"), notes)
    most = policy.whole("maxSteps", least=1)
    policy.left()
    runtime.left()
    return most or STEPS_MAX


def _allowed(top: Fields, notes: Notes) -> dict[str, Any]:
    constraints = top.inside("constraints") or Fields({}, "/constraints", notes)
    allowed = constraints.flag("allowSelfModification")
    constraints.left()
    return {"self_edit": True} if allowed else {}


def from_definition(definition: dict[str, Any]) -> Written:
    """A definition as a document of this shape, where that can say all of it."""
    return written(definition, "001", lambda whole, notes: Writer(whole, notes).document(), to_definition)
