"""The workflows of `flows`, changed after executions of them have begun: for the tests of the commands that replay."""

from perdure import Context, step, workflow


@step
async def reserve(order_id: str) -> str:
    return order_id


@workflow(version=2)
async def order(ctx: Context, order_id: str, cents: int = 100) -> str:
    ctx.set("phase", "reserving")
    await ctx.step(reserve, order_id)
    return str(await ctx.listen("approved"))


@workflow(version=2)
async def changing(ctx: Context) -> None:
    await ctx.listen("never")
