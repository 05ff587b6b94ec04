"""The conformance suite of stores. Subclass `StoreConformance` in a test module and create your store in `make`; pytest runs the suite:

    class TestMyStore(StoreConformance):
        async def make(self, clock: Clock) -> Store:
            return MyStore(now=clock)

Each test gets a new, empty store in its first epoch, which takes its time from `clock` alone. A store that spreads executions over several reaches sets
`reaches`, and may override `interrupt_relay` to fail between the arrival of a message and its removal from the outbox.
"""

from collections.abc import AsyncIterator

import pytest

from perdure.stores.protocol import Store
from perdure.testing.conformance.attribute_suite import AdmissionSuite, OrderedListSuite
from perdure.testing.conformance.blob_and_vault_suite import BlobRemovalSuite, VaultSuite
from perdure.testing.conformance.commit_suite import CommitSuite
from perdure.testing.conformance.feed_suite import FeedSuite
from perdure.testing.conformance.lease_suite import LeaseSuite, WakeUpSuite
from perdure.testing.conformance.message_suite import MessageSuite
from perdure.testing.conformance.move_suite import MoveSuite
from perdure.testing.conformance.query_suite import QuerySuite
from perdure.testing.conformance.queue_suite import QueueSuite, TaskSuite
from perdure.testing.conformance.record_suite import RecordSuite
from perdure.testing.conformance.store_world import Clock, StoreWorld
from perdure.testing.conformance.tenant_suite import TenantSuite

__all__ = ["Clock", "StoreConformance", "StoreWorld"]


class StoreConformance(
    CommitSuite,
    LeaseSuite,
    WakeUpSuite,
    MessageSuite,
    TaskSuite,
    QueueSuite,
    TenantSuite,
    QuerySuite,
    VaultSuite,
    BlobRemovalSuite,
    FeedSuite,
    MoveSuite,
    RecordSuite,
    AdmissionSuite,
    OrderedListSuite,
):
    """All tests of the suite. They need pytest-asyncio in its mode `auto`."""

    async def make(self, clock: Clock) -> Store:
        """Creates a new, empty store that takes its time from `clock`."""
        raise NotImplementedError("override make() to create your store")

    @pytest.fixture
    async def world(self) -> AsyncIterator[StoreWorld]:
        """A new store with its clock."""
        clock = Clock()
        store = await self.make(clock)
        yield StoreWorld(store, clock, epoch=(await store.store_time()).epoch)
        await store.close()
