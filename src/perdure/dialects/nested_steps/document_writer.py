"""Writes a definition as a document of nested_steps."""

from __future__ import annotations

import re
from typing import Any

from perdure.core.errors import BadExpression
from perdure.definitions.expr.references import Reference, parse_reference, scan_reference
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.dialects.foreign_document import PLAIN_OPERATORS, Document, FindingCollector, WrittenDocument, without_empty, write_and_verify
from perdure.dialects.nested_steps.document_reader import to_definition
from perdure.dialects.nested_steps.step_reader import BASH_DEFAULT_S, PARALLEL_DEFAULT, STEPS_MAX
from perdure.dialects.reference_syntax import cel_path_text, is_reference, unescape_template

OPERATORS = {"eq": "equals", "neq": "notEquals", "gt": "greaterThan", "gte": "gte", "lt": "lessThan", "lte": "lte"}

_SET = re.compile(r"(.+?)_set_*")


class NestedStepsWriter:
    """Writes one definition."""

    def __init__(self, definition: Document, notes: FindingCollector) -> None:
        self._definition, self._notes = definition, notes
        self._stored: dict[str, list[str]] = {}
        for name, value in definition.get("output", {}).items() if isinstance(definition.get("output"), dict) else ():
            if (found := self._ref(value)) and found.root in ("step", "steps"):
                self._stored.setdefault(found.step, []).append(name)

    def document(self) -> Document:
        """The document."""
        definition = self._definition
        shown = definition.get("ui") if isinstance(definition.get("ui"), dict) else {}
        named = {"slug": definition["name"], "name": shown["name"]} if shown and "name" in shown else {"name": definition["name"]}
        made = named | without_empty({name: definition.get(name) for name in ("version", "description", "tags")})
        made |= without_empty({"variables": {name: _variable(value) for name, value in definition.get("input", {}).items()}})
        steps = definition["steps"]
        begun = steps[0].get("set", {}) if steps and steps[0]["id"].startswith("variables") else {}
        made["steps"] = self._list(steps[1:] if begun else steps, "/steps", "step")
        made |= {"variables": made.get("variables", {})}
        if triggers := [_trigger(trigger) for trigger in definition.get("triggers", [])]:
            made["triggers"] = triggers
        most = definition.get("limits", {}).get("max_steps")
        made |= {"runtime": {"policy": {"maxSteps": most}}} if most not in (None, STEPS_MAX) else {}
        return made | ({"constraints": {"allowSelfModification": True}} if definition.get("allow", {}).get("self_edit") else {})

    def _list(self, steps: list[Document], pointer: str, path: str) -> list[Document]:
        """A list of steps; what is set behind one becomes what that stores."""
        made: list[Document] = []
        for index, step in enumerate(steps):
            found = _SET.fullmatch(step["id"])
            if found and made and "set" in step and steps[index - 1]["id"] == found[1] and len(step["set"]) == 1:
                made[-1]["outputVariable"] = next(iter(step["set"]))
            else:
                made.append(self._step(step, joined_pointer(pointer, index), f"{path}[{len(made)}]"))
        return made

    def _step(self, step: Document, pointer: str, path: str) -> Document:
        made: Document = {} if step["id"] == path else {"id": step["id"]}
        made |= self._work(step, pointer, path)
        made |= without_empty({"name": step.get("name"), "description": step.get("note")})
        if stored := self._stored.get(step["id"]):
            made["outputVariable"] = stored[0]
        if "retry" in step:
            retry = step["retry"]
            wait_ms = None if "wait" not in retry else retry["wait"] * 1000
            made["retry"] = without_empty({"maxAttempts": retry.get("max"), "backoffMs": wait_ms, "multiplier": retry.get("factor")})
        if "when" in step and "when" not in made and not ("do" in step and ("repeat" in step or step["when"] is False)):
            made["when"] = self._condition(step["when"], joined_pointer(pointer, "when"))
        if "timeout" in step and not ("bash" in step and step["timeout"] == BASH_DEFAULT_S):
            made["timeout"] = step["timeout"]
        return made | ({"onError": "continue"} if step.get("on_error") == "go_on" else {})

    def _work(self, step: Document, pointer: str, path: str) -> Document:
        match step:
            case {"bash": str(command)} | {"bash": {"command": str(command)}} if step["bash"] in (command, {"command": command}):
                return {"type": "bash", "command": command} | without_empty({"env": self._value(step.get("env", {}))})
            case {"bash": {"command": str(command), "check": False}} if len(step["bash"]) == 2:
                return {"type": "bash", "command": command, "check": False} | without_empty({"env": self._value(step.get("env", {}))})
            case {"tool": tool}:
                return {"type": "tool", "tool": tool} | without_empty({"arguments": self._value(step.get("with"))})
            case {"agent": dict(agent)}:
                return {"type": "agent", "content": self._value(agent.get("prompt"))} | {name: value for name, value in agent.items() if name != "prompt"}
            case {"agent_message": dict(message)}:
                return {"type": "agent_message", **self._value(message)}
            case {"call": str(call)} if not call.startswith("py:"):
                name, _, version = call.partition("@")
                wait = {} if step.get("wait", True) else {"wait": False}
                return {"type": "subworkflow", "slug": name, **without_empty({"version": version, "inputs": self._value(step.get("with"))}), **wait}
            case {"approve": dict(approve)}:
                return self._approval(approve)
            case {"if": condition, "then": then}:
                made: Document = {"type": "conditional", "condition": self._condition(condition, joined_pointer(pointer, "if"))}
                made["then"] = self._list(then, joined_pointer(pointer, "then"), f"{path}.then")
                otherwise = self._list(step.get("else", []), joined_pointer(pointer, "else"), f"{path}.else")
                return made | ({"else": otherwise} if otherwise else {})
            case {"parallel": dict(parallel)}:
                at_once = without_empty({"concurrency": parallel.get("concurrency")})
                return {"type": "parallel", "steps": self._branches(parallel["steps"], joined_pointer(pointer, "parallel", "steps"), path), **at_once}
            case {"do": list(body)}:
                return {"type": "loop", **self._loop(step, pointer), "steps": self._list(body, joined_pointer(pointer, "do"), f"{path}.steps")}
        self._notes.error("unsayable", pointer, f"nested_steps has no step for {', '.join(sorted(step.keys() - {'id'}))[:60]}")
        return {}

    def _branches(self, steps: list[Document], pointer: str, path: str) -> list[Document]:
        made = []
        for index, step in enumerate(steps):
            both = step["do"] if step["id"].rstrip("_").endswith("_all") and "do" in step else [step]
            (one, *_) = self._list(both, joined_pointer(pointer, index), "")
            if both[0]["id"] == f"{path}.steps[{index}]":
                one.pop("id", None)
            made.append(one)
        return made

    def _approval(self, approve: Document) -> Document:
        made: Document = {"type": "approval", "prompt": self._value(approve["title"])}
        made |= without_empty({"details": self._value(approve.get("details")), "form": approve.get("form"), "timeout": approve.get("timeout")})
        made |= without_empty({"approvers": [unescape_template(one) for one in approve.get("assignees", [])]})
        return made | ({"defaultAction": {"approve": "approve", "reject": "deny"}[approve["on_timeout"]]} if "on_timeout" in approve else {})

    def _loop(self, step: Document, pointer: str) -> Document:
        match step:
            case {"each": each}:
                items = each["in"]
                found = {"items": self._value(items), "as": each.get("as"), "indexAs": each.get("index"), "max": each.get("max")}
                at_once = each.get("concurrency", 0)
                more = {} if at_once == PARALLEL_DEFAULT else {"concurrency": at_once}
                return without_empty(found) | more | without_empty({"onItemError": each.get("on_error")}) | ({"items": []} if items == [] else {})
            case {"when": False}:
                return {"count": 0}
            case {"repeat": {"until": {"ref": "@index", "gte": int(last)}, "max": most}} if last + 1 == most and "when" not in step:
                return {"count": most}
            case {"when": {"ref": ref, "gt": 0}, "repeat": {"until": {"expr": _}, "max": most}}:
                return {"count": self._value(ref.removesuffix("?")), "max": most}
            case {"repeat": dict(repeat)}:
                name = "while" if "while" in repeat else "until"
                made = {name: self._condition(repeat[name], joined_pointer(pointer, "repeat", name)), "max": repeat.get("max")}
                made |= {"onMax": "continue"} if repeat.get("on_max") == "go_on" else {}
                return without_empty(made | {"delayMs": repeat["delay"] * 1000 if isinstance(repeat.get("delay"), int | float) else None})
        self._notes.error("unsayable", pointer, "nested_steps cannot express a group of steps by itself; put it into a loop, a branch or a parallel step")
        return {}

    def _condition(self, condition: Any, pointer: str) -> Any:
        match condition:
            case bool():
                return condition
            case {"all": list(parts)} | {"any": list(parts)}:
                name = next(iter(condition))
                return {name: [self._condition(part, joined_pointer(pointer, name, index)) for index, part in enumerate(parts)]}
            case {"not": part}:
                return {"not": self._condition(part, joined_pointer(pointer, "not"))}
            case {"ref": str(ref), **operators} if ref.endswith("?"):
                found = {OPERATORS.get(str(name), str(name)): value if name in PLAIN_OPERATORS else self._value(value) for name, value in operators.items()}
                return {"variable": self._named(ref).strip("{} "), **found}
        self._notes.error("unsayable", pointer, "a condition of nested_steps compares a variable: {variable, equals}")
        return False

    def _value(self, value: Any) -> Any:
        """A template as this dialect writes it; what it has no words for stays, and is found out when it is read again."""
        match value:
            case str() if is_reference(value):
                return self._named(value)
            case str():
                return "".join(self._pieces(value))
            case list():
                return [self._value(item) for item in value]
            case dict():
                return {name: self._value(item) for name, item in value.items()}
            case _:
                return value

    def _pieces(self, text: str) -> list[str]:
        pieces, behind = [], 0
        while (at := text.find("@", behind)) >= 0:
            pieces.append(text[behind:at])
            if text.startswith("@{", at):
                try:
                    found, end = scan_reference(text, at + 2)
                except BadExpression:
                    return [text]
                pieces.append(self._spelt(found) or text[at : end + 1])
                behind = end + 1
            else:
                pieces.append("@")
                behind = at + (2 if text.startswith("@@", at) else 1)
        return [*pieces, text[behind:]]

    def _named(self, text: str) -> str:
        found = self._ref(text)
        return (self._spelt(found) if found else "") or text

    def _spelt(self, found: Reference) -> str:
        """A reference in double braces; empty if this dialect has no name for it."""
        path = list(found.path)
        match found.root, path:
            case "input", [name, *_] if isinstance(name, str):
                chain = cel_path_text("variables", path)
            case "vars", [name, *_]:
                chain = cel_path_text("outputs", path)
            case "item" | "index", _:
                chain = cel_path_text(found.root, path)
            case "step", _ if found.step not in self._ids():
                chain = cel_path_text(found.step, path)
            case "step", _:
                chain = self._of_step(found.step, path)
            case "steps", ["data", *rest]:
                chain = self._of_step(found.step, rest)
            case _:
                return ""
        return f"{{{{{chain}}}}}"

    def _of_step(self, id: str, path: list[str | int]) -> str:
        stored = self._stored.get(id)
        return cel_path_text("outputs", [stored[0], *path]) if stored else cel_path_text("steps", [id, *path])

    def _ids(self) -> set[str]:
        return set(_ids(self._definition["steps"]))

    def _ref(self, value: Any) -> Reference | None:
        if not is_reference(value):
            return None
        try:
            return parse_reference(value)
        except BadExpression:
            return None


def _ids(value: Any) -> list[str]:
    """The ids of all steps in a list of steps, nested ones too."""
    match value:
        case list():
            return [id for item in value for id in _ids(item)]
        case {"id": str(id)}:
            return [id, *(inner for name in ("then", "else", "do", "parallel", "steps") for inner in _ids(value.get(name)))]
        case {"steps": steps}:
            return _ids(steps)
        case _:
            return []


def _variable(schema: Document) -> Any:
    if schema.keys() == {"default"} and not isinstance(schema["default"], dict):
        return schema["default"]
    return schema if "default" in schema else {**schema, "required": True}


def _trigger(trigger: Document) -> Document:
    named = without_empty({"name": trigger.get("name")}) | ({} if trigger.get("enabled", True) else {"enabled": False})
    if webhook := trigger.get("webhook"):
        config = {name: value for name, value in webhook.items() if name not in ("map", "verify")}
        return {**named, "type": "webhook", "config": config, **without_empty({"variableMapping": webhook.get("map")})}
    if schedule := trigger.get("schedule"):
        return {**named, "type": "schedule", "config": schedule}
    return {**named, "type": "manual"}


def from_definition(definition: Document) -> WrittenDocument:
    """Writes a definition as a document of this dialect, if the dialect can express all of it."""
    return write_and_verify(definition, "nested_steps", lambda whole, notes: NestedStepsWriter(whole, notes).document(), to_definition)
