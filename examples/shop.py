"""A shop in one process: an `App` with two workflows and a definition. Kill it in the middle and run it again; nothing is paid for twice.

    python examples/shop.py            # takes three orders, and prints what was done
    perdure worker examples/shop.py:app        # the same App as a service

The definition is `examples/shop_flows/restock.yaml`. What the steps did outside is in `ledger.txt`, a line each.
"""

import asyncio
import os
from pathlib import Path

from perdure import App, Context, step, step_info, workflow

LEDGER = Path(os.environ.get("SHOP_LEDGER", "ledger.txt"))
ORDERS = {"o1": 500, "o2": 1200, "o3": 90}


def note(what: str) -> None:
    """Stands for the world outside: an effect with the same key counts once."""
    with LEDGER.open("a") as ledger:
        ledger.write(f"{step_info().key} {what}\n")


@step
async def charge(order: str, cents: int) -> str:
    note(f"charge {order} {cents}")
    await asyncio.sleep(0.05)
    return f"ch_{order}"


@step
def send_receipt(order: str, charge_id: str) -> str:
    note(f"receipt {order} {charge_id}")
    return f"receipt for {order}"


@step(idempotent=True)  # a tool of a definition is called again after an interruption only if it says that this does no harm
def restock(order: str) -> str:
    """The tool of the definition."""
    note(f"restock {order}")
    return "restocked"


@workflow
async def receipt(ctx: Context, order: str, charge_id: str) -> str:
    return await ctx.step(send_receipt, order, charge_id)


@workflow
async def checkout(ctx: Context, order: str, cents: int) -> str:
    paid = await ctx.step(charge, order, cents)
    return await ctx.call(receipt, order, paid)


app = App(
    [checkout, receipt],
    definitions=Path(__file__).with_name("shop_flows"),
    tools=[restock],
    db=os.environ.get("PERDURE_DB", "sqlite:///shop.db"),
)


async def main() -> None:
    """Take the orders; those of an earlier run are not taken again."""
    async with app:
        taken = [await app.start(checkout.with_(id=order), order, cents) for order, cents in ORDERS.items()]
        for handle in taken:
            print(await handle.result())
        restocked = [await app.start(app.workflow("restock").with_(id=order), order=order) for order in ORDERS]
        for handle in restocked:
            await handle.result()
        print("restocked")


if __name__ == "__main__":
    asyncio.run(main())
