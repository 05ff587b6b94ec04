"""Kinds about order, in which one process differs from the next.

Kinds about state outside of the execution.
"""

from perdure.lint.lint_findings import LintRule

ORDER_RULES = (
    LintRule(
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
    LintRule(
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
    LintRule(
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
    LintRule(
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
    LintRule(
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


STATE_RULES = (
    LintRule(
        "PD401",
        "global-write",
        "error",
        "Writing a global",
        "Every execution in the process writes the same variable, replay writes it again, and the next process begins without it.",
        "keep it in a local variable, or show it with ctx.set(...)",
        """
from perdure import Context, workflow

orders = 0

@workflow
async def order(ctx: Context) -> int:
    global orders
    orders += 1
    return orders
""",
        """
from perdure import Context, step, workflow

@step
def next_number() -> int: ...

@workflow
async def order(ctx: Context) -> int:
    return await ctx.step(next_number)
""",
    ),
    LintRule(
        "PD402",
        "shared-object",
        "error",
        "Changing an object of the module",
        "It is shared by all executions of the process, changed again by every replay, and as new in the next process.",
        "keep it in a local variable, or change it in a step",
        """
from perdure import Context, workflow

seen: list[str] = []

@workflow
async def note(ctx: Context, name: str) -> int:
    seen.append(name)
    return len(seen)
""",
        """
from perdure import Context, workflow

@workflow
async def note(ctx: Context, names: list[str]) -> int:
    seen: list[str] = []
    seen.extend(names)
    return len(seen)
""",
    ),
    LintRule(
        "PD403",
        "mutable-default",
        "error",
        "A default that can be changed",
        "Python makes a default once, so what one execution adds to it, the next ones begin with, until the process ends.",
        "default to None, or to a tuple",
        """
from perdure import Context, workflow

@workflow
async def order(ctx: Context, items: list[str] = []) -> int:
    items.append("a receipt")
    return len(items)
""",
        """
from perdure import Context, workflow

@workflow
async def order(ctx: Context, items: tuple[str, ...] = ()) -> int:
    return len((*items, "a receipt"))
""",
    ),
    LintRule(
        "PD404",
        "changed-in-step",
        "error",
        "A step that changes the workflow's variables",
        "A step runs once, and replay takes its result from the log: what else it has changed is so in the process that ran it, and nowhere after a restart.",
        "return it from the step, and change the variable in the workflow",
        """
from perdure import Context, workflow

@workflow
async def collect(ctx: Context, names: list[str]) -> int:
    found: list[str] = []

    def look_up(name: str) -> None:
        found.append(name.upper())

    for name in names:
        await ctx.step(f"look up {name}", look_up, name)
    return len(found)
""",
        """
from perdure import Context, workflow

@workflow
async def collect(ctx: Context, names: list[str]) -> int:
    found: list[str] = []

    def look_up(name: str) -> str:
        return name.upper()

    for name in names:
        found.append(await ctx.step(f"look up {name}", look_up, name))
    return len(found)
""",
    ),
)
