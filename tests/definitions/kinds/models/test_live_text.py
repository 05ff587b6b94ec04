"""The answer of a model that streams is seen while it comes, by readers of any process, and is in the log once."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Context, Definition, workflow
from perdure.code.step_environment import StepControl, StepInfo
from perdure.core.errors import NotFound
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.live_text_writer import LiveTextWriter
from perdure.fake_llm import Fake, models, serving_aside
from perdure.service.live_text import LiveText, stream_live_text
from perdure.stores.live_text_records import CHUNK_CHARACTERS
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
@pytest.mark.parametrize("model", ["small", "medium", "large"])
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


@pytest.mark.slow
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
        writer = LiveTextWriter(store, info, (await store.store_time()).now_s + 60)
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


def test_a_secret_that_comes_in_pieces_is_never_shown(world: World) -> None:
    access, key, secret = world.access, world.start(sleeper).key, "canary-0123456789"
    info = StepInfo(key, (("model", 1),), 1, life=StepControl(lambda raw: None, find=lambda name: secret))
    assert info.secret("KEY") == secret

    async def written() -> list[str]:
        writer, seen = LiveTextWriter(access.store, info, (await access.store.store_time()).now_s + 60), list[str]()
        for piece in ("It is can", "ary-01234", "56789, and can", "not be told"):
            writer.write(piece)
            await writer.flush()
            seen.append(texts([one async for one in stream_live_text(access, key, 0, False)]).get("model", ""))
        await writer.flush(is_complete=True)
        return [*seen, texts([one async for one in stream_live_text(access, key, 0, False)])["model"]]

    assert world.call(written()) == ["It is ", "It is ", "It is ***, and ", "It is ***, and cannot be told", "It is ***, and cannot be told"]
