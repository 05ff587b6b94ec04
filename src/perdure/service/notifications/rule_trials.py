"""Trials of rules: a sample is sent by the channel of a rule, and requests and e-mails are attempted once."""

from uuid import uuid4

import msgspec

from perdure.core.operations import NOTIFICATION_WORKFLOW
from perdure.core.paths import Key
from perdure.runtime.workflow_programs import encode_input
from perdure.service.execution_operations import StartRequest, start_post
from perdure.service.notifications.app_channel import NoticedEvent, expect_hook
from perdure.service.notifications.notification_rules import read_rule
from perdure.service.notifications.notification_workflow import NOTIFICATION_CODE, NotificationOrder
from perdure.service.store_access import StoreAccess


class RuleTrial(msgspec.Struct, frozen=True):
    """The execution that sends the sample: its result says to whom."""

    key: Key
    execution_id: str


async def try_rule(access: StoreAccess, tenant: str, name: str, to: str) -> RuleTrial:
    """Sends a sample by a rule, to its target, or to the address of the person `to` if it has none. It is sent at once, also if the rule is disabled.

    Raises:
        NotFound: there is no such rule.
        BadValue: its channel is app, and no living engine has a function for notifications.
    """
    rule = (await read_rule(access.store, tenant, name)).rule
    if rule.channel == "app":
        await expect_hook(access)
    id, now_s = f"{name}:trial:{uuid4().hex}", (await access.store.store_time()).now_s
    text, people = "This is a sample: nothing has happened.", (to,) if rule.channel == "app" else ()
    event = NoticedEvent(f"{id}:event", rule.kinds[0], f"A sample of the rule {name}", text, rule.workflow or "sample", "sample", now_s, people=people)
    order = NotificationOrder(name, "" if rule.target or rule.channel == "app" else to, (event,), is_trial=True)
    key = Key(tenant, NOTIFICATION_WORKFLOW, id)
    request = StartRequest(key=key, input=encode_input(NOTIFICATION_CODE, (order,), {}, "start"), version=1)
    await access.store.commit([await start_post(access, request)])
    return RuleTrial(key, id)
