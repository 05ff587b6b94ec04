"""Kinds about state outside of the execution."""

from perdure.lint.finding import Kind

KINDS = (
    Kind(
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
    Kind(
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
    Kind(
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
    Kind(
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
