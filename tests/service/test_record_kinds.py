"""Claims about kinds of records: what is stored is read again, in order and in pages, and a change of something older is refused."""

import msgspec
import pytest

from perdure.core.attribute_filter import AttributeOrder, attribute_conditions
from perdure.core.errors import LogDamaged, StaleRecord
from perdure.service.known_records import KINDS_BY_NAME, RECORD_KINDS
from perdure.service.record_kinds import PAGE, RecordKind, post_records
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Post
from perdure.stores.records import RecordChange


class Note(msgspec.Struct, frozen=True):
    text: str
    pinned: bool = False


class OlderNote(msgspec.Struct, frozen=True):
    text: str


NOTES = RecordKind("note", Note)
T = "acme"


def test_each_kind_is_listed_once_under_a_name_of_its_own() -> None:
    assert len(KINDS_BY_NAME) == len(RECORD_KINDS)
    assert all(kind.name and issubclass(kind.value, msgspec.Struct) for kind in RECORD_KINDS)


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
