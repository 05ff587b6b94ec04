"""Conditions shown row by row: what each row compared, and whether it held.

A condition is evaluated again, in the scope in which it was evaluated, part by part. Parts of groups that were decided without them are listed as not reached.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from perdure.core.errors import BadExpression, ExpressionFailed, ProgrammingError
from perdure.definitions.expr.condition import AGGREGATES, QUANTIFIERS, CompiledCondition, ConditionCompiler, compile_condition
from perdure.definitions.expr.plain_values import MissingValueError
from perdure.definitions.expr.references import ExpressionRead, ExpressionScope, parse_reference, reference_getter
from perdure.definitions.expr.template import compile_template


class ConditionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a condition that is no group. `where` is its JSON pointer in the condition, such as ``/all/0``, and `source` what is written there.

    A row has an `operator` (empty: the value is true) behind its aggregate, such as ``sum gt``, and the values on its sides. Of an expression, `reads` has the
    values that it read, by their references. `holds` is None for what was not reached, or could not be evaluated. `problem` says which value is missing, or
    why it could not be evaluated.
    """

    where: str
    source: Any
    operator: str = ""
    left: Any = None
    right: Any = None
    reads: dict[str, Any] = {}
    holds: bool | None = None
    problem: str = ""


def condition_rows(compiled: CompiledCondition, scope: ExpressionScope, python: Sequence[bool] = ()) -> tuple[bool | None, list[ConditionRow]]:
    """Returns whether a condition holds in a scope (None: it can't be told), and its rows in the order of writing, with the values that they have there.

    `python` are the results of its parts in Python, as far as they are known.
    """
    reader = _RowReader(compiled, scope, python)
    return reader.holds, reader.rows


class _RowReader:
    """Evaluates a condition part by part."""

    def __init__(self, compiled: CompiledCondition, scope: ExpressionScope, python: Sequence[bool]) -> None:
        self._compiled, self._scope, self._python = compiled, scope, iter(python)
        self.rows: list[ConditionRow] = []
        self.holds = self._read(compiled.source, "", is_reached=True)

    def _read(self, one: Any, where: str, *, is_reached: bool) -> bool | None:
        """Adds the rows of a part, and returns whether it holds; None if it was not reached or failed."""
        if isinstance(one, dict) and "ref" not in one:
            if "not" in one:
                holds = self._read(one["not"], f"{where}/not", is_reached=is_reached)
                return None if holds is None else not holds
            for name in ("all", "any"):
                if name in one:
                    return self._group(name, one[name], f"{where}/{name}", is_reached)
        row = self._row(one, where) if is_reached else ConditionRow(where=where, source=one)
        self.rows.append(row)
        return row.holds

    def _group(self, name: str, parts: Sequence[Any], where: str, is_reached: bool) -> bool | None:
        decides = name == "any"
        found: bool | None = not decides if is_reached else None
        for place, part in enumerate(parts):
            holds = self._read(part, f"{where}/{place}", is_reached=is_reached)
            if is_reached and (holds is None or holds is decides):
                found, is_reached = holds, False
        return found

    def _row(self, one: Any, where: str) -> ConditionRow:
        row = ConditionRow(where=where, source=one)
        try:
            row = msgspec.structs.replace(row, **self._values(one))
            return msgspec.structs.replace(row, holds=self._holds(one))
        except ProgrammingError as error:
            return msgspec.structs.replace(row, problem=str(error))

    def _holds(self, one: Any) -> bool:
        compiled = self._compile(one)
        answers = [answer for _, answer in zip(compiled.python, self._python, strict=False)]
        if len(answers) < len(compiled.python):
            raise ExpressionFailed("", "what Python answered is not known here", "see the call beside the step")
        return compiled.evaluate(self._scope, answers)

    def _compile(self, one: Any) -> CompiledCondition:
        asked = self._compiled
        return compile_condition(one, asked.missing, asked.dollar, asked.expressions)

    def _values(self, one: Any) -> dict[str, Any]:
        """The operator and the values of a row; the reads of an expression."""
        if isinstance(one, str):
            one = {"ref": one}
        if not isinstance(one, dict):
            return {}
        if "ref" not in one:
            return {"reads": {text: self._value_at(text) for text in sorted({_read_text(read) for read in self._compile(one).reads})}}
        operator, right = next(((name, value) for name, value in one.items() if name != "ref"), ("", None))
        left, problem = self._left(one["ref"], operator)
        if operator in AGGREGATES or operator in QUANTIFIERS:
            inner, right = next(iter(right.items())) if isinstance(right, dict) else ("eq", right)
            operator = f"{operator} {inner}"
        return {"operator": operator, "left": left, "right": right if operator.endswith("matches") else self._evaluated(right), "problem": problem}

    def _left(self, ref: str, operator: str) -> tuple[Any, str]:
        """The left value, and why there is none."""
        asked = self._compiled
        find, _, measure = ConditionCompiler(asked.missing, asked.dollar, asked.expressions).left(ref, "")
        try:
            found = measure(find(self._scope))
            return (AGGREGATES[operator](found or ()) if operator in AGGREGATES else found), ""
        except MissingValueError as missing:
            return None, missing.what

    def _evaluated(self, right: Any) -> Any:
        try:
            return compile_template(right, "null", self._compiled.expressions).evaluate(self._scope)
        except (ExpressionFailed, MissingValueError):  # the evaluation of the row says so
            return None

    def _value_at(self, text: str) -> Any:
        try:
            return reference_getter(parse_reference(text))(self._scope)
        except (MissingValueError, BadExpression):  # the name of a loop of CEL, or a value that is not there: the evaluation of the expression says it
            return None


def _read_text(read: ExpressionRead) -> str:
    """A read as a reference."""
    name = {"step": read.step, "steps": f"steps.{read.step}.output"}.get(read.root, read.root)
    return "@" + name + "".join(_segments(read.path))


def _segments(path: Sequence[str | int]) -> Iterator[str]:
    for key in path:
        yield f"[{key}]" if isinstance(key, int) else f".{key}" if key.isidentifier() else f"[{msgspec.json.encode(key).decode()}]"
