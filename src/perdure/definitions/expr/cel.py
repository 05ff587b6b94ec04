"""Compiles and evaluates CEL with `cel-expr-python`, Google's implementation, an optional dependency.

An expression receives the roots that it names, the data of the steps that it names (``enrich.revenue``), and of ``steps`` those that it indexes
(``steps["a-b"].score`` is data, ``steps.fetch.output.meta`` part of the envelope). Of each it receives only the fields that it reads by constant paths, so
the size of the other fields costs nothing.

An error is never true: a missing key, an overflow, a number compared with a text. Functions are the standard ones and the macros of two variables
(``list.all(i, v, v > i)``).

The library bounds iterations (10,000) and depth (32). The work of one iteration, and the growth of texts and lists, is bounded here: without that,
``[["x"]].map(x, x + x).map(x, x + x)…`` fills the memory, and ``a.all(x, b == c)`` compares large lists ten thousand times. Only expressions that could do so
are measured against the size of their input.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

import msgspec

from perdure.core.errors import BadExpression, MissingExtra
from perdure.definitions.expr import references
from perdure.definitions.expr.cel_names import CEL_RESERVED, CEL_TYPES, CelNames, CelNameUse, names_in_cel
from perdure.definitions.expr.plain_values import MissingValueError, ValueKindError, shortened, value_kind
from perdure.definitions.expr.references import EXPRESSION_CHARACTERS_MAX, ROOTS, ExpressionRead, ExpressionScope, ValuePath

TURNS_MAX = 10_000
"""The library's own limit of iterations."""

GROWTH_MAX = 1024
FREE = 32
"""With no more reads of the whole input than this, an expression costs too little to be counted."""

VALUES_MAX = 10_000_000
"""The most values that are read in total, which takes a tenth of a second."""

BYTES_MAX = 500_000_000
"""The most bytes of text that are read."""

MADE_BYTES_MAX = 100_000_000
"""The most bytes that additions may build."""


class CelCost:
    """The cost limits of an expression."""

    __slots__ = ("_all", "_each", "_grows", "_sums", "_turning")

    def __init__(self, text: str, names: CelNames) -> None:
        if names.growth > GROWTH_MAX:
            what = f"{shortened(text)!r} multiplies its values again and again in nested macros, up to {names.growth:,} times"
            raise BadExpression("", what, f"use at most {GROWTH_MAX:,}, or compute this in a step")
        if len(text) * (names.growth * names.sums + TURNS_MAX * names.turning_sums) > MADE_BYTES_MAX:
            raise BadExpression("", f"{shortened(text)!r} adds too often in its macros", "compute this in a step")
        self._all = len(names.uses) * names.growth
        self._grows = names.growth * names.sums
        self._each = TURNS_MAX * (sum(use.turns for use in names.uses) or int(names.crosses))
        self._turning = None if names.crosses else frozenset(use.name for use in names.uses if use.turns)
        self._sums = TURNS_MAX * names.turning_sums

    def check(self, given: Mapping[str, Any], called: Mapping[str, str]) -> None:
        """Checks the size of the input against the cost limits. `called` has the name in the CEL for each name of `given`.

        Raises:
            ValueKindError: the input is too large.
        """
        if self._all > FREE or self._grows > FREE:
            _within(given, self._all, self._grows)
        if self._each:
            again = given if self._turning is None else {name: given[called[name]] for name in self._turning if called[name] in given}
            _within(again, self._each, self._sums)


def _within(given: Mapping[str, Any], looks: int, sums: int) -> None:
    size = len(msgspec.msgpack.encode(given))
    if size * looks <= VALUES_MAX and size * sums <= MADE_BYTES_MAX:
        return
    count = count_values(given, VALUES_MAX // looks)
    if count * looks > VALUES_MAX or size * looks > BYTES_MAX or size * sums > MADE_BYTES_MAX:
        what = f"the expression reads its input up to {looks:,} times, and the input is too large for that ({size:,} bytes)"
        raise ValueKindError(what, "name the fields that it needs, read no other data within a macro, or compute this in a step")


def count_values(value: Any, enough: int) -> int:
    """Counts the values in a value; counting stops soon after `enough`."""
    count, waiting = 0, [value]
    while waiting and count <= enough:
        one = waiting.pop()
        count += 1
        if type(one) is dict:
            waiting.extend(one.values())
        elif type(one) is list:
            waiting.extend(one)
    return count


RequestedFields = dict[str, Any]
"""For each name of a field, the requested parts of it: all (None), or some of its own fields."""


class CelExpression:
    """A compiled expression, and what it reads. `reads` have an empty `where`.

    `source`, if given, is the author's text in the syntax of another dialect; messages quote it.
    """

    __slots__ = ("_compiled", "_cost", "_error", "_names", "_quoted", "_roots", "_steps", "_with_steps", "reads", "text")

    def __init__(self, text: str, library: ModuleType, source: str = "") -> None:
        said = names_in_cel(text)
        found = said.uses
        self.text = text
        self._quoted = source or text
        _refuse_expression(text, found)
        _refuse_macros(text)
        self._cost = CelCost(text, said)
        steps = [use.path for use in found if use.name == "steps"]
        self._with_steps = references.steps_of_paths(steps, text, "")
        self._roots = _fields(use for use in found if use.name in ROOTS and use.name != "steps")
        self._steps = _fields(use for use in found if use.name not in ROOTS)
        named = {*self._roots, *self._steps, *(["steps"] if steps else [])}
        self._names = _safe(named, text)
        self._error = library.Type.ERROR
        self.reads = frozenset(
            [
                *(references.read_of_path(path, "") for path in steps),
                *(
                    ExpressionRead(use.name, "", use.path, "") if use.name in ROOTS else ExpressionRead("step", use.name, use.path, "")
                    for use in found
                    if use.name != "steps"
                ),
            ]
        )
        variables = {self._names[name]: library.Type.DYN for name in named}
        try:
            self._compiled = library.NewEnv(config=_macros_of_two(library), variables=variables).compile(_renamed(text, found, self._names))
        except RuntimeError as error:
            raise _bad(text, str(error), source) from None

    def evaluate(self, scope: ExpressionScope) -> Any:
        """Returns the value.

        Raises:
            MissingValueError: a key or a result that it reads is missing.
            ValueKindError: it fails for any other reason.
        """
        try:
            given = self._given(scope)
            self._cost.check(given, self._names)
            found = self._compiled.eval(data=given)
            value = found.value()
            if type(value) is bool:
                return value
            failed = found.type() == self._error
            value = str(value) if failed else found.plain_value()
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            failed, value = True, str(error)
        if failed:
            raise _failed(self._quoted, value, self._names)
        return value

    def holds(self, scope: ExpressionScope) -> bool:
        """Evaluates a condition.

        Raises:
            MissingValueError, ValueKindError: as `evaluate`; also if the value is neither true nor false.
        """
        value = self.evaluate(scope)
        if type(value) is bool:
            return value
        raise ValueKindError(f"{shortened(self._quoted)!r} is {value_kind(value)}, and a condition is true or false", "compare it with something")

    def _given(self, scope: ExpressionScope) -> dict[str, Any]:
        found: dict[str, Any] = {}
        names = self._names
        for name, fields in self._roots.items():
            try:
                value = scope.root(name)
            except KeyError:
                continue
            found[names[name]] = value if fields is None else _part(value, fields)
        for name, fields in self._steps.items():
            try:
                value = scope.step(name)
            except KeyError:
                try:
                    value = scope.root(name)
                except KeyError:
                    continue
            found[names[name]] = value if fields is None else _part(value, fields)
        if self._with_steps:
            found[names["steps"]] = references.step_values(scope, self._with_steps)
        return found


def compile_cel(text: str, where: str = "", source: str = "") -> CelExpression:
    """Compiles a text. Messages quote `source` instead, if given.

    Raises:
        BadExpression: it is not CEL, or reads secrets.
    """
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise BadExpression(where, f"a CEL expression has {len(text):,} characters", f"write at most {EXPRESSION_CHARACTERS_MAX:,}, or compute this in a step")
    try:
        return _cached(text, source)
    except BadExpression as bad:
        raise BadExpression(where, bad.what, bad.hint, bad.at) from None


@lru_cache(maxsize=1024)
def _cached(text: str, source: str) -> CelExpression:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadExpression("", "a CEL expression contains a lone surrogate", "remove it")
    return CelExpression(text, _library(), source)


def _library() -> ModuleType:
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped]  # its types have no marker
    except ImportError:
        raise MissingExtra("CEL", "cel-expr-python", "definitions") from None
    module: ModuleType = cel
    return module


@lru_cache(maxsize=1)
def _macros_of_two(library: ModuleType) -> Any:
    """Returns the configuration of an environment that has the macros of two variables."""
    return library.NewEnvConfigFromYaml("extensions:\n- name: two-var-comprehensions\n")


def _refuse_macros(text: str) -> None:
    """Refuses macros that the library does not support."""
    if (found := re.search(r"\.\s*(transformMap(?:Entry)?)\s*\(", text)) is not None:
        raise BadExpression(
            "", f"{shortened(text)!r}: {found[1]} is not supported (character {found.start(1) + 1})", "use transformList, or build the mapping in a step"
        )


def _refuse_expression(text: str, found: list[CelNameUse]) -> None:
    for use in found:
        if use.name == "secrets":
            raise BadExpression("", f"{shortened(text)!r} reads a secret (character {use.at + 1})", "use secrets in with, env and headers only", use.at + 1)


def _fields(found: Iterable[CelNameUse]) -> dict[str, RequestedFields | None]:
    """Returns, for each name, the fields that are read; None if the whole value is."""
    wanted: dict[str, Any] = {}
    for use in found:
        _want(wanted, (use.name, *use.path))
    return wanted


def _want(wanted: dict[str, Any], path: ValuePath) -> None:
    for depth, field in enumerate(path, 1):
        name = str(field)
        if depth == len(path):
            wanted[name] = None
        elif wanted.setdefault(name, {}) is None:
            return
        else:
            wanted = wanted[name]


def _part(value: Any, fields: RequestedFields) -> Any:
    """Returns a value with only the requested fields."""
    if type(value) is not dict:
        return value
    return {name: value[name] if inner is None else _part(value[name], inner) for name, inner in fields.items() if name in value}


def _safe(named: Iterable[str], text: str) -> dict[str, str]:
    """Returns a replacement for each name that CEL reserves, of the same length, so that positions stay the same."""
    names: dict[str, str] = {}
    for name in named:
        safe = name
        if name in CEL_RESERVED | CEL_TYPES:
            safe = next((one for one in (f"{name[:-1]}{end}" for end in "_0123456789") if one not in text and one not in CEL_RESERVED | CEL_TYPES), name)
        names[name] = safe
    return names


def _renamed(text: str, found: list[CelNameUse], names: dict[str, str]) -> str:
    for use in found:
        if names[use.name] != use.name:
            text = f"{text[: use.at]}{names[use.name]}{text[use.at + len(use.name) :]}"
    return text


_PLACE = re.compile(r"<input>:(-?\d+):(-?\d+): (.*)")
_OVERLOAD = re.compile(r"[Nn]o matching overloads? ?(?:found)? ?:? ?(?:for )?'?_?([^\s_'(]+)_?'? ?(?:applied to )?'?\(([^)]*)\)")
_KEY = re.compile(r'Key not found in map : (.*)|No value with name "(.*)" found|(Applying SELECT to non-message)', re.DOTALL)
_KINDS = {"int64": "int", "null_type": "null", "google.protobuf.NullValue": "null"}


def _bad(text: str, words: str, source: str) -> BadExpression:
    """Translates a message of the compiler to plain words, without positions in the text, which do not match `source`."""
    if (found := _PLACE.search(words)) is None or int(found[1]) < 1:
        what = "it is nested too deeply" if "recursion" in words else shortened(words.splitlines()[0] if words else "", 120)
        return BadExpression("", f"{shortened(source or text)!r} is not CEL: {what}", "split it up, or compute this in a step")
    line, column, said = int(found[1]), int(found[2]), found[3].removeprefix("Syntax error: ")
    at = sum(len(before) + 1 for before in text.split("\n")[: line - 1]) + column
    hint = _mixed(said) or "see github.com/google/cel-spec"
    what = f"{shortened(source or text)!r} is not CEL: {shortened(said.partition(' expecting ')[0], 100)}"
    return BadExpression("", what, hint) if source else BadExpression("", f"{what} (character {at})", hint, at)


def _mixed(words: str) -> str:
    """Returns what to do about types that don't fit together; empty if the message is about something else."""
    if (found := _OVERLOAD.search(words)) is None:
        return ""
    kinds = [_KINDS.get(one.strip(), one.strip()) for one in found[2].split(",")]
    if set(kinds) == {"int", "double"}:
        return "CEL does not mix int and double: write double(x) around the int"
    return f"{found[1]} does not go with {' and '.join(kinds)}; ask for null with == null, and change kinds with int(x), double(x) or string(x)"


def _failed(text: str, words: str, names: dict[str, str]) -> MissingValueError:
    """Translates a message of a failed evaluation to plain words."""
    words = words.partition(": ")[2] or words
    if (found := _KEY.search(words)) is not None:
        if found[2]:
            name = next((ours for ours, safe in names.items() if safe == found[2]), found[2])
            return MissingValueError(f"{shortened(text)!r}: {shortened(name)!r} has no result here", "let this step need that one, or read it in another step")
        key = (found[1] or "").strip('"')
        what = "a field is read from a value without fields" if found[3] else f"there is no {shortened(key)!r}"
        return MissingValueError(f"{shortened(text)!r}: {what}", "test has(x.y) first, or x != null")
    return ValueKindError(f"{shortened(text)!r}: {shortened(words, 120)}", _mixed(words) or "correct the expression, or the step that returned the value")
