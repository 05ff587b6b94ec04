"""Loops with durable state: each turn has a path of its own, so that old turns can be forgotten and the log stays bounded.

The state at the beginning of a turn is remembered; a cold execution goes on from the earliest turn that is still kept.
"""

from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import ref

from perdure.core import values
from perdure.core.errors import WrongVerb
from perdure.core.paths import Path
from perdure.programs.code.durations import whole
from perdure.programs.code.instance import Instance
from perdure.programs.code.scope import Scope

if TYPE_CHECKING:
    from perdure.programs.code.context import Context, Turn

S = TypeVar("S")

PLAIN = (bool, int, float, str, bytes, list, dict, type(None))
"""Types of state that are kept as what they are, so that a count may become a fraction, and None a page."""


class Cell(Generic[S]):
    """What a turn leaves to the next one."""

    __slots__ = ("state",)

    def __init__(self, state: S) -> None:
        self.state = state


class Loop(Generic[S]):
    """The turns of one loop: an asynchronous iterator, and no generator, so that leaving it by `break` needs no cleanup."""

    __slots__ = ("__weakref__", "_cell", "_commit_every", "_context", "_keep", "_kind", "_path", "_scope", "_trim_every", "_turn", "_undo_keep")

    def __init__(self, context: "Context", scope: Scope, path: Path, state: S, *, commit_every: int, keep: int, trim_every: int, undo_keep: int | None) -> None:
        for name, number in (("commit_every", commit_every), ("keep", keep), ("trim_every", trim_every), ("undo_keep", undo_keep)):
            if number is not None:
                whole(number, f"loop({name})")
        self._context = context
        self._scope = scope
        self._path = path
        self._cell = Cell(state)
        self._kind: Any = Any if isinstance(state, PLAIN) else type(state)
        self._commit_every = commit_every
        self._keep = keep
        self._trim_every = trim_every
        self._undo_keep = undo_keep
        self._turn = -1

    def __aiter__(self) -> "Loop[S]":
        return self

    async def __anext__(self) -> "Turn[S]":
        instance: Instance = self._context._instance
        self._scope.loop_alive = None
        if self._turn < 0:
            await self._begin(instance)
        else:
            self._turn += 1
            self._commit(instance)
            self._trim(instance)
        self._scope.loop_alive = ref(self)
        return self._context._turn(self._scope, self._cell, self._turn, (*self._path, self._turn))

    async def _begin(self, instance: Instance) -> None:
        """Start at turn 0, at the turn from which a compacted log goes on, or, reopened or forked, at the earliest turn that is kept."""
        execution = instance.execution
        if self._path in execution.resumes:
            turned = await instance.wait_for_turn(self._path)
            self._turn = turned.turn
            self._cell.state = instance.decode(turned.value, self._kind, self._path)
            return
        self._turn = execution.trimmed.get(self._path, 0) if execution.reopened or execution.forked is not None else 0
        self._commit(instance)

    def _commit(self, instance: Instance) -> None:
        path = (*self._path, self._turn)
        if self._turn % self._commit_every == 0:
            value = instance.remember(path, lambda: values.encode(self._cell.state, "the state of loop", path), role="turn")
            self._cell.state = instance.decode(value, self._kind, path)

    def _trim(self, instance: Instance) -> None:
        if self._turn % self._trim_every == 0 and self._turn > self._keep:
            instance.trim(self._path, self._turn - self._keep, 0 if self._undo_keep is None else max(0, self._turn - self._undo_keep))


def refuse_outer(scope: Scope, verb: str) -> None:
    """Refuse a verb of the surrounding context while a turn of its loop runs: what it opens would never be trimmed."""
    alive = scope.loop_alive
    if isinstance(alive, ref) and alive() is not None:
        raise WrongVerb(f"ctx.{verb} in a turn of a loop", f"use the turn's own context: `async for turn in ctx.loop(...): await turn.{verb}(...)`")
    scope.loop_alive = None
