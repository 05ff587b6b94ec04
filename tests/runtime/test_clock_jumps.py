"""Claims about a system clock that is set in mid-run, by an hour either way: nobody is late, nobody dies, and time goes on for all alike."""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from perdure.core import events as e
from perdure.sync_client import Client
from tests.runtime.flows import patient, ticking
from tests.runtime.kill_storm import is_sound
from tests.runtime.processes import ProcessDirectory, RealProcess, RecordedEffect, record, until
from tests.runtime.shifted_clock import set_clock

HOUR_S = 3600.0
LEASE_S = 1.5
EVERY_S, TICKS, TICKING = 1.0, 4, 12
JUMP_EVERY_S = 1.7
"""When the clock is set, so that it is in the middle of a sleep."""

LATE_S_MAX = 2.0
"""How late a step may begin after its sleep on a slow machine, besides the tenth by which the store's time may be slow."""

AGREE_S = 0.6
"""By how much two processes may differ on what time it is, and how long it takes them to tell."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ProcessDirectory]:
    with ProcessDirectory(tmp_path) as stage:
        set_clock(tmp_path, 0.0)
        yield stage


def told(process: RealProcess) -> tuple[float, float]:
    """What a teller has said last: the monotonic time, and the store's."""
    lines = process.said.splitlines(keepends=True)
    monotonic_s, now_s = [line for line in lines if line.endswith("\n")][-1].split()
    return float(monotonic_s), float(now_s)


def disagreement_s(one: RealProcess, other: RealProcess) -> float:
    """How far apart two tellers are by now."""
    monotonic_s = time.monotonic()
    until(lambda: min(told(one)[0], told(other)[0]) > monotonic_s, "both tell the time")
    (at_s, one_s), (other_at_s, other_s) = told(one), told(other)
    return abs((one_s - at_s) - (other_s - other_at_s))


def gaps_s(effects: list[RecordedEffect]) -> list[float]:
    """How long each execution took from one step to the next."""
    began = dict[str, list[float]]()
    for effect in effects:
        if effect.event == "began" and "/ticking/" in effect.key:
            began.setdefault(effect.key.partition(":")[0], []).append(effect.at_s)
    assert [len(times) for times in began.values()] == [TICKS] * TICKING
    return [after_s - before_s for times in began.values() for before_s, after_s in pairwise(times)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "jumps",
    [
        pytest.param((HOUR_S,), id="forward", marks=pytest.mark.prove),
        pytest.param((-HOUR_S,), id="back"),
        pytest.param((HOUR_S, 0.0), id="forward and back", marks=pytest.mark.prove),
        pytest.param((-HOUR_S, 0.0), id="back and forward", marks=pytest.mark.prove),
    ],
)
def test_a_clock_that_jumps_delays_nobody_kills_nobody_and_turns_no_time_back(stage: ProcessDirectory, jumps: tuple[float, ...]) -> None:
    engines = [stage.member("leased", shifted=True, lease_s=LEASE_S) for _ in range(2)]
    for engine in engines:
        engine.until_said("ready")
    running = stage.member("teller", shifted=True)
    with Client(stage.url) as client:
        before = {view.name for view in client.engines()}
        long = client.start(patient.with_(id="long"), "loop", JUMP_EVERY_S * len(jumps) + LEASE_S)
        handles = [client.start(ticking.with_(id=str(number)), EVERY_S, TICKS) for number in range(TICKING)]
        for offset_s in jumps:
            time.sleep(JUMP_EVERY_S)
            set_clock(stage.directory, offset_s)
        fresh = stage.member("teller", shifted=True)
        until(lambda: fresh.said.endswith("\n"), "it tells the time")
        apart_s = disagreement_s(running, fresh)
        assert [handle.result(timeout="60s") for handle in handles] == [TICKS] * TICKING
        assert len(long.result(timeout="60s")) == 21
        assert {view.name for view in client.engines() if view.alive} == before
        late = stage.member("leased", shifted=True, lease_s=LEASE_S)
        late.until_said("ready")
        for engine in engines:
            engine.end()
        assert client.run(ticking.with_(id="late"), 0.1, 1) == 1
    effects = [effect for effect in stage.effects() if "/late:" not in effect.key]
    latest_s = max(gaps_s(effects)) - EVERY_S
    record(f"the clock set by {', '.join(f'{offset_s:+g} s' for offset_s in jumps)}: processes {apart_s:.3f} s apart, timers {latest_s:.3f} s late at most")
    assert latest_s < EVERY_S / 9 + LATE_S_MAX
    assert apart_s < AGREE_S
    assert all(effect.attempt == 1 for effect in effects)
    histories = sorted(stage.histories().values(), key=lambda history: history.head.key.id == "late")
    for history in histories:
        is_sound(history)
        assert not any(isinstance(event, e.InterruptedEvent) for event in history.events)
    assert histories[-1].head.created_at_s >= max(history.head.ended_at_s or 0.0 for history in histories[:-1]) - AGREE_S
