"""Makes test deliveries as senders do: signed by a scheme, with the id and the event where that scheme has them. Pure."""

from typing import NamedTuple

from perdure.service.triggers.trigger_records import Verification
from perdure.service.triggers.webhook_signatures import Signing, signed_headers


class OutgoingDelivery(NamedTuple):
    """What is sent: the body, its type, an id, an event (empty: none), and the time in seconds since 1970. `id_header` is where the trigger reads the id."""

    body: bytes
    content_type: str
    id: str
    event: str
    at_s: int
    id_header: str = ""


def delivery_headers(how: Verification, secret: str, one: OutgoingDelivery) -> dict[str, str]:
    """The headers of a delivery. With Stripe and Slack, id and event are in the body, which is sent as it is.

    Raises:
        BadValue: the secret is not of the form that its scheme needs.
    """
    found = {"Content-Type": one.content_type} if one.body else {}
    match how.scheme:
        case "github":
            found |= {"X-GitHub-Delivery": one.id, "X-GitHub-Event": one.event or "push", "User-Agent": "GitHub-Hookshot/perdure"}
        case "stripe" | "slack":
            pass
        case _:
            found |= {one.id_header or "X-Delivery-Id": one.id} | ({"X-Event-Type": one.event} if one.event else {})
    return found | signed_headers(how, secret, Signing(one.body, one.at_s, one.id))
