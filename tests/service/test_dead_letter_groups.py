"""Claims about dead letters: what failed alike is one group, off the list is what was retried or discarded, and nothing is run that nobody asked for."""

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure import Context, ExecutionCancelled, ExecutionFailed, NotFound, Retry, step, workflow
from perdure.async_handle import AsyncHandle
from perdure.core.errors import BadValue
from perdure.core.failure_causes import FINGERPRINT_DIGITS, failure_site, fingerprint, normalized_message
from perdure.core.paths import parse_path
from perdure.service.dead_letter_groups import DeadLetterGroup
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

did: list[str] = []
mended: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    did.clear()
    mended.clear()


@step(retry=Retry(max=1))
async def charge(order: str, cents: int) -> str:
    did.append(order)
    if cents > 1000 and order not in mended:
        raise ValueError(f"{cents} is too much for '{order}'")
    return f"{order}: {cents}"


@workflow
async def sells(ctx: Context, order: str, cents: int = 5000, *, loud: bool = False) -> str:
    receipt = await ctx.step(charge, order, cents)
    return receipt.upper() if loud else receipt


@workflow
async def charges(ctx: Context, many: int) -> None:
    async for turn in ctx.loop("turns", state=many):
        await turn.step(charge, "x", 5000 if turn.number == turn.state else 1)


@workflow
async def maps(ctx: Context, bad: int) -> None:
    await ctx.map(lambda c, item: c.step(charge, "x", 5000 if item == bad else 1), range(bad + 2))


@workflow
async def breaks(ctx: Context, what: str) -> None:
    await ctx.attempt(charge, "handled", 5000)
    raise KeyError(what)


@workflow
async def calls(ctx: Context) -> str:
    return f"got {await ctx.call(sells, 'child')}"


async def fail(client: AsyncClient, workflow: Any, *args: Any, id: str, **kwargs: Any) -> AsyncHandle[Any]:
    handle: AsyncHandle[Any] = await client.start(workflow.with_(id=id), *args, **kwargs)
    with pytest.raises(ExecutionFailed):
        await handle.result()
    await asyncio.sleep(1.0)
    return handle


async def world(c: Cluster) -> None:
    await c.engine(sells, charges, maps, breaks, calls)


def ids(group: DeadLetterGroup) -> list[str]:
    return [letter.key.id for letter in group.dead_letters]


# fingerprints


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5000 is too much for 'o1'", "70.25 is too much for 'o2'"),
        ('no "such thing" here', 'no "other" here'),
        ("user 6f9619ff-8b86-d011-b42d-00cf4fc964ff is gone", "user 00000000-8B86-D011-B42D-00CF4FC964FF is gone"),
        ("at 0x7f3a2b object", "at 0xdeadbeef object"),
        ("commit deadbeef00 failed", "commit 0123456789abcdef failed"),
        ("after 12:30:01, 3 tries", "after 9:05:00, 12 tries"),
        ("line one\n   line two", "line one line two"),
    ],
)
def test_messages_that_differ_in_numbers_ids_and_quoted_text_are_alike(one: str, other: str) -> None:
    assert normalized_message(one) == normalized_message(other)


@pytest.mark.parametrize(
    ("one", "other"), [("no money", "no card"), ("it isn't there", "it isn't here"), ("can't 'x', won't", "can't 'x', will"), ("face", "facade")]
)
def test_messages_that_say_something_else_are_not_alike(one: str, other: str) -> None:
    assert normalized_message(one) != normalized_message(other)


@pytest.mark.slow
@example("''0''")
@given(st.text() | st.text(alphabet="ab0 1'\"`.-<>xN"))
def test_a_message_without_what_differs_stays_as_it_is(message: str) -> None:
    assert normalized_message(normalized_message(message)) == normalized_message(message)
    assert len(fingerprint("w", (), "E", message)) == FINGERPRINT_DIGITS


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("pay", "pay"), ("pay#3", "pay"), ("audit/~7/pay", "audit/~N/pay"), ("map:item/item#12/pay", "map:item/item/pay"),
        ("charge 17", "charge N"), ("step2", "step2"), ("~undo/pay#2", "~undo/pay"), ("", ""),
    ],
)  # fmt: skip
def test_a_place_has_no_numbers_of_turns_and_items(path: str, shown: str) -> None:
    assert failure_site(parse_path(path)) == shown


def test_a_fingerprint_is_of_the_workflow_the_place_the_error_and_what_it_says() -> None:
    same = fingerprint("order", parse_path("audit/~1/pay"), "ValueError", "order 1")
    assert same == fingerprint("order", parse_path("audit/~2/pay#3"), "ValueError", "order 2") == "a85c3b4a65"
    others = [("orders", "pay", "ValueError", "order 1"), ("order", "buy", "ValueError", "order 1"), ("order", "pay", "KeyError", "order 1")]
    assert same not in {fingerprint(workflow, parse_path(f"audit/~1/{path}"), kind, message) for workflow, path, kind, message in others}


# the list


@pytest.mark.slow
@virtually
async def test_what_failed_alike_is_one_group_the_latest_first(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    assert await client.dead_letters.groups() == []
    await fail(client, sells, "o1", id="e1")
    await fail(client, charges, 2, id="t1")
    await fail(client, sells, "o2", 7000, id="e2")
    await fail(client, charges, 5, id="t2")
    await (await client.start(sells.with_(id="fine"), "fine", 5)).result()
    turns, orders = await client.dead_letters.groups()
    assert (ids(turns), ids(orders)) == (["t2", "t1"], ["e2", "e1"])
    assert (orders.workflow, orders.path, orders.type, orders.message, orders.count) == ("sells", "charge", "ValueError", "7000 is too much for 'o2'", 2)
    assert orders.first_at_s == orders.dead_letters[1].at_s < turns.dead_letters[1].at_s < orders.last_at_s == orders.dead_letters[0].at_s
    assert failure_site(parse_path(turns.path)) == "turns/~N/charge"


@virtually
async def test_items_of_a_map_are_alike_and_the_workflow_s_own_errors_are_not_of_a_step(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    await fail(client, maps, 1, id="m1")
    await fail(client, maps, 4, id="m2")
    await fail(client, breaks, "a", id="b1")
    own, items = await client.dead_letters.groups()
    assert ids(items) == ["m2", "m1"] and items.type == "ValueError"
    assert (ids(own), own.path, own.type) == (["b1"], "", "KeyError")


@step(retry=Retry(max=1))
async def beside(takes_s: float, fails: bool) -> None:
    await asyncio.sleep(takes_s)
    if fails:
        raise OSError("too late to be the cause")


@workflow
async def charges_beside(ctx: Context, takes_s: float, fails: bool) -> None:
    other = asyncio.ensure_future(ctx.step(beside, takes_s, fails))
    await ctx.sleep("1s")
    await ctx.step(charge, "x", 5000)
    await other


@pytest.mark.parametrize(("takes_s", "fails"), [(10.0, True), (1000.0, False)])
def test_what_was_given_up_with_the_failure_is_not_its_cause(takes_s: float, fails: bool) -> None:
    @virtually
    async def claim(c: Cluster, client: AsyncClient) -> None:
        await c.engine(charges_beside)
        handle = await client.start(charges_beside, takes_s, fails)
        with pytest.raises(ExecutionFailed):
            await handle.result()
        (group,) = await client.dead_letters.groups()
        assert (group.path, group.type, group.reason, group.dead_letters[0].attempts) == ("charge", "ValueError", "max_retries_exceeded", 1)

    claim()


@virtually
async def test_a_parent_and_its_child_are_two_groups(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    await fail(client, calls, id="p")
    found = {group.workflow: group for group in await client.dead_letters.groups()}
    assert set(found) == {"calls", "sells"} and found["calls"].path == "call:sells"


@virtually
async def test_what_needs_attention_is_a_dead_letter_and_what_is_paused_is_none(c: Cluster, client: AsyncClient) -> None:
    @workflow(name="changing")
    async def before(ctx: Context) -> None:
        await ctx.listen("never")

    @workflow(name="changing")
    async def after(ctx: Context) -> None:
        await ctx.sleep("1d")

    engine = await c.engine(before)
    handle = await client.start(before.with_(id="changed"))
    paused = await client.start(before.with_(id="paused"))
    await settle(1.0)
    await paused.pause(wait=True)
    await engine.stop()
    await c.engine(after)
    await handle.send("nothing")
    await settle(1.0)
    (group,) = await client.dead_letters.groups()
    assert (ids(group), group.dead_letters[0].status, group.type) == (["changed"], "needs_attention", "diverged")
    await client.dead_letters.discard("changed", "not worth it", wait=True)
    assert await client.dead_letters.groups() == []
    with pytest.raises(ExecutionCancelled, match="not worth it"):
        await handle.result()


@virtually
async def test_a_group_is_chosen_by_the_beginning_of_its_fingerprint(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    await fail(client, sells, "o1", id="e1")
    await fail(client, breaks, "a", id="b1")
    for group in await client.dead_letters.groups():
        assert await client.dead_letters.groups(fingerprint=group.fingerprint[:5]) == [group]
    with pytest.raises(BadValue, match="one of those that dead letters have"):
        await client.dead_letters.groups(fingerprint="none")
    assert [ids(group) for group in await client.dead_letters.groups(workflow="sells")] == [["e1"]]
    assert [ids(group) for group in await client.dead_letters.groups(id_prefix="b", since="1h")] == [["b1"]]


@virtually
async def test_a_count_that_leaves_some_out_says_so(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    for number in range(3):
        await fail(client, breaks, "a", id=f"b{number}")
    for limit, count, complete in ((1, 1, False), (2, 2, False), (3, 3, True), (4, 3, True)):
        (group,) = await client.dead_letters.groups(limit=limit)
        assert (group.count, group.complete) == (count, complete)


# what is done about them


@virtually
async def test_what_is_requeued_goes_on_from_what_failed(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    await fail(client, sells, "o1", id="e1")
    mended.add("o1")
    handle = await client.dead_letters.requeue("e1", "mended")
    assert (handle.id, handle.created, await handle.result()) == ("e1", False, "o1: 5000")
    assert await client.dead_letters.groups() == []
    with pytest.raises(BadValue, match="is not an execution that has failed or needs attention: it is completed"):
        await client.dead_letters.requeue("e1")
    with pytest.raises(NotFound):
        await client.dead_letters.requeue("nobody")


@virtually
async def test_what_is_requeued_with_edits_begins_anew_once_and_the_other_is_discarded(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    first = await fail(client, sells, "o1", id="e1", cents=7000)
    handle = await client.dead_letters.requeue("e1", "too much", edits={"cents": 5})
    again = await client.dead_letters.requeue("e1", edits={"cents": 5})
    assert handle.key == again.key != first.key and handle.created
    assert await handle.result() == "o1: 5" and did == ["o1", "o1"]
    with pytest.raises(ExecutionCancelled, match=f"too much; it was requeued as {handle.key}".replace("+", r"\+")):
        await first.result()
    assert await client.dead_letters.groups() == [] and len(await client.list()) == 2


@virtually
async def test_what_was_requeued_with_edits_and_discarded_is_requeued_again_as_the_same(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    await fail(client, sells, "o1", id="e1", cents=7000)
    handle = await client.dead_letters.requeue("e1", edits={"cents": 5}, wait=True)
    again = await client.dead_letters.requeue("e1", edits={"cents": 5})
    assert again.key == handle.key and await again.result() == "o1: 5"
    with pytest.raises(BadValue, match="it is cancelled"):
        await client.dead_letters.requeue("e1", edits={"cents": 6})
    assert len(await client.list()) == 2


@virtually
async def test_edits_name_arguments_or_number_those_that_were_given_by_position(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    await fail(client, sells, "o1", 7000, id="e1")
    with pytest.raises(BadValue, match="was given 2 by position; edit those by their numbers, from 1"):
        await client.dead_letters.requeue("e1", edits={"cents": 5})
    with pytest.raises(BadValue, match="there are 2"):
        await client.dead_letters.requeue("e1", edits={"3": 5})
    with pytest.raises(BadValue, match="what it takes"):
        await client.dead_letters.requeue("e1", edits={"cents": "many"}, workflow=sells)
    handle = await client.dead_letters.requeue("e1", edits={"2": 5})
    assert await handle.result() == "o1: 5"
    await fail(client, sells, "o2", 7000, id="e2")
    handle = await client.dead_letters.requeue("e2", edits={"cents": 6, "loud": True}, workflow=sells)
    assert await handle.result() == "O2: 6"


@virtually
async def test_what_is_discarded_is_cancelled_without_running_and_its_parent_is_not_told_again(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    parent = await fail(client, calls, id="p")
    child = next(one for one in await client.list(workflow="sells"))
    before = [event async for event in parent.events()]
    await client.dead_letters.discard(child.key, "not worth it", wait=True)
    await client.dead_letters.discard(child.key, "again", wait=True)
    handle = await client.get(child.key)
    with pytest.raises(ExecutionCancelled, match="not worth it"):
        await handle.result()
    assert [event.type async for event in handle.events()][-2:] == ["execution.failed", "execution.cancelled"]
    assert [group.workflow for group in await client.dead_letters.groups()] == ["calls"]
    assert [event async for event in parent.events()] == before and did == ["child"]
    await parent.retry()
    with pytest.raises(ExecutionFailed, match="not worth it"):
        await parent.result()
    assert did == ["child"]


@virtually
async def test_what_goes_on_or_has_completed_is_not_discarded(c: Cluster, client: AsyncClient) -> None:
    await world(c)
    done = await client.start(sells.with_(id="fine"), "fine", 5)
    await done.result()
    with pytest.raises(BadValue, match="it is completed"):
        await client.dead_letters.discard("fine")
    handle = await fail(client, sells, "o1", id="e1")
    mended.add("o1")
    await handle.retry()
    await client.dead_letters.discard("e1")  # too late: it is handled behind the retry
    assert await handle.result() == "o1: 5000"
