"""Keys: shown once, stored as hashes, found by their ids alone, cached for seconds, revoked within those, rotated with two secrets for a while."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import BadName, BadValue, NotFound, PerdureError, StoreUnavailable, Unauthenticated
from perdure.service.access_keys import OVERLAP_S, USE_INTERVAL_S, CreatedKey, KeyRequest, KeyVerifier, create_key, list_keys, revoke_key, rotate_key
from perdure.service.access_records import AUDIT_ENTRIES, CREDENTIAL_TENANT, CREDENTIALS, KEY_USES, KEYS, SESSIONS
from perdure.service.credentials import CACHE_S, KEPT_S
from perdure.service.service_clock import ServiceClock
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Store, StoreTime
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord
from perdure.stores.sqlite.steady_clock import SteadyClock
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock
from perdure.testing.virtual_time import run
from tests.service.access_stores import STORES, CountedStore, opened_store


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    async with opened_store(request.param, tmp_path, clock) as store:
        yield store


async def created(store: Store, tenant: str = "acme", **fields: Any) -> CreatedKey:
    return await create_key(store, tenant, KeyRequest(**{"name": "ci", "roles": ("operator",), **fields}), "local")


def verifier(store: Any, clock: Clock) -> KeyVerifier:
    return KeyVerifier(store, ServiceClock(store, clock))


class HeldStore:
    """A store whose first read of a key is answered late."""

    def __init__(self, inner: Store) -> None:
        self.inner, self.has_read, self.may_answer = inner, asyncio.Event(), asyncio.Event()

    async def record(self, key: RecordKey) -> StoredRecord | None:
        found = await self.inner.record(key)
        if key.kind == KEYS.name:
            self.has_read.set()
            await self.may_answer.wait()
        return found

    async def store_time(self) -> StoreTime:
        return await self.inner.store_time()


async def refusal(keys: KeyVerifier, text: str) -> str:
    with pytest.raises(Unauthenticated) as said:
        await keys.caller(text)
    assert len(text) < 5 or text not in str(said.value)
    return str(said.value)


async def test_a_key_is_the_caller_that_it_was_made_for(store: Store, clock: Clock) -> None:
    made = await created(store, roles=("operator", "viewer"), queues=("mails",), valid_s=60)
    await created(store, "other")
    caller = await verifier(store, clock).caller(made.text)
    assert (caller.tenant, caller.subject, sorted(caller.roles)) == ("acme", f"key:{made.key.id}", ["operator", "viewer"])
    assert (caller.queues, caller.expires_at_s) == (("mails",), clock.now_s + 60)
    assert made.key.roles == ("operator", "viewer") and made.key.created_by == "local" and made.key.created_at_s == clock.now_s


async def test_a_key_has_256_random_bits_behind_its_id(store: Store) -> None:
    texts = [(await created(store)).text for _ in range(20)]
    assert len(set(texts)) == 20
    for text in texts:
        prefix, id, secret = text.split("_", 2)
        assert prefix == "prd" and len(id) == 8 and len(base64.urlsafe_b64decode(secret + "=")) == 32


@pytest.mark.parametrize("text", ["", "prd_", "Bearer x", "prd_AbC123xy_short", f"prs_AbC123xy_{'a' * 43}", f"prd_AbC123xy_{'a' * 43}\n", "x" * 10_000])
async def test_what_is_no_key_is_refused_without_a_read(clock: Clock, text: str) -> None:
    counted = CountedStore(MemoryStore(clock))
    assert "not of the form" in await refusal(verifier(counted, clock), text)
    assert counted.reads == 0


async def test_an_unknown_id_and_a_wrong_secret_are_refused_alike(store: Store, clock: Clock) -> None:
    keys, made, other = verifier(store, clock), await created(store), await created(store)
    assert made.text[:13] != other.text[:13]
    wrong = made.text[:13] + other.text[13:]
    assert await refusal(keys, wrong) == await refusal(keys, f"prd_zzzzzzzz_{'a' * 43}")
    assert (await keys.caller(made.text)).subject == f"key:{made.key.id}"


async def test_a_request_reads_nothing_while_the_key_is_cached(clock: Clock) -> None:
    counted = CountedStore(MemoryStore(clock))
    made, keys = await created(counted.inner), verifier(counted, clock)
    await asyncio.gather(*(keys.caller(made.text) for _ in range(50)))
    assert counted.reads == 2  # the directory and the key, once for all
    for _ in range(100):
        clock.advance(CACHE_S / 101)
        await keys.caller(made.text)
    assert counted.reads == 2 and counted.posts == []
    clock.advance(CACHE_S)
    await keys.caller(made.text)
    assert counted.reads == 3  # its tenant does not change


async def test_a_revocation_takes_effect_within_the_time_of_the_cache(store: Store, clock: Clock) -> None:
    keys, made = verifier(store, clock), await created(store)
    await keys.caller(made.text)
    await revoke_key(store, "acme", made.key.id, "key:admin")
    clock.advance(CACHE_S * 0.99)
    await keys.caller(made.text)
    clock.advance(CACHE_S * 0.01)
    assert f"the key {made.key.id} was revoked" in await refusal(keys, made.text)
    assert "not known" in await refusal(keys, made.text[:-1] + ("a" if made.text[-1] != "a" else "b"))


async def test_the_new_secret_of_a_rotated_key_is_taken_at_once_also_while_the_key_is_cached(clock: Clock) -> None:
    counted = CountedStore(MemoryStore(clock))
    made, keys = await created(counted.inner), verifier(counted, clock)
    await keys.caller(made.text)
    rotated = await rotate_key(counted.inner, "acme", made.key.id)
    assert (await keys.caller(rotated.text)).subject == (await keys.caller(made.text)).subject
    assert counted.reads == 3  # the directory and the key, and the key once more
    wrong = f"{made.text[:13]}{'a' * 43}"
    await asyncio.gather(*(refusal(keys, wrong) for _ in range(50)))
    assert counted.reads == 4, "requests with a wrong secret that come at once share a read"


async def test_a_read_that_began_before_a_revocation_is_not_kept(clock: Clock) -> None:
    store = HeldStore(MemoryStore(clock))
    keys, made = verifier(store, clock), await created(store.inner)
    reading = asyncio.ensure_future(keys.caller(made.text))
    await store.has_read.wait()
    await revoke_key(store.inner, "acme", made.key.id, "key:admin")
    keys.forget(made.key.id)
    store.may_answer.set()
    await reading
    assert "was revoked" in await refusal(keys, made.text)


async def test_a_key_expires_at_its_time_also_while_it_is_cached(store: Store, clock: Clock) -> None:
    keys, made = verifier(store, clock), await created(store, valid_s=2)
    await keys.caller(made.text)
    clock.advance(1.9)
    await keys.caller(made.text)
    clock.advance(0.1)
    assert "has expired" in await refusal(keys, made.text)


@pytest.mark.parametrize("ahead_s", [-7_200, 7_200])
async def test_a_key_expires_by_the_time_of_the_store_wherever_the_clock_of_the_process_is(store: Store, clock: Clock, ahead_s: float) -> None:
    clock.now_s = time.time() - ahead_s
    made = await created(store, valid_s=3_600)
    assert (await StoreAccess(store).keys.caller(made.text)).subject == f"key:{made.key.id}"
    clock.advance(3_600)
    assert "has expired" in await refusal(StoreAccess(store).keys, made.text)


async def test_an_expired_key_is_not_taken_again_when_the_clock_of_the_machine_is_set_back(tmp_path: Path) -> None:
    wall, monotonic = Clock(), Clock(50.0)
    store = SqliteStore(tmp_path / "access.db", SteadyClock(wall, monotonic))
    try:
        keys, made = KeyVerifier(store, ServiceClock(store, monotonic)), await created(store, valid_s=60)
        await keys.caller(made.text)
        for passed_s, set_by_s in ((60, 0), (1, -3_600), (CACHE_S, 0), (60, 0)):
            wall.advance(passed_s + set_by_s)
            monotonic.advance(passed_s)
            assert "has expired" in await refusal(keys, made.text)
        assert (await keys.caller((await created(store, valid_s=60)).text)).expires_at_s is not None
    finally:
        await store.close()


async def test_a_rotated_key_has_two_secrets_for_a_while(store: Store, clock: Clock) -> None:
    keys, first = verifier(store, clock), await created(store)
    second = await rotate_key(store, "acme", first.key.id)
    assert second.key.id == first.key.id and second.text != first.text and second.key.secrets == 2
    assert (await keys.caller(first.text)).expires_at_s == clock.now_s + OVERLAP_S
    assert (await keys.caller(second.text)).expires_at_s is None
    clock.advance(OVERLAP_S)
    assert "its former secret, which has expired" in await refusal(keys, first.text)
    assert (await keys.caller(second.text)).roles == {"operator"}
    assert [one.secrets for one in (await list_keys(store, "acme")).items] == [1]


async def test_a_second_rotation_ends_the_oldest_secret_at_once_and_one_without_overlap_the_former(store: Store, clock: Clock) -> None:
    first = await created(store)
    second, third = await rotate_key(store, "acme", first.key.id), await rotate_key(store, "acme", first.key.id)
    assert "not known" in await refusal(verifier(store, clock), first.text)
    assert (await verifier(store, clock).caller(second.text)).subject and (await verifier(store, clock).caller(third.text)).subject
    last = await rotate_key(store, "acme", first.key.id, overlap_s=0)
    assert "not known" in await refusal(verifier(store, clock), third.text) and (await verifier(store, clock).caller(last.text)).subject


async def test_a_key_that_is_over_is_not_rotated(store: Store, clock: Clock) -> None:
    revoked, expired = await created(store), await created(store, valid_s=1)
    await revoke_key(store, "acme", revoked.key.id, "local")
    clock.advance(1)
    for one in (revoked, expired):
        with pytest.raises(BadValue, match="was revoked or has expired"):
            await rotate_key(store, "acme", one.key.id)


async def test_rotations_and_revocations_at_once_leave_a_revoked_key(store: Store, clock: Clock) -> None:
    made = await created(store)
    done = await asyncio.gather(
        *(rotate_key(store, "acme", made.key.id) for _ in range(4)), revoke_key(store, "acme", made.key.id, "key:x"), return_exceptions=True
    )
    assert all(not isinstance(one, BaseException) or isinstance(one, BadValue) for one in done)
    (listed,) = (await list_keys(store, "acme")).items
    assert listed.revoked_by == "key:x"
    for one in done:
        if isinstance(one, CreatedKey):
            await refusal(verifier(store, clock), one.text)


async def test_keys_are_listed_in_pages_without_secrets_and_by_tenant(store: Store) -> None:
    ids = sorted([(await created(store, name=f"k{number}")).key.id for number in range(5)])
    await created(store, "other")
    first = await list_keys(store, "acme", limit=3)
    rest = await list_keys(store, "acme", limit=3, after=first.next)
    assert [one.id for one in (*first.items, *rest.items)] == ids and rest.next is None


async def test_another_tenant_can_neither_revoke_nor_rotate(store: Store, clock: Clock) -> None:
    made = await created(store)
    with pytest.raises(NotFound, match="no key"):
        await revoke_key(store, "other", made.key.id, "key:x")
    with pytest.raises(NotFound, match="no key"):
        await rotate_key(store, "other", made.key.id)
    assert (await verifier(store, clock).caller(made.text)).subject


async def test_a_revoked_key_is_listed_for_a_while_and_then_forgotten(store: Store, clock: Clock) -> None:
    keys, made = verifier(store, clock), await created(store)
    once = await revoke_key(store, "acme", made.key.id, "key:x")
    clock.advance(60)
    assert await revoke_key(store, "acme", made.key.id, "key:y") == once and once.revoked_by == "key:x"
    clock.advance(KEPT_S - 61)
    assert len((await list_keys(store, "acme")).items) == 1 and "was revoked" in await refusal(keys, made.text)
    clock.advance(1)
    assert (await list_keys(store, "acme")).items == []
    clock.advance(CACHE_S)
    assert "not known" in await refusal(keys, made.text)
    assert await store.drop_expired_records() == 2 and await store.records(RecordFilter(CREDENTIAL_TENANT, CREDENTIALS.name)) == []


@pytest.mark.parametrize(
    ("fields", "error", "why"),
    [
        ({"name": ""}, BadName, "the name ''"),
        ({"roles": ()}, BadValue, "viewer, operator"),
        ({"roles": ("root",)}, BadValue, "viewer, operator"),
        ({"queues": ()}, BadValue, "queues"),
        ({"queues": ("",)}, BadName, "queue"),
        ({"valid_s": 0}, BadValue, "greater than 0"),
        ({"valid_s": float("nan")}, BadValue, "greater than 0"),
        ({"tenant": CREDENTIAL_TENANT}, BadName, "reserved"),
        ({"tenant": ""}, BadName, "tenant"),
    ],
)
async def test_a_request_that_is_wrong_makes_nothing(clock: Clock, fields: dict[str, Any], error: type[PerdureError], why: str) -> None:
    store = MemoryStore(clock)
    with pytest.raises(error, match=why):
        await created(store, **fields)
    assert await store.records(RecordFilter(CREDENTIAL_TENANT, CREDENTIALS.name)) == []


async def test_last_uses_are_written_in_the_background_at_most_once_a_minute(store: Store, clock: Clock) -> None:
    made, one, other = await created(store), verifier(store, clock), verifier(store, clock)

    async def used() -> list[float | None]:
        return [key.used_at_s for key in (await list_keys(store, "acme")).items]

    await one.caller(made.text)
    assert await used() == [None]
    first_s = clock.now_s
    await one.flush()
    assert await used() == [first_s]
    clock.advance(USE_INTERVAL_S - 1)
    await other.caller(made.text)
    await other.flush()
    assert await used() == [first_s]  # another process has written within a minute
    clock.advance(1)
    await other.flush()
    assert await used() == [clock.now_s - 1]
    (record,) = await store.records(RecordFilter("acme", KEY_USES.name))
    await other.flush()
    await one.flush()
    assert await store.records(RecordFilter("acme", KEY_USES.name)) == [record]


async def test_a_use_changes_no_version_of_its_key(store: Store, clock: Clock) -> None:
    keys, made = verifier(store, clock), await created(store)
    await keys.caller(made.text)
    await keys.flush()
    assert [one.version for one in await store.records(RecordFilter("acme", KEYS.name))] == [1]


class Unreachable(MemoryStore):
    """A store that can't be reached now and then."""

    is_away = False

    async def record(self, key: Any) -> Any:
        if self.is_away:
            raise StoreUnavailable("it is away")
        return await super().record(key)


async def test_while_the_store_is_away_cached_keys_are_taken_and_others_are_not_called_wrong(clock: Clock) -> None:
    store = Unreachable(clock)
    made, keys = await created(store), verifier(store, clock)
    await keys.caller(made.text)
    store.is_away = True
    with pytest.raises(StoreUnavailable):
        await keys.caller(f"{made.text[:13]}{'a' * 43}")
    assert (await keys.caller(made.text)).subject, "a wrong secret does not end what is cached of the right one"
    clock.advance(CACHE_S)
    with pytest.raises(StoreUnavailable):
        await keys.caller(made.text)
    with pytest.raises(StoreUnavailable):
        await keys.flush()
    store.is_away = False
    await keys.flush()
    assert (await keys.caller(made.text)).subject and len(await store.records(RecordFilter("acme", KEY_USES.name))) == 1


def test_last_uses_are_written_each_minute_and_wait_with_a_warning_while_the_store_is_away(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = Unreachable(clock)
        made, keys = await created(store), verifier(store, clock)
        writing = asyncio.create_task(keys.run())
        await keys.caller(made.text)
        store.is_away = True
        await asyncio.sleep(USE_INTERVAL_S + 1)
        store.is_away = False
        assert not writing.done() and await store.records(RecordFilter("acme", KEY_USES.name)) == []
        assert [one.getMessage().partition(":")[0] for one in caplog.records if one.name == "perdure.access"] == ["writing when keys were last used failed"]
        await asyncio.sleep(USE_INTERVAL_S)
        assert len(await store.records(RecordFilter("acme", KEY_USES.name))) == 1
        writing.cancel()

    run(scenario)


async def test_a_read_that_is_waited_for_by_nobody_still_serves_the_next(clock: Clock) -> None:
    store = MemoryStore(clock)
    made, keys = await created(store), verifier(store, clock)
    waiting = asyncio.create_task(keys.caller(made.text))
    await asyncio.sleep(0)
    waiting.cancel()
    assert (await keys.caller(made.text)).subject


@pytest.mark.parametrize("kind", STORES)
async def test_no_secret_of_a_key_is_in_any_stored_byte(kind: str, tmp_path: Path, clock: Clock) -> None:
    async with opened_store(kind, tmp_path, clock) as store:
        first = await created(store)
        texts = [first.text, (await rotate_key(store, "acme", first.key.id)).text]
        keys = verifier(store, clock)
        for text in texts:
            await keys.caller(text)
        await keys.flush()
        await revoke_key(store, "acme", first.key.id, "local")
        needles = [secret for text in texts for secret in secret_forms(text)]
        stored = [one.value for tenant in ("acme", CREDENTIAL_TENANT) for kind in ALL_KINDS for one in await store.records(RecordFilter(tenant, kind))]
        assert len(stored) == 3 and not [needle for needle in needles for value in stored if needle in value]
        written = bytes_below(tmp_path)
        assert kind != "sqlite" or first.key.id.encode() in written
        assert not [needle for needle in needles if needle in written]


ALL_KINDS = tuple(one.name for one in (KEYS, KEY_USES, SESSIONS, AUDIT_ENTRIES, CREDENTIALS))


def bytes_below(directory: Path) -> bytes:
    """All that is in the files of a directory."""
    return b"".join(file.read_bytes() for file in directory.rglob("*") if file.is_file())


def secret_forms(text: str) -> list[bytes]:
    """The secret of a credential as text and as bytes, and parts of both."""
    secret = text.split("_", 2)[2]
    raw = base64.urlsafe_b64decode(secret + "=")
    return [secret.encode(), secret[:16].encode(), raw, raw[:16], raw[16:], raw.hex().encode()]
