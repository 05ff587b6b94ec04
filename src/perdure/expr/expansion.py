"""What an expression may expand to: so many values, and so many bytes, counted while it expands.

References share what they refer to until it is encoded, so ``{x: ["@a", "@a"]}`` in a chain of 30 steps is a billion values from one kilobyte of text. What an
expression has put together is therefore measured before anything encodes it, and measuring ends where the bound is met. Both bounds together keep an
evaluation below a tenth of a second.
"""

from typing import Any

from perdure.core.errors import ExpressionFailed
from perdure.core.limits import VALUE_BYTES_MAX

VALUES_MAX = 500_000
"""How many values a template with several references may come to: lists, mappings, and what is in them."""

HINT = "refer to less of it, or pass on the value of one step as a whole"


class Expansion:
    """How much text one evaluation has made so far."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = 0

    def text(self, characters: int, where: str) -> None:
        """Take note of text that is made.

        Raises:
            ExpressionFailed: it is too much, with what was made before.
        """
        self._bytes += characters
        if self._bytes > VALUE_BYTES_MAX:
            raise ExpressionFailed(where, f"the text becomes longer than {VALUE_BYTES_MAX:,} characters", "pass the value itself, or refer to less of it")


def bounded(value: Any) -> Any:
    """A value, once it has been measured; what it shares counts as often as it stands in it.

    Raises:
        ExpressionFailed: it has too many values, or too many bytes.
    """
    left_values, left_bytes, waiting = VALUES_MAX, VALUE_BYTES_MAX, [value]
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind is str:
            left_bytes -= len(one)
        elif kind is list:
            left_values -= len(one)
            _refuse(left_values, left_bytes)
            waiting.extend(one)
        elif isinstance(one, dict):
            left_values -= len(one)
            _refuse(left_values, left_bytes)
            left_bytes -= sum(map(len, one))
            waiting.extend(one.values())
        else:
            left_bytes -= 1
    _refuse(left_values, left_bytes)
    return value


def _refuse(left_values: int, left_bytes: int) -> None:
    if left_values < 0:
        raise ExpressionFailed("", f"its references come to more than {VALUES_MAX:,} values", HINT)
    if left_bytes < 0:
        raise ExpressionFailed("", f"its references come to more than {VALUE_BYTES_MAX:,} bytes", HINT)
