"""What the steps of seed 001 do, as verbs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from perdure.core.errors import BadValue
from perdure.programs.code.durations import seconds as seconds_of
from perdure.programs.format import model
from perdure.programs.format.dialects.conditions001 import Conditions
from perdure.programs.format.dialects.defaults001 import AT_ONCE, AWAIT_MS_MIN, BASH_MAX_S, BASH_S
from perdure.programs.format.dialects.listing001 import Listed
from perdure.programs.format.dialects.reading import Fields, Notes, is_number, kind, seconds, tidy, without_nothing
from perdure.programs.format.dialects.spelling import in_cel, literal, whole
from perdure.programs.format.dialects.variables001 import Variables
from perdure.programs.format.finding import closest

BLOCKS = {"conditional": ("then", "else", "steps"), "loop": ("steps",), "parallel": ("steps",)}
"""The fields with steps of each type that has some; those of a condition stand in `then`, or without it in `steps`."""
GOES_ON = ("continue", "go_on", "ignore", "skip")
CONTENT = ("content", "message", "goal", "prompt")

Step = dict[str, Any]


class Steps:
    """Reads the steps of one document. `steps_max` bounds loops that have no bound of their own."""

    def __init__(self, variables: Variables, notes: Notes, steps_max: int) -> None:
        self._variables, self._notes, self._steps_max = variables, notes, steps_max
        self._conditions = Conditions(variables, notes)
        self._types: dict[str, Callable[[Listed], Step]] = {
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

    def listed(self, steps: list[Listed]) -> list[Step]:
        """A list of steps, with what is set behind them."""
        return [made for one in steps for made in self._made(one)]

    def _made(self, one: Listed) -> list[Step]:
        """A step, and one that sets the variable that it stores, if it is one that is set."""
        step = one.step
        type_name = step.value.get("type")
        made: Step = {"id": one.called} | without_nothing({"name": step.text("name"), "note": step.text("description")})
        if step.has("when"):
            made["when"] = self._conditions.read(step.any("when"), step.at("when"))
        if isinstance(type_name, str) and type_name in self._types:
            made |= self._types[type_name](one)
        else:
            made["fail"] = "this step has no type that is known"
            if isinstance(type_name, str) and type_name:
                near = closest(type_name, self._types)
                self._notes.error("unknown_type", step.at("type"), f"{type_name[:40]!r} is no type of step; there are {', '.join(self._types)}", near)
        made |= self._safety(step)
        self._refuse_steps(one, BLOCKS.get(str(type_name), ()))
        step.ignore("id", "type", "outputVariable", "then", "else", "steps")
        step.left()
        name = step.text("outputVariable")
        if not self._variables.is_set(name):
            return [made]
        return [made, {"id": self._variables.names.free(f"{one.called}_set"), "set": {name: whole(one.called)}}]

    def _refuse_steps(self, one: Listed, known: tuple[str, ...]) -> None:
        """Report the steps that stand where none are run."""
        for field in one.inside:
            if field not in known:
                stand = f"steps stand in {' and '.join(known)} here" if known else f"steps stand in {', '.join(BLOCKS)} only"
                self._notes.warning("unknown_field", one.step.at(field), f"{stand}; these are left out")
            elif field == "steps" and "then" in one.inside:
                self._notes.warning("said_twice", one.step.at(field), "'steps' means the same as 'then', which counts; leave one of them out")

    def _safety(self, step: Fields) -> Step:
        retry = step.any("retry")
        found: Step = {}
        if isinstance(retry, dict):
            inside = Fields(retry, step.at("retry"), self._notes)
            most, wait_s = inside.whole("maxAttempts", "max_attempts", "attempts", "max", least=1), seconds(inside.number("backoffMs", "delayMs", "backoff_ms"))
            found["retry"] = {"max": most, "wait": wait_s, "factor": inside.number("multiplier", "factor")}
            inside.left()
        elif most := step.whole("retry", "retries", "maxAttempts", least=1):
            found["retry"] = {"max": most}
        if found:
            found = without_nothing({"retry": without_nothing(found["retry"])})
        on_error = step.any("onError", "on_error")
        if step.flag("continueOnError") or on_error in GOES_ON:
            found["on_error"] = "go_on"
        elif on_error not in (None, "fail", "stop"):
            self._notes.error("unknown_value", step.at(step.name_of("onError", "on_error")), f"expected 'fail' or 'continue', found {kind(on_error)}")
        return found

    def _timeout_s(self, step: Fields) -> float | int | None:
        """How long a step may take: `timeoutMs`, or `timeout` in seconds or as text such as 10m."""
        if (found := seconds(step.number("timeoutMs", "timeout_ms"))) is not None:
            return found
        given = step.any("timeout", "timeoutSeconds", "timeout_s")
        if given is None:
            return None
        try:
            return tidy(seconds_of(given))
        except (BadValue, OverflowError):
            self._notes.error("wrong_type", step.at(step.name_of("timeout", "timeoutSeconds", "timeout_s")), "expected seconds, or text such as '30s' or '10m'")
            return None

    def _bash(self, one: Listed) -> Step:
        return self._command(one.step, one.step.text("command"), one.step.at("command"))

    def _command(self, step: Fields, command: str, pointer: str) -> Step:
        if not command.strip():
            self._notes.error("missing_field", pointer, "a bash step has a command")
        if name := self._variables.used(command):
            text = f'{name} is not filled in in a command; values reach a shell by the environment: env: {{VALUE: {name!r}}}, and "$VALUE" in the command'
            self._notes.warning("not_filled_in", pointer, text)
        timeout_s = self._timeout_s(step) or BASH_S
        if timeout_s > BASH_MAX_S:
            self._notes.warning(
                "too_long", step.at(step.name_of("timeoutMs", "timeout_ms", "timeout")), f"a command has at most {BASH_MAX_S} s, not {timeout_s} s"
            )
            timeout_s = BASH_MAX_S
        env = {name: self._variables.value(value, step.at("env", name)) for name, value in step.mapping("env").items()}
        bash = command if step.flag("check", default=True) else {"command": command, "check": False}
        return {"bash": bash, "timeout": timeout_s} | without_nothing({"env": env})

    def _tool(self, one: Listed) -> Step:
        step = one.step
        name = step.text("tool", "toolName")
        arguments = step.mapping("arguments", "args", "input")
        if name == "bash":
            command = arguments.get("command")
            return self._command(step, command if isinstance(command, str) else "", step.at("arguments", "command"))
        if not name:
            self._notes.error("missing_field", step.at("tool"), "a tool step names its tool")
        made: Step = {"tool": name} | without_nothing({"with": self._variables.value(arguments, step.at("arguments"))})
        if timeout_s := self._timeout_s(step):
            made["timeout"] = timeout_s
        return made

    def _content(self, step: Fields) -> str:
        content = step.text(*CONTENT)
        step.ignore(*CONTENT)
        if not content.strip():
            self._notes.error("missing_field", step.at("content"), f"this step says something: content, message or goal; found {kind(content)}")
            return "?"
        return str(self._variables.value(content, step.at("content")))

    def _agent(self, one: Listed) -> Step:
        step = one.step
        agent: Step = {"prompt": self._content(step)}
        agent |= without_nothing({"tools": step.texts("tools"), "model": step.text("model"), "system": step.text("system", "systemPrompt")})
        return {"agent": agent} | without_nothing({"timeout": self._timeout_s(step)})

    def _agent_message(self, one: Listed) -> Step:
        step = one.step
        message: Step = {"content": self._content(step)}
        for name in ("interrupt", "await_response"):
            if name in step.value and not isinstance(step.value[name], bool):
                self._notes.error("wrong_type", step.at(name), f"expected true or false, found {kind(step.value[name])}")
            elif step.any(name) is not None:
                message[name] = step.any(name)
            step.ignore(name)
        if "await_timeout_ms" in step.value:
            waits_ms = step.any("await_timeout_ms")
            if not is_number(waits_ms) or waits_ms < AWAIT_MS_MIN:
                self._notes.error("wrong_type", step.at("await_timeout_ms"), f"expected at least {AWAIT_MS_MIN} milliseconds, found {kind(waits_ms)}")
            else:
                message["await_timeout_ms"] = waits_ms
        return {"agent_message": message} | without_nothing({"timeout": self._timeout_s(step)})

    def _approval(self, one: Listed) -> Step:
        step = one.step
        asked = step.text("prompt", "message", "title", "content")
        approve: Step = {"title": self._variables.value(asked, step.at("prompt")) if asked else literal(f"Approve {one.called}?")}
        if step.has("details", "summary"):
            approve["details"] = self._variables.value(step.any("details", "summary"), step.at("details"))
        approve |= without_nothing({"assignees": [literal(one) for one in step.texts("approvers", "assignees")], "form": step.mapping("form")})
        action = step.text("defaultAction", "default_action", "onTimeout")
        if timeout_s := self._timeout_s(step):
            approve["timeout"] = timeout_s
            if action in ("approve", "reject", "deny"):
                approve["on_timeout"] = "approve" if action == "approve" else "reject"
        if action not in ("", "approve", "reject", "deny", "fail"):
            self._notes.error("unknown_value", step.at("defaultAction"), f"expected 'approve' or 'deny', found {action[:40]!r}")
        return {"approve": approve}

    def _conditional(self, one: Listed) -> Step:
        step = one.step
        if "condition" not in step.value:
            self._notes.error("missing_field", step.at("condition"), "a conditional step has a condition")
        made: Step = {"if": self._conditions.read(step.value.get("condition", False), step.at("condition"))}
        step.ignore("condition")
        made["then"] = self.listed(one.inside.get("then", []) or one.inside.get("steps", []))
        if otherwise := one.inside.get("else", []):
            made["else"] = self.listed(otherwise)
        return made

    def _parallel(self, one: Listed) -> Step:
        branches = []
        for branch in one.inside.get("steps", []):
            made = self._made(branch)
            branches.append(made[0] if len(made) == 1 else {"id": self._variables.names.free(f"{branch.called}_all"), "do": made})
        if not branches:
            self._notes.error("missing_field", one.step.at("steps"), "a parallel step has steps")
            return {"do": []}
        at_once = one.step.whole("concurrency", "maxConcurrency", least=1)
        return {"parallel": {"steps": branches, "concurrency": at_once} if at_once else branches} | without_nothing({"timeout": self._timeout_s(one.step)})

    def _subworkflow(self, one: Listed) -> Step:
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
        return made | without_nothing({"timeout": self._timeout_s(step)})

    def _loop(self, one: Listed) -> Step:
        step = one.step
        found = [name for name in ("items", "while", "until", "count") if name in step.value]
        if len(found) != 1:
            self._notes.error("one_of", step.pointer, f"a loop has one of items, while, until and count; found {' and '.join(found) or 'none'}")
        step.ignore("items", "while", "until", "count")
        most = step.whole("max", "maxIterations", least=1)
        match found[:1]:
            case ["items"]:
                made = self._over_items(one, most)
            case ["count"]:
                made = self._counted(one, most)
            case _:
                made = self._as_long_as(one, found[0] if found else "until", most or self._steps_max)
        if delay_s := seconds(step.number("delayMs", "delay_ms")):
            if "repeat" in made:
                made["repeat"]["delay"] = delay_s
            else:
                self._notes.warning("unknown_field", step.at("delayMs"), "there is no delay between items")
        return made | without_nothing({"timeout": self._timeout_s(step)})

    def _body(self, one: Listed, items: dict[str, str]) -> list[Step]:
        self._variables.enter(items)
        body = self.listed(one.inside.get("steps", []))
        self._variables.leave()
        if not body:
            self._notes.error("missing_field", one.step.at("steps"), "a loop has steps")
        return body

    def _over_items(self, one: Listed, most: int | None) -> Step:
        step = one.step
        given = step.any("items")
        items = self._variables.items(given, step.at("items")) if isinstance(given, str) else self._variables.value(given, step.at("items"))
        if not isinstance(given, str | list):
            self._notes.error("wrong_type", step.at("items"), f"expected a list or the name of a variable, found {kind(given)}")
        each: Step = {"in": items, "concurrency": step.whole("concurrency", least=1) or AT_ONCE}
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
            self._notes.error("unknown_value", step.at("onItemError"), text, closest(on_error, ("fail", "skip", "null")))
        return {"do": self._body(one, named), "each": each}

    def _counted(self, one: Listed, most: int | None) -> Step:
        step = one.step
        given = step.value["count"]
        body = self._body(one, {"index": "index"})
        if isinstance(given, str):
            if (found := self._variables.named(given, step.at("count"))) is None:
                return {"do": body, "when": False}
            name, path, _ = found
            again = {"expr": f"index + 1 >= {in_cel(name, path)}"}
            return {"do": body, "when": {"ref": f"{whole(name, path)}?", "gt": 0}, "repeat": {"until": again, "max": most or self._steps_max}}
        if not is_number(given) or given != int(given) or given < 0:
            self._notes.error("wrong_type", step.at("count"), f"expected a whole number from 0, found {kind(given)}")
            given = 0
        count = int(given)
        if most is not None and count > most:
            self._notes.error("over_max", step.at("count"), f"{count} turns are more than its max of {most}")
        if not count:
            return {"do": body, "when": False}
        return {"do": body, "repeat": {"until": {"ref": "@index", "gte": count - 1}, "max": count}}

    def _as_long_as(self, one: Listed, which: str, most: int) -> Step:
        """`while` is looked at before the first turn as well, `until` only after each."""
        step = one.step
        condition = self._conditions.read(step.value.get(which, True), step.at(which))
        repeat: Step = {which: condition, "max": most}
        if step.text("onMax") in GOES_ON:
            repeat["on_max"] = "go_on"
        body = self._body(one, {"index": "index"})
        return {"do": body, "when": condition, "repeat": repeat} if which == "while" else {"do": body, "repeat": repeat}
