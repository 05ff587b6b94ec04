"""What every store must do, as tests. Subclass `StoreConformance` in a test module, say how to make your store, and pytest does the rest:

    class TestMyStore(StoreConformance):
        async def make(self, clock: Clock) -> Store:
            return MyStore(now=clock)

Each test has a new store, empty and in its first epoch, whose time is `clock` and only `clock`. A store that spreads executions over
several reaches says so in `reaches`, and may say in `interrupt_relay` how to fail between an arrival and its removal.
"""

from collections.abc import AsyncIterator

import pytest

from perdure.stores.protocol import Store
from perdure.testing.conformance.blob_and_vault_suite import BlobRemovalSuite, VaultSuite
from perdure.testing.conformance.commit_suite import CommitSuite
from perdure.testing.conformance.lease_suite import LeaseSuite, WakeUpSuite
from perdure.testing.conformance.message_suite import MessageSuite
from perdure.testing.conformance.query_suite import QuerySuite
from perdure.testing.conformance.queue_suite import QueueSuite, TaskSuite
from perdure.testing.conformance.store_world import Clock, StoreWorld

__all__ = ["Clock", "StoreConformance", "StoreWorld"]


class StoreConformance(CommitSuite, LeaseSuite, WakeUpSuite, MessageSuite, TaskSuite, QueueSuite, QuerySuite, VaultSuite, BlobRemovalSuite):
    """The suite. Its tests need pytest-asyncio, in its mode `auto`."""

    async def make(self, clock: Clock) -> Store:
        """A new and empty store whose time is `clock`."""
        raise NotImplementedError("say in make() how your store is made")

    @pytest.fixture
    async def world(self) -> AsyncIterator[StoreWorld]:
        """A new store with its clock."""
        clock = Clock()
        store = await self.make(clock)
        yield StoreWorld(store, clock, epoch=(await store.store_time()).epoch)
        await store.close()
