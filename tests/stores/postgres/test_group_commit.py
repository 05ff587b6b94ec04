"""A claim about group commit: whenever a change arrives, it is sent."""

import asyncio
from collections.abc import Sequence

from perdure.stores.postgres.group_commit import STATEMENTS_MAX, GroupCommit
from perdure.stores.protocol import ChangeAnswer, Commit, Committed, Post


async def test_a_change_that_arrives_when_all_statements_have_just_ended_is_sent() -> None:
    go, sent = asyncio.Event(), 0

    async def carry_out(changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        nonlocal sent
        sent += 1
        await go.wait()
        return [Committed(0, 0.0) for _ in changes]

    group = GroupCommit(carry_out, lambda _: False, lambda _: False)

    async def commit(times: int) -> None:
        for _ in range(times):
            await group.commit([Post()])

    callers = []
    for count in range(1, STATEMENTS_MAX + 1):
        callers.append(asyncio.create_task(commit(2 if count == 1 else 1)))
        while sent < count:
            await asyncio.sleep(0)
    go.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*callers)
    assert sent == STATEMENTS_MAX + 1


class Server:
    """Answers each batch when it is let go, and notes how many changes it had and in which task it was sent."""

    def __init__(self) -> None:
        self.go = asyncio.Semaphore(0)
        self.batches: list[int] = []
        self.senders: list[asyncio.Task[object] | None] = []

    async def carry_out(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        self.batches.append(len(changes))
        self.senders.append(asyncio.current_task())
        await self.go.acquire()
        return [Committed(number, 0.0) for number, _ in enumerate(changes)]

    async def asked(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.batches) < count:
                await asyncio.sleep(0)


async def lone_group(server: Server) -> GroupCommit:
    """A group commit whose only caller so far came alone."""
    group = GroupCommit(server.carry_out, lambda _: False, lambda _: False)
    server.go.release()
    await group.commit([Post()])
    return group


async def test_who_comes_alone_again_sends_its_changes_itself_and_those_who_come_meanwhile_go_together() -> None:
    group = await lone_group(server := Server())
    lone = asyncio.create_task(group.commit([Post()]))
    await server.asked(2)
    assert server.senders[0] is not asyncio.current_task() and server.senders[1] is lone
    others = [asyncio.create_task(group.commit([Post()])) for _ in range(5)]
    await server.asked(3)
    more = [asyncio.create_task(group.commit([Post()])) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert server.batches == [1, 1, 5], "two statements are under way, so the rest waits"
    for _ in range(3):
        server.go.release()
    async with asyncio.timeout(5):
        assert [len(answers) for answers in await asyncio.gather(lone, *others, *more)] == [1] * 9
    assert server.batches == [1, 1, 5, 3]


async def test_those_who_wait_are_sent_after_a_caller_that_sends_its_changes_itself_is_cancelled_or_fails() -> None:
    group = await lone_group(server := Server())
    lone = asyncio.create_task(group.commit([Post()]))
    await server.asked(2)
    blocking = asyncio.create_task(group.commit([Post()]))
    await server.asked(3)
    waiting = asyncio.create_task(group.commit([Post()]))
    await asyncio.sleep(0)
    lone.cancel()
    server.go.release()
    server.go.release()
    async with asyncio.timeout(5):
        await asyncio.gather(blocking, waiting)
    assert lone.cancelled() and server.batches == [1, 1, 1, 1]
