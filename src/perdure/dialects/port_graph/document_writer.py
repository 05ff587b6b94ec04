"""Writes a definition that is ordered by ports as a document of port_graph."""

from __future__ import annotations

from typing import Any

from perdure.definitions.format.definition_findings import joined_pointer
from perdure.dialects.foreign_document import FindingCollector, WrittenDocument, s_to_ms, without_empty
from perdure.dialects.port_graph.brace_expressions import InexpressibleError, write_condition, write_text
from perdure.dialects.port_graph.document_reader import PORT_GRAPH_HOPS_MAX
from perdure.dialects.port_graph.document_warnings import INJECTED_INPUT
from perdure.dialects.port_graph.step_reader import APPROVAL_DETAILS, END_TARGET, LLM_ANSWER_STATE, SUBJECT

STEP_FIELDS = frozenset(("id", "name", "note", "next", "retry", "timeout", "with", "ui"))
HEAD_FIELDS = frozenset(
    ("perdure", "dialect", "name", "version", "description", "tags", "order", "steps", "vars", "input", "retry", "limits", "triggers", "ui")
)
LLM_FIELDS = {"prompt": "userPrompt", "system": "systemPrompt", "schema": "outputSchema", "max_tokens": "maxTokens"}


def from_definition(definition: dict[str, Any]) -> WrittenDocument:
    """Writes a definition as a document of this dialect, or reports what the dialect can not express."""
    notes = FindingCollector(definition)
    if definition.get("order") != "ports":
        notes.error("not_in_dialect", "/order", "this dialect orders steps by ports only")
        return WrittenDocument(None, tuple(notes.findings))
    for name in definition.keys() - HEAD_FIELDS:
        notes.error("not_in_dialect", joined_pointer("", name), f"this dialect cannot express {name!r}")
    writer = _Writer(definition, notes)
    config = writer.config()
    steps = [writer.step(index, step) for index, step in enumerate(definition.get("steps", []))]
    described = without_empty({name: definition.get(name) for name in ("name", "description", "version", "tags")})
    ui = definition.get("ui") or {}
    shown = {name: ui[name] for name in ("enabled", "status") if name in ui}
    head = {**described, **shown, **({"config": config} if config else {})}
    given = writer.given()
    document = {"workflowConfig": head, "stepsConfig": _numbered(steps), **given} if writer.is_inline else {**head, "steps": steps}
    failed = any(finding.severity == "error" for finding in notes.findings)
    return WrittenDocument(None if failed else document, tuple(notes.findings))


def _numbered(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"order": number, **step} for number, step in enumerate(steps, 1)]


class _Writer:
    """Writes the steps of one definition."""

    def __init__(self, definition: dict[str, Any], notes: FindingCollector) -> None:
        self._definition, self._notes = definition, notes
        self.is_inline = (definition.get("ui") or {}).get("shape") != "steps"
        self._variables = definition.get("vars") or {}
        self._injected = INJECTED_INPUT if self.is_inline and isinstance(self._variables.get(INJECTED_INPUT), str) else ""
        steps = definition.get("steps", [])
        self._end = None if any(step.get("id") == END_TARGET for step in steps) else END_TARGET
        self._led_back = {step["id"] for step in steps if "loop" in step and (step.get("ui") or {}).get("continueOnError")}

    def given(self) -> dict[str, Any]:
        """The fields with which an inline document is run: a variable that every run is given, and the input, where no first step declares the inputs."""
        if not self._injected:
            return self._input()
        return self._input() | {self._injected: self._value(self._variables[self._injected], joined_pointer("/vars", self._injected))}

    def _input(self) -> dict[str, Any]:
        inputs = self._definition.get("input") or {}
        first: dict[str, Any] = next(iter(self._definition.get("steps", [])), {})
        if not inputs or ("do" in first and not first["do"]):
            return {}
        if not self.is_inline or any(schema.keys() != {"default"} for schema in inputs.values()):
            self._notes.error("not_in_dialect", "/input", "this dialect declares inputs in a first step without action; add one")
        return {"input": {name: schema.get("default") for name, schema in inputs.items()}}

    def config(self) -> dict[str, Any]:
        """Writes the timeout, the retry policy and the variables of the whole workflow."""
        limits = dict(self._definition.get("limits") or {})
        deadline, hops = limits.pop("deadline", None), limits.pop("max_hops", None)
        hops = None if hops == PORT_GRAPH_HOPS_MAX else hops  # the default of the dialect
        for name in limits:
            self._notes.error("not_in_dialect", joined_pointer("/limits", name), f"this dialect cannot express {name!r}")
        variables = self._value({name: value for name, value in self._variables.items() if name != self._injected}, "/vars")
        retry = self._definition.get("retry") or ({} if self._definition.get("dialect") == "port_graph" else {"max": 3, "wait": 1})
        return without_empty(
            {"timeout": s_to_ms(deadline), "retryPolicy": self._retry(retry, "/retry"), "maxHops": hops, "variables": variables},
        )

    def _retry(self, retry: dict[str, Any], pointer: str) -> dict[str, Any]:
        for name in retry.keys() - {"max", "wait", "factor"}:
            self._notes.error("not_in_dialect", joined_pointer(pointer, name), f"this dialect cannot express {name!r}")
        if retry.get("factor", 2) != 2:
            self._notes.error("not_in_dialect", joined_pointer(pointer, "factor"), "in this dialect each wait is twice as long as the one before")
        if retry.get("max", 1) == 1:
            return {}
        return {"maxRetries": retry["max"] - 1} | ({"backoffMs": s_to_ms(retry["wait"])} if "wait" in retry else {})

    def _value(self, value: Any, pointer: str) -> Any:
        match value:
            case str():
                try:
                    return write_text(value)
                except InexpressibleError as unsaid:
                    self._notes.error("not_in_dialect", pointer, f"this dialect cannot express it: {unsaid}")
                    return value
            case list():
                return [self._value(item, joined_pointer(pointer, index)) for index, item in enumerate(value)]
            case dict():
                return {key: self._value(item, joined_pointer(pointer, key)) for key, item in value.items()}
            case _:
                return value

    def step(self, index: int, step: dict[str, Any]) -> dict[str, Any]:
        """A step."""
        pointer = joined_pointer("/steps", index)
        verb = next((name for name in ("do", "tool", "set", "test", "approve", "llm", "loop", "return") if name in step), "")
        usual = {"transform"} if verb == "llm" and step.get("transform") == LLM_ANSWER_STATE else set[str]()
        for name in step.keys() - STEP_FIELDS - {verb} - usual:
            self._notes.error("not_in_dialect", joined_pointer(pointer, name), f"this dialect cannot express {name!r}")
        said, config = self._verb(verb, step, index, pointer)
        if note := step.get("note"):
            config["description"] = note
        if retry := step.get("retry"):
            config["retryPolicy"] = self._retry(retry, joined_pointer(pointer, "retry")) or {"maxRetries": 0}
        if "timeout" in step:
            config["timeout"] = s_to_ms(step["timeout"])
        following = self._next(step, verb, pointer)
        return {"stepSlug": step["id"], "name": step.get("name", step["id"]), "stepType": said, "config": config, "nextSteps": following}

    def _verb(self, verb: str, step: dict[str, Any], index: int, pointer: str) -> tuple[str, dict[str, Any]]:
        here = joined_pointer(pointer, verb)
        value = step.get(verb)
        match verb:
            case "do" if not value:
                said = (step.get("ui") or {}).get("stepType", "noop" if index else "start")
                return said, {} if index else self._start()
            case "tool":
                given = self._value(step.get("with"), joined_pointer(pointer, "with"))
                return "action", {"type": value} | ({} if given is None else {"parameters": given})
            case "set":
                variables = [{"name": name, "value": self._value(item, joined_pointer(here, name))} for name, item in (value or {}).items()]
                return "action", {"type": "set_variables", "parameters": {"variables": variables}}
            case "test":
                return "condition", {"expression": value if isinstance(value, bool) else self._condition(value, here)}
            case "approve":
                return "approval", self._approval(value or {}, here)
            case "llm":
                return "llm", {
                    LLM_FIELDS.get(name, name): item if name == "schema" else self._value(item, joined_pointer(here, name))
                    for name, item in (value or {}).items()
                }
            case "loop":
                return "loop", self._loop(step, value, here)
            case "return":
                return "output", {} if value == "@last" else {"outputMapping": self._value(value, here)}
        self._notes.error("not_in_dialect", pointer, "this dialect has no type of step for it")
        return "noop", {}

    def _start(self) -> dict[str, Any]:
        """The configuration of the first step, which holds for the whole workflow: its input, and its triggers."""
        config: dict[str, Any] = {}
        if inputs := self._definition.get("input"):
            required = [name for name, schema in inputs.items() if "default" not in schema]
            config["inputSchema"] = {"properties": inputs} | ({"required": required} if required else {})
        for index, trigger in enumerate(self._definition.get("triggers") or []):
            match trigger:
                case {"schedule": dict(schedule)} if not schedule.keys() - {"cron", "timezone"} and not config.get("type"):
                    config |= {"type": "schedule", "schedule": schedule.get("cron")} | {name: schedule[name] for name in schedule if name == "timezone"}
                case {"manual": {}} if not config.get("type"):
                    config["type"] = "manual"
                case _:
                    self._notes.error("not_in_dialect", joined_pointer("/triggers", index), "this dialect cannot express this trigger")
        return config

    def _condition(self, value: Any, pointer: str) -> str:
        try:
            return write_condition(value)
        except InexpressibleError as unsaid:
            self._notes.error("not_in_dialect", pointer, f"this dialect cannot express it: {unsaid}")
            return "false"

    def _approval(self, value: dict[str, Any], pointer: str) -> dict[str, Any]:
        named = {"title": "title", "assignees": "assignees", "form": "form", "quorum": "quorum", "on_timeout": "onTimeout"}
        named |= {"priority": "priority", "route_hint": "routeHint", "deep_link": "deeplink"}
        for name in value.keys() - named.keys() - {"timeout", "details", "resource"}:
            self._notes.error("not_in_dialect", joined_pointer(pointer, name), f"this dialect cannot express {name!r}")
        config = {
            said: value[name] if name == "form" else self._value(value[name], joined_pointer(pointer, name)) for name, said in named.items() if name in value
        }
        if "timeout" in value:
            config["timeout"] = s_to_ms(value["timeout"])
        about = self._value(value.get("resource"), joined_pointer(pointer, "resource")) or {}
        config |= {name: about[said] for name, said in SUBJECT.items() if said in about}
        details = self._value(value.get("details"), joined_pointer(pointer, "details"))
        if details is not None:
            is_plain = isinstance(details, dict) and details.keys() <= set(APPROVAL_DETAILS) - config.keys()
            is_plain = is_plain and not all(isinstance(details.get(name), str) for name in SUBJECT)  # which would be read as a resource
            config |= details if is_plain else {"details": details}
        return config

    def _loop(self, step: dict[str, Any], value: Any, pointer: str) -> dict[str, Any]:
        loop = value if isinstance(value, dict) else {"items": value}
        named = {"batch": "batchSize", "max": "maxIterations", "as": "itemVariable", "index": "indexVariable"}
        config = {"items": self._value(loop.get("items"), joined_pointer(pointer, "items"))}
        config |= {said: self._value(loop[name], joined_pointer(pointer, name)) for name, said in named.items() if name in loop}
        return config | ({"continueOnError": True} if step["id"] in self._led_back else {})

    def _next(self, step: dict[str, Any], verb: str, pointer: str) -> dict[str, Any]:
        following, found = step.get("next"), dict[str, Any]()
        if isinstance(following, str | list):
            following = {"success": following}
        for port, said in (following or {}).items():
            here = joined_pointer(pointer, "next", port)
            more = set(said) - {"to"} if isinstance(said, dict) else set()
            targets = said.get("to", []) if isinstance(said, dict) else said
            targets = [targets] if isinstance(targets, str) else targets or []
            if more or len(targets) > 1 or not all(isinstance(target, str) for target in targets) or port in ("choose", "skipped"):
                self._notes.error("not_in_dialect", here, "in this dialect a port leads to one step, without a condition")
                continue
            target = targets[0] if targets else self._end
            if (port == "loop" and target == step["id"]) or (port == "error" and target in self._led_back):
                continue
            found["failure" if port == "error" else port] = target
        return found
