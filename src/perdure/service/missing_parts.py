"""Finds what an execution lacks to continue (an engine, a worker, a resume), and warns callers that wait for its result.

An execution that waits is not in error, since an engine may be started later. The warning is therefore a log line of ``perdure.sync_client``: after two
seconds of waiting and every minute from then on, one line for all executions that lack the same.
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
from perdure.core.program import claimable_programs, is_hosted, near_programs, program_base, program_requirements, program_text
from perdure.core.replay import fold_events
from perdure.definitions.graph.requirements import capabilities_text
from perdure.runtime import holder
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.runtime.holder import ProcessInfo
from perdure.stores.protocol import Head, HeadFilter, Store

FOLDED_EVENTS_MAX = 2_000
"""The logs of longer executions are not read to find out which queue they wait for."""

START_ENGINE = "Start an engine that has the workflow: perdure worker FILE.py, or an App"
"""What to do about a missing engine."""

FOLDED_MAX = 10
"""The number of logs read for one warning."""


async def live_processes(store: Store) -> list[ProcessInfo] | None:
    """The process information of the living holders; None if one of them publishes none, because it might serve what the others lack."""
    alive = [holder.decode_process_info(lease.about) for lease in await store.leases() if lease.alive]
    known = [one for one in alive if one is not None]
    return known if len(known) == len(alive) else None


def missing_engine(head: Head, holders: Sequence[ProcessInfo]) -> str:
    """The engine that an execution lacks, in words; empty if there is one."""
    near = [one for one in holders if one.roots is None or head.root in one.roots]
    if not any(one.programs for one in near):
        return "no engine is running"
    near = [one for one in near if one.serves(head.key.tenant)]
    if not any(one.programs for one in near):
        return f"no engine serves tenant {head.key.tenant}"
    able = [one for one in near if program_base(head.program) in one.programs]
    hosted = is_hosted(head.program)
    if not able and hosted:
        return "no running engine runs definitions of the catalog"
    if not able:
        return f"no running engine knows {program_text(head.program)}{near_programs(head.program, (name for one in near for name in one.programs))}"
    lacking = _missing_capabilities(head.program, able)
    return f"no engine here has {lacking}, which {head.key.workflow if hosted else program_text(head.program)} needs" if lacking else ""


def _missing_capabilities(program: str, engines: Sequence[ProcessInfo]) -> str:
    """The capabilities that a program needs and that no single engine has all of; empty if one has."""
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
    near = [one for one in holders if (one.roots is None or head.root in one.roots) and one.serves(head.key.tenant)]
    is_served = any(first.op.queue in one.queues for one in near)
    return "" if is_served else f"no worker serves queue {first.op.queue}"


class MissingParts:
    """Finds what the executions of one store lack."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, keys: Sequence[Key]) -> dict[Key, str]:
        """Returns, in words, what is missing for each of these executions that lacks something."""
        holders = await live_processes(self._store)
        heads = [] if holders is None else await self._store.heads(HeadFilter(keys=tuple(keys), limit=len(keys)))
        now_s = (await self._store.store_time()).now_s if heads else 0.0
        found: dict[Key, str] = {}
        folded = 0
        for head in reversed(heads):  # heads are newest first; the oldest execution is named first
            if head.status in ENDED_STATUSES or _is_due_later(head, now_s):
                continue
            lacked = "" if head.status == "paused" else missing_engine(head, holders or ())
            reason = "it is paused; resume it" if head.status == "paused" else f"{lacked}. {START_ENGINE}" if lacked else ""
            if not reason and head.status == "waiting" and head.version <= FOLDED_EVENTS_MAX and folded < FOLDED_MAX:
                folded += 1
                reason = await self._worker(head, holders or ())
            if reason:
                found[head.key] = reason
        return found

    async def _worker(self, head: Head, holders: Sequence[ProcessInfo]) -> str:
        read = await self._store.read(head.key)
        return "" if read is None else missing_worker(head, fold_events(head.key, log_format.decode_rows(read.payloads)), holders)


def _is_due_later(head: Head, now_s: float) -> bool:
    return head.version == 0 and head.message_at_s is not None and head.message_at_s > now_s


logger = logging.getLogger("perdure.sync_client")

FIRST_WARNING_S = 2.0
"""How long a caller waits before the first warning."""

WARNING_INTERVAL_S = 60.0
"""The time between two warnings to one caller."""

GATHER_S = 0.05
"""How long further due warnings are gathered, so that one read of the store serves them all."""

KEYS_MAX = 500
"""The number of executions examined for one warning; of more, a sample is enough."""


class WaitWarnings:
    """Warns all callers in one event loop that wait for results from one store."""

    def __init__(self, store: Store) -> None:
        self._missing = MissingParts(store)
        self._due: dict[Key, None] = {}
        self._warning_task: asyncio.Task[None] | None = None

    @contextmanager
    def waiting(self, key: Key) -> Iterator[None]:
        """Within the block, the caller waits for the result of `key`."""
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
        """Stops warning."""
        if self._warning_task is not None:
            self._warning_task.cancel()

    def _take(self, key: Key) -> None:
        self._due[key] = None
        if self._warning_task is None or self._warning_task.done():
            self._warning_task = asyncio.get_running_loop().create_task(self._warn())

    async def _warn(self) -> None:
        """Logs what the due executions lack."""
        await asyncio.sleep(GATHER_S)
        keys, self._due = list(self._due)[:KEYS_MAX], {}
        try:
            missing = await self._missing.of(keys)
        except StoreError as error:
            logger.warning("reading why results are late failed: %s. It is repeated in a minute", error)
            return
        by_reason: dict[str, list[Key]] = {}
        for key, reason in missing.items():
            by_reason.setdefault(reason, []).append(key)
        for reason, waiting in by_reason.items():
            others = f" and of {len(waiting) - 1} more" if len(waiting) > 1 else ""
            logger.warning("waiting for the result of %s%s: %s", waiting[0], others, reason)
