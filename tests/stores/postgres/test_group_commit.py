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
