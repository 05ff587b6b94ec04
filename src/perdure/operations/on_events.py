"""Operations on events that programs post, to start what listens to them."""

from typing import Any

from perdure.service.store_access import StoreAccess
from perdure.service.triggers import posted_events
from perdure.service.triggers.posted_events import PostedEvent


async def post(access: StoreAccess, tenant: str, event: dict[str, Any]) -> PostedEvent:
    """Posts a CloudEvent (1.0, in its JSON form), which starts what triggers of this `type` start. It is durable; an engine starts what it triggers.

    An event of the same `source` and `id` is posted once.

    Raises:
        BadValue: it is no CloudEvent, or is too large.
    """
    return await posted_events.post_event(access, tenant, event)
