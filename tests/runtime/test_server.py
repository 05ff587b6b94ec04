"""Claims about serving, with real processes and real signals."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perdure import Context, workflow
from perdure.core import events as e
from perdure.core import log_format, messages, values
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.paths import Key
from perdure.runtime import holder, server
from perdure.stores.configured_store import open_store
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Post
from perdure.testing.faults import NO_FAULTS, Faults, FaultyStore

pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio, sys, time
from pathlib import Path
from perdure import Context, step, workflow
from perdure.runtime.server import serve

def note(text):
    with open("notes", "a") as file:
        file.write(text + "\\n")

@step
async def slow(takes_s: float) -> str:
    note("began")
    await asyncio.sleep(takes_s)
    note("ended")
    return "slow"

@step
def blocking(takes_s: float) -> str:
    note("began")
    time.sleep(takes_s)
    note("ended")
    return "blocking"

@step(queue="gpu")
def queued() -> str:
    note("queued")
    return "queued"

@workflow
async def two(ctx: Context, takes_s: float, sync: bool) -> list[str]:
    return [await ctx.step(blocking if sync else slow, takes_s), await ctx.step(queued)]

asyncio.run(serve([two.code], [queued], queues=["gpu"], db="sqlite:///here.db", grace_s=float(sys.argv[1]), ready=lambda engine: print("ready", flush=True)))
print("left in good order", flush=True)
"""
KEY = Key("default", "two", "k")
WAIT_S = 30.0


class ServerProcess:
    """A process that serves, in a directory of its own."""

    def __init__(self, process: "subprocess.Popen[str]", directory: Path) -> None:
        self.process, self.directory = process, directory

    def notes(self) -> list[str]:
        """What its steps have said."""
        file = self.directory / "notes"
        return file.read_text().split() if file.exists() else []

    def until(self, note: str) -> None:
        """Wait for a step to say this."""
        ends_s = time.monotonic() + WAIT_S
        while note not in self.notes():
            assert time.monotonic() < ends_s and self.process.poll() is None, f"nobody noted {note}"
            time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and what it said."""
        said, errors = self.process.communicate(timeout=WAIT_S)
        assert "Traceback" not in errors, errors
        return self.process.returncode, said


@contextmanager
def serving(directory: Path, grace_s: float) -> Iterator[ServerProcess]:
    """A server that has joined its store."""
    (directory / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", str(grace_s)]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield ServerProcess(process, directory)
        finally:
            process.kill()


def post(directory: Path, takes_s: float, sync: bool) -> None:
    """Start the execution, before anybody serves."""

    async def start() -> None:
        store = open_store(f"sqlite:///{directory}/here.db")
        begin = messages.encode_message(messages.StartMessage(1, values.encode([[takes_s, sync], {}], "input")))
        _ = await store.commit([Post(messages=(OutgoingMessage(KEY, "start", begin, opens=NewExecution("two@1", KEY)),))])
        await store.close()

    asyncio.run(start())


def remembered(directory: Path) -> list[e.Event]:
    """The log, once nobody serves any more."""

    async def read() -> list[e.Event]:
        store = open_store(f"sqlite:///{directory}/here.db")
        found = await store.read(KEY)
        await store.close()
        assert found is not None
        return log_format.decode_rows(found.payloads)

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("number", "sync"),
    [
        pytest.param(signal.SIGTERM, False, id="SIGTERM, async step"),
        pytest.param(signal.SIGINT, True, id="SIGINT, sync step"),
        pytest.param(signal.SIGTERM, True, id="SIGTERM, sync step", marks=pytest.mark.prove),
        pytest.param(signal.SIGINT, False, id="SIGINT, async step", marks=pytest.mark.prove),
    ],
)
def test_told_to_stop_it_ends_what_is_in_flight_and_the_next_goes_on_from_there(tmp_path: Path, number: int, sync: bool) -> None:
    post(tmp_path, 0.5, sync)
    with serving(tmp_path, 20.0) as server:
        server.until("began")
        server.process.send_signal(number)
        assert server.end() == (0, "left in good order\n")
        assert server.notes()[:2] == ["began", "ended"]
    with serving(tmp_path, 20.0) as server:
        server.until("queued")
        ends_s = time.monotonic() + WAIT_S
        server.process.send_signal(number)
        assert server.end()[0] == 0 and time.monotonic() < ends_s
    assert server.notes() == ["began", "ended", "queued"]
    assert not any(isinstance(event, e.InterruptedEvent) and not event.given_back for event in remembered(tmp_path))


@pytest.mark.parametrize("sync", [False, True], ids=["async step", "sync step"])
def test_told_twice_it_stops_at_once_and_the_step_runs_again_uncounted(tmp_path: Path, sync: bool) -> None:
    post(tmp_path, 60.0, sync)
    with serving(tmp_path, 60.0) as server:
        server.until("began")
        began_s = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == (0, "left in good order\n")
        assert time.monotonic() - began_s < 20
    assert [event.given_back for event in remembered(tmp_path) if isinstance(event, e.InterruptedEvent)] == [True]


def test_a_step_that_outlasts_the_grace_is_given_back(tmp_path: Path) -> None:
    post(tmp_path, 60.0, False)
    with serving(tmp_path, 0.2) as server:
        server.until("began")
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == (0, "left in good order\n")
    assert server.notes() == ["began"]
    assert [event.given_back for event in remembered(tmp_path) if isinstance(event, e.InterruptedEvent)] == [True]


@workflow
async def idle(ctx: Context) -> None:
    """Ends at once."""


@pytest.mark.parametrize(("is_there_first", "grace_s"), [(False, 600.0), (True, 0.5)], ids=["from the start", "after it was ready"])
def test_it_stops_while_its_store_is_unavailable(monkeypatch: pytest.MonkeyPatch, is_there_first: bool, grace_s: float) -> None:
    monkeypatch.setattr(server, "CUT_OFF_S", 0.3)

    async def served() -> float:
        loop, unavailable = asyncio.get_running_loop(), Faults(fail_before=1.0)
        store = FaultyStore(MemoryStore(), Random(0), NO_FAULTS if is_there_first else unavailable)

        def break_store(_: object) -> None:
            store.faults = unavailable

        _ = loop.call_later(1.5, os.kill, os.getpid(), signal.SIGTERM)
        began_s = loop.time()
        await server.serve([idle.code], queues=["mails"], db=store, grace_s=grace_s, ready=break_store)
        return loop.time() - began_s

    assert asyncio.run(asyncio.wait_for(served(), 20.0)) < 10


def test_it_stops_while_its_store_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CUT_OFF_S", 0.3)
    monkeypatch.setattr(holder, "LEAVE_S", 0.3)

    class SilentStore(FaultyStore):
        """Answers nothing any more once it is told to."""

        is_silent = False

        async def renew(self, *given: Any, **options: Any) -> Any:
            """See `Store.renew`."""
            while self.is_silent:
                await asyncio.sleep(1.0)
            return await super().renew(*given, **options)

    async def served() -> float:
        loop, store = asyncio.get_running_loop(), SilentStore(MemoryStore(), Random(0), NO_FAULTS)

        def silence(_: object) -> None:
            store.is_silent = True

        _ = loop.call_later(1.5, os.kill, os.getpid(), signal.SIGTERM)
        began_s = loop.time()
        await server.serve([idle.code], db=store, grace_s=0.5, ready=silence)
        return loop.time() - began_s

    assert asyncio.run(asyncio.wait_for(served(), 20.0)) < 10
