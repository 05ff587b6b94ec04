"""Whether the tool of a definition runs again after an interruption or a timeout: only where that is declared."""

import asyncio
from typing import Any

import pytest

from perdure import Definition, ExecutionFailed, Retry, step
from perdure.core import events, log_format
from perdure.core.operations import CallOperation
from perdure.testing import World


def called(tool: Any, **more: Any) -> Definition:
    """A definition with one step of a tool."""
    return Definition.of({"perdure": 1, "name": "it", "steps": [{"id": "a", "tool": "work", **more}]}, tools={"work": tool})


def plain() -> int:
    return 1


async def written(_: Any) -> None:
    """Stands for what a transaction writes."""


@pytest.mark.parametrize(
    ("tool", "more", "repeats"),
    [
        (plain, {}, False),
        (step(plain), {}, False),
        (step(idempotent=False)(plain), {}, False),
        (step(idempotent=True)(plain), {}, True),
        (plain, {"idempotent": True}, True),
        (step(idempotent=False)(plain), {"idempotent": True}, True),
        (step(idempotent=True)(plain), {"idempotent": False}, False),
    ],
)
def test_a_tool_may_run_again_only_where_that_is_declared(world: World, tool: Any, more: dict[str, Any], repeats: bool) -> None:
    run = world.start(called(tool, **more))
    assert run.result() == 1
    found = world.machine.read(run.key)
    assert found is not None
    (op,) = [one.op for one in log_format.decode_rows(found.payloads) if isinstance(one, events.OpenedEvent) and isinstance(one.op, CallOperation)]
    assert op.idempotent is repeats


@pytest.mark.parametrize("declared", [True, False, None])
def test_a_timeout_is_tried_again_only_where_that_is_declared_and_an_error_always(world: World, declared: bool | None) -> None:
    tries = list[str]()

    async def late() -> None:
        tries.append("late")
        await asyncio.sleep(60)

    async def fails() -> None:
        tries.append("fails")
        raise OSError("the line is busy")

    for work in (late, fails):
        declared_step = step(work) if declared is None else step(idempotent=declared)(work)
        it = Definition.of(
            {"perdure": 1, "name": work.__name__, "steps": [{"id": "a", "tool": "work", "timeout": "1s", "retry": {"max": 3, "wait": "1s"}}]},
            tools={"work": declared_step},
        )
        with pytest.raises(ExecutionFailed) as failed:
            world.run(it)
        if work is late:
            assert ("not declared idempotent, so it was not run again" in str(failed.value)) is (declared is not True)
    assert tries.count("late") == (3 if declared else 1) and tries.count("fails") == 3


def test_code_runs_a_step_again_unless_it_declares_otherwise() -> None:
    assert [one.may_repeat for one in (step(plain), step(idempotent=True)(plain), step(idempotent=False)(plain))] == [True, True, False]
    assert [one.declares_repeat for one in (step(plain), step(transaction=True)(written), step(idempotent=False, retry=Retry())(plain))] == [False, True, False]
