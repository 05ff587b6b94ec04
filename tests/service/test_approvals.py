"""Claims about deciding: who waits is listed, one of two at once decides, what doesn't count changes nothing, and a signed link stands for its person."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import Ambiguous, Context, DecisionRefused, HasEnded, LinkRefused, NotFound, Timeout, workflow
from perdure.core.errors import AlreadyDecided, BadValue
from perdure.core.execution import Execution
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.core.paths import Key
from perdure.service import approvals
from perdure.service.approvals import already_decided
from perdure.service.people.signed_links import checked_public_url
from perdure.service.reruns import read_execution
from perdure.service.store_access import StoreAccess
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

SECRET = "a secret that is long enough"


@dataclass
class Ship:
    carrier: str
    cents: int = 0


@workflow
async def ships(ctx: Context, assignees: list[str], quorum: int = 1) -> list[Any]:
    found = await ctx.approve("Ship it?", form=Ship, details={"order": "ü"}, assignees=assignees, quorum=quorum, timeout="1d")
    return [found.approved, getattr(found.value, "carrier", None), found.by, found.comment]


@workflow
async def asks_two(ctx: Context) -> list[bool]:
    found = await ctx.join(lambda c: c.approve("One?", name="one"), lambda c: c.approve("Two?", name="two"))
    return [one.approved for one in found]


async def asked(c: Cluster, client: AsyncClient, *args: Any, id: str = "e") -> Any:
    if not c.processes:
        await c.engine(ships, asks_two)
    handle = await client.start(ships.with_(id=id), *args)
    await settle(1.0)
    return handle


@virtually
async def test_those_that_wait_are_listed_with_what_is_asked_and_of_whom(c: Cluster, client: AsyncClient) -> None:
    await asked(c, client, ["ada"], id="first")
    await asked(c, client, ["group:ops"], id="second")
    newest, oldest = await client.approvals()
    assert (newest.title, newest.details, newest.assignees, newest.quorum, newest.votes) == ("Ship it?", {"order": "ü"}, ("group:ops",), 1, ())
    assert newest.requested_by is not None and newest.requested_by.id == "second" and newest.path == "approve:Ship it?"
    assert newest.form is not None and newest.due_at_s is not None and newest.due_at_s - newest.requested_at_s == 86_400
    assert [one.requested_by.id for one in await client.approvals("ada") if one.requested_by] == ["first"]
    assert [one.requested_by.id for one in await client.approvals("bob", groups=["ops"]) if one.requested_by] == ["second"]
    assert await client.approvals("eve") == [] and await client.approvals(limit=1) == [newest]
    await client.approve(oldest, by="ada", value={"carrier": "dhl"})
    assert await client.approvals("ada") == []


@virtually
async def test_of_two_who_decide_at_once_one_does_and_the_other_is_told(c: Cluster, client: AsyncClient) -> None:
    handle = await asked(c, client, [])
    votes = [client.approve("e", by="ada", value={"carrier": "dhl"}), client.reject("e", by="bob", comment="no")]
    told = await asyncio.gather(*votes, return_exceptions=True)
    lost = [one for one in told if one is not None]
    assert len(lost) == 1 and isinstance(lost[0], HasEnded | DecisionRefused), told
    winner = "ada" if told[0] is None else "bob"
    assert (await handle.result())[2] == winner and winner in str(lost[0])
    with pytest.raises(HasEnded, match=winner):
        await client.approve((await _of(client, "e")), by="carl", value={"carrier": "x"})


async def _of(client: AsyncClient, id: str) -> str:
    (found,) = [one for one in await client.list(workflow=APPROVAL_WORKFLOW) if f"/{id}:" in one.key.id]
    return found.key.id


@virtually
async def test_what_does_not_count_is_refused_and_changes_nothing(c: Cluster, client: AsyncClient) -> None:
    handle = await asked(c, client, ["ada", "bob"], 2)
    before = (await client.approvals())[0]
    with pytest.raises(DecisionRefused, match="eve is not among those who may decide: ada, bob"):
        await client.approve("e", by="eve", value={"carrier": "dhl"})
    for wrong in (None, {}, {"carrier": 7}, "dhl"):
        with pytest.raises(BadValue, match="what the form asks for: at"):
            await client.approve("e", by="ada", value=wrong)
    with pytest.raises(NotFound):
        await client.approve("nobody", by="ada")
    assert (await client.approvals())[0] == before
    await client.approve("e", by="ada", value={"carrier": "dhl"}, comment="one")
    with pytest.raises(DecisionRefused, match="ada has decided already"):
        await client.reject("e", by="ada")
    await client.approve("e", by="bob", value={"carrier": "ups"}, comment="two")
    assert await handle.result() == [True, "ups", "bob", "two"]


@virtually
async def test_an_execution_that_asks_for_several_is_decided_place_by_place(c: Cluster, client: AsyncClient) -> None:
    await c.engine(ships, asks_two)
    handle = await client.start(asks_two.with_(id="two"))
    await settle(1.0)
    with pytest.raises(Ambiguous):
        await client.approve("two", by="ada")
    with pytest.raises(NotFound):
        await client.approve("two", by="ada", path="three")
    await client.approve("two", by="ada", path="two")
    await client.reject("two", by="ada")
    assert await handle.result() == [False, True]


@virtually
async def test_an_approval_is_meant_by_whatever_means_the_execution_that_asks(c: Cluster, client: AsyncClient) -> None:
    await asked(c, client, ["ada"], id="order-1")
    for number in range(10, 40):
        await client.start(client.workflow("unknown").with_(id=f"order-{number}"))
    (one,) = await client.approvals()
    for text in ("order-1", "ships/order-1", "default/ships/order-1", one.id):
        assert await client.approval(text) == one
    with pytest.raises(Ambiguous, match=r"order-39.* and more"):
        await client.approval("order")
    with pytest.raises(NotFound):
        await client.approval("order-10")
    await client.approve("ships/order-1", by="ada", value={"carrier": "dhl"})
    assert [vote.by for vote in (await client.approval(one.id)).votes] == ["ada"]


@virtually
async def test_a_decision_is_kept_until_an_engine_takes_it(c: Cluster, client: AsyncClient) -> None:
    handle = await asked(c, client, [])
    await c.processes[0].stop()
    with pytest.raises(Timeout, match="an engine that takes the decision"):
        await client.reject("e", by="bob", timeout="5s")
    with pytest.raises(DecisionRefused, match="it is rejected by bob already, which is recorded and takes effect when an engine runs"):
        await client.approve("e", by="ada", value={"carrier": "late"}, wait=False)
    assert (await handle.status()).decided
    await c.engine(ships, asks_two)
    assert (await handle.result())[2] == "bob"


@pytest.mark.slow
@virtually
async def test_a_signed_link_stands_for_its_person_and_answer_until_its_time_is_over(c: Cluster, client: AsyncClient) -> None:
    handle = await asked(c, client, ["group:ops", "ada"], 2)
    yes = await client.approval_link("e", by="carl", approve=True, secret=SECRET)
    again = await client.approval_link("e", by="ada", approve=True, lifetime="1h", secret=SECRET)
    for forged in ("", ".", "x", yes[:-2], yes.replace(".", ".A"), "é.x", yes + "=", again.split(".")[0] + "." + yes.split(".")[1]):
        with pytest.raises(LinkRefused, match="not signed with the secret"):
            await client.decide_by_link(forged, secret=SECRET)
    with pytest.raises(LinkRefused):
        await client.decide_by_link(yes, secret=SECRET + "!")
    with pytest.raises(BadValue, match="at least 16 bytes"):
        await client.approval_link("e", by="carl", approve=True, secret="short")
    with pytest.raises(BadValue, match="is not of type"):
        await client.decide_by_link(yes, secret=SECRET)
    await client.decide_by_link(yes, value={"carrier": "dhl"}, comment="by mail", secret=SECRET)
    with pytest.raises(DecisionRefused, match="carl has decided already"):
        await client.decide_by_link(yes, value={"carrier": "dhl"}, secret=SECRET)
    await asyncio.sleep(3600)
    with pytest.raises(LinkRefused, match="has expired"):
        await client.decide_by_link(again, value={"carrier": "dhl"}, secret=SECRET)
    await client.approve("e", by="ada", value={"carrier": "ups"})
    assert await handle.result() == [True, "ups", "ada", ""]
    assert [(vote.by, vote.means, vote.at_s > 0) for vote in (await client.approval("e")).votes] == [("carl", "link", True), ("ada", "api", True)]


@pytest.mark.parametrize("url", ["http://[::1", "https://", "https://host:port", "https://host/?a=b", "https://host/#a", "host"])
def test_what_is_no_address_of_the_service_is_refused(url: str) -> None:
    with pytest.raises(BadValue, match="the address at which people reach the API"):
        checked_public_url(url, "--public-url")
    assert checked_public_url("HTTPS://flows.example.com/perdure/", "--public-url") == "HTTPS://flows.example.com/perdure"


@virtually
async def test_the_log_of_a_decided_approval_is_read_once(c: Cluster, client: AsyncClient) -> None:
    await asked(c, client, [])
    one = await client.approval("e")
    await client.reject("e", by="ada")
    await settle(1.0)
    read: list[Key] = []

    async def reading(access: StoreAccess, key: Key) -> Execution:
        read.append(key)
        return await read_execution(access, key)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(approvals, "read_execution", reading)
        found = await already_decided(StoreAccess(c.store), one.key)
    assert isinstance(found, AlreadyDecided) and read == [one.key]


def test_a_form_that_refers_elsewhere_is_not_fetched() -> None:
    with pytest.raises(Exception, match="may not refer to"):
        approvals.check_form({"$ref": "http://127.0.0.1:1/schema"}, 1)
