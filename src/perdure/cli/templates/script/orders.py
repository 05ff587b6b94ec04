"""The workflow of this project: an order is reserved, paid for and shipped, with a pause in between that survives everything.

    python orders.py o1 4900          # runs order o1 to its end, or continues it, or prints its result

Interrupt it in the pause and run it again: nothing is reserved or charged twice.
"""

import sys

from perdure import Context, Fatal, Retry, step, step_info, workflow


@step
def reserve(order_id: str) -> str:
    """Reserves the goods. Put a call of your own system here."""
    print(f"reserving the goods of {order_id}", flush=True)
    return f"goods of {order_id}"


@step(retry=Retry(max=5, wait="1s", only=(TimeoutError,)), timeout="10s")
def charge(order_id: str, cents: int) -> str:
    """Charges the card, with up to five attempts. Pass `step_info().key` to your payment provider: a repeated request then has no second effect."""
    if cents <= 0:
        raise Fatal(f"{cents} cents can't be charged")  # is not attempted again
    print(f"charging {cents} cents for {order_id} (attempt {step_info().attempt})", flush=True)
    return f"payment of {cents}"


@step
def ship(order_id: str, goods: str) -> str:
    """Ships the goods."""
    print(f"shipping the {goods}", flush=True)
    return f"{order_id} is on its way"


@workflow
async def order(ctx: Context, order_id: str, cents: int) -> str:
    """Sells something. What has been done is recorded, step by step."""
    goods = await ctx.step(reserve, order_id)
    await ctx.step(charge, order_id, cents)
    await ctx.sleep("3s")  # may as well be "3d": no process has to live meanwhile
    return await ctx.step(ship, order_id, goods)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[2].isdecimal():
        sys.exit("usage: python orders.py ORDER CENTS, for example: python orders.py o1 4900")
    print(order.with_(id=sys.argv[1]).run(sys.argv[1], int(sys.argv[2])))
