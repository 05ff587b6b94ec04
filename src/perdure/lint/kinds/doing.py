"""Kinds about what a workflow does to the world outside, where only steps act."""

from perdure.lint.finding import Kind

KINDS = (
    Kind(
        "PD110",
        "files",
        "error",
        "Files",
        "A file is on one machine and changes; replay reads what it is by then, and writes again what was written.",
        "do it in a step: ctx.step(fn, ...)",
        """
from pathlib import Path

from perdure import Context, workflow

@workflow
async def count(ctx: Context, file: str) -> int:
    return len(Path(file).read_text().splitlines())
""",
        """
from pathlib import Path

from perdure import Context, step, workflow

@step
def lines_in(file: str) -> int:
    return len(Path(file).read_text().splitlines())

@workflow
async def count(ctx: Context, file: str) -> int:
    return await ctx.step(lines_in, file)
""",
    ),
    Kind(
        "PD111",
        "network",
        "error",
        "The network",
        "Replay would ask again, be answered differently, and do again what the first request did.",
        "do it in a step: ctx.step(fn, ...)",
        """
from urllib.request import urlopen

from perdure import Context, workflow

@workflow
async def fetch(ctx: Context, url: str) -> int:
    return urlopen(url).status
""",
        """
from urllib.request import urlopen

from perdure import Context, step, workflow

@step
def status_of(url: str) -> int:
    return urlopen(url).status

@workflow
async def fetch(ctx: Context, url: str) -> int:
    return await ctx.step(status_of, url)
""",
    ),
    Kind(
        "PD112",
        "database",
        "error",
        "Databases",
        "Replay would query what is there by then, and write again what was written.",
        "do it in a step: ctx.step(fn, ...)",
        """
import sqlite3

from perdure import Context, workflow

@workflow
async def total(ctx: Context) -> int:
    return sqlite3.connect("shop.db").execute("SELECT count(*) FROM orders").fetchone()[0]
""",
        """
import sqlite3

from perdure import Context, step, workflow

@step
def orders() -> int:
    return sqlite3.connect("shop.db").execute("SELECT count(*) FROM orders").fetchone()[0]

@workflow
async def total(ctx: Context) -> int:
    return await ctx.step(orders)
""",
    ),
    Kind(
        "PD113",
        "subprocess",
        "error",
        "Other programs",
        "Replay would start them again; and while one runs, every execution of the engine waits for it.",
        "do it in a step: ctx.step(fn, ...)",
        """
import subprocess

from perdure import Context, workflow

@workflow
async def build(ctx: Context) -> None:
    subprocess.run(["make", "all"], check=True)
""",
        """
import subprocess

from perdure import Context, step, workflow

@step
def make(target: str) -> None:
    subprocess.run(["make", target], check=True)

@workflow
async def build(ctx: Context) -> None:
    await ctx.step(make, "all")
""",
    ),
    Kind(
        "PD114",
        "threads",
        "error",
        "Threads, processes and executors",
        "When they are done is decided by the machine and not by the log; steps run in threads by themselves.",
        "do it in a step, and several side by side with ctx.map(...) or ctx.join(...)",
        """
import asyncio

from perdure import Context, workflow

def resize(image: str) -> str: ...

@workflow
async def thumbnail(ctx: Context, image: str) -> str:
    return await asyncio.to_thread(resize, image)
""",
        """
from perdure import Context, step, workflow

@step
def resize(image: str) -> str: ...

@workflow
async def thumbnail(ctx: Context, image: str) -> str:
    return await ctx.step(resize, image)
""",
    ),
    Kind(
        "PD115",
        "event-loop",
        "error",
        "Driving the event loop, or the process",
        "The engine drives a loop that replay can repeat; another one in its place, or a handler of signals in it, could not be repeated.",
        "await it, or leave it to whoever starts the engine",
        """
import asyncio

from perdure import Context, SyncContext, workflow

async def both(ctx: Context) -> None: ...

@workflow
def order(ctx: SyncContext) -> None:
    asyncio.run(both(ctx))
""",
        """
from perdure import Context, SyncContext, workflow

async def both(ctx: Context) -> None: ...

@workflow
def order(ctx: SyncContext) -> None:
    ctx.join(both=both)
""",
    ),
    Kind(
        "PD116",
        "typed-input",
        "error",
        "Asking whoever sits before the terminal",
        "Workers have nobody before them, and replay would ask again.",
        "wait for a message: ctx.listen(signal)",
        """
from perdure import Context, workflow

@workflow
async def publish(ctx: Context) -> bool:
    return input("Publish? ") == "yes"
""",
        """
from perdure import Context, workflow

@workflow
async def publish(ctx: Context) -> bool:
    return await ctx.listen("publish") == "yes"
""",
    ),
    Kind(
        "PD117",
        "print",
        "warning",
        "Printing and logging",
        "Replay prints every line again. The workflow's own log is written once, when what it tells of is durable.",
        "use ctx.log",
        """
from perdure import Context, workflow

@workflow
async def greet(ctx: Context, name: str) -> None:
    print(f"greeting {name}")
""",
        """
from perdure import Context, workflow

@workflow
async def greet(ctx: Context, name: str) -> None:
    ctx.log.info("greeting", name=name)
""",
    ),
    Kind(
        "PD118",
        "exit",
        "error",
        "Ending the process",
        "The process runs other executions too. An exception that asks for its end is taken for a failure of the workflow, and os._exit for a crash.",
        "return, or raise Rollback or an error of your own",
        """
import sys

from perdure import Context, workflow

@workflow
async def order(ctx: Context, cents: int) -> None:
    if cents <= 0:
        sys.exit("nothing to pay")
""",
        """
from perdure import Context, Rollback, workflow

@workflow
async def order(ctx: Context, cents: int) -> None:
    if cents <= 0:
        raise Rollback("nothing to pay")
""",
    ),
)
