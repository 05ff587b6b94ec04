"""Checks the references of a document: whether their target exists and is in scope, and whether a secret is allowed there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.core.errors import BadExpression
from perdure.definitions.expr import condition, json_schema, template
from perdure.definitions.expr.references import ExpressionRead
from perdure.definitions.expr.template import Expressions
from perdure.definitions.format import model
from perdure.definitions.format.definition_findings import (
    DefinitionFinding,
    closest_name,
    error_finding,
    joined_pointer,
    pointer_parts,
    readable_location,
    step_pointer_of,
    value_at_pointer,
    warning_finding,
)
from perdure.definitions.format.dialect_rules import document_rules
from perdure.definitions.format.shape_check import ExpressionSite, short_value
from perdure.definitions.format.shapes import ConditionShape, IdShape, SchemaShape, TextShape, ValueShape, is_template
from perdure.definitions.format.step_routes import names_by_step
from perdure.definitions.format.step_tree import PlacedStep, placed_steps, verb_of

BEFORE_EACH = ("when", "needs", "each", "next", "on_error")
"""The fields of a step that are evaluated outside of its own each and repeat."""

_ALLOWED_PLACES = {
    "item": "is allowed only inside of each, and in the cycle of a loop",
    "index": "is allowed only inside of each or repeat, and in the cycle of a loop",
    "loop": "is allowed only inside of each or repeat, and in the cycle of a loop",
    "self": "is allowed only where the step has run: in repeat, undo, transform, and the rules of next",
    "error": "is allowed only in the steps of on_error, and after a port 'error'",
    "state": "is allowed only inside of repeat",
    "last_turn": "is allowed only inside of repeat",
}


class ReferenceCheck:
    """Checks the expressions of one document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._order = document.get("order", "refs")
        self._rules = document_rules(document)
        self._steps = {one.pointer: one for one in placed_steps(document)}
        self._ids: dict[str, PlacedStep] = {}
        for one in self._steps.values():
            self._ids.setdefault(one.id, one)
        self._ids.pop("", None)
        self._scopes = names_by_step(document)
        set_here = [one.step["set"] for one in self._steps.values() if isinstance(one.step.get("set"), dict)]
        self._vars = {name for mapping in (document.get("vars"), *set_here) if isinstance(mapping, dict) for name in mapping}
        declared = document.get("input")
        self._inputs = declared.keys() if isinstance(declared, dict) else ()

    def findings(self, expressions: list[ExpressionSite]) -> Iterator[DefinitionFinding]:
        """The findings of the expressions and of the step ids."""
        yield from self._repeated_ids()
        for one in self._steps.values():
            yield from self._reference_in_source(one)
            yield from self._names_of_each(one)
        for expression in expressions:
            yield from self._expression(expression)

    def names_in_scope(self, expression: ExpressionSite) -> set[str]:
        """The roots, and the names given by an each, that an expression may read."""
        return self._seen(expression)

    def is_readable(self, reader: PlacedStep, target: PlacedStep, expression: ExpressionSite) -> bool:
        """Whether `target` may have a result when `expression`, which is of the step `reader`, is read."""
        return not self._why_not_yet(self._steps[reader.pointer], self._steps[target.pointer], expression)

    def _expression(self, expression: ExpressionSite) -> Iterator[DefinitionFinding]:
        value, pointer, shape = expression.value, expression.pointer, expression.shape
        if isinstance(shape, IdShape):
            yield from self._target(value, pointer)
        elif isinstance(shape, SchemaShape):
            yield from self._schema(value, pointer)
        else:
            try:
                reads = expression_reads(expression, self._rules.expressions)
            except BadExpression as bad:
                spot = pointer + bad.where
                yield error_finding("bad_expression", spot, f"{readable_location(self.document, spot)}: {bad.what}; {bad.hint}")
                return
            seen = self._seen(expression)
            for read in sorted(reads, key=repr):
                yield from self._read(read, expression, seen)
                yield from self._always_zero(read, expression)

    def _always_zero(self, read: ExpressionRead, expression: ExpressionSite) -> Iterator[DefinitionFinding]:
        """The finding of a condition on a number that is always 0, because the step fails with any other."""
        if not isinstance(expression.shape, ConditionShape):
            return
        step = self._steps.get(step_pointer_of(expression.pointer)) if read.root == "self" else self._ids.get(read.step)
        verb = None if step is None else model.verbs_by_name().get(verb_of(step.step))
        if step is None or verb is None or (checked := verb.checked_result) is None or read.path[-1:] != (checked.field,):
            return
        value = step.step[verb.name]
        if "on_error" in step.step or (isinstance(value, dict) and value.get(checked.switch) is False):
            return
        config = value if isinstance(value, dict) else {verb.source_field: value}
        where = readable_location(self.document, step_pointer_of(expression.pointer) or expression.pointer)
        why = f"{checked.field} of {step.id!r} is always 0 here, because any other value fails the step; write {checked.switch}: false in its {verb.name}"
        unchecked = {"op": "replace", "path": joined_pointer(step.pointer, verb.name), "value": {**config, checked.switch: False}}
        fix = (unchecked,) if self._rules.source_is_native else ()
        yield warning_finding("always_zero", expression.pointer + read.where, f"{where}: {why}", fix=fix)

    def _read(self, read: ExpressionRead, expression: ExpressionSite, seen: set[str]) -> Iterator[DefinitionFinding]:
        spot = expression.pointer + read.where
        where = readable_location(self.document, step_pointer_of(spot) or spot)
        match read.root:
            case "secrets":
                if not (isinstance(expression.shape, ValueShape | TextShape) and expression.shape.secrets):
                    only = "in with, env, headers and the verify of a trigger"
                    yield error_finding("secret_here", spot, f"{where}: '@secrets.{read.path[0]}' is not allowed here; use secrets only {only}")
            case "step" if read.step in seen:
                pass
            case "steps" if self._rules.unknown_steps_allowed and read.step not in self._ids:
                pass
            case "step" | "steps":
                yield from self._step_read(read, expression, seen)
            case root if root not in seen:
                yield error_finding("root_not_here", spot, f"{where}: '@{root}' {_ALLOWED_PLACES.get(root, 'is not known here')}")
            case "input" | "vars" if self._rules.declared_names_only and read.path:
                known = self._vars if read.root == "vars" else self._inputs
                if (known or read.root == "vars") and read.path[0] not in known:
                    yield self._unknown(
                        f"{read.root}.{read.path[0]}", "an input" if read.root == "input" else "a variable", [f"{read.root}.{one}" for one in known], spot
                    )

    def _step_read(self, read: ExpressionRead, expression: ExpressionSite, seen: set[str]) -> Iterator[DefinitionFinding]:
        spot = expression.pointer + read.where
        target, reader = self._ids.get(read.step), self._steps.get(step_pointer_of(expression.pointer))
        if target is None:
            if read.step in _ALLOWED_PLACES and read.root == "step":
                yield error_finding(
                    "root_not_here", spot, f"{readable_location(self.document, step_pointer_of(spot) or spot)}: '@{read.step}' {_ALLOWED_PLACES[read.step]}"
                )
            elif read.root == "step":
                yield self._unknown(read.step, "a step or a root", [*self._ids, *seen], spot)
            else:
                yield self._unknown(f"steps.{read.step}", "a step", [f"steps.{one}" for one in self._ids], spot)
        elif reader is None and pointer_parts(expression.pointer)[0] != "output":
            yield error_finding(
                "not_yet", spot, f"{readable_location(self.document, spot)}: '@{read.step}' has no result when this is read, before the first step"
            )
        elif reader is not None and self._rules.strict_order and self._order != "ports" and (why := self._why_not_yet(reader, target, expression)):
            yield error_finding("not_yet", spot, f"{readable_location(self.document, reader.pointer)}: '@{read.step}' {why}")

    def _why_not_yet(self, reader: PlacedStep, target: PlacedStep, expression: ExpressionSite) -> str:
        """Returns the reason why `target` never has a result when `reader` reads it; empty if it can have one."""
        if reader is target:
            meant = "; write '@self'" if "self" in getattr(expression.shape, "roots", ()) else ""
            return f"is this step itself, and has no result yet{meant}"
        if any(holder is target for holder, _ in reader.around):
            return "holds this step, and has no result yet"
        if self._order != "listed":
            return ""
        if any(holder is reader for holder, _ in target.around):
            return ""  # the compiler checks which fields of a block may read the steps in it
        one, other = [*reader.around, (reader, "")], [*target.around, (target, "")]
        shared = 0
        while one[shared][0] is other[shared][0]:
            shared += 1
        again = any("repeat" in holder.step for holder, _ in one[:shared])
        first, second = one[shared][0], other[shared][0]
        listed = first.container == second.container and not (shared and one[shared - 1][1] in ("parallel", "race"))
        return "comes later in the list, and has no result yet" if listed and first.index < second.index and not again else ""

    def _unknown(self, name: str, what: str, known: list[str], spot: str) -> DefinitionFinding:
        where = readable_location(self.document, step_pointer_of(spot) or spot)
        meant = closest_name(name, known)
        text = value_at_pointer(self.document, spot)
        fix: tuple[dict[str, Any], ...] = ()
        if meant and isinstance(text, str) and is_template(text):
            fixed = text.replace(f"@{name}", f"@{meant}").replace(f"@{{{name}", f"@{{{meant}")
            fix = ({"op": "replace", "path": spot, "value": fixed},) if fixed != text else ()
        hint = f"; did you mean '@{meant}'?" if meant else ""
        return error_finding("unknown_reference", spot, f"{where}: '@{name[:80]}' is not {what}{hint}", f"@{meant}" if meant else "", fix)

    def _target(self, name: str, pointer: str) -> Iterator[DefinitionFinding]:
        """Yields the findings of a step named by `next` or `needs`."""
        step = self._steps.get(step_pointer_of(pointer))
        if step is None:
            return
        field = pointer_parts(pointer[len(step.pointer) :])[0]
        found = self._ids.get(name)
        if field == "repeat" and self._order != "ports":
            yield error_finding(
                "misplaced", pointer, f"{readable_location(self.document, pointer)}: it names a step only where the definition says 'order: ports'"
            )
        elif found is None:
            meant = closest_name(name, [one.id for one in self._ids.values() if field == "needs" or one.container == step.container])
            fix = ({"op": "replace", "path": pointer, "value": meant},) if meant and isinstance(value_at_pointer(self.document, pointer), str) else ()
            hint = f"; did you mean {meant!r}?" if meant else ""
            yield error_finding(
                "unknown_step",
                pointer,
                f"{readable_location(self.document, step.pointer)}: {field} names {short_value(name)}, which is not a step{hint}",
                meant,
                fix,
            )
        elif field != "needs" and found.container != step.container:
            yield error_finding(
                "other_list", pointer, f"{readable_location(self.document, step.pointer)}: {field} leads to {name!r}, which is in another list of steps"
            )
        elif field == "needs" and name == step.id:
            yield error_finding("not_yet", pointer, f"{readable_location(self.document, step.pointer)}: it needs itself; remove that")

    def _schema(self, value: dict[str, Any], pointer: str) -> Iterator[DefinitionFinding]:
        where = readable_location(self.document, pointer)
        found = json_schema.full_schema(value)
        try:
            json_schema.compile_schema(found)
            if pointer_parts(pointer)[0] == "input" and value.get("default") is not None and (problems := json_schema.schema_problems(found, value["default"])):
                yield error_finding("bad_default", joined_pointer(pointer, "default"), f"{where}: the default does not fit the schema: {problems[0]}")
        except BadExpression as bad:
            yield error_finding("bad_schema", pointer, f"{where}: {bad.what}; {bad.hint}")

    def _seen(self, expression: ExpressionSite) -> set[str]:
        """The roots, and the names given by an each, that are in scope for an expression."""
        pointer = expression.pointer
        step = self._steps.get(step_pointer_of(pointer))
        if step is None:
            field = pointer_parts(pointer)[0]
            named = set() if field == "triggers" else set(model.EVERYWHERE) if field == "output" else {"input"}
            return {"trigger", "execution"} | named | set(getattr(expression.shape, "roots", ()))
        seen = set(model.EVERYWHERE) | set(getattr(expression.shape, "roots", ()))
        if self._rules.roots_everywhere:
            seen |= model.ROOTS
        seen |= self._scopes.get((step.around[0][0] if step.around else step).id, frozenset())
        for holder, by in step.around:
            seen |= {"error"} if by == "on_error" else _given(holder.step)
        field = pointer_parts(pointer[len(step.pointer) :])[0]
        return seen if field in BEFORE_EACH else seen | _given(step.step)

    def _repeated_ids(self) -> Iterator[DefinitionFinding]:
        for one in self._steps.values():
            first = self._ids.get(one.id)
            if first is not None and first is not one:
                other = readable_location(self.document, first.pointer).partition(" ")[0]
                yield error_finding(
                    "duplicate_id",
                    joined_pointer(one.pointer, "id"),
                    f"{readable_location(self.document, one.pointer)}: {other} has this id as well; give each its own",
                )

    def _reference_in_source(self, one: PlacedStep) -> Iterator[DefinitionFinding]:
        """The finding of a reference in a source text that values reach through `env` only."""
        verb = model.verbs_by_name().get(verb_of(one.step))
        if verb is None or not verb.values_by_env or not self._rules.references_in_bash:
            return
        value = one.step[verb.name]
        source, pointer = (value.get(verb.source_field), verb.source_field) if isinstance(value, dict) else (value, "")
        if isinstance(source, str) and ("@{" in source or (is_template(source) and " " not in source)):
            why = 'values reach a shell through env, not through its text; write env: {NAME: "@input.name"} and "$NAME"'
            spot = joined_pointer(one.pointer, verb.name, *filter(None, (pointer,)))
            yield error_finding("reference_in_bash", spot, f"{readable_location(self.document, one.pointer)}: {why}")

    def _names_of_each(self, one: PlacedStep) -> Iterator[DefinitionFinding]:
        for by in ("each", "loop"):
            if isinstance(said := one.step.get(by), dict):
                yield from self._names_given(said, joined_pointer(one.pointer, by))

    def _names_given(self, each: dict[str, Any], by: str) -> Iterator[DefinitionFinding]:
        for field in ("as", "index"):
            if isinstance(name := each.get(field), str) and name in self._ids:
                pointer = joined_pointer(by, field)
                yield error_finding("bad_name", pointer, f"{readable_location(self.document, pointer)}: {name!r} is the id of a step; choose another name")
        if "as" in each and each.get("as") == each.get("index", "index"):
            pointer = by
            yield error_finding(
                "bad_name", pointer, f"{readable_location(self.document, pointer)}: the item and its number have one name; choose another for one"
            )


def expression_reads(expression: ExpressionSite, expressions: Expressions = "cel") -> frozenset[ExpressionRead]:
    """Returns the references of an expression; values in it may have `expressions`.

    Raises:
        BadExpression: it is not a valid expression.
    """
    if isinstance(expression.shape, ConditionShape):
        return condition.compile_condition(expression.value, dollar="self" if "self" in expression.shape.roots else "steps", expressions=expressions).reads
    if expressions == "cel" and isinstance(expression.shape, ValueShape) and not expression.shape.expressions:
        expressions = "none"
    return template.compile_template(expression.value, expressions=expressions).reads


def _given(step: dict[str, Any]) -> set[str]:
    """The names that the each and the repeat of a step give to what is inside of it."""
    given = set(model.IN_REPEAT) if "repeat" in step else set()
    each = step.get("each")
    if isinstance(each, dict):
        names = (each.get("as", "item"), each.get("index", "index"))
        given |= {"loop", *(name for name in names if isinstance(name, str))}
    return given
