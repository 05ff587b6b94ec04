"""What is free in a file is given back while others write; killed anywhere, pruning and giving back lose nothing and go on when they are begun again."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from perdure.async_maintenance import AsyncUpkeep
from perdure.core import events as e
from perdure.core import log_format, values
from perdure.core.errors import StoreError
from perdure.core.operations import Success
from perdure.core.paths import Key
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Commit, Committed, HeadFilter
from perdure.stores.sqlite.database_setup import check_database, create_beside_application_tables
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.vacuum import vacuum
from tests.stores.sqlite.killed_process import begun, killed_at
from tests.stores.sqlite.killed_process import ended as ended_process
from tests.stores.sqlite.store_processes import database, key, step

ENDED_S = 1_000_000_000.0


def ended(number: int, size: int) -> Commit:
    """An execution that ended long ago."""
    key = Key("default", "plain", f"n{number:03}")
    events: list[e.Event] = [
        e.StartedEvent(1, ENDED_S, values.encode("x" * size, "the input")),
        e.EndedEvent("completed", Success(values.encode(number, "it")), ENDED_S),
    ]
    row, state = log_format.encode_row(events), {"status": "completed", "ended_at_s": ENDED_S, "release": True, "creates": True}
    return Commit(key=key, epoch=1, holder="one", version=0, program="plain@1", root=key, row=row, count=2, **state)  # type: ignore[arg-type]  # as they are named


def filled(file: Path, executions: int, size: int) -> None:
    async def fill() -> None:
        store = SqliteStore(file, synchronous="OFF")
        await store.commit([ended(number, size) for number in range(executions)])
        await store.close()

    asyncio.run(fill())


def prune(file: Path, forget_ids: bool = False) -> int:
    async def work() -> int:
        store = SqliteStore(file, synchronous="OFF")
        try:
            return len(await AsyncUpkeep(StoreAccess(store)).prune("1d", forget_ids=forget_ids))
        finally:
            await store.close()

    return asyncio.run(work())


def versions(file: Path) -> list[int]:
    """The versions of all executions, whose records agree."""

    async def look() -> list[int]:
        store = SqliteStore(file, synchronous="OFF")
        try:
            assert await AsyncUpkeep(StoreAccess(store)).verify() == []
            return [head.version for head in await store.heads(HeadFilter(limit=1_000))]
        finally:
            await store.close()

    return asyncio.run(look())


@pytest.mark.slow
def test_what_was_pruned_is_given_back_to_the_disk(file: Path) -> None:
    filled(file, 90, 9_000)
    before = file.stat().st_size
    assert prune(file) == 90
    done = vacuum(file)
    assert done.before_bytes == before and done.free_bytes == 0 and done.emptied
    assert file.stat().st_size == done.after_bytes < before / 3
    assert versions(file) == [3] * 90
    assert vacuum(file).after_bytes == done.after_bytes


@pytest.mark.slow
def test_others_write_meanwhile_and_lose_nothing(file: Path) -> None:
    filled(file, 150, 20_000)

    async def write() -> None:
        store = SqliteStore(file, synchronous="OFF")
        for version in range(1_000):
            (answer,) = await store.commit([step(key("busy"), version, row=bytes(3_000))])
            assert isinstance(answer, Committed)
        await store.close()

    writing = begun(lambda: asyncio.run(write()))
    assert prune(file) == 150
    assert vacuum(file).free_bytes < 500_000
    ended_process(writing, 0)
    vacuum(file)
    with database(file) as connection:
        assert connection.execute("SELECT count(*) FROM log JOIN heads ON number = execution WHERE address LIKE '%busy%'").fetchone() == (1_000,)
    assert check_database(file).damage == () and check_database(file).free_bytes == 0


def test_the_database_of_another_program_is_not_made_anew_for_it(file: Path) -> None:
    with database(file) as connection:
        connection.execute("CREATE TABLE accounts (number)")
    create_beside_application_tables(file)
    with pytest.raises(StoreError, match="was not created with incremental vacuum"):
        vacuum(file)


EVERY = 41
"""Of how many places one is tried in the quick run."""


@pytest.mark.slow
@pytest.mark.parametrize("offset", [11, *(pytest.param(offset, marks=pytest.mark.prove) for offset in range(EVERY) if offset != 11)])
def test_killed_anywhere_each_execution_is_removed_or_not_and_the_rest_follows(tmp_path: Path, offset: int) -> None:
    file = tmp_path / "perdure.db"
    filled(file, 12, 9_000)
    content = file.read_bytes()
    for forget_ids, left in ((False, {2, 3}), (True, {2})):
        for number in count(offset, EVERY):
            died = killed_at(number, lambda forget_ids=forget_ids: (prune(file, forget_ids), vacuum(file)))  # type: ignore[misc]  # mypy can't infer the default
            assert check_database(file).damage == ()
            assert set(versions(file)) <= left
            prune(file, forget_ids)
            vacuum(file)
            assert versions(file) == ([] if forget_ids else [3] * 12)
            assert check_database(file).free_bytes == 0
            for one in tmp_path.glob("perdure.db-*"):
                one.unlink()
            file.write_bytes(content)
            if not died:
                break
        assert number > EVERY, "it was killed at least once"
