"""Conditions: rows that a form can show, groups of rows, and expressions. Compiled once, then evaluated against a scope to true or false.

::

    true | "@step.ok"                                             a constant; a reference alone holds if its value is true
    {ref: "@step.count", gt: 0}                                   a row: a reference or a JSONPath, at most one operator, a value or template
    {ref: "$.items[*].amount", sum: {gt: 100}}                    count, sum, min, max of many values; any and all compare each
    {ref: "@self", matches: {required: [data]}}                   JSON Schema
    {all: [...]}  {any: [...]}  {not: ...}                        groups, evaluated from left to right, no further than necessary
        {expr: "self.score > 0.5"}                                    CEL; `source` beside it is the author's text in another dialect, for messages
    {python: "def evaluate(output, context): ..."}
    {braces: "steps.count.output.data >= 3"}                      an expression of the ``{{ }}`` language without its braces, see `braces`

In a JSONPath ``$`` is ``@self`` or, by `dollar`, ``@steps``; it may end with ``.length()``. The policy `missing` decides whether a row that reads a missing
value is an error or is false; ``exists`` and ``empty`` accept missing values.

Null is neither less nor greater than anything, contains nothing and is in no list: such a row is false. A value of another type that an operator can
not compare raises `ValueKindError`.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.definitions.expr import braces, cel, json_schema, jsonpath, python_syntax, references
from perdure.definitions.expr.plain_values import (
    MissingPolicy,
    MissingValueError,
    RootUnavailableError,
    ValueKindError,
    is_truthy,
    json_equal,
    short_value_text,
    shortened,
    value_kind,
)
from perdure.definitions.expr.references import ExpressionRead, ExpressionScope, parse_reference, reference_getter, was_skipped
from perdure.definitions.expr.regular_expressions import compile_regex
from perdure.definitions.expr.secret_marks import escape_pointer_key
from perdure.definitions.expr.template import CACHED_BYTES_MAX, Expressions, pack_value, unpack_value
from perdure.definitions.expr.template import compile_template as template

OperatorTest = Callable[[Any, Any], bool]


def _ordered(sign: str, holds: OperatorTest) -> OperatorTest:
    def compare(left: Any, right: Any) -> bool:
        of_left, of_right = type(left), type(right)
        if ((of_left is int or of_left is float) and (of_right is int or of_right is float)) or of_left is str is of_right:
            return holds(left, right)
        if left is None or right is None:
            return False
        raise ValueKindError(
            f"{short_value_text(left)} {sign} {short_value_text(right)} compares {value_kind(left)} with {value_kind(right)}",
            "numbers are compared with numbers, text with text",
        )

    return compare


def _is_in(left: Any, right: Any) -> bool:
    if type(right) is list:
        return any(json_equal(left, item) for item in right)
    if right is None:
        return False
    raise ValueKindError(
        f"in asks whether a list has it, and {short_value_text(right)} is {value_kind(right)}",
        "give a list; to look into text write contains, with the text as ref",
    )


def _contains(left: Any, right: Any) -> bool:
    match left:
        case None:
            return False
        case list():
            return any(json_equal(item, right) for item in left)
        case str() if type(right) is str:
            return right in left
        case dict() if type(right) is str:
            return right in left
        case _:
            raise ValueKindError(
                f"{short_value_text(left)} can't contain {short_value_text(right)}", "a list contains values, text contains text, a mapping its keys"
            )


def _text_operator(what: str, holds: Callable[[str, str], bool]) -> OperatorTest:
    def compare(left: Any, right: Any) -> bool:
        if type(left) is str is type(right):
            return holds(left, right)
        if left is None or right is None:
            return False
        raise ValueKindError(f"{what} takes text on both sides, not {value_kind(left)} and {value_kind(right)}", "refer to text")

    return compare


def _matches_re(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    if type(left) is not str or type(right) is not str:
        raise ValueKindError(f"matches_re takes text on both sides, not {value_kind(left)} and {value_kind(right)}", "refer to text")
    try:
        return compile_regex(right).search(left) is not None
    except BadExpression as bad:
        raise ValueKindError(bad.what, bad.hint) from None


def _is_empty(left: Any, right: Any) -> bool:
    return (left is None or left == "" or left == [] or left == {}) is (right is not False)


def _exists(left: Any, right: Any) -> bool:
    return (left is not None) is (right is not False)


OPERATORS: dict[str, OperatorTest] = {
    "eq": json_equal,
    "neq": lambda left, right: not json_equal(left, right),
    "gt": _ordered(">", lambda left, right: bool(left > right)),
    "gte": _ordered(">=", lambda left, right: bool(left >= right)),
    "lt": _ordered("<", lambda left, right: bool(left < right)),
    "lte": _ordered("<=", lambda left, right: bool(left <= right)),
    "in": _is_in,
    "contains": _contains,
    "starts_with": _text_operator("starts_with", str.startswith),
    "ends_with": _text_operator("ends_with", str.endswith),
    "matches_re": _matches_re,
    "exists": _exists,
    "empty": _is_empty,
}
"""The operators as functions of the left and the right value; a missing value is None for `exists` and `empty`."""

OF_NOTHING = frozenset(("exists", "empty"))
"""The operators that accept a missing value."""


def count_of(values: Sequence[Any]) -> int:
    """Returns the number of values."""
    return len(values)


def sum_of(values: Sequence[Any]) -> Any:
    """Returns the sum of the values, 0 if there are none."""
    return sum(_numbers("sum", values))


def least_of(values: Sequence[Any]) -> Any:
    """Returns the smallest value, None if there are none."""
    return min(_numbers("min", values), default=None)


def greatest_of(values: Sequence[Any]) -> Any:
    """Returns the largest value, None if there are none."""
    return max(_numbers("max", values), default=None)


def _numbers(what: str, values: Sequence[Any]) -> Sequence[Any]:
    for value in values:
        if type(value) is not int and type(value) is not float:
            raise ValueKindError(
                f"{what} is made of numbers, and one of the {len(values)} is {short_value_text(value)}", "choose the numbers with a filter in the path"
            )
    return values


AGGREGATES: dict[str, Callable[[Sequence[Any]], Any]] = {"count": count_of, "sum": sum_of, "min": least_of, "max": greatest_of}
"""The aggregates of several values, whose result is compared."""

QUANTIFIERS = frozenset(("any", "all"))
"""Quantifiers: a comparison must be true of at least one of many values, or of each."""


def check_right_side(name: str, right: Any, where: str) -> None:
    """Checks a constant right side.

    Raises:
        BadExpression: the operator does not accept it.
    """
    match name:
        case "exists" | "empty" if type(right) is not bool:
            raise BadExpression(where, f"{name} is true or false, not {short_value_text(right)}", f"write {name}: true")
        case "in" if type(right) is not list:
            raise BadExpression(where, f"in takes a list, not {short_value_text(right)}", "write in: [a, b], or a reference to a list")
        case "gt" | "gte" | "lt" | "lte" if type(right) not in (int, float, str):
            raise BadExpression(where, f"{name} compares with a number or text, not with {short_value_text(right)}", "write a number, text, or a reference")
        case "starts_with" | "ends_with" | "matches_re" if type(right) is not str:
            raise BadExpression(where, f"{name} takes text, not {short_value_text(right)}", "write text, or a reference to text")
        case "matches_re":
            try:
                compile_regex(right)
            except BadExpression as bad:
                raise BadExpression(where, bad.what, bad.hint) from None
        case _ if name not in OPERATORS:
            raise BadExpression(where, f"{shortened(name)!r} is not an operator", f"use one of {', '.join(OPERATORS)}")


Dollar = Literal["self", "steps"]
Missed = Callable[[str, str], None]
"""Called with the pointer of a row that is false because a value is missing, and the name of the value."""

GROUPS = ("all", "any", "not")
DECIDED = frozenset(("expr", "python", "braces"))
COMPARED = frozenset((*OPERATORS, "matches"))
CONDITION_KEYS = frozenset((*COMPARED, *AGGREGATES, *QUANTIFIERS))


class _ConditionEvaluation(NamedTuple):
    """One evaluation: the scope, the results of its Python conditions, and the callback for missing values."""

    scope: ExpressionScope
    python: Sequence[bool]
    missed: Missed | None


ConditionTest = Callable[[_ConditionEvaluation], bool]


class CompiledCondition:
    """A compiled condition: its `source` and the rules by which it was compiled, what it `reads`, the sources of its `python` parts, and its evaluation."""

    __slots__ = ("_judge", "dollar", "expressions", "missing", "python", "reads", "source")

    def __init__(self, source: Any, compiler: "ConditionCompiler") -> None:
        self.source, self.missing, self.dollar, self.expressions = source, compiler.missing, compiler.dollar, compiler.expressions
        self._judge = compiler.judge(source, "")
        self.reads, self.python = frozenset(compiler.reads), tuple(compiler.python)

    def evaluate(self, scope: ExpressionScope, python: Sequence[bool] = (), missed: Missed | None = None) -> bool:
        """Evaluates the condition. `python` has a result for each source in `self.python`; `missed` is called for each row that is false because
        a value is missing.

        Raises:
            ExpressionFailed: a required value is missing, or has a type that can't be compared.
        """
        if len(python) != len(self.python):
            raise ExpressionFailed("", f"the condition has {len(self.python)} parts in Python, and {len(python)} answers", "pass one for each")
        try:
            return self._judge(_ConditionEvaluation(scope, python, missed))
        except RecursionError:
            raise ExpressionFailed("", "a compared value nests too deep", "compare a part of it") from None


def compile_condition(condition: Any, missing: MissingPolicy = "error", dollar: Dollar = "self", expressions: Expressions = "none") -> CompiledCondition:
    """Compiles a condition; returns the same object for the same small value while it is in use.

    By `expressions`, the values that rows compare with may contain expressions, as templates do.

    Raises:
        BadExpression: the condition is not valid.
    """
    key = pack_value(condition)
    return _cached(key, missing, dollar, expressions) if len(key) <= CACHED_BYTES_MAX else _compile(unpack_value(key), missing, dollar, expressions)


@lru_cache(maxsize=2048)
def _cached(key: bytes, missing: MissingPolicy, dollar: Dollar, expressions: Expressions) -> CompiledCondition:
    return _compile(unpack_value(key), missing, dollar, expressions)


def _compile(condition: Any, missing: MissingPolicy, dollar: Dollar, expressions: Expressions) -> CompiledCondition:
    return CompiledCondition(condition, ConditionCompiler(missing, dollar, expressions))


class ConditionCompiler:
    """Compiles the parts of one condition, and collects what they read."""

    def __init__(self, missing: MissingPolicy, dollar: Dollar, expressions: Expressions) -> None:
        self.missing, self.dollar, self.expressions = missing, dollar, expressions
        self.reads: set[ExpressionRead] = set()
        self.python: list[str] = []

    def judge(self, one: Any, where: str) -> ConditionTest:
        """Returns the function that evaluates a condition."""
        match one:
            case bool():
                return lambda asked: one
            case str():
                return self._row({"ref": one}, where, where)
            case dict() if "ref" in one:
                return self._row(one, where, f"{where}/ref")
            case dict():
                return self._group(one, where)
            case _:
                raise BadExpression(
                    where, f"{short_value_text(one)} is not a condition", 'write {ref: "@step.field", eq: …}, {all: […]}, {any: […]}, {not: …} or {expr: "…"}'
                )

    def _group(self, one: dict[str, Any], where: str) -> ConditionTest:
        if one.keys() == {"expr", "source"}:
            return self._expr(one["expr"], f"{where}/expr", one["source"])
        if len(one) != 1 or (name := next(iter(one))) not in (*GROUPS, *DECIDED):
            found = f"a condition with {', '.join(shortened(repr(key), 30) for key in list(one)[:4])}" if one else "an empty condition"
            hint = "write a row with ref and one operator, a group with one of all, any and not, or expr or python alone"
            raise BadExpression(where, f"{found} is not valid", hint)
        inner, there = one[name], f"{where}/{name}"
        match name:
            case "not":
                judge = self.judge(inner, there)
                return lambda asked: not judge(asked)
            case "expr":
                return self._expr(inner, there)
            case "python":
                return self._python(inner, there)
            case "braces":
                return self._braces(inner, there)
        if type(inner) is not list or not inner:
            raise BadExpression(there, f"{name} holds {short_value_text(inner)}", "write a list of at least one condition")
        judges = [self.judge(part, f"{there}/{place}") for place, part in enumerate(inner)]
        if name == "all":
            return lambda asked: all(judge(asked) for judge in judges)
        return lambda asked: any(judge(asked) for judge in judges)

    def _expr(self, text: Any, where: str, source: Any = "") -> ConditionTest:
        if type(text) is not str or type(source) is not str:
            raise BadExpression(where, f"expr holds {short_value_text(text)}", "write a CEL expression as text; source beside it is text as well")
        expression = cel.compile_cel(text, where, source)
        self.reads.update(read._replace(where=where) for read in expression.reads)
        return self._guarded(lambda asked: expression.holds(asked.scope), where, None)

    def _python(self, source: Any, where: str) -> ConditionTest:
        place = len(self.python)
        self.python.append(python_syntax.checked_condition_source(source, where))
        return lambda asked: bool(asked.python[place])

    def _braces(self, text: Any, where: str) -> ConditionTest:
        if type(text) is not str:
            raise BadExpression(where, f"braces holds {short_value_text(text)}", "write the expression between {{ and }} as text, without these braces")
        expression = braces.compile_braces_condition(text, where)
        self.reads.update(read._replace(where=where) for read in expression.reads)
        return lambda asked: bool(expression.evaluate(asked.scope, where))

    def _row(self, row: dict[str, Any], where: str, at_ref: str) -> ConditionTest:
        asked_for = [key for key in row if key != "ref"]
        for key in asked_for:
            if key not in CONDITION_KEYS:
                raise BadExpression(
                    f"{where}/{escape_pointer_key(key)}", f"{shortened(key)!r} is not an operator", f"use one of {', '.join(sorted(CONDITION_KEYS))}"
                )
        if len(asked_for) > 1:
            found = " and ".join(f"'{key}'" for key in asked_for[:3])
            raise BadExpression(where, f"a row has one operator, found {found}", "write a row for each, under all: […]")
        name = asked_for[0] if asked_for else ""
        find, many, measure = self.left(row["ref"], at_ref)
        if name in AGGREGATES or name in QUANTIFIERS:
            judge = self._of_many(name, row[name], where)
            return self._guarded(lambda asked: judge(asked, find(asked.scope)), where, lambda asked: judge(asked, ()))
        if name == "":
            return self._guarded(lambda asked: _is_true(measure(find(asked.scope)), many), where, lambda asked: False)
        compare = self._comparison(name, row[name], where)
        return self._guarded(lambda asked: compare(asked, measure(find(asked.scope))), where, lambda asked: compare(asked, None), name in OF_NOTHING)

    def left(self, ref: Any, where: str) -> tuple[Callable[[ExpressionScope], Any], bool, Callable[[Any], Any]]:
        """Returns how to read the left side, whether it has many values, and what to compare of each."""
        if type(ref) is not str or ref[:1] not in ("@", "$"):
            raise BadExpression(
                where, f"ref holds {short_value_text(ref)}", 'write a reference such as "@step.field", or a JSONPath such as "$.items[*].price"'
            )
        if ref[0] == "@":
            parsed = parse_reference(ref, where)
            if parsed.root == "secrets":
                raise BadExpression(where, f"{shortened(ref)!r} reads a secret", "use secrets in with, env and headers only")
            self.reads.add(parsed.read(where))
            return reference_getter(parsed), False, _same
        query = jsonpath.compile_jsonpath(ref, where)
        if self.dollar == "self":
            self.reads.update(ExpressionRead("self", "", start, where) for start in query.starts)
            root: Callable[[ExpressionScope], Any] = _self
        else:
            steps = references.steps_of_paths(query.starts, ref, where)
            self.reads.update(references.read_of_path(start, where) for start in query.starts)

            def root(scope: ExpressionScope) -> Any:
                return references.step_values(scope, steps)

        if not query.singular:
            return (lambda scope: query.find(root(scope))), True, len if query.length else _same

        def only(scope: ExpressionScope) -> Any:
            if nodes := query.find(root(scope)):
                return nodes[0]
            if self.dollar == "steps" and was_skipped(scope, str(query.starts[0][0])):
                return None
            raise MissingValueError(f"{shortened(ref)!r} finds nothing", "test it with exists first, or count")

        return only, False, (lambda value: _length(value, ref)) if query.length else _same

    def _comparison(self, name: str, right: Any, where: str) -> Callable[[_ConditionEvaluation, Any], bool]:
        there = f"{where}/{name}"
        if name == "matches":
            if type(right) not in (dict, bool):
                raise BadExpression(there, f"matches holds {short_value_text(right)}", "write a JSON Schema")
            try:
                validator = json_schema.compile_schema(right)
            except BadExpression as bad:
                raise BadExpression(there, bad.what, bad.hint) from None
            return lambda asked, left: bool(validator.is_valid(left))
        holds: OperatorTest = OPERATORS[name]
        try:
            made = template(right, "null" if self.missing == "null" else "error", self.expressions)
        except BadExpression as bad:
            raise BadExpression(f"{there}{bad.where}", bad.what, bad.hint, bad.at) from None
        self.reads.update(read._replace(where=f"{there}{read.where}") for read in made.reads)
        if any(read.root == "secrets" for read in made.reads):
            raise BadExpression(there, "a condition reads a secret", "use secrets in with, env and headers only")
        if made.constant:
            constant = made.evaluate(_EMPTY_SCOPE)
            check_right_side(name, constant, there)
            return lambda asked, left: holds(left, constant)
        if name in OF_NOTHING:
            raise BadExpression(there, f"{name} is true or false, not a reference", f"write {name}: true")
        return lambda asked, left: holds(left, self._right(made.evaluate, asked, there))

    def _right(self, evaluate: Callable[[ExpressionScope], Any], asked: _ConditionEvaluation, where: str) -> Any:
        try:
            return evaluate(asked.scope)
        except ExpressionFailed as failed:
            if self.missing == "false":
                raise MissingValueError(failed.what, failed.hint) from None
            raise ExpressionFailed(f"{where}{failed.where}", failed.what, failed.hint) from None

    def _of_many(self, name: str, inner: Any, where: str) -> Callable[[_ConditionEvaluation, Any], bool]:
        there = f"{where}/{name}"
        if name == "count" and type(inner) is int:
            inner = {"eq": inner}
        if type(inner) is not dict or len(inner) != 1 or (operator := next(iter(inner))) not in COMPARED:
            raise BadExpression(there, f"{name} holds {short_value_text(inner)}", f"write one comparison, such as {name}: {{gt: 0}}")
        compare = self._comparison(operator, inner[operator], there)
        if name in AGGREGATES:
            aggregate = AGGREGATES[name]
            return lambda asked, value: compare(asked, aggregate(_values(name, value)))
        if name == "any":
            return lambda asked, value: any(compare(asked, one) for one in _values(name, value))
        return lambda asked, value: all(compare(asked, one) for one in _values(name, value))

    def _guarded(self, judge: ConditionTest, where: str, of_null: ConditionTest | None, always: bool = False) -> ConditionTest:
        """Returns a test that treats missing values by the policy: `of_null` replaces the test where they are null, `always` in every dialect."""
        missing = self.missing

        def guarded(asked: _ConditionEvaluation) -> bool:
            try:
                return judge(asked)
            except MissingValueError as absent:
                unfit = isinstance(absent, ValueKindError)
                if of_null is not None and not unfit and (always or (missing == "null" and not isinstance(absent, RootUnavailableError))):
                    return of_null(asked)
                if unfit or missing != "false":
                    raise ExpressionFailed(where, absent.what, absent.hint) from None
                if asked.missed is not None:
                    asked.missed(where, absent.what)
                return False

        return guarded


def _same(value: Any) -> Any:
    return value


def _values(name: str, value: Any) -> Sequence[Any]:
    if type(value) is list:
        return value
    if value is None or value == ():
        return ()
    raise ValueKindError(
        f"{name} is of many values, and {short_value_text(value)} is {value_kind(value)}", "refer to a list, or choose several values with a JSONPath"
    )


def _self(scope: ExpressionScope) -> Any:
    try:
        return scope.root("self")
    except KeyError:
        raise RootUnavailableError("$ is the result of the step itself, which has none here", "write a reference, such as @step.field") from None


def _length(value: Any, ref: str) -> Any:
    found = jsonpath.length_of_value(value)
    if jsonpath.is_nothing(found):
        raise ValueKindError(
            f"{shortened(ref)!r} asks for the length of {short_value_text(value)}, which is {value_kind(value)}", "text, lists and mappings have one"
        )
    return found


def _is_true(value: Any, many: bool) -> bool:
    return bool(value) if many else is_truthy(value)


class _EmptyScope:
    """The scope of a condition without references."""

    def root(self, name: str) -> Any:
        raise KeyError(name)

    step = envelope = root


_EMPTY_SCOPE: Any = _EmptyScope()
