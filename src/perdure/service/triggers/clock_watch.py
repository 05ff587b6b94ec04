"""Keeps the schedule clocks of a store going: a part of each process that has an engine.

When it begins, it has every clock look what is due: the zone database of this process may be another one, and the time of the store may have been set back
while nothing ran. After that it sees to it every `CHECK_S` that a clock that was ended, by whatever mistake, is followed by another one while its tenant has
active schedules. This reads the clocks that have ended, and nothing of the schedules.
"""

import asyncio
import logging
from collections.abc import Iterable
from uuid import uuid4

from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import CodeWorkflow
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import LogDamaged, LogVersionUnsupported, SealedPayload, StoreUnavailable
from perdure.core.operations import SCHEDULE_WORKFLOW
from perdure.runtime.holder import retry_with_backoff
from perdure.service.store_access import head_pages
from perdure.service.triggers.code_schedules import declare_schedules
from perdure.service.triggers.schedule_states import active_schedules, clock_messages
from perdure.stores.protocol import HeadFilter, Post, Store

logger = logging.getLogger("perdure.schedules")

CHECK_S = 60.0
"""How often it is checked whether all clocks go."""


class ClockWatch:
    """Keeps the clocks of a store going until it is stopped: those of `tenants`, or of all. First it declares the schedules of `workflows` in `tenant`."""

    def __init__(
        self,
        store: Store,
        workflows: Iterable[object] = (),
        *,
        tenant: str = DEFAULT_TENANT,
        tenants: Iterable[str] | None = None,
        check_s: float = CHECK_S,
    ) -> None:
        self._store, self._check_s, self._tenant = store, check_s, tenant
        self._workflows = [one for one in workflows if isinstance(one, CodeWorkflow)]
        self._tenants = None if tenants is None else frozenset(tenants)
        self._stopping, self._ready = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Wakes all clocks, and then keeps them going until stopped."""
        await retry_with_backoff(lambda: declare_schedules(self._store, self._tenant, self._workflows))
        await retry_with_backoff(self._wake_all)
        self._ready.set()
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(self._check_s):
                    _ = await self._stopping.wait()
            except TimeoutError:
                try:
                    await self._revive()
                except (StoreUnavailable, SealedPayload) as error:
                    logger.warning("the schedule clocks could not be checked: %s. This is repeated in %g s", error, self._check_s)

    async def ready(self) -> None:
        """Waits until all clocks have been woken."""
        _ = await self._ready.wait()

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return."""
        self._stopping.set()

    async def _wake_all(self) -> None:
        """Sends each clock a message, and starts those that have ended again."""
        why = f"engine:{uuid4().hex}"
        async for heads in head_pages(self._store, HeadFilter(workflow=SCHEDULE_WORKFLOW, ended=False)):
            tenants = {head.key.tenant for head in heads if self._serves(head.key.tenant)}
            posts = [Post(messages=await clock_messages(self._store, tenant, why)) for tenant in sorted(tenants)]
            if posts:
                _ = await self._store.commit(posts)
        await self._revive()

    async def _revive(self) -> None:
        tenants = set[str]()
        async for heads in head_pages(self._store, HeadFilter(workflow=SCHEDULE_WORKFLOW, ended=True)):
            tenants |= {head.key.tenant for head in heads if self._serves(head.key.tenant)}
        for tenant in sorted(tenants):
            present = await self._store.heads(HeadFilter(tenant=tenant, workflow=SCHEDULE_WORKFLOW, ended=False, limit=1))
            if not present and await self._has_schedules(tenant):
                logger.warning("the schedule clock of %s has ended; another one is started", tenant)
                messages: tuple[OutgoingMessage, ...] = await clock_messages(self._store, tenant, f"revived:{uuid4().hex}")
                _ = await self._store.commit([Post(messages=messages)])

    async def _has_schedules(self, tenant: str) -> bool:
        """Whether a tenant has a schedule that is active. One that is damaged counts: the clock mends it."""
        try:
            return bool(await active_schedules(self._store, tenant, 1))
        except LogDamaged:
            return True
        except LogVersionUnsupported as error:
            logger.warning("the schedule clock of %s is left to a newer engine: %s", tenant, error)
            return False

    def _serves(self, tenant: str) -> bool:
        return self._tenants is None or tenant in self._tenants
