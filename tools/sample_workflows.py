"""The workflows of the sample database: a shop whose executions come to rest in every status there is (see `tools.console_sample`).

Steps only say what they would do. What an execution comes to follows from its input.
"""

import asyncio
import logging
from typing import Any

import msgspec

from perdure import Context, Err, Fatal, Queue, Retry, Rollback, Signal, Workflow, step, step_info, workflow

packed = Signal("packed", str)
bank = Queue("bank", concurrency=4)
mails = Queue("mails", concurrency=8)
logger = logging.getLogger("shop")

LARGE_CENTS = 100_000


class Line(msgspec.Struct, frozen=True):
    """An article of an order."""

    article: str
    quantity: int
    cents: int


class Review(msgspec.Struct, frozen=True):
    """What somebody who approves an order fills in."""

    reason: str
    discount_percent: int = 0
    call_back: bool = False


@step(idempotent=True)
async def reserve_stock(article: str, quantity: int) -> str:
    """Reserves an article."""
    await asyncio.sleep(0.02)
    return f"{quantity} × {article} reserved in hall {len(article) % 4 + 1}"


@reserve_stock.undo
async def release_stock(reserved: str, article: str, quantity: int) -> None:
    """Puts an article back."""
    await asyncio.sleep(0.02)


@step(queue=bank, retry=Retry(max=3, wait="200ms"))
async def charge_card(order: str, cents: int, card: str) -> str:
    """Charges a card. One that is `slow` succeeds in the third attempt; others say by their names how they fail."""
    await asyncio.sleep(0.05)
    match card:
        case "expired":
            raise Fatal(f"the card of order {order} expired in 2024-11")
        case "unreachable":
            raise ConnectionError("bank.example.com:443 does not answer")
        case "slow" if step_info().attempt < 3:
            raise TimeoutError(f"the bank has not answered within 2 s (attempt {step_info().attempt})")
    logger.info("charged %d cents for %s", cents, order)
    return f"ch_{order}"


@charge_card.undo
async def refund(charge: str, order: str, cents: int, card: str) -> None:
    """Gives back what was charged."""
    await asyncio.sleep(0.02)


@step(queue=mails, idempotent=True)
async def send_mail(to: str, text: str) -> None:
    """Writes to a customer."""
    await asyncio.sleep(0.01)


@step
async def print_label(order: str) -> str:
    """Prints the label of a parcel."""
    return f"label of {order}"


@workflow
async def parcel(ctx: Context, order: str, carrier: str = "post") -> str:
    """Packs and hands over what was ordered."""
    label = await ctx.step(print_label, order)
    if carrier == "people":
        label = await ctx.listen(packed, timeout="2d")
    await ctx.sleep("100ms")
    if carrier == "none":
        raise LookupError(f"no carrier goes to the address of {order}")
    return f"{label}, by {carrier}"


@workflow(version=2)
async def order(ctx: Context, number: str, lines: list[Line], card: str = "good", carrier: str = "post") -> dict[str, object]:
    """Takes an order: reserves its articles, lets somebody look at a large one, charges the card, and has it delivered."""
    cents = sum(line.quantity * line.cents for line in lines)
    ctx.set("phase", "reserving")
    ctx.set_attributes({"customer": f"c-{len(number) * 7 % 90}", "cents": cents})
    reserved = await ctx.map(lambda c, line: c.step(reserve_stock, line.article, line.quantity), lines)
    if cents >= LARGE_CENTS:
        ctx.set("phase", "waiting for approval")
        decision = await ctx.approve(
            f"Order {number} over {cents / 100:,.2f} €",
            form=Review,
            details={"order": number, "cents": cents, "card": card, "articles": [line.article for line in lines]},
            due="3h",
            timeout="2d",
            priority="high" if cents > 3 * LARGE_CENTS else "normal",
            resource=("order", number),
        )
        if not decision.approved:
            raise Rollback(f"order {number} was rejected by {decision.by}")
    ctx.set("phase", "charging")
    charge = await ctx.step(charge_card, number, cents, card)
    ctx.emit({"order": number, "cents": cents}, event="order.paid")
    ctx.set("phase", "delivering")
    delivered, _ = await ctx.join(lambda c: c.call(parcel, number, carrier), lambda c: c.step(send_mail, "ada@example.org", f"Order {number} is on its way"))
    return {"charge": charge, "reserved": reserved, "delivered": delivered}


@step
async def ask_for_price(supplier: str, article: str) -> int:
    """Asks a supplier."""
    await asyncio.sleep(0.01 * len(supplier))
    return 100 + len(supplier) * len(article)


@workflow
async def restock(ctx: Context, article: str, watch_turns: int = 3) -> str:
    """Asks all suppliers for their price, watches the stock for some turns, and orders from whoever answers first."""
    prices = await ctx.map(lambda c, one: c.step(ask_for_price, one, article), ["Nord", "Südhandel", "West & Sons"])
    async for turn in ctx.loop("watch", state=0):
        turn.state += len(prices)
        await turn.sleep("50ms")
        if turn.state >= watch_turns * len(prices):
            break
    won = await ctx.race(
        nord=lambda c: c.step("nord", ask_for_price, "Nord", article),
        west=lambda c: c.step("west", ask_for_price, "West & Sons", article),
        late=lambda c: c.sleep("5s"),
    )
    return f"{article} from {won.name}"


@step
async def import_row(number: int) -> int:
    """Imports a row; some are wrong."""
    if number % 97 == 96:
        raise ValueError(f"row {number}: '12,x0' is not a price")
    return number


@workflow
async def import_rows(ctx: Context, rows: int) -> dict[str, int]:
    """Imports rows, many at a time, and counts those that are wrong."""
    found = await ctx.map(lambda c, number: c.attempt(import_row.with_(retry=Retry(max=1)), number), range(rows), limit=50)
    wrong = sum(1 for one in found if isinstance(one, Err))
    return {"imported": rows - wrong, "wrong": wrong}


@workflow
async def reminder(ctx: Context, customer: str, after: str = "3h") -> str:
    """Writes to a customer after a time."""
    await ctx.sleep(after)
    await ctx.step(send_mail, customer, "Your basket waits for you")
    return "sent"


@workflow
async def booking(ctx: Context, seat: str) -> str:
    """A trip whose steps are undone if it does not come off."""
    await ctx.step(reserve_stock, seat, 1)
    await ctx.step(charge_card, seat, 4_900, "good")
    raise Rollback(f"seat {seat} was sold twice")


@workflow(name="invoice")
async def invoice_before(ctx: Context, number: str) -> str:
    """Invoices, as the code was when some executions began."""
    await ctx.step(print_label, number)
    return str(await ctx.listen("paid"))


@workflow(name="invoice")
async def invoice(ctx: Context, number: str) -> str:
    """Invoices, after the code was changed without a new version: those that have begun diverge."""
    await ctx.step(send_mail, "ada@example.org", number)
    return str(await ctx.listen("paid"))


@workflow
async def retired(ctx: Context, number: str) -> None:
    """A workflow that the engine of today does not know."""
    await ctx.listen("never")


BEFORE: list[Workflow[..., Any]] = [order, parcel, restock, import_rows, reminder, booking, invoice_before, retired]
"""The code of yesterday."""

NOW: list[Workflow[..., Any]] = [order, parcel, restock, import_rows, reminder, booking, invoice]
"""The code of today, on which the sample is served."""
