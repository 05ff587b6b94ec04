"""The tools that random definitions use. What one does follows from its name, its arguments and the number of the try alone, so that whoever runs
it and whoever predicts it agree.

Arguments of all of them: `takes_s` (how long it takes; 0) and `nth`, a number that adds `STRIDE_S` for each; `fails` (how many tries fail; 0, or a list
of the values of `nth` for which all do), `error` (with which type) and `fatal` (so that it is not tried again). With `late`, a number and a most, it takes
up to that many seconds longer, by a chance that is drawn from the number and all arguments.

The work that the tools of random definitions do: a job that somebody else has once it was begun, and that ends when it ends, whoever asks for it again.

So a process that dies while a tool works takes no time: who takes over asks for what is left. What a try comes to is told by how many have failed before
it; tries that were interrupted are not counted.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from perdure.code.declarations import Step
from perdure.code.step_environment import StepInfo, step_info
from perdure.core.errors import Fatal
from perdure.core.paths import Key, Path
from tests.proof.definitions.facts import Json

NAMES = ("ADD", "ECHO", "EVEN", "LIST", "RECORD", "TAKE", "UNDO")
MODULUS = 1009
STRIDE_S = 1.37
ALWAYS = 99


class Answer(NamedTuple):
    """It takes so long, and then returns `value`."""

    takes_s: float
    value: Json


class Failure(NamedTuple):
    """It takes so long, and then fails; `fatal`: for good."""

    takes_s: float
    error: str
    fatal: bool


def behave(tool: str, arguments: Json, attempt: int = 1) -> Answer | Failure:
    """What `tool` does in this try; the first is 1.

    ``ADD`` adds up all whole numbers that are anywhere in `value`, ``ECHO`` returns it, ``EVEN`` says whether that sum is even, ``LIST`` returns a list as
    long as it says, ``RECORD`` puts it into a mapping, ``TAKE`` takes that of a list whose turn it is, ``UNDO`` returns nothing.

    Raises:
        KeyError: there is no such tool.
    """
    given = arguments if isinstance(arguments, dict) else {}
    value, nth, fails = given.get("value"), total(given.get("nth")), given.get("fails", 0)
    takes_s = float(given.get("takes_s", 0.0)) + STRIDE_S * nth + _late(given, attempt)
    if attempt <= (ALWAYS * (nth in fails) if isinstance(fails, list) else fails):
        return Failure(takes_s, str(given.get("error", "ValueError")), bool(given.get("fatal", False)))
    match tool:
        case "ADD":
            return Answer(takes_s, total(value))
        case "ECHO":
            return Answer(takes_s, value)
        case "EVEN":
            return Answer(takes_s, total(value) % 2 == 0)
        case "LIST":
            return Answer(takes_s, [(total(value) + n * n) % MODULUS for n in range(total(value) % 6)])
        case "RECORD":
            return Answer(takes_s, {"value": value, "sum": total(value), "more": {"list": [value]}})
        case "TAKE":
            return Answer(takes_s, {"visit": nth + 1, "taken": _turn(value, nth)})
        case "UNDO":
            return Answer(takes_s, None)
    raise KeyError(f"no tool {tool!r}; there are {', '.join(NAMES)}")


def _late(given: Mapping[str, Json], attempt: int) -> float:
    if "late" not in given:
        return 0.0
    number, most_s = given["late"]
    random = Random(f"{number}: {attempt} of {sorted(given.items())}")
    return float(random.choice((0.0, random.uniform(0.0, most_s), most_s)))


def _turn(values: Json, nth: int) -> Json:
    """That whose turn it is."""
    return values[nth % len(values)]


def total(value: Json) -> int:
    """The sum of all whole numbers that are anywhere in `value`; true and false are none."""
    return sum(_numbers(value)) % MODULUS


def _numbers(value: Json) -> Iterator[int]:
    match value:
        case bool():
            return
        case int():
            yield value
        case list():
            for one in value:
                yield from _numbers(one)
        case dict():
            for one in value.values():
                yield from _numbers(one)


ERRORS: dict[str, type[Exception]] = {"ValueError": ValueError, "OSError": OSError}

Failures = Callable[[StepInfo], int]
"""How many tries of an operation have failed, as its execution remembers."""


class Work:
    """All that tools do in one world. `begins` is told of each try that begins, before it does anything; `calls` counts them."""

    def __init__(self, failures: Failures, begins: Callable[[str, StepInfo], None] = lambda _, __: None) -> None:
        self._failures, self._begins = failures, begins
        self._begun_s: dict[tuple[Key, Path, int], float] = {}
        self.calls = 0

    def tools(self) -> Mapping[str, Step[Any, Any, Any]]:
        """The tools, by name. They may be done again: who asks for a job that was begun is given the same one."""
        return {name: Step(self._tool(name), name=name, idempotent=True) for name in NAMES}

    def _tool(self, name: str) -> Callable[..., Any]:
        async def tool(_: Any = None, /, **arguments: Any) -> Any:
            info = step_info()
            self.calls += 1
            self._begins(name, info)
            number, now_s = self._failures(info) + 1, asyncio.get_running_loop().time()
            answer = behave(name, arguments, number)
            left_s = self._begun_s.setdefault((info.execution, info.path, number), now_s) + answer.takes_s - now_s
            if left_s > 0:
                await asyncio.sleep(left_s)
            if isinstance(answer, Failure):
                raise Fatal(answer.error) if answer.fatal else ERRORS[answer.error](f"{name} was to fail")
            return answer.value

        return tool
