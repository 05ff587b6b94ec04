"""Tenants: claims for some of them, and turns between all of them, so that the burst of one does not delay the others."""

import pytest

from perdure.core.envelopes import Ack
from perdure.core.errors import ProgrammingError
from perdure.core.paths import Key
from perdure.stores.protocol import Post, Superseded
from perdure.testing.conformance.store_world import StoreWorld, key, plain_message, queue, start_message

BURST = 1_000
"""How many executions or tasks a burst of one tenant has."""


async def burst(world: StoreWorld, tenant: str, count: int) -> None:
    """Starts executions and sends tasks of a tenant."""
    sends = [send for number in range(count) for send in (start_message(key(f"{number:05}", tenant)), plain_message(queue(tenant=tenant), f"{number:05}"))]
    await world.change(Post(messages=tuple(sends)))


async def claim(world: StoreWorld, limit: int, **fields: object) -> tuple[list[str], list[str]]:
    """Claims, and returns the tenants of the executions and of the tasks."""
    claimed = await world.claim("one", queues=("pay",), limit=limit, **fields)
    return [one.head.key.tenant for one in claimed.executions], [one.to[0] for one in claimed.work]


class TenantSuite:
    """Tests of claims by tenant."""

    async def test_a_claim_for_some_tenants_gets_the_executions_of_these_alone(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=1000)
        keys = [key(str(number), tenant) for number, tenant in enumerate(("a", "b", "a", "c", 'a"]\0', ""))]
        await world.open(*keys)
        assert await world.claimed("one", tenants=frozenset()) == await world.claimed("one", tenants=frozenset({"order", "d"})) == []
        assert await world.claimed("one", tenants=frozenset({"b", 'a"]\0', ""})) == [keys[1], keys[4], keys[5]]
        world.clock.advance(10)
        assert await world.claimed("two", tenants=frozenset({"b", "c"}), limit=1) == [keys[1]]
        assert await world.claimed("two", tenants=frozenset({"b", "c"})) == [keys[3]]
        assert await world.claimed("two") == [keys[0], keys[2], keys[4], keys[5]]

    async def test_a_claim_for_some_tenants_knows_when_theirs_become_ready(self, world: StoreWorld) -> None:
        await world.renew("one")
        for at_s, tenant in ((5, "a"), (3, "b"), (7, "c")):
            await world.parked(key("1", tenant), wake_at_s=world.clock.now_s + at_s)
        claimed = await world.claim("one", tenants=frozenset({"a", "c"}))
        assert claimed.next_at_s is not None and claimed.next_at_s <= world.clock.now_s + 5
        world.clock.advance(5)
        assert await world.claimed("one", tenants=frozenset({"a", "c"})) == [key("1", "a")]

    async def test_a_family_is_claimed_by_tenant_as_well(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.open(key("1", "a"), key("2", "b"), root=key("1", "a"))
        assert await world.claimed("one", roots=frozenset({key("1", "a")}), tenants=frozenset({"b"})) == [key("2", "b")]

    async def test_a_burst_of_one_tenant_does_not_delay_another(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=1e9)
        await burst(world, "a", BURST)
        world.clock.advance(1)
        await burst(world, "b", 10)
        executions, tasks = await claim(world, 20)
        assert sorted(executions) == sorted(tasks) == ["a"] * 10 + ["b"] * 10
        assert await claim(world, 20) == (["a"] * 20, ["a"] * 20)

    async def test_turns_between_tenants_survive_from_one_claim_to_the_next(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=1e9)
        for tenant, count in (("a", 50), ("b", 4), ("c", 4)):
            await burst(world, tenant, count)
            world.clock.advance(1)
        found = [await claim(world, 1) for _ in range(12)]
        assert ["".join(kind) for kind in zip(*(("".join(one), "".join(other)) for one, other in found), strict=True)] == ["abcabcabcabc"] * 2
        await burst(world, "d", 1)
        assert await claim(world, 2) in [(["a", "d"], ["a", "d"]), (["d", "a"], ["d", "a"])]

    async def test_of_one_tenant_the_longest_waiting_come_first_however_many_there_are(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=1e9)
        for number in range(30):
            await world.open(key(str(number % 7), str(number % 7)), key(f"{29 - number}", "a"))
            world.clock.advance(1)
        found: list[Key] = []
        while got := await world.claimed("one", limit=8):
            found += [one for one in got if one.tenant == "a"]
        assert found == [key(str(29 - number), "a") for number in range(30)]

    async def test_what_the_dead_held_becomes_ready_in_pieces_and_all_of_it(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=1e9)
        await burst(world, "a", 350)
        claimed = await world.claim("one", queues=("pay",), limit=350)
        assert (len(claimed.executions), len(claimed.work)) == (350, 350)
        world.clock.advance(10)
        executions, tasks = set[Key](), set[str]()
        for _ in range(40):
            claimed = await world.claim("two", queues=("pay",), limit=10)
            assert len(claimed.executions) == len(claimed.work) == 10 or len(executions) == 350
            executions |= {one.head.key for one in claimed.executions}
            tasks |= {one.key for one in claimed.work}
        assert len(executions) == len(tasks) == 350

    async def test_a_claim_that_gets_nothing_says_that_the_dead_hold_more(self, world: StoreWorld) -> None:
        await world.renew("one", lease_s=10)
        await world.renew("two", lease_s=1e9)
        await world.open(*(key(f"{number:03}") for number in range(150)), program="other")
        await world.open(*(key(f"{number:03}") for number in range(150, 160)))
        assert len((await world.claim("one", "order", "other", limit=200)).executions) == 160
        world.clock.advance(10)
        found, claims = list[Key](), 0
        while len(found) < 10:
            claimed = await world.claim("two")
            found += [one.head.key for one in claimed.executions]
            claims += 1
            assert claims < 5 and (len(found) == 10 or (claimed.next_at_s is not None and claimed.next_at_s <= world.clock.now_s))

    async def test_an_answer_to_a_task_names_its_epoch(self, world: StoreWorld) -> None:
        await world.renew("one")
        await world.post(plain_message(queue()))
        assert len(await world.work("one")) == 1
        epoch = await world.store.raise_epoch()
        answer = Post(epoch=world.epoch, messages=(plain_message(key()),), acks=(Ack(queue(), "letter"),))
        assert await world.store.commit([answer]) == [Superseded(epoch)]
        assert await world.keys(queue()) == ["letter"] and await world.keys(key()) == []
        with pytest.raises(ProgrammingError, match="epoch="):
            Post(acks=(Ack(queue(), "letter"),))
