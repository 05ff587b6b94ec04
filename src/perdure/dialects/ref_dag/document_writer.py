"""Writes a definition as a document of ref_dag."""

from __future__ import annotations

from typing import Any

from perdure.definitions.format.definition_findings import joined_pointer
from perdure.dialects.foreign_document import (
    NATIVE_OPERATORS,
    PLAIN_OPERATORS,
    Document,
    FindingCollector,
    WrittenDocument,
    s_to_ms,
    without_empty,
    write_and_verify,
)
from perdure.dialects.ref_dag.document_reader import to_definition
from perdure.dialects.ref_dag.template_references import write_reference as spelt
from perdure.dialects.reference_syntax import plain_value, whole_reference

DEFAULTS_S = {"tool": 30, "ts": 10}


def write_document(definition: Document, notes: FindingCollector) -> Document:
    """The document; reports what the dialect can not express."""
    made: Document = {"title": definition["name"]} | without_empty({"description": definition.get("description"), "tags": definition.get("tags")})
    if "deadline" in definition.get("limits", {}):
        made["timeoutMs"] = s_to_ms(definition["limits"]["deadline"])
    made["steps"] = list(_steps(definition["steps"], notes))
    if inputs := definition.get("input"):
        made["input_schema"] = _schema(inputs)
    return made


def _schema(inputs: Document) -> Document:
    properties, required = {}, []
    for name, value in inputs.items():
        schema = {key: item for key, item in value.items() if key != "default"} if value.get("default", 0) is None else value
        properties[name] = schema
        if "default" not in value:
            required.append(name)
    return {"type": "object", "properties": properties} | without_empty({"required": required})


def _steps(steps: list[Document], notes: FindingCollector) -> list[Document]:
    made: list[Document] = []
    for index, step in enumerate(steps):
        before = steps[index - 1] if index else {}
        if before and step["id"] == f"{before['id']}_bail" and step.get("return") == whole_reference(before["id"]):
            made[-1]["bail"] = _bail(before, step, joined_pointer("", "steps", index), notes)
        else:
            made.append(_step(step, joined_pointer("", "steps", index), notes))
    return made


def _bail(before: Document, leaving: Document, pointer: str, notes: FindingCollector) -> Any:
    when = leaving.get("when")
    if when == before.get("when"):
        return True
    if "when" in before:
        when = when["all"][-1] if isinstance(when, dict) and isinstance(when.get("all"), list) and when["all"] else when
    return _condition(when, joined_pointer(pointer, "when"), notes)


def _step(step: Document, pointer: str, notes: FindingCollector) -> Document:
    made: Document = {"name": step["id"]} | without_empty({"description": step.get("note"), "title": step.get("name")})
    if "tool" in step:
        made["action"] = {"toolName": step["tool"]}
        if isinstance(step.get("transform"), dict) and "ts" in step["transform"]:
            made["action"]["transformCode"] = step["transform"]["ts"]
    elif "ts" in step:
        made["action"] = {"code": step["ts"]}
    elif "return" in step:
        made["action"] = {"return": True}
    else:
        notes.error("unsayable", pointer, "a step of ref_dag calls a tool, runs code, or returns")
    given = step.get("return", {}) if "return" in step else step.get("with")
    if given is not None and not ("return" in step and given == {}):
        made["input"] = spelt(given, joined_pointer(pointer, "with"), notes)
    if "when" in step:
        made["when"] = _condition(step["when"], joined_pointer(pointer, "when"), notes)
    if "schema" in step:
        made["outputSchema"] = step["schema"]
    return made | _repeated(step, pointer, notes)


def _repeated(step: Document, pointer: str, notes: FindingCollector) -> Document:
    """`forEach` and `config`."""
    made: Document = {}
    retry, each = step.get("retry", {}), step.get("each")
    config = without_empty({"maxAttempts": retry.get("max"), "backoffMs": s_to_ms(retry.get("wait"))})
    if "timeout" in step and step["timeout"] != DEFAULTS_S.get("tool" if "tool" in step else "ts"):
        config["timeoutMs"] = s_to_ms(step["timeout"])
    if step.get("on_error") == "go_on":
        config["onError"] = "continue"
    if each:
        made["forEach"] = {"ref": spelt(each["in"], joined_pointer(pointer, "each", "in"), notes)}
        if each.get("concurrency") != 1:
            made["forEach"]["concurrency"] = each.get("concurrency", 0)
        made["forEach"] |= without_empty({"max": each.get("max")})
        if each.get("on_error", "fail") == "fail":
            config["onError"] = "fail"
    return made | ({"config": config} if config else {})


def _condition(when: Any, pointer: str, notes: FindingCollector) -> Any:
    if not isinstance(when, dict) or "ref" not in when or not when.keys() <= {"ref", *NATIVE_OPERATORS}:
        notes.error("unsayable", pointer, f"a condition of ref_dag is a ref with at most one of {', '.join(sorted(NATIVE_OPERATORS))}")
        return {"ref": "@input"}
    made = {name: value if name in PLAIN_OPERATORS else plain_value(value) for name, value in when.items() if name != "ref"}
    return {"ref": spelt(when["ref"], joined_pointer(pointer, "ref"), notes), **made}


def from_definition(definition: Document) -> WrittenDocument:
    """Writes a definition as a document of this dialect, if the dialect can express all of it."""
    return write_and_verify(definition, "ref_dag", write_document, to_definition)
