"""Claims about the engines of `run` and `arun`: shared while they are used, and as if each run had its own."""

import asyncio
import gc
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perdure import AsyncClient, Context, Definition, ExecutionFailed, NeedsAttention, Signal, Workflow, shared_engines, step, workflow
from perdure.async_handle import AsyncHandle
from perdure.core.errors import NotFound
from perdure.core.paths import Key
from perdure.stores.configured_store import open_store
from perdure.stores.protocol import HeadFilter

begun = threading.Event()
released = threading.Event()
seen: list[str] = []


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    begun.clear()
    released.clear()
    seen.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_DB", f"sqlite:///{tmp_path}/shared.db")
    yield
    released.set()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The URLs of the stores that are opened from now on."""
    urls: list[str | None] = []

    def watched(url: str | None = None) -> object:
        urls.append(url)
        return open_store(url)

    monkeypatch.setattr(shared_engines, "open_store", watched)
    return urls


@step
async def greeting(name: str) -> str:
    seen.append(name)
    return f"Hello {name}"


@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(greeting, name)


@step
async def endless() -> None:
    begun.set()
    seen.append("endless")
    try:
        await asyncio.sleep(3600)
    finally:
        seen.append("ended")


@workflow
async def endlessly(ctx: Context) -> None:
    await ctx.step(endless)


@step
def blocking() -> str:
    begun.set()
    released.wait(30)
    return "released"


@workflow
async def blockingly(ctx: Context) -> str:
    return await ctx.step(blocking)


@workflow
async def leaving(ctx: Context) -> str:
    _ = await ctx.start(endlessly)
    await ctx.sleep(0.1)
    return "left"


go_on = Signal("go on", str)


@workflow
async def listening(ctx: Context) -> str:
    return await ctx.listen(go_on)


async def until(claim: object) -> None:
    ends_s = time.monotonic() + 10
    while not claim():  # type: ignore[operator]  # a function
        assert time.monotonic() < ends_s
        await asyncio.sleep(0.01)


def test_run_opens_the_database_once(opened: list[str | None]) -> None:
    for n in range(5):
        assert greet.run(str(n)) == f"Hello {n}"
    assert len(opened) == 1


async def test_arun_opens_the_database_once_per_loop(opened: list[str | None]) -> None:
    assert await asyncio.gather(*(greet.arun(str(n)) for n in range(20))) == [f"Hello {n}" for n in range(20)]
    assert await greet.arun("again") == "Hello again"
    assert len(opened) == 1


def test_each_asyncio_run_opens_and_closes_its_own(opened: list[str | None]) -> None:
    for _ in range(3):
        assert asyncio.run(greet.arun("Ada")) == "Hello Ada"
    assert len(opened) == 3
    assert not [loop for loop, _ in shared_engines._registry.stores if loop.is_closed()]


def test_another_database_and_another_environment_have_their_own(opened: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    assert greet.with_(id="k").run("Ada") == "Hello Ada"
    assert greet.with_(id="k", db="sqlite:///other.db").run("Eve") == "Hello Eve"
    assert greet.with_(id="k", db="sqlite:///./other.db").run("Bob") == "Hello Eve", "one file, however it is written"
    assert len(opened) == 2
    monkeypatch.setenv("PERDURE_COMPRESS", "1")
    assert greet.with_(id="k").run("Bob") == "Hello Ada"
    assert len(opened) == 3


def test_a_store_in_memory_is_a_new_one_for_each_run() -> None:
    for n in range(3):
        assert greet.with_(id="k", db="memory:").run(str(n)) == f"Hello {n}"


def test_a_file_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    assert greet.with_(id="k").run("Ada") == "Hello Ada"
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    assert greet.with_(id="k").run("Eve") == "Hello Eve"


async def test_it_is_closed_when_it_was_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_engines, "IDLE_S", 0.2)
    before = gc.get_threshold()
    assert await greet.arun("Ada") == "Hello Ada"
    (kept,) = [one for (loop, _), one in shared_engines._registry.stores.items() if loop is asyncio.get_running_loop()]
    assert gc.get_threshold()[0] >= 50_000
    await asyncio.wait_for(asyncio.shield(kept.kept), 10)
    async with AsyncClient() as client:
        assert await client.engines() == []
    if not shared_engines._registry.stores:
        assert gc.get_threshold() == before
    assert await greet.arun("Eve") == "Hello Eve", "and is opened again"


async def waiting(client: AsyncClient, id: str, workflow: str) -> AsyncHandle[Any]:
    """Waits until an execution waits for something; returns its handle."""
    while True:
        with suppress(NotFound):
            handle = await client.get(id, workflow)
            if (await handle.status()).status == "waiting":
                return handle
        await asyncio.sleep(0.01)


async def test_it_claims_only_what_was_run_through_it() -> None:
    async with AsyncClient() as client:
        stranger = await client.start(greet.with_(id="stranger"), "stranger")
        assert await greet.arun("Ada") == "Hello Ada"
        running = asyncio.create_task(listening.with_(id="mine").arun())
        mine = await waiting(client, "mine", "listening")
        assert (await stranger.status()).status == "pending"
        await mine.send(go_on, "sent")
        assert await running == "sent"
    assert seen == ["Ada"]


async def test_what_a_run_leaves_behind_stops_with_it_and_others_go_on() -> None:
    other = asyncio.create_task(listening.with_(id="other").arun())
    assert await leaving.with_(id="k").arun() == "left"
    await until(lambda: seen in (list[str](), ["endless", "ended"]))
    async with AsyncClient() as client:
        child = next(one.key for one in await client.list() if one.key.workflow == "endlessly")
        (head,) = await client._access.on_store("a test").store.heads(HeadFilter(keys=(child,)))
        assert head.holder is None and head.ended_at_s is None
        await (await client.get("other", listening)).send(go_on, "sent")
    assert await other == "sent"


async def test_a_cancelled_arun_gives_its_steps_back_at_once_and_run_again_it_goes_on() -> None:
    other = asyncio.create_task(listening.with_(id="other").arun())
    running = asyncio.create_task(endlessly.with_(id="k").arun())
    await until(begun.is_set)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen == ["endless", "ended"]
    store = open_store()
    (head,) = await store.heads(HeadFilter(keys=(Key("default", "endlessly", "k"),)))
    assert head.holder is None and head.status not in ("failed", "cancelled")
    await store.close()
    begun.clear()
    again = asyncio.create_task(endlessly.with_(id="k").arun())
    await until(begun.is_set)
    async with AsyncClient() as client:
        await (await client.get("other", listening)).send(go_on, "sent")
    again.cancel()
    assert await other == "sent"


async def test_after_a_cancelled_arun_no_further_sync_step_begins() -> None:
    count: list[int] = []

    @step(name="counting")
    def counting(number: int) -> None:
        count.append(number)
        time.sleep(0.05)

    @workflow(name="counted")
    async def counted(ctx: Context) -> str:
        for number in range(20):
            await ctx.step(counting, number)
        return "counted"

    running = asyncio.create_task(counted.with_(id="k").arun())
    await until(lambda: len(count) > 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    begun_before = len(count)
    await asyncio.sleep(0.3)
    assert len(count) == begun_before
    assert await asyncio.wait_for(counted.with_(id="k").arun(), 20) == "counted"
    assert count == list(range(20)), "the step that was running has ended, and is not repeated"


async def test_definitions_that_differ_in_their_secrets_alone_do_not_share_an_engine() -> None:
    document = {"perdure": 1, "name": "telling", "steps": [{"id": "tell", "tool": "tell", "with": {"text": "@secrets.word"}}], "output": "@tell"}
    told: list[str] = []

    async def tell(text: str) -> None:
        told.append(text)
        await asyncio.sleep(0.3)

    definitions = [Definition.of(document, tools=[tell], secrets={"word": word}) for word in ("one", "two")]
    await asyncio.gather(*(one.arun() for one in definitions))
    assert sorted(told) == ["one", "two"]


async def test_a_resume_that_no_engine_has_received_yet_comes_before_the_status_that_a_run_sees() -> None:
    assert await greet.arun("an engine is open") == "Hello an engine is open"
    async with AsyncClient() as client:
        handle = await client.start(greet.with_(id="k"), "Ada")
        await handle.pause()
        with pytest.raises(NeedsAttention, match="paused"):
            await greet.with_(id="k").arun("Ada")
        await handle.resume()
        assert await greet.with_(id="k", strict=True).arun("Ada") == "Hello Ada"


async def test_two_runs_of_one_id_are_one_execution() -> None:
    first, second = (asyncio.create_task(listening.with_(id="k").arun()) for _ in range(2))
    async with AsyncClient() as client:
        handle = await waiting(client, "k", "listening")
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await handle.send(go_on, "sent")
    assert await asyncio.wait_for(second, 10) == "sent"


async def test_two_workflows_of_one_name_run_side_by_side_each_with_its_own_code() -> None:
    async def one(ctx: Context) -> str:
        return "one" + await ctx.listen(go_on)

    async def two(ctx: Context) -> str:
        return "two" + await ctx.listen(go_on)

    first = asyncio.create_task(workflow(name="same")(one).with_(id="1").arun())
    second = asyncio.create_task(workflow(name="same")(two).with_(id="2").arun())
    async with AsyncClient() as client:
        for id in "12":
            await (await waiting(client, id, "same")).send(go_on, "!")
    assert list(await asyncio.wait_for(asyncio.gather(first, second), 10)) == ["one!", "two!"]


def test_a_workflow_that_was_defined_anew_runs_as_it_is_now() -> None:
    def defined(number: int) -> Workflow[[], int]:
        async def body(ctx: Context) -> int:
            return number

        return workflow(name="again")(body)

    assert [defined(number).run() for number in range(5)] == list(range(5))
    stores = [one for (loop, _), one in shared_engines._registry.stores.items() if not loop.is_closed()]
    knowing = [engine for one in stores for engine in one.engines if "again" in {known.name for known in engine.family}]
    assert len(knowing) == 1, "what runs nothing takes the new code"


def test_threads_share_the_engine_of_run(opened: list[str | None]) -> None:
    results: list[str] = []
    threads = [threading.Thread(target=lambda n=n: results.append(greet.run(str(n)))) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(results) == [f"Hello {n}" for n in range(8)] and len(opened) == 1


def test_a_failure_of_one_run_is_no_matter_to_the_next() -> None:
    @workflow(name="failing")
    async def failing(ctx: Context) -> None:
        raise ValueError("no such luck")

    with pytest.raises(ExecutionFailed, match="no such luck"):
        failing.run()
    assert greet.run("Ada") == "Hello Ada"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_an_engine_of_its_own() -> None:
    assert greet.run("parent") == "Hello parent"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert greet.run("child") == "Hello child"
            assert asyncio.run(greet.arun("child")) == "Hello child"
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert greet.run("parent again") == "Hello parent again"


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "loop = asyncio.new_event_loop(); loop.run_until_complete(greet.arun('x')); loop.close()"])
def test_a_script_ends_without_delay_and_without_a_warning(tmp_path: Path, end: str) -> None:
    code = f"""
import asyncio, time
from perdure import Context, workflow

@workflow
async def greet(ctx: Context, name: str) -> str:
    return f"Hello {{name}}"

print(greet.run("Ada"))
print(asyncio.run(greet.arun("Eve")))
print(time.monotonic(), flush=True)
{end}
"""
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    ended_s = time.monotonic()
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    said = ran.stdout.splitlines()
    assert said[:2] == ["Hello Ada", "Hello Eve"]
    assert ended_s - float(said[2]) < 2.5
