"""Reads the gauges of the database: how many executions are in which status, what waits in queues, and which processes are alive.

Scrapes share what was read. It is read again after `READ_EVERY_S`, or after `SHARE` times as long as reading it took, so that scraping never takes more than
that share of the time of a database, however much is in it and however many scrape.
"""

import asyncio
import logging
from time import monotonic

from perdure.core.errors import StoreError
from perdure.observe import metric_table as m
from perdure.runtime.holder import decode_process_info
from perdure.stores.protocol import HeadFilter, Store

logger = logging.getLogger("perdure.metrics")

READ_EVERY_S, SHARE = 5.0, 20

UNFINISHED = ("pending", "running", "waiting", "waiting_approval", "paused", "needs_attention", "ending", "undoing")

Gauges = dict[m.Metric, dict[tuple[str, ...], float]]


class StoreGauges:
    """The gauges of one database, as they were read last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._again_s = 0.0
        self._lock = asyncio.Lock()
        self.gauges: Gauges = {}

    async def refresh(self) -> None:
        """Reads the gauges, unless that was done a moment ago. If the database can't be read, there are none until it can."""
        async with self._lock:
            began_s = monotonic()
            if began_s < self._again_s:
                return
            try:
                self.gauges = await self._read()
            except StoreError as error:
                logger.warning("could not read the gauges of the database: %s. The next scrape reads them", error)
                self.gauges = {}
            took_s = monotonic() - began_s
            self.gauges[m.STORE_READ_SECONDS] = {(): took_s}
            self._again_s = began_s + max(READ_EVERY_S, SHARE * took_s)

    async def _read(self) -> Gauges:
        counts = {status: await self._count(frozenset((status,)), ended=False) for status in UNFINISHED}
        failed = await self._count(frozenset(("failed",)), ended=True)
        gauges: Gauges = {
            m.EXECUTIONS: {(status,): float(count) for status, count in {**counts, "failed": failed}.items()},
            m.DEAD_LETTERS: {(): float(min(failed + counts["needs_attention"], m.COUNT_MAX))},
            m.APPROVALS_WAITING: {(): float(counts["waiting_approval"])},
            m.QUEUE_WAITING: {},
            m.QUEUE_HELD: {},
            m.PROCESSES: {(kind, alive): 0.0 for kind in ("engine", "worker") for alive in ("true", "false")},
        }
        for queue in (await self._store.queues())[: m.LABELS_MAX]:
            for what, waiting, held in (("task", queue.work_waiting, queue.work), ("execution", queue.executions_waiting, queue.executions)):
                for metric, number in ((m.QUEUE_WAITING, waiting), (m.QUEUE_HELD, held)):
                    gauges[metric][queue.name, what] = gauges[metric].get((queue.name, what), 0) + number
        for lease in await self._store.leases():
            info = decode_process_info(lease.about)
            place = ("worker" if info is not None and info.kind == "worker" else "engine", "true" if lease.alive else "false")
            gauges[m.PROCESSES][place] += 1
        return gauges

    async def _count(self, statuses: frozenset[str], ended: bool) -> int:
        return len(await self._store.heads(HeadFilter(statuses=statuses, ended=ended, limit=m.COUNT_MAX)))
