"""Claims about asking: the reply that a workflow gives reaches who asked, and who gets none is told."""

import asyncio
from typing import Any

import pytest

from perdure import Context, HasEnded, NoReply, NotFound, Signal, Timeout, step, workflow
from perdure.core import limits, values
from perdure.core.errors import ErrorInfo
from perdure.core.events import EndedEvent, MessageArrivedEvent, OpenedEvent, ReopenedEvent, SnapshotEvent
from perdure.core.messages import SignalMessage as Signal_
from perdure.core.operations import Failure, KeepOperation
from perdure.runtime.change_watcher import QUICK_S
from perdure.runtime.replies import ReplySearch
from perdure.service.execution_operations import await_direct_reply
from perdure.service.store_access import StoreAccess
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually

double = Signal("double", int)
PATH = (("listen:double", 1), ("reply", 1))


@step
async def think(takes_s: float) -> None:
    await asyncio.sleep(takes_s)


@workflow
async def doubling(ctx: Context, count: int, takes_s: float = 0.0) -> None:
    for _ in range(count):
        message = await ctx.listen(double, completable=True)
        await ctx.step(think, takes_s)
        message.complete(message.body * 2)


@workflow
async def rude(ctx: Context) -> None:
    await ctx.listen("double")
    await ctx.sleep(5.0)


async def endless(ctx: Context, replies: bool) -> None:
    async for turn in ctx.loop("turns", state=1, commit_every=1, keep=2):
        if replies:
            message = await turn.listen(double, completable=True)
            message.complete(message.body * 2)
        else:
            await turn.listen(double)
        for _ in range(100):
            await turn.step(think, 0.0)
        turn.state = turn.state + 1


archiving = workflow(name="archiving", archive=True)(endless)
forgetting = workflow(name="forgetting", archive=False)(endless)


@virtually
async def test_a_reply_reaches_who_asked(c: Cluster, client: AsyncClient) -> None:
    await c.engine(doubling)
    handle = await client.start(doubling, 2, 5.0)
    assert await handle.ask(double, 21) == 42
    assert await handle.ask("double", 4, timeout="1m") == 8
    await handle.result()
    assert (await handle.status()).status == "completed"


@virtually
async def test_each_of_many_gets_its_own_reply(c: Cluster, client: AsyncClient) -> None:
    await c.engine(doubling)
    handle = await client.start(doubling, 20)
    assert await asyncio.gather(*(handle.ask(double, number) for number in range(20))) == [2 * number for number in range(20)]


@virtually
async def test_a_large_reply_and_a_large_question_travel(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def echo(ctx: Context) -> None:
        message = await ctx.listen("say", completable=True)
        message.complete(message.body * 2)

    await c.engine(echo)
    large = "x" * limits.BLOB_BYTES_MIN
    assert await (await client.start(echo)).ask("say", large) == large * 2


@pytest.mark.slow
@virtually
async def test_an_execution_may_be_asked_before_an_engine_runs(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(doubling, 1)
    asking = asyncio.create_task(handle.ask(double, 3))
    await asyncio.sleep(100)
    await c.engine(doubling)
    assert await asking == 6


def lose_notifications(client: AsyncClient) -> None:
    """Has a client find replies by polling alone, so that the log may be compacted before."""
    watch: Any = client._access.watch  # type: ignore[attr-defined]  # it is on a store
    watch.listen = lambda: None


@virtually
async def test_an_execution_that_ends_without_a_reply_says_so(c: Cluster, client: AsyncClient) -> None:
    await c.engine(rude, doubling)
    handle = await client.start(rude)
    with pytest.raises(NoReply, match=r"default/rude/.* gave no reply to 'double': it has ended \(completed\)"):
        await handle.ask(double, 1)
    with pytest.raises(HasEnded):
        await handle.ask(double, 1)
    other = await client.start(doubling, 1, 50.0)
    asking = [asyncio.create_task(other.ask(double, number)) for number in range(2)]
    await settle(1)
    await other.terminate()
    for one in asking:
        with pytest.raises(NoReply, match=r"it has ended \(cancelled\)"):
            await one


@virtually
async def test_asking_gives_up_in_time_and_the_message_stays(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(doubling, 1)
    with pytest.raises(Timeout, match=r"the reply of default/doubling/.* to double: timed out after 5 s"):
        await handle.ask(double, 1, timeout=5)
    await c.engine(doubling)
    await handle.result()
    assert (await handle.status()).status == "completed"


@pytest.mark.slow
@virtually
async def test_a_full_mailbox_is_told_of(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def deaf(ctx: Context) -> None:
        await ctx.listen("never")

    await c.engine(deaf)
    handle = await client.start(deaf)
    for _ in range(limits.MAILBOX_MESSAGES_MAX):
        await handle.send("double", 1)
    with pytest.raises(NoReply, match="its mailbox is full"):
        await handle.ask(double, 1)


@pytest.mark.slow
@virtually
async def test_a_reply_is_found_though_the_turn_that_gave_it_is_compacted_away(c: Cluster, client: AsyncClient) -> None:
    lose_notifications(client)
    handle = await client.start(archiving, True)
    asking = [asyncio.create_task(handle.ask(double, number)) for number in range(5)]
    await settle(5)
    await c.engine(archiving)
    assert await asyncio.gather(*asking) == [0, 2, 4, 6, 8]
    assert any(isinstance(event, SnapshotEvent) for event in await c.events(handle.key)), "it was to be compacted"


@pytest.mark.slow
@pytest.mark.parametrize("replies", [True, False])
def test_a_reply_that_is_forgotten_without_an_archive_is_told_of(replies: bool) -> None:
    @virtually
    async def world(c: Cluster, client: AsyncClient) -> None:
        lose_notifications(client)
        handle = await client.start(forgetting, replies)
        asking = [asyncio.create_task(handle.ask(double, number)) for number in range(5)]
        await settle(5)
        await c.engine(forgetting)
        answers: list[Any] = await asyncio.gather(*(asyncio.wait_for(one, 30) for one in asking), return_exceptions=True)
        assert any(isinstance(event, SnapshotEvent) for event in await c.events(handle.key)), "it was to be compacted"
        forgotten = [answer for answer in answers if isinstance(answer, NoReply)]
        assert forgotten and all("an iteration of a loop that is forgotten" in str(answer) for answer in forgotten)

    world()


def test_an_end_that_was_taken_back_is_none() -> None:
    search = ReplySearch(doubling.key("k"), Signal_("double", key="q"))
    failed = EndedEvent("failed", Failure("failed", 1, ErrorInfo("LookupError", "x")), 1.0)
    search.take([failed, ReopenedEvent(2.0), MessageArrivedEvent(7, "double", 3.0, key="q")])
    with pytest.raises(NoReply, match=r"it has ended \(failed\)"):
        search.take([failed])
    search = ReplySearch(doubling.key("k"), Signal_("double", key="q"))
    search.take(
        [
            MessageArrivedEvent(7, "double", 3.0, key="q"),
            OpenedEvent(PATH, KeepOperation(b"other", "reply", "6")),
            OpenedEvent(PATH, KeepOperation(b"mine", "reply", "7")),
            failed,
        ]
    )
    assert search.reply == b"mine"


@virtually
async def test_a_reply_is_notified_of(c: Cluster, client: AsyncClient) -> None:
    await c.engine(doubling)
    handle = await client.start(doubling, 2)
    assert await handle.ask(double, 1) == 2
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert await handle.ask(double, 2) == 4
    assert loop.time() - began_s < QUICK_S / 2, "it was found by a poll"


@virtually
async def test_a_reply_is_found_while_the_engine_of_this_process_performs_a_step(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def busy(ctx: Context) -> None:
        thinking = asyncio.ensure_future(ctx.step(think, 1000.0))
        for _ in range(2):
            message = await ctx.listen(double, completable=True)
            message.complete(message.body * 2)
        await thinking

    engine = (await c.engine(busy)).engine
    access = StoreAccess(engine.store, engine)
    key = (await client.start(busy)).key
    for number in range(2):
        signal = Signal_("double", values.encode(number, "a number"), f"{number}")
        reply = await asyncio.wait_for(await_direct_reply(access, key, signal, is_new=False), 5.0)
        assert values.decode(await access.payload(reply), int, "a number") == 2 * number


@virtually
async def test_an_engine_of_this_process_hands_a_message_and_its_reply_over_directly(c: Cluster, client: AsyncClient) -> None:
    engine = (await c.engine(doubling)).engine
    handle = await client.start(doubling, 4)
    access = StoreAccess(engine.store, engine)
    assert await handle.ask(double, 1) == 2

    async def rows() -> list[bytes]:
        found = await engine.store.read(handle.key)
        return [] if found is None else list(found.payloads)

    async def ask(number: int, key: str, *, is_new: bool = True) -> Any:
        signal = Signal_("double", values.encode(number, "a number"), key)
        return values.decode(await access.payload(await await_direct_reply(access, handle.key, signal, is_new=is_new)), int, "a number")

    before = len(await rows())
    assert await ask(2, "two") == 4
    assert len(await rows()) - before == 2, "the message and the step are one commit, and its result and the reply another"
    assert await ask(2, "two", is_new=False) == 4, "it was sent again, and arrived once"
    engine._residents.clear()
    assert await ask(3, "three") == 6, "it is not in memory, and is sent through the store"
    assert await ask(3, "three", is_new=False) == 6
    asking = asyncio.create_task(ask(4, "four"))
    await handle.result()
    assert await asking == 8
    with pytest.raises(HasEnded):
        await ask(5, "five")
    assert not engine.replies


@virtually
async def test_what_does_not_exist_can_not_be_asked(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(doubling, 1)
    handle.key = doubling.key("nowhere")
    with pytest.raises(NotFound):
        await handle.ask(double, 1)
    assert await c.messages(handle.key) == 0
