"""Audit entries are in the commit that made the change, name it without its values, and are only ever added."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from perdure.core.errors import BadValue, NotFound, ProgrammingError
from perdure.core.paths import Key
from perdure.core.values import ENCODED_NONE
from perdure.operations import on_execution_changes, on_executions, on_queues
from perdure.service.access_keys import KeyRequest, create_key, revoke_key
from perdure.service.access_records import AUDIT_ENTRIES, CREDENTIAL_TENANT, AuditEntry, AuditTarget
from perdure.service.audit import (
    AUDIT_KEPT_S,
    TARGETS_MAX,
    AuditedBy,
    AuditedStore,
    AuditFilter,
    AuditPage,
    audited_access,
    list_entries,
)
from perdure.service.bulk_requests import BulkFilter
from perdure.service.callers import Caller
from perdure.service.execution_operations import StartRequest
from perdure.service.queries import ExecutionFilter
from perdure.service.queue_details import LimitChanges
from perdure.service.store_access import StoreAccess
from perdure.stores.forwarding_store import ForwardingStore
from perdure.stores.protocol import TRANSACTIONS, Committed, Post, Store
from perdure.stores.records import RecordChange, RecordFilter, RecordKey, Stale
from perdure.stores.secret_vault import VAULT
from perdure.stores.user_transactions import USER_TRANSACTIONS
from perdure.testing.conformance import Clock
from tests.service.access_stores import STORES, opened_store

ADA = Caller("acme", "oidc:ada@example.com", frozenset(("admin",)))
BOB = Caller("acme", "key:Bob12345", frozenset(("operator",)))
BULK: tuple[Literal["pause", "cancel"], ...] = ("pause", "cancel")  # by messages, and by commits
CANARY = b"canary of a value"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    async with opened_store(request.param, tmp_path, clock) as store:
        yield store


@pytest.fixture
async def access(store: Store) -> AsyncIterator[StoreAccess]:
    access = StoreAccess(store)
    yield access
    await access.aclose()


def by(store: Store, caller: Caller = ADA, operation: str = "triggers.put", address: str = "") -> Store:
    return AuditedStore(store, AuditedBy(caller, operation, address))


def note(key: str, version: int = 0, value: bytes | None = CANARY, tenant: str = "acme") -> RecordChange:
    return RecordChange(RecordKey(tenant, "trigger", key), version, value)


async def entries(store: Store, tenant: str = "acme", **which: str) -> list[AuditEntry]:
    return [one.entry for one in (await list_entries(store, tenant, AuditFilter(**which), limit=1000)).items]


def pending(id: str) -> StartRequest:
    return StartRequest(key=Key("acme", "order", id), input=ENCODED_NONE)


async def test_a_change_and_its_entry_are_one_commit(store: Store, clock: Clock) -> None:
    (answer,) = await by(store, address="192.0.2.7").commit([Post(records=(note("a"),))])
    assert isinstance(answer, Committed)
    assert await entries(store) == [
        AuditEntry(
            at_s=clock.now_s,
            subject="oidc:ada@example.com",
            operation="triggers.put",
            address="192.0.2.7",
            targets=(AuditTarget("trigger", "a", "created", 1),),
        )
    ]


async def test_what_was_not_changed_has_no_entry(store: Store) -> None:
    answers = await by(store).commit([Post(records=(note("a", 3),)), Post(records=(note("b"), note("c", 1, None)))])
    assert [type(one) for one in answers] == [Stale, Stale] and await entries(store) == []


async def test_an_entry_says_how_each_record_was_changed_and_no_value(store: Store) -> None:
    audited = by(store)
    await audited.commit([Post(records=(note("a"), note("b")))])
    await audited.commit([Post(records=(note("a", 1, b"new"), note("b", 1, None), note("none", 0, None)))])
    newest, oldest = await entries(store)
    assert newest.targets == (AuditTarget("trigger", "a", "changed", 2), AuditTarget("trigger", "b", "removed", 0))
    assert [one.change for one in oldest.targets] == ["created", "created"]
    assert not [one for one in await store.records(RecordFilter("acme", AUDIT_ENTRIES.name)) if CANARY in one.value or b"new" in one.value]


async def test_a_guard_alone_is_no_change(store: Store) -> None:
    await by(store).commit([Post(records=(note("none", 0, None),))])
    assert await entries(store) == []


async def test_a_change_in_another_tenant_is_refused_as_a_whole(store: Store) -> None:
    with pytest.raises(BadValue, match="records of one tenant"):
        await by(store).commit([Post(records=(note("a", tenant="other"),))])
    assert await store.record(RecordKey("other", "trigger", "a")) is None and await entries(store) == [] == await entries(store, "other")


async def test_no_operation_changes_or_removes_an_entry(store: Store) -> None:
    audited = by(store)
    await audited.commit([Post(records=(note("a"),))])
    (entry,) = await store.records(RecordFilter("acme", AUDIT_ENTRIES.name))
    for change in (
        RecordChange(entry.key, 1, None),
        RecordChange(entry.key, 1, b"other"),
        RecordChange(RecordKey("acme", AUDIT_ENTRIES.name, "0"), 0, b"forged"),
    ):
        with pytest.raises(ProgrammingError, match="only added"):
            await audited.commit([Post(records=(change,))])
    assert await store.records(RecordFilter("acme", AUDIT_ENTRIES.name)) == [entry]


async def test_a_command_to_an_execution_has_an_entry_with_its_name(store: Store, access: StoreAccess) -> None:
    await on_execution_changes.start(access, pending("o/1"))
    await on_execution_changes.pause(audited_access(access, AuditedBy(BOB, "executions.pause")), Key("acme", "order", "o/1"), "a reason")
    (entry,) = await entries(store)
    assert (entry.subject, entry.operation) == ("key:Bob12345", "executions.pause")
    assert entry.targets == (AuditTarget("execution", "order/o%2F1", "pause"),)
    with pytest.raises(NotFound):
        await on_execution_changes.pause(audited_access(access, AuditedBy(BOB, "executions.pause")), Key("acme", "order", "none"))
    assert len(await entries(store)) == 1
    assert len(await store.messages(Key("acme", "order", "o/1"))) == 2


async def test_an_execution_that_is_changed_at_once_has_an_entry_with_its_status(store: Store, access: StoreAccess) -> None:
    """Who cancels an execution that has not begun ends it by a commit, which carries no records."""
    await on_execution_changes.start(access, pending("a"))
    await on_execution_changes.cancel(audited_access(access, AuditedBy(BOB, "executions.cancel")), Key("acme", "order", "a"))
    assert [one.targets for one in await entries(store, execution="order/a")] == [(AuditTarget("execution", "order/a", "cancelled"),)]
    assert (await on_executions.summary(access, Key("acme", "order", "a"))).status == "cancelled"


async def test_starts_and_signals_have_no_entry(store: Store, access: StoreAccess) -> None:
    audited = audited_access(access, AuditedBy(BOB, "executions.start"))
    await on_execution_changes.start(audited, pending("a"))
    await on_execution_changes.send(audited, Key("acme", "order", "a"), "go")
    assert await entries(store) == [] and len(await store.messages(Key("acme", "order", "a"))) == 2


async def test_each_execution_of_many_has_its_entry(store: Store, access: StoreAccess) -> None:
    names = [f"order/o{number:02}" for number in range(TARGETS_MAX + 2)]
    for name in names:
        await on_execution_changes.start(access, pending(name.removeprefix("order/")))
    for verb in BULK:
        await on_execution_changes.bulk(audited_access(access, AuditedBy(BOB, verb)), verb, BulkFilter(which=ExecutionFilter(tenant="acme")))
        found = await entries(store, operation=verb)
        assert sorted(target.key for entry in found for target in entry.targets) == names
        assert len([target for entry in found for target in entry.targets if target.key == "order/o51"]) == 1
    assert sorted(one.operation for one in await entries(store, execution="order/o51")) == ["cancel", "pause"]


async def test_of_very_many_targets_the_number_is_kept(store: Store) -> None:
    await by(store).commit([Post(records=tuple(note(f"{number:03}") for number in range(TARGETS_MAX + 7)))])
    (entry,) = await entries(store)
    assert (len(entry.targets), entry.more) == (TARGETS_MAX, 7)


async def test_entries_are_listed_newest_first_in_pages(store: Store, clock: Clock) -> None:
    for number in range(7):
        clock.advance(0.001 * (number % 3))
        await by(store).commit([Post(records=(note(f"{number}"),))])
    await by(store, Caller("other", "key:x", frozenset())).commit([Post(records=(note("0", tenant="other"),))])
    found, page = list[str](), AuditPage([])
    while not found or page.next is not None:
        page = await list_entries(store, "acme", AuditFilter(), 3, page.next)
        found += [one.entry.targets[0].key for one in page.items]
    times = [one.at_s for one in await entries(store)]
    assert sorted(found) == sorted(f"{number}" for number in range(7)) and times == sorted(times, reverse=True)


async def test_of_one_call_the_last_change_is_listed_first(store: Store) -> None:
    await by(store).commit([Post(records=(note(f"{number}"),)) for number in range(30)])
    assert [int(one.targets[0].key) for one in await entries(store)] == list(reversed(range(30)))


async def test_entries_are_found_by_subject_operation_and_execution(store: Store, access: StoreAccess, clock: Clock) -> None:
    long = "k" * 1000 + "/ü"
    for id in ("a", long):
        await on_execution_changes.start(access, pending(id))
    for caller, verb, id in ((ADA, on_execution_changes.pause, "a"), (BOB, on_execution_changes.cancel, "a"), (BOB, on_execution_changes.pause, long)):
        clock.advance(1)
        await verb(audited_access(access, AuditedBy(caller, f"executions.{verb.__name__}")), Key("acme", "order", id))
    assert [one.operation for one in await entries(store, subject=BOB.subject)] == ["executions.pause", "executions.cancel"]
    assert [one.subject for one in await entries(store, operation="executions.pause")] == [BOB.subject, ADA.subject]
    assert len(await entries(store, execution="order/a")) == 2
    assert [one.subject for one in await entries(store, execution="order/" + "k" * 1000 + "%2F%C3%BC")] == [BOB.subject]
    assert await entries(store, subject=ADA.subject, operation="executions.cancel") == []


async def test_entries_expire(store: Store, clock: Clock) -> None:
    await by(store).commit([Post(records=(note("a"),))])
    await AuditedStore(store, AuditedBy(ADA, "x", kept_s=10)).commit([Post(records=(note("b"),))])
    clock.advance(10)
    assert [one.operation for one in await entries(store)] == ["triggers.put"]
    clock.advance(AUDIT_KEPT_S - 10)
    assert await entries(store) == [] and await store.drop_expired_records() == 2


async def test_a_key_and_its_entry_are_one_commit_and_the_directory_has_none(store: Store, clock: Clock) -> None:
    made = await create_key(by(store, operation="access.create_key"), "acme", KeyRequest(name="ci", roles=("viewer",)), ADA.subject)
    clock.advance(1)
    await revoke_key(by(store, operation="access.revoke_key"), "acme", made.key.id, ADA.subject)
    assert [one.targets for one in await entries(store)] == [
        (AuditTarget("access key", made.key.id, "changed", 2),),
        (AuditTarget("access key", made.key.id, "created", 1),),
    ]
    assert await entries(store, CREDENTIAL_TENANT) == []


async def test_limits_of_queues_have_an_entry(store: Store, access: StoreAccess) -> None:
    audited = audited_access(access, AuditedBy(ADA, "queues.change"))
    await on_queues.change(audited, "mails", LimitChanges(concurrency=3))
    await on_queues.remove(audited, "mails")
    assert [one.targets for one in await entries(store)] == [(AuditTarget("queue", "mails", "unlimited"),), (AuditTarget("queue", "mails", "limited"),)]


async def test_secrets_have_an_entry_with_their_name(store: Store) -> None:
    vault = by(store, operation="secrets.put").part(VAULT)
    assert vault is not None
    assert await vault.keep("acme", "TOKEN", 1, CANARY) and await vault.read("acme") != [] and await vault.drop("acme", "TOKEN")
    assert [one.targets for one in await entries(store)] == [(AuditTarget("secret", "TOKEN", "removed"),), (AuditTarget("secret", "TOKEN", "set"),)]
    assert not [one for one in await store.records(RecordFilter("acme", AUDIT_ENTRIES.name)) if CANARY in one.value]


async def test_what_commits_without_an_entry_is_no_part_of_an_audited_store(store: Store) -> None:
    assert by(store).part(TRANSACTIONS) is None and by(store).part(USER_TRANSACTIONS) is None


READS_OR_SERVES_ENGINES = {
    *("read", "heads", "messages", "are_queued", "record", "records", "store_time", "leases", "queues", "blob", "removed_at", "on_wake", "on_change"),
    *("claim", "renew", "relay", "drop_expired", "drop_expired_records", "close"),
}


ADDS_ENTRIES = {"commit", "limit", "raise_epoch", "part"}


def test_every_method_of_a_store_is_known_to_change_nothing_or_to_add_entries() -> None:
    """A new method of stores has to be put into one of the two sets: an audited store hands it on either way."""
    methods = {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}
    assert methods == READS_OR_SERVES_ENGINES | ADDS_ENTRIES
    assert set(vars(AuditedStore)) >= ADDS_ENTRIES and methods <= set(vars(AuditedStore)) | set(vars(ForwardingStore))


async def test_entries_of_callers_at_once_are_all_there(store: Store) -> None:
    await asyncio.gather(*(by(store, BOB).commit([Post(records=(note(f"{number}"),))]) for number in range(40)))
    assert len(await entries(store)) == 40
