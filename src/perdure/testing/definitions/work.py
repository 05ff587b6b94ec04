"""The work that the tools of random definitions do: a job that somebody else has once it was begun, and that ends when it ends, whoever asks for it again.

So a process that dies while a tool works takes no time: who takes over asks for what is left. What a try comes to is told by how many have failed before
it; tries that were interrupted are not counted.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from perdure.core.errors import Fatal
from perdure.core.paths import Key, Path
from perdure.programs.code.declare import Step
from perdure.programs.code.info import StepInfo, step_info
from perdure.testing.definitions.tools import NAMES, Failure, behave

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
