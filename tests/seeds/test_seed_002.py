"""Seed 002, claims 1 to 52 as `requirements.md` numbers them: each here as a test, where else it is shown, or what of it is not built.

claim   where
1       test_workflows_are_ordinary_async_functions below
2       code/test_durable_loops: test_joins_races_and_inner_loops_in_a_turn_resume_after_a_suspension_from_every_cut;
        code/test_step: test_from_every_cut_every_step_settles_as_it_would_have
3       test_every_operation_is_in_the_history below
4       code/test_step: test_none_failures_timeouts_and_fatal_errors_are_remembered_and_never_executed_again
5       code/test_asyncio_in_workflows: test_the_order_of_tasks_is_the_same_under_every_hash_seed
6, 7    test_executions_of_one_id_in_two_workflows_and_tenants_share_nothing below
8       the store's version rail: perdure.testing.conformance.commit_suite
9, 10   code/test_messages: all that arrives goes by mail, and into the log with the commit of who holds the execution
11      Store.claim, by wake_at_s: perdure.testing.conformance.lease_suite
12-16   not built: a store that works on any driver with the operations of the seed; what they are for (order, atomicity) is shown for every
        store by perdure.testing.conformance
17      test_every_operation_is_in_the_history below; removed: as 18
18      code/test_version_gates: test_what_was_removed_is_taken_from_the_log_of_an_execution_wherever_it_stands
19, 20  test_the_locations_of_the_seed_read_the_same below
21, 22  an encoding of stores/kv; paths are tuples: code/test_values_and_names: test_the_text_of_a_path_is_read_back_as_the_path
23-26   the parts of design.md section 2
27      code/test_step: test_each_step_costs_one_commit
28      code/test_step: test_none_failures_timeouts_and_fatal_errors_are_remembered_and_never_executed_again
29, 32  test_what_is_not_ready_waits_in_the_store_and_holds_no_memory below
30      code/test_messages: test_messages_may_arrive_before_the_execution_exists_before_the_wait_and_during_it
31      code/test_messages: test_messages_are_first_in_first_out
33-37   an encoding of stores/kv; attempts, status and times: test_what_the_seed_keeps_of_a_step_can_be_read_from_the_log below
38      test_an_ordinary_error_is_retried_with_backoff_until_the_tries_are_used_up below
39      test_a_critical_error_bypasses_retry below; rollback: as 41
40      code/test_cancel_and_evict: test_eviction_reaches_every_branch_and_leaves_nothing_behind; waiting is no exception here
41      code/test_undo: test_a_rollback_in_a_step_fails_the_execution_and_undoes_it
42      code/test_join_and_map: test_a_join_waits_for_all_branches_also_when_one_fails_and_keeps_the_outputs
43      code/test_race: test_the_winner_is_what_a_replay_returns,
        test_a_loser_is_cancelled_in_mid_step_before_the_workflow_goes_on
44      test_a_loop_continues_with_state_and_breaks_with_a_value below
45      code/test_durable_loops: test_commit_every_remembers_the_state_of_every_nth_turn_only,
        test_a_loop_resumes_at_the_last_committed_turn_and_runs_none_of_the_earlier_steps_again
46      code/test_durable_loops: test_history_is_trimmed_to_the_turns_kept_as_in_the_example_of_the_seed
47      code/test_undo: test_a_loop_may_say_how_many_turns_back_are_undone
48, 51  test_replay_writes_nothing below
49, 50  test_a_name_and_not_a_position_is_what_an_operation_is_known_by below
52      every test here has a store of its own
"""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from perdure import Context, Fatal, Key, NeedsAttention, Retry, StepFailed, Workflow, step, workflow
from perdure.core import events as e
from perdure.core import messages
from perdure.core.operations import Failure, operation_kind
from perdure.core.paths import path_text
from tests.code.engines import evicted, resident, settle, virtually, world


@step
async def work(value: Any = None) -> Any:
    return value


@virtually
async def test_workflows_are_ordinary_async_functions() -> None:
    @workflow
    async def with_input(ctx: Context, value: int) -> int:
        return value + int(await ctx.step(work, 1))

    @workflow
    async def without(ctx: Context) -> str:
        return ctx.execution.id

    async with world(with_input, without) as w:
        assert await w.run(with_input, 41) == 42
        assert await w.run(without) == "e"


@workflow
async def everything(ctx: Context) -> Any:
    await ctx.step("a", work)
    async for turn in ctx.loop("outer", state=0):
        await turn.step("inner", work)
        break
    await ctx.sleep(1)
    await ctx.join(x=lambda c: c.step("work", work), name="parallel")
    await ctx.race(y=lambda c: c.step("work", work), late=lambda c: c.sleep(9), name="timeout")
    return await ctx.listen("approval")


@virtually
async def test_every_operation_is_in_the_history() -> None:
    async with world(everything) as w:
        key = await w.start(everything)
        await w.send(key, "approval", True)
        assert await w.result(key) is True
        opened = [(path_text(event.path), operation_kind(event.op)) for event in await w.events(key) if isinstance(event, e.OpenedEvent)]
        assert opened == [
            ("a", "call"),
            ("outer/~0", "keep"),
            ("outer/~0/inner", "call"),
            ("sleep:1s", "sleep"),
            ("parallel", "keep"),
            ("parallel/x/work", "call"),
            ("timeout", "keep"),
            ("timeout/y/work", "call"),
            ("timeout/late/sleep:9s", "sleep"),
            ("listen:approval", "receive"),
        ]


@virtually
async def test_the_locations_of_the_seed_read_the_same() -> None:
    async with world(everything) as w:
        key = await w.start(everything)
        await w.send(key, "approval")
        await w.result(key)
        opened = await w.opened(key)
        assert {"a", "outer/~0/inner", "parallel/x/work"} <= set(opened)


@virtually
async def test_executions_of_one_id_in_two_workflows_and_tenants_share_nothing() -> None:
    @workflow
    async def first(ctx: Context) -> Any:
        return [await ctx.step(work, "first"), await ctx.listen("m")]

    @workflow
    async def second(ctx: Context) -> Any:
        return [await ctx.step(work, "second"), await ctx.listen("m")]

    async with world(first, second) as w:
        keys = [await w.start(first), await w.start(second), Key("other", "first", "e")]
        assert await w.engine.start(keys[2], first.code.codec.encode_args((), {}, "input"))
        for number, key in enumerate(keys):
            await w.send(key, "m", number)
        assert [await w.result(key) for key in keys] == [["first", 0], ["second", 1], ["first", 2]]


@pytest.mark.slow
@virtually
async def test_what_is_not_ready_waits_in_the_store_and_holds_no_memory() -> None:
    @workflow
    async def waiting(ctx: Context) -> Any:
        await ctx.sleep(1000)
        return await ctx.listen("m")

    async with world(waiting) as w:
        key = await w.start(waiting)
        await settle(1)
        found = await w.store.read(key)
        assert found is not None and found.head.status == "waiting" and found.head.holder is None
        assert found.head.wake_at_s == pytest.approx(asyncio.get_running_loop().time() + 999, abs=1)
        entry = w.engine._residents.get(key)
        if entry is not None and entry.execution is not None:
            w.engine._residents.evict(asyncio.get_running_loop().time(), 0.0)
            assert w.engine._residents.get(key) is None
        await settle(1500)
        await w.end()
        w.engine = w._new_engine()
        await w.begin()
        await w.send(key, "m", "done")
        assert await w.result(key) == "done"


@virtually
async def test_what_the_seed_keeps_of_a_step_can_be_read_from_the_log() -> None:
    tries: list[int] = []

    @step(retry=Retry(max=3, wait=10, jitter=0))
    async def unsure() -> str:
        tries.append(1)
        if len(tries) % 2:
            raise ValueError
        return "output"

    @workflow
    async def trying(ctx: Context) -> str:
        return await ctx.step(unsure)

    async with world(trying) as w:
        key = await w.start(trying)
        await settle(5)
        (pending,) = (await w.fold(key)).open.values()
        assert (pending.state, pending.attempt, pending.failures) == ("retrying", 1, 1)
        await w.result(key)
        folded = await w.fold(key)
        (settlement,) = folded.settled.values()
        assert settlement.attempt == 2
        assert settlement.at_s - settlement.opened_at_s == pytest.approx(10, abs=1)
        assert folded.status == "completed"


@virtually
async def test_an_ordinary_error_is_retried_with_backoff_until_the_tries_are_used_up() -> None:
    at: list[float] = []

    @step(retry=Retry(max=4, wait=1, factor=2, jitter=0))
    async def broken() -> None:
        at.append(asyncio.get_running_loop().time())
        raise RuntimeError("broken")

    @workflow
    async def trying(ctx: Context) -> str:
        try:
            await ctx.step(broken)
        except StepFailed as error:
            return f"{error.kind} {error.attempts}"
        return ""

    at.clear()
    async with world(trying) as w:
        assert await w.run(trying) == "exhausted 4"
        assert [round(b - a) for a, b in pairwise(at)] == [1, 2, 4]


@virtually
async def test_a_critical_error_bypasses_retry() -> None:
    at: list[int] = []

    @step(retry=Retry(max=9))
    async def critical() -> None:
        at.append(1)
        raise Fatal("Invalid input")

    @workflow
    async def trying(ctx: Context) -> Any:
        outcome = await ctx.attempt(critical)
        assert isinstance(outcome, Failure)
        return [outcome.kind, outcome.error.message]

    at.clear()
    async with world(trying) as w:
        assert await w.run(trying) == ["fatal", "Invalid input"]
        assert len(at) == 1


@virtually
async def test_a_loop_continues_with_state_and_breaks_with_a_value() -> None:
    pages = {None: (3, "b"), "b": (4, "c"), "c": (0, None)}

    @step
    async def fetch(cursor: str | None) -> tuple[int, str | None]:
        return pages[cursor]

    @workflow
    async def processing(ctx: Context) -> Any:
        start: dict[str, Any] = {"cursor": None, "processed": 0}
        async for turn in ctx.loop("process-items", state=start, commit_every=10, trim_every=10, keep=10):
            items, cursor = await turn.step(fetch, turn.state["cursor"])
            if not items:
                break
            turn.state = {"cursor": cursor, "processed": turn.state["processed"] + items}
        return turn.state["processed"]

    async with world(processing) as w:
        assert await w.run(processing) == 7


@virtually
async def test_replay_writes_nothing() -> None:
    async with world(everything) as w:
        key = await w.start(everything)
        await settle(20)
        before = await w.rows(key)
        await evicted(w.store, everything, key)
        await w.crash()
        await w.tell(key, messages.TickMessage())
        await settle(5)
        assert await w.rows(key) == before
        await w.send(key, "approval", 1)
        await w.result(key)


def by_names(*names: str) -> Workflow[..., Any]:
    """A workflow that runs steps of these names, then listens."""

    @workflow(name="changing")
    async def changing(ctx: Context) -> list[Any]:
        found = [await ctx.step(name, work, name) for name in names]
        return [*found, await ctx.listen("m")]

    return changing


@resident
async def test_a_name_and_not_a_position_is_what_an_operation_is_known_by() -> None:
    async with world(by_names("a", "b")) as w:
        key = await w.start(by_names("a", "b"))
        await settle(1)
    swapped = by_names("b", "a")
    async with world(swapped, store=w.store) as w:
        await w.send(key, "m")
        await settle(1)
        with pytest.raises(NeedsAttention, match=r"\bb\b"):
            await w.result(key)
    async with world(by_names("a", "b"), store=w.store) as w:
        await w.tell(key, messages.RetryMessage())
        await settle(2)
        assert await w.result(key) == ["a", "b", None]
