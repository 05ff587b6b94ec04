"""Claims about the steps of an execution as they are read with their inputs and outputs."""

from pathlib import Path

import pytest

from perdure import App, Context, ExecutionFailed, step, workflow


@step
async def reserve(item: str, pieces: int) -> str:
    return f"r-{item}"


@reserve.undo
async def release(reservation: str, item: str, pieces: int) -> None:
    """Gives back what was reserved."""


@workflow
async def booked(ctx: Context) -> None:
    await ctx.step(reserve, "tea", pieces=2)
    raise ValueError("no seat is left")


async def test_the_input_of_an_undo_is_the_result_and_the_arguments_of_its_step(tmp_path: Path) -> None:
    async with App([booked], db=f"sqlite:///{tmp_path}/undo.db") as app:
        handle = await app.start(booked.with_(id="b"))
        with pytest.raises(ExecutionFailed):
            await handle.result(timeout="10s")
        undone = [one for one in await handle.attempts() if one.kind == "call" and one.path != "reserve"]
        assert [one.state for one in undone] == ["completed"]
        given = undone[0].decoded_input()
        assert given is not None and (given.args, given.kwargs) == (("r-tea", "tea"), {"pieces": 2})
