"""The answer of a model that streams is seen while it comes, by readers of any process, and is in the log once."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Context, Definition, workflow
from perdure.code.step_environment import StepControl, StepInfo, current_resources, current_step
from perdure.core.errors import NotFound, StoreUnavailable
from perdure.core.paths import Key
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.live_text_writer import FLUSH_S, LiveTextWriter, live_text
from perdure.fake_llm import Fake, models, serving_aside
from perdure.runtime.step_resources import OpenResources
from perdure.service.live_text import LiveText, stream_live_text
from perdure.service.store_access import StoreAccess
from perdure.stores.forwarding_store import ForwardingStore
from perdure.stores.live_text_records import CHUNK_CHARACTERS
from perdure.stores.protocol import ChangeAnswer, Commit, Post, Store, StoreTime
from perdure.stores.records import RecordFilter, StoredRecord
from perdure.testing import World
from tests.definitions.kinds.models.live_program import teller
from tests.docs.pages import ROOT

WORDS = " ".join(f"word{number}" for number in range(40))
TELL: dict[str, Any] = {"answer": WORDS, "pace": 0.05, "repeat": True}


def texts(pieces: Iterable[LiveText]) -> dict[str, str]:
    """What a reader has in the end: each piece takes the place of the text from its offset on."""
    found = dict[str, str]()
    for one in pieces:
        found[one.path] = found.get(one.path, "")[: one.offset] + one.text
    return found


@pytest.fixture
def provider() -> Iterator[tuple[Fake, str]]:
    fake = Fake([])
    with serving_aside(fake) as url:
        yield fake, url


class Running:
    """An agent that runs aside."""

    def __init__(self, url: str, db: str, model: str) -> None:
        self.agent, self.result = teller(url, model), ""
        self._thread = threading.Thread(target=self._run, args=(db,))
        self._thread.start()

    def _run(self, db: str) -> None:
        self.result = self.agent.with_(id="1", db=db).run("Tell me")

    def join(self) -> str:
        self._thread.join()
        return self.result


def wait_for_text(client: Client, agent: Any) -> list[LiveText]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            found = list(client.get("1", agent).live_text(follow=False))
        except NotFound:
            found = []
        if any(one.text for one in found):
            return found
        time.sleep(0.02)
    raise AssertionError("no text came")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["small", *(pytest.param(model, marks=pytest.mark.prove) for model in ("medium", "large"))])
def test_an_answer_is_seen_while_it_comes_and_a_reader_that_comes_back_goes_on(provider: tuple[Fake, str], model: str, tmp_path: Path) -> None:
    fake, url = provider
    fake.tell([TELL])
    db = f"sqlite:///{tmp_path}/it.db"
    running = Running(url, db, model)
    with Client(db) as client:
        first = wait_for_text(client, running.agent)
        early = texts(first)["model"]
        assert WORDS.startswith(early) and len(early) < len(WORDS), "it is seen before it is complete"
        again = list(client.get("1", running.agent).live_text(after=first[-1].number))
        assert running.join() == WORDS and texts(again) == {"model": WORDS} and again[-1].is_complete
        assert len(again) > 2 and all(one.number > first[-1].number for one in again) and {one.attempt for one in again} == {1}
        assert [one.number for one in again] == sorted({one.number for one in again})
        assert list(client.get("1", running.agent).stream(follow=False)) == []
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("it.db"))
    assert fake.requests[0]["request"]["stream"] is True and kept


@pytest.mark.prove
def test_after_a_kill_in_the_middle_a_reader_sees_that_the_text_begins_anew(provider: tuple[Fake, str], tmp_path: Path) -> None:
    fake, url = provider
    fake.tell([TELL])
    db = f"sqlite:///{tmp_path}/it.db"
    command = [sys.executable, "-m", "tests.definitions.kinds.models.live_program", url, db]
    agent = teller(url, "large")
    seen = list[LiveText]()
    first = subprocess.Popen(command, cwd=ROOT)
    until = time.monotonic() + 60
    while not (tmp_path / "it.db").exists() and time.monotonic() < until:
        time.sleep(0.05)
    with Client(db) as client:
        before = wait_for_text(client, agent)
        reader = threading.Thread(target=lambda: seen.extend(client.get("1", agent).live_text()))
        reader.start()
        wait_for_text(client, agent)
        first.kill()
        first.wait()
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
        reader.join(60)
    assert ended.stdout == WORDS and len(fake.requests) == 2
    assert {one.attempt for one in before} == {1} and {one.attempt for one in seen} == {1, 2}
    anew = next(index for index, one in enumerate(seen) if one.attempt == 2)
    assert seen[anew].offset == 0 and len(texts(seen[:anew])["model"]) < len(WORDS), "what the killed attempt had written does not count"
    assert texts(seen) == {"model": WORDS} and seen[-1].is_complete


@pytest.mark.slow
def test_steps_stream_too_and_another_model_begins_the_text_anew(provider: tuple[Fake, str], tmp_path: Path) -> None:
    fake, url = provider
    fake.tell([{"when": {"model": "gpt-4o-mini"}, "error": "overloaded"}, {"answer": "Hello you"}])
    both = Definition.of(
        "{perdure: 1, name: both, steps: [{id: say, llm: {model: both, prompt: Hi, stream: true}}], output: '@say.text'}",
        deployment=Deployment(models={**models(url), "both": ["small", "large"]}),
    )
    db = f"sqlite:///{tmp_path}/it.db"
    assert both.with_(db=db, id="1").run() == "Hello you"
    with Client(db) as client:
        assert texts(client.get("1", both).live_text()) == {"say": "Hello you"}


@workflow
async def sleeper(ctx: Context) -> None:
    await ctx.sleep("1h")


def test_a_long_text_is_kept_in_chunks(world: World) -> None:
    access, key = world.access, world.start(sleeper).key
    store, info = access.store, StepInfo(key, (("model", 1),), 1)

    async def written() -> tuple[list[LiveText], list[LiveText]]:
        writer = LiveTextWriter(store, info)
        for number in range(2_500):
            writer.write(f"{number:04} ")
            if number % 400 == 0:
                await writer.flush()
        middle = [one async for one in stream_live_text(access, key, 0, False)]
        await writer.flush(is_complete=True)
        return middle, [one async for one in stream_live_text(access, key, 7, False)]

    middle, whole = world.call(written())
    expected = "".join(f"{number:04} " for number in range(2_500))
    assert expected.startswith(texts(middle)["model"]) and not middle[-1].is_complete
    assert texts(whole) == {"model": expected} and whole[-1].is_complete
    assert len(whole) == -(-len(expected) // CHUNK_CHARACTERS) and whole[0].number > 8


class UnsteadyStore(ForwardingStore):
    """A store that answers a commit only while `answers` is set. It loses the answers of `lost` commits, and for `timeless` calls does not know the time."""

    def __init__(self, world: World, lost: int = 0, timeless: int = 0) -> None:
        super().__init__(world.access.store)
        self.lost, self.timeless = lost, timeless
        self.answers, self.has_committed = asyncio.Event(), asyncio.Event()
        self.answers.set()

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        found = await super().commit(changes)
        self.has_committed.set()
        await self.answers.wait()
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("no answer")
        return found

    async def store_time(self) -> StoreTime:
        if self.timeless:
            self.timeless -= 1
            raise StoreUnavailable("no time")
        return await super().store_time()


async def shown(world: World, key: Key) -> list[LiveText]:
    return [one async for one in stream_live_text(world.access, key, 0, False)]


def test_a_write_that_was_not_answered_is_found_and_gone_on_with_unless_another_process_writes(world: World) -> None:
    key = world.start(sleeper).key
    info = StepInfo(key, (("model", 1),), 1)

    async def written() -> None:
        store = UnsteadyStore(world)
        writer = LiveTextWriter(store, info)
        writer.write("Hello")
        await writer.flush()
        store.lost = 2
        for piece in (" you", " and", " me"):
            writer.write(piece)
            await writer.flush()
        assert texts(await shown(world, key)) == {"model": "Hello you and me"}
        other = LiveTextWriter(world.access.store, info)
        other.write("Something else")
        await other.flush()
        store.lost = 1
        for _ in range(2):
            writer.write("!")
            await writer.flush(is_complete=True)
        assert texts(await shown(world, key)) == {"model": "Something else"}

    world.call(written())


def test_the_end_of_a_text_waits_for_the_write_in_flight(world: World) -> None:
    key = world.start(sleeper).key

    async def written() -> list[LiveText]:
        store = UnsteadyStore(world)
        current_step.set(StepInfo(key, (("model", 1),), 1))
        current_resources.set(OpenResources(store))
        async with live_text() as writer:
            assert writer is not None
            writer.write("Hel")
            await asyncio.sleep(1)
            store.answers.clear()
            store.has_committed.clear()
            writer.write("lo")
            await store.has_committed.wait()
            writer.write(" you")
            asyncio.get_running_loop().call_later(1, store.answers.set)
        return await shown(world, key)

    found = world.call(written())
    assert texts(found) == {"model": "Hello you"} and found[-1].is_complete


def test_a_text_that_begins_anew_during_a_write_is_written_whole(world: World) -> None:
    key = world.start(sleeper).key

    async def written() -> list[LiveText]:
        store = UnsteadyStore(world)
        store.answers.clear()
        writer = LiveTextWriter(store, StepInfo(key, (("model", 1),), 1))
        writer.write("Hello")
        writing = asyncio.create_task(writer.flush())
        await store.has_committed.wait()
        writer.begin()
        writer.write("Goodbye, all")
        store.answers.set()
        await writing
        await writer.flush()
        return await shown(world, key)

    assert texts(world.call(written())) == {"model": "Goodbye, all"}


def test_a_store_that_does_not_know_the_time_delays_a_text_and_nothing_else(world: World) -> None:
    key = world.start(sleeper).key

    async def written() -> list[LiveText]:
        current_step.set(StepInfo(key, (("model", 1),), 1))
        current_resources.set(OpenResources(UnsteadyStore(world, timeless=2)))
        async with live_text() as writer:
            assert writer is not None
            writer.write("Hello")
            await asyncio.sleep(1)
            assert texts(await shown(world, key)) == {"model": "Hello"}
        return await shown(world, key)

    assert world.call(written())[-1].is_complete


class CountingStore(ForwardingStore):
    """A store that counts how often records are read, and how many."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.reads = self.read_in_all = 0

    async def records(self, which: RecordFilter) -> list[StoredRecord]:
        found = await super().records(which)
        self.reads, self.read_in_all = self.reads + 1, self.read_in_all + len(found)
        return found


async def follow(access: StoreAccess, key: Key, seen: list[LiveText]) -> None:
    async for one in stream_live_text(access, key, 0, True):
        seen.append(one)  # noqa: PERF401  # as it comes, for a task that is cancelled


def test_a_reader_asks_often_while_a_text_grows_and_seldom_while_it_does_not(world: World) -> None:
    key = world.start(sleeper).key

    async def read() -> tuple[int, int]:
        store, writer = CountingStore(world.access.store), LiveTextWriter(world.access.store, StepInfo(key, (("model", 1),), 1))
        following = asyncio.create_task(follow(StoreAccess(store), key, []))
        for _ in range(50):
            writer.write("more ")
            await writer.flush()
            await asyncio.sleep(FLUSH_S)
        growing, store.reads = store.reads, 0
        await asyncio.sleep(10)
        following.cancel()
        return growing, store.reads

    growing, waiting = world.call(read())
    assert growing > 90 and 15 < waiting < 25


def test_a_reader_reads_what_is_new_of_a_text_that_grows_and_finds_others_that_begin(world: World) -> None:
    key, seen = world.start(sleeper).key, list[LiveText]()

    async def read() -> int:
        store = CountingStore(world.access.store)
        first, second = (LiveTextWriter(store, StepInfo(key, ((name, 1),), 1)) for name in ("first", "second"))
        first.write("x" * 10 * CHUNK_CHARACTERS)
        await first.flush()
        following = asyncio.create_task(follow(StoreAccess(store), key, seen))
        await asyncio.sleep(0.3)
        for number in range(100):
            first.write(f"{number:03} " * 30)
            await first.flush()
            if number == 50:
                store.read_in_all = 0
            if number > 95:
                second.begin()
                second.write(f"{number} " * CHUNK_CHARACTERS)
                await second.flush()
            await asyncio.sleep(FLUSH_S)
        found = store.read_in_all
        for writer in (first, second):
            await writer.flush(is_complete=True)
        await asyncio.sleep(1)
        following.cancel()
        return found

    found = world.call(read())
    expected = "x" * 10 * CHUNK_CHARACTERS + "".join(f"{number:03} " * 30 for number in range(100))
    assert texts(seen) == {"first": expected, "second": "99 " * CHUNK_CHARACTERS}
    assert found < 400, "those of the text that do not change are not read each time"


def test_a_secret_that_comes_in_pieces_is_never_shown(world: World) -> None:
    access, key, secret = world.access, world.start(sleeper).key, "canary-0123456789"
    info = StepInfo(key, (("model", 1),), 1, life=StepControl(lambda raw: None, find=lambda name: secret))
    assert info.secret("KEY") == secret

    async def written() -> list[str]:
        writer, seen = LiveTextWriter(access.store, info), list[str]()
        for piece in ("It is can", "ary-01234", "56789, and can", "not be told"):
            writer.write(piece)
            await writer.flush()
            seen.append(texts([one async for one in stream_live_text(access, key, 0, False)]).get("model", ""))
        await writer.flush(is_complete=True)
        return [*seen, texts([one async for one in stream_live_text(access, key, 0, False)])["model"]]

    assert world.call(written()) == ["It is ", "It is ", "It is ***, and ", "It is ***, and cannot be told", "It is ***, and cannot be told"]
