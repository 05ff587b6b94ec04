"""Reads the steps of nested_steps as verbs, with the dialect's defaults and conditions.

A condition is true, false, ``{variable, equals}`` and the like, a name, or an expression such as ``result.exit_code == 0``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from perdure.code.durations import duration_seconds as seconds_of
from perdure.core.errors import BadValue
from perdure.definitions.format import model
from perdure.definitions.format.definition_findings import closest_name, joined_pointer
from perdure.dialects.cel_conversion import CelNameResolver, condition_from_cel
from perdure.dialects.cel_tree import CelSyntaxError
from perdure.dialects.foreign_document import (
    NATIVE_OPERATORS,
    OPERATORS_OF_MANY,
    PLAIN_OPERATORS,
    FindingCollector,
    ForeignFields,
    is_number,
    kind_of_value,
    ms_to_s,
    native_operator,
    refuse_unknown_operators,
    whole_if_exact,
    without_empty,
)
from perdure.dialects.nested_steps.document_variables import ListedStep, NestedStepsVariables
from perdure.dialects.reference_syntax import literal_value, reference_in_cel, whole_reference

STEPS_MAX = 50
BASH_DEFAULT_S = 120
BASH_MAX_S = 600
AWAIT_MS_MIN = 1000
PARALLEL_DEFAULT = 1
"""How many items of a loop run at a time."""


CONDITION_OPERATORS = {
    "equals": "eq",
    "notEquals": "neq",
    "not_equals": "neq",
    "greaterThan": "gt",
    "greater_than": "gt",
    "greaterThanOrEqual": "gte",
    "greater_than_or_equal": "gte",
    "lessThan": "lt",
    "less_than": "lt",
    "lessThanOrEqual": "lte",
    "less_than_or_equal": "lte",
    "startsWith": "starts_with",
    "endsWith": "ends_with",
    "isEmpty": "empty",
    "is_empty": "empty",
}
"""The names that this dialect has for operators, besides the native ones."""

CONDITION_GROUPS = {"all": "all", "and": "all", "any": "any", "or": "any"}

_CONDITION_NAME = re.compile(r"(!?)\s*(?:\{\{\s*([\w.\[\]'\"-]+)\s*\}\}|([\w.\[\]'\"-]+))")


class NestedStepsConditionReader:
    """Reads the conditions of one document."""

    def __init__(self, variables: NestedStepsVariables, notes: FindingCollector) -> None:
        self._variables, self._notes = variables, notes

    def read(self, given: Any, pointer: str) -> Any:
        """The condition that one of the document is."""
        match given:
            case bool():
                return given
            case str():
                return self._text(given, pointer)
            case dict():
                return self._mapping(ForeignFields(given, pointer, self._notes))
            case _:
                self._notes.error("wrong_type", pointer, f"expected true, false, {{variable, equals}} or an expression, found {kind_of_value(given)}")
                return False

    def _text(self, text: str, pointer: str) -> Any:
        if text.strip() in ("true", "false"):
            return text.strip() == "true"
        if found := _CONDITION_NAME.fullmatch(text.strip()):
            row = {"ref": self._ref(found[2] or found[3], pointer)}
            return {"not": row} if found[1] else row
        try:
            return condition_from_cel(text, CelNameResolver(lambda name, path: self._variables.meant(name, path, pointer)[:2], optional=True))
        except CelSyntaxError as wrong:
            self._notes.error("bad_expression", pointer, f"{text[:60]!r} is not a condition: {wrong}; write {{variable, equals}}")
            return False

    def _ref(self, text: str, pointer: str) -> str:
        """Reads a missing value as null in a condition."""
        return self._variables.items(text, pointer).removesuffix("?") + "?"

    def _mapping(self, fields: ForeignFields) -> Any:
        for name in ("not", *CONDITION_GROUPS):
            if fields.has(name) and not fields.has("variable", "name"):
                return self._group(fields, name)
        if not (variable := fields.text("variable", "name")):
            self._notes.error("missing_field", fields.at("variable"), "a condition looks at a variable: {variable, equals}")
            return False
        ref = self._ref(variable, fields.at("variable"))
        rows = [row for name, value in fields.value.items() if (row := self._row(ref, name, value, fields.at(name)))]
        refuse_unknown_operators(fields, {*CONDITION_OPERATORS, *NATIVE_OPERATORS}, ("variable", "name"))
        return {"all": rows} if len(rows) > 1 else rows[0] if rows else {"ref": ref}

    def _group(self, fields: ForeignFields, name: str) -> Any:
        for other in fields.value:
            if other != name:
                self._notes.error("unknown_operator", fields.at(other), f"{name!r} must be alone; move {other[:40]!r} into it")
        if name == "not":
            inside = self.read(fields.any(name), fields.at(name))
            return not inside if isinstance(inside, bool) else {"not": inside}
        parts = [self.read(one, joined_pointer(fields.at(name), index)) for index, one in enumerate(fields.listed(name))]
        return {CONDITION_GROUPS[name]: parts} if parts else True

    def _row(self, ref: str, name: str, value: Any, pointer: str) -> dict[str, Any]:
        """One comparison; empty if the name is that of no operator."""
        operator = native_operator(CONDITION_OPERATORS, name, value)
        if operator in OPERATORS_OF_MANY and isinstance(value, dict):
            inside = {
                native_operator(CONDITION_OPERATORS, str(one), right) or str(one): self._variables.value(right, joined_pointer(pointer, str(one)))
                for one, right in value.items()
            }
            return {"ref": ref, operator: inside}
        return {"ref": ref, operator: value if operator in PLAIN_OPERATORS else self._variables.value(value, pointer)} if operator else {}


BLOCK_FIELDS = {"conditional": ("then", "else", "steps"), "loop": ("steps",), "parallel": ("steps",)}
"""The fields with steps of each type that has some; those of a condition stand in `then`, or without it in `steps`."""
CONTINUE_VALUES = ("continue", "go_on", "ignore", "skip")
CONTENT_FIELDS = ("content", "message", "goal", "prompt")

Step = dict[str, Any]


class NestedStepsReader:
    """Reads the steps of one document. `steps_max` bounds loops that have no bound of their own."""

    def __init__(self, variables: NestedStepsVariables, notes: FindingCollector, steps_max: int) -> None:
        self._variables, self._notes, self._steps_max = variables, notes, steps_max
        self._conditions = NestedStepsConditionReader(variables, notes)
        self._types: dict[str, Callable[[ListedStep], Step]] = {
            "agent": self._agent,
            "agent_message": self._agent_message,
            "approval": self._approval,
            "bash": self._bash,
            "conditional": self._conditional,
            "loop": self._loop,
            "parallel": self._parallel,
            "subworkflow": self._subworkflow,
            "tool": self._tool,
        }

    def listed(self, steps: list[ListedStep]) -> list[Step]:
        """A list of steps, with what is set behind them."""
        return [made for one in steps for made in self._made(one)]

    def _made(self, one: ListedStep) -> list[Step]:
        """A step, and one that sets the variable that it stores, if it is one that is set."""
        step = one.step
        type_name = step.value.get("type")
        made: Step = {"id": one.called} | without_empty({"name": step.text("name"), "note": step.text("description")})
        if step.has("when"):
            made["when"] = self._conditions.read(step.any("when"), step.at("when"))
        if isinstance(type_name, str) and type_name in self._types:
            made |= self._types[type_name](one)
        else:
            made["fail"] = "this step has no type that is known"
            if isinstance(type_name, str) and type_name:
                near = closest_name(type_name, self._types)
                self._notes.error("unknown_type", step.at("type"), f"{type_name[:40]!r} is not a type of step; there are {', '.join(self._types)}", near)
        made |= self._safety(step)
        self._refuse_steps(one, BLOCK_FIELDS.get(str(type_name), ()))
        step.ignore("id", "type", "outputVariable", "then", "else", "steps")
        step.left()
        name = step.text("outputVariable")
        if not self._variables.is_set(name):
            return [made]
        return [made, {"id": self._variables.names.free(f"{one.called}_set"), "set": {name: whole_reference(one.called)}}]

    def _refuse_steps(self, one: ListedStep, known: tuple[str, ...]) -> None:
        """Reports steps in a place where none run."""
        for field in one.inside:
            if field not in known:
                where = f"steps belong in {' and '.join(known)} here" if known else f"steps belong in {', '.join(BLOCK_FIELDS)} only"
                self._notes.warning("unknown_field", one.step.at(field), f"{where}; these are ignored")
            elif field == "steps" and "then" in one.inside:
                self._notes.warning("said_twice", one.step.at(field), "'steps' means the same as 'then', which is used; remove one of them")

    def _safety(self, step: ForeignFields) -> Step:
        retry = step.any("retry")
        found: Step = {}
        if isinstance(retry, dict):
            inside = ForeignFields(retry, step.at("retry"), self._notes)
            most, wait_s = inside.whole("maxAttempts", "max_attempts", "attempts", "max", least=1), ms_to_s(inside.number("backoffMs", "delayMs", "backoff_ms"))
            found["retry"] = {"max": most, "wait": wait_s, "factor": inside.number("multiplier", "factor")}
            inside.left()
        elif most := step.whole("retry", "retries", "maxAttempts", least=1):
            found["retry"] = {"max": most}
        if found:
            found = without_empty({"retry": without_empty(found["retry"])})
        on_error = step.any("onError", "on_error")
        if step.flag("continueOnError") or on_error in CONTINUE_VALUES:
            found["on_error"] = "go_on"
        elif on_error not in (None, "fail", "stop"):
            self._notes.error("unknown_value", step.at(step.name_of("onError", "on_error")), f"expected 'fail' or 'continue', found {kind_of_value(on_error)}")
        return found

    def _timeout_s(self, step: ForeignFields) -> float | int | None:
        """How long a step may take: `timeoutMs`, or `timeout` in seconds or as text such as 10m."""
        if (found := ms_to_s(step.number("timeoutMs", "timeout_ms"))) is not None:
            return found
        given = step.any("timeout", "timeoutSeconds", "timeout_s")
        if given is None:
            return None
        try:
            return whole_if_exact(seconds_of(given))
        except (BadValue, OverflowError):
            self._notes.error("wrong_type", step.at(step.name_of("timeout", "timeoutSeconds", "timeout_s")), "expected seconds, or text such as '30s' or '10m'")
            return None

    def _bash(self, one: ListedStep) -> Step:
        return self._command(one.step, one.step.text("command"), one.step.at("command"))

    def _command(self, step: ForeignFields, command: str, pointer: str) -> Step:
        if not command.strip():
            self._notes.error("missing_field", pointer, "a bash step has a command")
        if name := self._variables.used(command):
            text = f'{name} is not filled in in a command; values reach a shell by the environment: env: {{VALUE: {name!r}}}, and "$VALUE" in the command'
            self._notes.warning("not_filled_in", pointer, text)
        timeout_s = self._timeout_s(step) or BASH_DEFAULT_S
        if timeout_s > BASH_MAX_S:
            self._notes.warning(
                "too_long", step.at(step.name_of("timeoutMs", "timeout_ms", "timeout")), f"a command has at most {BASH_MAX_S} s, not {timeout_s} s"
            )
            timeout_s = BASH_MAX_S
        env = {name: self._variables.value(value, step.at("env", name)) for name, value in step.mapping("env").items()}
        bash = command if step.flag("check", default=True) else {"command": command, "check": False}
        return {"bash": bash, "timeout": timeout_s} | without_empty({"env": env})

    def _tool(self, one: ListedStep) -> Step:
        step = one.step
        name = step.text("tool", "toolName")
        arguments = step.mapping("arguments", "args", "input")
        if name == "bash":
            command = arguments.get("command")
            return self._command(step, command if isinstance(command, str) else "", step.at("arguments", "command"))
        if not name:
            self._notes.error("missing_field", step.at("tool"), "a tool step names its tool")
        made: Step = {"tool": name} | without_empty({"with": self._variables.value(arguments, step.at("arguments"))})
        if timeout_s := self._timeout_s(step):
            made["timeout"] = timeout_s
        return made

    def _content(self, step: ForeignFields) -> str:
        content = step.text(*CONTENT_FIELDS)
        step.ignore(*CONTENT_FIELDS)
        if not content.strip():
            self._notes.error("missing_field", step.at("content"), f"this step needs content, message or goal; found {kind_of_value(content)}")
            return "?"
        return str(self._variables.value(content, step.at("content")))

    def _agent(self, one: ListedStep) -> Step:
        step = one.step
        agent: Step = {"prompt": self._content(step)}
        agent |= without_empty({"tools": step.texts("tools"), "model": step.text("model"), "system": step.text("system", "systemPrompt")})
        return {"agent": agent} | without_empty({"timeout": self._timeout_s(step)})

    def _agent_message(self, one: ListedStep) -> Step:
        step = one.step
        message: Step = {"content": self._content(step)}
        for name in ("interrupt", "await_response"):
            if name in step.value and not isinstance(step.value[name], bool):
                self._notes.error("wrong_type", step.at(name), f"expected true or false, found {kind_of_value(step.value[name])}")
            elif step.any(name) is not None:
                message[name] = step.any(name)
            step.ignore(name)
        if "await_timeout_ms" in step.value:
            waits_ms = step.any("await_timeout_ms")
            if not is_number(waits_ms) or waits_ms < AWAIT_MS_MIN:
                self._notes.error("wrong_type", step.at("await_timeout_ms"), f"expected at least {AWAIT_MS_MIN} milliseconds, found {kind_of_value(waits_ms)}")
            else:
                message["await_timeout_ms"] = waits_ms
        return {"agent_message": message} | without_empty({"timeout": self._timeout_s(step)})

    def _approval(self, one: ListedStep) -> Step:
        step = one.step
        asked = step.text("prompt", "message", "title", "content")
        approve: Step = {"title": self._variables.value(asked, step.at("prompt")) if asked else literal_value(f"Approve {one.called}?")}
        if step.has("details", "summary"):
            approve["details"] = self._variables.value(step.any("details", "summary"), step.at("details"))
        approve |= without_empty({"assignees": [literal_value(one) for one in step.texts("approvers", "assignees")], "form": step.mapping("form")})
        action = step.text("defaultAction", "default_action", "onTimeout")
        if timeout_s := self._timeout_s(step):
            approve["timeout"] = timeout_s
            if action in ("approve", "reject", "deny"):
                approve["on_timeout"] = "approve" if action == "approve" else "reject"
        if action not in ("", "approve", "reject", "deny", "fail"):
            self._notes.error("unknown_value", step.at("defaultAction"), f"expected 'approve' or 'deny', found {action[:40]!r}")
        return {"approve": approve}

    def _conditional(self, one: ListedStep) -> Step:
        step = one.step
        if "condition" not in step.value:
            self._notes.error("missing_field", step.at("condition"), "a conditional step has a condition")
        made: Step = {"if": self._conditions.read(step.value.get("condition", False), step.at("condition"))}
        step.ignore("condition")
        made["then"] = self.listed(one.inside.get("then", []) or one.inside.get("steps", []))
        if otherwise := one.inside.get("else", []):
            made["else"] = self.listed(otherwise)
        return made

    def _parallel(self, one: ListedStep) -> Step:
        branches = []
        for branch in one.inside.get("steps", []):
            made = self._made(branch)
            branches.append(made[0] if len(made) == 1 else {"id": self._variables.names.free(f"{branch.called}_all"), "do": made})
        if not branches:
            self._notes.error("missing_field", one.step.at("steps"), "a parallel step has steps")
            return {"do": []}
        at_once = one.step.whole("concurrency", "maxConcurrency", least=1)
        return {"parallel": {"steps": branches, "concurrency": at_once} if at_once else branches} | without_empty({"timeout": self._timeout_s(one.step)})

    def _subworkflow(self, one: ListedStep) -> Step:
        step = one.step
        name, version = step.text("slug", "workflowId", "workflow"), step.text("version")
        step.ignore("slug", "workflowId", "workflow")
        called = f"{name}@{version}" if version else name
        if not name or called.startswith("py:") or not re.fullmatch(model.CALL_PATTERN, called):
            text = f"expected the id or name of a workflow, without @, / and :, and a version such as 1.2.0 or ^2; found {called[:60]!r}"
            self._notes.error("bad_workflow", step.at(step.name_of("slug", "workflowId")), text)
            return {"fail": "this step names no workflow"}
        made: Step = {"call": called, "with": self._variables.value(step.mapping("inputs", "input", "variables"), step.at("inputs"))}
        if not step.flag("wait", default=True):
            made["wait"] = False
        return made | without_empty({"timeout": self._timeout_s(step)})

    def _loop(self, one: ListedStep) -> Step:
        step = one.step
        found = [name for name in ("items", "while", "until", "count") if name in step.value]
        if len(found) != 1:
            self._notes.error("one_of", step.pointer, f"a loop needs exactly one of items, while, until and count; found {' and '.join(found) or 'none'}")
        step.ignore("items", "while", "until", "count")
        most = step.whole("max", "maxIterations", least=1)
        match found[:1]:
            case ["items"]:
                made = self._over_items(one, most)
            case ["count"]:
                made = self._counted(one, most)
            case _:
                made = self._as_long_as(one, found[0] if found else "until", most or self._steps_max)
        if delay_s := ms_to_s(step.number("delayMs", "delay_ms")):
            if "repeat" in made:
                made["repeat"]["delay"] = delay_s
            else:
                self._notes.warning("unknown_field", step.at("delayMs"), "a delay between items is not supported and is ignored")
        return made | without_empty({"timeout": self._timeout_s(step)})

    def _body(self, one: ListedStep, items: dict[str, str]) -> list[Step]:
        self._variables.enter(items)
        body = self.listed(one.inside.get("steps", []))
        self._variables.leave()
        if not body:
            self._notes.error("missing_field", one.step.at("steps"), "a loop has steps")
        return body

    def _over_items(self, one: ListedStep, most: int | None) -> Step:
        step = one.step
        given = step.any("items")
        items = self._variables.items(given, step.at("items")) if isinstance(given, str) else self._variables.value(given, step.at("items"))
        if not isinstance(given, str | list):
            self._notes.error("wrong_type", step.at("items"), f"expected a list or the name of a variable, found {kind_of_value(given)}")
        each: Step = {"in": items, "concurrency": step.whole("concurrency", least=1) or PARALLEL_DEFAULT}
        named = {"item": "item", "index": "index"}
        for field, ours in (("as", "item"), ("indexAs", "index")):
            if name := step.text(field, *(("itemVariable", "variable") if field == "as" else ("indexVariable",))):
                called = self._variables.names.free(name) if not re.fullmatch(model.ID_PATTERN, name) or name in self._variables.names else name
                each["as" if field == "as" else "index"] = called
                named.pop(ours, None)
                named[name] = called
        if most:
            each["max"] = most
        on_error = step.text("onItemError")
        if on_error in ("skip", "null"):
            each["on_error"] = on_error
        elif on_error not in ("", "fail"):
            text = f"expected 'fail', 'skip' or 'null', found {on_error[:40]!r}"
            self._notes.error("unknown_value", step.at("onItemError"), text, closest_name(on_error, ("fail", "skip", "null")))
        return {"do": self._body(one, named), "each": each}

    def _counted(self, one: ListedStep, most: int | None) -> Step:
        step = one.step
        given = step.value["count"]
        body = self._body(one, {"index": "index"})
        if isinstance(given, str):
            if (found := self._variables.named(given, step.at("count"))) is None:
                return {"do": body, "when": False}
            name, path, _ = found
            again = {"expr": f"index + 1 >= {reference_in_cel(name, path)}"}
            return {"do": body, "when": {"ref": f"{whole_reference(name, path)}?", "gt": 0}, "repeat": {"until": again, "max": most or self._steps_max}}
        if not is_number(given) or given != int(given) or given < 0:
            self._notes.error("wrong_type", step.at("count"), f"expected a whole number from 0, found {kind_of_value(given)}")
            given = 0
        count = int(given)
        if most is not None and count > most:
            self._notes.error("over_max", step.at("count"), f"{count} iterations are more than its max of {most}")
        if not count:
            return {"do": body, "when": False}
        return {"do": body, "repeat": {"until": {"ref": "@index", "gte": count - 1}, "max": count}}

    def _as_long_as(self, one: ListedStep, which: str, most: int) -> Step:
        """Reads a loop. `while` is evaluated before the first iteration too, `until` only after each."""
        step = one.step
        condition = self._conditions.read(step.value.get(which, True), step.at(which))
        repeat: Step = {which: condition, "max": most}
        if step.text("onMax") in CONTINUE_VALUES:
            repeat["on_max"] = "go_on"
        body = self._body(one, {"index": "index"})
        return {"do": body, "when": condition, "repeat": repeat} if which == "while" else {"do": body, "repeat": repeat}
