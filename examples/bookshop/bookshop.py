"""A small application around an App, with a test suite of its own in `tests`, which runs it in virtual time and kills it at every write.

`Bookshop` is what the rest of an application calls; the workflows are behind it. The bank and the warehouse are other systems: the tests have doubles of them.
"""

from dataclasses import dataclass

from perdure import AlreadyDecided, App, Context, Fatal, Notice, Retry, step, step_info, workflow

APPROVAL_CENTS = 50_000


@dataclass(frozen=True)
class Receipt:
    """What a customer gets: the number of the payment, and the books that were sent."""

    payment: str
    books: list[str]


class OutOfStock(Fatal):
    """A book is not there."""


def bank_transfer(key: str, cents: int) -> str:
    """Asks the bank for money; a transfer with a `key` that the bank knows already is answered and not repeated."""
    raise NotImplementedError("calls the bank")


def warehouse_reserve(key: str, title: str) -> bool:
    """Reserves a book under a key; False if there is none."""
    raise NotImplementedError("calls the warehouse")


def warehouse_release(key: str) -> None:
    """Gives back what was reserved under a key."""
    raise NotImplementedError("calls the warehouse")


@step(retry=Retry(max=5, wait="1s"))
def pay(cents: int) -> str:
    """Charges the customer."""
    return bank_transfer(step_info().key, cents)


@step
def reserve(title: str) -> str:
    """Takes a book from the shelf; returns the key of the reservation."""
    key = step_info().key
    if not warehouse_reserve(key, title):
        raise OutOfStock(title)
    return key


@reserve.undo
def put_back(key: str, title: str) -> None:
    """Puts a book back if the sale does not take place."""
    warehouse_release(key)


@step
def ask_manager(notice: Notice) -> None:
    """Tells the manager that there is something to decide."""
    print(f"{notice.title} (approval {notice.approval})")


@workflow
async def sale(ctx: Context, titles: list[str], cents: int) -> Receipt:
    """Reserves the books, asks the manager about large sums, and charges. If that fails, the books go back."""
    for title in titles:
        await ctx.step(reserve, title)
    if cents >= APPROVAL_CENTS:
        decision = await ctx.approve("Sell it?", assignees=["manager"], notify=ask_manager, timeout="3d", on_timeout="reject")
        if not decision:
            raise Fatal(decision.comment or "the manager has not agreed")
    return Receipt(await ctx.step(pay, cents), titles)


app = App([sale], db="sqlite:///bookshop.db")


class Bookshop:
    """The shop as the rest of the application sees it, for example its web pages."""

    def sell(self, order_id: str, titles: list[str], cents: int) -> str:
        """Begins a sale, which is durable when this returns; the same order twice is one sale. Returns its status."""
        return app.background().start(sale.with_(id=order_id, strict=True), titles, cents).status().status

    def receipt(self, order_id: str) -> Receipt:
        """Waits for the end of a sale.

        Raises:
            ExecutionFailed: there was no sale, for the reason in its `error`.
        """
        return app.background().handle(order_id, sale).result()

    def decide(self, order_id: str, agreed: bool, comment: str = "") -> str:
        """Takes the decision of the manager; returns what to tell them."""
        client = app.background().client
        try:
            (client.approve if agreed else client.reject)(order_id, by="manager", comment=comment)
        except AlreadyDecided as error:
            return f"it was decided already: {error}"
        return "thank you"
