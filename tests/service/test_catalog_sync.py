"""Claims about syncing: one document, a whole set, and what a set deletes only when it is told how much."""

from pathlib import Path
from random import Random

import pytest

from perdure.core.errors import BadDefinition, BadValue, NotFound, StoreUnavailable
from perdure.service import catalog
from perdure.service.catalog_sync import SyncDocument, sync_all, sync_definition
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.testing.faults import Faults, FaultyStore
from tests.service.catalog_documents import ADA, BEN, document

T = "acme"
TALE = sorted((Path(__file__).parents[4] / "shared/data/tale").glob("*.json"))


def three(value: int = 1) -> list[SyncDocument]:
    return [SyncDocument(document(value, name), name) for name in ("first", "second", "third")]


async def slugs(access: StoreAccess) -> list[str]:
    return [one.slug for one in (await catalog.list_definitions(access, T)).items]


async def test_a_synced_document_creates_updates_or_changes_nothing(access: StoreAccess) -> None:
    outcomes = [(one := await sync_definition(access, T, document(value), ADA)).outcome + " " + one.definition.version for value in (1, 2, 2, 1)]
    assert outcomes == ["created 1.0.0", "updated 1.1.0", "unchanged 1.1.0", "updated 1.2.0"]
    history = (await catalog.read_history(access, T, "invoice")).items
    assert [(one.kind, one.source) for one in history] == [("sync", "sync")] * 3
    assert (await catalog.read_version(access, T, "invoice@1.1.0")).source == "sync"


async def test_a_set_is_a_dry_run_that_previews_what_it_would_delete(access: StoreAccess) -> None:
    _ = await catalog.create_definition(access, T, document(9), ADA, "other")
    _ = await sync_definition(access, T, document(1, "first"), ADA)
    _ = await catalog.create_definition(access, "another tenant", document(9), ADA)
    found = await sync_all(access, T, three(), BEN)
    assert not found.applied
    assert [(one.slug, one.outcome, one.from_version) for one in found.items] == [
        ("first", "unchanged", "1.0.0"),
        ("second", "created", ""),
        ("third", "created", ""),
    ]
    assert found.deleted == ["other"]
    assert await slugs(access) == ["first", "other"]


async def test_a_set_is_applied_only_with_the_number_of_its_deletions(access: StoreAccess) -> None:
    for name in ("gone", "other"):
        _ = await catalog.create_definition(access, T, document(9), ADA, name)
    _ = await catalog.create_definition(access, "another tenant", document(9), ADA)
    for expect in (None, 0, 1, 3):
        with pytest.raises(BadValue, match=r"expect: .* is not 2, the number of definitions that would be deleted: gone, other"):
            await sync_all(access, T, three(), BEN, delete=True, expect=expect)
    assert await slugs(access) == ["gone", "other"]
    found = await sync_all(access, T, three(), BEN, delete=True, expect=2)
    assert (found.applied, found.deleted) == (True, ["gone", "other"])
    assert await slugs(access) == ["first", "second", "third"]
    again = await sync_all(access, T, three(), BEN, delete=True, expect=0)
    assert [one.outcome for one in again.items] == ["unchanged"] * 3
    assert (await catalog.list_definitions(access, "another tenant")).items


async def test_a_set_with_a_document_that_is_not_valid_changes_nothing_and_says_which(access: StoreAccess) -> None:
    documents = [*three(), SyncDocument(b"perdure: 1\nname: bad\nsteps: []", "bad"), SyncDocument(b"[", "worse")]
    with pytest.raises(BadDefinition) as refused:
        await sync_all(access, T, documents, BEN, delete=True, expect=0)
    assert {str(one).split(":")[0] for one in refused.value.findings} == {"document 4 (bad)", "document 5 (worse)"}
    assert refused.value.where == "/documents/3/document"
    assert {one.pointer for one in refused.value.findings} == {"/documents/3/document/steps", "/documents/4/document"}
    with pytest.raises(BadValue, match="document 1 and document 4 have it"):
        await sync_all(access, T, [*three(), SyncDocument(document(2, "first"))], BEN, delete=True, expect=0)
    assert await slugs(access) == []


async def test_two_documents_of_one_slug_are_both_named(access: StoreAccess) -> None:
    with pytest.raises(BadValue, match=r"'invoice' is not the slug of one document: a\.yaml and b\.yaml have it"):
        await sync_all(access, T, [SyncDocument(document(1), file="a.yaml"), SyncDocument(document(2), file="b.yaml")], ADA)


@pytest.mark.parametrize("faults", [Faults(fail_before=1.0, failing=frozenset(("commit",))), Faults(fail_after=1.0, failing=frozenset(("commit",)))])
async def test_a_set_whose_commit_fails_is_carried_out_entirely_or_not_at_all(faults: Faults) -> None:
    store = MemoryStore()
    access, faulty = StoreAccess(store), FaultyStore(store, Random(0), faults)
    _ = await catalog.create_definition(access, T, document(9), ADA, "other")
    with pytest.raises(StoreUnavailable):
        await sync_all(StoreAccess(faulty), T, three(), BEN, delete=True, expect=1)
    assert await slugs(access) == (["other"] if faults.fail_before else ["first", "second", "third"])


@pytest.mark.skipif(not TALE, reason="the definitions of tale are not on this machine")
async def test_the_definitions_of_tale_are_synced_versioned_and_rolled_back(access: StoreAccess) -> None:
    documents = [SyncDocument(file.read_bytes(), file.stem) for file in TALE]
    first = await sync_all(access, T, documents, ADA, delete=True, expect=0)
    assert [(one.slug, one.outcome, one.version) for one in first.items] == [(file.stem, "created", "1.0.0") for file in TALE]
    for file in TALE:
        kept = await catalog.read_version(access, T, file.stem)
        assert kept.received.encode() == file.read_bytes()
        assert kept.dialect == "port_graph"
    changed = [
        SyncDocument(one.document.replace(b'"maxRetries": 3', b'"maxRetries": 4').replace(b'"description": "', b'"description": "New: ', 1), one.slug)
        for one in documents
    ]
    second = await sync_all(access, T, changed, BEN, delete=True, expect=0)
    assert [(one.outcome, one.version) for one in second.items] == [("updated", "1.1.0")] * len(TALE)
    for one in first.items:
        assert (await catalog.diff_versions(access, T, f"{one.slug}@1.0.0", one.slug)).changes
        back = await catalog.roll_back(access, T, one.slug, one.hash, ADA)
        assert (back.definition.version, back.definition.hash) == ("1.2.0", one.hash)
    third = await sync_all(access, T, documents, ADA)
    assert {one.outcome for one in third.items} == {"unchanged"}
    with pytest.raises(NotFound):
        await catalog.read_version(access, "other", TALE[0].stem)
