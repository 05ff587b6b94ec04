"""One evaluation of a ``{{ }}`` expression: what it reads, and what it may still use up."""

from collections.abc import Callable
from typing import Any

from perdure.core.errors import ExpressionFailed
from perdure.expr import loose
from perdure.expr.refs import Scope

STEPS_MAX = 500_000
"""What one evaluation may cost: an item looked at is one step, as are 64 characters."""

TEXT_MAX = 4 * 1024 * 1024
"""The longest text that an expression may put together."""

DEPTH_MAX = 200
"""How deep values may nest that are compared, or turned into text."""

NESTED_MAX = 2
"""How deep conditions may nest that are given to filters as text."""


class Run:
    """An evaluation under way: its scope, the item that it looks at, and what it has cost so far. `of_items` gives the meaning of a condition on items."""

    __slots__ = ("item", "nested", "of_items", "scope", "steps")

    def __init__(self, scope: Scope, of_items: "Callable[[str], Meaning]") -> None:
        self.scope, self.of_items, self.nested, self.steps = scope, of_items, 0, 0
        self.item: Any = None

    def root(self, name: str) -> Any:
        """A root, or null."""
        try:
            return self.scope.root(name)
        except KeyError:
            return None

    def envelope(self, id: str) -> Any:
        """What a step gave, or null."""
        try:
            return self.scope.envelope(id)
        except KeyError:
            return None

    def now_s(self) -> float:
        """The time of the decision."""
        execution = self.root("execution")
        now_s = execution.get("now_s") if isinstance(execution, dict) else None
        if not isinstance(now_s, int | float):
            raise self.failed("the time is not known here", "use now and daysAgo in steps, not where no execution runs")
        return float(now_s)

    def failed(self, what: str, hint: str) -> ExpressionFailed:
        """The error that there is no value."""
        return ExpressionFailed("", what, hint)

    def spend(self, steps: int) -> None:
        """So many steps more."""
        self.steps += 1 + steps
        if self.steps > STEPS_MAX:
            raise self.failed(f"this takes more than {STEPS_MAX:,} steps", "let a step of its own do the work")

    def sized(self, characters: int) -> None:
        """Text of so many characters is about to be made."""
        if characters > TEXT_MAX:
            raise self.failed(f"this makes text of more than {TEXT_MAX:,} characters", "let a step of its own do the work")
        self.spend(characters // 64)

    def text(self, value: Any) -> str:
        """`value` as text, paid for."""
        return value if isinstance(value, str) else loose.text(self.weighed(value))

    def weighed(self, value: Any) -> Any:
        """`value`, when it has been paid for looking at all of it."""
        if not isinstance(value, list | dict):
            if isinstance(value, str):
                self.spend(len(value) // 64)
            return value
        level: list[Any] = [value]
        for _ in range(DEPTH_MAX):
            inside = [one for one in level if isinstance(one, list | dict)]
            self.spend(sum(map(len, inside)))
            level = [inner for one in inside for inner in (one if isinstance(one, list) else one.values())]
            if not level:
                return value
            self.spend(sum(len(one) for one in level if isinstance(one, str)) // 64)
        raise self.failed(f"this looks at a value that nests deeper than {DEPTH_MAX}", "take what is needed of it")


Meaning = Callable[[Run], Any]
Filter = Callable[..., Any]
