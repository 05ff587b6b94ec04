"""Claims about clients, in real time and on files: the sync one is the async one from anywhere, and lets everything go when it is closed."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import (
    AsyncClient,
    AsyncHandle,
    Client,
    Context,
    ExecutionCancelled,
    ExecutionFailed,
    Handle,
    HasEnded,
    NotFound,
    Signal,
    StoreError,
    Timeout,
    Workflow,
    WrongVerb,
    step,
    workflow,
)
from perdure.async_client import AsyncSelection
from perdure.async_maintenance import AsyncDeadLetterOffice, AsyncUpkeep
from perdure.core.errors import BadName, BadValue, StoreUnavailable
from perdure.core.paths import Key
from perdure.loop_thread import LoopThread
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import local_engine
from perdure.stores.configured_store import open_store
from perdure.stores.payload_codec import Compressed
from perdure.stores.protocol import Store
from perdure.sync_client import Selection
from perdure.sync_maintenance import DeadLetterOffice, Upkeep

double = Signal("double", int)


@step
def hello(name: str) -> str:
    return f"Hello {name}"


@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(hello, name)


@workflow
async def doubling(ctx: Context, count: int) -> int:
    for number in range(count):
        message = await ctx.listen(double, completable=True)
        ctx.set("asked", number + 1)
        ctx.emit(message.body)
        message.complete(message.body * 2)
    return count


@workflow
async def sleeper(ctx: Context, duration_s: float) -> str:
    await ctx.sleep(duration_s)
    return "awake"


@workflow
async def failing(ctx: Context) -> None:
    raise LookupError("no such order")


ALL = (greet, doubling, sleeper, failing)


@pytest.fixture(autouse=True)
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new store, which is the default."""
    found = f"sqlite:///{tmp_path}/perdure.db"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_DB", found)
    return found


@asynccontextmanager
async def engine_on(store: Store, *workflows: Workflow[..., Any]) -> Any:
    """An engine on a store, while the block lasts."""
    engine = Engine(store, [one.code for one in workflows or ALL])
    running = asyncio.create_task(engine.run())
    await engine.ready()
    try:
        yield engine
    finally:
        engine.stop()
        await running


@contextmanager
def served(*workflows: Workflow[..., Any], url: str | None = None) -> Iterator[Client]:
    """A client, and an engine on the same file in a thread of its own."""
    thread = LoopThread("engine")
    engine = local_engine([one.code for one in workflows or ALL], url)
    thread.call(engine.__aenter__())
    try:
        with Client(url) as client:
            yield client
    finally:
        thread.call(engine.__aexit__(None, None, None))
        thread.close()


# The async client.


@pytest.mark.slow
async def test_the_async_client_works_beside_an_engine_on_a_file() -> None:
    async with AsyncClient() as client, engine_on(client._access.on_store("a test").store):
        handle = await client.start(doubling.with_(id="k"), 2)
        assert await handle.ask(double, 4, timeout=10) == 8
        assert await handle.query("asked") == 1
        assert await handle.ask(double, 5, timeout=10) == 10
        assert await handle.result(10) == 2
        assert [(one.number, one.value) async for one in handle.stream()] == [(1, 4), (2, 5)]
        assert (await handle.status()).status == "completed"
        with pytest.raises(ExecutionFailed, match="no such order"):
            await client.run(failing)
        assert await client.run("greet", "Ada") == "Hello Ada"


@pytest.mark.slow
async def test_results_come_without_waiting_for_a_poll() -> None:
    async with AsyncClient() as client, engine_on(client._access.on_store("a test").store):
        began_s = time.monotonic()
        for _ in range(20):
            assert await client.run(greet, "Ada") == "Hello Ada"
        assert time.monotonic() - began_s < 5.0


async def test_a_store_that_was_given_stays_open() -> None:
    store = open_store()
    async with AsyncClient(store) as client:
        await client.start(greet.with_(id="k"), "Ada")
    assert len(await store.heads()) == 1
    await store.close()


@pytest.mark.slow
def test_an_end_that_another_process_makes_is_noticed_at_once(tmp_path: Path) -> None:
    source = """
import asyncio, sys
from perdure import Context, workflow
from perdure.runtime.local_engine import local_engine

@workflow
async def greet(ctx: Context, name: str) -> str:
    return "Hello " + name

async def main():
    async with local_engine([greet.code]):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", source], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == "ready\n"
        with Client() as client:
            began_s = time.monotonic()
            for _ in range(10):
                assert client.run("greet", "Ada") == "Hello Ada"
            assert time.monotonic() - began_s < 5.0
            assert [one.pid for one in client.engines()] == [process.pid]
        process.stdin.close()
        assert process.wait(20) == 0


# The sync client.


@pytest.mark.slow
def test_the_sync_client_does_what_the_async_one_does() -> None:
    with served() as client:
        handle = client.start(doubling.with_(id="k"), 2)
        assert (type(handle), handle.id, handle.created, handle.key) == (Handle, "k", True, doubling.key("k"))
        assert repr(handle) == "<handle of default/doubling/k>"
        assert handle.ask(double, 4, timeout=10) == 8
        assert handle.query("asked") == 1 and handle.query() == {"asked": 1} and handle.query("nothing", "else") == "else"
        handle.send(double, 5, key="five")
        assert handle.result(timeout=10) == 2
        assert [(one.number, one.value, one.dropped) for one in handle.stream()] == [(1, 4, 0), (2, 5, 0)]
        assert [event.type for event in handle.events()][-1] == "execution.completed"
        assert [one.kind for one in handle.steps()].count("receive") == 2
        assert (handle.status().status, handle.status().why) == ("completed", "it has completed")
        assert not client.start(doubling.with_(id="k"), 7).created and client.run(doubling.with_(id="k"), 7) == 2
        assert client.run(greet, "Ada") == client.run("greet", "Ada") == "Hello Ada"
        assert client.get("k").key == client.get("k", doubling).key == client.find("doubling/k") == doubling.key("k")
        assert [one.key.workflow for one in client.list(limit=2)] == ["greet", "greet"]
        assert [one.kind for one in client.engines()] == ["engine"]
        with pytest.raises(HasEnded):
            handle.send(double, 1)


@pytest.mark.slow
def test_the_sync_client_ends_pauses_and_resumes() -> None:
    with served() as client:
        handle = client.start(sleeper, 0.5)
        handle.pause("later", wait=True, timeout=10)
        assert handle.status().status == "paused"
        handle.resume(wait=True, timeout=10)
        assert handle.result(10) == "awake"
        for ends in ("cancel", "terminate"):
            other = client.start(sleeper, 100.0)
            getattr(other, ends)("enough", wait=True, timeout=10)
            with pytest.raises(ExecutionCancelled, match="enough"):
                other.result()


@pytest.mark.slow
def test_a_stream_is_followed_and_may_be_left() -> None:
    with served() as client:
        handle = client.start(doubling, 3)
        for number in range(3):
            handle.send(double, number)
        for one in handle.stream():
            if one.number == 2:
                break
        assert [one.number for one in handle.stream(after=2)] == [3]
        later = client.start(doubling, 1)
        events = handle.events(follow=True)
        assert next(events).type == "execution.created"
        following = later.stream()
        threading.Timer(0.3, later.send, (double, 9)).start()
        assert next(following).value == 9 and next(following, None) is None


def test_nothing_is_done_twice_by_a_client_that_comes_again(url: str) -> None:
    with Client(url) as client:
        assert client.start(greet.with_(id="k"), "Ada").created
    with served(url=url) as client:
        assert not client.start(greet.with_(id="k"), "Grace").created
        assert client.get("k", greet).result(10) == "Hello Ada"


@pytest.mark.slow
def test_many_threads_share_a_client() -> None:
    with served() as client, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: client.run(greet, f"{number}"), range(40))) == [f"Hello {number}" for number in range(40)]
        made = list(pool.map(lambda number: client.start(greet.with_(id="one"), f"{number}").created, range(40)))
        assert sorted(made) == [False] * 39 + [True]


@pytest.mark.slow
async def test_the_sync_client_works_inside_of_a_running_loop() -> None:
    with served() as client:
        assert client.run(greet, "Ada") == "Hello Ada"


def test_the_sync_client_is_not_for_its_own_loop() -> None:
    with served() as client:

        async def misuse() -> None:
            client.list()

        with pytest.raises(WrongVerb, match="Use the async client"):
            client._thread.call(misuse())


@pytest.mark.slow
def test_a_timeout_leaves_the_execution_alone() -> None:
    with served() as client:
        handle = client.start(sleeper, 1.0)
        with pytest.raises(Timeout, match=r"timed out after 0\.1 s"):
            handle.result(timeout=0.1)
        with pytest.raises(Timeout):
            handle.ask("double", 1, timeout="100ms")
        assert handle.result(timeout=10) == "awake"


@pytest.mark.slow
def test_an_interrupt_from_the_keyboard_ends_the_waiting(tmp_path: Path) -> None:
    source = """
from perdure import Client, Context, workflow

@workflow
async def waiting(ctx: Context) -> None: ...

with Client() as client:
    handle = client.start(waiting.with_(id="k"))
    print("waiting", flush=True)
    try:
        handle.result()
    except KeyboardInterrupt:
        print(handle.status().status, len(client._inner._access.watch._waiters), flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", source], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        said, complaints = process.communicate(timeout=20)
    assert (process.returncode, said, complaints) == (0, "pending 0\n", "")


# What goes wrong.


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize("wrong", ["http://", "HTTPS://example.org/x?y", "postgres", "sqlite:///", 5, b"memory:"])
def test_a_url_that_names_no_database_is_refused(make: Any, wrong: Any) -> None:
    before = threading.active_count()
    with pytest.raises(BadValue, match=r"(client|database) URL: .* is not "):
        make(wrong)
    assert threading.active_count() == before


def test_a_server_has_the_codec_of_its_own() -> None:
    with pytest.raises(BadValue, match="given with a database; a server has the codec of its own"):
        Client("http://localhost:7000", codec=Compressed())


def test_a_store_that_can_not_be_opened_is_told_of_and_no_thread_is_left(tmp_path: Path) -> None:
    (tmp_path / "p.db").write_text("Dear diary, " * 1000)
    before = threading.active_count()
    with pytest.raises(StoreError, match="damaged"):
        Client("sqlite:///p.db")
    assert threading.active_count() == before


def threads() -> set[threading.Thread]:
    """The threads that are alive, but for the one that receives the notifications of the whole process, which stays."""
    return {one for one in threading.enumerate() if one.name != "perdure-notify"}


@pytest.mark.slow
def test_a_closed_client_says_so_and_has_let_the_file_go(url: str) -> None:
    before = threads()
    with served() as client:
        handle = client.start(doubling, 1)
        stream = handle.stream()
        handle.send(double, 1)
        assert next(stream).value == 1
    client.close()
    assert threads() == before
    for asked in (client.list, handle.status, handle.result, lambda: client.start(greet, "Ada"), lambda: next(stream)):
        with pytest.raises(StoreUnavailable, match="this client was closed"):
            asked()
    with Client(url) as again:
        assert len(again.list()) == 1


@pytest.mark.slow
def test_who_waits_in_another_thread_is_told_that_the_client_was_closed() -> None:
    client = Client()
    handle = client.start(greet, "Ada")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(handle.result)
        time.sleep(0.2)
        client.close()
        with pytest.raises(StoreUnavailable, match="the client was closed"):
            waiting.result(10)


def test_bad_arguments_are_refused_with_nothing_changed() -> None:
    with Client() as client:
        for start in (lambda: client.start(client.workflow("greet").with_(id="")), lambda: client.start(greet.with_(id="k", tenant=""), "Ada")):
            with pytest.raises(BadName):
                start()
        for bad in (lambda: client.start(greet.with_(delay="soon"), "Ada"), lambda: client.list(status="done")):
            with pytest.raises(BadValue):
                bad()
        with pytest.raises(NotFound):
            client.get("nowhere")
        assert client.list() == []


# The two faces.


@pytest.mark.parametrize(
    ("sync", "twin"),
    [(Client, AsyncClient), (Handle, AsyncHandle), (DeadLetterOffice, AsyncDeadLetterOffice), (Selection, AsyncSelection), (Upkeep, AsyncUpkeep)],
)
def test_each_verb_of_the_async_face_has_a_twin_with_the_same_parameters(sync: type, twin: type) -> None:
    def verbs(of: type) -> dict[str, list[str]]:
        own = {name: one for name, one in vars(of).items() if not name.startswith("_") and inspect.isfunction(one)}
        return {name: [str(parameter).split(":")[0] for parameter in inspect.signature(one).parameters.values()] for name, one in own.items()}

    expected = verbs(twin)
    if "aclose" in expected:
        expected["close"] = expected.pop("aclose")
    assert verbs(sync) == expected


@pytest.mark.slow
def test_importing_perdure_brings_no_client_until_it_is_asked_for(tmp_path: Path) -> None:
    source = """
import sys, perdure
assert not any(name.startswith(("perdure.sync_client", "perdure.service", "perdure.stores")) for name in sys.modules)
assert {"Client", "AsyncClient", "Handle", "AsyncHandle"} <= set(dir(perdure)) and set(perdure.__all__) <= set(dir(perdure))
from perdure import *
assert Client is perdure.Client is sys.modules["perdure.sync_client"].Client
try:
    perdure.Clients
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("module 'perdure' has no attribute 'Clients'\n", "")


def test_what_is_exported_is_there() -> None:
    for name in perdure.__all__:
        assert getattr(perdure, name) is not None
    assert Key("default", "greet", "k") == greet.key("k")


INTERRUPTED = """
import os, signal, threading
from perdure import Context, workflow
from perdure.sync_client import Client

@workflow
async def order(ctx: Context) -> None:
    await ctx.listen("word")

with Client("sqlite:///perdure.db") as client:
    handle = client.start(order)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # another thread gets it, so the lock that this one waits for does not see it
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        handle.result()
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no masks of signals on Windows")
def test_a_signal_that_does_not_end_the_wait_is_handled_soon(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert ended.stdout == "interrupted\n", ended.stderr


def test_a_client_in_a_forked_process_says_so(tmp_path: Path) -> None:
    program = """
import os
from perdure import Client, WrongVerb
client = Client("sqlite:///shop.db")
if pid := os.fork():
    assert os.waitpid(pid, 0)[1] == 0
    print(client.list())
else:
    try:
        client.list()
    except WrongVerb as error:
        print(error, flush=True)
    os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    said, listed = done.stdout.splitlines()
    assert "was used in a forked process" in said
    assert "open another one here" in said
    assert listed == "[]"
