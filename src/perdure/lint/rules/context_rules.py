"""Kinds about the verbs of a context.

Kinds about cancellation and eviction.
"""

from perdure.lint.lint_findings import LintRule

VERB_RULES = (
    LintRule(
        "PD301",
        "not-awaited",
        "error",
        "A verb that is not awaited",
        "Called without await, a verb only makes a coroutine; the execution fails with NotAwaited, or takes the coroutine for a result.",
        "await it",
        """
from perdure import Context, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> None:
    ctx.step(charge, order_id)
""",
        """
from perdure import Context, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> None:
    await ctx.step(charge, order_id)
""",
    ),
    LintRule(
        "PD302",
        "outer-context",
        "error",
        "The context of another branch or iteration",
        "Names are counted per branch and per iteration, so that none depends on what another does; a verb on the wrong context is refused.",
        "use the context that this branch or iteration is given",
        """
from perdure import Context, workflow

@workflow
async def wait(ctx: Context) -> str:
    won = await ctx.race(paid=lambda c: c.listen("paid"), late=lambda c: ctx.sleep("3d"))
    return won.name
""",
        """
from perdure import Context, workflow

@workflow
async def wait(ctx: Context) -> str:
    won = await ctx.race(paid=lambda c: c.listen("paid"), late=lambda c: c.sleep("3d"))
    return won.name
""",
    ),
    LintRule(
        "PD303",
        "direct-step",
        "error",
        "A step that is called as a function",
        "Called directly it is a plain function: its result is not remembered, and every replay runs it again.",
        "use ctx.step(fn, ...)",
        """
from perdure import Context, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    return charge(order_id)
""",
        """
from perdure import Context, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    return await ctx.step(charge, order_id)
""",
    ),
    LintRule(
        "PD304",
        "direct-workflow",
        "error",
        "A workflow that is called as a function",
        "A workflow can't be called, and run() would begin an execution of its own that this one does not remember.",
        "use ctx.call(workflow, ...), or ctx.start(workflow, ...) to go on meanwhile",
        """
from perdure import Context, workflow

@workflow
async def receipt(ctx: Context, order_id: str) -> str:
    return f"receipt for {order_id}"

@workflow
async def order(ctx: Context, order_id: str) -> str:
    return await receipt.arun(order_id)
""",
        """
from perdure import Context, workflow

@workflow
async def receipt(ctx: Context, order_id: str) -> str:
    return f"receipt for {order_id}"

@workflow
async def order(ctx: Context, order_id: str) -> str:
    return await ctx.call(receipt, order_id)
""",
    ),
    LintRule(
        "PD305",
        "called-step",
        "error",
        "A step that is given a result",
        "What the function returns can't be run as a step, and by then it has run in the workflow.",
        "pass the function and its arguments: ctx.step(fn, ...)",
        """
from perdure import Context, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    return await ctx.step(charge(order_id))
""",
        """
from perdure import Context, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    return await ctx.step(charge, order_id)
""",
    ),
    LintRule(
        "PD306",
        "coroutine-branch",
        "error",
        "A branch that is not a function",
        "A branch is given a context of its own, in which its names are counted; a coroutine has been given none, or another's.",
        "pass a function of a context: lambda c: c.step(...)",
        """
from perdure import Context, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def both(ctx: Context) -> None:
    await ctx.join(ctx.step(charge, "a"), ctx.sleep("1m"))
""",
        """
from perdure import Context, step, workflow

@step
def charge(order: str) -> str: ...

@workflow
async def both(ctx: Context) -> None:
    await ctx.join(lambda c: c.step(charge, "a"), lambda c: c.sleep("1m"))
""",
    ),
    LintRule(
        "PD307",
        "context-in-step",
        "error",
        "A context outside of the workflow",
        "A step may run in another thread, process or year than its workflow: it is given data. It learns its key, try and deadline from step_info().",
        "pass what is needed of it as data, and use verbs in the workflow alone",
        """
from perdure import Context, step, workflow

@step
def charge(ctx: Context, order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    return await ctx.step(charge, ctx, order_id)
""",
        """
from perdure import Context, step, workflow

@step
def charge(at: str, order: str) -> str: ...

@workflow
async def order(ctx: Context, order_id: str) -> str:
    return await ctx.step(charge, ctx.now().isoformat(), order_id)
""",
    ),
    LintRule(
        "PD308",
        "waiting-keep",
        "error",
        "A keep that would have to wait",
        "keep remembers what a function returns at once; the coroutine of an async one is refused.",
        "use a step for what waits: ctx.step(fn)",
        """
from perdure import Context, workflow

async def rate() -> float: ...

@workflow
async def price(ctx: Context, cents: int) -> float:
    return cents * await ctx.keep("rate", rate)
""",
        """
from perdure import Context, workflow

async def rate() -> float: ...

@workflow
async def price(ctx: Context, cents: int) -> float:
    return cents * await ctx.step(rate)
""",
    ),
    LintRule(
        "PD309",
        "repeated-name",
        "error",
        "A name that is given twice",
        "A name that was chosen stands for one operation of its scope; the second one is refused with DuplicateName.",
        'give each its own name, such as f"charge {item}"',
        """
from perdure import Context, step, workflow

@step
def charge(item: str) -> str: ...

@workflow
async def order(ctx: Context, items: list[str]) -> None:
    for item in items:
        await ctx.step("charge", charge, item)
""",
        """
from perdure import Context, step, workflow

@step
def charge(item: str) -> str: ...

@workflow
async def order(ctx: Context, items: list[str]) -> None:
    for item in items:
        await ctx.step(f"charge {item}", charge, item)
""",
    ),
    LintRule(
        "PD310",
        "unnamed-repeat",
        "warning",
        "Unnamed repeats",
        "Without names the first is charge and the second charge#2. A deploy that adds one in front, or removes one, shifts the numbers: "
        "executions in flight then take the result of one for that of the other.",
        'name them: ctx.step("name", fn, ...), or name= of other verbs',
        """
from perdure import Context, step, workflow

@step
def mail(to: str) -> None: ...

@workflow
async def invite(ctx: Context, host: str, guest: str) -> None:
    await ctx.step(mail, host)
    await ctx.step(mail, guest)
""",
        """
from perdure import Context, step, workflow

@step
def mail(to: str) -> None: ...

@workflow
async def invite(ctx: Context, host: str, guest: str) -> None:
    await ctx.step("mail the host", mail, host)
    await ctx.step("mail the guest", mail, guest)
""",
    ),
    LintRule(
        "PD311",
        "unbounded-loop",
        "warning",
        "A loop without an end",
        "Each round adds to the history, which is replayed from its beginning after every restart. Turns of ctx.loop keep a state instead, and "
        "forget old rounds.",
        "use `async for turn in ctx.loop(...)`",
        """
from perdure import Context, step, workflow

@step
def poll() -> int: ...

@workflow
async def watch(ctx: Context) -> None:
    while True:
        ctx.set("length", await ctx.step(poll))
        await ctx.sleep("1m")
""",
        """
from perdure import Context, step, workflow

@step
def poll() -> int: ...

@workflow
async def watch(ctx: Context) -> None:
    async for turn in ctx.loop("watch", state=0):
        turn.state = await turn.step(poll)
        turn.set("length", turn.state)
        await turn.sleep("1m")
""",
    ),
)


CLEANUP_RULES = (
    LintRule(
        "PD501",
        "swallowed-cancellation",
        "error",
        "Catching cancellation, and going on",
        "A cancelled execution, a lost branch of a race and an execution that leaves memory receive an exception that is not a subclass of Exception. "
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
    LintRule(
        "PD502",
        "work-in-cleanup",
        "warning",
        "Work in finally",
        "It also runs when the execution is cancelled, which then has to wait for it, and without effect whenever the execution leaves memory. An undo "
        "handler runs when the execution fails, is cancelled or is over its deadline, with attempts of its own.",
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
