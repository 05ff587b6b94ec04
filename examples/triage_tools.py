"""What the triage of `triage.yaml` can look at and do: tickets, customers, orders and articles of a shop. Here they only say what they do."""

import sys
from typing import TypedDict


class Order(TypedDict):
    """An order, as the shop has it."""

    id: str
    item: str
    cents: int
    charges: int
    state: str


TICKETS = {
    "T-1041": {"from": "mara@example.org", "subject": "Charged twice", "text": "Hi, my card shows two payments of 64.90 for one kettle. Please fix!"},
    "T-1042": {
        "from": "jon@example.net",
        "subject": "App crashes",
        "text": "Since the update the app closes as soon as I open my basket. Pixel 7, Android 15. It did that five times today.",
    },
    "T-1043": {"from": "ines@example.com", "subject": "Filter?", "text": "Which filter fits the K2 kettle, and how often do I change it?"},
}
CUSTOMERS: dict[str, dict[str, str | int]] = {
    "mara@example.org": {"id": "c-17", "name": "Mara Lind", "since": 2019, "orders": 12},
    "jon@example.net": {"id": "c-90", "name": "Jon Beck", "since": 2024, "orders": 1},
    "ines@example.com": {"id": "c-33", "name": "Inês Prado", "since": 2021, "orders": 4},
}
ORDERS: dict[str, list[Order]] = {
    "c-17": [{"id": "o-5521", "item": "kettle K2", "cents": 6490, "charges": 2, "state": "delivered"}],
    "c-90": [{"id": "o-6003", "item": "cup", "cents": 900, "charges": 1, "state": "delivered"}],
    "c-33": [{"id": "o-4107", "item": "kettle K2", "cents": 6490, "charges": 1, "state": "delivered"}],
}
ARTICLES = {
    "Filters": "The K1 takes filter F1, the K2 takes F2. Change it every eight weeks, or after 100 litres.",
    "Returns": "What came broken may be sent back within 30 days.",
}


def read_ticket(ticket: str) -> dict[str, str]:
    """A ticket as it was written."""
    return TICKETS[ticket]


def find_customer(email: str) -> dict[str, str | int] | None:
    """Who has this address: id, name, since which year, how many orders. Nothing, if nobody has."""
    return CUSTOMERS.get(email)


def find_orders(customer: str) -> list[Order]:
    """The orders of a customer, by the customer's id: what, for how many cents, how often it was charged, and where it is."""
    return ORDERS.get(customer, [])


def search_articles(words: str) -> list[str]:
    """Articles of the shop's help in which one of the words stands."""
    wanted = words.casefold().split()
    return [f"{title}: {text}" for title, text in ARTICLES.items() if any(word in f"{title} {text}".casefold() for word in wanted)]


def refund(order: str) -> str:
    """Give the money for an order back."""
    _say(f"refund {order}")
    return f"refund-{order}"


def file_bug(ticket: str, summary: str, urgency: str) -> str:
    """Tell engineering of something that seems to be broken."""
    _say(f"bug of {ticket} ({urgency}): {summary}")
    return f"bug-{ticket}"


def answer(ticket: str, summary: str, refund: str | None, bug: str | None) -> None:
    """Write to the customer."""
    done = refund or bug or "an answer"
    _say(f"answer to {ticket}: {summary} ({done})")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
