"""The operators of rows: what each holds of the two values that it is given, and what it takes on its right side.

Null is neither more nor less than anything, contains nothing and is in no list: such a row does not hold. Other values of a kind that an operator does not
compare are `Unfit`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from perdure.core.errors import BadExpression
from perdure.expr.missing import Unfit
from perdure.expr.regexes import regex
from perdure.expr.values import cut, equal, kind, shown

Holds = Callable[[Any, Any], bool]


def _ordered(sign: str, holds: Holds) -> Holds:
    def compare(left: Any, right: Any) -> bool:
        of_left, of_right = type(left), type(right)
        if ((of_left is int or of_left is float) and (of_right is int or of_right is float)) or of_left is str is of_right:
            return holds(left, right)
        if left is None or right is None:
            return False
        raise Unfit(f"{shown(left)} {sign} {shown(right)} compares {kind(left)} with {kind(right)}", "numbers are compared with numbers, text with text")

    return compare


def _is_in(left: Any, right: Any) -> bool:
    if type(right) is list:
        return any(equal(left, item) for item in right)
    if right is None:
        return False
    raise Unfit(f"in asks whether a list has it, and {shown(right)} is {kind(right)}", "give a list; to look into text write contains, with the text as ref")


def _contains(left: Any, right: Any) -> bool:
    match left:
        case None:
            return False
        case list():
            return any(equal(item, right) for item in left)
        case str() if type(right) is str:
            return right in left
        case dict() if type(right) is str:
            return right in left
        case _:
            raise Unfit(f"{shown(left)} can't contain {shown(right)}", "a list contains values, text contains text, a mapping its keys")


def _text(what: str, holds: Callable[[str, str], bool]) -> Holds:
    def compare(left: Any, right: Any) -> bool:
        if type(left) is str is type(right):
            return holds(left, right)
        if left is None or right is None:
            return False
        raise Unfit(f"{what} takes text on both sides, not {kind(left)} and {kind(right)}", "refer to text")

    return compare


def _matches_re(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    if type(left) is not str or type(right) is not str:
        raise Unfit(f"matches_re takes text on both sides, not {kind(left)} and {kind(right)}", "refer to text")
    try:
        return regex(right).search(left) is not None
    except BadExpression as bad:
        raise Unfit(bad.what, bad.hint) from None


def _is_empty(left: Any, right: Any) -> bool:
    return (left is None or left == "" or left == [] or left == {}) is (right is not False)


def _exists(left: Any, right: Any) -> bool:
    return (left is not None) is (right is not False)


OPERATORS: dict[str, Holds] = {
    "eq": equal,
    "neq": lambda left, right: not equal(left, right),
    "gt": _ordered(">", lambda left, right: bool(left > right)),
    "gte": _ordered(">=", lambda left, right: bool(left >= right)),
    "lt": _ordered("<", lambda left, right: bool(left < right)),
    "lte": _ordered("<=", lambda left, right: bool(left <= right)),
    "in": _is_in,
    "contains": _contains,
    "starts_with": _text("starts_with", str.startswith),
    "ends_with": _text("ends_with", str.endswith),
    "matches_re": _matches_re,
    "exists": _exists,
    "empty": _is_empty,
}
"""Each with what is on the left and on the right; whatever is not there is None to `exists` and `empty`."""

OF_NOTHING = frozenset(("exists", "empty"))
"""Those that may be asked of what is not there."""


def count(values: Sequence[Any]) -> int:
    """How many there are."""
    return len(values)


def total(values: Sequence[Any]) -> Any:
    """Their sum, 0 of none."""
    return sum(_numbers("sum", values))


def least(values: Sequence[Any]) -> Any:
    """The least of them, None of none."""
    return min(_numbers("min", values), default=None)


def most(values: Sequence[Any]) -> Any:
    """The greatest of them, None of none."""
    return max(_numbers("max", values), default=None)


def _numbers(what: str, values: Sequence[Any]) -> Sequence[Any]:
    for value in values:
        if type(value) is not int and type(value) is not float:
            raise Unfit(f"{what} is made of numbers, and one of the {len(values)} is {shown(value)}", "choose the numbers with a filter in the path")
    return values


AGGREGATES: dict[str, Callable[[Sequence[Any]], Any]] = {"count": count, "sum": total, "min": least, "max": most}
"""What is made of many values, and then compared."""

QUANTIFIERS = frozenset(("any", "all"))
"""Whether a comparison holds of at least one of many values, or of each."""


def checked(name: str, right: Any, where: str) -> None:
    """Look at a right side that stands in the definition.

    Raises:
        BadExpression: the operator takes something else.
    """
    match name:
        case "exists" | "empty" if type(right) is not bool:
            raise BadExpression(where, f"{name} is true or false, not {shown(right)}", f"write {name}: true")
        case "in" if type(right) is not list:
            raise BadExpression(where, f"in takes a list, not {shown(right)}", "write in: [a, b], or a reference to a list")
        case "gt" | "gte" | "lt" | "lte" if type(right) not in (int, float, str):
            raise BadExpression(where, f"{name} compares with a number or text, not with {shown(right)}", "write a number, text, or a reference")
        case "starts_with" | "ends_with" | "matches_re" if type(right) is not str:
            raise BadExpression(where, f"{name} takes text, not {shown(right)}", "write text, or a reference to text")
        case "matches_re":
            try:
                regex(right)
            except BadExpression as bad:
                raise BadExpression(where, bad.what, bad.hint) from None
        case _ if name not in OPERATORS:
            raise BadExpression(where, f"{cut(name)!r} is no operator", f"there are {', '.join(OPERATORS)}")
