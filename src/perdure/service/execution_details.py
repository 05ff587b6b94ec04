"""Reads what a display of one execution shows: its status and its operations with their values, and the same of the executions that it has started.

The answer is a snapshot of one moment, and its size is bounded: it holds references to the values, and at most `EXECUTIONS_MAX` descendants.
"""

from __future__ import annotations

import msgspec

from perdure.core.errors import NotFound
from perdure.core.execution import Execution
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import KeepOperation, Success
from perdure.core.paths import Key, path_text
from perdure.core.values import ENCODED_NONE, Value
from perdure.core.views import StepView
from perdure.service import definition_views, queries
from perdure.service.execution_families import started_by
from perdure.service.queries import ExecutionStatus
from perdure.service.store_access import StoreAccess

EXECUTIONS_MAX = 20
"""The number of descendants that are read; of those of one execution, first the ones that it waits for."""

DEPTH_MAX = 5
"""How many generations of descendants are read."""

KEPT_ROLES = {"value", "state", "stream", "reply"}
"""The roles of kept values that mean something to people."""


class ExecutionValues(msgspec.Struct, frozen=True):
    """The encoded values of an execution. `results` are those of settled operations and `progress` what open ones have reported last, by path, without those
    that are None; `received` are the bodies of messages; `state` is what the workflow has set for queries, `emitted` what it has emitted last, and `result`
    what it has returned.
    """

    results: dict[str, Value]
    progress: dict[str, Value]
    received: dict[str, tuple[Value, ...]]
    state: dict[str, Value]
    emitted: Value | None
    result: Value | None


class ExecutionDetails(msgspec.Struct, frozen=True):
    """One execution at the time `read_at_s` of the store. `programs` are those that living engines know; `children` are by the path of the operation that
    has started them.
    """

    read_at_s: float
    status: ExecutionStatus
    steps: list[StepView]
    values: ExecutionValues
    programs: frozenset[str]
    children: dict[str, ExecutionDetails]


class _Reader:
    """Reads an execution and its descendants, as many as `left` says."""

    def __init__(self, access: StoreAccess, read_at_s: float, programs: frozenset[str]) -> None:
        self._access = access
        self._read_at_s = read_at_s
        self._programs = programs
        self.left = EXECUTIONS_MAX

    async def details(self, key: Key, depth: int = 0) -> ExecutionDetails:
        fold = self._access.folds.of(key)
        steps = await definition_views.step_views(self._access, fold)
        status = await queries.execution_status(self._access, key)
        found, started = await fold.view(lambda execution: (_values_of(execution), list(started_by(execution))))
        children = {path: child for path, key in started if depth < DEPTH_MAX and (child := await self._child(key, depth + 1)) is not None}
        return ExecutionDetails(self._read_at_s, status, steps, found, self._programs, children)

    async def _child(self, key: Key, depth: int) -> ExecutionDetails | None:
        """The details of a child; None if enough have been read, or if it does not exist yet, or no more."""
        if self.left <= 0:
            return None
        self.left -= 1
        try:
            return await self.details(key, depth)
        except NotFound:
            return None


async def execution_details(access: StoreAccess, key: Key) -> ExecutionDetails:
    """The details of an execution.

    Raises:
        NotFound: there is no such execution.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    programs = frozenset(program for one in await queries.list_holders(access) if one.alive for program in one.programs)
    return await _Reader(access, (await access.store.store_time()).now_s, programs).details(key)


def _values_of(execution: Execution) -> ExecutionValues:
    results, received = dict[str, Value](), dict[str, tuple[Value, ...]]()
    emitted: Value | None = None
    for path, known in execution.settled.items():
        if known.messages:
            received[path_text(path)] = tuple(message.body for message in known.messages)
        elif (value := _result_of(known)) != ENCODED_NONE:
            results[path_text(path)] = value
        if isinstance(known.op, KeepOperation) and known.op.role == "stream":
            emitted = known.op.value
    progress = {path_text(path): pending.progress for path, pending in execution.open.items() if pending.progress != ENCODED_NONE}
    ended = None if execution.ended is None else execution.ended.outcome
    return ExecutionValues(results, progress, received, dict(execution.state), emitted, ended.value if isinstance(ended, Success) else None)


def _result_of(known: SettledOperation) -> Value:
    if not isinstance(known.outcome, Success) or (isinstance(known.op, KeepOperation) and known.op.role not in KEPT_ROLES):
        return ENCODED_NONE
    return known.outcome.value
