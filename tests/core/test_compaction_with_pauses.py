"""Claims about logs with pauses in them: compacted, they still replay, whatever came while the execution was paused."""

import asyncio
from typing import Any

import pytest

from perdure import Context, step
from perdure.code.context import new_code_program
from perdure.core import log_format
from perdure.core import messages as m
from perdure.core.compaction import compact_log
from perdure.core.execution import Execution
from perdure.core.paths import path_text
from perdure.core.replay import replay_program
from tests.code.decision_driver import Hand, drive

TURNS = 7
GATE = 2
"""The turn that lets the other branch go on."""


@step
async def echo(value: Any) -> Any:
    return value


async def beside_each_other(ctx: Context) -> list[Any]:
    """A loop whose turns are forgotten, with nothing else going on."""

    async def turns(c: Context) -> None:
        async for turn in c.loop("turns", state=0, keep=1):
            await turn.step(echo, turn.number)
            if turn.number == TURNS - 1:
                return

    async def waits(c: Context) -> Any:
        return await c.step("alive", echo, "alive")

    return [dict(await ctx.join(turns=turns, waits=waits))]


async def because_of_each_other(ctx: Context) -> list[Any]:
    """The same, with a branch that goes on because of a turn of the loop."""
    gate = asyncio.Event()

    async def turns(c: Context) -> None:
        async for turn in c.loop("turns", state=0, keep=1):
            await turn.step(echo, turn.number)
            if turn.number == GATE:
                gate.set()
            if turn.number == TURNS - 1:
                return

    async def waits(c: Context) -> Any:
        await gate.wait()
        return await c.step("alive", echo, "alive")

    return [dict(await ctx.join(turns=turns, waits=waits))]


def paused_in(turn: int, workflow: Any) -> Hand:
    """The workflow, paused while the step of a turn was in flight, and resumed after it had ended; the loop has come to its end."""
    hand = Hand(workflow).start()
    while going := [pending.path for pending in hand.execution.opened.performing() if "alive" not in path_text(pending.path)]:
        if f"~{turn}" in path_text(going[0]):
            hand.tell(m.PauseMessage())
        hand.settle(going[0])
        hand.tell(m.ResumeMessage())
    return hand


def replays_compacted(hand: Hand) -> bool:
    """Whether the log can be compacted; it must then replay."""
    compacted = compact_log(hand.key, [log_format.encode_row(hand.log)], archive=False)
    if compacted is None:
        return False
    execution, instance = Execution(hand.key), new_code_program(hand.workflow, hand.key)
    diverged = drive(replay_program(execution, compacted.events, instance), hand.blobs)
    instance.close()
    assert diverged is None, diverged
    return True


@pytest.mark.parametrize("turn", range(TURNS + 1))
def test_a_log_with_a_pause_in_a_forgotten_turn_replays_when_it_is_compacted(turn: int) -> None:
    hand = paused_in(turn, beside_each_other)
    assert replays_compacted(hand) or turn == TURNS - 3


@pytest.mark.parametrize("turn", range(TURNS + 1))
def test_a_log_with_a_pause_replays_compacted_though_something_else_went_on_because_of_a_forgotten_turn(turn: int) -> None:
    replays_compacted(paused_in(turn, because_of_each_other))
