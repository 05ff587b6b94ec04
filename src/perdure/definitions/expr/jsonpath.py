"""JSONPath as in RFC 9535: parsed by `python-jsonpath`, an optional dependency, and evaluated here.

Evaluating here limits the steps of a query whatever its input, uses RE2 for regular expressions, and treats a root that is text as one value. A query returns
values, not their locations.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

from perdure.core.errors import BadExpression, MissingExtra
from perdure.definitions.expr.plain_values import ValueKindError, json_equal, shortened
from perdure.definitions.expr.references import EXPRESSION_CHARACTERS_MAX, ValuePath
from perdure.definitions.expr.regular_expressions import compile_regex

NODES_MAX = 40_000
STEPS_MAX = 100_000
_NOTHING: Any = object()
_LENGTH = re.compile(r"\.length\(\)\s*\Z")


class _Walk(NamedTuple):
    """One evaluation: the root $, and the number of steps that are left (a list of one)."""

    root: Any
    left: list[int]

    def spend(self, steps: int) -> None:
        self.left[0] -= steps
        if self.left[0] < 0:
            raise ValueKindError(f"the path takes more than {STEPS_MAX:,} steps", "make the path more specific, or select the values in a step")


Nodes = list[Any]
Follow = Callable[[Nodes, _Walk], Nodes]
Select = Callable[[Any, Nodes, _Walk], None]
FilterTest = Callable[[Any, _Walk], Any]


class JsonPathQuery:
    """A compiled query. `singular`: it finds at most one value. `length`: it returns the length of what it finds. `starts`: the constant
    beginnings of its paths from $."""

    __slots__ = ("_segments", "length", "singular", "starts")

    def __init__(self, segments: list[Follow], singular: bool, length: bool, starts: tuple[ValuePath, ...]) -> None:
        self._segments, self.singular, self.length, self.starts = segments, singular, length, starts

    def find(self, value: Any) -> Nodes:
        """Returns the values that the query finds in `value`, in the order of the RFC.

        Raises:
            ValueKindError: the query takes too many steps, or finds too many values.
        """
        nodes = _follow(self._segments, value, _Walk(value, [STEPS_MAX]))
        if len(nodes) > NODES_MAX:
            raise ValueKindError(f"the path finds {len(nodes):,} values", f"make it more specific: at most {NODES_MAX:,} are allowed")
        return nodes


def compile_jsonpath(text: str, where: str = "") -> JsonPathQuery:
    """Compiles a query, which may end with ``.length()``.

    Raises:
        BadExpression: the text is not a JSONPath.
    """
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise BadExpression(where, f"a JSONPath has {len(text):,} characters", f"write at most {EXPRESSION_CHARACTERS_MAX:,}")
    try:
        return _cached(text)
    except BadExpression as bad:
        raise BadExpression(where, bad.what, bad.hint, bad.at) from None


@lru_cache(maxsize=1024)
def _cached(text: str) -> JsonPathQuery:
    library, environment = _library()
    asks = _LENGTH.search(text)
    try:
        path = environment.compile(text[: asks.start()] if asks else text)
        starts: list[ValuePath] = [_start(path)]
        return JsonPathQuery(_segments(path, starts), path.singular_query(), asks is not None, tuple(starts))
    except library.JSONPathError as error:
        at = getattr(error.token, "index", -1) + 1
        what = f"{shortened(text)!r} is not a JSONPath: {shortened(str(error.args[0]), 100)}{f' (character {at})' if at > 0 else ''}"
        raise BadExpression("", what, "see RFC 9535; a path begins with $", at) from None
    except (ValueError, OverflowError, RecursionError, IndexError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else shortened(str(error), 100)
        raise BadExpression("", f"{shortened(text)!r} is not a JSONPath: {why}", "see RFC 9535; a path begins with $") from None


@lru_cache(maxsize=1)
def _library() -> tuple[ModuleType, Any]:
    try:
        import jsonpath
    except ImportError:
        raise MissingExtra("a JSONPath", "python-jsonpath", "definitions") from None
    return jsonpath, jsonpath.JSONPathEnvironment(strict=True)


def _start(path: Any) -> ValuePath:
    """Returns the names and indexes at the beginning of a path, up to the first that is not constant."""
    fixed: list[str | int] = []
    for segment in path.segments:
        only: Any = segment.selectors[0] if len(segment.selectors) == 1 and type(segment).__name__ == "JSONPathChildSegment" else None
        match type(only).__name__:
            case "NameSelector":
                fixed.append(only.name)
            case "IndexSelector":
                fixed.append(only.index)
            case _:
                break
    return tuple(fixed)


def _follow(segments: list[Follow], value: Any, walk: _Walk) -> Nodes:
    nodes = [value]
    for segment in segments:
        nodes = segment(nodes, walk)
    return nodes


def _segments(path: Any, starts: list[ValuePath]) -> list[Follow]:
    made = []
    for segment in path.segments:
        selectors = [_selector(one, starts) for one in segment.selectors]
        made.append(_child(selectors) if type(segment).__name__ == "JSONPathChildSegment" else _descendants(selectors))
    return made


def _child(selectors: list[Select]) -> Follow:
    def follow(nodes: Nodes, walk: _Walk) -> Nodes:
        found: Nodes = []
        for node in nodes:
            for select in selectors:
                select(node, found, walk)
        walk.spend(len(nodes) + len(found))
        return found

    return follow


def _descendants(selectors: list[Select]) -> Follow:
    def follow(nodes: Nodes, walk: _Walk) -> Nodes:
        found: Nodes = []
        for node in nodes:
            waiting = [node]
            while waiting:
                one = waiting.pop()
                walk.spend(1)
                for select in selectors:
                    select(one, found, walk)
                if type(one) is list:
                    waiting.extend(reversed(one))
                elif type(one) is dict:
                    waiting.extend(reversed(one.values()))
        return found

    return follow


def _selector(one: Any, starts: list[ValuePath]) -> Select:
    match type(one).__name__:
        case "NameSelector":
            return _by_name(one.name)
        case "IndexSelector":
            return _by_place(one.index)
        case "SliceSelector":
            return _by_slice(one.slice)
        case "WildcardSelector":
            return _all
        case "Filter":
            return _by_filter(_judge(one.expression.expression, starts))
        case other:
            raise BadExpression("", f"{other} is not part of RFC 9535", "leave it out")


def _by_name(name: str) -> Select:
    def select(node: Any, found: Nodes, walk: _Walk) -> None:
        if type(node) is dict and name in node:
            found.append(node[name])

    return select


def _by_place(place: int) -> Select:
    def select(node: Any, found: Nodes, walk: _Walk) -> None:
        if type(node) is list and -len(node) <= place < len(node):
            found.append(node[place])

    return select


def _by_slice(part: slice) -> Select:
    def select(node: Any, found: Nodes, walk: _Walk) -> None:
        if type(node) is list and part.step != 0:
            taken = node[part]
            walk.spend(len(taken))
            found.extend(taken)

    return select


def _children(node: Any) -> Any:
    return node if type(node) is list else node.values() if type(node) is dict else ()


def _all(node: Any, found: Nodes, walk: _Walk) -> None:
    children = _children(node)
    walk.spend(len(children))
    found.extend(children)


def _by_filter(judge: FilterTest) -> Select:
    def select(node: Any, found: Nodes, walk: _Walk) -> None:
        children = _children(node)
        walk.spend(len(children))
        found.extend(child for child in children if judge(child, walk))

    return select


def _judge(one: Any, starts: list[ValuePath]) -> FilterTest:
    """Returns the function that tests a value by a part of a filter."""
    match type(one).__name__:
        case "InfixExpression" if one.operator == "&&":
            left, right = _judge(one.left, starts), _judge(one.right, starts)
            return lambda value, walk: left(value, walk) and right(value, walk)
        case "InfixExpression" if one.operator == "||":
            left, right = _judge(one.left, starts), _judge(one.right, starts)
            return lambda value, walk: left(value, walk) or right(value, walk)
        case "InfixExpression":
            return _comparison(one.operator, _operand(one.left, starts), _operand(one.right, starts))
        case "PrefixExpression":
            inner = _judge(one.right, starts)
            return lambda value, walk: not inner(value, walk)
        case "RelativeFilterQuery" | "RootFilterQuery":
            query = _query(one, starts)
            return lambda value, walk: bool(query(value, walk))
        case _:
            return _operand(one, starts)


def _operand(one: Any, starts: list[ValuePath]) -> FilterTest:
    """Returns the function that evaluates an operand of a filter to a value, or to _NOTHING."""
    match type(one).__name__:
        case "RelativeFilterQuery" | "RootFilterQuery":
            query = _query(one, starts)
            return lambda value, walk: _single(query(value, walk))
        case "FunctionExtension":
            return _function(one, starts)
        case "Nil":
            return lambda value, walk: None
        case _:
            constant = one.value
            return lambda value, walk: constant


def _query(one: Any, starts: list[ValuePath]) -> Callable[[Any, _Walk], Nodes]:
    if type(one).__name__ == "RelativeFilterQuery":
        segments = _segments(one.path, starts)
        return lambda value, walk: _follow(segments, value, walk)
    starts.append(_start(one.path))
    segments = _segments(one.path, starts)
    return lambda value, walk: _follow(segments, walk.root, walk)


def _single(nodes: Nodes) -> Any:
    return nodes[0] if len(nodes) == 1 else _NOTHING


def _function(one: Any, starts: list[ValuePath]) -> FilterTest:
    if one.name in ("count", "value"):
        query = _query(one.args[0], starts)
        return (lambda value, walk: len(query(value, walk))) if one.name == "count" else (lambda value, walk: _single(query(value, walk)))
    made = [_operand(argument, starts) for argument in one.args]
    if one.name == "length":
        return lambda value, walk: length_of_value(made[0](value, walk))
    whole = one.name == "match"
    return lambda value, walk: _matches(made[0](value, walk), made[1](value, walk), whole)


def length_of_value(value: Any) -> Any:
    """Returns the number of characters, items or members; _NOTHING for other values."""
    return len(value) if type(value) in (str, list, dict) else _NOTHING


def _matches(value: Any, pattern: Any, whole: bool) -> bool:
    if type(value) is not str or type(pattern) is not str:
        return False
    try:
        expression = compile_regex(_DOT.sub(lambda found: found[0] if found[0] != "." else r"[^\n\r]", pattern))
    except BadExpression:
        return False
    return (expression.fullmatch(value) if whole else expression.search(value)) is not None


_DOT = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\.", re.DOTALL)


def _comparison(sign: str, left: FilterTest, right: FilterTest) -> FilterTest:
    match sign:
        case "==":
            return lambda value, walk: _same(left(value, walk), right(value, walk))
        case "!=":
            return lambda value, walk: not _same(left(value, walk), right(value, walk))
        case "<":
            return lambda value, walk: _less(left(value, walk), right(value, walk))
        case ">":
            return lambda value, walk: _less(right(value, walk), left(value, walk))
        case "<=":
            return lambda value, walk: _at_most(left(value, walk), right(value, walk))
        case _:
            return lambda value, walk: _at_most(right(value, walk), left(value, walk))


def _same(left: Any, right: Any) -> bool:
    return left is right if left is _NOTHING or right is _NOTHING else json_equal(left, right)


def _less(left: Any, right: Any) -> bool:
    kinds = type(left), type(right)
    return bool(left < right) if kinds == (str, str) or all(kind in (int, float) for kind in kinds) else False


def _at_most(left: Any, right: Any) -> bool:
    return _less(left, right) or _same(left, right)


def is_nothing(value: Any) -> bool:
    """Returns whether a length is that of a value without one."""
    return value is _NOTHING
