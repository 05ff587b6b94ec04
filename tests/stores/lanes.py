"""Lanes that were served long ago, for stores to forget."""

from perdure.stores.base import Limits
from perdure.testing.conformance.queues import queued, work
from perdure.testing.conformance.world import World

BEFORE, SINCE = 100, 80


async def serve_lanes(world: World) -> None:
    """Serve many lanes, and hours later others, one of them again; of executions and of work."""
    await world.store.limit("mails", Limits())
    await world.store.limit("pay", Limits())
    for names in (["again", *map(str, range(BEFORE))], ["again", *(f"{number} later" for number in range(SINCE))]):
        await world.renew("one")
        await world.post(*(queued(f"{world.clock()} {name}", name) for name in names), *(work(f"{world.clock()} {name}", name) for name in names))
        claimed = await world.claim(queues=["pay"], limit=1000)
        assert (len(claimed.executions), len(claimed.work)) == (len(names), len(names))
        world.clock.advance(7200.0)
