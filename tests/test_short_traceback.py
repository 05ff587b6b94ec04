"""Claims about the traceback of a failed execution: the user's frames come first, and the engine's are left out."""

import asyncio
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import perdure
from perdure import Context, Retry, step, workflow
from perdure.code.exception_data import error_info
from perdure.testing.world import World

LIBRARY = perdure.__path__[0]

PROGRAM = """
from perdure import Context, Retry, step, workflow

@step(retry=Retry(max=1))
def charge(number):
    return inner(number)

def inner(number):
    raise ValueError("card declined")

@workflow
async def order(ctx: Context, number: int) -> int:
    return await helper(ctx, number)

async def helper(ctx, number):
    return await ctx.step(charge, number)

order.with_(db="memory:").run(5)
"""


@pytest.mark.slow
def test_the_traceback_of_a_failed_run_has_the_users_frames_and_none_of_the_engine(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(PROGRAM)
    said = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path).stderr
    frames = [line for line in said.splitlines() if line.lstrip().startswith("File ")]
    assert [line.rpartition(" in ")[2] for line in frames] == ["<module>", "order", "helper"], said
    assert all(str(file) in line for line in frames)


@workflow
async def failing(ctx: Context) -> None:
    await ctx.sleep(0.001)
    raise KeyError("mine")


def test_arun_raises_without_the_frames_of_the_engine() -> None:
    async def caller() -> str:
        try:
            await failing.with_(db="memory:").arun()
        except perdure.ExecutionFailed as error:
            return "".join(traceback.format_tb(error.__traceback__))
        return ""

    said = asyncio.run(caller())
    assert "in caller" in said and LIBRARY not in said


def test_what_is_stored_of_an_error_has_the_users_frames_alone(world: World) -> None:
    @step(retry=Retry(max=1))
    def broken() -> None:
        raise OSError("mine")

    @workflow
    async def breaking(ctx: Context) -> None:
        try:
            await ctx.step(broken)
        except perdure.StepFailed as error:
            raise LookupError("no quotient") from error

    run = world.start(breaking)
    inner = run.step("broken").error
    assert inner is not None and "in broken" in inner.traceback and LIBRARY not in inner.traceback
    try:
        run.result()
    except perdure.ExecutionFailed as error:
        whole = error.error.traceback
    assert "in breaking" in whole and "The above exception was the direct cause" in whole and LIBRARY not in whole


def test_a_defect_of_the_library_keeps_its_frames() -> None:
    def mine() -> None:
        from perdure.core import paths

        paths.path_text(5)  # type: ignore[arg-type]  # it is wrong on purpose

    try:
        mine()
    except TypeError as error:
        said = error_info(error).traceback
    assert "in mine" in said and "core/paths.py" in said


def test_an_error_without_frames_of_the_user_keeps_the_others() -> None:
    try:
        from perdure.core.paths import parse_path

        exec(compile("parse(5)", LIBRARY + "/nowhere.py", "exec"), {"parse": parse_path})  # it is all the library's
    except Exception as error:
        raised = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    assert "nowhere.py" in error_info(raised).traceback
