"""Claims about processes that share a file: each does its part, and what one leaves behind, however it goes, another takes over at once or in time."""

import asyncio
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.core import events as e
from perdure.core.paths import Key
from perdure.sync_client import AsyncClient, Client
from tests.runtime.flows import LARGE_BYTES, hearing, patient, where
from tests.runtime.kill_storm import every_try_was_announced, is_sound
from tests.runtime.processes import History, ProcessDirectory, RealProcess, record, seeded, until
from tests.sampling import some

LEASE_S = 1.0
TAKEOVER_S = 2.0
"""How soon after a kill the first step begins elsewhere, on a slow machine; the lease is 15 s."""

LONG_LEASE_S = 15.0
KEY = Key("default", "patient", "k")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ProcessDirectory]:
    with ProcessDirectory(tmp_path) as stage:
        yield stage


@pytest.fixture
def client(stage: ProcessDirectory) -> Iterator[Client]:
    with Client(stage.url) as client:
        yield client


def ready(stage: ProcessDirectory, **settings: Any) -> RealProcess:
    """A member that has joined."""
    member = stage.member("leased", **settings)
    member.until_said("ready")
    return member


def begun(stage: ProcessDirectory, step: str, process: RealProcess, attempt: int | None = None) -> float:
    """Wait until a step has begun in a process (in this try); return when it did."""

    def found() -> list[float]:
        return [
            effect.at_s
            for effect in stage.effects()
            if effect.event == "began" and effect.key.endswith(f":{step}") and effect.process == process.pid and attempt in (None, effect.attempt)
        ]

    until(found, f"{step} begins in {process.name}")
    return found()[0]


def stop(stage: ProcessDirectory, process: RealProcess) -> None:
    """Stop a process, though not in the middle of a transaction, which would stop everybody until it goes on."""
    with closing(sqlite3.connect(stage.file, isolation_level=None, timeout=0.5)) as database:
        while True:
            process.send(signal.SIGSTOP)
            try:
                database.execute("BEGIN IMMEDIATE")
                database.execute("ROLLBACK")
                return
            except sqlite3.OperationalError:
                process.send(signal.SIGCONT)


def did(stage: ProcessDirectory, process: RealProcess, id: str) -> list[str]:
    """What a process did in the steps of one execution: what it comes back to may end, in vain, or be given up."""
    return [effect.event for effect in stage.effects() if effect.process == process.pid and f"/{id}:" in effect.key]


def history(stage: ProcessDirectory, key: Key = KEY) -> History:
    """What is remembered of an execution."""
    return stage.histories()[key]


def interruptions(found: History) -> list[e.InterruptedEvent]:
    """The interruptions of its tries."""
    return [event for event in found.events if isinstance(event, e.InterruptedEvent)]


HEARING, WORDS = 250, 6


async def tell_all(url: str) -> None:
    """Start executions and send each of them word after word, while they listen."""
    async with AsyncClient(url) as client:
        handles = [await client.start(hearing.with_(id=str(number)), WORDS) for number in range(HEARING)]
        for number in range(WORDS):
            word = "x" * (LARGE_BYTES if number == 3 else 10)
            _ = await asyncio.gather(*(handle.send("word", word) for handle in handles))
            await asyncio.sleep(0.02)
        assert [len(await handle.result(timeout="60s")) for handle in handles] == [WORDS] * HEARING


@pytest.mark.prove
def test_engines_share_the_work_and_none_does_what_another_does(stage: ProcessDirectory) -> None:
    engines = [ready(stage, lease_s=LONG_LEASE_S) for _ in range(3)]
    asyncio.run(tell_all(stage.url))
    effects = stage.effects()
    assert {effect.process for effect in effects} == {engine.pid for engine in engines}
    began = Counter(effect.key for effect in effects if effect.event == "began")
    assert len(began) == HEARING * WORDS
    assert {key: times for key, times in began.items() if times > 1} == {}
    assert [interruptions(found) for found in stage.histories().values()] == [[]] * HEARING


@pytest.mark.slow
@pytest.mark.parametrize("how", some(["loop", "thread"], 1))
def test_an_engine_that_was_stopped_past_its_lease_finds_its_work_done_by_another_and_goes_on_with_other_work(
    stage: ProcessDirectory, client: Client, how: str
) -> None:
    first = ready(stage, lease_s=LEASE_S)
    handle = client.start(patient.with_(id="k"), how, 1.5)
    step = {"loop": "slow", "thread": "slow_in_a_thread"}[how]
    _ = begun(stage, step, first)
    stop(stage, first)
    second = ready(stage, lease_s=LEASE_S)
    _ = begun(stage, step, second)
    _ = begun(stage, "where", second)
    first.send(signal.SIGCONT)
    assert handle.result(timeout="60s") == [second.pid] * 21
    second.end()
    assert client.run(patient.with_(id="another"), how, 0.0) == [first.pid] * 21
    first.end()
    assert did(stage, first, "k") in (["began"], ["began", "ended"])
    is_sound(history(stage))
    assert [event.given_back for event in interruptions(history(stage))] == [False]


@pytest.mark.prove
def test_a_worker_that_was_stopped_past_its_lease_answers_in_vain_and_goes_on_with_other_work(stage: ProcessDirectory, client: Client) -> None:
    _ = ready(stage, lease_s=LONG_LEASE_S)
    first = ready(stage, lease_s=LEASE_S, engine=False, worker=True)
    handle = client.start(patient.with_(id="k"), "queue", 1.5)
    _ = begun(stage, "slow_on_a_queue", first)
    stop(stage, first)
    second = ready(stage, lease_s=LEASE_S, engine=False, worker=True)
    _ = begun(stage, "slow_on_a_queue", second)
    until(lambda: sum(effect.event == "ended" and effect.process == second.pid for effect in stage.effects()) == 1, "the second has done it")
    _ = until(lambda: client.get(KEY).status().settled >= 1, "its answer counts")
    first.send(signal.SIGCONT)
    assert handle.result(timeout="60s")[0] == second.pid
    second.end()
    assert client.run(patient.with_(id="another"), "queue", 0.0)[0] == first.pid
    first.end()
    assert did(stage, first, "k") in (["began"], ["began", "ended"])
    is_sound(history(stage))


@pytest.mark.slow
@pytest.mark.parametrize("how", some(["loop", "thread", "queue"], 1))
def test_the_death_of_a_process_is_noticed_at_once(stage: ProcessDirectory, client: Client, how: str) -> None:
    on_queue = how == "queue"
    if on_queue:
        _ = ready(stage, lease_s=LONG_LEASE_S)
    first, second = (ready(stage, lease_s=LONG_LEASE_S, engine=not on_queue, worker=on_queue) for _ in range(2))
    handle = client.start(patient.with_(id="k"), how, 0.5)
    step = {"loop": "slow", "thread": "slow_in_a_thread", "queue": "slow_on_a_queue"}[how]
    until(lambda: stage.effects(), "the step begins")
    (began,) = stage.effects()[:1]
    victim, heir = (first, second) if began.process == first.pid else (second, first)
    killed_s = time.monotonic()
    victim.send(signal.SIGKILL)
    took_s = begun(stage, step, heir) - killed_s
    record(f"step {how}: {took_s * 1000:.0f} ms from kill -9 to its next try in another process (lease {LONG_LEASE_S:g} s)")
    assert took_s < TAKEOVER_S
    assert handle.result(timeout="60s")[0] == heir.pid


@pytest.mark.prove
def test_engines_that_are_frozen_past_their_leases_again_and_again_do_no_harm(stage: ProcessDirectory, client: Client) -> None:
    engines = [ready(stage, lease_s=0.5) for _ in range(2)]
    handles = [client.start(patient.with_(id=str(number)), "loop", 0.1 * (number % 10)) for number in range(24)]
    with seeded(3) as draw:
        for _ in range(5):
            frozen = draw.choice(engines)
            frozen.send(signal.SIGSTOP)
            time.sleep(draw.uniform(0.4, 1.0))
            frozen.send(signal.SIGCONT)
            time.sleep(draw.uniform(0, 0.2))
        for handle in handles:
            assert len(handle.result(timeout="60s")) == 21
        histories = stage.histories()
        for found in histories.values():
            is_sound(found)
        until(lambda: len(stage.effects()) % 2 == 0, "what was frozen in a step ends it")
        every_try_was_announced(stage.effects(), histories)
    assert {effect.key.partition(":")[2].partition("#")[0] for effect in stage.effects()} == {"slow", where.name}
