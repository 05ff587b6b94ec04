"""Handles executions that have not begun: withdraws them, replaces them by a later start (debounce), or starts none while one runs (singleton).

None of this needs an engine or races with one: withdrawing commits at version 0, where an engine that begins the execution would commit too, and one of the
two commits is refused. The ids in a series of executions are counted: ``key@1``, ``key@2`` and so on.
"""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from perdure.core import log_format, messages
from perdure.core.decision import DecisionContext, DecisionGenerator, ExecutionDecision, decide
from perdure.core.envelopes import Ack
from perdure.core.execution import Execution
from perdure.core.paths import Key
from perdure.core.time_bounds import TimeBounds
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Commit, Head, HeadFilter

SERIES_MAX = 200
"""How many of the newest executions of a series are read."""


async def withdrawal_commit(access: StoreAccess, head: Head, message: messages.CancelMessage | messages.TerminateMessage) -> Commit | None:
    """The commit that ends an execution that has not begun and has no holder, and notifies its parents; None for any other execution."""
    if head.version or head.holder is not None or head.status in ENDED_STATUSES:
        return None
    key = head.key
    moment = await access.store.store_time()
    queued = await access.store.messages(key)
    execution, host, now = Execution(key, head.root), DecisionContext(""), TimeBounds.exactly(max(moment.now_s, head.created_at_s))
    total = _decide_all(decide(execution, message, _NEVER_PROGRAM, now, host))
    for one in queued:
        answer = _decide_all(decide(execution, messages.decode_execution_message(one.body), _NEVER_PROGRAM, now, host))
        total.events += answer.events
        total.messages += answer.messages
    return Commit(
        key=key,
        epoch=moment.epoch,
        holder=f"client-{uuid4().hex}",
        version=0,
        program=head.program,
        root=head.root,
        row=log_format.encode_row(total.events),
        count=len(total.events),
        status=execution.status,
        ended_at_s=now.latest_s,
        release=True,
        news=True,
        messages=tuple(total.messages),
        acks=tuple(Ack(key, one.key) for one in queued),
    )


def _decide_all(deciding: DecisionGenerator) -> ExecutionDecision:
    try:
        next(deciding)
    except StopIteration as end:
        decision: ExecutionDecision = end.value
        return decision
    raise RuntimeError("an execution that has not begun has no large value to be loaded")


async def series_of(access: StoreAccess, key: Key) -> list[Head]:
    """The executions of a series, newest first, up to `SERIES_MAX`."""
    found = await access.store.heads(HeadFilter(tenant=key.tenant, workflow=key.workflow, id_prefix=f"{key.id}@", limit=SERIES_MAX))
    return sorted((head for head in found if series_number(key, head.key)), key=lambda head: -series_number(key, head.key))


def series_number(key: Key, one: Key) -> int:
    """The number of an execution in a series; 0 if it is not part of it."""
    counted = one.id.removeprefix(f"{key.id}@")
    return int(counted) if one.id.startswith(f"{key.id}@") and counted.isdecimal() else 0


def next_in_series(key: Key, heads: list[Head]) -> Key:
    """The key of the next execution of a series."""
    return key._replace(id=f"{key.id}@{1 + (series_number(key, heads[0].key) if heads else 0)}")


async def supersede_commits(access: StoreAccess, heads: Sequence[Head], by: Key) -> list[Commit]:
    """The commits that withdraw the executions of a series that have not begun, in favour of `by`.

    They must be in one transaction with the start of `by`; otherwise both executions could run.
    """
    message = messages.CancelMessage(f"superseded by {by.id}")
    changes = [await withdrawal_commit(access, head, message) for head in heads if head.status == "pending"]
    return [change for change in changes if change is not None]


class _NeverProgram:
    """The program of an execution that never begins. It is never fed an event."""

    awake = False
    keeps_archives = False

    def feed(self, *_: Any) -> Any:
        raise RuntimeError("an execution that has not begun was fed an event")

    def unfit(self, *_: Any) -> Any:
        """Why it cannot continue with a definition: it never begins."""
        return ("it has not begun",)

    def refuse(self, *_: Any) -> None:
        raise RuntimeError("an execution that has not begun can't diverge")

    def close(self) -> None:
        """Has nothing to close."""


_NEVER_PROGRAM = _NeverProgram()
