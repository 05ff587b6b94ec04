"""What the payment of `payment.yaml` asks of the world: a bank that is sometimes busy, a carrier who does not go everywhere, mail.

Here they only say what they do.
"""

import sys

from perdure import Retry, step, step_info

VAT_PERCENT = 19

NOT_SERVED = "x"
"""To orders whose number begins like this the carrier does not go."""


@step(idempotent=True)
def calculate_total(cents: int) -> dict[str, int]:
    """The price with its tax."""
    return {"cents": cents * (100 + VAT_PERCENT) // 100}


@step(idempotent=True, retry=Retry(max=3, wait="100ms"))
def charge(order: str, cents: int, card: str, attempt: int) -> dict[str, str | int]:
    """Charge a card. The bank is asked with the key of the step, so asked again after a crash it answers as before."""
    _say(f"charge {cents} cents for {order} ({step_info().key})")
    if card == "broken":
        return {"status": "declined", "id": "", "cents": 0}
    if card == "slow" and attempt < 2:
        return {"status": "busy", "id": "", "cents": 0}
    return {"status": "success", "id": f"charge-{order}", "cents": cents}


def refund(charge: str, cents: int) -> None:
    """Give back what was charged; it runs when a payment fails or is cancelled behind its charge."""
    if charge:
        _say(f"refund {cents} cents of {charge}")


@step(idempotent=True)
def send_mail(order: str, text: str) -> None:
    """Write to the customer; a second mail after a crash does no harm."""
    _say(f"mail for {order}: {text}")


@step(idempotent=True)
def tell_crm(order: str, cents: int) -> None:
    """Tell those who look after large customers."""
    _say(f"crm: {order} is worth {cents} cents")


@step(idempotent=True, retry=Retry(max=1))
def ship(order: str) -> str:
    """Hand the parcel to the carrier, who knows an order that has come before."""
    if order.startswith(NOT_SERVED):
        raise ValueError(f"nobody goes where {order} should go")
    _say(f"ship {order}")
    return f"parcel-{order}"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
