"""A scientific workflow in a process that may be killed: each task writes into a ledger when it begins and when it has ended.

python -m tests.examples.killed_workflow FILE SCALE DATABASE LEDGER
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from examples import wfinstances
from perdure import Definition, step


def main(file: str, scale: str, database: str, ledger: str) -> None:
    """Run it to its end."""
    tasks, room = wfinstances.load(Path(file), float(scale)), asyncio.Semaphore(8)
    lines = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    async def do(task: str, takes_s: float, parents: Sequence[str] = ()) -> str:
        async with room:
            os.write(lines, f"began {task}\n".encode())
            await asyncio.sleep(takes_s)
            os.write(lines, f"ended {task}\n".encode())
        return task

    Definition.of(wfinstances.as_definition(tasks, "killed"), tools={"TASK": step(idempotent=True)(do)}).with_(id="1", db=f"sqlite:///{database}").run()


if __name__ == "__main__":
    main(*sys.argv[1:])
