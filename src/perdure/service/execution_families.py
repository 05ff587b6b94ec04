"""Reads the family of an execution: the one that has started it, and those that it has started, with theirs, now or as they were at one of its events.

Every log is read up to the time of that event. Where what is left of a log no longer says what was so then, the answer says that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import msgspec

from perdure.core.errors import NotFound
from perdure.core.execution import Execution
from perdure.core.operations import SpawnOperation
from perdure.core.paths import Key, path_text
from perdure.core.step_attempts import step_attempts
from perdure.service.execution_reasons import reason_from_log
from perdure.service.past_states import PastState, read_past, read_past_time
from perdure.service.queries import INTERNAL_WORKFLOWS, past_approval, status_and_reason
from perdure.service.store_access import StoreAccess

MEMBERS_MAX = 50
"""How many descendants are read; of those of one execution, first the ones that it waits for."""

DEPTH_MAX = 5
"""How many generations of descendants are read."""


class FamilyMember(msgspec.Struct, frozen=True, kw_only=True):
    """An execution of a family, now or at the time that was asked for. The operation at `path` of the one above has started it (of the parent: empty).

    `status` and `why` are as of that time, and `version` is the number of its last event then (0: it had not begun), which `at` takes elsewhere. If its status
    is not known, `unknown` says why, and `status` is empty. Of its `children`, `omitted` were not read, since there are too many.
    """

    key: Key
    path: str = ""
    status: str = ""
    why: str = ""
    version: int = 0
    ended_at_s: float | None = None
    unknown: str = ""
    children: list[FamilyMember] = []
    omitted: int = 0


class ExecutionFamily(msgspec.Struct, frozen=True, kw_only=True):
    """The family of an execution: its parent, if another execution has started it, and its children. Of these, `omitted` were not read."""

    parent: FamilyMember | None
    children: list[FamilyMember]
    omitted: int


async def read_family(access: StoreAccess, key: Key, at: int | None = None) -> ExecutionFamily:
    """The family of an execution, now or at the time of event `at` of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event, or has it no more.
    """
    if at is None:
        async with access.tails.use(key) as tail:
            origin, started, moment_s = _origin(tail.execution), [*started_by(tail.execution)], None
    else:
        execution = (await read_past(access.store, key, at)).fold()
        origin, started, moment_s = _origin(execution), [*started_by(execution)], execution.now_s
    reader = _Reader(access, moment_s)
    parent = None if origin is None else (await reader.member("", origin))[0]
    children, omitted = await reader.members(started, 1)
    return ExecutionFamily(parent=parent, children=children, omitted=omitted)


def started_by(execution: Execution) -> Iterator[tuple[str, Key]]:
    """The paths and keys of children: those that are waited for, and then the others, the latest first."""
    opened = ((path, pending.op) for path, pending in execution.open.items())
    settled = ((path, known.op) for path, known in reversed(execution.settled.items()))
    for path, op in chain(opened, settled):
        if isinstance(op, SpawnOperation) and op.workflow not in INTERNAL_WORKFLOWS:
            yield path_text(path), Key(execution.key.tenant, op.workflow, op.id)


def _origin(execution: Execution) -> Key | None:
    return None if execution.started is None else execution.started.origin


class _Reader:
    """Reads executions as they are, or were at a time, as many as `MEMBERS_MAX` says."""

    def __init__(self, access: StoreAccess, moment_s: float | None) -> None:
        self._access, self._moment_s = access, moment_s
        self._left = MEMBERS_MAX

    async def members(self, started: list[tuple[str, Key]], depth: int) -> tuple[list[FamilyMember], int]:
        """The executions that one has started, with what they have started, and the number of those that are not read."""
        found: list[FamilyMember] = []
        for path, key in started:
            if self._left <= 0 or depth > DEPTH_MAX:
                break
            self._left -= 1
            one, below = await self.member(path, key)
            children, omitted = await self.members(below, depth + 1)
            found.append(msgspec.structs.replace(one, children=children, omitted=omitted))
        return found, len(started) - len(found)

    async def member(self, path: str, key: Key) -> tuple[FamilyMember, list[tuple[str, Key]]]:
        """One execution, and what it has started."""
        try:
            if self._moment_s is None:
                return await self._present(path, key)
            past = await read_past_time(self._access.store, key, self._moment_s)
        except NotFound:
            return FamilyMember(key=key, path=path, unknown="it does not exist, or was removed"), []
        if past is None:
            return FamilyMember(key=key, path=path, unknown="its log was compacted or removed since then"), []
        return await self._past(path, past)

    async def _present(self, path: str, key: Key) -> tuple[FamilyMember, list[tuple[str, Key]]]:
        async with self._access.tails.use(key) as tail:
            status = (await status_and_reason(self._access, tail))[0]
            started = [*started_by(tail.execution)]
        version, ended_at_s = status.version, status.ended_at_s
        return FamilyMember(key=key, path=path, status=status.status, why=status.why, version=version, ended_at_s=ended_at_s), started

    async def _past(self, path: str, past: PastState) -> tuple[FamilyMember, list[tuple[str, Key]]]:
        execution = Execution(past.head.key, past.head.root)
        attempts = step_attempts(execution, past.seen)
        why = reason_from_log(execution, attempts, await past_approval(self._access, execution)).text
        ended_at_s = None if execution.ended is None else execution.ended.at_s
        member = FamilyMember(key=past.head.key, path=path, status=execution.status, why=why, version=past.version, ended_at_s=ended_at_s)
        return member, [*started_by(execution)]
