"""A recorded workflow as a durable one: each task of a trace is a step that takes its recorded run time × a scale.

    python examples/trace.py examples/data/photo-mosaic.json

Kill it at any moment, with kill -9 as well, and start it again with the same id: it goes on, no task that had ended runs twice,
and only the tasks in flight at the kill run again. The effect file beside the database, `trace-<id>.effects`, is the witness: every
try of every task adds a line when it begins and one when it ends, each forced to the disk.
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

    def bind(self, file: Path, tasks: Sequence[Task], scale: float) -> None:
        """Write to `file`, whose first line ties it, and with it the id, to these tasks.

        Raises:
            BadInput: it is tied to other tasks.
        """
        self.file = file
        tied = {"tasks": hashlib.sha256(msgspec.json.encode(tasks)).hexdigest(), "scale": scale}
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        if not lines or not lines[0].endswith(b"\n"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
            self._append(tied)
        elif (found := msgspec.json.decode(lines[0]))["tasks"] != tied["tasks"]:
            raise BadInput(
                f"{file} belongs to other tasks, or to these at another scale (it has --scale {found['scale']}, asked for is {scale}); "
                "give it what it began with, or choose another --id"
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
async def trace(ctx: Context, tasks: list[Task]) -> list[Finished]:
    """Run each task once its parents have ended. In `tasks`, parents come before their children."""
    running: dict[str, asyncio.Task[Finished]] = {}
    ended = 0

    async def after(parents: list[asyncio.Task[Finished]], task: Coroutine[Any, Any, Finished]) -> Finished:
        nonlocal ended
        await asyncio.gather(*parents)
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
    """The longest way through the tasks, in seconds: no schedule is shorter."""
    ends_s: dict[str, float] = {}
    for task in tasks:
        ends_s[task.id] = task.takes_s + max((ends_s[parent] for parent in task.parents), default=0.0)
    return max(ends_s.values())


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


def execute(file: Path, scale: float | None, id: str, url: str) -> str:
    """Run the trace to its end, or from where it was to its end; return what there is to say about it."""
    tasks, scale = scaled(load(file), scale)
    effects = effects_of(url, id)
    try:
        witness.bind(effects, tasks, scale)
    except OSError as error:
        raise BadInput(f"{effects} can't be written ({error.strerror}); name a database in another directory with --db") from error
    all_finished: list[Finished] = trace.run(tasks, id=id, db=url)
    now = sum(finished.process == PROCESS for finished in all_finished)
    makespan_s = max(finished.ended_s for finished in all_finished) - min(finished.began_s for finished in all_finished)
    gaps = ", breaks included" if len({finished.process for finished in all_finished}) > 1 else ""
    return (
        f"{len(all_finished)} tasks ended; makespan {makespan_s:.2f} s{gaps}; no schedule beats the critical path, {critical_path_s(tasks):.2f} s; "
        f"{len(all_finished) - now} remembered from before, {now} ran now"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 if all tasks have ended, else one of the exit codes."""
    parser = argparse.ArgumentParser(
        description="Run a workflow trace (WfFormat 1.5) durably on SQLite: each task a step. Killed, it goes on when started again with its id.",
        epilog="Exit codes: 0 all tasks have ended, 10 it can't be run, 40 it ran and failed, 130 interrupted: start it again to go on.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help=f"the trace, such as {SMALL_TRACE}")
    parser.add_argument("--scale", type=float, help=f"run times are multiplied by it (default: one with a critical path of {CRITICAL_PATH_S:g} s)")
    parser.add_argument("--id", help="the id of the execution (default: the file's name)")
    parser.add_argument("--db", metavar="URL", help="sqlite:///path/to/file.db (default: PERDURE_DB, else sqlite:///.perdure/perdure.db)")
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="{relativeCreated:7.0f} ms  {message}", style="{")
    logging.raiseExceptions = False  # A reader that goes away, such as `| head`, ends the lines and not the work.
    url = options.db or os.environ.get("PERDURE_DB") or "sqlite:///.perdure/perdure.db"
    try:
        logger.info("%s", execute(options.file, options.scale, options.file.stem if options.id is None else options.id, url))
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
