"""Claims about kinds of records: what is stored is read again, in order and in pages, and a change of something older is refused."""

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

import perdure.service
from perdure.core.attribute_filter import AttributeOrder, attribute_conditions
from perdure.core.errors import BadValue, LogDamaged, StaleRecord
from perdure.core.record_format import encode_record_value
from perdure.service.access_records import AUDIT_ENTRIES, AuditTarget
from perdure.service.audit import AuditedBy, audited_access
from perdure.service.callers import LOCAL
from perdure.service.known_records import KINDS_BY_NAME, RECORD_KINDS
from perdure.service.record_kinds import PAGE, RecordKind, post_records
from perdure.service.store_access import StoreAccess
from perdure.stores.change_feed import CHANGE_FEED, ShippedItem, ShippedRecord
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import ChangeAnswer, Commit, Committed, Post
from perdure.stores.records import RecordChange


class Note(msgspec.Struct, frozen=True):
    text: str
    pinned: bool = False


class OlderNote(msgspec.Struct, frozen=True):
    text: str


NOTES = RecordKind("note", Note)
T = "acme"


def test_each_kind_of_the_service_is_listed_once_under_a_name_of_its_own() -> None:
    assert len(KINDS_BY_NAME) == len(RECORD_KINDS)
    assert all(kind.name and issubclass(kind.value, msgspec.Struct) for kind in RECORD_KINDS)
    modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(perdure.service.__path__, "perdure.service.")]
    declared = {id(one): one.name for module in modules for one in vars(module).values() if isinstance(one, RecordKind)}
    assert declared == {id(one): one.name for one in RECORD_KINDS}


def test_the_flags_of_all_kinds() -> None:
    assert {one.name: (one.audited, one.expires) for one in RECORD_KINDS} == {
        "bulk piece": (False, True),
        "definition": (True, False),
        "definition version": (True, False),
        "definition content": (False, False),
        "definition release": (False, False),
        "definition event": (False, False),
        "definition draft": (True, False),
        "idempotency key": (False, True),
        "access key": (True, True),
        "access key use": (False, True),
        "session": (True, True),
        "audit entry": (False, True),
        "credential": (False, True),
        "proposal": (True, False),
        "proposal content": (False, False),
        "trigger": (True, False),
        "webhook path": (False, False),
        "schedule state": (False, False),
        "delivery": (False, True),
        "delivery key": (False, True),
        "event listeners": (False, False),
        "person": (True, False),
        "notification rule": (True, False),
        "notification count": (False, True),
        "agent_memory": (True, False),
    }


@pytest.mark.parametrize("kind", [one for one in RECORD_KINDS if one is not AUDIT_ENTRIES], ids=lambda one: one.name)
async def test_a_change_of_a_kind_has_an_entry_in_the_audit_if_the_kind_says_so(access: StoreAccess, kind: RecordKind[Any]) -> None:
    audited = audited_access(access, AuditedBy(msgspec.structs.replace(LOCAL, tenant=T), "test"))
    stored = encode_record_value(b"any")
    (answer,) = await audited.store.commit([Post(records=(RecordChange(kind.key(T, "k"), 0, stored),))])
    assert isinstance(answer, Committed)
    entries = [one.value.targets async for one in AUDIT_ENTRIES.all(access.store, T)]
    assert entries == ([(AuditTarget(kind.name, "k", "created", 1),)] if kind.audited else [])


@pytest.mark.parametrize("kind", RECORD_KINDS, ids=lambda one: one.name)
def test_a_record_has_an_end_only_if_its_kind_expires(kind: RecordKind[Any]) -> None:
    if kind.expires:
        assert kind.change(T, "k", 1, None, expires_at_s=5.0).expires_at_s == 5.0
    else:
        with pytest.raises(BadValue, match=f"one of {kind.name} stays until it is removed"):
            kind.change(T, "k", 1, None, expires_at_s=5.0)


async def test_copies_of_a_store_have_the_records_of_all_kinds(access: StoreAccess) -> None:
    changes = [RecordChange(kind.key(T, "k"), 0, encode_record_value(b"any")) for kind in RECORD_KINDS]
    assert isinstance((await access.store.commit([Post(records=tuple(changes))]))[0], Committed)
    feed = access.store.part(CHANGE_FEED)
    assert feed is not None
    await feed.begin_feed()
    shipped, page = list[ShippedItem](), await feed.shipped(0)
    while page.more:
        shipped, page = [*shipped, *page.items], await feed.shipped(page.position)
    shipped += page.items
    assert {one.record.key.kind for one in shipped if isinstance(one, ShippedRecord)} == {kind.name for kind in RECORD_KINDS}


async def test_an_update_is_made_from_what_is_there_and_again_if_another_came_first(access: StoreAccess) -> None:
    assert await NOTES.update(access.store, T, "a", lambda kept: NOTES.change(T, "a", kept.version, None)) is None
    await post_records(access.store, [NOTES.change(T, "a", 0, Note("one"))])
    assert await NOTES.update(access.store, T, "a", lambda _: None) == Note("one")
    others = iter((Note("two"), Note("three")))

    class Contested(MemoryStore):
        """A store to which another writer comes first, twice."""

        async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
            if (other := next(others, None)) is not None:
                kept = await NOTES.read(self, T, "a")
                assert kept is not None
                _ = await super().commit([Post(records=(NOTES.change(T, "a", kept.version, other),))])
            return await super().commit(changes)

    contested = Contested()
    _ = await MemoryStore.commit(contested, [Post(records=(NOTES.change(T, "a", 0, Note("one")),))])
    was = await NOTES.update(contested, T, "a", lambda kept: NOTES.change(T, "a", kept.version, Note(kept.value.text, pinned=True)))
    found = await NOTES.read(contested, T, "a")
    assert was == Note("three") and found is not None and found.value == Note("three", pinned=True)


async def test_what_is_stored_is_read_again_with_the_version_that_a_change_expects(access: StoreAccess) -> None:
    await post_records(access.store, [NOTES.change(T, "a", 0, Note("one"))])
    found = await NOTES.read(access.store, T, "a")
    assert found is not None
    assert (found.key, found.version, found.value) == ("a", 1, Note("one"))
    await post_records(access.store, [NOTES.change(T, "a", found.version, None)])
    assert await NOTES.read(access.store, T, "a") is None
    assert await NOTES.read(access.store, "other", "a") is None


async def test_a_stale_change_names_what_changed_and_changes_nothing(access: StoreAccess) -> None:
    await post_records(access.store, [NOTES.change(T, "a", 0, Note("one"))])
    with pytest.raises(StaleRecord, match=r"the note 'a' is at version 1 now, and the change expected that there is none: another change came first"):
        await post_records(access.store, [NOTES.change(T, "b", 0, Note("new")), NOTES.change(T, "a", 0, Note("two"))])
    with pytest.raises(StaleRecord, match="the note 'b' is not there any more, and the change expected version 3"):
        await post_records(access.store, [NOTES.change(T, "b", 3, Note("two"))])
    assert [one.value async for one in NOTES.all(access.store, T)] == [Note("one")]


async def test_all_pages_are_read_in_order_and_by_attributes(access: StoreAccess) -> None:
    count = 2 * PAGE + 1
    changes = [NOTES.change(T, f"n/{number:04}", 0, Note(str(number)), {"rank": -number, "even": number % 2 == 0}) for number in range(count)]
    await post_records(access.store, [*changes, NOTES.change(T, "o", 0, Note("beside"))])
    assert [one.value.text async for one in NOTES.all(access.store, T, "n/")] == [str(number) for number in range(count)]
    even = [one async for one in NOTES.all(access.store, T, where=attribute_conditions({"even": True}))]
    assert len(even) == PAGE + 1
    order = AttributeOrder("rank")
    first = await NOTES.page(access.store, T, order=order, limit=2)
    second = await NOTES.page(access.store, T, order=order, after=first[-1].position, limit=2)
    assert [one.value.text for one in (*first, *second)] == ["1000", "999", "998", "997"]


async def test_a_field_that_a_later_version_adds_has_its_default(access: StoreAccess) -> None:
    await post_records(access.store, [RecordKind("note", OlderNote).change(T, "a", 0, OlderNote("one"))])
    found = await NOTES.read(access.store, T, "a")
    assert found is not None
    assert found.value == Note("one", pinned=False)


async def test_a_record_that_is_none_of_its_kind_is_named_as_damaged(access: StoreAccess) -> None:
    await post_records(access.store, [RecordKind("note", OlderNote).change(T, "a", 0, OlderNote(5))])  # type: ignore[arg-type]  # not what the field takes
    _ = await access.store.commit([Post(records=(RecordChange(NOTES.key(T, "b"), 0, b"\x01damaged"),))])
    for key in "ab":
        with pytest.raises(LogDamaged, match=f"the note '{key}' can't be read"):
            await NOTES.read(access.store, T, key)
