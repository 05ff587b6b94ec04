"""Records in a file: a process that is killed before any of its statements leaves a whole post or none of it; other processes read what it wrote."""

import asyncio
from pathlib import Path

import pytest

from perdure.stores.protocol import Committed, Post
from perdure.stores.records import RecordChange, RecordFilter, RecordKey
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.stores.sqlite.store import SqliteStore
from tests.stores.sqlite.killed_process import killed_at
from tests.stores.sqlite.store_processes import database, message, queue

ROUNDS = 3
ATTRIBUTES = (("tag", b"sa"), ("tag", b"sb"))


async def write(file: Path) -> None:
    """Change a record, create one and remove one in each post, which also sends a message."""
    store = SqliteStore(file)
    for number in range(ROUNDS):
        changed = RecordChange(RecordKey("acme", "counter", "a"), number, b"%d" % number, ATTRIBUTES)
        created = RecordChange(RecordKey("acme", "note", f"{number}"), 0, b"note", ATTRIBUTES, expires_at_s=1e12)
        removed = [RecordChange(RecordKey("acme", "note", f"{number - 1}"), 1, None)] if number else []
        (answer,) = await store.commit([Post(records=(changed, created, *removed), messages=(message(queue(), f"{number}"),))])
        assert isinstance(answer, Committed)
    await store.close()


async def look(file: Path) -> int:
    """How many posts took effect; each has done so as a whole."""
    store = SqliteStore(file)
    counter = await store.record(RecordKey("acme", "counter", "a"))
    done = 0 if counter is None else counter.version
    assert [message.key for message in await store.messages(queue())] == [f"{number}" for number in range(done)]
    assert [one.key.key for one in await store.records(RecordFilter("acme", "note"))] == [f"{done - 1}"] * bool(done)
    await store.close()
    with database(file) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM record_attributes").fetchone()
        assert rows == 2 * len(ATTRIBUTES) * bool(done)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return done


@pytest.mark.slow
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.prove)])
def test_a_process_that_is_killed_at_any_statement_leaves_whole_posts(tmp_path: Path, every: int) -> None:
    seen = set[int]()
    for number in range(0, 200, every):
        file = tmp_path / f"{number}.db"
        asyncio.run(SqliteStore(file).close())
        died = killed_at(number, lambda file=file: asyncio.run(write(file)))  # type: ignore[misc]  # mypy can't infer the default
        seen.add(asyncio.run(look(file)))
        if not died:
            break
    assert not died and seen == {0, 1, 2, ROUNDS}


async def test_a_store_that_only_reads_sees_records(file: Path) -> None:
    await write(file)
    store, reader = SqliteStore(file), ReadOnlySqliteStore(file)
    assert await reader.record(RecordKey("acme", "counter", "a")) == await store.record(RecordKey("acme", "counter", "a"))
    assert await reader.records(RecordFilter("acme", "note")) == await store.records(RecordFilter("acme", "note"))
    await store.close()
    await reader.close()
