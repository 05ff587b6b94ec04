"""Operations on the deliveries of webhooks: what was received, and replays."""

from datetime import datetime

from perdure.service.page_cursors import page_limit
from perdure.service.store_access import StoreAccess
from perdure.service.triggers import delivery_log, sample_deliveries
from perdure.service.triggers.delivery_log import DeliveryDetails, DeliveryFilter, DeliveryPage, ReplayedDeliveries
from perdure.service.triggers.sample_deliveries import SampleDelivery, SentSample
from perdure.service.triggers.trigger_directory import TriggeredRun


async def page(
    access: StoreAccess,
    tenant: str,
    trigger: str,
    *,
    since: float | datetime | None = None,
    until: float | datetime | None = None,
    event: str = "",
    status: str = "",
    limit: int = 100,
    after: str = "",
) -> DeliveryPage:
    """Lists the deliveries of a webhook that were accepted, newest first, behind `after`.

    They are those since and until a time (or a duration before now), of an event, and with executions of a status. Those that were rejected are in the memory
    of the process that rejected them: it tells how many there were, and the last 20.

    Raises:
        NotFound: there is no such trigger.
        BadValue: it is no webhook, or the limit or the position is invalid.
    """
    which = DeliveryFilter(since=since, until=until, event=event, status=status)
    return await delivery_log.list_deliveries(access, tenant, trigger, which, page_limit(limit), after or None)


async def read(access: StoreAccess, tenant: str, trigger: str, delivery: str) -> DeliveryDetails:
    """A delivery that was accepted, with its body.

    Raises:
        NotFound: there is no such trigger, or no such delivery any more.
        BadValue: the trigger is no webhook.
    """
    return await delivery_log.read_delivery(access, tenant, trigger, delivery)


async def replay(access: StoreAccess, tenant: str, trigger: str, delivery: str, author: str, client_request_id: str = "") -> TriggeredRun:
    """Starts a new execution with what a delivery has brought, by the trigger and the workflow as they are now.

    With a `client_request_id`, its repetition finds the execution that the first has started.

    Raises:
        NotFound, Ambiguous: there is no such trigger, delivery or workflow any more.
        BadValue, BadName: the body was not kept, or the workflow does not take it.
        BadDefinition: the definition calls something that is not there.
        DefinitionDisabled: the definition is disabled.
    """
    return await delivery_log.replay_delivery(access, tenant, trigger, delivery, author, client_request_id)


async def replay_many(
    access: StoreAccess,
    tenant: str,
    trigger: str,
    author: str,
    *,
    since: float | datetime | None = None,
    until: float | datetime | None = None,
    event: str = "",
    status: str = "",
    expect: int | None = None,
    client_request_id: str = "",
) -> ReplayedDeliveries:
    """Counts the deliveries that match or, with `expect`, the number that was counted, replays them, the oldest first.

    With a `client_request_id`, its repetition finds the executions that the first has started.

    Raises:
        NotFound, Ambiguous: there is no such trigger, or no such workflow any more.
        BadValue, BadName: others match than are expected, more than can be replayed at a time, or the workflow does not take one.
        BadDefinition: the definition calls something that is not there.
        DefinitionDisabled: the definition is disabled.
    """
    which = DeliveryFilter(since=since, until=until, event=event, status=status)
    return await delivery_log.replay_deliveries(access, tenant, trigger, which, author, expect=expect, request_id=client_request_id)


async def send_sample(access: StoreAccess, tenant: str, trigger: str, sample: SampleDelivery) -> SentSample:
    """Sends a delivery to a webhook as its sender would, signed with a secret of the trigger, which stays on the server. It starts an execution like any other.

    Raises:
        NotFound, Ambiguous: there is no such trigger, or its workflow is there no more.
        BadValue, BadName: it is no webhook, or is not active, its secret is not set, the body is too long, or the workflow does not take it.
        BadDefinition: the definition calls something that is not there.
        DefinitionDisabled: the definition is disabled.
        TooManyActive: as many executions as the trigger allows have not ended.
    """
    return await sample_deliveries.send_sample(access, tenant, trigger, sample)
