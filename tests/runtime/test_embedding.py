"""Claims about programs that use Perdure as one library among others: what they print, their event loops, their threads and Ctrl-C stay theirs."""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from perdure import Context, shared_engines, step, workflow
from perdure.core import events as e
from perdure.core.paths import Key
from tests.runtime.printing_script import HURRY, greet, slow
from tests.runtime.processes import WAIT_S, ProcessDirectory, until

pytestmark = pytest.mark.slow

TICK_S, TICKS_MIN = 0.01, 10
KEY = Key("default", "greet", "k")
SAID = ["the workflow begins", "in a step", "the workflow goes on"]


@step
async def which_loop(takes_s: float) -> str:
    """The kind of loop that the step runs on."""
    await asyncio.sleep(takes_s)
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


@workflow
async def looking(ctx: Context, takes_s: float) -> list[str]:
    """Ask twice."""
    return [await ctx.step(which_loop, takes_s), await ctx.step(which_loop, 0.0)]


def test_what_a_program_prints_comes_as_it_is_and_nothing_else(tmp_path: Path) -> None:
    with ProcessDirectory(tmp_path) as stage:
        script = stage.begin("tests.runtime.printing_script", "k", "slow", 0.0)
        assert script.until_ended() == 0
        assert (script.said.splitlines(), script.complained) == ([*SAID, "slow", "['Hello Ada', 'slow']"], "")


@pytest.mark.parametrize("how", ["slow", "blocking"])
def test_ctrl_c_gives_back_what_is_in_flight_and_the_same_id_goes_on(tmp_path: Path, how: str) -> None:
    stage = ProcessDirectory(tmp_path)
    with contextlib.ExitStack() as ending:
        script = stage.begin("tests.runtime.printing_script", "k", how, 600.0)
        ending.callback(script.destroy)
        script.until_said(how)
        asked_s = time.monotonic()
        script.send(signal.SIGINT)
        assert script.until_ended() == -signal.SIGINT
        assert time.monotonic() - asked_s < WAIT_S / 2
        assert script.complained.splitlines()[-1] == "KeyboardInterrupt"
        events = stage.histories()[KEY].events
        assert [event.given_back for event in events if isinstance(event, e.InterruptedEvent)] == [True]
        (tmp_path / HURRY).touch()
        again = stage.begin("tests.runtime.printing_script", "k", how, 600.0)
        ending.callback(again.destroy)
        assert again.until_ended() == 0
        assert again.said.splitlines()[-1] == f"['Hello Ada', '{how}']"
        assert "in a step" not in again.said


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def test_executions_run_in_the_loop_that_runs_beside_its_other_tasks(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    unhandled = list[Any]()
    monkeypatch.setattr(shared_engines, "IDLE_S", 0.1)
    url = f"sqlite:///{tmp_path}/perdure.db"

    async def program() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        ticks = list[float]()

        async def tick() -> None:
            while True:
                await asyncio.sleep(TICK_S)
                ticks.append(loop.time())

        ticking = asyncio.create_task(tick())
        kind = type(loop).__module__.partition(".")[0]
        results = await asyncio.gather(*(looking.with_(id=str(number), db=url).arun(0.5) for number in range(4)))
        assert results == [[kind, kind]] * 4
        assert len(ticks) >= TICKS_MIN
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
        async with asyncio.timeout(WAIT_S):
            while asyncio.all_tasks() != {asyncio.current_task()}:  # until the idle engine has ended
                await asyncio.sleep(TICK_S)
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(program())
    assert unhandled == []


def test_run_in_threads_while_a_loop_runs_in_the_main_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_engines, "IDLE_S", 0.5)
    url = f"sqlite:///{tmp_path}/perdure.db"
    before = {thread.name for thread in threading.enumerate()}

    async def program() -> None:
        runs = [asyncio.to_thread(looking.with_(id=str(number % 3), db=url).run, 0.1) for number in range(6)]
        assert await asyncio.gather(*runs) == [["asyncio", "asyncio"]] * 6

    asyncio.run(program())
    until(lambda: {thread.name for thread in threading.enumerate() if "perdure-lease" in thread.name or "perdure-step" in thread.name} <= before, "threads end")


async def test_cancelled_in_a_running_loop_it_gives_back_and_goes_on_when_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ProcessDirectory(tmp_path) as stage:
        running = asyncio.create_task(greet.with_(id="k", db=stage.url).arun("Ada", "slow", 60.0))
        async with asyncio.timeout(60):
            while slow.name not in capsys.readouterr().out.split():
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        history = (await asyncio.to_thread(stage.histories))[KEY]
        assert history.head.holder is None
        assert [event.given_back for event in history.events if isinstance(event, e.InterruptedEvent)] == [True]
