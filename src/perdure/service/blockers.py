"""What an execution lacks to go on: an engine that knows its workflow, a worker that serves the queue of its step, somebody who resumes it."""

from collections.abc import Sequence

from perdure.core import log
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.ops import Call
from perdure.core.paths import Key
from perdure.core.program import base, claimable, needs_of, shown
from perdure.programs.graph.needs import described
from perdure.runtime import presence
from perdure.runtime.endings import ENDED
from perdure.runtime.presence import Presence
from perdure.stores.base import Filter, Head, Store

FOLDED_EVENTS_MAX = 2_000
"""Of how long an execution it is found out which queue it waits for; the log of a longer one is not read for that."""

FOLDED_MAX = 10
"""Of how many executions at a time."""


async def living(store: Store) -> list[Presence] | None:
    """What the living holders say of themselves; None if one says nothing, which may know what the others do not."""
    alive = [presence.decode(lease.about) for lease in await store.leases() if lease.alive]
    known = [one for one in alive if one is not None]
    return known if len(known) == len(alive) else None


def missing_engine(head: Head, holders: Sequence[Presence]) -> str:
    """The engine that an execution lacks, in words; empty if there is one."""
    near = [one for one in holders if one.root in (None, head.root)]
    if not any(one.programs for one in near):
        return "no engine is running"
    able = [one for one in near if base(head.program) in one.programs]
    if not able:
        return f"no engine here knows {shown(head.program)}"
    lacking = _lacking(head.program, able)
    return f"no engine here has {lacking}, which {shown(head.program)} needs" if lacking else ""


def _lacking(program: str, engines: Sequence[Presence]) -> str:
    """The capabilities that a program needs and none of these engines has all of; nothing, if one has."""
    needs = needs_of(program)
    if not needs or any(claimable([program], one.toolboxes) for one in engines):
        return ""
    has = frozenset[str]().union(*(has for one in engines for programs, has in one.toolboxes if base(program) in programs))
    return described(needs - has or needs)


def missing_worker(head: Head, execution: Execution, holders: Sequence[Presence]) -> str:
    """The worker that the first open step of an execution lacks, in words; empty if there is one, or if it needs none."""
    first = next(iter(execution.open.values()), None)
    if first is None or first.state != "waiting" or not isinstance(first.op, Call) or not first.op.queue:
        return ""
    is_served = any(first.op.queue in one.queues for one in holders if one.root in (None, head.root))
    return "" if is_served else f"no worker serves queue {first.op.queue}"


class MissingParts:
    """What executions of one store lack."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, keys: Sequence[Key]) -> dict[Key, str]:
        """What is missing, in words, for each of these executions that lacks something."""
        holders = await living(self._store)
        heads = [] if holders is None else await self._store.heads(Filter(keys=tuple(keys), limit=len(keys)))
        now_s = (await self._store.moment()).now_s if heads else 0.0
        found: dict[Key, str] = {}
        folded = 0
        for head in reversed(heads):  # those that were created first are named first
            if head.status in ENDED or _is_due_later(head, now_s):
                continue
            reason = "it is paused; resume it" if head.status == "paused" else missing_engine(head, holders or ())
            if not reason and head.status == "waiting" and head.version <= FOLDED_EVENTS_MAX and folded < FOLDED_MAX:
                folded += 1
                reason = await self._worker(head, holders or ())
            if reason:
                found[head.key] = reason
        return found

    async def _worker(self, head: Head, holders: Sequence[Presence]) -> str:
        read = await self._store.read(head.key)
        return "" if read is None else missing_worker(head, fold(head.key, log.decode_all(read.rows)), holders)


def _is_due_later(head: Head, now_s: float) -> bool:
    return head.version == 0 and head.mail_at_s is not None and head.mail_at_s > now_s
