"""What evaluating a CEL expression may cost. Turns of macros are counted by the library; what each turn does, and how text and lists grow, is bounded here.

Without that, ``[["x"]].map(x, x + x).map(x, x + x)…`` fills the memory, and ``a.all(x, b == c)`` compares large lists ten thousand times. An expression that
could do so is held against the size of what it is given; all others are evaluated as they are.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.core.errors import BadExpression
from perdure.expr.cel_names import Names
from perdure.expr.missing import Unfit
from perdure.expr.values import cut

TURNS_MAX = 10_000
"""The library's own limit of iterations."""

GROWTH_MAX = 1024
FREE = 32
"""Up to so many looks at everything that is given cost too little to be counted."""

VALUES_MAX = 10_000_000
"""Values that are looked at, all in all: a tenth of a second."""

BYTES_MAX = 500_000_000
"""Bytes of text that are looked at."""

MADE_BYTES_MAX = 100_000_000
"""Bytes that additions may make."""


class Cost:
    """What bounds an expression."""

    __slots__ = ("_all", "_each", "_grows", "_sums", "_turning")

    def __init__(self, text: str, names: Names) -> None:
        if names.growth > GROWTH_MAX:
            what = f"{cut(text)!r} maps and takes what it maps again and again, up to {names.growth:,} times"
            raise BadExpression("", what, f"{GROWTH_MAX:,} times are the most; work this out in a step")
        if len(text) * (names.growth * names.sums + TURNS_MAX * names.turning_sums) > MADE_BYTES_MAX:
            raise BadExpression("", f"{cut(text)!r} adds too often in its macros", "work this out in a step")
        self._all = len(names.uses) * names.growth
        self._grows = names.growth * names.sums
        self._each = TURNS_MAX * (sum(use.turns for use in names.uses) or int(names.crosses))
        self._turning = None if names.crosses else frozenset(use.name for use in names.uses if use.turns)
        self._sums = TURNS_MAX * names.turning_sums

    def check(self, given: Mapping[str, Any], called: Mapping[str, str]) -> None:
        """Hold what an expression is given against what it may cost. `called` says by which name each is given.

        Raises:
            Unfit: it is too large.
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
    count = values(given, VALUES_MAX // looks)
    if count * looks > VALUES_MAX or size * looks > BYTES_MAX or size * sums > MADE_BYTES_MAX:
        what = f"the expression looks {looks:,} times at what it is given, and that is too large for it ({size:,} bytes)"
        raise Unfit(what, "name fields more closely, do not look at other data within a macro, or decide in a step")


def values(value: Any, enough: int) -> int:
    """How many values there are in a value; counting ends soon after `enough`."""
    count, waiting = 0, [value]
    while waiting and count <= enough:
        one = waiting.pop()
        count += 1
        if type(one) is dict:
            waiting.extend(one.values())
        elif type(one) is list:
            waiting.extend(one)
    return count
