"""Claims about validators: the workflow receives no message that they reject, whoever sent it is told why, and a replay asks no validator."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import Context, ExecutionFailed, MessageRejected, Retry, Signal, Timeout, step, workflow
from perdure.core.events import MessageArrivedEvent
from perdure.sync_client import AsyncClient
from tests.crash_budgets import Budget, crash_budgets
from tests.proof.crash_search import Play, ScriptStage, crash_at_every_write
from tests.proof.disks import MemoryDisk
from tests.runtime.cluster import Cluster, settle
from tests.service.cluster_client import virtually


@dataclass
class Transfer:
    cents: int
    to: str = "bob"


called: list[Any] = []
broken: list[str] = []
strict = {"yes": False}


def positive(transfer: Transfer) -> None:
    called.append(transfer)
    if transfer.cents <= 0:
        raise ValueError(f"{transfer.cents} is not positive")


transferred = Signal("transfer", Transfer, validate=positive)
even: Signal[int] = Signal("even", int, validate=lambda number: number % 2 == 0)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    called.clear()
    broken.clear()
    strict["yes"] = False


@step(retry=Retry(max=1))
async def book(cents: int) -> int:
    if broken:
        raise ValueError(broken.pop())
    return cents


@workflow
async def account(ctx: Context, balance: int = 100) -> int:
    def covered(transfer: Transfer) -> None:
        called.append(balance)
        if transfer.cents > balance or strict["yes"]:
            raise LookupError(f"only {balance} left")

    while balance > 0:
        message = await ctx.listen(transferred, completable=True, validate=covered)
        balance -= await ctx.step(book, message.body.cents)
        ctx.set("balance", balance)
        message.complete(balance)
    return balance


@workflow
async def patient(ctx: Context) -> str:
    first = await ctx.listen(even, timeout="1m", default=None)
    try:
        await ctx.listen("word", validate=lambda word: word == "yes", timeout="10s")
    except Timeout:
        return f"{first} and no word"
    return f"{first} and a word"


@workflow
async def gathering(ctx: Context) -> list[list[int]]:
    await ctx.listen("begin")
    return [await ctx.listen_many(even, limit=2), await ctx.listen_many(even, limit=10, timeout="1m")]


@workflow
async def mistaken(ctx: Context) -> None:
    await ctx.listen("go", validate=lambda _: ctx.set("seen", True))


WORKFLOWS = (account, patient, gathering, mistaken)


async def healthy(client: AsyncClient) -> bool:
    return await client.upkeep.verify() == []


@virtually
async def test_whoever_has_the_signal_is_refused_before_anything_is_sent(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(account.with_(id="e"))
    for refused in (handle.ask(transferred, Transfer(0)), handle.send(transferred, Transfer(-5))):
        with pytest.raises(MessageRejected, match=r"the message 'transfer' was rejected: ValueError: (0|-5) is not positive. Nothing was changed"):
            await refused
    await settle()
    assert not any(isinstance(event, MessageArrivedEvent) for event in await c.events(handle.key))


@virtually
async def test_a_message_that_the_workflow_rejects_answers_the_asker_and_is_never_received(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(account.with_(id="e"))
    with pytest.raises(MessageRejected, match="LookupError: only 100 left") as caught:
        await handle.ask(transferred, Transfer(101))
    assert (caught.value.signal, caught.value.error.type) == ("transfer", "LookupError")
    for body, why in (({"cents": 0}, "ValueError: 0 is not positive"), ({"cents": "many"}, "undecodable: "), ("text", "undecodable: ")):
        with pytest.raises(MessageRejected, match=why):
            await handle.ask("transfer", body)
    assert await handle.ask(transferred, Transfer(60)) == 40
    with pytest.raises(MessageRejected, match="only 40 left"):
        await handle.ask(transferred, Transfer(60))
    assert await handle.ask(transferred, Transfer(40)) == 0
    assert await handle.result() == 0 and await handle.query("balance") == 0 and await healthy(client)


@virtually
async def test_a_replay_asks_no_validator_and_rejects_what_was_rejected(c: Cluster, client: AsyncClient) -> None:
    engine = await c.engine(*WORKFLOWS)
    handle = await client.start(account.with_(id="e"))
    for cents, rejected in ((101, True), (30, False), (80, True)):
        if rejected:
            with pytest.raises(MessageRejected):
                await handle.ask("transfer", {"cents": cents})
        else:
            assert await handle.ask("transfer", {"cents": cents}) == 70
    await engine.stop()
    called.clear()
    strict["yes"] = True
    await c.engine(*WORKFLOWS)
    await handle.evict()
    await settle()
    assert (await handle.status()).status == "waiting" and called == []
    strict["yes"] = False
    assert await handle.ask("transfer", {"cents": 70}) == 0
    assert await handle.result() == 0 and called == [Transfer(70), 70]


@virtually
async def test_rejected_messages_put_off_no_timeout(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(patient.with_(id="e"))
    for number in (1, 3, 5):
        await settle(15)
        await handle.send("even", number)
    await settle(16)
    assert (await handle.status()).why.startswith("waits for the message word (listen:word)")
    await settle(8)
    await handle.send("word", "no")
    await settle(3)
    assert await handle.result() == "None and no word"
    handle = await client.start(patient.with_(id="f"))
    for name, body in (("even", 7), ("even", 8), ("word", "no"), ("word", "yes")):
        await handle.send(name, body)
    assert await handle.result() == "8 and a word" and await healthy(client)


@virtually
async def test_of_several_messages_those_that_are_accepted_are_received(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(gathering.with_(id="e"))
    for number in (1, 3, 2, 5, 4, 7, 6):
        await handle.send("even", number)
    await handle.send("begin")
    await settle(61)
    assert await handle.result() == [[2], [4, 6]] and await healthy(client)


@virtually
async def test_a_validator_that_uses_a_verb_is_a_mistake_of_the_code_and_not_of_the_sender(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(mistaken.with_(id="e"))
    await handle.send("go")
    with pytest.raises(ExecutionFailed, match=r"ctx\.set was called in a validator"):
        await handle.result()


@virtually
async def test_a_reopened_execution_rejects_what_it_had_rejected(c: Cluster, client: AsyncClient) -> None:
    await c.engine(*WORKFLOWS)
    handle = await client.start(account.with_(id="e"))
    with pytest.raises(MessageRejected):
        await handle.ask(transferred, Transfer(101))
    broken.append("the book is closed")
    asked = asyncio.create_task(handle.ask(transferred, Transfer(100)))
    with pytest.raises(ExecutionFailed):
        await handle.result()
    asked.cancel()
    await handle.retry()
    assert await handle.result() == 0 and await healthy(client)


@virtually
async def test_an_imported_execution_has_its_rejections(c: Cluster, client: AsyncClient) -> None:
    """Its messages have other numbers in the other store."""
    engine = await c.engine(*WORKFLOWS)
    await (await client.start(patient.with_(id="other"))).send("even", 2)
    handle = await client.start(account.with_(id="e"))
    with pytest.raises(MessageRejected):
        await handle.ask("transfer", {"cents": 101})
    await engine.stop()
    other = Cluster()
    there = AsyncClient(other.store)
    await there.upkeep.import_(await client.upkeep.export(handle.key), unsigned=True)
    other.processes = c.processes
    await other.engine(*WORKFLOWS)
    moved = await there.get("e")
    assert await moved.ask("transfer", {"cents": 100}) == 0
    assert await moved.result() == 0 and await healthy(there)


async def _played(stage: ScriptStage) -> None:
    key = await stage.start(account)
    for number, cents in enumerate((101, 60, 0, 50, 40)):
        await stage.send(key, "transfer", {"cents": cents}, once=f"message {number}")
        await asyncio.sleep(0.3)


@pytest.mark.slow
@crash_budgets
@pytest.mark.parametrize("always_suspend", [False, True])
def test_killed_at_every_write_each_message_is_accepted_or_rejected_once(always_suspend: bool, budget: Budget) -> None:
    report = crash_at_every_write(Play([account], _played, always_suspend=always_suspend), MemoryDisk, **budget)
    assert report.problems == () and report.worlds > 10
