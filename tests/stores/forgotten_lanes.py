"""Lanes that were served long ago, for stores to forget."""

from perdure.stores.protocol import QueueLimits
from perdure.testing.conformance.queue_suite import queued, work
from perdure.testing.conformance.store_world import StoreWorld

BEFORE, SINCE = 100, 80


async def serve_lanes(world: StoreWorld) -> None:
    """Serve many lanes, and hours later others, one of them again; of executions and of work."""
    await world.store.limit("mails", QueueLimits())
    await world.store.limit("pay", QueueLimits())
    for names in (["again", *map(str, range(BEFORE))], ["again", *(f"{number} later" for number in range(SINCE))]):
        await world.renew("one")
        await world.post(*(queued(f"{world.clock()} {name}", name) for name in names), *(work(f"{world.clock()} {name}", name) for name in names))
        claimed = await world.claim(queues=["pay"], limit=1000)
        assert (len(claimed.executions), len(claimed.work)) == (len(names), len(names))
        world.clock.advance(7200.0)
