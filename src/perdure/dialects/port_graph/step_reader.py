"""Reads the steps of port_graph: their work, by type and config, and ``nextSteps`` as port maps."""

from __future__ import annotations

from typing import Any

from perdure.code.approval_attributes import PRIORITIES
from perdure.definitions.format.definition_findings import closest_name
from perdure.dialects.foreign_document import FindingCollector, ForeignFields, StepNames, kind_of_value, ms_to_s, without_empty
from perdure.dialects.port_graph.brace_expressions import BraceExpressionReader

END_TARGET = "noop"
"""A target that ends the path, unless a step is called so."""

PORTS_BY_TYPE = {
    "condition": ("true", "false"),
    "approval": ("approved", "rejected"),
    "loop": ("loop", "done"),
}
PORT_ALIASES = {"approve": "approved", "reject": "rejected", "failure": "error", "failed": "error"}
APPROVAL_PORTS = ("timeout",)
SUBJECT = {"resourceType": "type", "resourceId": "id"}
"""The fields of what an approval is about, by the names that they have here."""
APPROVAL_DETAILS = ("details", "parameters", *SUBJECT, "priority", "dueDate")
"""Fields of an approval that are shown as its details where they are nothing else."""


class PortGraphRoutes:
    """Reads `nextSteps` of the steps of one document."""

    def __init__(self, names: StepNames, notes: FindingCollector) -> None:
        self._names, self._notes = names, notes

    def read(self, called: str, step: ForeignFields) -> dict[str, Any]:
        """Where a step leads, as its `next`; nothing if it leads nowhere."""
        following = step.inside("nextSteps") or ForeignFields({}, step.at("nextSteps"), self._notes)
        said = step.value.get("stepType", "action")
        own = PORTS_BY_TYPE.get(said, ("success",)) if isinstance(said, str) else ("success",)
        known = (*own, "error", *(APPROVAL_PORTS if said == "approval" else ()))
        found: dict[str, list[str]] = {}
        for name, target in following.value.items():
            following.ignore(name)
            port = PORT_ALIASES.get(name, name) if name not in known else name
            if port == "default":
                continue
            if port not in known:
                meant = closest_name(name, (*own, "failure", "default"))
                what = f"{said} has no port {name[:40]!r}; it has {', '.join(own)}, and failure and default" + (f"; did you mean {meant!r}?" if meant else "")
                self._notes.error("unknown_port", following.at(name), what, meant)
                continue
            found[port] = self._target(target, following.at(name))
        if "default" in following.value:
            rest = self._target(following.value["default"], following.at("default"))
            found = {port: found.get(port, rest) for port in own} | found
        if said == "loop" and not found.get("loop"):
            found = {"loop": [called]} | {port: target for port, target in found.items() if port != "loop"}
        return {"next": found} if found else {}

    def _target(self, target: Any, pointer: str) -> list[str]:
        if target is None or (target == END_TARGET and END_TARGET not in self._names) or target == "":
            return []
        if not isinstance(target, str):
            self._notes.error("wrong_type", pointer, f"expected the stepSlug of a step, or null, found {kind_of_value(target)}")
            return []
        if target not in self._names:
            meant = closest_name(target, self._names)
            what = f"{target[:60]!r} is not a step" + (f"; did you mean {meant!r}?" if meant else "; write null to end here")
            self._notes.error("unknown_step", pointer, what, meant)
            return []
        return [self._names[target]]


def targets_by_step(steps: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Where each step leads, by any port."""
    return {step["id"]: [target for targets in step.get("next", {}).values() for target in targets] for step in steps}


def reachable_steps(graph: dict[str, list[str]], start: list[str], without: str = "") -> set[str]:
    """All that is reached from `start`, itself included, on ways that do not pass by `without`."""
    found, waiting = set[str](), [one for one in start if one != without]
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting.extend(target for target in graph.get(one, ()) if target != without)
    return found


def loop_body(graph: dict[str, list[str]], head: str, start: list[str]) -> set[str]:
    """The steps of a loop: those between its port `loop` and its next tick."""
    before: dict[str, list[str]] = {}
    for source, targets in graph.items():
        for target in targets:
            before.setdefault(target, []).append(source)
    return reachable_steps(graph, start, head) & reachable_steps(before, before.get(head, []), head)


def wire_failures_back(steps: list[dict[str, Any]]) -> None:
    """Leads failures in the body of a loop that goes on when one fails back to it, the innermost of several."""
    graph = targets_by_step(steps)
    loops = [step for step in steps if "loop" in step and step.get("ui", {}).get("continueOnError")]
    bodies = {step["id"]: loop_body(graph, step["id"], step["next"]["loop"]) for step in loops}
    for head, inside in sorted(bodies.items(), key=lambda pair: len(pair[1])):
        for step in steps:
            if step["id"] in inside and "loop" not in step and "error" not in step.get("next", {}):
                step["next"] = {**step.get("next", {}), "error": [head]}


STEP_TYPES = ("start", "trigger", "noop", "action", "condition", "approval", "llm", "loop", "output")
DOES_NOTHING = ("start", "trigger", "noop")
TIMEOUTS = {"fail": "fail", "reject": "reject", "approve": "approve", "rejected": "reject", "approved": "approve"}
LLM_FIELDS = {
    **{name: name for name in ("model", "prompt", "system", "messages", "schema", "temperature", "max_tokens", "repairs")},
    "userPrompt": "prompt",
    "systemPrompt": "system",
    "outputSchema": "schema",
    "maxTokens": "max_tokens",
}
"""The fields of a step that asks a model, and what they are called in a definition."""

LLM_ANSWER_STATE = {"answer": "@self.text"}
"""The text answer of a model, in the form of this dialect."""


def read_retry(policy: ForeignFields) -> dict[str, Any]:
    """How often and when to try again: so many times more, each wait twice as long as the one before."""
    more = policy.whole("maxRetries")
    tries = {
        "max": (more + 1) if more is not None else policy.whole("maxAttempts", least=1) or 1,
        "wait": ms_to_s(policy.number("backoffMs", "initialBackoffMs")),
    }
    policy.left()
    return {**tries, "factor": 2} if tries["wait"] and tries["max"] != 1 else {"max": tries["max"]}


class PortGraphStepReader:
    """Reads the steps of one document. `inputs` and `triggers` are what the step that starts has said."""

    def __init__(self, texts: BraceExpressionReader, notes: FindingCollector) -> None:
        self._texts, self._notes = texts, notes
        self.inputs: dict[str, Any] = {}
        self.triggers: list[dict[str, Any]] = []

    def step(self, called: str, step: ForeignFields) -> dict[str, Any]:
        """A step, without where it leads."""
        said = step.text("stepType", default="action")
        config = step.inside("config") or ForeignFields({}, step.at("config"), self._notes)
        note = step.text("description") or config.text("description")
        name = step.text("name")
        read: dict[str, Any] = {"id": called} | without_empty({"name": "" if name == called else name, "note": note})
        match said:
            case "condition":
                read |= self._condition(config, called)
            case "approval":
                read |= self._approval(config, called, read.get("name") or called)
            case "llm":
                read |= self._llm(config, called)
            case "loop":
                read |= self._loop(config, called)
            case "output":
                read |= self._output(config, called)
            case "start" | "trigger" | "noop":
                read |= self._nothing(said, config)
            case _:
                read |= self._action(config, called)
        step.ignore("order", "config", "nextSteps", "organizationId", "wfDefinitionId", "metadata", "inputMapping", "outputMapping", "_id", "_creationTime")
        config.left()
        return read

    def _safety(self, config: ForeignFields) -> dict[str, Any]:
        """Reads the retry policy and the timeout of the step."""
        found: dict[str, Any] = {}
        if policy := config.inside("retryPolicy"):
            found["retry"] = read_retry(policy)
        if (timeout := ms_to_s(config.number("timeout", "timeoutMs"))) is not None and timeout > 0:
            found["timeout"] = timeout
        return found

    def _action(self, config: ForeignFields, called: str) -> dict[str, Any]:
        tool, safety = config.text("type"), self._safety(config)
        if not tool.strip():
            self._notes.error("missing_field", config.at("type"), "an action needs type, which names its tool")
        if tool == "set_variables":
            return self._set(config, called)
        given: Any = config.any("parameters")
        if given is None:
            given = {name: value for name, value in config.value.items() if name not in ("type", "retryPolicy", "timeout", "timeoutMs", "description")}
            config.ignore(*given)
        where = config.at("parameters") if config.has("parameters") else config.pointer
        return {"tool": tool or "unknown"} | ({"with": self._texts.value(given, where, called)} if given else {}) | safety

    def _set(self, config: ForeignFields, called: str) -> dict[str, Any]:
        parameters = config.inside("parameters") or config
        found: dict[str, Any] = {}
        given = parameters.any("variables")
        if isinstance(given, dict):
            given = [{"name": name, "value": value} for name, value in given.items()]
            where = [parameters.at("variables", one["name"]) for one in given]
        else:
            where = [parameters.at("variables", index, "value") for index in range(len(parameters.listed("variables")))]
            given = parameters.listed("variables")
        for one, pointer in zip(given, where, strict=True):
            name = one.get("name") if isinstance(one, dict) else None
            if not isinstance(name, str) or not name:
                self._notes.error("wrong_type", pointer, f"expected {{name, value}}, found {kind_of_value(one)}")
                continue
            if one.get("secure"):
                what = f"{name[:60]!r} is to be kept as a secret, which steps can't do: keep it where secrets are kept, steps have it as {{{{ secrets.NAME }}}}"
                self._notes.error("secret_set", pointer, what)
                continue
            before = len(self._texts.seen)
            found[name] = self._texts.value(one.get("value"), pointer, called)
            for seen in self._texts.seen[before:]:
                if seen.name in found and seen.name != name:
                    self._notes.warning(
                        "set_at_once", pointer, f"{seen.name!r} is set by this step itself and has no value here yet; set it in an earlier step"
                    )
        if parameters is not config:
            parameters.left()
        return {"set": found}

    def _condition(self, config: ForeignFields, called: str) -> dict[str, Any]:
        expression = config.any("expression", "condition")
        if isinstance(expression, bool):
            return {"test": expression}
        if not isinstance(expression, str) or not expression.strip():
            self._notes.error("missing_field", config.at("expression"), f"a condition has an expression, found {kind_of_value(expression)}")
            return {"test": False}
        return {"test": self._texts.condition(expression, config.at(config.name_of("expression", "condition")), called)}

    def _approval(self, config: ForeignFields, called: str, title: str) -> dict[str, Any]:
        found: dict[str, Any] = {"title": self._texts.value(config.text("title", "message") or title, config.at("title"), called)}
        people = config.texts("assignees", "approvers", "approverMemberIds") + ([one] if (one := config.text("approverMemberId", "approver")) else [])
        found |= without_empty({"assignees": self._texts.value(people, config.at("assignees"), called), "form": config.mapping("form", "formSchema")})
        if (quorum := config.whole("quorum", "requiredApprovals", least=1)) is not None:
            found["quorum"] = quorum
        if (timeout := ms_to_s(config.number("timeout", "timeoutMs"))) is not None and timeout > 0:
            found["timeout"] = timeout
        if (late := config.text("onTimeout")) in TIMEOUTS and "timeout" in found:
            found["on_timeout"] = TIMEOUTS[late]
        elif late in TIMEOUTS:
            self._notes.warning("misplaced", config.at("onTimeout"), "it has no effect without a timeout and is ignored")
        elif late:
            self._notes.error("unknown_value", config.at("onTimeout"), f"expected fail, approve or reject, found {late[:40]!r}")
        shown = {name: value for name in APPROVAL_DETAILS if (value := config.any(name)) is not None}
        about = {said: shown[name] for name, said in SUBJECT.items() if isinstance(shown.get(name), str) and shown[name]}
        if about.keys() == set(SUBJECT.values()):
            found["resource"] = self._texts.value(about, config.pointer, called)
            shown = {name: value for name, value in shown.items() if name not in SUBJECT}
        priority = "normal" if shown.get("priority") == "medium" else shown.get("priority")
        if isinstance(priority, str) and priority in PRIORITIES:
            found["priority"] = priority
            del shown["priority"]
        for name, said in (("route_hint", "routeHint"), ("deep_link", "deeplink")):
            if text := config.text(said):
                found[name] = self._texts.value(text, config.at(said), called)
        if shown:
            found["details"] = self._texts.value(shown, config.pointer, called)
        return {"approve": found}

    def _llm(self, config: ForeignFields, called: str) -> dict[str, Any]:
        safety, found = self._safety(config), dict[str, Any]()
        for name, value in config.value.items():
            if name not in LLM_FIELDS or value is None:
                continue
            plain = name in ("schema", "outputSchema")
            config.ignore(name)
            if plain and not isinstance(value, dict):
                self._notes.error("wrong_type", config.at(name), f"expected a JSON Schema, found {kind_of_value(value)}")
                continue
            if name == "model" and not (isinstance(value, str) and value.strip()):
                self._notes.error("wrong_type", config.at(name), f"expected the name of a model, found {kind_of_value(value)}")
                continue
            found[LLM_FIELDS[name]] = value if plain else self._texts.value(value, config.at(name), called)
        return {"llm": found} | ({} if "schema" in found else {"transform": dict(LLM_ANSWER_STATE)}) | safety

    def _loop(self, config: ForeignFields, called: str) -> dict[str, Any]:
        items = config.any("items", "itemsExpression")
        if items is None:
            self._notes.warning("missing_field", config.at("items"), "no items are given, so {{lastOutput.data}} is used, the data of the step before")
            items = "{{lastOutput.data}}"
        found: dict[str, Any] = {"items": self._texts.value(items, config.at(config.name_of("items", "itemsExpression")), called)}
        if isinstance(batch := config.any("batchSize", "batch"), str):
            found["batch"] = self._texts.value(batch, config.at(config.name_of("batchSize", "batch")), called)
        elif (size := config.whole("batchSize", "batch", least=1)) is not None and size != 1:
            found["batch"] = size
        if (most := config.whole("maxIterations", least=1)) is not None:
            found["max"] = most
        found |= without_empty({"as": config.text("itemVariable"), "index": config.text("indexVariable")})
        return {"loop": found} | ({"ui": {"continueOnError": True}} if config.flag("continueOnError") else {})

    def _output(self, config: ForeignFields, called: str) -> dict[str, Any]:
        """The end of the execution, with what its mapping gives; without one, with what came last."""
        name = config.name_of("outputMapping", "mapping", "output")
        given = config.any("outputMapping", "mapping", "output")
        return {"return": "@last" if given is None else self._texts.value(given, config.at(name), called)}

    def _nothing(self, said: str, config: ForeignFields) -> dict[str, Any]:
        """A step that does nothing. The one that starts may say what the input is, and what starts it."""
        schema = config.inside("inputSchema", "input")
        if schema:
            required = schema.texts("required")
            properties = {name: value if isinstance(value, dict) else {} for name, value in schema.mapping("properties").items()}
            self.inputs |= {name: value if name in required or "default" in value else {**value, "default": None} for name, value in properties.items()}
        match config.value.get("type"):
            case "schedule":
                cron = config.text("schedule", "cron")
                self.triggers.append({"schedule": without_empty({"cron": cron, "timezone": config.text("timezone")})} if cron else {"manual": {}})
            case "manual":
                self.triggers.append({"manual": {}})
        config.ignore("type", "context", "data", "event", "eventType")
        return {"do": []} | ({} if said == "start" else {"ui": {"stepType": said}})
