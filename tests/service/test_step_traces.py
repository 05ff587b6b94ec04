"""Claims about the steps of an execution as they are read with their inputs and outputs."""

from pathlib import Path

import pytest

from perdure import App, Context, Definition, ExecutionFailed, step, workflow


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


@step
async def count(n: int) -> int:
    return n + 1


async def test_a_loop_of_a_definition_has_the_output_of_its_last_passage(tmp_path: Path) -> None:
    again = {"while": {"ref": "@self", "lt": 3}, "max": 9}
    inner = {"id": "inner", "tool": "count", "with": {"n": "@item"}}
    steps = [{"id": "laps", "tool": "count", "with": {"n": "@index"}, "repeat": again}, {"id": "each", "each": {"in": [5, 6]}, "do": [inner]}]
    counting = Definition.of({"perdure": 1, "name": "laps", "order": "listed", "steps": steps}, tools=[count])
    async with App([counting], db=f"sqlite:///{tmp_path}/laps.db") as app:
        handle = await app.start(counting.with_(id="l"))
        await handle.result(timeout="10s")
        seen = {one.path: one.decoded_output() for one in await handle.attempts()}
    assert seen["laps"] == 3 and seen["laps/~1"] == 2 and seen["each"] == [6, 7]
    assert [value for path, value in seen.items() if path.endswith("inner")] == [6, 7]
