"""Writes a definition as a document of token_graph: nodes and edges, or nodes alone that name their dependencies, dependents and branches.

A condition becomes CEL where CEL can express it, and otherwise the condition type that can.
"""

from __future__ import annotations

import json
import re
from typing import Any

from perdure.core.errors import BadExpression
from perdure.definitions.expr.references import parse_reference
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.dialects import cel_tree
from perdure.dialects.cel_tree import CelName, CelTree
from perdure.dialects.foreign_document import (
    Document,
    FindingCollector,
    StepNames,
    WrittenDocument,
    is_number,
    s_to_ms,
    whole_if_exact,
    without_empty,
    write_and_verify,
)
from perdure.dialects.reference_syntax import NAME, cel_path_text, is_reference, plain_value, unescape_template
from perdure.dialects.token_graph import node_reader
from perdure.dialects.token_graph.condition_reader import ReferencedContents
from perdure.dialects.token_graph.condition_reader import TokenGraphConditionReader as Reader
from perdure.dialects.token_graph.document_reader import to_definition
from perdure.dialects.token_graph.node_reader import MIGRATION_TYPE, handovers_of
from perdure.dialects.token_graph.node_routes import FANOUT_MAX, HOPS_MAX

CEL_SIGNS = {"eq": "==", "neq": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
CEL_METHODS = {"contains": "contains", "starts_with": "startsWith", "ends_with": "endsWith"}
AGGREGATE_NAMES = ("sum", "count", "min", "max", "any", "all")


class TokenGraphConditionWriter:
    """Writes the conditions of one definition, whose steps are `ids`."""

    def __init__(self, ids: set[str], notes: FindingCollector) -> None:
        self._ids, self._notes = ids, notes
        apart = FindingCollector(None)
        names = StepNames(apart)
        for id in ids:
            names.give(id, "")
        self._reader = Reader(names, apart, ReferencedContents({}, apart))

    def write(self, condition: Any, pointer: str) -> Document:
        """A condition."""
        if (text := self._cel(condition)) is not None:
            return {"type": "cel", "expression": text}
        match condition:
            case {"all": list(parts)} | {"any": list(parts)}:
                name = next(iter(condition))
                inside = [self.write(part, joined_pointer(pointer, name, index)) for index, part in enumerate(parts)]
                return {"type": "composite", "operator": {"all": "AND", "any": "OR"}[name], "conditions": inside}
            case {"not": {"ref": "@self", "matches": schema}}:
                return {"type": "schema_validation", "schema": schema, "invert": True}
            case {"ref": "@self", "matches": schema}:
                return {"type": "schema_validation", "schema": schema}
            case {"not": part}:
                return {"type": "composite", "operator": "NOT", "conditions": [self.write(part, joined_pointer(pointer, "not"))]}
            case {"python": source}:
                return {"type": "python_sandbox", "code": source}
            case {"ref": str(ref), **operators}:
                return self._jsonpath(ref, {str(name): value for name, value in operators.items()}, pointer)
        self._notes.error("unsayable", pointer, "token_graph cannot express this condition")
        return {}

    def _jsonpath(self, ref: str, operators: Document, pointer: str) -> Document:
        query = ref if ref.startswith("$") else self._query(ref)
        if query is None or len(operators) > 1:
            self._notes.error("unsayable", pointer, f"token_graph cannot express a condition on {ref[:60]!r}")
            return {}
        made: Document = {"type": "jsonpath", "query": query}
        for name, value in operators.items():
            if name in AGGREGATE_NAMES and isinstance(value, dict) and len(value) == 1:
                ((compared, right),) = value.items()
                made |= {"operator": CEL_SIGNS.get(compared, compared) if name == "any" else f"{name}_{compared}", "value": plain_value(right)}
            else:
                made |= {"operator": CEL_SIGNS.get(name, name), "value": plain_value(value)}
        return made

    def _query(self, ref: str) -> str | None:
        """A reference to the step's own result as a JSONPath."""
        try:
            found = parse_reference(ref)
        except BadExpression:
            return None
        return "$" + "".join(f"[{key}]" if isinstance(key, int) else f"[{json.dumps(key)}]" for key in found.path) if found.root == "self" else None

    def _cel(self, condition: Any) -> str | None:
        match condition:
            case {"expr": str(), "source": str(source)} if self._reader.read(source, "") == condition:
                return source
            case {"expr": str(text)}:
                return self._renamed(text)
            case {"all": list(parts)} | {"any": list(parts)} if len(condition) == 1:
                texts = [self._cel(part) for part in parts]
                sign = " && " if "all" in condition else " || "
                if any(text is None or "expr" in part for text, part in zip(texts, parts, strict=True)):
                    return None
                grouped = [f"({text})" if "all" in part or "any" in part else str(text) for text, part in zip(texts, parts, strict=True)]
                return sign.join(grouped)
            case {"ref": str(ref), **operators} if len(operators) == 1 and (left := self._chain(ref)):
                ((name, value),) = operators.items()
                return self._row(left, str(name), value)
        return None

    def _row(self, left: str, name: str, value: Any) -> str | None:
        if name in CEL_SIGNS and is_reference(value):
            right = self._chain(value)
            return f"{left} {CEL_SIGNS[name]} {right}" if right else None
        if name in CEL_SIGNS and not isinstance(value, dict | list):
            return f"{left} {CEL_SIGNS[name]} {json.dumps(plain_value(value), ensure_ascii=False)}"
        if name == "in" and isinstance(value, list) and not any(isinstance(item, dict | list) or is_reference(item) for item in value):
            return f"{left} in {json.dumps(plain_value(value), ensure_ascii=False)}"
        if name in CEL_METHODS and isinstance(value, str) and not is_reference(value):
            return f"{left}.{CEL_METHODS[name]}({json.dumps(unescape_template(value), ensure_ascii=False)})"
        return None

    def _chain(self, ref: str) -> str | None:
        """A reference as CEL of this dialect; None if it has none."""
        try:
            found = parse_reference(ref)
        except BadExpression:
            return None
        match found.root, found.path:
            case "self", path:
                return cel_path_text("output", path)
            case "step", path:
                return cel_path_text("ctx", [found.step, "output", *path])
            case "steps", ("data", *path):
                return cel_path_text("ctx", [found.step, "output", *path])
            case "steps", ("meta", *path):
                return cel_path_text("ctx", [found.step, "metadata", *path])
        return None

    def _renamed(self, text: str) -> str | None:
        """CEL with the names that this dialect has; None if it has none for one of them."""
        try:
            return cel_tree.cel_text(cel_tree.rename_free_names(cel_tree.parse_cel(text), self._rename))
        except (cel_tree.CelSyntaxError, RecursionError):
            return None

    def _rename(self, name: str, path: list[str | int]) -> CelTree | None:
        match name, path:
            case "self", _:
                return CelName(cel_path_text("output", path))
            case "steps", [id, "output", "data", *rest]:
                return CelName(cel_path_text("ctx", [id, "output", *rest]))
            case "steps", [id, "output", "meta", *rest]:
                return CelName(cel_path_text("ctx", [id, "metadata", *rest]))
            case "steps", []:
                return CelName("ctx")
        return CelName(cel_path_text("ctx", [name, "output", *path])) if name in self._ids else None


_REFERENCE = re.compile(rf"""@@|@\{{({NAME})((?:\.\w[\w-]*|\[\d+\])*)\}}""")
_WHOLE = re.compile(rf"""@({NAME})((?:\.\w[\w-]*|\[\d+\])*)""")


class TokenGraphWriter:
    """Writes one definition. `given` are the inputs that nodes without a config have of themselves, by their ids."""

    def __init__(self, definition: Document, notes: FindingCollector, given: Document, as_ir: bool) -> None:
        self._definition, self._notes, self._given, self._as_ir = definition, notes, given, as_ir
        self._steps = {step["id"]: step for step in definition["steps"]}
        self._conditions = TokenGraphConditionWriter(set(self._steps), notes)
        self._edges: list[Document] = []
        handovers = list(handovers_of(definition))
        self._handovers = {id: config for id, config, _ in handovers}
        self._behind = {id for _, _, behind in handovers for id in behind}

    def document(self) -> Document:
        """The document."""
        limits = self._definition.get("limits", {})
        metadata = {name: self._definition.get(name) for name in ("name", "version", "description", "tags")}
        metadata["max_hops"] = limits.get("max_hops") if limits.get("max_hops") != HOPS_MAX else None
        metadata["max_fanout"] = limits.get("max_fanout") if limits.get("max_fanout") != FANOUT_MAX else None
        metadata |= {"deadline_s": limits.get("deadline"), "HasInfiniteLoopFlag": self._is_endless() or None}
        metadata |= {"allow": self._definition.get("allow")}
        late = {step["repeat"]["on_max"] for step in self._definition["steps"] if "repeat" in step and "on_max" in step["repeat"]}
        skipped = self._behind | {id for id in late if "do" in self._steps.get(id, {}) and id.rstrip("_").endswith("_timeout")}
        nodes = [self._node(step, joined_pointer("", "steps", index)) for index, step in enumerate(self._definition["steps"]) if step["id"] not in skipped]
        made: Document = {"nodes": nodes, "metadata": without_empty(metadata)}
        if self._as_ir:
            self._depend(nodes)
            return made
        return {"nodes": nodes, "edges": self._edges, "metadata": made["metadata"]}

    def _is_endless(self) -> bool:
        """Whether something in it is said to have no bound."""
        following = [step.get("next") for step in self._definition["steps"]]
        rules = any(isinstance(rule, dict) and rule.get("endless") for rules in following if isinstance(rules, list) for rule in rules)
        return rules or "max_hops" not in self._definition.get("limits", {})

    def _node(self, step: Document, pointer: str) -> Document:
        handover = self._handovers.get(step["id"])
        made: Document = {"id": step["id"]} | (self._work(step, pointer) if handover is None else {"type": MIGRATION_TYPE, "config": handover})
        made |= without_empty({"name": step.get("name"), "description": step.get("note"), "retry": _retry(step.get("retry", {}))})
        if "timeout" in step:
            made["timeout_ms"] = s_to_ms(step["timeout"])
        if isinstance(undo := step.get("undo"), dict):
            made["compensator"] = {"action": undo["tool"]} | without_empty({"timeout_sec": undo.get("timeout"), "retry": _retry(undo.get("retry", {}))})
            if undo.get("with") != "@self":
                made["compensator"]["config"] = self._value(undo.get("with"))
        loop, following = self._loop(step, pointer) if handover is None else ({}, [])
        made |= {"loop": loop} if loop else {}
        made |= self._following(step["id"], following, joined_pointer(pointer, "next"))
        incoming = [other for other in self._definition["steps"] if step["id"] in _named(other.get("next"))]
        if len(incoming) > 1 and step.get("join", "all") == "all":
            made["wait_for_all"] = True
        return made

    def _work(self, step: Document, pointer: str) -> Document:
        if "approve" in step:
            return self._human(step, step["approve"])
        if "http" in step and "with" not in step:
            return {"type": node_reader.HTTP_TYPE, "config": node_reader.http_node_config(step["http"], self._value)}
        if isinstance(openapi := step.get("openapi"), dict) and "with" not in step and set(openapi) <= set(node_reader.OPENAPI_FIELDS.values()):
            return {"type": node_reader.OPENAPI_ACTION, "config": node_reader.openapi_node_config(openapi, self._value)}
        given = step.get("with")
        has_own = given == self._given.get(step["id"], object())
        config = {} if has_own else self._mapping(given, pointer)
        match step:
            case {"tool": tool}:
                config = config if tool == step["id"] else {"action": tool, **config}
                return {"type": "task", **({"config": config} if config else {})}
            case {"task": {"type": type_name}} if len(step["task"]) == 1:
                return {"type": type_name, **({"config": config} if config else {})}
            case {"agent": dict(agent)}:
                if not all(isinstance(tool, str) for tool in agent.get("tools", ())):
                    why = "an agent of token_graph names its tools: operations of an API are not among them, but it may have openapi_action"
                    self._notes.error("unsayable", joined_pointer(pointer, "agent", "tools"), why)
                settings = {name: value for name, value in agent.items() if name not in ("prompt", "tools")}
                settings |= without_empty({"prompt": self._value(agent.get("prompt")), "available_tools": agent.get("tools")})
                return {"type": "agent", "agent_config": settings, **({"config": config} if config else {})}
        self._notes.error("unsayable", pointer, "a node of token_graph must call a tool, be work of some type or an agent, or ask people")
        return {}

    def _human(self, step: Document, approve: Document) -> Document:
        policy = {"approve": "auto_approve_after_timeout", "reject": None}.get(approve.get("on_timeout", "fail"), "fail")
        settings: Document = {
            "title": self._value(approve["title"]),
            "approvers": plain_value(approve.get("assignees", [])),
            "form": approve.get("form"),
        }
        if is_number(approve.get("timeout")):
            settings |= {"timeout_hours": whole_if_exact(approve["timeout"] / 3600), "escalation_policy": policy}
        shown = step.get("ui", {})
        settings["approval_ui_url"] = shown.get("approval_ui_url") if isinstance(shown, dict) else None
        return {"type": "human", "human_config": without_empty(settings)}

    def _loop(self, step: Document, pointer: str) -> tuple[Document, Any]:
        """A loop, and how the step goes on when that is done."""
        repeat, following = step.get("repeat"), step.get("next", [])
        if repeat is not None and "while" in repeat:
            loop = {"condition": self._conditions.write(repeat["while"], joined_pointer(pointer, "repeat", "while")), "max_iterations": repeat.get("max")}
            late = repeat.get("on_max", "fail")
            after = self._steps.get(late, {})
            loop["timeout_path"] = _listed(after["next"]) if after.get("do") == [] and "next" in after else [] if late == "go_on" else [late]
            return {"enabled": True, **without_empty({**loop, "delay_ms": s_to_ms(repeat.get("delay"))})}, following
        match following:
            case [{"when": when, "to": [head], "max": most, **others}, *rest]:
                late = _listed(others.get("on_max", []))
                if not late and rest and rest[0].get("when") == when:
                    late, rest = rest[0]["to"], rest[1:]
                condition = self._conditions.write(when, joined_pointer(pointer, "next", 0, "when"))
                loop = {"condition": condition, "max_iterations": most + 1, "loop_back_to": head, "timeout_path": late}
                return {"enabled": True, **without_empty(loop)}, rest[0]["to"] if len(rest) == 1 and "when" not in rest[0] else rest
        return {}, following

    def _following(self, id: str, following: Any, pointer: str) -> Document:
        """A node's successors as fields of the node; edges are collected."""
        match following:
            case {"choose": chosen, **others}:
                branch = {"enabled": True, "type": "agent_driven", "available_next_nodes": chosen, "default": _listed(others.get("default", []))}
                return {"branch": without_empty(branch)}
            case dict():
                rejected = _ports(following.get("rejected"))
                return self._static(id, _ports(following.get("approved"))) | ({"rejection_path": rejected} if rejected else {})
            case [dict(), *_]:
                return self._rules(id, following, pointer)
            case _:
                return self._static(id, _listed(following))

    def _static(self, id: str, targets: list[str]) -> Document:
        if self._as_ir:
            return {"dependents": targets} if targets else {}
        self._edges.extend({"from": id, "to": target} for target in targets)
        return {}

    def _rules(self, id: str, rules: list[Document], pointer: str) -> Document:
        conditions = [
            self._conditions.write(rule["when"], joined_pointer(pointer, index, "when")) if "when" in rule else None for index, rule in enumerate(rules)
        ]
        default: list[str] = next((rule["to"] for rule, condition in zip(rules, conditions, strict=True) if condition is None), [])
        held = [(condition, rule["to"]) for rule, condition in zip(rules, conditions, strict=True) if condition is not None]
        if self._as_ir or any(not targets for _, targets in held):
            made = [{"condition": condition, "next_nodes": targets} for condition, targets in held]
            return {"branch": {"enabled": True, "type": "conditional", "rules": made, **({"default": default} if default else {})}}
        self._edges.extend({"from": id, "to": target, "condition": condition} for condition, targets in held for target in targets)
        return self._static(id, default)

    def _depend(self, nodes: list[Document]) -> None:
        for node in nodes:
            before = [other["id"] for other in nodes if node["id"] in other.get("dependents", [])]
            if before:
                node["dependencies"] = before

    def _mapping(self, given: Any, pointer: str) -> Document:
        if not isinstance(given, dict) or not given or "action" in given:
            self._notes.error(
                "unsayable", joined_pointer(pointer, "with"), "the input of a node of token_graph must be a mapping of fields, or the output of the node before"
            )
            return {}
        return {name: self._value(value) for name, value in given.items()}

    def _value(self, value: Any) -> Any:
        """A template as this dialect writes it; what it has no words for stays, and is found out when it is read again."""
        match value:
            case str() if is_reference(value):
                found = _WHOLE.fullmatch(value)
                return self._reference(found[1], found[2]) or value if found else value
            case str():
                return _REFERENCE.sub(lambda found: "@" if found[0] == "@@" else f"${{{self._reference(found[1], found[2]) or found[0]}}}", value)
            case list():
                return [self._value(item) for item in value]
            case dict():
                return {name: self._value(item) for name, item in value.items()}
            case _:
                return value

    def _reference(self, name: str, path: str) -> str:
        return f"$inputs{path}" if name == "input" else f"$nodes.{name}{path}" if name in self._steps else ""


def _retry(retry: Document) -> Document:
    found = {"max_attempts": retry.get("max"), "backoff_ms": s_to_ms(retry.get("wait")), "multiplier": retry.get("factor")}
    return without_empty(found)


def _listed(targets: Any) -> list[str]:
    return list(targets) if isinstance(targets, list) else [targets] if targets else []


def _ports(value: Any) -> list[str]:
    return _listed(value.get("to") if isinstance(value, dict) else value)


def _named(following: Any) -> set[str]:
    """All steps that `next` names."""
    match following:
        case str():
            return {following}
        case list():
            return set().union(*map(_named, following))
        case {"choose": chosen, **others}:
            return _named(chosen) | _named(others.get("default"))
        case dict():
            return set().union(*(_named(value) for name, value in following.items() if name not in ("when", "max", "endless")))
    return set()


def from_definition(definition: dict[str, Any], as_ir: bool = False) -> WrittenDocument:
    """A definition as a document of this shape, as nodes and edges or, with `as_ir`, as nodes alone that say where they lead; where that can say all of it."""

    def write(whole: dict[str, Any], notes: FindingCollector) -> dict[str, Any]:
        first = TokenGraphWriter(whole, FindingCollector(whole), {step["id"]: step.get("with") for step in whole["steps"]}, as_ir).document()
        of_themselves = {step["id"]: step["with"] for step in to_definition(first).document["steps"] if "with" in step}
        return TokenGraphWriter(whole, notes, of_themselves, as_ir).document()

    return write_and_verify(definition, "token_graph", write, to_definition)
