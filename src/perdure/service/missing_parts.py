"""What an execution lacks to go on: an engine that knows its workflow, a worker that serves the queue of its step, somebody who resumes it.

Warnings to those who wait for results that cannot come, as something is missing: an engine that knows the workflow, or a worker for a queue.

Waiting is no error, as an engine may be started later. So the warning goes to the logger ``perdure.sync_client``, two seconds after the wait began
and once a minute from then on, in one line for all executions that lack the same.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from perdure.core import log_format
from perdure.core.errors import StoreError
from perdure.core.execution import Execution
from perdure.core.operations import CallOperation
from perdure.core.paths import Key
from perdure.core.program import claimable_programs, program_base, program_requirements, program_text
from perdure.core.replay import fold_events
from perdure.definitions.graph.requirements import capabilities_text
from perdure.runtime import holder
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.runtime.holder import ProcessInfo
from perdure.stores.protocol import Head, HeadFilter, Store

FOLDED_EVENTS_MAX = 2_000
"""Of how long an execution it is found out which queue it waits for; the log of a longer one is not read for that."""

FOLDED_MAX = 10
"""Of how many executions at a time."""


async def live_processes(store: Store) -> list[ProcessInfo] | None:
    """What the living holders say of themselves; None if one says nothing, which may know what the others do not."""
    alive = [holder.decode_process_info(lease.about) for lease in await store.leases() if lease.alive]
    known = [one for one in alive if one is not None]
    return known if len(known) == len(alive) else None


def missing_engine(head: Head, holders: Sequence[ProcessInfo]) -> str:
    """The engine that an execution lacks, in words; empty if there is one."""
    near = [one for one in holders if one.roots is None or head.root in one.roots]
    if not any(one.programs for one in near):
        return "no engine is running"
    able = [one for one in near if program_base(head.program) in one.programs]
    if not able:
        return f"no engine here knows {program_text(head.program)}"
    lacking = _missing_capabilities(head.program, able)
    return f"no engine here has {lacking}, which {program_text(head.program)} needs" if lacking else ""


def _missing_capabilities(program: str, engines: Sequence[ProcessInfo]) -> str:
    """The capabilities that a program needs and none of these engines has all of; nothing, if one has."""
    needs = program_requirements(program)
    if not needs or any(claimable_programs([program], one.toolboxes) for one in engines):
        return ""
    has = frozenset[str]().union(*(has for one in engines for programs, has in one.toolboxes if program_base(program) in programs))
    return capabilities_text(needs - has or needs)


def missing_worker(head: Head, execution: Execution, holders: Sequence[ProcessInfo]) -> str:
    """The worker that the first open step of an execution lacks, in words; empty if there is one, or if it needs none."""
    first = next(iter(execution.open.values()), None)
    if first is None or first.state != "waiting" or not isinstance(first.op, CallOperation) or not first.op.queue:
        return ""
    is_served = any(first.op.queue in one.queues for one in holders if one.roots is None or head.root in one.roots)
    return "" if is_served else f"no worker serves queue {first.op.queue}"


class MissingParts:
    """What executions of one store lack."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, keys: Sequence[Key]) -> dict[Key, str]:
        """What is missing, in words, for each of these executions that lacks something."""
        holders = await live_processes(self._store)
        heads = [] if holders is None else await self._store.heads(HeadFilter(keys=tuple(keys), limit=len(keys)))
        now_s = (await self._store.store_time()).now_s if heads else 0.0
        found: dict[Key, str] = {}
        folded = 0
        for head in reversed(heads):  # those that were created first are named first
            if head.status in ENDED_STATUSES or _is_due_later(head, now_s):
                continue
            reason = "it is paused; resume it" if head.status == "paused" else missing_engine(head, holders or ())
            if not reason and head.status == "waiting" and head.version <= FOLDED_EVENTS_MAX and folded < FOLDED_MAX:
                folded += 1
                reason = await self._worker(head, holders or ())
            if reason:
                found[head.key] = reason
        return found

    async def _worker(self, head: Head, holders: Sequence[ProcessInfo]) -> str:
        read = await self._store.read(head.key)
        return "" if read is None else missing_worker(head, fold_events(head.key, log_format.decode_rows(read.rows)), holders)


def _is_due_later(head: Head, now_s: float) -> bool:
    return head.version == 0 and head.mail_at_s is not None and head.mail_at_s > now_s


logger = logging.getLogger("perdure.sync_client")

FIRST_WARNING_S = 2.0
"""How long somebody waits before the first warning."""

WARNING_INTERVAL_S = 60.0
"""The time between two warnings to one who waits."""

GATHER_S = 0.05
"""How long further waits that are due are gathered, so that one look at the store serves them all."""

KEYS_MAX = 500
"""How many executions are looked at for one warning; of more, some are enough."""


class WaitWarnings:
    """Everybody in one event loop who waits for results from one store."""

    def __init__(self, store: Store) -> None:
        self._missing = MissingParts(store)
        self._due: dict[Key, None] = {}
        self._telling: asyncio.Task[None] | None = None

    @contextmanager
    def waiting(self, key: Key) -> Iterator[None]:
        """Somebody waits for the result of `key` within the block."""
        timer: asyncio.TimerHandle
        loop = asyncio.get_running_loop()

        def due() -> None:
            nonlocal timer
            self._take(key)
            timer = loop.call_later(WARNING_INTERVAL_S, due)

        timer = loop.call_later(FIRST_WARNING_S, due)
        try:
            yield
        finally:
            timer.cancel()
            self._due.pop(key, None)

    def close(self) -> None:
        """Warn nobody any more."""
        if self._telling is not None:
            self._telling.cancel()

    def _take(self, key: Key) -> None:
        self._due[key] = None
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        """Warn of what is missing for those that are due."""
        await asyncio.sleep(GATHER_S)
        keys, self._due = list(self._due)[:KEYS_MAX], {}
        try:
            missing = await self._missing.of(keys)
        except StoreError as error:
            logger.warning("could not find out why results do not come: %s", error)
            return
        by_reason: dict[str, list[Key]] = {}
        for key, reason in missing.items():
            by_reason.setdefault(reason, []).append(key)
        for reason, waiting in by_reason.items():
            others = f" and of {len(waiting) - 1} more" if len(waiting) > 1 else ""
            logger.warning("waiting for the result of %s%s: %s", waiting[0], others, reason)
