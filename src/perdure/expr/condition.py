"""Conditions: rows that a form can show, groups of them, and expressions as the way out. Compiled once, evaluated against a scope to true or false.

::

    true | "@step.ok"                                             as it is; a reference alone asks whether it is true
    {ref: "@step.count", gt: 0}                                   a row: a reference or a JSONPath, at most one operator, a value or template
    {ref: "$.items[*].amount", sum: {gt: 100}}                    count, sum, min, max of many values; any and all hold a comparison against each
    {ref: "@self", matches: {required: [data]}}                   JSON Schema
    {all: [...]}  {any: [...]}  {not: ...}                        groups, from left to right, no further than is needed
    {expr: "self.score > 0.5"}                                    CEL; `source` beside it is what was written in another dialect, for messages
    {python: "def evaluate(output, context): ..."}
    {braces: "steps.count.output.data >= 3"}                      what is written without its {{ }}, see `braces`

In a JSONPath ``$`` is ``@self`` or, where `dollar` says so, ``@steps``; ``.length()`` may stand behind it. A row about what is missing is an error, or does
not hold, as `missing` says; ``exists`` and ``empty`` may be asked of it.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.expr import bound, braces, cel, jsonpath, python, schema
from perdure.expr.marks import escaped
from perdure.expr.missing import Absent, Missing, Nowhere, Unfit
from perdure.expr.operators import AGGREGATES, OF_NOTHING, OPERATORS, QUANTIFIERS, Holds, checked
from perdure.expr.refs import Read, Scope, getter, parse, was_skipped
from perdure.expr.template import CACHED_BYTES_MAX, Expressions, packed, unpacked
from perdure.expr.template import compiled as template
from perdure.expr.values import cut, kind, shown, truthy

Dollar = Literal["self", "steps"]
Missed = Callable[[str, str], None]
"""Told of what was missing where that makes a row not hold: the pointer to the row, and what."""

GROUPS = ("all", "any", "not")
DECIDED = frozenset(("expr", "python", "braces"))
COMPARED = frozenset((*OPERATORS, "matches"))
KEYS = frozenset((*COMPARED, *AGGREGATES, *QUANTIFIERS))


class _Asked(NamedTuple):
    """One evaluation: the scope, what the Python in it said, and who is told of what is missing."""

    scope: Scope
    python: Sequence[bool]
    missed: Missed | None


Judge = Callable[[_Asked], bool]


class Condition:
    """A condition: what it `reads`, the sources of `python` in it, in order, and whether it holds in a scope."""

    __slots__ = ("_judge", "python", "reads")

    def __init__(self, judge: Judge, reads: frozenset[Read], python: tuple[str, ...]) -> None:
        self._judge, self.reads, self.python = judge, reads, python

    def evaluate(self, scope: Scope, python: Sequence[bool] = (), missed: Missed | None = None) -> bool:
        """Whether it holds. `python` has the answers of the sources in `python`, one for each; `missed` is told of rows that do not hold because
        something is missing.

        Raises:
            ExpressionFailed: something is missing that has to be there, or is of a kind that can't be compared so.
        """
        if len(python) != len(self.python):
            raise ExpressionFailed("", f"the condition has {len(self.python)} parts in Python, and {len(python)} answers", "give one for each")
        try:
            return self._judge(_Asked(scope, python, missed))
        except RecursionError:
            raise ExpressionFailed("", "what is compared nests too deep", "compare a part of it") from None


def compiled(condition: Any, missing: Missing = "error", dollar: Dollar = "self", expressions: Expressions = "none") -> Condition:
    """The condition that a value is; the same one for the same value, as long as it is in use and small.

    What a row compares with may have `expressions` in it, as a template.

    Raises:
        BadExpression: it is none.
    """
    key = packed(condition)
    return _cached(key, missing, dollar, expressions) if len(key) <= CACHED_BYTES_MAX else _compile(unpacked(key), missing, dollar, expressions)


@lru_cache(maxsize=2048)
def _cached(key: bytes, missing: Missing, dollar: Dollar, expressions: Expressions) -> Condition:
    return _compile(unpacked(key), missing, dollar, expressions)


def _compile(condition: Any, missing: Missing, dollar: Dollar, expressions: Expressions) -> Condition:
    compiler = _Compiler(missing, dollar, expressions)
    judge = compiler.judge(condition, "")
    return Condition(judge, frozenset(compiler.reads), tuple(compiler.python))


class _Compiler:
    """Makes judges of one condition, and notes what they read."""

    def __init__(self, missing: Missing, dollar: Dollar, expressions: Expressions) -> None:
        self.missing, self.dollar, self.expressions = missing, dollar, expressions
        self.reads: set[Read] = set()
        self.python: list[str] = []

    def judge(self, one: Any, where: str) -> Judge:
        """What decides a condition."""
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
                    where, f"{shown(one)} is no condition", 'write {ref: "@step.field", eq: …}, {all: […]}, {any: […]}, {not: …} or {expr: "…"}'
                )

    def _group(self, one: dict[str, Any], where: str) -> Judge:
        if one.keys() == {"expr", "source"}:
            return self._expr(one["expr"], f"{where}/expr", one["source"])
        if len(one) != 1 or (name := next(iter(one))) not in (*GROUPS, *DECIDED):
            found = f"a condition with {', '.join(cut(repr(key), 30) for key in list(one)[:4])}" if one else "an empty condition"
            hint = "a row has ref and one operator; a group is one of all, any and not; else it is expr or python alone"
            raise BadExpression(where, f"{found} is none", hint)
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
            raise BadExpression(there, f"{name} holds {shown(inner)}", "it holds a list of conditions, one at least")
        judges = [self.judge(part, f"{there}/{place}") for place, part in enumerate(inner)]
        if name == "all":
            return lambda asked: all(judge(asked) for judge in judges)
        return lambda asked: any(judge(asked) for judge in judges)

    def _expr(self, text: Any, where: str, source: Any = "") -> Judge:
        if type(text) is not str or type(source) is not str:
            raise BadExpression(where, f"expr holds {shown(text)}", "it holds a CEL expression, as text; so does source beside it")
        expression = cel.compiled(text, where, source)
        self.reads.update(read._replace(where=where) for read in expression.reads)
        return self._guarded(lambda asked: expression.holds(asked.scope), where, None)

    def _python(self, source: Any, where: str) -> Judge:
        place = len(self.python)
        self.python.append(python.checked(source, where))
        return lambda asked: bool(asked.python[place])

    def _braces(self, text: Any, where: str) -> Judge:
        if type(text) is not str:
            raise BadExpression(where, f"braces holds {shown(text)}", "it holds an expression as it stands between {{ and }}, as text")
        expression = braces.condition(text, where)
        self.reads.update(read._replace(where=where) for read in expression.reads)
        return lambda asked: bool(expression.evaluate(asked.scope, where))

    def _row(self, row: dict[str, Any], where: str, at_ref: str) -> Judge:
        asked_for = [key for key in row if key != "ref"]
        for key in asked_for:
            if key not in KEYS:
                raise BadExpression(f"{where}/{escaped(key)}", f"{cut(key)!r} is no operator", f"there are {', '.join(sorted(KEYS))}")
        if len(asked_for) > 1:
            found = " and ".join(f"'{key}'" for key in asked_for[:3])
            raise BadExpression(where, f"one operator per row, found {found}", "put them under all: […]")
        name = asked_for[0] if asked_for else ""
        find, many, measure = self._left(row["ref"], at_ref)
        if name in AGGREGATES or name in QUANTIFIERS:
            judge = self._of_many(name, row[name], where)
            return self._guarded(lambda asked: judge(asked, find(asked.scope)), where, lambda asked: judge(asked, ()))
        if name == "":
            return self._guarded(lambda asked: _is_true(measure(find(asked.scope)), many), where, lambda asked: False)
        compare = self._comparison(name, row[name], where)
        return self._guarded(lambda asked: compare(asked, measure(find(asked.scope))), where, lambda asked: compare(asked, None), name in OF_NOTHING)

    def _left(self, ref: Any, where: str) -> tuple[Callable[[Scope], Any], bool, Callable[[Any], Any]]:
        """How the left side is found, whether it is many values, and what of it is compared."""
        if type(ref) is not str or ref[:1] not in ("@", "$"):
            raise BadExpression(where, f"ref holds {shown(ref)}", 'it holds a reference such as "@step.field", or a JSONPath such as "$.items[*].price"')
        if ref[0] == "@":
            parsed = parse(ref, where)
            if parsed.root == "secrets":
                raise BadExpression(where, f"{cut(ref)!r} looks at a secret", "secrets stand in with, env and headers only")
            self.reads.add(parsed.read(where))
            return getter(parsed), False, _same
        query = jsonpath.compiled(ref, where)
        if self.dollar == "self":
            self.reads.update(Read("self", "", start, where) for start in query.starts)
            root: Callable[[Scope], Any] = _self
        else:
            steps = bound.named(query.starts, ref, where)
            self.reads.update(bound.read(start, where) for start in query.starts)

            def root(scope: Scope) -> Any:
                return bound.given(scope, steps)

        if not query.singular:
            return (lambda scope: query.find(root(scope))), True, len if query.length else _same

        def only(scope: Scope) -> Any:
            if nodes := query.find(root(scope)):
                return nodes[0]
            if self.dollar == "steps" and was_skipped(scope, str(query.starts[0][0])):
                return None
            raise Absent(f"{cut(ref)!r} finds nothing", "ask with exists first, or count")

        return only, False, (lambda value: _length(value, ref)) if query.length else _same

    def _comparison(self, name: str, right: Any, where: str) -> Callable[[_Asked, Any], bool]:
        there = f"{where}/{name}"
        if name == "matches":
            if type(right) not in (dict, bool):
                raise BadExpression(there, f"matches holds {shown(right)}", "it holds a JSON Schema")
            try:
                validator = schema.compiled(right)
            except BadExpression as bad:
                raise BadExpression(there, bad.what, bad.hint) from None
            return lambda asked, left: bool(validator.is_valid(left))
        holds: Holds = OPERATORS[name]
        try:
            made = template(right, "null" if self.missing == "null" else "error", self.expressions)
        except BadExpression as bad:
            raise BadExpression(f"{there}{bad.where}", bad.what, bad.hint, bad.at) from None
        self.reads.update(read._replace(where=f"{there}{read.where}") for read in made.reads)
        if any(read.root == "secrets" for read in made.reads):
            raise BadExpression(there, "a condition looks at a secret", "secrets stand in with, env and headers only")
        if made.constant:
            constant = made.evaluate(_NOWHERE)
            checked(name, constant, there)
            return lambda asked, left: holds(left, constant)
        if name in OF_NOTHING:
            raise BadExpression(there, f"{name} is true or false, not a reference", f"write {name}: true")
        return lambda asked, left: holds(left, self._right(made.evaluate, asked, there))

    def _right(self, evaluate: Callable[[Scope], Any], asked: _Asked, where: str) -> Any:
        try:
            return evaluate(asked.scope)
        except ExpressionFailed as failed:
            if self.missing == "false":
                raise Absent(failed.what, failed.hint) from None
            raise ExpressionFailed(f"{where}{failed.where}", failed.what, failed.hint) from None

    def _of_many(self, name: str, inner: Any, where: str) -> Callable[[_Asked, Any], bool]:
        there = f"{where}/{name}"
        if name == "count" and type(inner) is int:
            inner = {"eq": inner}
        if type(inner) is not dict or len(inner) != 1 or (operator := next(iter(inner))) not in COMPARED:
            raise BadExpression(there, f"{name} holds {shown(inner)}", f"it holds one comparison, such as {name}: {{gt: 0}}")
        compare = self._comparison(operator, inner[operator], there)
        if name in AGGREGATES:
            aggregate = AGGREGATES[name]
            return lambda asked, value: compare(asked, aggregate(_values(name, value)))
        if name == "any":
            return lambda asked, value: any(compare(asked, one) for one in _values(name, value))
        return lambda asked, value: all(compare(asked, one) for one in _values(name, value))

    def _guarded(self, judge: Judge, where: str, of_null: Judge | None, always: bool = False) -> Judge:
        """The same, with what is missing taken as the dialect does: `of_null` decides if that is as null, `always` in every dialect."""
        missing = self.missing

        def guarded(asked: _Asked) -> bool:
            try:
                return judge(asked)
            except Absent as absent:
                unfit = isinstance(absent, Unfit)
                if of_null is not None and not unfit and (always or (missing == "null" and not isinstance(absent, Nowhere))):
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
    raise Unfit(f"{name} is of many values, and {shown(value)} is {kind(value)}", "refer to a list, or choose several values with a JSONPath")


def _self(scope: Scope) -> Any:
    try:
        return scope.root("self")
    except KeyError:
        raise Nowhere("$ is the result of the step itself, and there is none here", "write a reference, such as @step.field") from None


def _length(value: Any, ref: str) -> Any:
    found = jsonpath.length(value)
    if jsonpath.is_nothing(found):
        raise Unfit(f"{cut(ref)!r} asks for the length of {shown(value)}, which is {kind(value)}", "text, lists and mappings have one")
    return found


def _is_true(value: Any, many: bool) -> bool:
    return bool(value) if many else truthy(value)


class _Nowhere:
    """The scope of what reads nothing."""

    def root(self, name: str) -> Any:
        raise KeyError(name)

    step = envelope = root


_NOWHERE: Any = _Nowhere()
