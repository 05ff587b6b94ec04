"""Reads ref_dag: ``{title, steps: [{name, action, input, when, bail, forEach, config, outputSchema}], input_schema}``, steps ordered by their references.

A tool has 30 s and code 10 s unless `config.timeoutMs` changes that. `forEach` runs one item at a time unless it has `concurrency`, and a failed item is null
in the results unless `config.onError` is "fail". `bail` becomes a step of its own that returns the result of its step.
"""

from __future__ import annotations

from typing import Any

from perdure.dialects.foreign_document import (
    NATIVE_OPERATORS,
    PLAIN_OPERATORS,
    FindingCollector,
    ForeignDefinition,
    ForeignFields,
    StepNames,
    is_number,
    kind_of_value,
    ms_to_s,
    refuse_unknown_operators,
    without_empty,
    workflow_title,
)
from perdure.dialects.ref_dag.template_references import RefDagReferences
from perdure.dialects.reference_syntax import literal_value, whole_reference

TOOL_S = 30
CODE_S = 10
GOES_ON = frozenset(("continue", "go_on", "ignore", "skip"))


def to_definition(document: Any) -> ForeignDefinition:
    """Reads a document as a definition."""
    notes = FindingCollector(document)
    top = ForeignFields(document, "", notes)
    names = StepNames(notes)
    steps = _steps(top, names, notes)
    reader = _Reader(names, notes)
    top.ignore("id", "created_at", "updated_at", "created_by", "updated_by", "virtual_mcp_id")
    definition: dict[str, Any] = {"perdure": 1, "dialect": "ref_dag", "name": workflow_title(top.text("title", "name"), top.text("id")), "order": "refs"}
    definition |= without_empty({"description": top.text("description"), "tags": top.texts("tags")})
    if schema := top.inside("input_schema", "inputSchema"):
        definition["input"] = _inputs(schema)
    if deadline := ms_to_s(top.number("timeoutMs")):
        definition["limits"] = {"deadline": deadline}
    definition["steps"] = [made for called, step in steps for made in reader.step(called, step)]
    top.left()
    return ForeignDefinition("ref_dag", definition, tuple(notes.findings))


def _steps(top: ForeignFields, names: StepNames, notes: FindingCollector) -> list[tuple[str, ForeignFields]]:
    """The steps, each with what it is called."""
    if not top.listed("steps"):
        notes.error("no_steps", top.at("steps"), "a workflow has at least one step")
    steps = [ForeignFields(step, top.at("steps", index), notes) for index, step in enumerate(top.listed("steps"))]
    given = []
    for index, step in enumerate(steps):
        if not (name := step.text("name", "id")):
            notes.error("missing_field", step.at("name"), "a step has a name, by which others refer to it")
            name = names.free(f"step_{index + 1}")
        given.append((names.give(name, step.at("name")), step))
    return given


def _inputs(schema: ForeignFields) -> dict[str, Any]:
    """The input's properties; those that are not required may be left out, and are null then."""
    required = schema.texts("required")
    schema.ignore("type", "$schema", "title", "description", "additionalProperties")
    properties = schema.mapping("properties")
    for name, value in properties.items():
        if not isinstance(value, dict | bool):
            schema.notes.error("wrong_type", schema.at("properties", name), f"expected a JSON Schema, found {kind_of_value(value)}")
    schemas = {name: value if isinstance(value, dict) else {} for name, value in properties.items()}
    schema.left()
    return {name: value if name in required or "default" in value else {**value, "default": None} for name, value in schemas.items()} | {
        name: {} for name in required if name not in schemas
    }


class _Reader:
    """Reads the steps of one document."""

    def __init__(self, names: StepNames, notes: FindingCollector) -> None:
        self._names, self._notes = names, notes
        self._references = RefDagReferences(names, notes)

    def step(self, called: str, step: ForeignFields) -> list[dict[str, Any]]:
        """A step, and the one that its `bail` makes."""
        each = step.inside("forEach")
        read: dict[str, Any] = {"id": called} | without_empty({"note": step.text("description"), "name": step.text("title")})
        if when := step.inside("when"):
            read["when"] = self._condition(when, bool(each))
        inputs = self._references.value(step.any("input"), step.at("input"), bool(each)) if step.has("input") else None
        config = step.inside("config") or ForeignFields({}, step.at("config"), self._notes)
        self._action(step, read, inputs)
        if each:
            read["each"] = self._each(each, config)
        read |= self._config(config, read)
        if step.has("outputSchema"):
            read["schema"] = step.any("outputSchema")
        bail = self._bail(called, step, read)
        step.ignore("id")
        step.left()
        return [read, *bail]

    def _condition(self, when: ForeignFields, each: bool) -> dict[str, Any]:
        row: dict[str, Any] = {"ref": self._references.ref(text, when.at("ref"), each)} if (text := when.text("ref")) else {}
        if not row:
            self._notes.error("missing_field", when.at("ref"), "a condition looks at a ref, such as '@validate.ok'")
            row = {"ref": "@input"}
        found = [name for name in when.value if name in NATIVE_OPERATORS]
        if len(found) > 1:
            self._notes.error("one_operator", when.pointer, f"one operator per condition, found {' and '.join(map(repr, found))}")
        for name in found[:1]:
            value = when.value[name]
            if name in ("gt", "gte", "lt", "lte") and not is_number(value):
                self._notes.error("wrong_type", when.at(name), f"expected a number, found {kind_of_value(value)}")
            row[name] = value if name in PLAIN_OPERATORS else literal_value(value)
        refuse_unknown_operators(when, NATIVE_OPERATORS, ("ref",))
        return row

    def _action(self, step: ForeignFields, read: dict[str, Any], inputs: Any) -> None:
        """Returns the work of the step as a verb with its input."""
        action = step.inside("action") or ForeignFields({}, step.at("action"), self._notes)
        found = [name for name in ("toolName", "code", "return") if action.has(name)]
        if len(found) != 1:
            self._notes.error("one_action", action.pointer, f"an action is one of toolName, code and return; found {' and '.join(found) or 'none'}")
        match found[:1]:
            case ["toolName"]:
                read["tool"] = action.text("toolName")
                if action.has("transformCode"):
                    read["transform"] = {"ts": action.text("transformCode")}
            case ["code"]:
                read["ts"] = action.text("code")
            case ["return"]:
                if action.any("return") is not True:
                    self._notes.error("wrong_type", action.at("return"), f"expected true, found {kind_of_value(action.any('return'))}")
                read["return"] = {} if inputs is None else inputs
            case _:
                read["fail"] = "this step has no action"
        if inputs is not None and "return" not in read and "fail" not in read:
            read["with"] = inputs
        action.left()

    def _each(self, each: ForeignFields, config: ForeignFields) -> dict[str, Any]:
        items = self._references.ref(text, each.at("ref"), False) if (text := each.text("ref")) else "@input"
        if not text:
            self._notes.error("missing_field", each.at("ref"), "forEach needs a reference to a list, such as '@input.contacts'")
        read: dict[str, Any] = {"in": items, "concurrency": each.whole("concurrency", least=1) or 1}
        if (most := each.whole("maxIterations", "max", least=1)) is not None:
            read["max"] = most
        read["on_error"] = "fail" if config.any("onError") == "fail" else "null"
        each.left()
        return read

    def _config(self, config: ForeignFields, read: dict[str, Any]) -> dict[str, Any]:
        tries = {"max": config.whole("maxAttempts", least=1), "wait": ms_to_s(config.number("backoffMs"))}
        default_s = TOOL_S if "tool" in read else CODE_S if "ts" in read else None
        timeout_s = ms_to_s(config.number("timeoutMs"))
        on_error = config.text("onError", default="fail")
        if on_error not in GOES_ON | {"fail"}:
            self._notes.error("unknown_value", config.at("onError"), f"expected 'fail' or 'continue', found {on_error[:40]!r}")
        config.left()
        return without_empty({"retry": without_empty(tries), "timeout": timeout_s or default_s, "on_error": "go_on" if on_error in GOES_ON else None})

    def _bail(self, called: str, step: ForeignFields, read: dict[str, Any]) -> list[dict[str, Any]]:
        """`bail`: once its step has run (and its condition holds), the execution ends with what the step came to."""
        bail = step.any("bail")
        if bail is None or bail is False:
            return []
        conditions = [read["when"]] if "when" in read else []
        if bail is not True:
            conditions.append(self._condition(ForeignFields(bail, step.at("bail"), self._notes), False))
        leaving: dict[str, Any] = {"id": self._names.free(f"{called}_bail")}
        if conditions:
            leaving["when"] = conditions[0] if len(conditions) == 1 else {"all": conditions}
        return [{**leaving, "return": whole_reference(called)}]
