"""A commit writes few pages, whatever it changes of a head: indexes are written only if what they list changes."""

import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage
from perdure.core.paths import Key
from perdure.stores.protocol import Claim, Post
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock
from tests.stores.sqlite.store_processes import step

PAGES_MAX = {"start": 13, "claim": 6, "step": 6, "park": 12, "message": 8, "end": 13}
"""A new page of the log may be begun by any of them, so each has one or two to spare."""


async def test_each_kind_of_commit_writes_few_pages(tmp_path: Path) -> None:
    path, clock = tmp_path / "perdure.db", Clock()
    store = SqliteStore(path, clock, synchronous="OFF")
    await store.renew("one", 1e6)
    written: dict[str, list[int]] = {kind: [] for kind in PAGES_MAX}
    await store.commit([step(Key("acme", "order", str(uuid4())), row=bytes(200), release=True, status="waiting") for _ in range(2_000)])
    with closing(sqlite3.connect(path)) as beside:

        def count(kind: str) -> None:
            (_, frames, _) = beside.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            written[kind].append(frames)

        count("start")
        written["start"].clear()
        for _ in range(15):
            key = Key("acme", "order", str(uuid4()))
            await store.commit([Post(messages=(OutgoingMessage(key, "start", b"start", opens=NewExecution("order", key)),))])
            count("start")
            claim = Claim(holder="one", epoch=1, programs=frozenset(["order"]))
            assert len((await store.claim(claim)).executions) == 1
            count("claim")
            await store.commit([step(key, acks=(Ack(key, "start"),))])
            count("park")
            await store.commit([step(key, 1)])
            count("step")
            await store.commit([step(key, 2, status="waiting", wake_at_s=4e9, release=True)])
            count("park")
            await store.commit([Post(messages=(OutgoingMessage(key, "go", b"go"),))])
            count("message")
            assert len((await store.claim(claim)).executions) == 1
            count("claim")
            await store.commit([step(key, 3, acks=(Ack(key, "go"),), status="completed", ended_at_s=5.0, release=True)])
            count("end")
    await store.close()
    found = {kind: sorted(pages)[len(pages) // 2] for kind, pages in written.items()}
    assert all(found[kind] <= most for kind, most in PAGES_MAX.items()), found
