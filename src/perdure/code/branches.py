"""Branches of a workflow (join, map, race), and waiting for several tasks at once in an order that replay repeats.

Each branch is a task with a context of its own, independent of its siblings. The names of the branches are recorded before any of them starts, so that a
renamed or removed branch is reported. A branch that loses or is cancelled unwinds like any cancelled task, and delays no other branch.
"""

import asyncio
import re
from asyncio import CancelledError
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Generic, TypeVar

import msgspec

from perdure.code.code_program import CodeProgram
from perdure.code.declarations import CodeWorkflow, Step
from perdure.code.deterministic_loop import DeterministicLoop, NumberedFuture, NumberedTask
from perdure.code.results import Won
from perdure.core.error_text import exception_text, safe_text, valid_utf8
from perdure.core.errors import BadValue, JoinFailed, RaceFailed, WrongVerb
from perdure.core.paths import Path, path_text

T = TypeVar("T")

RETURN_WHEN = (asyncio.ALL_COMPLETED, asyncio.FIRST_COMPLETED, asyncio.FIRST_EXCEPTION)


class CompletedTasks(Generic[T]):
    """Yields tasks in the order in which they end. It is an asynchronous iterator and not a generator, so leaving it by `break` needs no cleanup."""

    __slots__ = ("_came", "_ended", "_left", "_loop")

    def __init__(self, loop: DeterministicLoop, tasks: Iterable[asyncio.Task[T]]) -> None:
        self._loop = loop
        self._ended: deque[asyncio.Task[T]] = deque()
        self._came: NumberedFuture[None] | None = None
        self._left = 0
        for task in tasks:
            self._left += 1
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        self._ended.append(task)
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    def __aiter__(self) -> "CompletedTasks[T]":
        return self

    async def __anext__(self) -> asyncio.Task[T]:
        if not self._left:
            raise StopAsyncIteration
        if not self._ended:
            self._came = self._loop.create_future()
            await self._came
        self._left -= 1
        return self._ended.popleft()


def tasks_of(verb: str, loop: DeterministicLoop, awaitables: Sequence[Awaitable[T]]) -> list[asyncio.Task[T]]:
    """Returns a task for each awaitable, in their order; an awaitable that is a task already is returned itself.

    Raises:
        WrongVerb: there are none, or one can't be awaited. No task was started.
    """
    wrong = next((one for one in awaitables if not hasattr(one, "__await__")), None)
    if wrong is None and awaitables:
        return list(dict.fromkeys(one if isinstance(one, NumberedTask) else loop.create_task(_as_coroutine(one)) for one in awaitables))
    for one in awaitables:
        if isinstance(one, Coroutine):
            one.close()
    what = f"ctx.{verb} was called without an awaitable" if wrong is None else f"ctx.{verb} was given an object of type {type(wrong).__name__}"
    raise WrongVerb(what, "pass the results of verbs, such as ctx.step(...), or tasks made from them")


def _as_coroutine(one: Awaitable[T]) -> Coroutine[Any, Any, T]:
    """A coroutine that awaits `one`."""
    if isinstance(one, Coroutine):
        return one

    async def await_it() -> T:
        return await one

    return await_it()


def checked_return_when(when: str) -> str:
    """Returns `when` if it is one of the constants of asyncio.

    Raises:
        BadValue: it is not.
    """
    if when not in RETURN_WHEN:
        raise BadValue("wait(return_when)", when, "asyncio.ALL_COMPLETED, asyncio.FIRST_COMPLETED or asyncio.FIRST_EXCEPTION")
    return when


async def wait_for_tasks(loop: DeterministicLoop, tasks: Sequence[asyncio.Task[T]], when: str, limit: Coroutine[Any, Any, None] | None) -> None:
    """Waits for as many tasks as `when` says, or until `limit` returns."""
    if limit is None:
        await asyncio.wait(tasks, return_when=when)
        return
    enough, late = loop.create_task(asyncio.wait(tasks, return_when=when)), loop.create_task(limit)
    try:
        await asyncio.wait((enough, late), return_when=asyncio.FIRST_COMPLETED)
    finally:
        enough.cancel()
        late.cancel()


LABEL_BYTES_MAX = 200

OWN_NAME_CHARACTERS_MAX = 200
"""The longest name of a function that names its branch; a branch with a longer one is named like that of an anonymous function."""

Branch = tuple[str, Path, Callable[..., Awaitable[Any]]]
"""A branch before it starts: its name in results, its path, and its function of a context."""

StartBranch = Callable[[str, Path, Callable[..., Awaitable[Any]]], NumberedTask[Any]]
"""Starts a branch as a task with a context of its own."""


class BranchGroup:
    """The running branches of one join, map or race. The cost of the end of a branch does not depend on the number of branches."""

    __slots__ = ("_branches", "_failed", "_limit", "_live", "_program", "_start", "done", "errors", "outputs", "race", "tasks")

    def __init__(self, program: CodeProgram, start: StartBranch, branches: Iterator[Branch], limit: int | None, race: bool) -> None:
        self.done: Any = program.loop.create_future()
        self.errors: dict[str, Exception] = {}
        self.outputs: dict[str, Any] = {}
        self.race = race
        self.tasks: dict[NumberedTask[Any], tuple[str, Path]] = {}
        self._program, self._start = program, start
        self._failed: list[Path] = []
        self._branches = branches
        self._limit = limit
        self._live = 0
        self._fill()

    def _fill(self) -> None:
        """Starts branches up to the limit, or complete `done` when no branch is left and none is running."""
        while self._limit is None or self._live < self._limit:
            branch = next(self._branches, None)
            if branch is None:
                break
            name, path, fn = branch
            task = self._start(name, path, fn)
            self.tasks[task] = name, path
            self._live += 1
            task.add_done_callback(self._ended)
        if not self._live and not self.done.done():
            self.done.set_result(None)

    def _ended(self, task: NumberedTask[Any]) -> None:
        name, path = self.tasks.pop(task)
        self._live -= 1
        error = RuntimeError("the branch cancelled itself") if task.cancelled() else task.exception()
        if self.race and error is not None and not self.done.done():
            self._failed.append(path)  # its messages go back only if another branch wins, which is known when the race is over
        else:
            self._program.receipts.end(path)
        if self.done.done():
            return
        if error is None:
            self.outputs[name] = task.result()
            if self.race:
                self.done.set_result(name)
                return
        else:
            self.errors[name] = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {exception_text(error)}")
        self._fill()

    def cancel(self) -> None:
        """Cancels every running branch. These branches, and those that failed before, put back the messages that they did not use."""
        self._branches, program = iter(()), self._program
        for path in self._failed:
            program.give_back(path)
            program.receipts.end(path)
        for task, (_, path) in list(self.tasks.items()):
            program.give_back(path)
            task.cancel()

    async def run(self) -> None:
        """Waits until all branches have ended or, in a race, until one has returned."""
        try:
            await self.done
        except CancelledError:
            self.cancel()
            raise
        if not self.outputs:
            for path in self._failed:  # all have failed, and the caller receives their errors
                self._program.receipts.end(path)


def branches_label(verb: str, names: Sequence[str]) -> str:
    """Returns the label under which the log records the branches: their names or, if these are long, their number and a hash."""
    listed = msgspec.json.encode(names)
    if len(listed) > LABEL_BYTES_MAX:
        return f"{verb} of {len(names)}, {sha256(listed).hexdigest()[:16]}"
    return f"{verb} {listed.decode()}"


def branch_count(label: str) -> int:
    """Returns how many branches a label records, that of `ctx.map` included; 0 if it says none."""
    if "[" in label:
        return len(msgspec.json.decode(label[label.index("[") :]))
    found = re.search(r"^\w+ of (\d+), [0-9a-f]{16}$|^map .* over (\d+)$", label)
    return 0 if found is None else int(found[1] or found[2])


async def join_branches(program: CodeProgram, start: StartBranch, path: Path, branches: Sequence[Branch], limit: int | None = None) -> dict[str, Any]:
    """Runs all branches; returns their results by name, or raises `JoinFailed` once all have ended."""
    program.note_awaited(path)
    running = BranchGroup(program, start, iter(branches), limit, race=False)
    await running.run()
    outputs = {name: running.outputs[name] for name, _, _ in branches if name in running.outputs}
    if running.errors:
        errors = {name: running.errors[name] for name, _, _ in branches if name in running.errors}
        raise JoinFailed(f"{len(errors)} of {len(branches)} branches of {path_text(path)} failed", errors, outputs)
    return outputs


async def race_branches(program: CodeProgram, start: StartBranch, path: Path, branches: Sequence[Branch]) -> Won[Any]:
    """Runs all branches until one returns, then cancels the others, even in the middle of a step."""
    program.note_awaited(path)
    running = BranchGroup(program, start, iter(branches), None, race=True)
    await running.run()
    winner = running.done.result()
    if winner is None:
        errors = {name: running.errors[name] for name, _, _ in branches}
        raise RaceFailed(f"all {len(branches)} branches of {path_text(path)} failed", errors)
    program.lost.update(path for _, path in running.tasks.values())
    running.cancel()
    return Won(winner, running.outputs[winner])


def named_branches(path: Path, positional: Iterable[Any], by_name: dict[str, Any], adapt: Callable[[Any], Any]) -> list[Branch]:
    """Returns the branches of a join or race, each with its name, its path, and its function after `adapt`.

    Raises:
        WrongVerb: a branch is not a function of a context.
    """
    counts: dict[str, int] = {}
    branches: list[Branch] = []
    for fn in positional:
        name = function_name(fn, "branch")
        counts[name] = number = counts.get(name, 0) + 1
        branches.append((name if number == 1 else f"{name}#{number}", (*path, (name, number)), adapt(fn)))
    branches.extend((name, (*path, (name, 1)), adapt(fn)) for name, fn in by_name.items())
    for name, _, fn in branches:
        if not callable(fn):
            if isinstance(fn, Coroutine):
                fn.close()
            instead = "pass a step, a workflow or a function of a context, such as `lambda c: c.sleep('3d')`, not what it returns"
            raise WrongVerb(f"branch {name} of {path_text(path)} is of type {type(fn).__name__} and not a function", instead)
    return branches


def function_name(fn: Any, instead: str) -> str:
    """Returns the name of a function, a step or a workflow, or `instead` for an anonymous function."""
    if isinstance(fn, Step):
        return fn.explicit or fn.name
    if isinstance(code := getattr(fn, "code", None), CodeWorkflow):
        return code.name
    name = safe_text(lambda: fn.__name__, "")
    usable = 0 < len(name) <= OWN_NAME_CHARACTERS_MAX and name != "<lambda>" and valid_utf8(name) == name
    return name if usable else instead
