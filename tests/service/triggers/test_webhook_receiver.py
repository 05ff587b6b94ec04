"""Claims about receiving webhooks on a store: each delivery starts one execution, whenever its sender repeats it and wherever a process dies."""

import asyncio
import json
from collections import Counter
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perdure.core import messages, values
from perdure.core.errors import StoreError, TooManyActive
from perdure.core.paths import Key
from perdure.service import catalog
from perdure.service.catalog_changes import Edit
from perdure.service.store_access import StoreAccess
from perdure.service.triggers import delivery_log
from perdure.service.triggers.delivery_log import DeliveryFilter
from perdure.service.triggers.trigger_directory import TriggerFields, create_trigger, delete_trigger, switch_trigger
from perdure.service.triggers.trigger_input import facts_of
from perdure.service.triggers.trigger_records import Verification, WebhookConfig
from perdure.service.triggers.webhook_deliveries import BODY_BYTES_MAX, DELIVERIES, HASH_KEPT_S, KEPT_S, delivery_prefix
from perdure.service.triggers.webhook_payloads import RawWebhook
from perdure.service.triggers.webhook_receiver import AcceptedDelivery, WebhookReceiver
from perdure.service.triggers.webhook_signatures import Signing, signed_headers
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import ALL_HEADS, Store
from perdure.stores.records import RecordFilter, RecordKey
from perdure.testing.faults import Faults, FaultyStore, Killed
from tests.service.access_stores import STORES, opened_store

T = "default"
SECRET = "s3cret"
HOW = Verification(scheme="github", secrets=("HOOK",))
FLOW = b"""
perdure: 1
name: flow
input: {payload: {}}
steps: [{id: rest, sleep: 1h}]
"""


class Clock:
    """The time of a store."""

    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


class World:
    """A store with a webhook in it, and its time."""

    def __init__(self, reaches: int = 1, store: Store | None = None, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.store: Any = store or MemoryStore(self.clock, reaches)
        self.access = StoreAccess(self.store)
        self.receiver = WebhookReceiver(self.access)
        self.trigger = ""

    async def begin(self, config: WebhookConfig | None = None) -> "World":
        """Adds a definition and a trigger for it."""
        _ = await catalog.create_definition(self.access, T, FLOW, Edit("ada"))
        fields = TriggerFields(name="hook", config=config or WebhookConfig(path="in", verify=HOW), workflow_id="flow")
        self.trigger = (await create_trigger(self.access, T, "ada", fields)).id
        return self

    async def send(self, body: Any, id: str = "", receiver: WebhookReceiver | None = None) -> AcceptedDelivery:
        """Sends a delivery, as GitHub does."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        signed = {name.lower(): value for name, value in signed_headers(HOW, SECRET, Signing(raw, 0, "")).items()}
        given = {"content-type": "application/json", **signed, **({"x-github-delivery": id} if id else {})}
        to = receiver or self.receiver
        kept = await to.trigger_at(T, "in")
        assert kept is not None
        receipt = await to.receive(T, kept, RawWebhook("POST", "", given, raw), "192.0.2.1")
        assert isinstance(receipt, AcceptedDelivery)
        return receipt

    async def pass_time(self, seconds: float) -> None:
        """Has time pass, and with it a turn of the event loop."""
        self.clock.now_s += seconds
        await asyncio.sleep(0)

    async def executions(self) -> list[Key]:
        """The executions that there are."""
        return [head.key for head in await self.store.heads(ALL_HEADS)]


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SECRET_HOOK", SECRET)


async def test_an_equal_request_without_an_id_is_a_repetition_for_a_day() -> None:
    world = await World().begin()
    first = await world.send({"a": 1})
    await world.pass_time(HASH_KEPT_S - 1)
    assert await world.send({"a": 1}) == first._replace(created=False)
    await world.pass_time(2)
    later = await world.send({"a": 1})
    assert later.created and later.execution != first.execution
    assert await world.send({"a": 1}) == later._replace(created=False)
    assert len(await world.executions()) == 2


@pytest.mark.parametrize("kind", STORES)
async def test_on_each_store_a_delivery_is_accepted_once_limited_listed_and_forgotten(kind: str, tmp_path: Path) -> None:
    clock = Clock()
    async with opened_store(kind, tmp_path, clock) as store:  # type: ignore[arg-type]  # a clock is what tells the time
        world = await World(store=store, clock=clock).begin(WebhookConfig(path="in", verify=HOW, queued_max=3))
        first, again, hashed = await world.send({"a": 1}, "d1"), await world.send({"a": 1}, "d1"), await world.send({"a": 1})
        await world.pass_time(HASH_KEPT_S + 1)
        later = await world.send({"a": 1})
        with pytest.raises(TooManyActive):
            _ = await world.send({"a": 2}, "d2")
        assert [one.created for one in (first, again, hashed, later)] == [True, False, True, True]
        listed = await delivery_log.list_deliveries(world.access, T, world.trigger, DeliveryFilter(), 2)
        rest = await delivery_log.list_deliveries(world.access, T, world.trigger, DeliveryFilter(), 2, listed.next)
        assert listed.items[0].id == later.delivery and {one.id for one in listed.items + rest.items} == {one.delivery for one in (first, hashed, later)}
        newest = await delivery_log.list_deliveries(world.access, T, world.trigger, DeliveryFilter(since=60.0))
        oldest = await delivery_log.list_deliveries(world.access, T, world.trigger, DeliveryFilter(until=60.0))
        assert (len(newest.items), len(oldest.items)) == (1, 2)
        await world.pass_time(KEPT_S + 1)
        assert (await delivery_log.list_deliveries(world.access, T, world.trigger, DeliveryFilter())).items == []


async def test_an_id_is_known_as_long_as_its_execution_and_its_delivery() -> None:
    world = await World().begin()
    first = await world.send({"a": 1}, "d1")
    await world.pass_time(KEPT_S - 1)
    assert await world.send({"a": 2}, "d1") == first._replace(created=False)
    await world.pass_time(2)  # the delivery is no longer kept, the execution is
    again = await world.send({"a": 1}, "d1")
    assert (again.execution, again.created) == (first.execution, False)
    assert len(await world.executions()) == 1


async def test_the_execution_knows_its_trigger_and_its_delivery() -> None:
    world = await World().begin()
    got = await world.send({"a": 1}, "d1")
    (queued,) = await world.store.messages(got.execution)
    start = messages.decode_message_or_task(queued.body)
    assert isinstance(start, messages.StartMessage)
    facts = facts_of(start.carried)
    assert facts is not None and (facts.id, facts.kind, facts.key) == (world.trigger, "webhook", f"webhook:{world.trigger}:d1")
    assert facts.about == {"delivery": got.delivery, "event": "", "method": "POST", "headers": {"x-github-delivery": "d1"}}
    assert isinstance(start.input, bytes)
    assert values.decode(start.input, Any, "the input") == [[], {"payload": {"a": 1}}]


async def test_a_delivery_is_kept_with_what_it_was_and_without_its_signature() -> None:
    world = await World().begin()
    _ = await world.send({"a": 1}, "d1")
    await world.pass_time(1)
    large = await world.send({"text": "x" * BODY_BYTES_MAX}, "d2")
    newest, first = [one.value async for one in DELIVERIES.all(world.store, T, delivery_prefix(world.trigger))]
    assert (first.body, first.sender_id, first.secret, first.address) == (b'{"a": 1}', "d1", "HOOK", "192.0.2.1")
    assert first.headers == {"content-type": "application/json", "x-github-delivery": "d1", "x-hub-signature-256": "***"}
    assert (newest.body, newest.body_bytes, newest.execution_id) == (None, BODY_BYTES_MAX + 12, large.execution.id)
    signature = signed_headers(HOW, SECRET, Signing(b'{"a": 1}', 0, ""))["X-Hub-Signature-256"]
    stored = b"".join([one.value for one in await world.store.records(RecordFilter(T, DELIVERIES.name))])
    assert SECRET.encode() not in stored and signature.encode() not in stored


async def test_requests_that_arrive_together_read_their_trigger_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world, reads = await World().begin(), Counter[str]()
    read = world.store.record

    async def record(key: RecordKey) -> Any:
        reads[key.kind] += 1
        return await read(key)

    _ = await world.send({"a": 0})  # the path is known from here on
    monkeypatch.setattr(world.store, "record", record)
    _ = await asyncio.gather(*(world.send({"a": number}, f"d{number}") for number in range(20)))
    assert reads["trigger"] == 1
    await asyncio.sleep(0)
    _ = await world.send({"a": 1}, "d21")
    assert reads["trigger"] == 2


async def test_a_trigger_that_is_changed_is_read_again_by_who_changed_it_in_the_same_turn_of_the_loop() -> None:
    world = await World().begin()
    turns = list[int]()
    asyncio.get_running_loop().call_soon(turns.append, 1)
    for enabled in (True, False, True):
        _ = await switch_trigger(world.access, T, world.trigger, "ada", enabled)
        assert (await world.receiver.trigger_at(T, "in") is not None) is enabled
    assert not turns, "it was one turn"


async def test_a_trigger_that_is_deleted_gives_up_its_path_for_another() -> None:
    world = await World().begin()
    _ = await world.send({"a": 1}, "d1")
    await delete_trigger(world.access, T, world.trigger)
    assert await world.receiver.trigger_at(T, "in") is None
    fields = TriggerFields(name="next", config=WebhookConfig(path="in", verify=HOW), workflow_id="flow")
    made = await create_trigger(world.access, T, "ada", fields)
    found = await world.receiver.trigger_at(T, "in")
    assert found is not None and found.key == made.id
    assert (await world.send({"a": 1}, "d1")).created  # ids are those of a trigger


async def test_where_tenants_have_other_reaches_each_delivery_starts_one_execution() -> None:
    world = await World(reaches=7).begin()
    for number in range(20):
        assert (await world.send({"a": 1}, f"d{number}")).created
        assert not (await world.send({"a": 1}, f"d{number}")).created
    while await world.store.relay():
        pass
    assert len(await world.executions()) == 20


class DyingStore:
    """A store whose process dies just before or after the call of this number, counted from 1."""

    def __init__(self, inner: MemoryStore, call: int, after: bool) -> None:
        self._inner, self._left, self._after = inner, call, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ("commit", "record", "records", "heads", "store_time", "read", "messages", "blob"):
            return found

        async def called(*given: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            answer = await found(*given, **named)
            if self._left == 0:
                raise Killed
            return answer

        return called


@pytest.mark.parametrize("id", ["d1", ""], ids=["with an id", "without one"])
async def test_wherever_a_process_dies_a_repetition_leaves_one_execution_and_one_delivery(id: str) -> None:
    deaths, had_begun = 0, set[bool]()
    for call in count(1):
        for after in (False, True):
            world = await World().begin()
            try:
                _ = await world.send({"a": 1}, id, WebhookReceiver(StoreAccess(DyingStore(world.store, call, after))))
            except Killed:
                deaths += 1
            begun = bool(await world.executions())
            assert begun == bool([one async for one in DELIVERIES.all(world.store, T)]), "both, or neither"
            had_begun.add(begun)
            repeated = await world.send({"a": 1}, id)
            assert repeated.created is not begun
            assert await world.executions() == [repeated.execution]
            assert len([one async for one in DELIVERIES.all(world.store, T)]) == 1
        if deaths < 2 * call:
            break
    assert deaths >= 10 and had_begun == {False, True}


@pytest.mark.parametrize("seed", range(20))
async def test_a_sender_that_repeats_what_was_not_acknowledged_starts_each_execution_once(seed: int) -> None:
    world, random, failures = await World().begin(), Random(seed), Counter[str]()
    faults = Faults(fail_before=0.2, fail_after=0.2)
    told: dict[str, AcceptedDelivery] = {}
    for number in range(15):
        id = f"d{number}" if number % 3 else ""
        while str(number) not in told:
            receiver = WebhookReceiver(StoreAccess(FaultyStore(world.store, random, faults)))
            try:
                told[str(number)] = await world.send({"number": number}, id, receiver)
            except StoreError:
                failures["the store"] += 1
    assert failures["the store"] > 10
    assert sorted(one.execution for one in told.values()) == sorted(await world.executions())
    kept = [one.value async for one in DELIVERIES.all(world.store, T, delivery_prefix(world.trigger))]
    assert Counter(one.execution_id for one in kept) == Counter(one.execution.id for one in told.values())
