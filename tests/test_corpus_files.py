"""The corpus: every database file that a version of the tables left is opened, upgraded and finished by every later one."""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from perdure.core import log_format, messages, values
from perdure.core.attribute_filter import AttributeConditions, Is, attribute_conditions
from perdure.core.errors import ExecutionCancelled, ExecutionFailed
from perdure.core.paths import Key
from perdure.core.replay import fold_events
from perdure.runtime.change_watcher import ChangeWatcher
from perdure.runtime.engine import Engine
from perdure.runtime.execution_results import wait_for_result
from perdure.runtime.worker import Worker
from perdure.stores.protocol import HeadFilter
from perdure.stores.sqlite.database_setup import check_database, upgrade_database
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.table_schema import OLDEST_SCHEMA_VERSION, SCHEMA_VERSION
from tests.corpus import states
from tests.corpus.make_files import FILES, INPUT, STATUSES, TENANT, key, signalled, start, tell
from tests.corpus.states import LARGE_BYTES, PRESS, WORKFLOWS

LATER_S = 60 * 86_400.0
"""So long after it was made a file is opened: whatever sleeps in it is due."""

RESULTS: dict[str, Any] = {
    "pending": INPUT,
    "running": [INPUT, INPUT],
    "retrying": INPUT,
    "sleeping": INPUT,
    "listening": [INPUT, "told", [1, "early"]],
    "child": INPUT,
    "parent": [INPUT, INPUT],
    "queued": [INPUT, INPUT + "!"],
    "diverged": [INPUT, "told"],
    "paused": [INPUT, "told"],
    "heavy": [LARGE_BYTES, LARGE_BYTES, "told"],
    "looped": [INPUT, 65 * 66 // 2],
    "completed": INPUT * (LARGE_BYTES // 2),
    "expected": [INPUT, "told"],
    "failed": "step_failed: step fails failed (exhausted, 1 attempt): ValueError: it fails",
    "cancelled": "enough",
}
"""How each execution ends: with its result, or with the reason why it has none."""

NAMES = sorted(path.name.partition(".")[0] for path in FILES.glob("*.db.gz"))


@pytest.fixture(params=NAMES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a file of the corpus."""
    copied = tmp_path / "corpus.db"
    copied.write_bytes(gzip.decompress((FILES / f"{request.param}.db.gz").read_bytes()))
    return copied


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqliteStore]:
    """A store on it, much later."""
    opened = SqliteStore(file, lambda: time.time() + LATER_S)
    yield opened
    await opened.close()


def test_every_version_of_the_tables_has_its_file() -> None:
    assert {f"sqlite-{version}" for version in range(OLDEST_SCHEMA_VERSION, SCHEMA_VERSION + 1)} == set(NAMES)
    assert all((FILES / f"{name}.db.gz").stat().st_size < 100_000 for name in NAMES)


def test_it_is_looked_at_without_being_changed_and_then_upgraded(file: Path) -> None:
    before, bytes_before = check_database(file), file.read_bytes()
    assert before.damage == () and before.processes == ()
    assert file.read_bytes() == bytes_before
    assert len(upgrade_database(file)) == SCHEMA_VERSION - before.version
    assert (check_database(file).version, check_database(file).damage) == (SCHEMA_VERSION, ())
    assert upgrade_database(file) == []


async def test_every_execution_stands_as_it_stood(store: SqliteStore) -> None:
    heads = {head.key.workflow: head for head in await store.heads()}
    assert {name: head.status for name, head in heads.items()} == STATUSES
    for head in heads.values():
        found = await store.read(head.key)
        assert found is not None
        folded = fold_events(head.key, log_format.decode_rows(found.payloads), head.root)
        assert (folded.status if head.version else "pending", folded.version) == (head.status, head.version)
    assert [mail.key for mail in await store.messages(key("expected"))] == ["message:wanted"]
    assert {lease.holder for lease in await store.leases() if lease.alive} == set()


async def test_they_are_found_by_their_attributes(store: SqliteStore, file: Path) -> None:
    asked: list[tuple[AttributeConditions, set[str]]] = [
        ({"state": "paused"}, {"paused"}),
        ({"short": True, "letters": Is(">=", 6)}, {"paused", "queued", "looped", "failed", "parent"}),
    ]
    for where, names in asked:
        found = await store.heads(HeadFilter(where=attribute_conditions(where)))
        assert {head.key.workflow for head in found} == names


@pytest.mark.slow
async def test_every_execution_ends_as_it_would_have(store: SqliteStore, file: Path) -> None:
    engine = Engine(store, [one.code for one in WORKFLOWS])
    worker = Worker(store, [states.press], queues=[PRESS])
    running = [asyncio.create_task(engine.run()), asyncio.create_task(worker.run())]
    watch = ChangeWatcher(store)
    try:
        async with asyncio.timeout(60):
            await store.commit([tell("diverged", "retry", messages.RetryMessage("mended")), tell("paused", "resume", messages.ResumeMessage())])
            await store.commit([signalled(name, "wanted") for name in ("listening", "diverged", "heavy", "looped")])
            await store.commit([start(states.expected)])
            assert {head.key.workflow: await _ending(watch, store, head.key) for head in await store.heads(HeadFilter(limit=1_000))} == RESULTS
    finally:
        watch.close()
        for member in (engine, worker):
            member.stop()
        await asyncio.gather(*running)
    assert {(head.key.tenant, head.holder) for head in await store.heads()} == {(TENANT, None)}
    assert check_database(file).damage == ()


async def _ending(watch: ChangeWatcher, store: SqliteStore, of: Key) -> Any:
    try:
        return values.decode(await wait_for_result(watch, store, of), Any, "the result")
    except ExecutionFailed as failed:
        return f"{failed.error.type}: {failed.error.message}"
    except ExecutionCancelled as cancelled:
        return cancelled.reason


def test_what_earlier_versions_left_is_never_changed() -> None:
    """A file in a format of its time is proof only while it stays as it was. New files are added to the list; `sha256sum` prints its lines."""
    corpus = FILES.parent
    listed = {name: digest for digest, name in map(str.split, (corpus / "SHA256SUMS").read_text(encoding="utf-8").splitlines())}
    found = {str(path.relative_to(corpus)): sha256(path.read_bytes()).hexdigest() for pattern in ("v*/*.json", "files/*.gz") for path in corpus.glob(pattern)}
    assert found == listed
