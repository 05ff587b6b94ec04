"""What every store must do, as tests. Subclass `StoreConformance` in a test module, say how to make your store, and pytest does the rest:

    class TestMyStore(StoreConformance):
        async def make(self, clock: Clock) -> Store:
            return MyStore(now=clock)

Each test has a new store, empty and in its first epoch, whose time is `clock` and only `clock`. A store that spreads executions over
several reaches says so in `reaches`, and may say in `interrupt_relay` how to fail between an arrival and its removal.
"""

from collections.abc import AsyncIterator

import pytest

from perdure.stores.base import Store
from perdure.testing.conformance.blob_removal import RemovalOfBlobs
from perdure.testing.conformance.changes import Changes
from perdure.testing.conformance.holding import Holding
from perdure.testing.conformance.looking import Looking
from perdure.testing.conformance.mailing import Mailing
from perdure.testing.conformance.queues import Queues
from perdure.testing.conformance.vault import Vaults
from perdure.testing.conformance.waking import Waking
from perdure.testing.conformance.work import Work
from perdure.testing.conformance.world import Clock, World

__all__ = ["Clock", "StoreConformance", "World"]


class StoreConformance(Changes, Holding, Waking, Mailing, Work, Queues, Looking, Vaults, RemovalOfBlobs):
    """The suite. Its tests need pytest-asyncio, in its mode `auto`."""

    async def make(self, clock: Clock) -> Store:
        """A new and empty store whose time is `clock`."""
        raise NotImplementedError("say in make() how your store is made")

    @pytest.fixture
    async def world(self) -> AsyncIterator[World]:
        """A new store with its clock."""
        clock = Clock()
        store = await self.make(clock)
        yield World(store, clock, epoch=(await store.moment()).epoch)
        await store.close()
