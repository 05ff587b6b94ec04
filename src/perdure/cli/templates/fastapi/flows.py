"""The workflow of this project, and the App that runs it inside of the processes of the web server."""

import os

from perdure import App, Context, Retry, Signal, step, step_info, workflow

confirmed = Signal("confirmed", bool)


@step(retry=Retry(max=5, wait="1s", only=(TimeoutError,)), timeout="10s")
async def charge(order_id: str, cents: int) -> str:
    """Charges the card. Put the request to your payment provider here, and pass it this key: a repeated request then has no second effect."""
    return f"payment of {cents} for {order_id} under {step_info().key}"


@workflow
async def order(ctx: Context, order_id: str, cents: int) -> str:
    """Waits for the confirmation of an order, for a week at most, and charges it."""
    if not await ctx.listen(confirmed, timeout="7d", default=False):
        return "cancelled"
    await ctx.step(charge, order_id, cents)
    return "paid"


app = App([order], db=os.environ.get("PERDURE_DB", "sqlite:///.perdure/perdure.db"), grace="5s")
