"""Claims about what can't be read: it is set aside, seen, tried again later, and stops nobody else."""

import asyncio
import logging

import msgspec
import pytest

from perdure import Context, step, workflow
from perdure.core import events as events_
from perdure.core import log_format, messages, payload_header
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import LogDamaged
from perdure.core.messages import SignalMessage, TaskMessage
from perdure.core.paths import Key, QueueAddress
from perdure.core.values import encode
from perdure.runtime.quarantine import QUARANTINE_RETRY_S
from perdure.service import dead_letter_groups
from perdure.service.dead_letter_groups import DeadLetterFilter
from perdure.service.store_access import StoreAccess
from perdure.service.verification import find_unreadable
from perdure.stores.protocol import LogRow, Post
from tests.runtime.cluster import Cluster, now_s, until
from tests.runtime.test_engine import virtually

pytestmark = pytest.mark.slow

NEWER = bytes((77,)) + messages.encode_message(SignalMessage("go"))[1:]
DAMAGED = messages.encode_message(SignalMessage("go"))[:-1] + b"?"


@workflow
async def waits(ctx: Context) -> str:
    found: str = await ctx.listen("go")
    return found


@step(queue="gpu")
def twice(number: int) -> int:
    return 2 * number


@workflow
async def asks(ctx: Context, number: int) -> int:
    return await ctx.step(twice, number)


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged as errors, without the reasons."""
    return [record.message.partition(":")[0] for record in caplog.records if record.levelno >= logging.ERROR]


ASIDE = "can't be read and is set aside, to be tried again every 300 s"
WORK = messages.encode_message(TaskMessage(Key("t", "w", "1"), (), 1, "twice", "k"))


@pytest.mark.parametrize("body", [NEWER, DAMAGED, b"", WORK], ids=["newer", "damaged", "empty", "work"])
def test_a_message_that_can_t_be_read_is_logged_once_and_the_execution_goes_on(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def claim(c: Cluster) -> None:
        _ = await c.engine(waits)
        key = await c.post(waits)
        await came(c, key, "waiting")
        await c.store.commit([Post(messages=(OutgoingMessage(key, "unreadable", body),))])
        await came(c, key, "waiting")
        version = (await c.store.heads())[0].version
        await asyncio.sleep(3.5 * QUARANTINE_RETRY_S)
        (head,) = await c.store.heads()
        assert (head.version, head.holder) == (version, None)
        (left,) = await c.store.messages(key)
        assert (left.key, left.body) == ("unreadable", body) and left.due_at_s > now_s()
        assert [found.message async for found in find_unreadable(c.store)] == ["unreadable"]
        await c.store.commit([Post(messages=(OutgoingMessage(key, "good", messages.encode_message(SignalMessage("go", encode("came", "it")))),))])
        await came(c, key, "completed")

    claim()
    assert reported(caplog) == [f"message unreadable to default/waits/e {ASIDE}"]


def test_an_execution_whose_log_is_damaged_needs_attention_is_tried_again_and_goes_on_once_it_is_whole(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def claim(c: Cluster) -> None:
        _ = await c.engine(waits, idle_s=0.0)
        key = await c.post(waits)
        await came(c, key, "waiting")
        execution = c.store._executions[key]
        (whole,) = execution.rows
        execution.rows = [LogRow(whole.version, whole.payload[:-1] + bytes((whole.payload[-1] ^ 1,)))]
        await c.store.commit([Post(messages=(OutgoingMessage(key, "go", messages.encode_message(SignalMessage("go", encode("came", "it")))),))])
        await came(c, key, "needs_attention")
        other = await c.post(waits, id="other")
        await came(c, other, "waiting")
        head = (await c.store.heads())[-1]
        assert head.key == key and head.holder is None
        (group,) = await dead_letter_groups.group_dead_letters(StoreAccess(c.store), DeadLetterFilter(tenant="default"))
        assert (group.type, group.count) == (LogDamaged.code, 1) and "the checksum of a payload is wrong" in group.message
        assert [(found.key, found.message) async for found in find_unreadable(c.store)] == [(key, "")]
        execution.rows = [whole]
        await came(c, key, "completed")

    claim()
    assert reported(caplog) == [f"execution default/waits/e {ASIDE}"]


def test_an_execution_started_under_rules_that_are_not_known_here_waits_for_a_newer_perdure(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def claim(c: Cluster) -> None:
        _ = await c.engine(waits, idle_s=0.0)
        key = await c.post(waits)
        await came(c, key, "waiting")
        execution = c.store._executions[key]
        (row,) = execution.rows
        events = [
            msgspec.structs.replace(event, rules=events_.EVENT_RULES_VERSION + 1) if isinstance(event, events_.StartedEvent) else event
            for event in log_format.decode_row(row.payload)
        ]
        execution.rows = [LogRow(row.version, log_format.encode_row(events))]
        await c.store.commit([Post(messages=(OutgoingMessage(key, "go", messages.encode_message(SignalMessage("go", encode("came", "it")))),))])
        await came(c, key, "needs_attention")
        (found,) = [found async for found in find_unreadable(c.store)]
        assert (found.key, found.message) == (key, "") and "Use a Perdure as new as the one that started it" in found.why
        assert execution.rows == [LogRow(row.version, log_format.encode_row(events))], "nothing was written to its log"
        execution.rows = [row]
        await came(c, key, "completed")

    claim()
    assert reported(caplog) == [f"execution default/waits/e {ASIDE}"]


def test_an_ended_execution_whose_log_is_damaged_stays_ended_when_it_gets_a_message(caplog: pytest.LogCaptureFixture) -> None:
    @virtually
    async def claim(c: Cluster) -> None:
        _ = await c.engine(waits, idle_s=0.0)
        key = await c.post(waits)
        await c.store.commit([Post(messages=(OutgoingMessage(key, "go", messages.encode_message(SignalMessage("go", encode("came", "it")))),))])
        await came(c, key, "completed")
        ended = (await c.store.heads())[0]
        execution = c.store._executions[key]
        execution.rows = [LogRow(row.version, row.payload[:-1] + b"?") for row in execution.rows]
        await c.store.commit([Post(messages=(OutgoingMessage(key, "undo", messages.encode_message(messages.UndoMessage())),))])
        await asyncio.sleep(2.5 * QUARANTINE_RETRY_S)
        (head,) = await c.store.heads()
        assert (head.status, head.ended_at_s, head.holder) == ("completed", ended.ended_at_s, None)
        assert [mail.key for mail in await c.store.messages(key)] == ["undo"]

    claim()
    assert len(reported(caplog)) == 1


def test_work_that_can_t_be_read_is_set_aside_and_other_work_is_done(caplog: pytest.LogCaptureFixture) -> None:
    queue = QueueAddress("default", "gpu")

    @virtually
    async def claim(c: Cluster) -> None:
        await c.store.commit([Post(messages=(OutgoingMessage(queue, "newer", bytes((77,)) + payload_header.with_header(2, msgspec.msgpack.encode({}))[1:]),))])
        _ = await c.engine(asks)
        _ = await c.worker(twice)
        key = await c.post(asks, 21)
        await came(c, key, "completed")
        await asyncio.sleep(2.5 * QUARANTINE_RETRY_S)
        (left,) = await c.store.messages(queue)
        assert left.key == "newer" and left.due_at_s > now_s()
        assert all(lease.work == 0 for lease in await c.store.leases())

    claim()
    assert reported(caplog) == [f"message newer to default/gpu {ASIDE}"]


async def came(c: Cluster, key: Key, status: str) -> None:
    """Wait until an execution has this status."""

    async def has_come() -> bool:
        return any(head.key == key and head.status == status for head in await c.store.heads())

    await until(has_come)
