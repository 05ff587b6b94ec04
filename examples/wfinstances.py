"""A scientific workflow as a definition: each task of a WfFormat 1.5 file is a step that needs its parents, and takes its recorded run time × a scale.

    python examples/wfinstances.py FILE --scale 0.001 --workers 8

It prints the makespan, and what it may be at most: 1.05 × (W/m + (1 − 1/m)·L) + 5 ms a task, where m workers share the work, W is the time that all
tasks take together, and L that of the longest path through them. With --references, a step reads what its parents return instead of needing them:
the order is the same. Killed, it goes on when started again with its id.
"""

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import msgspec

from perdure import Definition, PerdureError, WorkflowError, step

BAD_INPUT, FAILED, TOO_SLOW = 10, 40, 1
"""Exit codes: it can't be run; it ran and failed; it took longer than its bound."""

BOUND_FACTOR, TASK_S_MAX = 1.05, 0.005


class BadInput(Exception):
    """What is wrong with the input, and what to do about it."""


@dataclass(frozen=True)
class Task:
    """A task, its parents, and the time that it takes here."""

    id: str
    parents: tuple[str, ...]
    takes_s: float


def load(file: Path, scale: float) -> list[Task]:
    """The tasks of a file in WfFormat 1.5, parents before their children.

    Raises:
        BadInput: it can't be read as that.
    """
    try:
        document = msgspec.json.decode(file.read_bytes())
        if document["schemaVersion"] != "1.5":
            raise BadInput(f"{file} is in WfFormat {document['schemaVersion']}, and 1.5 is what this reads; convert it with the tools of wfcommons.org")
        workflow = document["workflow"]
        parents = {task["id"]: tuple(task["parents"]) for task in workflow["specification"]["tasks"]}
        takes_s = {task["id"]: scale * task["runtimeInSeconds"] for task in workflow["execution"]["tasks"]}
        if unknown := {parent for names in parents.values() for parent in names} - set(parents):
            raise BadInput(f"{file}: {min(unknown)!r} is a parent, but no task; add that task, or remove it from the parents")
        return [Task(id, parents[id], takes_s[id]) for id in TopologicalSorter(parents).static_order()]
    except OSError as error:
        raise BadInput(f"{file} can't be read ({error.strerror}); name a file in WfFormat 1.5") from error
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise BadInput(f"{file} is not WfFormat 1.5 ({type(error).__name__}: {error}); name a file such as those of wfcommons.org") from error
    except CycleError as error:
        raise BadInput(f"{file}: tasks wait for each other in a circle ({' -> '.join(error.args[1][:8])}); remove one of these parents") from error


def as_definition(tasks: Sequence[Task], name: str, references: bool = False) -> dict[str, Any]:
    """The tasks as a definition: a step each, which needs its parents, or reads what they return."""
    ids = _ids(tasks)
    steps = []
    for task in tasks:
        parents = [ids[parent] for parent in task.parents]
        given: dict[str, Any] = {"task": task.id, "takes_s": task.takes_s}
        step: dict[str, Any] = {"id": ids[task.id], "name": task.id, "tool": "TASK", "with": given}
        if parents and references:
            given["parents"] = [f"@{parent}" for parent in parents]
        elif parents:
            step["needs"] = parents
        steps.append(step)
    return {"perdure": 1, "name": _plain(name), "steps": steps}


def _ids(tasks: Sequence[Task]) -> dict[str, str]:
    """Ids that steps may have: of letters, digits and dashes, each only once."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for task in tasks:
        plain, number = f"task_{_plain(task.id)}", 1
        while (found := plain if number == 1 else f"{plain}_{number}") in taken:
            number += 1
        taken.add(found)
        ids[task.id] = found
    return ids


def _plain(name: str) -> str:
    return re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or "unnamed"


class Workers:
    """So many workers, each of which does one task at a time; `spans` are when tasks began and ended here, in seconds."""

    def __init__(self, count: int) -> None:
        self.spans: dict[str, tuple[float, float]] = {}
        self._free = asyncio.Semaphore(count)

    async def do(self, task: str, takes_s: float, parents: Sequence[str] = ()) -> str:
        """Do a task once a worker is free, and return its name."""
        async with self._free:
            began_s = time.monotonic()
            await asyncio.sleep(takes_s)
            self.spans[task] = began_s, time.monotonic()
        return task

    @property
    def makespan_s(self) -> float:
        """From the first beginning to the last end."""
        return max((end_s for _, end_s in self.spans.values()), default=0.0) - min((began_s for began_s, _ in self.spans.values()), default=0.0)


def bound_s(tasks: Sequence[Task], workers: int) -> float:
    """How long so many workers take at most, when none is idle while a task could be done, and each task costs so much more."""
    ends_s: dict[str, float] = {}
    for task in tasks:
        ends_s[task.id] = task.takes_s + max((ends_s.get(parent, 0.0) for parent in task.parents), default=0.0)
    whole_s, longest_s = sum(task.takes_s for task in tasks), max(ends_s.values(), default=0.0)
    return BOUND_FACTOR * (whole_s / workers + (1 - 1 / workers) * longest_s) + TASK_S_MAX * len(tasks)


def run(tasks: Sequence[Task], workers: Workers, options: Mapping[str, Any]) -> None:
    """Run the tasks as a definition, to their end."""
    document = as_definition(tasks, options["name"], options["references"])
    Definition.of(document, tools={"TASK": step(idempotent=True)(workers.do)}).with_(id=options["id"], db=options["db"]).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 if all tasks were done within their bound."""
    parser = argparse.ArgumentParser(
        description="Run a scientific workflow (WfFormat 1.5) as a definition.",
        epilog="Exit codes: 0 done within the bound, 1 done, but later, 10 it can't be run, 40 it failed.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the workflow in WfFormat 1.5")
    parser.add_argument("--scale", type=float, default=0.001, help="run times are multiplied by it (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=8, metavar="M", help="how many tasks are done at a time at most (default: %(default)s)")
    parser.add_argument("--references", action="store_true", help="steps read what their parents return, instead of needing them")
    parser.add_argument("--id", help="the id of the execution (default: the file's name)")
    parser.add_argument("--db", metavar="URL", help="sqlite:///path/to/file.db (default: PERDURE_DB, else sqlite:///.perdure/perdure.db)")
    options = parser.parse_args(arguments)
    try:
        if options.workers < 1 or not 0 <= options.scale < float("inf"):
            raise BadInput("--workers is a number from 1, and --scale a number from 0")
        tasks, workers = load(options.file, options.scale), Workers(options.workers)
        name = options.file.stem
        run(tasks, workers, {"name": name, "references": options.references, "id": options.id or name, "db": options.db})
    except (BadInput, PerdureError) as error:
        print(error, file=sys.stderr)
        return FAILED if isinstance(error, WorkflowError) else BAD_INPUT
    here = [task for task in tasks if task.id in workers.spans]
    most_s, makespan_s = bound_s(here, options.workers), workers.makespan_s
    remembered = f", {len(tasks) - len(here)} were done before" if len(here) < len(tasks) else ""
    print(f"{len(here)} tasks done by {options.workers} workers{remembered}; makespan {makespan_s:.3f} s, at most {most_s:.3f} s")
    return 0 if makespan_s <= most_s or not here else TOO_SLOW


if __name__ == "__main__":
    sys.exit(main())
