"""JavaScript's conversions over plain JSON data: truth, numbers, text, equality and order.

Plain data has no identity and no undefined, so two things differ from JavaScript: lists and mappings are equal if their contents are, and a missing value is
null. Numbers that JSON lacks (NaN, Infinity) exist within an expression and become null in its result.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

import msgspec

from perdure.definitions.expr.secret_marks import SecretMark

SAFE_MAX = 2**53
"""The largest exact integer; larger results become floats, as in JavaScript."""

_NUMERAL = frozenset("0123456789+-.eE")
_WHITE = " \t\n\r\v\f\u00a0\ufeff\u2028\u2029"


def js_truthy(value: Any) -> bool:
    """Returns whether `value` counts as true: all but null, false, 0, NaN and empty text. Empty lists and mappings count as true."""
    return isinstance(value, list | dict) or (bool(value) and value == value)


def js_number(value: Any) -> int | float:
    """Returns the number that `value` counts as; NaN if it is not a number."""
    match value:
        case bool():
            return int(value)
        case int() | float():
            return value
        case None:
            return 0
        case str():
            return _parsed(value.strip(_WHITE))
        case list() if len(value) < 2:
            return js_number(js_text(value[0])) if value else 0
        case _:
            return math.nan


def _parsed(numeral: str) -> int | float:
    if not numeral:
        return 0
    if numeral in ("Infinity", "+Infinity", "-Infinity"):
        return -math.inf if numeral[0] == "-" else math.inf
    base = {"0x": 16, "0o": 8, "0b": 2}.get(numeral[:2].lower())
    try:
        if base and numeral[2:].isalnum() and len(numeral) < 300:
            return js_result(int(numeral[2:], base))
        if not _NUMERAL.issuperset(numeral) or len(numeral) > 5000:
            return math.nan
        return js_result(int(numeral)) if len(numeral) < 300 and numeral.lstrip("+-").isdigit() else js_result(float(numeral))
    except ValueError:
        return math.nan


def js_result(result: float) -> int | float:
    """Returns a computed number as data: an integer if it is whole and exact."""
    if isinstance(result, int):
        return result if -SAFE_MAX <= result <= SAFE_MAX else _float(result)
    return int(result) if result.is_integer() and -SAFE_MAX <= result <= SAFE_MAX else result


def _float(whole: float) -> float:
    try:
        return float(whole)
    except OverflowError:
        return math.inf if whole > 0 else -math.inf


def js_text(value: Any) -> str:
    """Returns the text of `value` when ``+`` joins it to other text."""
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return js_number_text(value)
        case list():
            return ",".join("" if item is None else js_text(item) for item in value)
        case _:
            return "[object Object]"


def js_shown(value: Any) -> str:
    """Returns the text of `value` inside other text: nothing for null, JSON for lists and mappings."""
    match value:
        case None:
            return ""
        case list() | dict():
            return js_json(value)
        case float() if not math.isfinite(value):
            return ""
        case _:
            return js_text(value)


def js_json(value: Any) -> str:
    """Returns `value` as JSON without spaces."""
    return msgspec.json.encode(json_number(value)).decode()


def js_number_text(value: float) -> str:
    """Formats a number as JavaScript does: 1 for 1.0, 1e+21, 1e-7."""
    if isinstance(value, int):
        return str(value) if abs(value) < 10**300 else repr(_float(value))
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if not value:
        return "0"
    written = repr(value)
    if 1e-6 <= abs(value) < 1e21:
        plain = f"{Decimal(written):f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    digits, _, exponent = written.partition("e")
    return f"{digits.removesuffix('.0')}e{int(exponent):+d}"


def json_number(value: Any) -> Any:
    """Returns `value` as JSON can hold it: whole numbers as integers, floats beyond 64 bits, and null for what is not finite."""
    match value:
        case bool():
            return value
        case int():
            return value if -(2**63) <= value < 2**64 else json_number(_float(value))
        case float():
            return js_result(value) if math.isfinite(value) else None
        case SecretMark():
            return value
        case list():
            return [json_number(item) for item in value]
        case dict():
            return {key: json_number(item) for key, item in value.items()}
        case _:
            return value


def strictly_equal(left: Any, right: Any) -> bool:
    """``===``: of the same type and equal; lists and mappings if their contents are."""
    match left, right:
        case (bool(), _) | (_, bool()):
            return left is right
        case (list(), list()):
            return len(left) == len(right) and all(map(strictly_equal, left, right))
        case (dict(), dict()):
            return left.keys() == right.keys() and all(strictly_equal(item, right[key]) for key, item in left.items())
        case (int() | float(), int() | float()) | (str(), str()):
            return bool(left == right)
        case _:
            return left is None and right is None


def loosely_equal(left: Any, right: Any) -> bool:
    """``==``: of the same type and equal, or of two types and equal as numbers or text; null equals only null."""
    if left is None or right is None:
        return left is right
    kinds = (isinstance(left, list | dict), isinstance(right, list | dict))
    if kinds == (True, True) or (isinstance(left, str) and isinstance(right, str)):
        return strictly_equal(left, right)
    if isinstance(left, bool) or isinstance(right, bool):
        return js_number(left) == js_number(right)
    if any(kinds):
        left, right = js_text(left) if kinds[0] else left, js_text(right) if kinds[1] else right
        return loosely_equal(left, right)
    return js_number(left) == js_number(right)


ComparisonSign = Literal["<", "<=", ">", ">="]
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def js_compare(left: Any, order: ComparisonSign, right: Any) -> bool:
    """``< <= > >=``: compares text by its characters, everything else as numbers; false if either side is not a number."""
    left, right = (js_text(side) if isinstance(side, list | dict) else side for side in (left, right))
    if not (isinstance(left, str) and isinstance(right, str)):
        left, right = js_number(left), js_number(right)
    return _ORDERS[order](left, right)


def js_calculate(left: Any, sign: Literal["+", "-", "*", "/", "%"], right: Any) -> int | float | str:
    """``+ - * / %``: ``+`` joins text if either side is text, a list or a mapping; everything else is arithmetic."""
    if sign == "+" and (isinstance(left, str | list | dict) or isinstance(right, str | list | dict)):
        return js_text(left) + js_text(right)
    one, two = _exact(js_number(left)), _exact(js_number(right))
    match sign:
        case "+":
            return js_result(one + two)
        case "-":
            return js_result(one - two)
        case "*":
            return js_result(one * two)
        case "/":
            return js_result(one / two) if two else _infinite(one, two)
        case _:
            return js_result(math.fmod(one, two)) if two and math.isfinite(one) else math.nan


def _exact(value: float) -> int | float:
    return value if -SAFE_MAX <= value <= SAFE_MAX else _float(value)


def _infinite(dividend: float, divisor: float) -> float:
    if not dividend or dividend != dividend:
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)
