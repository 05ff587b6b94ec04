"""A script as users write it, which prints in its workflow and in its steps: ``python -m tests.runtime.printing_script ID HOW TAKES_S``."""

# as scripts do
import asyncio
import sys
import time
from pathlib import Path

from perdure import Context, step, workflow

HURRY = "hurry"
"""The file that makes steps take no time, if it is there."""


def _time_s(takes_s: float) -> float:
    return 0.0 if Path(HURRY).exists() else takes_s


@step
def greeting(name: str) -> str:
    """In a thread."""
    print("in a step")
    return f"Hello {name}"


@step
async def slow(takes_s: float) -> str:
    """On the loop."""
    print("slow", flush=True)
    await asyncio.sleep(_time_s(takes_s))
    return "slow"


@step
def blocking(takes_s: float) -> str:
    """In a thread that nobody can interrupt."""
    print("blocking", flush=True)
    time.sleep(_time_s(takes_s))
    return "blocking"


@workflow
async def greet(ctx: Context, name: str, how: str, takes_s: float) -> list[str]:
    """Greet, print, and take some time."""
    print("the workflow begins")
    greeted = await ctx.step(greeting, name)
    print("the workflow goes on", flush=True)
    return [greeted, await ctx.step({"slow": slow, "blocking": blocking}[how], takes_s)]


if __name__ == "__main__":
    print(greet.with_(id=sys.argv[1], db="sqlite:///perdure.db").run("Ada", sys.argv[2], float(sys.argv[3])))
