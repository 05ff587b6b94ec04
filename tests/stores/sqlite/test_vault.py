"""Secrets in a file: of what is replaced or removed, not a byte is left, and a backup has what there is."""

from pathlib import Path

import pytest

from perdure.stores.sqlite.store import SqliteStore

FIRST, SECOND, OTHER = (bytes((number,)) * 200 + b"sealed %d" % number for number in range(1, 4))


def raw(file: Path) -> bytes:
    """All bytes of the file, and of what was written ahead."""
    return b"".join(part.read_bytes() for part in file.parent.iterdir() if part.is_file() and part.name.startswith(file.name))


@pytest.mark.slow
async def test_of_what_is_replaced_or_removed_nothing_is_left_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "perdure.db"
    store = SqliteStore(file)
    assert await store.vault.keep("acme", "TOKEN", 1, FIRST) and await store.vault.keep("acme", "OTHER", 1, OTHER)
    assert FIRST in raw(file)
    assert await store.vault.keep("acme", "TOKEN", 2, SECOND) and await store.vault.wipe()
    assert FIRST not in raw(file) and SECOND in raw(file)
    assert await store.vault.drop("acme", "TOKEN") and await store.vault.wipe()
    assert SECOND not in raw(file) and b"\x02" * 50 not in raw(file) and OTHER in raw(file)
    await store.close()


@pytest.mark.slow
async def test_a_backup_has_the_secrets_that_there_are(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "perdure.db")
    assert await store.vault.keep("acme", "TOKEN", 1, FIRST)
    kept = await store.vault.read()
    await store.backup(tmp_path / "copy.db")
    await store.close()
    restored = SqliteStore(tmp_path / "copy.db")
    assert await restored.vault.read() == kept
    await restored.close()
