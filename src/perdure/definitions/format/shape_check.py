"""Checks a document against the shapes of the model, and collects its expressions for the checks that follow."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.code.approval_attributes import PRIORITIES
from perdure.code.durations import duration_seconds
from perdure.core.announcements import LIFECYCLE_TYPES
from perdure.core.errors import BadValue
from perdure.definitions.expr.template import is_expression
from perdure.definitions.format import model
from perdure.definitions.format.definition_findings import DefinitionFinding, closest_name, error_finding, joined_pointer, readable_location
from perdure.definitions.format.dialect_rules import document_rules
from perdure.definitions.format.shapes import (
    ChoiceShape,
    ConditionShape,
    DurationShape,
    EitherShape,
    FieldsShape,
    FlagShape,
    FormatField,
    IdShape,
    ListShape,
    MapShape,
    NameShape,
    NumberShape,
    PlainShape,
    SchemaShape,
    Shape,
    StepsShape,
    TextShape,
    ValueShape,
    WholeShape,
    is_template,
    matching_option,
)
from perdure.definitions.format.step_tree import verbs_of

FINDINGS_MAX = 200


class ExpressionSite(msgspec.Struct, frozen=True):
    """An expression: its location, its value, and the shape that determines its scope."""

    pointer: str
    value: Any
    shape: Shape


class ShapeCheck:
    """Walks a document and collects its `findings` and `expressions`."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.findings: list[DefinitionFinding] = []
        self.expressions: list[ExpressionSite] = []
        self._rules = document_rules(document)
        self._ports = isinstance(document, dict) and document.get("order") == "ports"

    def walk(self) -> None:
        """Go through the whole document."""
        if not isinstance(self.document, dict):
            self._report("not_a_definition", "", f"a definition is a mapping that begins with 'perdure: 1', found {short_value(self.document)}")
            return
        self._fields(model.DOCUMENT, model.DOCUMENT.fields, self.document, "")

    def _report(self, code: str, pointer: str, message: str, suggestion: str = "", fix: tuple[dict[str, Any], ...] = ()) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(error_finding(code, pointer, message, suggestion, fix))

    def _expected(self, pointer: str, what: str, value: Any) -> None:
        self._report("wrong_type", pointer, f"{readable_location(self.document, pointer)}: expected {what}, found {short_value(value)}")

    def _value(self, shape: Shape, value: Any, pointer: str) -> None:
        match shape:
            case TextShape():
                self._text(shape, value, pointer)
            case NameShape():
                self._name(shape, value, pointer)
            case FlagShape() | WholeShape() | NumberShape() | ChoiceShape():
                if not fits_scalar(shape, value):
                    self._expected(pointer, shape_description(shape), value)
            case DurationShape():
                self._duration(shape, value, pointer)
            case IdShape():
                if isinstance(value, str):
                    self.expressions.append(ExpressionSite(pointer, value, shape))
                else:
                    self._expected(pointer, shape_description(shape), value)
            case ValueShape() | ConditionShape():
                self.expressions.append(ExpressionSite(pointer, value, shape))
            case SchemaShape():
                if isinstance(value, dict):
                    self.expressions.append(ExpressionSite(pointer, value, shape))
                else:
                    self._expected(pointer, shape_description(shape), value)
            case PlainShape():
                pass
            case _:
                self._nested(shape, value, pointer)

    def _nested(self, shape: Shape, value: Any, pointer: str) -> None:
        match shape:
            case StepsShape():
                self._steps(shape, value, pointer)
            case ListShape():
                items = [value] if shape.sugar and not isinstance(value, list) else value
                if not isinstance(items, list) or len(items) < shape.least:
                    self._expected(pointer, shape_description(shape), value)
                    return
                for index, item in enumerate(items):
                    self._value(shape.of, item, joined_pointer(pointer, index) if items is value else pointer)
            case MapShape():
                if not isinstance(value, dict):
                    self._expected(pointer, shape_description(shape), value)
                    return
                if self._rules.expressions == "cel" and isinstance(shape.of, ValueShape) and shape.of.expressions and is_expression(value):
                    hint = "write {NAME: {expr: …}}, or rename the field expr"
                    self._report("misplaced", pointer, f"{readable_location(self.document, pointer)}: an expression can't replace the whole mapping; {hint}")
                for name, item in value.items():
                    self._value(shape.of, item, joined_pointer(pointer, name))
            case FieldsShape():
                meant = shape.field(shape.sugar)
                if isinstance(value, dict):
                    self._fields(shape, shape.fields, value, pointer)
                elif meant is not None:
                    self._value(meant.shape, value, pointer)
                else:
                    self._expected(pointer, shape_description(shape), value)
            case EitherShape():
                option = matching_option(shape, value)
                if option is None:
                    self._expected(pointer, shape.what, value)
                else:
                    self._value(option, value, pointer)

    def _text(self, shape: TextShape, value: Any, pointer: str) -> None:
        if not isinstance(value, str):
            quoted = f'; quote it: "{_versioned(value, shape)}"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
            self._report("wrong_type", pointer, f"{readable_location(self.document, pointer)}: expected {shape.what}, found {short_value(value)}{quoted}")
        elif shape.template and is_template(value):
            self.expressions.append(ExpressionSite(pointer, value, shape))
        elif not value.strip():
            self._report("empty", pointer, f"{readable_location(self.document, pointer)}: expected {shape.what}, found nothing")
        elif shape.pattern and not re.fullmatch(shape.pattern, value):
            meant = _whole_version(value) if shape.pattern == model.VERSION_PATTERN else ""
            hint = f"; write {meant!r}" if meant else ""
            fix = ({"op": "replace", "path": pointer, "value": meant},) if meant else ()
            self._report("bad_text", pointer, f"{readable_location(self.document, pointer)}: {short_value(value)} is not {shape.what}{hint}", meant, fix)

    def _name(self, shape: NameShape, value: Any, pointer: str) -> None:
        is_id = shape.what == "an id"
        if not isinstance(value, str):
            self._expected(pointer, shape.what, value)
        elif is_id and self._rules.free_step_ids:
            if not 0 < len(value) <= 256 or not value.isprintable():
                self._report(
                    "bad_id", pointer, f"{readable_location(self.document, pointer)}: {short_value(value)} is not an id: 1 to 256 printable characters"
                )
        elif not re.fullmatch(model.ID_PATTERN, value) or len(value) > 256:
            why = "letters, digits, '_' and '-', beginning with a letter or '_', 256 at most"
            self._report(
                "bad_id" if is_id else "bad_name", pointer, f"{readable_location(self.document, pointer)}: {short_value(value)} is not {shape.what}: {why}"
            )
        elif value in model.ROOTS and not (shape.what == "a name" and value in model.IN_EACH):
            what = "a root, which references begin with"
            self._report(
                "root_as_id" if is_id else "bad_name",
                pointer,
                f"{readable_location(self.document, pointer)}: {value!r} is {what}; give it another name",
                f"{value}_1",
            )

    def _duration(self, shape: DurationShape, value: Any, pointer: str) -> None:
        where = readable_location(self.document, pointer)
        if is_template(value) or (is_expression(value) and self._rules.expressions == "cel"):
            if shape.template:
                self.expressions.append(ExpressionSite(pointer, value, shape))
            else:
                what = "reference" if is_template(value) else "expression"
                self._report("not_constant", pointer, f"{where}: no {what} is allowed here, because it must be constant; write seconds, or text such as '30s'")
            return
        try:
            duration_seconds(value)
        except (BadValue, OverflowError):
            self._report(
                "bad_duration", pointer, f"{where}: {short_value(value)} is not a duration; write seconds, or text such as '500ms', '30s', '2h 30m', '3d'"
            )

    def _steps(self, shape: StepsShape, value: Any, pointer: str) -> None:
        if not isinstance(value, list) or len(value) < shape.least:
            self._expected(pointer, shape_description(shape), value)
            return
        for index, step in enumerate(value):
            if isinstance(step, dict):
                self._step(step, joined_pointer(pointer, index))
            else:
                self._expected(joined_pointer(pointer, index), "a step, which is a mapping", step)

    def _step(self, step: dict[str, Any], pointer: str) -> None:
        where = readable_location(self.document, pointer)
        verbs, table = verbs_of(step), model.step_fields()
        mistyped = [name for name in step if name not in table and closest_name(name, table) in model.verbs_by_name()]
        if len(verbs) > 1:
            self._report("several_verbs", pointer, f"{where}: a step does exactly one thing; found {_and(verbs)}")
        elif not verbs and not mistyped:
            self._report("no_verb", pointer, f"{where}: a step does exactly one thing; found nothing; name one of {', '.join(model.verbs_by_name())}")
        for name, item in step.items():
            field = table.get(name)
            if field is None:
                self._unknown(name, pointer, "a step", table)
            elif field.verbs and verbs and not any(verb in step for verb in field.verbs):
                self._report("misplaced", joined_pointer(pointer, name), f"{where}: {name!r} {_only_beside(name, field, verbs[0])}")
            elif field.ports_only and not self._ports:
                self._report("misplaced", joined_pointer(pointer, name), f"{where}: {name!r} is allowed only with 'order: ports' in the definition")
            else:
                self._value(field.shape, item, joined_pointer(pointer, name))
        for field in model.BESIDE:
            if field.required and field.name not in step and any(verb in step for verb in field.verbs):
                self._report("missing_field", pointer, f"{where}: {field.name!r} is missing ({field.doc})")
        for name, problem in _beside(step):
            self._report("misplaced", f"{pointer}/{name}", f"{where}: {problem}")

    def _fields(self, shape: FieldsShape, fields: tuple[FormatField, ...], value: dict[str, Any], pointer: str) -> None:
        table = {field.name: field for field in fields}
        for name, item in value.items():
            field = table.get(name)
            if field is not None:
                self._value(field.shape, item, joined_pointer(pointer, name))
            else:
                self._unknown(name, pointer, shape.what, table)
        where = readable_location(self.document, pointer)
        for field in fields:
            if field.required and field.name not in value:
                self._report("missing_field", pointer, f"{where}: {field.name!r} is missing ({field.doc})")
        found = [name for name in shape.one_of if name in value]
        if shape.one_of and len(found) != 1:
            tail = f"found {_and(found)}" if found else "found none"
            self._report("one_of", pointer, f"{where}: exactly one of {_and(shape.one_of)} is required; {tail}")
        for problem in _OF_FIELDS.get(shape.what, _of_nothing)(value):
            self._report("contradiction", pointer, f"{where}: {problem}")

    def _unknown(self, name: str, pointer: str, what: str, known: dict[str, FormatField]) -> None:
        meant = "triggers" if what == "a definition" and name in ("on", "true") else closest_name(name, known)
        hint = f"; did you mean {meant!r}?" if meant else f"; it has {_listed(known)}" if 0 < len(known) <= 12 else ""
        fix = ({"op": "move", "from": joined_pointer(pointer, name), "path": joined_pointer(pointer, meant)},) if meant else ()
        self._report(
            "unknown_field",
            joined_pointer(pointer, name),
            f"{readable_location(self.document, pointer)}: {short_value(name)} is not a field of {what}{hint}",
            meant,
            fix,
        )


def fits_scalar(shape: Shape, value: Any) -> bool:
    """Whether a number, a flag or a choice fits `shape`."""
    match shape:
        case FlagShape():
            return isinstance(value, bool)
        case WholeShape():
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value == int(value) and value >= shape.least
        case NumberShape():
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= shape.least
        case ChoiceShape():
            return any(value is one or (value == one and isinstance(value, bool) == isinstance(one, bool)) for one in shape.values)
    return False


def shape_description(shape: Shape) -> str:
    """Describes the values of `shape`."""
    match shape:
        case FlagShape():
            return "true or false"
        case WholeShape():
            return f"a whole number from {shape.least}" if shape.least > -(2**31) else "a whole number"
        case NumberShape():
            return f"a number from {shape.least:g}"
        case ChoiceShape():
            return _or([json.dumps(one) if not isinstance(one, str) else one for one in shape.values if one is not None], quoted=False)
        case IdShape():
            return "the id of a step"
        case StepsShape():
            return "a list of steps" if not shape.least else "a list of at least one step"
        case ListShape():
            return "a list" if not shape.least else "a list that is not empty"
        case SchemaShape():
            return "a JSON Schema, or properties of one"
    return "a mapping"


def short_value(value: Any) -> str:
    """Returns a value as short text for a message."""
    match value:
        case dict():
            return "a mapping" if value else "an empty mapping"
        case list():
            return "a list" if value else "an empty list"
        case str():
            return repr(value if len(value) <= 60 else value[:57] + "…")
        case None | bool() | int() | float():
            return json.dumps(value)[:60]
    return type(value).__name__


def _versioned(value: float, shape: TextShape) -> str:
    text = f"{value}"
    return f"{text}{'.0' * (2 - text.count('.'))}" if shape.pattern == model.VERSION_PATTERN else text


def _whole_version(text: str) -> str:
    """Completes a version: 1.2.0 for v1.2; empty if the text is not a version."""
    found = re.fullmatch(r"[vV]?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?", text.strip())
    return ".".join(str(int(part or 0)) for part in found.groups()) if found else ""


def _and(names: list[str] | tuple[str, ...]) -> str:
    quoted = [repr(name) for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def _or(names: list[str] | tuple[str, ...], quoted: bool = True) -> str:
    words = [repr(name) if quoted else name for name in names]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _listed(known: dict[str, FormatField]) -> str:
    return ", ".join(known)


_INSTEAD = {
    "env": "pass the value in 'with'",
    "with": "put the value after the verb",
    "retry": "put it in the step that does the work",
    "timeout": "put it into a do: [...] that has the timeout",
    "idempotent": "use it in steps that do work",
}


def _only_beside(name: str, field: FormatField, verb: str) -> str:
    """Returns the reason why a field is not allowed with a verb, and the remedy."""
    if len(field.verbs) <= 4:
        return f"is allowed only with {_or(field.verbs)}"
    instead = _INSTEAD.get(name, "")
    return f"has no effect with {verb!r}; remove it" + (f", or {instead}" if instead else "")


def _beside(step: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the modifiers that have no effect on the verb of a step: the field, and the reason."""
    call, said, task = step.get("call"), step.get("return"), step.get("task")
    of_workflow = isinstance(call, str) and not call.startswith("py:")
    if step.get("undo") is True and not of_workflow:
        yield "undo", "'undo: true' is allowed only with 'call' of a workflow; name the tool that undoes the step"
    if "wait" in step and call is not None and not of_workflow:
        yield "wait", "'wait' is allowed only with 'call' of a workflow, because the step always waits for a function; remove it"
    if "idempotent" in step and of_workflow:
        yield "idempotent", "a called workflow never runs twice; set 'idempotent' in its own steps"
    if step.get("wait") is False:
        for name in ("retry", "timeout"):
            if name in step:
                yield name, f"{name!r} needs a step that waits, and 'wait: false' starts the workflow without waiting; remove one of them"
        if step.get("undo") is True:
            yield "undo", "the undo of a workflow needs a step that waits for it; name a tool that undoes the start"
    if "with" in step and "return" in step and said is not True:
        yield "with", "'with' is allowed only with 'return: true', which returns it; remove one of them"
    if "with" in step and isinstance(emit := step.get("emit"), dict) and "body" in emit:
        yield "with", "'with' and the 'body' of 'emit' are both the body of the message; remove one of them"
    if isinstance(task, dict) and "queue" in task:
        if "env" in step:
            yield "env", "a worker has an environment of its own; pass the value in 'with'"
        if "config" in task:
            yield "task/config", "'config' is for a type that the engine performs, and 'queue' for one that a worker performs; remove one of them"
    for verb in model.VERBS:
        if verb.name in step:
            yield from verb.check_step(step)
    if isinstance(step.get("timeout"), int | float | str) and isinstance(approve := step.get("approve"), dict) and "timeout" in approve:
        yield "timeout", "'approve' has a 'timeout' of its own; remove one of them"
    if "on_rejected" in step and isinstance(following := step.get("next"), dict) and "rejected" in following:
        yield "on_rejected", "'next' has a port for the rejection already; remove one of them"
    if "timeout" in step and isinstance(listen := step.get("listen"), dict) and "timeout" in listen:
        yield "timeout", "'listen' has a 'timeout' of its own; remove one of them"
    undo = step.get("undo")
    if isinstance(undo, dict) and undo.get("in_doubt") is True and (of_workflow or {*model.WORK, "call"}.isdisjoint(step)):
        yield (
            "undo/in_doubt",
            "'in_doubt' is allowed only for a tool, a function or a kind; a child that fails undoes itself, and a block its steps",
        )


def _of_nothing(_: dict[str, Any]) -> Iterator[str]:
    return iter(())


def _of_repeat(repeat: dict[str, Any]) -> Iterator[str]:
    if "keep" in repeat and repeat.get("endless") is not True:
        yield "'keep' is allowed only with 'endless: true', because a bounded loop keeps all iterations; remove it"
    if "on_max" in repeat and repeat.get("endless") is True:
        yield "'on_max' is allowed only with 'max'; add 'max'"
    if "max" in repeat and repeat.get("endless") is True:
        yield "'max' and 'endless: true' contradict each other; keep one"
    if "max" not in repeat and repeat.get("endless") is not True:
        yield "the loop has no bound; add max, or endless: true"
    if "undo" in repeat and repeat.get("endless") is not True:
        yield "'undo' is allowed only with 'endless: true', because a bounded loop undoes all iterations; remove it"


def _of_rule(rule: dict[str, Any]) -> Iterator[str]:
    if "max" in rule and rule.get("endless") is True:
        yield "'max' and 'endless: true' contradict each other; keep one"
    if "on_max" in rule and "max" not in rule:
        yield "'on_max' is allowed only with 'max'; add 'max'"


def _of_emit(emit: dict[str, Any]) -> Iterator[str]:
    if "to" in emit and "name" not in emit:
        yield "a message to another execution needs a name; add 'name'"
    elif "to" in emit and "event" in emit:
        yield "a message to another execution is not announced; remove 'to' or 'event'"
    elif emit.get("event") in LIFECYCLE_TYPES:
        yield f"'event' can't be {emit['event']!r}, which tells how an execution has ended; use a name of your own"
    elif "name" not in emit and "body" not in emit:
        yield "the message has no body; add 'body'"


def _of_approve(approve: dict[str, Any]) -> Iterator[str]:
    if "on_timeout" in approve and "timeout" not in approve:
        yield "'on_timeout' is allowed only with 'timeout'; add 'timeout'"
    assignees, quorum = approve.get("assignees"), approve.get("quorum")
    if isinstance(assignees, list) and isinstance(quorum, int | float) and quorum > len(assignees) > 0 and not any(map(is_template, assignees)):
        yield f"a quorum of {quorum:g} can't be reached with {len(assignees)} assignees; lower it, or add assignees"
    priority = approve.get("priority")
    if isinstance(priority, str) and priority not in PRIORITIES and not is_template(priority):
        yield f"the priority {priority!r} is not known; use one of {', '.join(PRIORITIES)}"


def _of_verify(verify: dict[str, Any]) -> Iterator[str]:
    if "header" in verify and verify.get("scheme") in model.SCHEMES and verify["scheme"] not in ("generic", "bearer"):
        yield f"{verify['scheme']!r} has a header of its own; use 'header' with generic and bearer only"
    if verify.get("scheme") in model.SCHEMES and (verify["scheme"] == "none") == ("secret" in verify):
        yield "'none' takes no 'secret'; remove it" if verify["scheme"] == "none" else f"{verify['scheme']!r} needs a 'secret'; add secret: \"@secrets.NAME\""


_OF_FIELDS: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "repeat": _of_repeat,
    "a rule": _of_rule,
    "a port": _of_rule,
    "emit": _of_emit,
    "approve": _of_approve,
    "verify": _of_verify,
}
