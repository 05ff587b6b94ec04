"""A recorded workflow as a durable one: each task of a trace is a step that takes its recorded run time × a scale.

    python examples/run_trace.py examples/data/photo-mosaic.json

A task starts as soon as its parents have ended and, with ``--at-once m``, fewer than m are running. So its makespan is at most
1.05 × (W/m + (1 − 1/m)·L) + 5 ms a task, where W is the time that all tasks take together and L that of the longest path through
them: no machine is idle while a task could run (Graham's bound for list scheduling), and what is durable costs no more than the rest.

Kill it at any moment, with kill -9 as well, and start it again with the same id: it goes on, no task that had ended runs twice,
and only the tasks in flight at the kill run again; what runs then keeps the same bound. The effect file beside the database,
`trace-<id>.effects`, is the witness: every try of every task adds a line when it begins and one when it ends, each forced to the disk.
"""

import argparse
import asyncio
import hashlib
import logging
import math
import os
import sys
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import msgspec

from perdure import Context, PerdureError, WorkflowError, step, step_info, workflow

CRITICAL_PATH_S = 6.0
"""How long the critical path takes when no scale is given."""

BAD_INPUT, FAILED, INTERRUPTED = 10, 40, 130
"""Exit codes: it can't be run; it ran and failed; Ctrl-C."""

PROCESS = uuid4().hex
"""Which process this is; unlike its number, never used again."""

SMALL_TRACE = "examples/data/photo-mosaic.json"

logger = logging.getLogger("trace")


# The workflow.


@dataclass(frozen=True)
class Task:
    """A task, its parents, and the time that it takes here."""

    id: str
    parents: tuple[str, ...]
    takes_s: float


@dataclass(frozen=True)
class Finished:
    """What a task leaves behind: which process ran it, and when, in seconds since 1970."""

    task: str
    process: str
    began_s: float
    ended_s: float


class Witness:
    """The effect file. It belongs to the process and is no input of the workflow, so a database may be moved with it."""

    def __init__(self) -> None:
        self.file = Path()

    def bind(self, file: Path, tasks: Sequence[Task], scale: float, at_once: int) -> None:
        """Write to `file`, whose first line ties it, and with it the id, to these tasks, and to how many run at once.

        Raises:
            BadInput: it is tied to others.
        """
        self.file = file
        tied = {"tasks": hashlib.sha256(msgspec.json.encode(tasks)).hexdigest(), "scale": scale, "at_once": at_once}
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        if not lines or not lines[0].endswith(b"\n"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
            self._append(tied)
        elif (found := msgspec.json.decode(lines[0])) != tied:
            raise BadInput(
                f"{file} belongs to other tasks, or to these with other options (it has --scale {found['scale']} --at-once {found['at_once']}, "
                f"asked for is --scale {scale} --at-once {at_once}); give it what it began with, or choose another --id"
            )
        elif not lines[-1].endswith(b"\n"):
            with file.open("ab") as end:  # A kill can cut the last line short.
                end.write(b"\n")

    def mark(self, event: str, task: str) -> float:
        """Write that a task began or ended, wait until that is on the disk, and return when it was."""
        at_s = time.time()
        self._append({"event": event, "task": task, "process": PROCESS, "at_s": at_s})
        return at_s

    def _append(self, line: dict[str, Any]) -> None:
        with self.file.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())


witness = Witness()


@step
async def work(task: str, takes_s: float) -> Finished:
    """Take the time, and leave a mark in the effect file before and after."""
    attempt = step_info().attempt
    logger.info("started %s%s", task, "" if attempt == 1 else f", try {attempt}")
    began_s = await asyncio.to_thread(witness.mark, "began", task)
    await asyncio.sleep(takes_s)
    ended_s = await asyncio.to_thread(witness.mark, "ended", task)
    return Finished(task, PROCESS, began_s, ended_s)


@workflow
async def trace(ctx: Context, tasks: list[Task], at_once: int) -> list[Finished]:
    """Run each task once its parents have ended, at most `at_once` at a time. In `tasks`, parents come before their children."""
    running: dict[str, asyncio.Task[Finished]] = {}
    machines = asyncio.Semaphore(at_once)
    ended = 0

    async def after(parents: list[asyncio.Task[Finished]], task: Coroutine[Any, Any, Finished]) -> Finished:
        nonlocal ended
        await asyncio.gather(*parents)
        async with machines:
            finished = await task
        ended += 1
        line = f"ended {finished.task} ({ended} of {len(tasks)})"
        ctx.log.info(line)  # once it is durable, and never on replay
        return finished

    for task in tasks:
        parents = [running[parent] for parent in task.parents]
        running[task.id] = asyncio.create_task(after(parents, ctx.step(task.id, work, task.id, task.takes_s)))
    return await asyncio.gather(*running.values())


# The trace.


class BadInput(Exception):
    """What is wrong with the input, and what to do about it."""


class _Specified(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=250)]
    parents: list[str]


class _Executed(msgspec.Struct, rename="camel"):
    id: str
    runtime_in_seconds: Annotated[float, msgspec.Meta(ge=0)]


class _Specification(msgspec.Struct):
    tasks: list[_Specified]


class _Execution(msgspec.Struct):
    tasks: list[_Executed]


class _Workflow(msgspec.Struct):
    specification: _Specification
    execution: _Execution


class _Trace(msgspec.Struct):
    workflow: _Workflow


class _Version(msgspec.Struct, rename="camel"):
    schema_version: str


def load(file: Path) -> list[Task]:
    """The tasks of a file in WfFormat 1.5, each with its recorded run time, parents before their children.

    Raises:
        BadInput: there is no such file, it is in another format, or its tasks are no workflow.
    """
    try:
        raw = file.read_bytes()
        version = msgspec.json.decode(raw, type=_Version).schema_version
        if version != "1.5":
            raise BadInput(f"{file} is in WfFormat {version}, and 1.5 is what this reads; convert it with the tools of wfcommons.org")
        found = msgspec.json.decode(raw, type=_Trace).workflow
    except OSError as error:
        raise BadInput(f"{file} can't be read ({error.strerror}); name a file in WfFormat 1.5, such as {SMALL_TRACE}") from error
    except msgspec.ValidationError as error:
        raise BadInput(f"{file} is not WfFormat 1.5 ({error}); compare it with {SMALL_TRACE}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} is not JSON ({error}); name a file in WfFormat 1.5, such as {SMALL_TRACE}") from error
    return _in_order(file, found)


def _in_order(file: Path, found: _Workflow) -> list[Task]:
    parents = {task.id: tuple(task.parents) for task in found.specification.tasks}
    takes_s = {task.id: task.runtime_in_seconds for task in found.execution.tasks}
    if not parents:
        raise BadInput(f"{file} has no tasks; name a trace that has some, such as {SMALL_TRACE}")
    if len(parents) < len(found.specification.tasks):
        raise BadInput(f"{file} has tasks of the same id; give each its own")
    for task, names in parents.items():
        if task not in takes_s:
            raise BadInput(f"{file}: task {task} has no run time; add it to workflow.execution.tasks")
        if unknown := [name for name in names if name not in parents]:
            raise BadInput(f"{file}: task {task} has a parent {unknown[0]!r}, which is no task; add that task, or remove it from the parents")
    try:
        return [Task(task, parents[task], takes_s[task]) for task in TopologicalSorter(parents).static_order()]
    except CycleError as error:
        cycle: list[str] = error.args[1]
        raise BadInput(
            f"{file}: tasks wait for each other in a circle ({' -> '.join(cycle[:8])}{' ...' * (len(cycle) > 8)}); remove one of these parents"
        ) from error


def critical_path_s(tasks: Sequence[Task]) -> float:
    """The longest path through the tasks, in seconds: no schedule is shorter. Parents that are not among them have ended before."""
    ends_s: dict[str, float] = {}
    for task in tasks:
        ends_s[task.id] = task.takes_s + max((ends_s.get(parent, 0.0) for parent in task.parents), default=0.0)
    return max(ends_s.values(), default=0.0)


def bound_s(tasks: Sequence[Task], at_once: int) -> float:
    """How long the tasks take at most, in seconds, when no machine is idle while a task could run: W/m + (1 − 1/m)·L."""
    return sum(task.takes_s for task in tasks) / at_once + (1 - 1 / at_once) * critical_path_s(tasks)


def scaled(tasks: Sequence[Task], scale: float | None) -> tuple[list[Task], float]:
    """The tasks with their times × `scale`, and the scale, which by default makes the critical path `CRITICAL_PATH_S` long."""
    if scale is None:
        scale = CRITICAL_PATH_S / (critical_path_s(tasks) or CRITICAL_PATH_S)
    if not (math.isfinite(scale) and scale >= 0):
        raise BadInput(f"--scale {scale} is no number from 0; 0.01 runs a hundred times as fast as recorded")
    return [Task(task.id, task.parents, task.takes_s * scale) for task in tasks], scale


# The command.


def effects_of(url: str, id: str) -> Path:
    """The effect file of an id: in the directory of the database.

    Raises:
        BadInput: the URL names no SQLite file, or the id can't be part of a file name.
    """
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc or len(parts.path) < 2:
        raise BadInput(f"--db {url} is no SQLite file; write it as sqlite:///path/to/file.db")
    if not id or "/" in id or "\0" in id or len(id.encode()) > 200:
        raise BadInput(f"--id {id!r:.60} can't be part of a file name; choose one of 1 to 200 bytes without a slash")
    return Path(unquote(parts.path[1:])).absolute().parent / f"trace-{id}.effects"


def execute(file: Path, scale: float | None, at_once: int | None, id: str, url: str) -> str:
    """Run the trace to its end, or from where it was to its end; return what there is to say about it."""
    tasks, scale = scaled(load(file), scale)
    if at_once is None:
        at_once = len(tasks)
    elif at_once < 1:
        raise BadInput(f"--at-once {at_once} is no number from 1; leave it out to run all that can run")
    effects = effects_of(url, id)
    try:
        witness.bind(effects, tasks, scale, at_once)
    except OSError as error:
        raise BadInput(f"{effects} can't be written ({error.strerror}); name a database in another directory with --db") from error
    return figures(tasks, at_once, trace.with_(id=id, db=url).run(tasks, at_once))


def figures(tasks: Sequence[Task], at_once: int, finished: Sequence[Finished]) -> str:
    """How long everything took, and what ran in this process, with the bounds on both."""
    here = [one for one in finished if one.process == PROCESS]
    names = {one.task for one in here}
    gaps = ", breaks included" if len({one.process for one in finished}) > 1 else ""
    bound = bound_s([task for task in tasks if task.id in names], at_once)
    now = f"; what ran now took {makespan_s(here):.2f} s, at most {at_once} at once, for which W/m + (1 − 1/m)·L is {bound:.2f} s" if here else ""
    return (
        f"{len(finished)} tasks ended; makespan {makespan_s(finished):.2f} s{gaps}; no schedule beats the critical path, {critical_path_s(tasks):.2f} s{now}; "
        f"{len(finished) - len(here)} remembered from before, {len(here)} ran now"
    )


def makespan_s(finished: Sequence[Finished]) -> float:
    """From the first beginning to the last end, in seconds."""
    return max(one.ended_s for one in finished) - min(one.began_s for one in finished)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 if all tasks have ended, else one of the exit codes."""
    parser = argparse.ArgumentParser(
        description="Run a workflow trace (WfFormat 1.5) durably on SQLite: each task a step. Killed, it goes on when started again with its id.",
        epilog="Exit codes: 0 all tasks have ended, 10 it can't be run, 40 it ran and failed, 130 interrupted: start it again to go on.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help=f"the trace, such as {SMALL_TRACE}")
    parser.add_argument("--scale", type=float, help=f"run times are multiplied by it (default: one with a critical path of {CRITICAL_PATH_S:g} s)")
    parser.add_argument("--at-once", type=int, metavar="M", help="how many tasks run at a time at most (default: all that can)")
    parser.add_argument("--id", help="the id of the execution (default: the file's name)")
    parser.add_argument("--db", metavar="URL", help="sqlite:///path/to/file.db (default: PERDURE_DB, else sqlite:///.perdure/perdure.db)")
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="{relativeCreated:7.0f} ms  {message}", style="{")
    logging.raiseExceptions = False  # A reader that goes away, such as `| head`, ends the lines and not the work.
    url = options.db or os.environ.get("PERDURE_DB") or "sqlite:///.perdure/perdure.db"
    try:
        id = options.file.stem if options.id is None else options.id
        logger.info("%s", execute(options.file, options.scale, options.at_once, id, url))
    except KeyboardInterrupt:
        print("interrupted; start it again to go on", file=sys.stderr)
        return INTERRUPTED
    except WorkflowError as error:
        print(f"{error}\nan execution that has failed stays so; choose another --id to begin anew", file=sys.stderr)
        return FAILED
    except (BadInput, PerdureError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
