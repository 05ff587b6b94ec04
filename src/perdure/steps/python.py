"""The kind ``python``: Python in a sandbox.

The source defines ``def main(input): …``, or ``async def main(input): …``. It is given the input of the step, and what it returns, as JSON, is the step's
result; tuples are lists. What JSON has no word for (NaN, a set, bytes, an object, a cycle) is an error.

The language is that of `pydantic-monty`, a subset of Python: functions, classes, comprehensions, exceptions, f-strings, ``async``; no generators and no
``with``. There are the modules that reach nothing, such as ``json``, ``re``, ``math``, ``datetime``, ``collections``, ``itertools``, ``decimal``, ``hashlib``
and ``base64``, and no others; files, the environment and the network are refused, and sleeping takes no time. ``print`` keeps what it is given. The clock and
``random`` are real, as the result is remembered. Nothing is left from one call to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from perdure.core.errors import SandboxLimit, SandboxLost, SourceFailed
from perdure.programs.graph.kind import Kind
from perdure.steps.deployment import Deployment
from perdure.steps.sandbox import monty, steps
from perdure.steps.sandbox.python_job import HINT, LANGUAGE, Run
from perdure.steps.sandbox.python_source import problem

EXAMPLE = """\
perdure: 1
name: greet
input:
  names: {type: array, default: [Ada, Grace, Ada]}
steps:
  - id: count
    python: |
      from collections import Counter

      def main(input):
          print(len(input["names"]), "names")
          return dict(Counter(input["names"]))
    with: {names: "@input.names"}
output: "@count"
# {"Ada": 2, "Grace": 1}
"""


async def run(config: Any, input: Any = None, env: Any = None) -> Any:
    """What ``main`` of the source `config` makes of the input.

    Raises:
        SourceFailed: it can't be read, has raised an error, or gave what is no JSON.
        OutOfTime, OutOfMemory, OutputTooLarge: it took too much.
        SandboxLost: there was no sandbox; it may be tried again.
    """
    if monty.is_forked():
        raise SandboxLost("this process was forked from one that has its sandboxes; start processes by spawn, or run Python in the parent")
    if wrong := steps.unfit(LANGUAGE, config, HINT):
        raise wrong
    running = Run(config, input, steps.limits())
    try:
        value, console = await asyncio.get_running_loop().run_in_executor(_threads(), running.result)
    except (SourceFailed, SandboxLimit) as failed:
        raise steps.told(failed) from None
    except asyncio.CancelledError:
        running.stop()
        raise
    steps.tell(console)
    return value


@cache
def _threads() -> ThreadPoolExecutor:
    """As many as there are sandboxes, each of which waits for one."""
    return ThreadPoolExecutor(monty.processes_max(), "perdure-python")


def check(config: Any) -> Iterator[tuple[str, str]]:
    """What can be seen of a source without running it."""
    wrong = steps.unfit(LANGUAGE, config, HINT) or problem(config)
    if wrong is not None:
        yield "", str(wrong)


def kind(deployment: Deployment) -> Kind:
    """The kind, which is the same wherever it is deployed."""
    return Kind(
        "python",
        run,
        title="Python",
        summary="A function in Python, in a sandbox: JSON in, JSON out, and nothing of the world.",
        icon="braces",
        limits=steps.LIMITS,
        idempotency=steps.IDEMPOTENCY,
        check=check,
        extra="sandbox",
        example=EXAMPLE,
    )
