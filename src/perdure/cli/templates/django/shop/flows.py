"""The workflow of the shop, and the App that runs it inside of the processes of the web server."""

from django.conf import settings
from perdure import App, Context, Retry, Signal, step, step_info, workflow
from perdure.django import fresh_connections

confirmed = Signal("confirmed", bool)


@step(retry=Retry(max=5, wait="1s", only=(TimeoutError,)), timeout="10s")
def charge(order_id: str, cents: int) -> str:
    """Charges the card. Put the request to your payment provider here, and pass it this key: a repeated request then has no second effect."""
    return f"payment of {cents} for {order_id} under {step_info().key}"


@step
@fresh_connections
def mark_as_paid(order_id: str) -> None:
    """Records the payment. It may run again after a crash, which changes nothing."""
    from shop.models import Order  # models can be imported once Django has loaded them

    Order.objects.filter(pk=order_id).update(paid=True)


@workflow
async def order(ctx: Context, order_id: str, cents: int) -> str:
    """Waits for the confirmation of an order, for a week at most, and charges it."""
    if not await ctx.listen(confirmed, timeout="7d", default=False):
        return "cancelled"
    await ctx.step(charge, order_id, cents)
    await ctx.step(mark_as_paid, order_id)
    return "paid"


app = App([order], db=f"sqlite:///{settings.DATABASE_FILE}", grace="5s")
