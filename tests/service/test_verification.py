"""Claims about verifying: each kind of damage is found where it was planted, and where nothing is wrong nothing is found, whatever goes on meanwhile."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import Context, NotFound, Retry, step, workflow
from perdure.core import messages
from perdure.core.attributes import sortable_bytes
from perdure.core.envelopes import QueuedMessage
from perdure.core.operations import Success
from perdure.core.paths import Key, QueueAddress, parse_path
from perdure.service.verification import Observation, _Observer, heads_to_verify, verify_executions, verify_observation
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.sync_client import AsyncClient
from perdure.testing.virtual_time import run
from tests.corpus.make_files import STATUSES, newest_file
from tests.runtime.cluster import Cluster, cluster, settle
from tests.service.cluster_client import virtually


@step(retry=Retry(max=2, wait="1h", jitter=0))
async def do(what: str) -> str:
    if what == "hangs":
        await asyncio.sleep(1e6)
    if what == "fails":
        raise ValueError("it fails")
    return what


@step(queue="gpu")
async def render(what: str) -> str:
    return what


@workflow
async def plain(ctx: Context, what: str = "a") -> str:
    return await ctx.step("do", do, what)


@workflow
async def sleeps(ctx: Context) -> None:
    await ctx.sleep("1d")


@workflow
async def waits(ctx: Context, text: str = "") -> str:
    first = await ctx.step("first", do, text)
    return first + str(await ctx.listen("go"))


@workflow
async def queued(ctx: Context) -> str:
    return await ctx.step("render", render, "q")


@workflow
async def parent(ctx: Context) -> str:
    return await ctx.call(waits, "c")


@workflow
async def asks(ctx: Context) -> bool:
    return bool(await ctx.approve("Go on?"))


WORKFLOWS = (plain, sleeps, waits, queued, parent, asks)
STARTS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "completed": (plain, ()),
    "running": (plain, ("hangs",)),
    "retrying": (plain, ("fails",)),
    "sleeping": (sleeps, ()),
    "waiting": (waits, ("x" * 70_000,)),
    "queued": (queued, ()),
    "parent": (parent, ()),
    "asking": (asks, ()),
    "paused": (waits, ()),
    "cancelled": (waits, ()),
    "attributed": (waits.with_(attributes={"n": 1, "s": "old"}), ()),
}


async def begun(c: Cluster) -> AsyncClient:
    """One in nearly every state, of an engine that was killed, and one that nobody has begun."""
    engine = await c.engine(*WORKFLOWS)
    client = AsyncClient(c.store)
    for id, (code, args) in STARTS.items():
        await client.start(code.with_(id=id), *args)
    await settle()
    await (await client.get("paused")).pause()
    await (await client.get("cancelled")).cancel()
    await settle()
    await engine.kill()
    await settle(20.0)  # until its lease has run out
    await client.start(plain.with_(id="pending"))
    return client


def sights() -> dict[str, Observation]:
    """What is seen of each of these, by id; a child is called by its workflow."""

    async def look() -> dict[str, Observation]:
        async with cluster() as c:
            await begun(c)
            found = {}
            for head in await c.store.heads():
                sight = await _Observer(c.store).observe(head.key)
                assert sight is not None
                found[head.key.id if head.key.id in (*STARTS, "pending") else head.key.workflow] = sight
            return found

    return run(look, handles_max=1_000_000)


@pytest.fixture(scope="module")
def seen() -> dict[str, Observation]:
    return sights()


def with_head(sight: Observation, **changed: Any) -> Observation:
    return msgspec.structs.replace(sight, head=msgspec.structs.replace(sight.head, **changed))


def told(sight: Observation) -> list[tuple[str, str, str]]:
    return [(one.level, one.kind, one.path) for one in verify_observation(sight)]


def message(sight: Observation, body: bytes, key: str = "m") -> Observation:
    mail = QueuedMessage(99, sight.head.key, key, body, 0.0)
    return with_head(msgspec.structs.replace(sight, messages=(*sight.messages, mail)), message_at_s=0.0)


@pytest.mark.slow
def test_a_healthy_store_has_no_damage_in_any_status(seen: dict[str, Observation]) -> None:
    assert {sight.head.status for sight in seen.values()} >= {"completed", "running", "waiting", "waiting_approval", "paused", "cancelled", "pending"}
    found = {name: told(sight) for name, sight in seen.items()}
    assert found.pop("running") == [("note", "interrupted", "do")]  # its engine was killed
    assert set(map(tuple, found.values())) == {()}
    held = msgspec.structs.replace(seen["running"], living=frozenset({seen["running"].head.holder or ""}))
    assert told(held) == []


ATTRIBUTES = {
    "another value": ((("n", sortable_bytes(2)), ("s", b"sold")), "its attribute n is 2 in the index, but 1 by the log"),
    "a whole number that is none": ((("n", sortable_bytes(1.0)), ("s", b"sold")), "its attribute n is 1.0 in the index, but 1 by the log"),
    "one that is gone": ((("n", sortable_bytes(1)),), "its attribute s is none in the index, but 'old' by the log"),
    "one too many": ((("a", sortable_bytes(True)), ("n", sortable_bytes(1)), ("s", b"sold")), "its attribute a is True in the index, but none by the log"),
    "no value": ((("n", b"x"), ("s", b"sold")), "its attribute n is b'x', which is no value, in the index, but 1 by the log"),
}


@pytest.mark.parametrize(("there", "said"), ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_an_index_that_says_something_else_than_the_log_is_damage(seen: dict[str, Observation], there: Any, said: str) -> None:
    assert told(with_head(seen["pending"], attributes=there)) == []  # nobody but its head knows, as long as it has not begun
    sight = with_head(seen["attributed"], attributes=there)
    (finding,) = verify_observation(sight)
    assert (finding.level, finding.kind) == ("damage", "attributes") and finding.what.startswith(said) and "export it" in finding.advice


HEADS: dict[str, dict[str, Any]] = {
    "version": {"version": 1},
    "status": {"status": "failed"},
    "end": {"ended_at_s": 5.0},
    "program": {"program": "waits@7"},
}


@pytest.mark.slow
@pytest.mark.parametrize("changed", HEADS.values(), ids=HEADS)
def test_a_head_that_says_something_else_than_the_log_is_damage(seen: dict[str, Observation], changed: dict[str, Any]) -> None:
    for name in ("waiting", "sleeping"):
        assert told(with_head(seen[name], **changed)) == [("damage", "head", "")]


def test_a_log_that_can_t_be_read_or_lacks_a_row_is_damage(seen: dict[str, Observation]) -> None:
    sight = seen["waiting"]
    for rows in ((b"", *sight.rows), (b"\x02\x90\x90", *sight.rows), (b"\x09" + sight.rows[0][1:],), sight.rows[1:], (*sight.rows, sight.rows[-1])):
        assert [one.kind for one in verify_observation(msgspec.structs.replace(sight, rows=tuple(rows)))] in (["log"], ["head"])
    assert ("damage", "head", "") in told(msgspec.structs.replace(sight, rows=sight.rows[:-1]))


def test_what_nothing_wakes_is_damage(seen: dict[str, Observation]) -> None:
    assert told(with_head(seen["sleeping"], wake_at_s=None)) == [("damage", "asleep", "")]
    assert told(with_head(seen["sleeping"], wake_at_s=9e12)) == [("damage", "asleep", "")]
    assert told(with_head(seen["sleeping"], wake_at_s=0.0)) == []  # it would be looked at in vain
    assert told(with_head(seen["pending"], message_at_s=None)) == [("damage", "asleep", "")]
    assert told(with_head(seen["running"], holder=None, wake_at_s=None)) == [("damage", "asleep", ""), ("note", "interrupted", "do")]
    assert told(with_head(seen["retrying"], holder=None, wake_at_s=None)) == [("damage", "asleep", "")]


def test_a_call_that_is_on_no_queue_and_not_answered_is_damage(seen: dict[str, Observation]) -> None:
    lost = msgspec.structs.replace(seen["queued"], work=frozenset())
    assert told(lost) == [("damage", "lost", "render")]
    answer = messages.encode_message(messages.SettleMessage(parse_path("render"), 1, Success()))
    assert told(message(lost, answer)) == []
    late = messages.encode_message(messages.SettleMessage(parse_path("render"), 7, Success()))
    assert told(message(lost, late)) == [("damage", "lost", "render")]
    assert told(msgspec.structs.replace(lost, work=frozenset({(QueueAddress("default", "gpu"), "another")}))) == [("damage", "lost", "render")]


def test_a_message_that_can_t_be_read_is_damage(seen: dict[str, Observation]) -> None:
    work = messages.encode_message(messages.TaskMessage(Key("t", "w", "i"), (), 1, "target", "key"))
    for body in (b"", b"\x02nonsense", b"\x09", work):
        assert told(message(seen["waiting"], body)) == [("damage", "mail", "")]


def test_a_message_to_what_has_ended_is_noted(seen: dict[str, Observation]) -> None:
    for name in ("completed", "cancelled"):
        assert told(message(seen[name], messages.encode_message(messages.SignalMessage("go")))) == [("note", "unread", "")]


def test_a_child_that_is_not_there_or_has_not_answered_is_damage(seen: dict[str, Observation]) -> None:
    sight = seen["parent"]
    assert told(msgspec.structs.replace(sight, children={})) == [("damage", "child", "call:waits")]
    ended = {key: msgspec.structs.replace(head, status="completed") for key, head in sight.children.items()}
    silent = msgspec.structs.replace(sight, children=ended)
    assert told(silent) == [("damage", "child", "call:waits")]
    answer = messages.encode_message(messages.SettleMessage(parse_path("call:waits"), 1, Success()))
    assert told(message(silent, answer)) == []
    assert [one.kind for one in verify_observation(msgspec.structs.replace(seen["asking"], children={}))] == ["child"]


def test_a_blob_that_is_missing_or_altered_is_damage(seen: dict[str, Observation]) -> None:
    sight = seen["waiting"]
    assert len(sight.blobs) >= 1
    for whole in (None, False):
        assert told(msgspec.structs.replace(sight, blobs=dict.fromkeys(sight.blobs, whole))) == [("damage", "blob", "")] * len(sight.blobs)


# A store.


@pytest.mark.slow
@virtually
async def test_while_engines_are_at_work_no_damage_is_found(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    await c.worker(render, limit=2)
    for number in range(30):
        await client.start((plain, queued, parent)[number % 3].with_(id=f"e{number}"))
    for _ in range(20):
        assert [one for one in await client.upkeep.verify() if one.level == "damage"] == []
        await settle(0.0001)
    assert await client.upkeep.verify("e0") == []
    with pytest.raises(NotFound):
        await client.upkeep.verify("nobody")


@pytest.mark.slow
@virtually
async def test_what_was_planted_in_a_store_is_found_there(c: Cluster, client: AsyncClient) -> None:
    client = await begun(c)
    c.store._blobs.clear()
    c.store._messages.pop(QueueAddress("default", "gpu"))
    found = {one.key.id: one.kind for one in await client.upkeep.verify() if one.key and one.level == "damage"}
    assert found == {"waiting": "blob", "queued": "lost"}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A file with one in every status, whose process was killed."""
    (tmp_path / "corpus.db").write_bytes(newest_file())
    return tmp_path / "corpus.db"


async def damage(file: Path) -> dict[str, list[tuple[str, str]]]:
    """What is found in a file, by workflow, and below "" blobs without use."""
    looking = ReadOnlySqliteStore(file)
    names = set(await looking.blob_names())
    found: dict[str, list[tuple[str, str]]] = {}
    async for one in verify_executions(looking, [head.key for head in await heads_to_verify(looking)]):
        names -= one.blobs
        if one.findings:
            found[one.key.workflow] = [(finding.level, finding.kind) for finding in one.findings]
    await looking.close()
    return found | ({"": [("note", "unreferenced")] * len(names)} if names else {})


@pytest.mark.slow
async def test_a_file_with_one_in_every_status_is_whole_but_for_the_step_that_was_killed(corpus: Path) -> None:
    looking = ReadOnlySqliteStore(corpus)
    assert {head.status for head in await heads_to_verify(looking)} == set(STATUSES.values())
    await looking.close()
    assert await damage(corpus) == {"running": [("note", "interrupted")]}


PLANTED = {
    "a blob is gone": ("DELETE FROM blobs WHERE length(bytes) = (SELECT min(length(bytes)) FROM blobs)", {"damage"}),
    "a blob is altered": ("UPDATE blobs SET bytes = x'00'", {"damage"}),
    "rows are gone": ("DELETE FROM log WHERE version = 3", {"damage"}),
    "work is gone": ("DELETE FROM mail WHERE queue IS NOT NULL", {"damage"}),
    "an attribute is another": ("UPDATE attributes SET value = CAST(value || x'00' AS BLOB) WHERE name = 'state'", {"damage"}),
    "an attribute is no value": ("UPDATE attributes SET value = x'ff' WHERE name = 'state'", {"damage"}),
    "attributes are gone": ("DELETE FROM attributes", {"damage"}),
    "an attribute is of no use": ("INSERT INTO attributes SELECT number, 'planted', x'6201' FROM heads WHERE version > 0", {"damage"}),
    "a child is gone": ("DELETE FROM heads WHERE workflow = 'child'", {"damage"}),
    "heads sleep": ("UPDATE heads SET wake_at_s = NULL, mail_at_s = NULL, holder = NULL", {"damage"}),
    "a blob is of no use": (f"INSERT INTO blobs VALUES ('{'0' * 64}', x'00')", {"note"}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("statement", "levels"), PLANTED.values(), ids=PLANTED)
async def test_what_is_done_to_a_file_is_found(corpus: Path, statement: str, levels: set[str]) -> None:
    with closing(sqlite3.connect(corpus)) as database:
        database.execute(statement)
        database.commit()
    found = await damage(corpus)
    found.pop("running", None) if levels == {"note"} else None
    assert levels <= {level for several in found.values() for level, _ in several} and found


def test_a_head_is_never_at_fault_for_being_held(seen: dict[str, Observation]) -> None:
    for sight in seen.values():
        assert told(with_head(sight, holder="somebody", wake_at_s=None)) in ([], [("note", "interrupted", "do")])
