"""Claims about kill -9: a process that dies at any instant, again and again, runs no settled step twice and comes to the same end."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from perdure.core import events as e
from perdure.core import log_format
from perdure.core.operations import CallOperation
from perdure.core.paths import Key, idempotency_key
from perdure.stores.configured_store import open_store

KEY = Key("default", "story", "k")
LAPS = 8
KILLS_MAX = 30
"""So many kills at most, so that a slow machine comes to the end as well."""

KILL_AFTER_LINES_MAX, KILL_LATER_MAX_S = 12, 0.03
"""It is killed when its steps have said so many lines at most, and a moment later."""

RUN_S_MAX = 60.0

PROGRAM = """
import json, os, sys, time
from typing import Any
from perdure import Context, Retry, step, step_info, workflow

def note(event: str) -> None:
    line = json.dumps({"event": event, "key": step_info().key, "process": os.getpid()}) + "\\n"
    file = os.open("effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.fsync(file)
    os.close(file)

def failed_before() -> bool:
    with open("effects") as file:
        return any(json.loads(line)["event"] == "failed" and json.loads(line)["key"] == step_info().key for line in file)

@step
def add(one: int, other: int) -> int:
    note("began")
    time.sleep(0.005)
    note("ended")
    return one + other

@step
async def plain(number: int) -> int:
    note("began")
    note("ended")
    return number * 2

@step(retry=Retry(max=3, wait="20ms", jitter=0))
def unsteady(number: int) -> int:
    note("began")
    if not failed_before():
        note("failed")
        raise ConnectionError("at first")
    note("ended")
    return -number

async def left(ctx: Context) -> int:
    total = await ctx.step(add, 1, 2)
    await ctx.sleep("30ms")
    return await ctx.step(unsteady, total)

async def right(ctx: Context) -> list[int]:
    return await ctx.map(lambda c, number: c.step(plain, number), [1, 2, 3, 4])

@workflow
async def half(ctx: Context, number: int) -> float:
    return (await ctx.step(add, number, 0)) / 2

@workflow
async def story(ctx: Context, laps: int) -> list[Any]:
    first = await ctx.step(add, 20, 22)
    both = await ctx.join(left, right)
    async for turn in ctx.loop("laps", state=0):
        turn.state = await turn.step(add, turn.state, turn.number)
        if turn.number % 3 == 0:
            await turn.sleep("10ms")
            turn.state = await turn.step(unsteady, turn.state)
        if turn.number == laps:
            break
    child = await ctx.call(half, first)
    large = await ctx.step(plain, 7)
    return [first, both, turn.state, child, large]

print(json.dumps(story.with_(id="k").run(int(sys.argv[1]))))
"""


class KilledWorkflow:
    """A workflow that runs in processes of its own, on a file in a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        (directory / "program.py").write_text(PROGRAM)

    def run(self, kill: Callable[[], bool] | None = None) -> list[Any] | None:
        """Begin, or go on; return the result, or None if it was killed before: once `kill` says so."""
        command = [sys.executable, "program.py", str(LAPS)]
        with subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            if kill is not None:
                kill_when(process, kill)
            said, errors = process.communicate(timeout=RUN_S_MAX)
        if process.returncode == -signal.SIGKILL and not said:
            return None
        assert process.returncode in (0, -signal.SIGKILL) and not errors, errors
        result: list[Any] = json.loads(said)
        return result

    def moment(self, draw: random.Random) -> Callable[[], bool]:
        """A drawn moment: some lines further, and a little later."""
        lines = len(self.effects()) + draw.randrange(1, KILL_AFTER_LINES_MAX)
        later_s, ends_s = draw.uniform(0, KILL_LATER_MAX_S), [inf]

        def due() -> bool:
            if ends_s[0] == inf and len(self.effects()) >= lines:
                ends_s[0] = time.monotonic() + later_s
            return time.monotonic() >= ends_s[0]

        return due

    def effects(self) -> list[dict[str, Any]]:
        """What the steps have done, in order; each line is whole, being one write."""
        file = self.directory / "effects"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def logs(self) -> dict[Key, list[e.Event]]:
        """What is remembered of the execution and its child."""
        return asyncio.run(self._logs())

    async def _logs(self) -> dict[Key, list[e.Event]]:
        store = open_store(f"sqlite:///{self.directory}/.perdure/perdure.db")
        try:
            found = {head.key: await store.read(head.key) for head in await store.heads()}
        finally:
            await store.close()
        return {key: log_format.decode_rows(one.payloads) for key, one in found.items() if one is not None}

    def settled(self) -> Counter[str]:
        """The keys of the steps that have settled, and how often."""
        found = Counter[str]()
        for key, events in self.logs().items():
            calls = {event.path for event in events if isinstance(event, e.OpenedEvent) and isinstance(event.op, CallOperation)}
            found.update(idempotency_key(key, event.path) for event in events if isinstance(event, e.SettledEvent) and event.path in calls)
        return found


def kill_when(process: "subprocess.Popen[str]", due: Callable[[], bool]) -> None:
    """Kill a process once it is due, if it lives so long."""
    while process.poll() is None:
        if due():
            process.kill()
            return
        time.sleep(0.002)


class Unkilled(NamedTuple):
    """A run that nobody disturbed: its result, and the keys of the steps that it ran."""

    result: list[Any]
    ended: set[str]


def killed_again_and_again(story: KilledWorkflow, seed: int) -> tuple[list[Any], int]:
    """Kill it at drawn moments until it is done, and hold it to its claims meanwhile; return the result and the number of kills."""
    draw = random.Random(seed)
    settled, seen, kills = Counter[str](), 0, 0
    while True:
        result = story.run(story.moment(draw) if kills < KILLS_MAX else None)
        effects = story.effects()
        began = Counter(effect["key"] for effect in effects[seen:] if effect["event"] == "began")
        again = settled.keys() & began.keys()
        assert not again, f"seed {seed}: settled before kill {kills}, and ran again: {sorted(again)}"
        now = story.settled()
        assert settled <= now, f"seed {seed}: forgotten by kill {kills}: {settled - now}"
        assert set(now.values()) <= {1}, f"seed {seed}: settled more than once: {now}"
        ended = {effect["key"] for effect in effects if effect["event"] == "ended"}
        assert now.keys() <= ended, f"seed {seed}: settled, and never done: {now.keys() - ended}"
        if result is not None:
            assert now.keys() == ended, f"seed {seed}: done, and not settled: {ended - now.keys()}"
            return result, kills
        settled, seen, kills = now, len(effects), kills + 1


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory: pytest.TempPathFactory) -> Unkilled:
    """See `Unkilled`."""
    story = KilledWorkflow(tmp_path_factory.mktemp("unkilled"))
    result = story.run()
    assert result is not None
    ended = [effect["key"] for effect in story.effects() if effect["event"] == "ended"]
    assert Counter(ended) == Counter(set(ended)) == story.settled()
    return Unkilled(result, set(ended))


def check(directory: Path, seed: int, unkilled: Unkilled) -> int:
    """Kill a story, and compare it with the undisturbed one; return the number of kills."""
    story = KilledWorkflow(directory)
    result, kills = killed_again_and_again(story, seed)
    assert (result, set(story.settled())) == unkilled, f"seed {seed}"
    assert story.run() == result, f"seed {seed}: run once more, it ends otherwise"
    return kills


@pytest.mark.slow
def test_killed_again_and_again_it_runs_no_settled_step_twice_and_ends_as_if_undisturbed(tmp_path: Path, unkilled: Unkilled) -> None:
    assert check(tmp_path / "story", 1, unkilled) >= 2


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(100, 150))
def test_killed_by_any_of_many_seeds_it_ends_as_if_undisturbed(seed: int, tmp_path: Path, unkilled: Unkilled) -> None:
    check(tmp_path / "story", seed, unkilled)
