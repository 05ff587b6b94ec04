"""Delegation and absence: who may decide instead, who may no longer, what is recorded, and that each of them happens once whatever crashes."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import Context, DecisionRefused, Workflow, workflow
from perdure.code.builtin_workflows import APPROVAL_CODE
from perdure.core.errors import BadName, BadValue, Forbidden, HasEnded, StaleRecord
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.core.paths import Key
from perdure.operations import on_approvals, on_people
from perdure.service.callers import Caller, Role
from perdure.service.people.person_records import PersonSettings
from perdure.service.people.substitutes import stood_in_for, with_substitutes
from perdure.service.store_access import StoreAccess
from perdure.sync_client import AsyncClient
from tests.crash_budgets import Budget, crash_budgets
from tests.proof.crash_search import Play, ScriptStage, crash_at_every_write
from tests.proof.disks import MemoryDisk
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually


@workflow
async def asks(ctx: Context, assignees: list[str], quorum: int = 1) -> list[Any]:
    found = await ctx.approve("Ship it?", assignees=assignees, quorum=quorum)
    return [found.approved, *(vote.by for vote in found.votes)]


async def ask(c: Cluster, client: AsyncClient, assignees: list[str], quorum: int = 1) -> Any:
    await c.engine(asks)
    handle = await client.start(asks.with_(id="e"), assignees, quorum)
    await settle(1.0)
    return handle


async def waiting(client: AsyncClient, assignee: str, *groups: str) -> int:
    found = await client.approvals(assignee, groups=groups)
    assert (await client.people.approval_count(assignee, groups=groups)).waiting == len(found)
    return len(found)


def now() -> datetime:
    return datetime.fromtimestamp(asyncio.get_running_loop().time(), UTC)


@virtually
async def test_a_delegate_decides_and_who_has_delegated_does_not_any_more(c: Cluster, client: AsyncClient) -> None:
    handle = await ask(c, client, ["ada", "bob"])
    one = await client.approval("e")
    await client.people.delegate(one, "carl", by="ada", note="you know them")
    assert [await waiting(client, name) for name in ("ada", "bob", "carl")] == [0, 1, 1]
    with pytest.raises(DecisionRefused, match="ada has delegated the decision to carl"):
        await client.approve("e", by="ada")
    (delegation,) = (await client.approval("e")).delegations
    assert (delegation.by, delegation.to, delegation.note, delegation.at_s > 0) == ("ada", "carl", "you know them", True)
    await client.people.delegate(one, "dora", by="carl")
    await client.people.delegate(one, "ada", by="dora")
    await client.approve("e", by="ada")
    assert await handle.result() == [True, "ada"]
    with pytest.raises(HasEnded):
        await client.people.delegate(one, "carl", by="bob")


@virtually
async def test_a_member_of_a_group_lets_somebody_else_decide_too(c: Cluster, client: AsyncClient) -> None:
    handle = await ask(c, client, ["group:ops"])
    one = await client.approval("e")
    with pytest.raises(DecisionRefused, match="eve is not among those who may decide"):
        await client.people.delegate(one, "carl", by="eve")
    await client.people.delegate(one, "carl", by="ada", groups=["ops"])
    assert [await waiting(client, "ada", "ops"), await waiting(client, "carl"), await waiting(client, "ada")] == [1, 1, 0]
    await client.reject("e", by="carl")
    assert await handle.result() == [False, "carl"]


@virtually
async def test_a_member_who_delegates_to_several_people_and_votes_counts_once_in_a_quorum(c: Cluster, client: AsyncClient) -> None:
    handle = await ask(c, client, ["group:ops"], 2)
    one = await client.approval("e")
    for delegate in ("carl", "dora"):
        await client.people.delegate(one, delegate, by="ada", groups=["ops"])
    await client.people.delegate(one, "finn", by="dora")
    await client.approve("e", by="carl")
    with pytest.raises(DecisionRefused, match=r"carl has decided already in the place of ada$"):
        await client.approve("e", by="ada", groups=["ops"])
    with pytest.raises(DecisionRefused, match="carl has decided already in the place of ada, and finn would decide in the place of ada as well"):
        await client.approve("e", by="finn")
    for by, groups in (("ada", ["ops"]), ("finn", [])):
        with pytest.raises(DecisionRefused, match="carl has decided already in the place of ada"):
            await client.people.delegate(one, "gus", by=by, groups=groups)
    assert [await waiting(client, name) for name in ("carl", "dora", "finn")] == [0, 0, 0]
    await client.approve("e", by="bob", groups=["ops"])
    assert await handle.result() == [True, "carl", "bob"]


@virtually
async def test_after_a_member_has_voted_their_delegate_does_not_but_as_a_member_themselves(c: Cluster, client: AsyncClient) -> None:
    handle = await ask(c, client, ["group:ops"], 2)
    one = await client.approval("e")
    await client.people.delegate(one, "carl", by="ada", groups=["ops"])
    await client.approve("e", by="ada", groups=["ops"])
    with pytest.raises(DecisionRefused, match="ada has decided already, and carl would decide in the place of ada as well"):
        await client.approve("e", by="carl")
    await client.approve("e", by="carl", groups=["ops"])
    assert await handle.result() == [True, "ada", "carl"]


@virtually
async def test_an_assignee_who_is_in_an_assigned_group_as_well_counts_once(c: Cluster, client: AsyncClient) -> None:
    handle = await ask(c, client, ["ada", "group:ops"], 2)
    await client.people.delegate(await client.approval("e"), "carl", by="ada")
    await client.approve("e", by="carl")
    with pytest.raises(DecisionRefused, match="carl has decided already in the place of ada"):
        await client.approve("e", by="ada", groups=["ops"])
    await client.approve("e", by="bob", groups=["ops"])
    assert await handle.result() == [True, "carl", "bob"]


@virtually
async def test_what_can_not_be_delegated_is_refused_and_changes_nothing(c: Cluster, client: AsyncClient) -> None:
    await ask(c, client, ["ada", "bob", "carl"], 2)
    await client.approve("e", by="bob")
    before = await client.approval("e")
    refused = {("ada", "carl"): "carl may decide already", ("bob", "dora"): "bob has decided already", ("eve", "dora"): "not among", ("ada", "ada"): "already"}
    for (by, to), why in refused.items():
        for wait in (True, False):
            with pytest.raises(DecisionRefused, match=why):
                await client.people.delegate(before, to, by=by, wait=wait)
    for to in ("", "group:ops", "x" * 5_000):
        with pytest.raises((BadName, BadValue)):
            await client.people.delegate(before, to, by="ada")
    with pytest.raises(BadValue, match="note"):
        await client.people.delegate(before, "dora", by="ada", note="x" * 10_001)
    assert await client.approval("e") == before


@virtually
async def test_a_question_to_anybody_has_nothing_to_delegate(c: Cluster, client: AsyncClient) -> None:
    await ask(c, client, [])
    with pytest.raises(DecisionRefused, match="anybody may decide"):
        await client.people.delegate(await client.approval("e"), "carl", by="ada")


@virtually
async def test_a_delegation_that_no_engine_has_accepted_counts_already(c: Cluster, client: AsyncClient) -> None:
    handle = await ask(c, client, ["ada"])
    one = await client.approval("e")
    await c.processes[0].stop()
    await client.people.delegate(one, "carl", by="ada", wait=False)
    with pytest.raises(DecisionRefused, match="delegated the decision to carl"):
        await client.approve("e", by="ada", wait=False)
    await client.approve("e", by="carl", wait=False)
    await c.engine(asks)
    assert await handle.result() == [True, "carl"]


def test_a_person_delegates_what_is_their_own() -> None:
    @virtually
    async def own(c: Cluster, client: AsyncClient) -> None:
        await ask(c, client, ["ada", "group:ops"])
        access, key = StoreAccess(c.store), (await client.approval("e")).key
        person = Caller("default", "oidc:eve", frozenset[Role](("approver",)), ("sales",))
        with pytest.raises(Forbidden):
            await on_approvals.delegate(access, key, "carl", "ada", caller=person)
        with pytest.raises(DecisionRefused, match="eve is not among"):
            await on_approvals.delegate(access, key, "carl", groups=("ops",), caller=person)
        await on_approvals.delegate(access, key, "carl", caller=Caller("default", "oidc:ada", frozenset[Role](("approver",))))
        assert (await client.approval("e")).assignees == ("carl", "group:ops")

    own()


# Out of office


@pytest.mark.slow
@virtually
async def test_who_stands_in_decides_during_the_absence_and_that_is_recorded(c: Cluster, client: AsyncClient) -> None:
    handle = await ask(c, client, ["ada", "bob"], 2)
    begin = now() + timedelta(hours=1)
    await client.people.save_person("ada", out_from=begin, out_until=begin + timedelta(days=2), substitute="carl")
    assert await waiting(client, "carl") == 0
    with pytest.raises(DecisionRefused, match="carl is not among"):
        await client.approve("e", by="carl")
    await asyncio.sleep(3_700)
    assert [await waiting(client, name) for name in ("ada", "bob", "carl")] == [1, 1, 1]
    await client.approve("e", by="carl")
    one = await client.approval("e")
    assert one.assignees == ("carl", "bob") and [(each.by, each.to, each.is_absent) for each in one.delegations] == [("ada", "carl", True)]
    with pytest.raises(DecisionRefused, match="ada has delegated"):
        await client.approve("e", by="ada")
    await client.approve("e", by="bob")
    assert await handle.result() == [True, "carl", "bob"]


@virtually
async def test_after_the_absence_a_substitute_does_not_decide(c: Cluster, client: AsyncClient) -> None:
    await ask(c, client, ["ada"])
    await client.people.save_person("ada", out_from=now() - timedelta(days=1), out_until=now() + timedelta(hours=1), substitute="carl")
    assert await waiting(client, "carl") == 1
    await asyncio.sleep(3_700)
    assert await waiting(client, "carl") == 0
    with pytest.raises(DecisionRefused, match="not among"):
        await client.approve("e", by="carl")


@virtually
async def test_one_who_decides_themselves_does_not_decide_for_another_as_well(c: Cluster, client: AsyncClient) -> None:
    await ask(c, client, ["ada", "bob"], 2)
    await client.people.save_person("ada", out_from=now(), substitute="bob")
    await client.approve("e", by="bob")
    with pytest.raises(DecisionRefused, match="bob has decided already"):
        await client.approve("e", by="bob")
    assert await client.approvals("bob") == [] and await waiting(client, "ada") == 1


@virtually
async def test_substitutes_who_name_each_other_end_the_search(c: Cluster, client: AsyncClient) -> None:
    began = now()
    for person, substitute in (("ada", "bob"), ("bob", "carl"), ("carl", "ada"), ("dora", "carl"), ("eve", "nobody")):
        await client.people.save_person(person, out_from=began, substitute=substitute)
    assert await stood_in_for(c.store, "default", "ada", began.timestamp()) == ("carl", "bob", "dora")
    assert await with_substitutes(c.store, "default", ("ada", "group:ops", "eve"), began.timestamp()) == ("ada", "bob", "carl", "group:ops", "eve", "nobody")
    assert await stood_in_for(c.store, "other", "ada", began.timestamp()) == ()
    await ask(c, client, ["dora"])
    assert await waiting(client, "ada") == 1
    await client.approve("e", by="ada")


@virtually
async def test_what_is_known_of_a_person_is_theirs_and_of_one_revision(c: Cluster, client: AsyncClient) -> None:
    access = StoreAccess(c.store)
    ada, admin = Caller("default", "oidc:ada", frozenset[Role](("viewer",))), Caller("default", "key:abc", frozenset[Role](("admin",)))
    saved = await on_people.save_person(access, ada, "ada", PersonSettings(email="ada@example.com", unsubscribed=("reminder",)))
    assert (saved.version, saved.email, saved.is_out) == (1, "ada@example.com", False)
    for caller in (Caller("default", "oidc:eve", frozenset[Role](("approver",))), Caller("default", "key:ada", frozenset[Role](("operator",)))):
        with pytest.raises(Forbidden):
            await on_people.read_person(access, caller, "ada")
        with pytest.raises(Forbidden):
            await on_people.save_person(access, caller, "ada", PersonSettings())
    with pytest.raises(StaleRecord):
        await on_people.save_person(access, admin, "ada", PersonSettings(), 7)
    assert (await on_people.save_person(access, admin, "ada", PersonSettings(), 1)).version == 2
    assert (await client.people.person("unknown")).version == 0 and (await client.people.person("ada", tenant="other")).version == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"substitute": "carl"},
        {"out_from_at_s": 1.0},
        {"out_from_at_s": 1.0, "substitute": "ada"},
        {"out_from_at_s": 1.0, "substitute": "group:ops"},
        {"out_from_at_s": 1.0, "substitute": "x" * 1_025},
        {"out_from_at_s": 5.0, "out_until_at_s": 5.0, "substitute": "carl"},
        {"out_until_at_s": 5.0},
        {"email": "no address"},
        {"email": "a@b@c"},
        {"email": "a@b\r\nBcc: eve@example.com"},
        {"email": "a@" + "b" * 400},
        {"unsubscribed": ("everything",)},
    ],
)
def test_what_can_not_be_saved_of_a_person_is_refused(wrong: dict[str, Any]) -> None:
    @virtually
    async def refused(c: Cluster, client: AsyncClient) -> None:
        with pytest.raises(BadValue):
            await on_people.save_person(StoreAccess(c.store), Caller("default", "key:a", frozenset[Role](("admin",))), "ada", PersonSettings(**wrong))
        assert (await client.people.person("ada")).version == 0

    refused()


# Crashes


def _timeless(result: Any) -> Any:
    """A result without the times of votes, which a crash may shift."""
    return {**result, "at_s": 0, "votes": [{**one, "at_s": 0} for one in result["votes"]]} if isinstance(result, dict) else result


async def _delegated_and_decided(stage: ScriptStage) -> None:
    key = await stage.start(asks, ["ada", "bob"], 2)
    await asyncio.sleep(1.0)
    approval = Key(key.tenant, APPROVAL_WORKFLOW, f"{key}:approve:Ship it?")
    await stage.send(approval, "delegate", {"by": "ada", "to": "carl"})
    await stage.send(approval, "vote", {"by": "ada", "approve": True})
    await stage.send(approval, "delegate", {"by": "bob", "to": "dora", "is_absent": True})
    await stage.send(approval, "vote", {"by": "dora", "approve": True})
    await stage.send(approval, "delegate", {"by": "eve", "to": "eve"})
    await stage.send(approval, "nonsense")
    await stage.send(approval, "delegate", {"no": "delegation"})
    await stage.send(approval, "vote", {"by": "carl", "approve": True})


@crash_budgets
@pytest.mark.parametrize("always_suspend", [False, True])
def test_killed_at_any_write_it_is_delegated_and_decided_once(always_suspend: bool, budget: Budget) -> None:
    approvals: Workflow[Any, Any] = Workflow(APPROVAL_CODE, lambda: ())
    play = Play([asks, approvals], _delegated_and_decided, always_suspend=always_suspend, shown=_timeless)
    report = crash_at_every_write(play, MemoryDisk, **budget)
    assert report.problems == () and report.worlds > 3
