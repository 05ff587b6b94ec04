"""Kinds about cancellation and eviction."""

from perdure.lint.finding import Kind

KINDS = (
    Kind(
        "PD501",
        "swallowed-cancellation",
        "error",
        "Catching cancellation, and going on",
        "A cancelled execution, a lost branch of a race and an execution that leaves memory are told so by an exception, which is no Exception. "
        "Code that keeps it to itself goes on as if nothing had been, in one process and not in the next.",
        "catch Exception, or raise it again",
        """
from perdure import Context, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    try:
        return await ctx.step(charge, order_id)
    except BaseException:
        return "not paid"
""",
        """
from perdure import Context, StepFailed, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    try:
        return await ctx.step(charge, order_id)
    except StepFailed:
        return "not paid"
""",
    ),
    Kind(
        "PD502",
        "work-in-cleanup",
        "warning",
        "Work in finally",
        "It also runs when the execution is cancelled, which then has to wait for it, and without effect whenever the execution leaves memory. An undo "
        "handler runs when the execution fails, is cancelled or is over its deadline, with tries of its own.",
        "give the step an undo handler: @charge.undo",
        """
from perdure import Context, step, workflow

@step
def hold(order: str) -> str: ...

@step
def ship(order: str) -> str: ...

@step
def release(order: str) -> None: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    await ctx.step(hold, order_id)
    try:
        return await ctx.step(ship, order_id)
    finally:
        await ctx.step(release, order_id)
""",
        """
from perdure import Context, step, workflow

@step
def hold(order: str) -> str: ...

@hold.undo
def release(held: str, order: str) -> None: ...

@step
def ship(order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    await ctx.step(hold, order_id)
    return await ctx.step(ship, order_id)
""",
    ),
)
