"""Claims about what rules are for: triggers that have paused themselves, proposals, and many dead letters within a short time, each told once."""

import asyncio
from typing import Any

import pytest

from perdure.service import catalog
from perdure.service.catalog_changes import Edit
from perdure.service.proposals import proposal_changes
from perdure.service.proposals.proposal_changes import Proposer
from perdure.service.service_workflows import SERVICE_WORKFLOWS
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.event_listeners import ListenerAnnouncer
from perdure.service.triggers.trigger_records import EventConfig, ScheduleConfig
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually
from tests.service.notifications.test_notifications import asks, begun, caught, failed, fails, rule, sent, titles
from tests.service.proposals.proposed_documents import document

__all__ = ["caught"]
T = "default"


@pytest.fixture(autouse=True)
def _nothing_sent(caught: Any) -> None:
    sent.clear()


async def engine_again(c: Cluster) -> None:
    await c.processes[-1].kill()
    await c.engine(asks, fails, built_in=SERVICE_WORKFLOWS)


def test_a_schedule_that_pauses_itself_is_told_once_and_one_that_somebody_pauses_is_not() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        await begun(c, client, ("broken", rule("breaker_open")), ("other", rule("breaker_open", workflow="asks")))
        by_hand = await client.triggers.create("calm", ScheduleConfig(every_s=3_600.0), "asks", input={"title": "?", "assignees": ["ada"]})
        await client.triggers.pause(by_hand.id, "a fair")
        made = await client.triggers.create("failing", ScheduleConfig(every_s=60.0, break_after=2), "fails", input={"why": "broken"})
        await asyncio.sleep(400)
        assert titles() == ["the trigger failing has paused itself"]
        assert "its last 2 executions have failed" in sent[0][0] and made.id in sent[0][0]
        await engine_again(c)
        await asyncio.sleep(100)
        await client.triggers.resume(made.id)
        await asyncio.sleep(400)
        assert titles() == ["the trigger failing has paused itself"] * 2, "it has broken again"

    told()


def test_a_chain_of_triggers_that_was_stopped_is_told() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        await c.engine(asks, fails, built_in=SERVICE_WORKFLOWS, announcer=ListenerAnnouncer(c.store))
        await client.people.save_notification_rule("broken", rule("breaker_open"))
        await client.triggers.create("loop", EventConfig(on=("failed",), of="fails"), "fails", input={"why": "again"})
        await asyncio.sleep(30)
        await failed(client, "first")
        await asyncio.sleep(120)
        assert titles() == ["the trigger loop has paused itself"] and "would run for ever" in sent[0][0]

    told()


def test_a_proposal_is_told_once_while_it_is_pending() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        access = StoreAccess(c.store)
        made = await catalog.create_definition(access, T, document(), Edit("ada"))

        async def propose(value: int) -> str:
            kept = await proposal_changes.propose(access, T, "invoice", document(value), made.hash, Proposer("oidc:ada"), note="better")
            return kept.value.id

        await propose(2)
        await asyncio.sleep(1)
        await begun(c, client, ("filed", rule("proposal_filed", "breaker_open")), ("other", rule("proposal_filed", workflow="other")))
        id = await propose(3)
        await asyncio.sleep(30)
        await engine_again(c)
        await asyncio.sleep(100)
        assert titles() == ["oidc"] and "oidc:ada proposes a change of invoice: better" in sent[0][0] and f"perdure proposal show {id}" in sent[0][0]

    told()


def test_many_dead_letters_within_a_short_time_are_told_once_until_they_have_become_few() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        surge = {"surge_above": 3, "surge_s": 600.0}
        await begun(c, client, ("surge", rule("dead_letter_surge", **surge)), ("mine", rule("dead_letter_surge", workflow="asks", **surge)))
        await failed(client, "a1", "a2", "a3")
        await asyncio.sleep(60)
        assert sent == [], "it takes more than three"
        await failed(client, "a4")
        await asyncio.sleep(30)
        await failed(client, "a5")
        await engine_again(c)
        await asyncio.sleep(300)
        assert titles() == ["more than 3 dead letters within 10 min"]
        await failed(client, "b1", "b2")
        await asyncio.sleep(600)
        assert len(sent) == 1, "the surge was not over"
        await asyncio.sleep(300)
        await failed(client, "c1", "c2", "c3", "c4")
        await asyncio.sleep(60)
        assert titles() == ["more than 3 dead letters within 10 min"] * 2

    told()


def test_dead_letters_that_are_spread_over_time_are_no_surge() -> None:
    @virtually
    async def told(c: Cluster, client: AsyncClient) -> None:
        await begun(c, client, ("surge", rule("dead_letter_surge", surge_above=1, surge_s=60.0)))
        for id in "abc":
            await failed(client, id)
            await asyncio.sleep(90)
        assert sent == []

    told()
