"""A workflow of code that `perdure mcp` runs in tests; its module prints, as careless code does."""

import os
import time
from pathlib import Path

from perdure import Context, step, workflow

if "NOISE" in os.environ:
    print("a line that is no message of the protocol", flush=True)  # noqa: T201  # what the test is about


@step
def charge(cents: int) -> str:
    """Charges. In a directory of its own it notes that it has, and says so."""
    if "NOISE" in os.environ:
        with Path("charged").open("a") as file:
            file.write(f"{cents}\n")
        print("charged", flush=True)  # noqa: T201  # the same
    return f"{cents} cents are charged"


@step
def slow() -> None:
    """Takes longer than anybody waits."""
    time.sleep(60)


@workflow
async def order(ctx: Context, cents: int) -> str:
    """Charges, and asks a person before it delivers much."""
    receipt = await ctx.step(charge, cents)
    if cents >= 100_00:
        await ctx.approve("Deliver?", assignees=["ada"])
    return receipt


@workflow
async def linger(ctx: Context) -> None:
    """Takes a long time."""
    await ctx.step(slow)
