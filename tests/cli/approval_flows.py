"""Workflows that ask people, and workflows that fail: for the tests of the commands that decide and mend."""

from dataclasses import dataclass

from perdure import Context, Retry, step, workflow


@dataclass
class Ship:
    """What is filled in by who lets a parcel go."""

    carrier: str
    cents: int = 0


@step(retry=Retry(max=1))
def take(order: str, cents: int) -> str:
    if cents > 1000:
        raise ValueError(f"{cents} is too much for '{order}'")
    return f"{order}: {cents}"


@workflow
async def pays(ctx: Context, order: str, cents: int = 5000) -> str:
    return await ctx.step(take, order, cents)


@workflow
async def breaks(ctx: Context) -> None:
    await ctx.step(take, "first", 1)
    raise KeyError("nothing")


@workflow
async def ships(ctx: Context, assignees: list[str], quorum: int = 1) -> str:
    details = {"order": "o1", "weight": 2.5}
    found = await ctx.approve("Ship it?", form=Ship, details=details, assignees=assignees, quorum=quorum, timeout="1d")
    return f"{found.value.carrier} by {found.by}" if found else f"kept by {found.by}"


@workflow
async def asks(ctx: Context) -> bool:
    return bool(await ctx.approve("Go on?"))


@workflow
async def asks_two(ctx: Context) -> list[bool]:
    found = await ctx.join(lambda c: c.approve("One?", name="one"), lambda c: c.approve("Two?", name="two"))
    return [bool(one) for one in found]
