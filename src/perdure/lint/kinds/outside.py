"""Kinds about what a workflow asks of the machine that it happens to run on."""

from perdure.lint.finding import Kind

KINDS = (
    Kind(
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
    Kind(
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
    Kind(
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
    Kind(
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
    Kind(
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
    Kind(
        "PD106",
        "entropy",
        "error",
        "Secrets and the machine's randomness",
        "Replay gets other bytes. A secret is made where it is used, in a step, so that it needs not be in the log.",
        "make it in a step, or use ctx.random.randbytes(...) if it is no secret",
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
    Kind(
        "PD107",
        "uuid",
        "error",
        "Made-up ids",
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
    Kind(
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
    Kind(
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
