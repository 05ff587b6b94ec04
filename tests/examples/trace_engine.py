"""An engine and worker of a scientific workflow, as one of several processes: each task writes into a ledger when it begins and when it has ended.

python -m tests.examples.trace_engine FILE SCALE URL LEDGER
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples import wfinstances
from perdure import Definition, step
from perdure.code.declarations import Step
from perdure.runtime.server import serve

QUEUE = "tasks"
NAME = "trace"
TASKS_AT_A_TIME = 8


def definition(file: Path, scale: float, ledger: Path) -> tuple[Definition, list[Step[Any, Any, Any]]]:
    """The workflow of a file, with the step that does its tasks."""
    lines = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    async def do(task: str, takes_s: float, parents: Sequence[str] = ()) -> str:
        os.write(lines, f"began {task} {os.getpid()}\n".encode())
        await asyncio.sleep(takes_s)
        os.write(lines, f"ended {task} {os.getpid()}\n".encode())
        return task

    done = step(name="TASK", idempotent=True, queue=QUEUE)(do)
    return Definition.of(wfinstances.as_definition(wfinstances.load(file, scale), NAME), tools={"TASK": done}), [done]


def main(file: str, scale: str, url: str, ledger: str) -> None:
    """Serve until told to stop."""
    workflow, steps = definition(Path(file), float(scale), Path(ledger))
    asyncio.run(serve([workflow.code], steps, queues=[QUEUE], concurrency=TASKS_AT_A_TIME, db=url, ready=lambda _: _say("ready")))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
