"""Kinds about order, in which one process differs from the next."""

from perdure.lint.finding import Kind

KINDS = (
    Kind(
        "PD201",
        "unordered-set",
        "error",
        "The order of a set",
        "Text hashes differently in each process, so a set is walked in another order after a restart, and verbs are asked for in another order than the "
        "log has them.",
        "put it in an order first: sorted(...)",
        """
from perdure import Context, step, workflow

@step
def mail(name: str) -> None: ...

@workflow
async def invite(ctx: Context, names: list[str]) -> None:
    for name in set(names):
        await ctx.step(mail, name)
""",
        """
from perdure import Context, step, workflow

@step
def mail(name: str) -> None: ...

@workflow
async def invite(ctx: Context, names: list[str]) -> None:
    for name in sorted(set(names)):
        await ctx.step(mail, name)
""",
    ),
    Kind(
        "PD202",
        "bare-coroutines",
        "error",
        "asyncio.as_completed or asyncio.wait on bare coroutines",
        "asyncio keeps bare coroutines in a set, and starts the one with the lowest address first.",
        "use ctx.as_completed(...) or ctx.wait(...), or make tasks of them with asyncio.create_task(...)",
        """
import asyncio

from perdure import Context, step, workflow

@step
def fetch(url: str) -> str: ...

@workflow
async def crawl(ctx: Context, urls: list[str]) -> None:
    for page in asyncio.as_completed([ctx.step(fetch, url) for url in urls]):
        ctx.emit(await page)
""",
        """
import asyncio

from perdure import Context, step, workflow

@step
def fetch(url: str) -> str: ...

@workflow
async def crawl(ctx: Context, urls: list[str]) -> None:
    for page in asyncio.as_completed([asyncio.create_task(ctx.step(fetch, url)) for url in urls]):
        ctx.emit(await page)
""",
    ),
    Kind(
        "PD203",
        "eager-task",
        "error",
        "Tasks that start before their turn",
        "Replay relies on tasks starting in the order in which they were created; the loop of workflows refuses anything else.",
        "use asyncio.create_task(...) as it is",
        """
import asyncio

from perdure import Context, step, workflow

@step
def load(name: str) -> str: ...

@workflow
async def report(ctx: Context, name: str) -> str:
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    return await asyncio.create_task(ctx.step(load, name))
""",
        """
import asyncio

from perdure import Context, step, workflow

@step
def load(name: str) -> str: ...

@workflow
async def report(ctx: Context, name: str) -> str:
    return await asyncio.create_task(ctx.step(load, name))
""",
    ),
    Kind(
        "PD204",
        "identity",
        "error",
        "Addresses and hashes",
        "id() is an address, and hash() of text is seeded anew in each process: what is decided by them is decided differently on replay.",
        "use what is in the data, or hashlib for a digest",
        """
from perdure import Context, workflow

@workflow
async def assign(ctx: Context, user: str) -> int:
    return hash(user) % 8
""",
        """
import zlib

from perdure import Context, workflow

@workflow
async def assign(ctx: Context, user: str) -> int:
    return zlib.crc32(user.encode()) % 8
""",
    ),
    Kind(
        "PD205",
        "lost-update",
        "error",
        "Adding up across a wait",
        "Python reads the variable, then waits, and then writes what it read and the result: whatever another branch has added meanwhile is lost.",
        "wait first: found = await ..., and then total += found",
        """
from perdure import Context, step, workflow

@step
def price(item: str) -> int: ...

@workflow
async def order(ctx: Context, items: list[str]) -> int:
    total = 0

    async def add(ctx: Context, item: str) -> None:
        nonlocal total
        total += await ctx.step(price, item)

    await ctx.map(add, items)
    return total
""",
        """
from perdure import Context, step, workflow

@step
def price(item: str) -> int: ...

@workflow
async def order(ctx: Context, items: list[str]) -> int:
    total = 0

    async def add(ctx: Context, item: str) -> None:
        nonlocal total
        cents = await ctx.step(price, item)
        total += cents

    await ctx.map(add, items)
    return total
""",
    ),
)
