"""What user code may raise, return and name that is hostile to whoever keeps it: one table, run through every place where user code is called.

`EXCEPTIONS` make exceptions, `VALUES` what can't be kept, or not as it is, `NAMES` texts that may be somebody's name. A sample of each goes with every run;
all of it goes with the long proofs.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any

from perdure import Fatal, RetryAfter, Rollback

BIG = 3_000_000
"""Characters of a large text: many times the limit of what is kept of an error."""


class OwnBase(BaseException):
    """Of a user, below BaseException alone."""


class Untold(Exception):
    def __str__(self) -> str:
        raise ValueError("no text for this")

    __repr__ = __str__


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NoText(Exception):
    def __str__(self) -> Any:
        return 5  # noqa: PLE0307  # the hostility itself


class Impostor(Exception):
    """Says that it is of another class, and fails when asked."""

    @property  # type: ignore[misc]  # the hostility itself
    def __class__(self) -> Any:
        raise RuntimeError("of no class")


class Spoiled(Exception):
    """Whose parts fail when they are looked at."""

    @property
    def args(self) -> Any:  # type: ignore[override]  # the hostility itself
        raise RuntimeError("no arguments")

    @property
    def __cause__(self) -> Any:  # type: ignore[override]  # the hostility itself
        raise RuntimeError("no cause")

    @property
    def __traceback__(self) -> Any:  # type: ignore[override]  # the hostility itself
        raise RuntimeError("no traceback")

    @property
    def __dict__(self) -> Any:  # type: ignore[override]  # the hostility itself
        raise RuntimeError("no attributes")


class Endless(Exception):
    """Each has another as its cause."""

    @property
    def __cause__(self) -> Any:  # type: ignore[override]  # the hostility itself
        return Endless("and behind it")


class TwoNeeded(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")
        self.one, self.two = one, two


class Late(RetryAfter):
    """Of a subclass that has set nothing."""

    def __init__(self) -> None:
        Exception.__init__(self, "soon")


class Kept(Exception):
    """With attributes that can't be kept, and one that can."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code, self.socket = code, object()


def circle() -> Exception:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def chain() -> Exception:
    error = first = ValueError("the last")
    for number in range(20_000):
        error.__context__ = ValueError(str(number))
        error = error.__context__
    return first


def deep() -> Exception:
    """A recursion error with the traceback that it has."""

    def down(number: int) -> int:
        return down(number + 1) + 1

    try:
        down(0)
    except RecursionError as error:
        return error
    raise AssertionError("it has an end")


def nested_group() -> BaseExceptionGroup[Any]:
    group: BaseExceptionGroup[Any] = BaseExceptionGroup("innermost", [KeyboardInterrupt()])
    for number in range(100):
        group = BaseExceptionGroup(str(number), [group, SystemExit(number)])
    return group


def noted(note: Any) -> Exception:
    error = ValueError("noted")
    error.__notes__ = note
    return error


def named(name: str) -> Exception:
    kind = type("Named", (Exception,), {"__qualname__": name})
    error: Exception = kind("of a class with that name")
    return error


EXCEPTIONS: dict[str, Callable[[], BaseException]] = {
    "StopIteration": StopIteration,
    "StopIteration with a value": lambda: StopIteration(object()),
    "StopAsyncIteration": StopAsyncIteration,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "CancelledError of a subclass": type("Cancelled", (asyncio.CancelledError,), {}),
    "SystemExit": SystemExit,
    "SystemExit with an object": lambda: SystemExit(object()),
    "KeyboardInterrupt": KeyboardInterrupt,
    "of BaseException alone": OwnBase,
    "TimeoutError": TimeoutError,
    "MemoryError": MemoryError,
    "RecursionError": deep,
    "a group": lambda: ExceptionGroup("some", [ValueError("a"), StopIteration()]),
    "a wide group": lambda: ExceptionGroup("some", [ValueError(str(number)) for number in range(20_000)]),
    "a deep group of exits": nested_group,
    "without a text": Untold,
    "whose text exits": Exits,
    "whose text is a number": NoText,
    "of no class": Impostor,
    "whose parts fail": Spoiled,
    "causes in a circle": circle,
    "a long chain of contexts": chain,
    "causes without end": lambda: Endless("first"),
    "half a surrogate": lambda: ValueError("\ud800"),
    "enormous": lambda: ValueError("x" * BIG),
    "enormous arguments": lambda: ValueError(["x" * 1000] * (BIG // 1000)),
    "arguments without an encoding": lambda: ValueError(object()),
    "an init with other arguments": lambda: TwoNeeded(1, 2),
    "attributes without an encoding": lambda: Kept(5),
    "notes that are no list": lambda: noted(5),
    "notes of objects without a text": lambda: noted([Untold()]),
    "enormous notes": lambda: noted(["x" * BIG]),
    "a name of half a surrogate": lambda: named("\udfff"),
    "an enormous name": lambda: named("N" * BIG),
    "a retry that has set nothing": Late,
    "fatal without a text": lambda: type("Final", (Fatal,), {"__str__": Untold.__str__})(),
    "rollback of half a surrogate": lambda: Rollback("\ud800"),
    "an unraisable decode error": lambda: UnicodeDecodeError("utf-8", b"\xff" * BIG, 0, 1, "\ud800"),
    "an OS error": lambda: FileNotFoundError(2, "no such", "\udcff"),
}

EXCEPTION_SAMPLE = (
    "StopIteration",
    "StopAsyncIteration",
    "GeneratorExit",
    "CancelledError",
    "SystemExit",
    "KeyboardInterrupt",
    "of BaseException alone",
    "a deep group of exits",
    "whose text exits",
    "of no class",
    "whose parts fail",
    "causes without end",
    "half a surrogate",
    "enormous",
    "a name of half a surrogate",
    "a retry that has set nothing",
)


class Hostile:
    """An object that fails whatever it is asked."""

    def _fails(self, *_: Any) -> Any:
        raise RuntimeError("not to be touched")

    __eq__ = __hash__ = __reduce__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = _fails


class Dumps:
    """What looks like a model, and exits."""

    def model_dump(self, **_: Any) -> Any:
        raise SystemExit


class Generous:
    """What looks like a model, and is larger at each look."""

    def model_dump(self, **_: Any) -> Any:
        return {"more": Generous()}


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


VALUES: dict[str, Callable[[], Any]] = {
    "half a surrogate": lambda: "\ud800",
    "half a surrogate as a key": lambda: {"\ud800": 1},
    "a huge int": lambda: 10**400,
    "deep": lambda: nested(100_000),
    "cyclic": cyclic,
    "100 MB of text": lambda: "x" * 100_000_000,
    "hostile": Hostile,
    "hostile in a list": lambda: [Hostile()],
    "an object": object,
    "a model that exits": Dumps,
    "a model without end": Generous,
    "a class": lambda: Hostile,
    "a generator": lambda: (number for number in range(3)),
    "an exception": Untold,
    "a coroutine function": lambda: asyncio.sleep,
}
"""What can't be kept at all."""

VALUE_SAMPLE = ("half a surrogate", "a huge int", "deep", "cyclic", "hostile in a list", "a model that exits", "a model without end")

ODD_VALUES: dict[str, Any] = {
    "NaN": math.nan,
    "infinity": -math.inf,
    "the greatest int": 2**64 - 1,
    "the least int": -(2**63),
    "a byte that is no text": b"\xff\x00",
    "text beyond the first plane": "\U0001f600\u202e\x00",
    "nested as deep as may be": nested(100),
}
"""What can be kept, and comes back as it was."""

NAMES: dict[str, str] = {
    "half a surrogate": "\ud800",
    "empty": "",
    "enormous": "n" * BIG,
    "from right to left": "\u202egnp.\x00",
    "slashes": "../~undo/#2%00//",
    "a NUL": "a\0b",
    "spaces": " \n\t ",
    "combining": "e\u0301\u0323" * 20,
    "beyond the first plane": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
}
