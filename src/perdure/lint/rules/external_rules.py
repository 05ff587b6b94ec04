"""The rules about the outside world: what a workflow reads from its machine, and effects that only steps may have."""

from perdure.lint.lint_findings import LintRule

READ_RULES = (
    LintRule(
        "PD101",
        "wall-clock",
        "error",
        "The machine's clock",
        "Replay runs the same lines later, and another time leads them another way.",
        "use ctx.now()",
        """
from datetime import UTC, datetime

from perdure import Context, workflow

@workflow
async def greet(ctx: Context, name: str) -> str:
    return f"Good {'morning' if datetime.now(UTC).hour < 12 else 'evening'}, {name}"
""",
        """
from perdure import Context, workflow

@workflow
async def greet(ctx: Context, name: str) -> str:
    return f"Good {'morning' if ctx.now().hour < 12 else 'evening'}, {name}"
""",
    ),
    LintRule(
        "PD102",
        "sleep",
        "error",
        "Sleeping in memory",
        "time.sleep holds up every execution of the engine, asyncio.sleep is refused by its loop, and no restart remembers how much of either is over.",
        "use ctx.sleep(...)",
        """
import asyncio

from perdure import Context, workflow

@workflow
async def remind(ctx: Context, name: str) -> str:
    await asyncio.sleep(60)
    return f"{name}, a minute is over"
""",
        """
from perdure import Context, workflow

@workflow
async def remind(ctx: Context, name: str) -> str:
    await ctx.sleep("1m")
    return f"{name}, a minute is over"
""",
    ),
    LintRule(
        "PD103",
        "timer",
        "error",
        "Timers and timeouts of asyncio",
        "They run on the clock of one process, which a restart sets back; the loop of workflows refuses them.",
        "give the verb a timeout=, or race it against ctx.sleep(...)",
        """
import asyncio

from perdure import Context, workflow

@workflow
async def confirm(ctx: Context) -> bool:
    return await asyncio.wait_for(ctx.listen("confirmed"), 3600)
""",
        """
from perdure import Context, workflow

@workflow
async def confirm(ctx: Context) -> bool:
    return await ctx.listen("confirmed", timeout="1h")
""",
    ),
    LintRule(
        "PD104",
        "local-time-zone",
        "error",
        "The machine's time zone",
        "The worker that replays may be in another zone, or the same one after a change of its settings.",
        "name the zone: astimezone(ZoneInfo(...)), fromtimestamp(..., UTC)",
        """
from perdure import Context, workflow

@workflow
async def today(ctx: Context) -> str:
    return ctx.now().astimezone().date().isoformat()
""",
        """
from zoneinfo import ZoneInfo

from perdure import Context, workflow

@workflow
async def today(ctx: Context) -> str:
    return ctx.now().astimezone(ZoneInfo("Europe/Vienna")).date().isoformat()
""",
    ),
    LintRule(
        "PD105",
        "randomness",
        "error",
        "Random numbers",
        "The module draws from a state that every process seeds anew, so replay draws other numbers.",
        "use ctx.random",
        """
import random

from perdure import Context, workflow

@workflow
async def draw(ctx: Context, names: list[str]) -> str:
    return random.choice(names)
""",
        """
from perdure import Context, workflow

@workflow
async def draw(ctx: Context, names: list[str]) -> str:
    return ctx.random.choice(names)
""",
    ),
    LintRule(
        "PD106",
        "entropy",
        "error",
        "Secrets and the machine's randomness",
        "Replay gets other bytes. A secret is made where it is used, in a step, so that it needs not be in the log.",
        "make it in a step, or use ctx.random.randbytes(...) if it is not a secret",
        """
import secrets

from perdure import Context, workflow

@workflow
async def sign_up(ctx: Context) -> str:
    return secrets.token_hex(16)
""",
        """
import secrets

from perdure import Context, step, workflow

@step
def make_token() -> str:
    return secrets.token_hex(16)

@workflow
async def sign_up(ctx: Context) -> str:
    return await ctx.step(make_token)
""",
    ),
    LintRule(
        "PD107",
        "uuid",
        "error",
        "Generated ids",
        "Replay makes another id, while the outside world knows the first one.",
        "use ctx.uuid()",
        """
from uuid import uuid4

from perdure import Context, workflow

@workflow
async def register(ctx: Context) -> str:
    return str(uuid4())
""",
        """
from perdure import Context, workflow

@workflow
async def register(ctx: Context) -> str:
    return str(ctx.uuid())
""",
    ),
    LintRule(
        "PD108",
        "environment",
        "error",
        "Environment variables",
        "They are those of one worker at one time; the next deploy may change them in the middle of an execution.",
        'pass it as an argument, or use ctx.keep("name", fn)',
        """
import os

from perdure import Context, workflow

@workflow
async def limit(ctx: Context) -> int:
    return int(os.environ["LIMIT"])
""",
        """
import os

from perdure import Context, workflow

def limit_now() -> int:
    return int(os.environ["LIMIT"])

@workflow
async def limit(ctx: Context) -> int:
    return await ctx.keep("limit", limit_now)
""",
    ),
    LintRule(
        "PD109",
        "process",
        "error",
        "The process, the machine and the interpreter",
        "An execution moves from process to process and from machine to machine; what it asks of one is not so in the next.",
        'use ctx.execution for who this is, or ctx.keep("name", fn) for what is true now',
        """
import os

from perdure import Context, workflow

@workflow
async def label(ctx: Context) -> str:
    return f"job-{os.getpid()}"
""",
        """
from perdure import Context, workflow

@workflow
async def label(ctx: Context) -> str:
    return f"job-{ctx.execution.id}"
""",
    ),
)


ACTION_RULES = (
    LintRule(
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
    LintRule(
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
    LintRule(
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
    LintRule(
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
    LintRule(
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
    LintRule(
        "PD115",
        "event-loop",
        "error",
        "Driving the event loop, or the process",
        "The engine drives a loop that replay can repeat; another one in its place, or a handler of signals in it, could not be repeated.",
        "await it, or leave it to the program that starts the engine",
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
    LintRule(
        "PD116",
        "typed-input",
        "error",
        "Reading from the terminal",
        "Workers have no terminal, and replay would read again.",
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
    LintRule(
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
    LintRule(
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
