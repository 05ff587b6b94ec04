"""Claims about executions that sleep: however many they are, they cost no memory once they have left it, nor time to begin with, and wake when they are due."""

import asyncio
import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from perdure.core import messages
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.stores.protocol import Post
from perdure.stores.sqlite.store import SqliteStore
from tests.runtime.flows import WOKEN, asleep
from tests.runtime.processes import ProcessDirectory, RealProcess, record, status, until

POSTED_AT_A_TIME = 1_000
LONG_S = 1e6
IDLE_S = 0.5

SLEEPER_KIB_MAX = 1.0
"""What one may leave in the engine that has put it to sleep: the store remembers the numbers of the last 100,000. In memory it would take 9 KiB at least."""

CACHES_KIB = 20 * 1024
"""What SQLite may keep of a large file in the caches of its connections, and the allocator of what has grown and shrunk."""

FRESH_KIB_MAX = 8 * 1024
"""By how much a process that begins on the file of sleepers may be larger than one that began on an empty one, however many they are."""

LATE_S_MAX, PARKED_S_MAX = 5.0, 300.0
"""How late 99 of 100 may wake on a slow and busy machine (tens of milliseconds on any other), and how long they may take to fall asleep."""

BEGIN_S = 3.0
"""How long after all of them should be asleep the first wakes."""

FRESH_S_MAX = 2.0
"""How much longer than on an empty file a process may take to begin, on a slow machine."""


def post(stage: ProcessDirectory, first: int, dues_s: Sequence[float]) -> None:
    """Start a sleeper for each of these times."""

    async def start() -> None:
        store = SqliteStore(stage.file)
        for begin in range(0, len(dues_s), POSTED_AT_A_TIME):
            sends = [_start(number, due_s) for number, due_s in enumerate(dues_s[begin : begin + POSTED_AT_A_TIME], first + begin)]
            await store.commit([Post(messages=tuple(sends))])
        await store.close()

    asyncio.run(start())


def _start(number: int, due_s: float) -> OutgoingMessage:
    key = asleep.key(str(number))
    message = messages.StartMessage(1, asleep.code.codec.encode_args((due_s,), {}, "the input"), number)
    return OutgoingMessage(key, "start", messages.encode_message(message), 0.0, NewExecution("asleep@1", key))


def memory_kib(engine: RealProcess) -> int:
    """What an engine takes when all executions that it has put to sleep have left its memory."""

    def nothing_is_there() -> bool:
        said = engine.said
        engine.process.send_signal(signal.SIGUSR1)
        until(lambda: len(engine.said) > len(said) and engine.said.endswith("\n"), "it says what is in memory")
        return engine.said.endswith("in memory: 0\n")

    until(nothing_is_there, "all executions have left its memory")
    return status(engine.pid, "VmRSS")


def begun(stage: ProcessDirectory) -> tuple[RealProcess, float]:
    """An engine that has just begun, and how long that took."""
    engine = stage.member("leased", lease_s=15.0, idle_s=IDLE_S)
    engine.until_said("ready")
    return engine, time.monotonic() - engine.began_s


def until_parked(stage: ProcessDirectory) -> None:
    """Wait until all of them sleep."""
    with closing(sqlite3.connect(f"file:{stage.file}?mode=ro", uri=True)) as database:
        pending = "SELECT EXISTS (SELECT 1 FROM heads WHERE status = 'pending' OR holder IS NOT NULL)"
        until(lambda: database.execute(pending).fetchone() == (0,), "all of them sleep", PARKED_S_MAX, every_s=0.1)


def woken_late_s(stage: ProcessDirectory) -> list[float]:
    """How late those were that have woken, in order."""
    file = stage.directory / WOKEN
    return sorted(map(float, file.read_text().splitlines())) if file.exists() else []


def sleep_and_wake(stage: ProcessDirectory, sleepers: int, woken: int, window_s: float) -> None:
    """Put many to sleep, some of which are due within a window that begins when all of them sleep, and hold the engines to their claims.

    About half come first, so that the memory in which the rest are for a while before they sleep was needed before.
    """
    engine, began_empty_s = begun(stage)
    empty_kib = memory_kib(engine)
    first_s = time.time()
    first = min(sleepers // 2, sleepers - woken)
    rest = sleepers - first
    post(stage, 0, [first_s + LONG_S] * first)
    until_parked(stage)
    begin_s = BEGIN_S + 2 * rest / first * (time.time() - first_s)
    some_kib = memory_kib(engine)
    first_s = time.time() + begin_s
    post(stage, first, [first_s + window_s * number / woken if number < woken else first_s + LONG_S for number in range(rest)])
    until_parked(stage)
    assert time.time() < first_s, "this machine is too slow: they are due before all of them sleep"
    all_kib = memory_kib(engine)
    fresh, began_s = begun(stage)
    fresh_kib = memory_kib(fresh)
    until(lambda: len(woken_late_s(stage)) >= woken, f"{woken} wake", begin_s + window_s + 60.0, every_s=0.1)
    late_s = woken_late_s(stage)
    record(
        f"{sleepers} sleepers: {(all_kib - some_kib) / rest:.2f} KiB each in the engine that put them to sleep; an engine that begins then takes "
        f"{fresh_kib / 1024:.1f} MiB and {began_s:.2f} s (on an empty file {empty_kib / 1024:.1f} MiB and {began_empty_s:.2f} s); of {woken} woken at "
        f"{woken / window_s:.0f} a second, half were {late_s[woken // 2] * 1000:.0f} ms late at most, 99 % {late_s[woken * 99 // 100] * 1000:.0f} ms"
    )
    assert len(late_s) == woken and late_s[0] >= 0
    assert late_s[woken * 99 // 100] < LATE_S_MAX
    assert all_kib - some_kib < rest * SLEEPER_KIB_MAX + CACHES_KIB
    assert fresh_kib - empty_kib < FRESH_KIB_MAX
    assert began_s - began_empty_s < FRESH_S_MAX


@pytest.mark.prove
def test_thousands_of_sleepers_cost_nothing_and_wake_in_time(tmp_path: Path) -> None:
    with ProcessDirectory(tmp_path) as stage:
        sleep_and_wake(stage, sleepers=5_000, woken=1_000, window_s=3.0)


@pytest.mark.prove
def test_a_hundred_thousand_sleepers_cost_nothing_and_wake_in_time(tmp_path: Path) -> None:
    with ProcessDirectory(tmp_path) as stage:
        sleep_and_wake(stage, sleepers=100_000, woken=60_000, window_s=240.0)
