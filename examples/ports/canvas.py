"""Celery's canvas: each primitive of its user guide as a workflow, and the guide's two larger examples, a new user and an import of contacts.

    python examples/ports/canvas.py                                   # what each primitive returns
    python examples/ports/canvas.py contacts.db ada@example.org …     # imports contacts; killed, it continues when started again

The original is docs/userguide/canvas.rst and calling.rst of https://github.com/celery/celery at 5dc781f (documentation: CC BY-SA 4.0, so nothing of it is
quoted). `tests/examples/ports/celery_canvas.py` runs the same with Celery itself, and the test compares the results.
"""

import hashlib
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a script has only its own directory there

from perdure import Context, JoinFailed, Queue, Rate, Retry, RetryAfter, StepFailed, step, step_info, workflow


@step
def add(x: int, y: int) -> int:
    return x + y


@step
def mul(x: int, y: int) -> int:
    return x * y


@step
def xsum(numbers: list[int]) -> int:
    return sum(numbers)


@step(retry=Retry(max=1))
def divide(x: int, y: int) -> int:
    return x // y


# A chain is one await after another; its results need no partials and no `.si`.


@workflow
async def chain(ctx: Context) -> int:
    total = await ctx.step(add, 2, 2)
    total = await ctx.step(add, total, 4)
    return await ctx.step(add, total, 8)


@workflow
async def immutable_chain(ctx: Context) -> list[int]:
    return [await ctx.step(add, 2, 2), await ctx.step(add, 4, 4), await ctx.step(add, 8, 8)]


# A group is a map or a join, and a chord is the code after it.


@workflow
async def group(ctx: Context, count: int) -> list[int]:
    return await ctx.map(lambda c, i: c.step(add, i, i), range(count))


@workflow
async def chord(ctx: Context, count: int) -> int:
    return await ctx.step(xsum, await ctx.map(lambda c, i: c.step(add, i, i), range(count)))


@workflow
async def chain_into_group(ctx: Context) -> list[int]:
    first = await ctx.step(add, 4, 4)
    return list(await ctx.join(lambda c: c.step(add, first, 10), lambda c: c.step(mul, first, 10)))


# Map and starmap are one task with a loop in it; chunks are a map over slices.


@step
def xsum_each(lists: list[list[int]]) -> list[int]:
    return [xsum(numbers) for numbers in lists]


@step
def add_each(pairs: list[tuple[int, int]]) -> list[int]:
    return [add(x, y) for x, y in pairs]


@workflow
async def mapped(ctx: Context, lists: list[list[int]]) -> list[int]:
    return await ctx.step(xsum_each, lists)


@workflow
async def starmap(ctx: Context, pairs: list[tuple[int, int]]) -> list[int]:
    return await ctx.step(add_each, pairs)


@workflow
async def chunks(ctx: Context, pairs: list[tuple[int, int]], size: int) -> list[list[int]]:
    return await ctx.map(add_each, [pairs[begin : begin + size] for begin in range(0, len(pairs), size)])


@workflow
async def skewed_group(ctx: Context, count: int) -> list[int]:
    async def later(c: Context, i: int) -> int:
        await c.sleep(i)
        return await c.step(add, i, i)

    return await ctx.map(later, range(1, count + 1))


# Callbacks and errbacks are the code after a step.


@workflow
async def linked(ctx: Context) -> tuple[int, int]:
    result = await ctx.step(add, 2, 2)
    return result, await ctx.step(mul, result, 16)


@step
def describe_error(kind: str, message: str) -> str:
    return f"{kind}: {message}"


@workflow
async def errback(ctx: Context) -> str:
    try:
        return str(await ctx.step(divide, 1, 0))
    except StepFailed as failed:
        return await ctx.step(describe_error, failed.error.type, failed.error.message)


@workflow
async def chord_errback(ctx: Context, divisors: list[int]) -> tuple[str, list[int]]:
    try:
        quotients = await ctx.map(lambda c, divisor: c.step(divide, 60, divisor), divisors)
    except JoinFailed as failed:
        (error,) = failed.errors.values()
        assert isinstance(error, StepFailed)
        return await ctx.step(describe_error, error.error.type, error.error.message), sorted(failed.outputs.values())
    return str(await ctx.step(xsum, quotients)), quotients


# Retries. `max_retries=3` of Celery is `max=4` here: the first attempt counts.


@step(retry=Retry(max=4, wait="1s", factor=2, max_wait="10m", only=(ConnectionError,)))
def unsteady(failures: int) -> int:
    if step_info().attempt <= failures:
        raise ConnectionError("reset")
    return step_info().attempt


@step(retry=Retry(max=4))
def busy(failures: int) -> int:
    if step_info().attempt <= failures:
        raise RetryAfter(30, "busy")
    return step_info().attempt


@workflow
async def retried(ctx: Context, failures: int) -> int:
    return await ctx.step(unsteady, failures)


@workflow
async def retried_later(ctx: Context, failures: int) -> int:
    return await ctx.step(busy, failures)


# countdown and expires are options of a start, eta is a sleep, and a rate limit belongs to a queue.


@workflow
async def add_at(ctx: Context, eta: datetime, x: int, y: int) -> int:
    await ctx.sleep_until(eta)
    return await ctx.step(add, x, y)


newsletters = Queue("newsletters", rate=Rate(10, "1m"))


@workflow(queue=newsletters)
async def newsletter(ctx: Context, to: str) -> datetime:
    return ctx.now()


# The larger examples: a new user (a chain into a group), whose contacts are imported (a chord with a body that takes no results).


@step
def import_contact(file: str, address: str) -> None:
    """Adds a contact. A step may be called again after a crash, so the address is the key of the row."""
    with closing(sqlite3.connect(file, timeout=30)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS contacts (address TEXT PRIMARY KEY)")
        connection.execute("INSERT OR IGNORE INTO contacts VALUES (?)", (address,))


@step
def notify_complete(file: str, import_id: str) -> None:
    """Records that an import is complete, once."""
    with closing(sqlite3.connect(file, timeout=30)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS notices (import_id TEXT PRIMARY KEY, contacts INTEGER NOT NULL)")
        connection.execute("INSERT OR IGNORE INTO notices SELECT ?, count(*) FROM contacts", (import_id,))


@workflow
async def import_contacts(ctx: Context, file: str, addresses: list[str]) -> int:
    await ctx.map(lambda c, address: c.step(import_contact, file, address), addresses, limit=4)
    await ctx.step(notify_complete, file, ctx.execution.id)
    return len(addresses)


@step
def create_user(name: str) -> str:
    return f"user-{name}"


@step
def welcome(user: str) -> str:
    return f"Welcome, {user}"


@workflow
async def new_user(ctx: Context, name: str, file: str, addresses: list[str]) -> tuple[int, str]:
    user = await ctx.step(create_user, name)
    return await ctx.join(lambda c: c.call(import_contacts.with_(id=f"contacts-of-{user}"), file, addresses), lambda c: c.step(welcome, user))


def main(arguments: Sequence[str]) -> None:
    """Imports contacts if there are any, else shows what the primitives return."""
    if len(arguments) > 1:
        file, *addresses = arguments
        digest = hashlib.sha256("\n".join(addresses).encode()).hexdigest()[:12]
        print(import_contacts.with_(id=digest).run(file, addresses), "contacts")
        return
    pairs = [(i, i) for i in range(20)]
    print("chain", chain.run(), "group", group.run(10), "chord", chord.run(10), "chunks", chunks.run(pairs, 10))
    print("link", linked.run(), "link_error", errback.run(), "chord error", chord_errback.run([1, 0, 2]))


if __name__ == "__main__":
    main(sys.argv[1:])
