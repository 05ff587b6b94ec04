"""A process that is killed around any of its writes neither loses a notification nor begins one twice, by each channel, in groups, and of a surge."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from perdure import AppNotification, Context, workflow
from perdure.core.operations import HOOK_WORKFLOW, NOTIFICATION_WORKFLOW
from perdure.notification_hook import hook_workflow
from perdure.runtime.engine import Engine
from perdure.service.notifications import notification_channels
from perdure.service.notifications.notification_channels import OutgoingNotification
from perdure.service.notifications.notification_rules import NotificationRule
from perdure.service.service_workflows import SERVICE_WORKFLOWS
from perdure.stores.protocol import HeadFilter
from perdure.sync_client import AsyncClient
from perdure.testing.crash_points import CrashPoint, around_writes
from perdure.testing.virtual_time import kill
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually
from tests.service.killed_stores import KilledAtWrite

IDS = ("a", "b", "c")
LAST_WRITE = 31
CRASHES = around_writes(range(1, LAST_WRITE + 1))
WEBHOOK = NotificationRule(kinds=("failure",), channel="webhook", target="https://hooks.example.com", secret="HOOK")


@workflow
async def fails(ctx: Context) -> None:
    raise ValueError("broken")


@pytest.mark.parametrize("crash", [pytest.param(one, marks=[] if one.write in (5, 20) else pytest.mark.prove, id=one.spec) for one in CRASHES])
def test_a_kill_around_any_write_neither_loses_nor_doubles_a_notification(crash: CrashPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    async def take(store: Any, tenant: str, url: str, secret: str, one: OutgoingNotification) -> None:
        sent.append(one.id)

    async def receive(notification: AppNotification) -> None:
        sent.append(notification.id)

    monkeypatch.setattr(notification_channels, "send_webhook", take)
    hook = hook_workflow(receive)

    @virtually
    async def inside(c: Cluster, client: AsyncClient) -> None:
        setup = await c.engine(fails, hook, built_in=SERVICE_WORKFLOWS)
        for name, group_s in {"each": 0.0, "grouped": 20.0}.items():
            await client.people.save_notification_rule(name, msgspec.structs.replace(WEBHOOK, group_s=group_s))
        surge = msgspec.structs.replace(WEBHOOK, kinds=("dead_letter_surge",), surge_above=2)
        await client.people.save_notification_rule("surge", surge)
        await client.people.save_notification_rule("here", NotificationRule(kinds=("failure",), channel="app"))
        await asyncio.sleep(30 + 600 - asyncio.get_running_loop().time() % 600)
        await setup.stop()
        died = asyncio.Event()
        store = KilledAtWrite(c.store, crash, died)
        dying = Engine(store, [fails.code, hook.code], built_in=SERVICE_WORKFLOWS)
        running = asyncio.create_task(dying.run())
        await c.post_all(fails, [(id, ()) for id in IDS])
        await asyncio.sleep(60)
        assert died.is_set() or store.writes < crash.write, "the writes of three failures and what people are told of them"
        await kill([running, *dying._tasks])
        _ = running.cancelled() or running.exception()  # it has died of the fault that killed it
        done = {head.key.id for head in await c.store.heads(HeadFilter(workflow=NOTIFICATION_WORKFLOW, ended=True, limit=100))}
        await c.engine(fails, hook, built_in=SERVICE_WORKFLOWS)
        await asyncio.sleep(1_200)
        begun = await c.store.heads(HeadFilter(workflow=NOTIFICATION_WORKFLOW, limit=100))
        assert Counter(head.key.id.partition(":")[0] for head in begun) == {"each": 3, "grouped": 1, "here": 3, "surge": 1}
        assert {head.status for head in begun} == {"completed"}
        assert len(await c.store.heads(HeadFilter(workflow=HOOK_WORKFLOW, limit=100))) == 3
        again = Counter(sent)
        assert again.keys() == {head.key.id for head in begun}, "each was sent"
        assert max(again.values()) <= 2 and all(again[id] == 1 for id in done), "and again only what was in flight when the process died, once"

    inside()
