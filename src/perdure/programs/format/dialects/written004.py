"""A definition as a document of seed 004: nodes and edges, or its IR, whose nodes say their dependencies, dependents and branches."""

from __future__ import annotations

import re
from typing import Any

from perdure.programs.format.dialects import http004
from perdure.programs.format.dialects.handover004 import MIGRATION, written_from
from perdure.programs.format.dialects.reading import Notes, is_number, milliseconds, tidy, without_nothing
from perdure.programs.format.dialects.routes004 import FANOUT_MAX, HOPS_MAX
from perdure.programs.format.dialects.spelling import NAME, is_reference, plain
from perdure.programs.format.dialects.written_conditions004 import Conditions
from perdure.programs.format.finding import joined

_REFERENCE = re.compile(rf"""@@|@\{{({NAME})((?:\.\w[\w-]*|\[\d+\])*)\}}""")
_WHOLE = re.compile(rf"""@({NAME})((?:\.\w[\w-]*|\[\d+\])*)""")

Document = dict[str, Any]


class Writer:
    """Writes one definition. `given` are the inputs that nodes without a config have of themselves, by their ids."""

    def __init__(self, definition: Document, notes: Notes, given: Document, as_ir: bool) -> None:
        self._definition, self._notes, self._given, self._as_ir = definition, notes, given, as_ir
        self._steps = {step["id"]: step for step in definition["steps"]}
        self._conditions = Conditions(set(self._steps), notes)
        self._edges: list[Document] = []
        handovers = list(written_from(definition))
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
        nodes = [self._node(step, joined("", "steps", index)) for index, step in enumerate(self._definition["steps"]) if step["id"] not in skipped]
        made: Document = {"nodes": nodes, "metadata": without_nothing(metadata)}
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
        made: Document = {"id": step["id"]} | (self._work(step, pointer) if handover is None else {"type": MIGRATION, "config": handover})
        made |= without_nothing({"name": step.get("name"), "description": step.get("note"), "retry": _retry(step.get("retry", {}))})
        if "timeout" in step:
            made["timeout_ms"] = milliseconds(step["timeout"])
        if isinstance(undo := step.get("undo"), dict):
            made["compensator"] = {"action": undo["tool"]} | without_nothing({"timeout_sec": undo.get("timeout"), "retry": _retry(undo.get("retry", {}))})
            if undo.get("with") != "@self":
                made["compensator"]["config"] = self._value(undo.get("with"))
        loop, following = self._loop(step, pointer) if handover is None else ({}, [])
        made |= {"loop": loop} if loop else {}
        made |= self._following(step["id"], following, joined(pointer, "next"))
        incoming = [other for other in self._definition["steps"] if step["id"] in _named(other.get("next"))]
        if len(incoming) > 1 and step.get("join", "all") == "all":
            made["wait_for_all"] = True
        return made

    def _work(self, step: Document, pointer: str) -> Document:
        if "approve" in step:
            return self._human(step, step["approve"])
        if "http" in step and "with" not in step:
            return {"type": http004.HTTP, "config": http004.config_of(step["http"], self._value)}
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
                settings = {name: value for name, value in agent.items() if name not in ("prompt", "tools")}
                settings |= without_nothing({"prompt": self._value(agent.get("prompt")), "available_tools": agent.get("tools")})
                return {"type": "agent", "agent_config": settings, **({"config": config} if config else {})}
        self._notes.error("unsayable", pointer, "a node of seed 004 calls a tool, is work of some type, an agent, or asks people")
        return {}

    def _human(self, step: Document, approve: Document) -> Document:
        policy = {"approve": "auto_approve_after_timeout", "reject": None}.get(approve.get("on_timeout", "fail"), "fail")
        settings: Document = {"title": self._value(approve["title"]), "approvers": plain(approve.get("assignees", [])), "form": approve.get("form")}
        if is_number(approve.get("timeout")):
            settings |= {"timeout_hours": tidy(approve["timeout"] / 3600), "escalation_policy": policy}
        shown = step.get("ui", {})
        settings["approval_ui_url"] = shown.get("approval_ui_url") if isinstance(shown, dict) else None
        return {"type": "human", "human_config": without_nothing(settings)}

    def _loop(self, step: Document, pointer: str) -> tuple[Document, Any]:
        """A loop, and how the step goes on when that is done."""
        repeat, following = step.get("repeat"), step.get("next", [])
        if repeat is not None and "while" in repeat:
            loop = {"condition": self._conditions.write(repeat["while"], joined(pointer, "repeat", "while")), "max_iterations": repeat.get("max")}
            late = repeat.get("on_max", "fail")
            after = self._steps.get(late, {})
            loop["timeout_path"] = _listed(after["next"]) if after.get("do") == [] and "next" in after else [] if late == "go_on" else [late]
            return {"enabled": True, **without_nothing({**loop, "delay_ms": milliseconds(repeat.get("delay"))})}, following
        match following:
            case [{"when": when, "to": [head], "max": most, **others}, *rest]:
                late = _listed(others.get("on_max", []))
                if not late and rest and rest[0].get("when") == when:
                    late, rest = rest[0]["to"], rest[1:]
                condition = self._conditions.write(when, joined(pointer, "next", 0, "when"))
                loop = {"condition": condition, "max_iterations": most + 1, "loop_back_to": head, "timeout_path": late}
                return {"enabled": True, **without_nothing(loop)}, rest[0]["to"] if len(rest) == 1 and "when" not in rest[0] else rest
        return {}, following

    def _following(self, id: str, following: Any, pointer: str) -> Document:
        """Where a node leads, as what stands in it; edges are noted."""
        match following:
            case {"choose": chosen, **others}:
                branch = {"enabled": True, "type": "agent_driven", "available_next_nodes": chosen, "default": _listed(others.get("default", []))}
                return {"branch": without_nothing(branch)}
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
        conditions = [self._conditions.write(rule["when"], joined(pointer, index, "when")) if "when" in rule else None for index, rule in enumerate(rules)]
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
            self._notes.error("unsayable", joined(pointer, "with"), "the input of a node of seed 004 is a config of some fields, or what comes before it")
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
    found = {"max_attempts": retry.get("max"), "backoff_ms": milliseconds(retry.get("wait")), "multiplier": retry.get("factor")}
    return without_nothing(found)


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
