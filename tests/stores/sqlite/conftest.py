"""What most tests of the SQLite store begin with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "perdure.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(file, Clock())
    yield store
    await store.close()
