"""A definition as a document of seed 000."""

from __future__ import annotations

from typing import Any

from perdure.programs.format.dialects.operators import NATIVE, PLAIN
from perdure.programs.format.dialects.reading import Notes, milliseconds, without_nothing
from perdure.programs.format.dialects.references000 import written as spelt
from perdure.programs.format.dialects.spelling import plain, whole
from perdure.programs.format.finding import joined

DEFAULTS_S = {"tool": 30, "ts": 10}

Document = dict[str, Any]


def document(definition: Document, notes: Notes) -> Document:
    """The document; what has no words in this dialect is noted, or left out."""
    made: Document = {"title": definition["name"]} | without_nothing({"description": definition.get("description"), "tags": definition.get("tags")})
    if "deadline" in definition.get("limits", {}):
        made["timeoutMs"] = milliseconds(definition["limits"]["deadline"])
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
    return {"type": "object", "properties": properties} | without_nothing({"required": required})


def _steps(steps: list[Document], notes: Notes) -> list[Document]:
    made: list[Document] = []
    for index, step in enumerate(steps):
        before = steps[index - 1] if index else {}
        if before and step["id"] == f"{before['id']}_bail" and step.get("return") == whole(before["id"]):
            made[-1]["bail"] = _bail(before, step, joined("", "steps", index), notes)
        else:
            made.append(_step(step, joined("", "steps", index), notes))
    return made


def _bail(before: Document, leaving: Document, pointer: str, notes: Notes) -> Any:
    when = leaving.get("when")
    if when == before.get("when"):
        return True
    if "when" in before:
        when = when["all"][-1] if isinstance(when, dict) and isinstance(when.get("all"), list) and when["all"] else when
    return _condition(when, joined(pointer, "when"), notes)


def _step(step: Document, pointer: str, notes: Notes) -> Document:
    made: Document = {"name": step["id"]} | without_nothing({"description": step.get("note"), "title": step.get("name")})
    if "tool" in step:
        made["action"] = {"toolName": step["tool"]}
        if isinstance(step.get("transform"), dict) and "ts" in step["transform"]:
            made["action"]["transformCode"] = step["transform"]["ts"]
    elif "ts" in step:
        made["action"] = {"code": step["ts"]}
    elif "return" in step:
        made["action"] = {"return": True}
    else:
        notes.error("unsayable", pointer, "a step of seed 000 calls a tool, runs code, or returns")
    given = step.get("return", {}) if "return" in step else step.get("with")
    if given is not None and not ("return" in step and given == {}):
        made["input"] = spelt(given, joined(pointer, "with"), notes)
    if "when" in step:
        made["when"] = _condition(step["when"], joined(pointer, "when"), notes)
    if "schema" in step:
        made["outputSchema"] = step["schema"]
    return made | _repeated(step, pointer, notes)


def _repeated(step: Document, pointer: str, notes: Notes) -> Document:
    """`forEach` and `config`."""
    made: Document = {}
    retry, each = step.get("retry", {}), step.get("each")
    config = without_nothing({"maxAttempts": retry.get("max"), "backoffMs": milliseconds(retry.get("wait"))})
    if "timeout" in step and step["timeout"] != DEFAULTS_S.get("tool" if "tool" in step else "ts"):
        config["timeoutMs"] = milliseconds(step["timeout"])
    if step.get("on_error") == "go_on":
        config["onError"] = "continue"
    if each:
        made["forEach"] = {"ref": spelt(each["in"], joined(pointer, "each", "in"), notes)}
        if each.get("concurrency") != 1:
            made["forEach"]["concurrency"] = each.get("concurrency", 0)
        made["forEach"] |= without_nothing({"max": each.get("max")})
        if each.get("on_error", "fail") == "fail":
            config["onError"] = "fail"
    return made | ({"config": config} if config else {})


def _condition(when: Any, pointer: str, notes: Notes) -> Any:
    if not isinstance(when, dict) or "ref" not in when or not when.keys() <= {"ref", *NATIVE}:
        notes.error("unsayable", pointer, f"a condition of seed 000 is a ref with at most one of {', '.join(sorted(NATIVE))}")
        return {"ref": "@input"}
    made = {name: value if name in PLAIN else plain(value) for name, value in when.items() if name != "ref"}
    return {"ref": spelt(when["ref"], joined(pointer, "ref"), notes), **made}
