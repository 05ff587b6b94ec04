"""Claims about the catalog: what a definition is after each change, what is kept of it, and what a change that fails leaves."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import chain
from random import Random

import msgspec
import pytest

from perdure import Definition
from perdure.core.errors import AlreadyExists, BadDefinition, BadName, BadValue, LogDamaged, NotFound, StaleRecord, StoreUnavailable
from perdure.service import catalog
from perdure.service.catalog import CatalogDefinition
from perdure.service.catalog_changes import CatalogChange, DefinitionFields, Edit
from perdure.service.catalog_records import CONTENTS, PIECE_BYTES
from perdure.service.record_kinds import post_records
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.stores.records import RecordChange, RecordFilter, RecordKey, StoredRecord
from perdure.testing.faults import Faults, FaultyStore
from tests.service.catalog_documents import ADA, BEN, document

T = "acme"


async def create(access: StoreAccess, value: int = 1, slug: str = "invoice", **fields: str) -> CatalogDefinition:
    return await catalog.create_definition(access, T, document(value, **fields), ADA, slug)


async def publish(access: StoreAccess, value: int, version: str = "", edit: Edit = BEN) -> CatalogDefinition:
    return await catalog.update_definition(access, T, "invoice", edit, document(value, version=version))


async def kinds(access: StoreAccess) -> Sequence[str]:
    """What the history has, oldest first."""
    return await kinds_of(access, "invoice")


async def kinds_of(access: StoreAccess, slug: str) -> Sequence[str]:
    return [one.kind for one in (await catalog.read_history(access, T, slug)).items][::-1]


# Create and update


async def test_a_definition_is_created_with_the_hash_that_executions_pin(access: StoreAccess) -> None:
    made = await create(access)
    assert (made.slug, made.name, made.version, made.enabled, made.revision) == ("invoice", "invoice", "1.0.0", True, 1)
    assert made.hash == Definition.of(document(1).decode()).read.hash
    assert await catalog.read_definition(access, T, made.id) == await catalog.read_definition(access, T, "invoice") == made
    version = await catalog.read_version(access, T, "invoice")
    assert version.received.encode() == document(1)
    assert (version.source, version.by, version.first_version) == ("update", "ada", "1.0.0")


async def test_a_document_may_be_json_or_yaml_or_yaml_as_a_string_of_json(access: StoreAccess) -> None:
    as_json = b'{"perdure": 1, "name": "invoice", "vars": {"n": 0}, "steps": [{"id": "note", "set": {"n": 1}}], "output": "@vars.n"}'
    as_string = b'"perdure: 1\\nname: invoice\\nvars: {n: 0}\\nsteps: [{id: note, set: {n: 1}}]\\noutput: \\"@vars.n\\""'
    found = [(await catalog.check_document(access, T, one)).hash for one in (document(1), as_json, as_string)]
    assert len(set(found)) == 1
    assert found[0]


async def test_a_slug_is_taken_once_in_a_tenant_and_again_in_another(access: StoreAccess) -> None:
    _ = await create(access)
    with pytest.raises(AlreadyExists, match="the slug 'invoice' is taken"):
        await create(access, 2)
    other = await catalog.create_definition(access, "other", document(2), BEN)
    assert (await catalog.read_definition(access, T, "invoice")).hash != other.hash
    with pytest.raises(NotFound):
        await catalog.read_definition(access, T, other.id)
    with pytest.raises(NotFound):
        await catalog.read_version(access, T, f"invoice@{other.hash}")
    assert [one.slug for one in (await catalog.list_definitions(access, "third")).items] == []


async def test_a_change_raises_the_minor_version_unless_the_document_declares_one(access: StoreAccess) -> None:
    _ = await create(access, version="1.4.0")
    assert (await publish(access, 2, "1.4.0")).version == "1.5.0", "the document declares what it declared before"
    assert (await publish(access, 3, "2.0.0")).version == "2.0.0"
    assert (await publish(access, 4)).version == "2.1.0"
    by_part = [await catalog.update_definition(access, T, "invoice", ADA, document(value), part=part) for value, part in ((5, "patch"), (6, "major"))]  # type: ignore[arg-type]  # a literal
    assert [one.version for one in by_part] == ["2.1.1", "3.0.0"]
    with pytest.raises(BadValue, match=r"version: '2.5.0' is not above 3.0.0"):
        await publish(access, 7, "2.5.0")
    assert (await catalog.read_definition(access, T, "invoice")).version == "3.0.0"


async def test_a_document_of_the_same_meaning_publishes_nothing(access: StoreAccess) -> None:
    made = await create(access)
    assert await catalog.update_definition(access, T, "invoice", BEN, b"# a comment\n" + document(1)) == made
    assert await kinds(access) == ["create"]


async def test_a_document_that_is_not_valid_changes_nothing_and_names_all_findings(access: StoreAccess) -> None:
    made = await create(access)
    bad = b"perdure: 1\nname: invoice\nsteps: [{id: a, sett: {n: 1}}, {id: a, sleep: 1x}]"
    with pytest.raises(BadDefinition) as refused:
        await catalog.update_definition(access, T, "invoice", BEN, bad)
    checked = await catalog.check_document(access, T, bad)
    assert not checked.valid
    assert checked.findings == list(refused.value.findings)
    assert len(checked.findings) > 1
    assert await catalog.read_definition(access, T, "invoice") == made
    with pytest.raises(BadValue, match="a definition in YAML or JSON"):
        await catalog.check_document(access, T, b"  ")


async def test_fields_change_without_a_new_version_and_the_history_says_so(access: StoreAccess) -> None:
    made = await create(access)
    fields = DefinitionFields(name="Invoices", tags=("billing", "monthly", "billing"))
    changed = await catalog.update_definition(access, T, "invoice", BEN, fields=fields)
    assert (changed.name, changed.tags, changed.version, changed.updated_by) == ("Invoices", ("billing", "monthly"), made.version, "ben")
    off = await catalog.update_definition(access, T, "invoice", BEN, fields=DefinitionFields(enabled=False))
    assert await catalog.update_definition(access, T, "invoice", BEN, fields=DefinitionFields(enabled=False)) == off
    _ = await catalog.update_definition(access, T, "invoice", BEN, fields=DefinitionFields(enabled=True))
    assert await kinds(access) == ["create", "edit", "disable", "enable"]
    for wrong in (DefinitionFields(name=" "), DefinitionFields(tags=("",)), DefinitionFields(tags=tuple(map(str, range(33))))):
        with pytest.raises(BadValue):
            await catalog.update_definition(access, T, "invoice", BEN, fields=wrong)


def train(name: str, tags: Sequence[str] = (), command: str = "echo 1") -> bytes:
    """A document of nested steps, which has a name for people beside its slug."""
    return msgspec.json.encode({"slug": "train", "name": name, "tags": tags, "steps": [{"id": "build", "type": "bash", "command": command}]})


async def test_the_name_for_people_and_the_tags_of_a_document_are_those_of_its_definition(access: StoreAccess) -> None:
    made = await catalog.create_definition(access, T, train("Release train", ["ops", "ops"]), ADA)
    assert (made.slug, made.name, made.tags) == ("train", "Release train", ("ops",))
    assert (await catalog.check_document(access, T, train("Release train"))).name == "Release train"
    for found in (await catalog.list_definitions(access, T, text="release"), await catalog.list_definitions(access, T, tag="ops")):
        assert [one.slug for one in found.items] == ["train"]

    renamed = await catalog.update_definition(access, T, "train", BEN, train("Night train", ["ops", "ops"]))
    assert (renamed.name, renamed.version, renamed.hash, renamed.tags) == ("Night train", made.version, made.hash, ("ops",))
    assert await catalog.update_definition(access, T, "train", BEN, train("Night train", ["ops", "ops"])) == renamed
    assert await kinds_of(access, "train") == ["create", "edit"]

    second = await catalog.update_definition(access, T, "train", BEN, train("Second", [], "echo 2"))
    assert (second.name, second.version, second.tags) == ("Second", "1.1.0", ("ops",))
    given = DefinitionFields(name="Given", tags=("given",))
    third = await catalog.update_definition(access, T, "train", BEN, train("Third", ["third"], "echo 3"), fields=given)
    assert (third.name, third.version, third.tags) == ("Given", "1.2.0", ("given",))
    back = await catalog.roll_back(access, T, "train", "1.0.0", BEN)
    assert (back.definition.name, back.definition.tags) == ("Release train", ("ops",))


async def test_tags_of_a_document_have_the_limits_of_those_that_are_given(access: StoreAccess) -> None:
    made = await catalog.create_definition(access, T, train("Release train"), ADA)
    for wrong in (["a" * 65], [str(number) for number in range(33)]):
        with pytest.raises(BadValue, match=r"^tags: "):
            await catalog.update_definition(access, T, "train", BEN, train("Release train", wrong))
        checked = await catalog.check_document(access, T, train("Release train", wrong))
        assert [(one.code, one.pointer) for one in checked.findings if one.severity == "error"] == [("bad_tags", "/tags")]
    assert await catalog.read_definition(access, T, "train") == made


async def test_a_very_long_version_in_a_document_is_refused(access: StoreAccess) -> None:
    with pytest.raises(BadValue, match="at most 100 characters"):
        await create(access, version=f"1.{'9' * 5000}.0")
    _ = await create(access)
    with pytest.raises(BadValue, match="at most 100 characters"):
        await publish(access, 2, f"1.{'9' * 5000}.0")


@pytest.mark.parametrize("which", ["", "a\0b", "Größe", "x" * 3_000, "a/b", "\ud800"])
async def test_a_text_that_is_no_slug_finds_nothing(access: StoreAccess, which: str) -> None:
    _ = await create(access)
    with pytest.raises(NotFound, match="there is no definition"):
        await catalog.read_definition(access, T, which)
    with pytest.raises((NotFound, BadValue)):
        await catalog.read_version(access, T, which)
    with pytest.raises(BadName):
        await catalog.save_draft(access, T, which, b"x", ADA)


# Slugs


@pytest.mark.parametrize("slug", ["Rechnung", "größe", "a b", "a/b", "-a", "a@1", "a:b", "x" * 101, "発注"])
async def test_other_characters_in_a_slug_are_refused_with_one_that_would_do(slug: str) -> None:
    access = StoreAccess(MemoryStore())
    with pytest.raises(BadName, match="a slug has 1 to 100 of the characters"):
        await create(access, slug=slug)


@pytest.mark.parametrize("slug", ["sync", "sync-all", "manual", "validate", "6f1d2c7e-1f3a-4a54-9c1b-0a4a1c0f9e11"])
async def test_reserved_slugs_and_ids_are_refused(slug: str) -> None:
    with pytest.raises(BadName, match=r"it is reserved|the form of an id"):
        await create(StoreAccess(MemoryStore()), slug=slug)


async def test_without_a_slug_one_is_made_of_the_name(access: StoreAccess) -> None:
    made = await catalog.create_definition(access, T, document(name="'Größe & Crème  Brûlée'"), ADA)
    assert made.slug == "grosse-creme-brulee"
    with pytest.raises(BadName, match="no slug can be made of the name"):
        await catalog.create_definition(access, T, document(name="発注"), ADA)
    with pytest.raises(BadName, match="it is reserved"):
        await catalog.create_definition(access, T, document(name="Sync All"), ADA)


# Collisions


async def test_of_two_editors_of_one_revision_one_is_told(access: StoreAccess) -> None:
    made = await create(access)
    edits = [catalog.update_definition(access, T, "invoice", Edit(by, revision=made.revision), document(value)) for value, by in ((2, "ada"), (3, "ben"))]
    answers = await asyncio.gather(*edits, return_exceptions=True)
    (won,) = [one for one in answers if isinstance(one, CatalogDefinition)]
    (told,) = [one for one in answers if isinstance(one, StaleRecord)]
    assert (told.what, told.name, told.expected, told.version) == ("definition", "invoice", 1, 2)
    assert "Read it again, and repeat the change" in str(told)
    assert await catalog.read_definition(access, T, "invoice") == won
    assert await kinds(access) == ["create", "update"]


async def test_changes_without_a_revision_all_happen_one_after_another(access: StoreAccess) -> None:
    _ = await create(access)
    _ = await asyncio.gather(*(publish(access, value) for value in range(2, 8)))
    found = await catalog.read_history(access, T, "invoice")
    assert [one.number for one in found.items] == [7, 6, 5, 4, 3, 2, 1]
    assert [one.version for one in found.items] == [f"1.{minor}.0" for minor in range(6, -1, -1)]
    assert [one.from_hash for one in found.items[:-1]] == [one.hash for one in found.items[1:]]


async def test_of_two_that_create_one_slug_one_is_told(access: StoreAccess) -> None:
    answers = await asyncio.gather(create(access, 1), create(access, 2), return_exceptions=True)
    assert sorted(type(one).__name__ for one in answers) == ["AlreadyExists", "CatalogDefinition"]


# Failing stores

CHANGES: dict[str, Callable[[StoreAccess], Awaitable[object]]] = {
    "create": lambda access: create(access, 5, "another"),
    "publish": lambda access: publish(access, 5),
    "large": lambda access: catalog.update_definition(access, T, "invoice", ADA, large_document()),
    "roll back": lambda access: catalog.roll_back(access, T, "invoice", "1.0.0", ADA),
    "tag": lambda access: catalog.move_tag(access, T, "invoice", "production", ADA),
    "draft": lambda access: catalog.save_draft(access, T, "invoice", b"unfinished", ADA),
    "delete": lambda access: catalog.delete_definition(access, T, "invoice", ADA),
}


def large_document() -> bytes:
    """A document that takes more than one record."""
    return document(9).replace(b"vars:", b"description: '" + b"x" * PIECE_BYTES + b"'\nvars:")


async def snapshot(store: MemoryStore) -> dict[RecordKey, bytes]:
    """Every record."""
    return {key: record.value for key in store._records.all_keys() if (record := await store.record(key))}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_change_whose_commit_fails_leaves_everything_or_nothing(what: str) -> None:
    carried_out = list[set[RecordKey]]()
    for faults in (Faults(), Faults(fail_before=1.0, failing=frozenset(("commit",))), Faults(fail_after=1.0, failing=frozenset(("commit",)))):
        store = MemoryStore(clock=lambda: 1e9)
        plain, faulty = StoreAccess(store), FaultyStore(store, Random(0))
        _ = await create(plain)
        _ = await publish(plain, 2)
        before, faulty.faults = await snapshot(store), faults
        with suppress(StoreUnavailable):
            _ = await CHANGES[what](StoreAccess(faulty))
        after = await snapshot(store)
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        if faults.fail_before:
            assert changed == set()
        else:
            carried_out.append(changed)
    without_fault, answer_lost = carried_out
    assert without_fault == answer_lost != set()


async def test_records_of_others_change_with_the_definition_or_not_at_all(access: StoreAccess) -> None:
    note = RecordKey(T, "audit", "1")

    async def noted(change: CatalogChange) -> list[RecordChange]:
        return [RecordChange(note, 0, change.after.slug.encode())]

    _ = await catalog.create_definition(access, T, document(), Edit("ada", besides=noted))
    found = await access.store.record(note)
    assert found is not None
    assert found.value == b"invoice"
    with pytest.raises(StaleRecord, match="the audit '1' is at version 1 now"):
        await catalog.update_definition(access, T, "invoice", Edit("ada", besides=noted), document(2))
    assert await kinds(access) == ["create"]


# Versions, rollback and deletion


async def test_a_rollback_raises_the_version_and_leaves_a_trace_although_the_content_exists(access: StoreAccess) -> None:
    first = await create(access)
    second = await publish(access, 2)
    back = await catalog.roll_back(access, T, "invoice", first.hash, Edit("ben", "2 was wrong"))
    assert not back.already_at_version
    assert (back.definition.version, back.definition.hash) == ("1.2.0", first.hash)
    again = await catalog.roll_back(access, T, "invoice", first.hash, BEN)
    assert again.already_at_version
    assert again.definition == back.definition
    entry = (await catalog.read_history(access, T, "invoice")).items[0]
    assert (entry.kind, entry.source, entry.note, entry.version, entry.from_version, entry.from_hash) == (
        "rollback",
        "rollback",
        "2 was wrong",
        "1.2.0",
        "1.1.0",
        second.hash,
    )
    forth = await catalog.roll_back(access, T, "invoice", "1.1.0", ADA)
    assert (forth.definition.version, forth.definition.hash) == ("1.3.0", second.hash)
    assert (await catalog.read_version(access, T, "invoice@1.2.0")).hash == (await catalog.read_version(access, T, "invoice@1.0.0")).hash == first.hash
    with pytest.raises(NotFound, match=r"invoice has no version 9.9.9. There are: 1.3.0, 1.2.0, 1.1.0, 1.0.0"):
        await catalog.roll_back(access, T, "invoice", "9.9.9", ADA)
    with pytest.raises(NotFound, match="has no version with the hash"):
        await catalog.roll_back(access, T, "invoice", "sha256:" + 64 * "0", ADA)
    for target in ("9", "^1", "", "invoice@1.0.0"):
        with pytest.raises(BadValue, match=r"target: .* is not the number of a version, such as 1.2.0, or the hash of one"):
            await catalog.roll_back(access, T, "invoice", target, ADA)


async def test_publishing_an_earlier_document_again_returns_to_its_content_under_a_new_number(access: StoreAccess) -> None:
    first = await create(access, version="1.0.0")
    _ = await publish(access, 2, "1.1.0")
    again = await publish(access, 1, "1.0.0")
    assert (again.version, again.hash) == ("1.2.0", first.hash)
    assert (await catalog.read_version(access, T, "invoice")).first_version == "1.0.0"


async def test_history_survives_deletion_and_numbers_go_on_from_it(access: StoreAccess) -> None:
    first = await create(access)
    _ = await publish(access, 2)
    _ = await catalog.move_tag(access, T, "invoice", "production", ADA)
    await catalog.delete_definition(access, T, "invoice", Edit("ada", "no longer used"))
    with pytest.raises(NotFound, match="the definition 'invoice' was deleted"):
        await catalog.read_definition(access, T, "invoice")
    with pytest.raises(NotFound):
        await catalog.read_definition(access, T, first.id)
    assert (await catalog.list_definitions(access, T)).items == []
    assert await kinds(access) == ["create", "update", "tag", "delete"]
    assert (await catalog.read_version(access, T, "invoice@1.0.0")).received.encode() == document(1)
    second = await create(access, 3)
    assert (second.version, second.version_tags, second.created_by) == ("1.2.0", {}, "ada")
    assert second.id != first.id
    assert await kinds(access) == ["create", "update", "tag", "delete", "create"]


async def test_an_editor_of_a_definition_that_was_deleted_and_made_anew_is_told(access: StoreAccess) -> None:
    made = await create(access)
    await catalog.delete_definition(access, T, "invoice", ADA)
    _ = await create(access, 2)
    with pytest.raises(StaleRecord):
        await publish(access, 3, edit=Edit("ben", revision=made.revision))


async def test_a_large_document_is_kept_whole(access: StoreAccess) -> None:
    made = await catalog.create_definition(access, T, large_document(), ADA)
    found = await catalog.read_version(access, T, "invoice")
    assert found.received.encode() == large_document()
    assert found.hash == made.hash == Definition.of(found.canonical.decode()).read.hash
    assert len(found.received) + len(found.canonical) > 2 * PIECE_BYTES


async def test_a_document_of_which_a_piece_is_missing_is_damaged(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, large_document(), ADA)
    (first, *_) = await CONTENTS.page(access.store, T)
    await post_records(access.store, [CONTENTS.change(T, first.key, first.version, None)])
    with pytest.raises(LogDamaged, match="has 2 of 3 pieces"):
        await catalog.read_version(access, T, "invoice")


async def test_a_diff_names_what_changed_between_any_two_versions(access: StoreAccess) -> None:
    _ = await create(access)
    _ = await publish(access, 2)
    found = await catalog.diff_versions(access, T, "invoice@1.0.0", "invoice")
    assert (found.before, found.after, found.text) == ("invoice@1.0.0", "invoice@1.1.0", "~ note: set.n: 1 -> 2")
    assert [(one.kind, one.id, one.field) for one in found.changes] == [("changed", "note", "/set/n")]
    assert (await catalog.diff_versions(access, T, "invoice", "invoice")).changes == []


# Tags of versions


async def test_a_tag_moves_and_the_history_is_its_log(access: StoreAccess) -> None:
    first = await create(access)
    _ = await publish(access, 2)
    _ = await catalog.move_tag(access, T, "invoice", "production", ADA, "1.0.0")
    moved = await catalog.move_tag(access, T, "invoice", "production", BEN)
    assert await catalog.move_tag(access, T, "invoice", "production", BEN) == moved
    assert moved.version_tags["production"].version == "1.1.0"
    _ = await catalog.move_tag(access, T, "invoice", "production", ADA, first.hash[:20])
    assert (await catalog.read_version(access, T, "invoice:production")).hash == first.hash
    log = [(one.by, one.from_version, one.version) for one in (await catalog.read_history(access, T, "invoice")).items if one.tag == "production"]
    assert log == [("ada", "1.1.0", "1.0.0"), ("ben", "1.0.0", "1.1.0"), ("ada", "", "1.0.0")]
    _ = await catalog.move_tag(access, T, "invoice", "production", ADA, None)
    with pytest.raises(NotFound, match=r"has no tag 'production'\. Its tags are: none"):
        await catalog.read_version(access, T, "invoice:production")
    for tag in ("1.0.0", "Prod", "", "a b"):
        with pytest.raises(BadValue):
            await catalog.move_tag(access, T, "invoice", tag, ADA)


# Drafts


async def test_a_draft_need_not_be_valid_and_is_gone_when_a_version_is_published(access: StoreAccess) -> None:
    made = await create(access)
    saved = await catalog.save_draft(access, T, "invoice", b"steps: [", BEN)
    assert (saved.has_draft, saved.version, saved.hash) == (True, made.version, made.hash)
    _ = await catalog.save_draft(access, T, "invoice", document(2), BEN)
    draft = await catalog.read_draft(access, T, "invoice")
    assert (draft.document, draft.base, draft.by) == (document(2), made.hash, "ben")
    done = await catalog.update_definition(access, T, "invoice", BEN, draft.document)
    assert (done.has_draft, done.version) == (False, "1.1.0")
    with pytest.raises(NotFound, match="has no draft"):
        await catalog.read_draft(access, T, "invoice")


async def test_a_definition_may_begin_as_a_draft(access: StoreAccess) -> None:
    saved = await catalog.save_draft(access, T, "invoice", b"steps: [", ADA)
    assert (saved.version, saved.hash, saved.has_draft) == ("", "", True)
    with pytest.raises(NotFound, match="has no version yet, only a draft"):
        await catalog.read_version(access, T, "invoice")
    assert (await publish(access, 1)).version == "1.0.0"
    _ = await catalog.save_draft(access, T, "invoice", b"steps: [", ADA)
    assert not (await catalog.discard_draft(access, T, "invoice", ADA)).has_draft
    with pytest.raises(BadValue, match="at most 524,288"):
        await catalog.save_draft(access, T, "invoice", b"x" * 600_000, ADA)


# Lists


async def test_definitions_are_found_by_text_tag_and_whether_they_are_enabled(access: StoreAccess) -> None:
    for number in range(12):
        fields = DefinitionFields(name=f"Report {number}", tags=("even",) if number % 2 == 0 else ("odd", "Straße"), enabled=number < 10)
        _ = await catalog.create_definition(access, T, document(number), ADA, f"report-{number:02}", fields)

    async def slugs(text: str = "", tag: str = "", enabled: bool | None = None) -> list[str]:
        return [one.slug for one in (await catalog.list_definitions(access, T, text, tag, enabled=enabled)).items]

    assert len(await slugs()) == 12
    assert await slugs("REPORT 1") == ["report-01", "report-10", "report-11"]
    assert await slugs("STRASSE") == await slugs(tag="odd") == [f"report-{number:02}" for number in (1, 3, 5, 7, 9, 11)]
    assert await slugs(tag="even", enabled=False) == ["report-10"]
    pages, after = list[list[str]](), ""
    while True:
        page = await catalog.list_definitions(access, T, "report", limit=5, after=after)
        pages.append([one.slug for one in page.items])
        if page.next is None:
            break
        after = page.next
    assert [len(one) for one in pages] == [5, 5, 2]
    assert [*chain.from_iterable(pages)] == await slugs()


class CountedStore(MemoryStore):
    """A store that counts the pages of records that are read."""

    pages = 0

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        self.pages += 1
        return await super().records(which)


async def test_a_short_page_of_versions_is_read_in_pages_of_the_usual_size() -> None:
    store = CountedStore()
    access = StoreAccess(store)
    _ = await create(access)
    for number in range(60):
        _ = await catalog.update_definition(access, T, "invoice", BEN, fields=DefinitionFields(enabled=number % 2 == 1))
    store.pages = 0
    page = await catalog.read_history(access, T, "invoice", 1, versions_only=True)
    assert [one.kind for one in page.items] == ["create"] and store.pages <= 3
    await access.aclose()


@pytest.mark.slow
async def test_many_versions_are_paged_newest_first_and_a_range_finds_the_highest(access: StoreAccess) -> None:
    _ = await create(access, 0)
    for value in range(1, 120):
        _ = await publish(access, value, edit=ADA)
    versions, after = list[str](), None
    while True:
        page = await catalog.read_history(access, T, "invoice", 50, after, versions_only=True)
        versions += [one.version for one in page.items]
        if (after := page.next) is None:
            break
    assert versions == [f"1.{minor}.0" for minor in range(119, -1, -1)]
    assert (await catalog.read_version(access, T, "invoice@~1.50")).version == "1.50.0"
    assert (await catalog.read_version(access, T, "invoice@^1")).version == "1.119.0"
