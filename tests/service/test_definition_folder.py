"""Claims about folders whose definitions are kept in step with the catalog."""

import asyncio
import errno
import os
import shutil
from pathlib import Path
from random import Random

import pytest

from perdure.core.errors import BadValue, DefinitionOwned, NotFound
from perdure.service import catalog, catalog_sync, definition_folder
from perdure.service.catalog_changes import DefinitionFields, Edit
from perdure.service.catalog_sync import SyncDocument
from perdure.service.definition_folder import DefinitionFolder, FileChange, folder_documents
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.testing.faults import Faults, FaultyStore
from tests.service.catalog_documents import ADA, document

T = "acme"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "definitions"
    (found / "deep").mkdir(parents=True)
    (found / "invoice.yaml").write_bytes(document(1))
    (found / "deep" / "refund.json").write_bytes(b'{"perdure": 1, "vars": {"n": 0}, "steps": [{"id": "a", "set": {"n": 1}}]}')
    (found / ".hidden.yaml").write_text("not: read")
    (found / "notes.txt").write_text("not read")
    return found


def watched(access: StoreAccess, folder: Path) -> tuple[DefinitionFolder, list[str]]:
    said = list[str]()
    return DefinitionFolder(access, T, folder, lambda change: said.append(str(change))), said


async def owners(access: StoreAccess) -> dict[str, str]:
    return {one.slug: one.owner for one in (await catalog.list_definitions(access, T)).items}


async def revisions(access: StoreAccess) -> dict[str, int]:
    return {one.slug: one.revision for one in (await catalog.list_definitions(access, T)).items}


async def test_each_file_becomes_a_definition_that_it_owns(access: StoreAccess, folder: Path) -> None:
    files, said = watched(access, folder)
    assert await files.look()
    assert await owners(access) == {"invoice": "definitions/invoice.yaml", "refund": "definitions/deep/refund.json"}
    assert said == ["definitions/deep/refund.json: refund is at version 1.0.0", "definitions/invoice.yaml: invoice is at version 1.0.0"]
    assert not await files.look()
    (folder / "invoice.yaml").write_bytes(document(22))
    assert await files.look()
    assert said[2:] == ["definitions/invoice.yaml: invoice is at version 1.1.0"]


async def test_a_broken_file_is_reported_and_the_version_before_stays(access: StoreAccess, folder: Path) -> None:
    files, said = watched(access, folder)
    _ = await files.look()
    (folder / "invoice.yaml").write_text("perdure: 1\nname: invoice\nsteps: [{id: a, sett: 1}]\n")
    assert await files.look()
    assert said[-1].startswith("definitions/invoice.yaml is not published: ")
    assert "sett" in said[-1]
    assert (await catalog.read_definition(access, T, "invoice")).version == "1.0.0"
    (folder / "invoice.yaml").write_bytes(document(1) + b"# mended\n")
    _ = await files.look()
    assert (await catalog.read_definition(access, T, "invoice")).version == "1.0.0"


async def test_what_a_file_owns_is_changed_there_alone(access: StoreAccess, folder: Path) -> None:
    files, _ = watched(access, folder)
    _ = await files.look()
    for refused in (
        catalog.update_definition(access, T, "invoice", ADA, document(2)),
        catalog.update_definition(access, T, "invoice", ADA, fields=DefinitionFields(name="other")),
        catalog.delete_definition(access, T, "invoice", ADA),
        catalog.save_draft(access, T, "invoice", document(2), ADA),
        catalog_sync.sync_definition(access, T, document(2), ADA),
        catalog_sync.sync_all(access, T, [SyncDocument(document(1))], ADA, delete=True, expect=1),
    ):
        with pytest.raises(DefinitionOwned, match=r"is owned by definitions/"):
            await refused
    assert await revisions(access) == {"invoice": 1, "refund": 1}
    operated = await catalog.update_definition(access, T, "invoice", ADA, fields=DefinitionFields(enabled=False, tags=("money",)))
    assert (operated.enabled, operated.tags, operated.owner) == (False, ("money",), "definitions/invoice.yaml")
    assert (await catalog.move_tag(access, T, "invoice", "production", ADA)).version_tags
    released = await catalog.release_definition(access, T, "invoice", ADA)
    assert released.owner == ""
    assert (await catalog.update_definition(access, T, "invoice", ADA, document(2))).version == "1.1.0"


async def test_the_definition_of_a_file_that_is_gone_is_deleted_also_by_a_process_that_starts_later(access: StoreAccess, folder: Path) -> None:
    files, said = watched(access, folder)
    _ = await files.look()
    (folder / "invoice.yaml").unlink()
    _ = await files.look()
    assert said[-1] == "definitions/invoice.yaml is gone, so invoice is deleted"
    assert list(await owners(access)) == ["refund"]
    (folder / "deep" / "refund.json").rename(folder / "credit.yaml")
    (folder / "more.yaml").write_bytes(document(4, "more"))
    later, _ = watched(access, folder)
    _ = await later.look()
    assert await owners(access) == {"credit": "definitions/credit.yaml", "more": "definitions/more.yaml"}
    assert (await catalog.read_history(access, T, "refund")).items[0].note == "definitions/deep/refund.json is gone"


async def test_a_renamed_file_keeps_its_definition_and_a_renamed_definition_is_another(access: StoreAccess, folder: Path) -> None:
    files, _ = watched(access, folder)
    _ = await files.look()
    (folder / "invoice.yaml").rename(folder / "bill.yaml")
    _ = await files.look()
    found = await catalog.read_definition(access, T, "invoice")
    assert (found.owner, found.version) == ("definitions/bill.yaml", "1.0.0")
    (folder / "bill.yaml").write_bytes(document(1, "bill"))
    _ = await files.look()
    assert await owners(access) == {"bill": "definitions/bill.yaml", "refund": "definitions/deep/refund.json"}


async def test_a_folder_without_files_or_without_itself_deletes_nothing(access: StoreAccess, folder: Path) -> None:
    files, said = watched(access, folder)
    _ = await files.look()
    (folder / "invoice.yaml").unlink()
    (folder / "deep" / "refund.json").unlink()
    _ = await files.look()
    assert "2 that were there are kept" in said[-1]
    shutil.rmtree(folder)
    with pytest.raises(BadValue, match="it is not there, and nothing was changed"):
        await files.look()
    assert list(await owners(access)) == ["invoice", "refund"]


async def test_two_files_of_one_slug_do_not_take_turns(access: StoreAccess, folder: Path) -> None:
    files, said = watched(access, folder)
    _ = await files.look()
    (folder / "other.yaml").write_bytes(document(5))
    _ = await files.look()
    assert said[-1] == (
        "definitions/other.yaml is not published: nothing was changed: the definition 'invoice' is owned by definitions/invoice.yaml. "
        "Change that file, or release the definition from it"
    )


async def test_a_file_takes_the_definition_of_another_that_is_gone_also_if_it_was_refused_before(access: StoreAccess, folder: Path) -> None:
    files, said = watched(access, folder)
    (folder / "other.yaml").write_bytes(document(5))
    _ = await files.look()
    (folder / "invoice.yaml").unlink()
    assert await files.look()
    assert said[-1] == "definitions/other.yaml: invoice is at version 1.1.0"
    assert await owners(access) == {"invoice": "definitions/other.yaml", "refund": "definitions/deep/refund.json"}


async def test_a_file_is_tried_again_until_the_definition_that_it_has_is_released(access: StoreAccess, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition_folder, "REPEAT_S", 0.0)
    _ = await catalog_sync.sync_definition(access, T, document(1), Edit("files", file="elsewhere/invoice.yaml"))
    files, said = watched(access, folder)
    for _ in range(3):
        assert await files.look()
    assert len([one for one in said if "invoice" in one]) == 1, "the same reason is reported once"
    _ = await catalog.release_definition(access, T, "invoice", ADA)
    assert await files.look()
    assert (await owners(access))["invoice"] == "definitions/invoice.yaml"
    assert not await files.look()


async def test_files_that_can_not_be_read_are_reported_once_and_keep_their_definitions(
    access: StoreAccess, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition_folder, "REPEAT_S", 0.0)
    files, said = watched(access, folder)
    _ = await files.look()
    (folder / "invoice.yaml").unlink()
    (folder / "invoice.yaml").symlink_to("invoice.yaml")
    for _ in range(2):
        assert await files.look()
    assert said[2:] == [f"definitions/invoice.yaml is not published: it can't be read: {os.strerror(errno.ELOOP)}"]
    assert set(await owners(access)) == {"invoice", "refund"}
    with pytest.raises(BadValue, match="one that can be read"):
        folder_documents(folder)


async def test_a_pipe_is_no_definition(access: StoreAccess, folder: Path) -> None:
    os.mkfifo(folder / "pipe.yaml")
    files, _ = watched(access, folder)
    async with asyncio.timeout(30):
        assert await files.look()
    assert [one.file for one in folder_documents(folder)] == ["deep/refund.json", "invoice.yaml"]


async def test_a_name_that_is_not_utf_8_is_written_with_escapes(access: StoreAccess, folder: Path) -> None:
    (folder / os.fsdecode(b"caf\xe9.yaml")).write_bytes(document(3, "cafe"))
    files, said = watched(access, folder)
    _ = await files.look()
    assert (await owners(access))["cafe"] == "definitions/caf\\udce9.yaml"
    assert "definitions/caf\\udce9.yaml: cafe is at version 1.0.0" in said
    assert folder_documents(folder)[0].file == "caf\\udce9.yaml"


async def test_a_folder_that_can_not_be_read_deletes_nothing(access: StoreAccess, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, _ = watched(access, folder)
    _ = await files.look()
    scan = os.scandir

    def scanned(path: str) -> object:
        if str(path).endswith("deep"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scanned)
    with pytest.raises(BadValue, match="a folder that can be read"):
        await files.look()
    assert set(await owners(access)) == {"invoice", "refund"}


async def test_a_file_that_is_replaced_keeps_what_people_have_set_for_its_definition(access: StoreAccess, folder: Path) -> None:
    files, _ = watched(access, folder)
    _ = await files.look()
    _ = await catalog.update_definition(access, T, "invoice", ADA, fields=DefinitionFields(enabled=False))
    (folder / "invoice.yaml").rename(folder / "invoice.yaml~")
    looking = asyncio.create_task(files.look())
    await asyncio.sleep(definition_folder.REPLACE_S / 4)
    (folder / "invoice.yaml").write_bytes(document(22))
    assert await looking
    found = await catalog.read_definition(access, T, "invoice")
    assert (found.version, found.enabled) == ("1.1.0", False)


async def test_a_folder_that_is_gone_is_reported_once(access: StoreAccess, folder: Path) -> None:
    said = list[FileChange]()
    files = DefinitionFolder(access, T, folder, said.append, look_s=0.01)
    shutil.rmtree(folder)
    running = asyncio.create_task(files.run())
    await asyncio.sleep(0.2)
    files.stop()
    await running
    assert len(said) == 1 and "it is not there" in str(said[0])


async def test_processes_with_copies_of_one_folder_agree(access: StoreAccess, folder: Path) -> None:
    both = [watched(access, folder)[0] for _ in range(2)]
    _ = await asyncio.gather(*(one.look() for one in both))
    first = await revisions(access)
    (folder / "invoice.yaml").write_bytes(document(22))
    _ = await asyncio.gather(*(one.look() for one in both))
    assert await revisions(access) == {**first, "invoice": first["invoice"] + 1}
    assert [one.kind for one in (await catalog.read_history(access, T, "invoice")).items] == ["sync", "sync"]


async def test_an_outage_of_the_store_is_made_up_for(folder: Path) -> None:
    store = FaultyStore(MemoryStore(), Random(0), Faults(fail_before=1.0))
    said = list[FileChange]()
    files = DefinitionFolder(StoreAccess(store), T, folder, said.append, look_s=0.01)
    running = asyncio.create_task(files.run())
    await files.ready()
    assert said == []
    store.faults = Faults()
    async with asyncio.timeout(5):
        while len(said) < 2:
            await asyncio.sleep(0.01)
    files.stop()
    await running
    assert {one.slug for one in said} == {"invoice", "refund"}


async def test_a_folder_is_synced_as_a_set(access: StoreAccess, folder: Path) -> None:
    documents = folder_documents(folder)
    assert [one.file for one in documents] == ["deep/refund.json", "invoice.yaml"]
    dry = await catalog_sync.sync_all(access, T, documents, ADA)
    assert (dry.applied, [one.outcome for one in dry.items]) == (False, ["created", "created"])
    kept = await catalog_sync.sync_all(access, T, documents, ADA, keep=True)
    assert (kept.applied, kept.deleted) == (True, [])
    assert set(await owners(access)) == {"invoice", "refund"}
    with pytest.raises(BadValue, match="given without delete and expect"):
        await catalog_sync.sync_all(access, T, documents, ADA, keep=True, expect=0)
    (folder / "empty.yaml").write_text("\n")
    with pytest.raises(BadValue, match="it is empty"):
        folder_documents(folder)
    with pytest.raises(NotFound):
        await catalog.release_definition(access, T, "none", ADA)
