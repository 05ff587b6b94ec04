"""Claims about the world of a test: real engines in virtual time, what answers for steps, and what a test is told when something is wrong."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from perdure import (
    Context,
    ExecutionCancelled,
    ExecutionFailed,
    Fatal,
    HasEnded,
    NeedsAttention,
    NotFound,
    Retry,
    Signal,
    StepFailed,
    SyncContext,
    Timeout,
    Transaction,
    WrongVerb,
    step,
    step_info,
    workflow,
)
from perdure.core.errors import BadValue, DeadlineExceeded
from perdure.testing import Endless, NotIdempotent, NotReplayed, Stuck, Unanswered, World

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def world() -> Iterator[World]:
    """A world that is not checked at the end, and has no errors that nobody received."""
    made = World()
    yield made
    made.close()


@dataclass
class Charge:
    id: str


@dataclass
class Approval:
    approved: bool
    by: str


approved = Signal("approved", Approval)
happened: Counter[str] = Counter()


@step(retry=Retry(max=3, wait="1s", jitter=0.0))
def charge(order_id: str, cents: int) -> Charge:
    happened["charged"] += 1
    return Charge(f"real-{order_id}-{cents}")


@charge.undo
def refund(done: Charge, order_id: str, cents: int) -> None:
    happened[f"refunded {done.id}"] += 1


@step
async def receipt(paid: Charge) -> str:
    return f"receipt of {paid.id}"


@workflow
async def order(ctx: Context, order_id: str, cents: int) -> str:
    paid = await ctx.step(charge, order_id, cents)
    answer = await ctx.listen(approved, timeout="2d", default=Approval(False, "nobody"))
    if not answer.approved:
        raise Fatal(f"refused by {answer.by}")
    return await ctx.step(receipt, paid)


@workflow
async def paying(ctx: Context, cents: int = 5) -> str:
    return (await ctx.step(charge, "o", cents)).id


YES = Approval(True, "ada")


# the whole of it


def test_the_example_of_the_plan_holds() -> None:
    with World() as world:
        world.mock(charge, answers=[TimeoutError(), Charge("ch_1")])
        run = world.start(order, "o1", 500)
        world.skip("1s")
        run.send(approved, YES)
        assert run.result() == "receipt of ch_1" and run.step("charge").attempts == 2


def test_what_is_not_mocked_is_real(world: World) -> None:
    happened.clear()
    assert world.run(paying, 7) == "real-o-7"
    assert happened == {"charged": 1}


def test_ids_are_counted_and_a_known_one_is_returned_as_it_is(world: World) -> None:
    first, second, named = world.start(paying), world.start(paying), world.start(paying.with_(id="k"))
    again = world.start(paying.with_(id="k"), 9)
    assert [run.id for run in (first, second, named)] == ["1", "2", "k"]
    assert named.created and not again.created and again.result() == "real-o-5"
    assert world.get("k", paying).result() == "real-o-5" and [run.id for run in world.runs] == ["1", "2", "k"]
    with pytest.raises(NotFound):
        world.get("unheard of", paying)


def test_wrong_arguments_are_refused_where_they_are_given(world: World) -> None:
    with pytest.raises(BadValue, match="paying"):
        world.start(paying.with_(id="k"), cents="many")  # type: ignore[arg-type]  # wrong on purpose


# mocks


def test_answers_are_given_one_for_each_try(world: World) -> None:
    mock = world.mock(charge, answers=[TimeoutError("late"), ConnectionError, Charge("third")])
    run = world.start(paying)
    assert (run.step("charge").state, run.step(charge).error) == ("retrying", run.step("charge").error)
    assert str(run.step("charge").error).count("late") and run.result() == "third"
    assert [(call.args, call.attempt) for call in mock.calls] == [(("o", 5), 1), (("o", 5), 2), (("o", 5), 3)]
    assert {call.key for call in mock.calls} == {"default/paying/1:charge"}


def test_a_mock_returns_the_same_each_time_or_raises_the_same(world: World) -> None:
    world.mock(charge, returns=Charge("same"))
    assert world.run(paying) == world.run(paying) == "same"
    world.mock(charge, raises=TimeoutError("never"))
    with pytest.raises(ExecutionFailed, match=r"exhausted, 3 attempts.*TimeoutError: never"):
        world.run(paying)


def test_a_mock_may_be_a_function_that_waits_or_not(world: World) -> None:
    world.mock(charge, calls=lambda order_id, cents: Charge(f"{order_id}{cents}"))
    assert world.run(paying) == "o5"

    async def slowly(order_id: str, cents: int) -> Charge:
        await asyncio.sleep(3600)
        return Charge(f"slow {step_info().attempt}")

    world.mock(charge, calls=slowly)
    before = world.now
    assert world.run(paying) == "slow 1" and world.now - before == timedelta(hours=1)


def test_a_mock_without_an_answer_returns_none_where_that_is_possible(world: World) -> None:
    @step
    def tell(who: str) -> None:
        raise AssertionError("really told")

    @workflow
    async def telling(ctx: Context) -> None:
        await ctx.step(tell, "ada")

    told = world.mock(tell)
    world.run(telling)
    assert [call.args for call in told.calls] == [("ada",)]


def test_a_step_is_mocked_by_itself_by_its_function_or_by_a_name(world: World) -> None:
    def plain(number: int) -> int:
        raise AssertionError("really called")

    @workflow
    async def both(ctx: Context) -> list[Any]:
        first = await ctx.step(plain, 1)
        second = await ctx.step("extra", plain, 2)
        third = await ctx.step(charge.with_(name="special", timeout="5s"), "o", 3)
        fourth = await ctx.step(charge, "o", 4)
        fifth = await ctx.step(charge, "o", 5)
        return [first, second, third.id, fourth.id, fifth.id]

    world.mock(plain, returns=10)
    world.mock("extra", returns=20)
    world.mock(charge.fn, returns=Charge("any"))
    world.mock("special", returns=Charge("special"))
    world.mock("charge#2", returns=Charge("second"))
    assert world.run(both) == [10, 20, "special", "any", "second"]


def test_undo_handlers_are_mocked_like_steps(world: World) -> None:
    happened.clear()
    undone = world.mock(refund)
    run = world.start(order, "o1", 500)
    run.send(approved, Approval(False, "eve"))
    with pytest.raises(ExecutionFailed, match="refused by eve"):
        run.result()
    assert [call.args for call in undone.calls] == [(Charge("real-o1-500"), "o1", 500)] and happened == {"charged": 1}
    assert run.step("~undo/charge").state == "completed"


def test_when_answers_run_out_the_error_names_the_step_and_how_many_there_were(world: World) -> None:
    world.mock(charge, answers=[TimeoutError()])
    run = world.start(paying)
    with pytest.raises(Unanswered, match=r"mock of charge, in call 2 \(default/paying/1:charge\).*1 was given, and all have been used"):
        run.result()
    assert run.step("charge").state == "performing"  # nobody has answered, and so it stands


def test_what_a_test_did_not_hear_of_fails_it_at_the_end(world: World) -> None:
    world.mock(charge, answers=[])
    with pytest.raises(Unanswered):
        world.start(paying)
    world.check()
    world._fail(Unanswered("somebody", "nobody has asked since", "look"))
    with pytest.raises(Unanswered, match="somebody"):
        world.check()


def test_an_answer_of_the_wrong_type_is_refused_where_it_is_given(world: World) -> None:
    with pytest.raises(BadValue, match=r"answer of the mock of charge: 'ch_1' is not of type Charge, as what charge returns"):
        world.mock(charge, returns="ch_1")
    with pytest.raises(BadValue, match="of type Charge"):
        world.mock(charge, answers=[TimeoutError(), {"number": 1}])
    with pytest.raises(BadValue, match="of type Charge"):
        world.mock(charge)
    with pytest.raises(BadValue, match="a list of answers"):
        world.mock(charge, answers="ch_1")
    with pytest.raises(BadValue, match="one of answers="):
        world.mock(charge, returns=Charge("a"), raises=TimeoutError)
    with pytest.raises(BadValue, match="an exception"):
        world.mock(charge, raises="TimeoutError")
    with pytest.raises(BadValue, match="a function"):
        world.mock(charge, calls=3)
    with pytest.raises(BadValue, match="a step, a function, a workflow"):
        world.mock(3)


def test_an_answer_of_the_wrong_type_that_is_made_later_fails_the_test(world: World) -> None:
    world.mock("charge", returns="ch_1")
    with pytest.raises(BadValue, match="is not of type Charge"):
        world.start(paying)


def test_what_a_mock_asserts_of_its_arguments_fails_the_test_and_not_the_step(world: World) -> None:
    def check(order_id: str, cents: int) -> Charge:
        assert cents == 6, "the price"
        return Charge("ok")

    mock = world.mock(charge, calls=check)
    with pytest.raises(AssertionError, match="the price"):
        world.start(paying)
    assert len(mock.calls) == 1


def test_values_take_the_round_trip_that_they_take_when_real(world: World) -> None:
    @step
    def pair() -> tuple[int, int]:
        raise AssertionError

    @workflow
    async def pairing(ctx: Context) -> str:
        return repr(await ctx.step(pair))

    world.mock(pair, returns=[1, 2])
    assert world.run(pairing) == "(1, 2)"


def test_the_last_mock_answers_and_one_in_a_block_only_there(world: World) -> None:
    world.mock(charge, returns=Charge("outer"))
    with world.mock(charge, returns=Charge("inner")) as inner:
        assert world.run(paying) == "inner"
    assert world.run(paying) == "outer" and len(inner.calls) == 1


def test_a_strict_world_runs_no_step_that_is_not_mocked_or_allowed(world: World) -> None:
    happened.clear()
    world.strict(receipt)
    with pytest.raises(Unanswered, match=r"step charge .*strict"):
        world.start(paying)
    world.mock(charge, returns=Charge("c"))
    run = world.start(order, "o", 1)
    run.send(approved, YES)
    assert run.result() == "receipt of c" and not happened


def test_a_step_that_needs_real_input_or_output_is_to_be_mocked(world: World) -> None:
    @step
    async def fetch() -> str:
        reader, _ = await asyncio.open_connection("127.0.0.1", 9)
        return str(await reader.read())

    @step
    async def unfinished() -> None:
        raise NotImplementedError

    @workflow
    async def fetching(ctx: Context) -> str:
        return await ctx.step(fetch)

    @workflow
    async def hoping(ctx: Context) -> None:
        await ctx.step(unfinished)

    with pytest.raises(Unanswered, match=r"step fetch \(default/fetching/1:fetch\).*real input or output.*world.mock\(fetch, ...\)"):
        world.start(fetching)
    with pytest.raises(ExecutionFailed, match="NotImplementedError"):
        world.run(hoping)


@workflow
async def child(ctx: Context, number: int) -> int:
    await ctx.sleep("1h")
    return number * 2


@workflow
async def parent(ctx: Context) -> list[int]:
    return [await ctx.call(child, 1), await ctx.call(child, 2)]


def test_a_workflow_is_mocked_for_its_parents(world: World) -> None:
    before = world.now
    mock = world.mock(child, answers=[10, 20])
    run = world.start(parent)
    assert run.result() == [10, 20] and world.now == before
    assert [call.args for call in mock.calls] == [(1,), (2,)]
    assert [one.result() for one in run.children()] == [10, 20]
    world.check()


def test_a_mocked_workflow_fails_with_its_own_error_and_may_take_time(world: World) -> None:
    world.mock("child", raises=LookupError("no such number"), takes="2h")
    before = world.now
    with pytest.raises(ExecutionFailed, match=r"child call:child failed: LookupError: no such number"):
        world.run(parent)
    assert world.now - before == timedelta(hours=2)
    world.check()


def test_a_mocked_workflow_that_has_no_answer_left_fails_the_test(world: World) -> None:
    world.mock(child, answers=[10])
    with pytest.raises(Unanswered, match="mock of child, in call 2"):
        world.run(parent)
    with pytest.raises(BadValue, match="of type int, as what child returns"):
        world.mock(child, returns="two")


# time


@workflow
async def patient(ctx: Context) -> list[str]:
    began = ctx.now()
    await ctx.sleep("3d")
    try:
        await ctx.step(never.with_(timeout="10s", retry=Retry(max=2, wait="5s", jitter=0.0)))
    except StepFailed as failed:
        return [str(ctx.now() - began), failed.kind]
    return []


@step
async def never() -> None:
    await asyncio.Event().wait()


def test_time_passes_only_when_it_is_skipped_and_all_that_is_due_happens_on_the_way(world: World) -> None:
    run = world.start(patient)
    world.settle()
    assert run.status == "waiting" and world.now.timestamp() == world.start_s
    world.skip(timedelta(days=2))
    assert [step.path for step in run.steps()] == ["sleep:3d"]
    world.skip("1d 10s")
    assert run.step("never").state == "retrying" and run.step("never").attempts == 1
    world.skip(4.9)
    assert run.step("never").state == "retrying"
    world.skip(0.1)
    assert run.step("never").state == "performing"
    world.skip("10s")
    assert run.result() == ["3 days, 0:00:25", "timeout"]


def test_a_result_takes_as_much_time_as_it_must_and_no_more(world: World) -> None:
    assert world.run(patient) == ["3 days, 0:00:25", "timeout"]
    assert world.now.timestamp() - world.start_s == 3 * 86_400 + 25


@pytest.mark.slow
def test_time_can_be_skipped_to_a_date(world: World) -> None:
    run = world.start(patient)
    world.skip_until(datetime(2030, 1, 1, tzinfo=UTC))
    assert run.status == "completed" and world.now == datetime(2030, 1, 1, tzinfo=UTC)
    with pytest.raises(BadValue, match="not before"):
        world.skip_until(datetime(2029, 1, 1, tzinfo=UTC))
    with pytest.raises(BadValue, match="zone"):
        world.skip_until(datetime(2031, 1, 1))  # noqa: DTZ001  # that is what is refused


@pytest.mark.slow
def test_a_year_of_hours_costs_no_time(world: World) -> None:
    @workflow
    async def hourly(ctx: Context) -> int:
        async for turn in ctx.loop("hours", state=0, keep=2):
            await turn.sleep("1h")
            turn.state += 1
            if turn.state == 500:
                break
        return turn.state

    assert world.run(hourly) == 500 and world.now.timestamp() - world.start_s == 500 * 3600
    world.check()


def test_executions_may_begin_later_and_have_deadlines(world: World) -> None:
    late = world.start(paying.with_(id="late", delay="1h"))
    world.skip("59m")
    assert late.status == "pending" and not late.steps()
    assert late.result() == "real-o-5"
    doomed = world.start(patient.with_(deadline="1d", id="doomed"))
    with pytest.raises(DeadlineExceeded):
        doomed.result()
    world.check()


# what never comes


def test_who_waits_for_a_message_that_can_never_come_by_itself_is_told_at_once(world: World) -> None:
    @workflow
    async def waiting(ctx: Context) -> None:
        await ctx.listen(approved)

    run = world.start(waiting)
    with pytest.raises(Stuck, match=r"waits for listen:approved \(receive approved\); send it one: run.send\('approved', ...\)"):
        run.result()
    run.pause("lunch")
    with pytest.raises(Stuck, match=r"paused: lunch.*run.resume\(\)"):
        run.result()
    run.resume()
    run.send(approved, YES)
    assert run.result() is None


def test_who_waits_for_a_child_is_told_what_that_waits_for(world: World) -> None:
    @workflow
    async def asking(ctx: Context) -> None:
        await ctx.call(order, "o1", 1)

    run = world.start(asking)
    world.mock("receipt", returns="r")
    assert run.children()[0].status == "waiting"
    with pytest.raises(ExecutionFailed):
        run.result()  # for the child does not wait for ever


def test_a_child_that_the_world_does_not_know_is_named(world: World) -> None:
    def hidden() -> Any:
        @workflow
        async def secret(ctx: Context) -> int:
            return 3

        return secret

    class Box:
        workflow = hidden()

    @workflow
    async def calling(ctx: Context) -> int:
        return int(await ctx.call(Box.workflow))

    run = world.start(calling)
    with pytest.raises(Stuck, match=r"world.use\(secret\)"):
        run.result()
    world.use(Box.workflow)
    assert run.result() == 3
    with pytest.raises(BadValue, match="name it otherwise"):
        world.use(hidden())


@pytest.mark.slow
def test_what_goes_on_for_ever_is_ended(world: World) -> None:
    @workflow
    async def endless(ctx: Context) -> None:
        async for turn in ctx.loop("turns", state=None, keep=1):
            await turn.sleep("1m")

    @workflow
    async def waiting(ctx: Context) -> None:
        await ctx.listen("never")

    world.start(endless)
    run = world.start(waiting)
    world.callbacks_max = 4_000
    with pytest.raises(Endless, match=r"result of default/waiting/1.*4,000 callbacks.*default/endless/1"):
        run.result()
    with pytest.raises(Timeout):
        run.result("10m")


@pytest.mark.slow
def test_a_step_that_never_answers_has_its_time(world: World) -> None:
    @workflow
    async def hanging(ctx: Context) -> None:
        await ctx.step(never)

    run = world.start(hanging)
    with pytest.raises(Timeout, match=r"result of default/hanging/1"):
        run.result(timeout="1w")
    with pytest.raises(Timeout):
        run.result()


# what can be done with a run


def test_questions_are_answered_without_time_passing(world: World) -> None:
    @workflow
    async def doubling(ctx: Context) -> None:
        while True:
            message = await ctx.listen("double", completable=True)
            if message.body is None:
                return
            await ctx.sleep("1s" if message.body > 100 else 0)
            message.complete(message.body * 2)

    run = world.start(doubling)
    assert run.ask("double", 21) == 42 and world.now.timestamp() == world.start_s
    assert run.ask("double", 210) == 420 and world.now.timestamp() == world.start_s + 1
    with pytest.raises(Stuck):
        run.ask("unheard of", 1)
    run.send("double", None)
    with pytest.raises(HasEnded):
        run.send("double", 1)


def test_a_run_is_cancelled_and_undone_or_terminated(world: World) -> None:
    happened.clear()
    undone, kept, gone = (world.start(order, name, 1) for name in ("undone", "kept", "gone"))
    undone.cancel("changed my mind")
    kept.cancel(undo=False)
    gone.terminate()
    assert [run.status for run in (undone, kept, gone)] == ["cancelled"] * 3
    assert happened["refunded real-undone-1"] == 1 and happened.total() == 4
    with pytest.raises(ExecutionCancelled, match="changed my mind"):
        undone.result()
    world.check()


def test_a_failed_run_is_retried_and_a_completed_one_undone(world: World) -> None:
    happened.clear()
    world.mock(receipt, answers=[Fatal("no paper"), "here"])
    run = world.start(order, "o", 1)
    run.send(approved, YES)
    with pytest.raises(ExecutionFailed, match="no paper"):
        run.result()
    assert happened["refunded real-o-1"] == 1
    run.retry()
    assert run.result() == "here" and happened["charged"] == 2
    run.undo()
    assert run.status == "completed" and happened["refunded real-o-1"] == 2
    world.check()


def test_what_a_run_shows_can_be_seen(world: World) -> None:
    @workflow
    async def showing(ctx: Context) -> None:
        ctx.set("stage", "begun")
        ctx.emit("one")
        ctx.emit({"two": 2})
        await ctx.sleep("1d")
        ctx.set("stage", "over")

    run = world.start(showing)
    assert run.query("stage") == "begun" and run.query("other", 3) == 3 and run.query() == {"stage": "begun"}
    assert [emitted.value for emitted in run.stream()] == ["one", {"two": 2}]
    assert [emitted.number for emitted in run.stream(after=1)] == [2]
    assert run.why.startswith("waits for sleep:1d")
    world.skip("1d")
    assert [event.type for event in run.events()][:2] == ["execution.created", "execution.started"] and run.query("stage") == "over"


def test_a_run_has_the_attributes_that_it_was_started_with_and_those_that_it_has_set(world: World) -> None:
    @workflow
    async def staged(ctx: Context) -> int:
        ctx.set_attributes({"stage": "begun", "customer": None})
        await ctx.sleep("1d")
        ctx.set_attributes({"stage": "over"})
        return len(ctx.execution.attributes)

    run = world.start(staged.with_(attributes={"customer": "c1", "cents": 5}))
    assert run.attributes == {"stage": "begun", "cents": 5}
    assert run.result() == 2 and run.attributes == {"stage": "over", "cents": 5}
    assert world.start(staged.with_(attributes={"of": "code"}).with_(delay="1h")).attributes == {"of": "code"}
    with pytest.raises(BadValue, match="attribute a"):
        world.start(staged.with_(attributes={"a": b""}))


def test_a_step_is_found_by_its_path_or_the_end_of_it_or_its_name(world: World) -> None:
    @workflow
    async def joining(ctx: Context) -> None:
        await ctx.join(left=one, right=one)
        await ctx.step("named", charge, "x", cents=9)
        await ctx.step(receipt, Charge("r"))

    async def one(ctx: Context) -> None:
        await ctx.step(charge, "o", 1)

    run = world.start(joining)
    run.result()
    assert run.step("join/left/charge").result == Charge("real-o-1")
    named = run.step("named")
    assert (named.args, named.kwargs, named.target, named.kind, named.state) == (("x",), {"cents": 9}, "charge", "call", "completed")
    assert run.step(receipt).args == (Charge("r"),)
    with pytest.raises(LookupError, match=r"several of 'charge': join/left/charge, join/right/charge"):
        run.step("charge")
    with pytest.raises(LookupError, match=r"no step 'chrage'; there are: join, .*named, receipt"):
        run.step("chrage")


def test_the_trace_tells_what_happened_and_when(world: World) -> None:
    world.mock(charge, answers=[TimeoutError("late"), Charge("ch_1")])
    run = world.start(order, "o1", 500)
    world.skip("1s")
    run.send(approved, YES)
    run.result()
    lines = [line.strip() for line in run.trace().splitlines()]
    assert lines[0] == "default/order/1 is completed: it has completed"
    for expected in (
        "0:00:00                           started with ('o1', 500)",
        "0:00:00  charge                   attempt 1 failed: TimeoutError: late; again in 0:00:01",
        "0:00:01  charge                   returned {'id': 'ch_1'}",
        "0:00:01  listen:approved          waits for approved for 2 days, 0:00:00 at most",
        "0:00:01                           completed with 'receipt of ch_1'",
    ):
        assert expected in lines


# the process


def test_what_is_in_flight_at_a_crash_is_lost_and_runs_again(world: World) -> None:
    mock = world.mock(charge, returns=Charge("c"), takes="10s")
    run = world.start(paying)
    world.skip("5s")
    world.crash()
    assert run.step("charge").state == "performing" and run.step("charge").interruptions == 1
    assert run.result() == "c" and len(mock.calls) == 2 and run.step("charge").attempts == 1
    assert world.now.timestamp() - world.start_s == 15
    assert "the process was killed" in world.trace() and "attempt 1 was lost with its process" in run.trace()
    world.check()


def test_an_answer_that_was_lost_in_a_crash_is_given_again(world: World) -> None:
    mock = world.mock(charge, answers=[TimeoutError(), Charge("c")], takes="10s")
    run = world.start(paying)
    world.skip("5s")
    world.crash()
    assert run.result() == "c" and len(mock.calls) == 3 and run.step("charge").attempts == 2


def test_a_step_may_be_the_death_of_its_process(world: World) -> None:
    dying = count()

    def deadly(order_id: str, cents: int) -> Charge:
        happened["deadly"] += 1
        if next(dying) < 2:
            world.crash()
        return Charge("survived")

    happened.clear()
    world.mock(charge, calls=deadly)
    assert world.run(paying) == "survived" and happened["deadly"] == 3


def test_an_execution_survives_a_crash_while_it_waits(world: World) -> None:
    run = world.start(order, "o", 1)
    world.crash()
    world.skip("1h")
    world.restart()
    run.send(approved, YES)
    world.crash()
    assert run.result() == "receipt of real-o-1" and world.machine.process.number == 4


def test_a_restart_gives_back_what_is_in_flight(world: World) -> None:
    mock = world.mock(charge, answers=[Charge("c")], takes="10s")
    run = world.start(paying)
    world.skip("5s")
    world.restart()
    assert run.result() == "c" and len(mock.calls) == 2
    assert "given back" in run.trace() and "the process was stopped" in world.trace()


@workflow(name="changing")
async def changing(ctx: Context) -> str:
    await ctx.sleep("1h")
    return "old"


@workflow(name="changing")
async def mended(ctx: Context) -> str:
    await ctx.sleep("1h")
    return "new"


@workflow(name="changing")
async def broken(ctx: Context) -> str:
    await ctx.sleep("2h")
    return "other"


def test_a_restart_may_bring_other_code(world: World) -> None:
    run = world.start(changing)
    world.restart(mended)
    assert run.result() == "new"
    world.check()


def test_code_that_does_not_fit_a_log_is_found_when_it_comes(world: World) -> None:
    run = world.start(changing)
    world.restart(broken)
    world.skip("1h")
    with pytest.raises(NeedsAttention, match=r"diverged.*sleep:1h"):
        run.result()
    with pytest.raises(NotReplayed, match=r"default/changing/1.*sleep:1h"):
        world.check()
    world.restart(changing)
    run.retry()
    assert run.result() == "old"


def test_executions_may_leave_memory_whenever_they_wait() -> None:
    happened.clear()
    with World(always_suspend=True) as world:
        run = world.start(order, "o", 1)
        engine = world.machine.process.engines[0]
        assert all(resident.execution is None for resident in engine._residents)
        run.send(approved, YES)
        assert run.result() == "receipt of real-o-1" and happened == {"charged": 1}


# what is checked at the end


def test_a_workflow_that_chooses_by_what_the_log_does_not_know_is_found() -> None:
    counter = count()

    @workflow
    async def fickle(ctx: Context) -> None:
        await ctx.step("even" if next(counter) % 2 == 0 else "odd", receipt, Charge("c"))

    with pytest.raises(NotReplayed, match=r"default/fickle/1 diverges.*even \(call receipt\)(.|\n)*odd \(call receipt\)(.|\n)*ctx.now"), World() as world:
        world.run(fickle)


def test_a_workflow_that_returns_something_else_on_replay_is_found(world: World) -> None:
    counter = count()

    @workflow
    async def counting(ctx: Context) -> int:
        return next(counter)

    world.run(counting)
    with pytest.raises(NotReplayed, match="returned 0, and now returns 1"):
        world.check()
    world.check(replay=False)


def test_executions_that_wait_are_replayed_too(world: World) -> None:
    counter = count()

    @workflow
    async def fickle(ctx: Context) -> None:
        await ctx.sleep("1h", name=f"nap {next(counter)}")

    world.start(fickle)
    with pytest.raises(NotReplayed, match="nap 0"):
        world.check()


def test_every_kind_of_verb_can_be_replayed() -> None:
    @workflow
    async def rich(ctx: Context) -> list[Any]:
        tuple_ = await ctx.join(lambda c: c.step(charge, "a", 1), lambda c: c.step(charge, "b", 2))
        won = await ctx.race(first=lambda c: c.sleep("1h"), second=lambda c: c.step(never))
        mapped = await ctx.map(doubled, [1, 2, 3], limit=2)
        kept = await ctx.keep("kept", lambda: "k" * 100_000)
        called = await ctx.call(child, 4)
        return [[one.id for one in tuple_], won.name, mapped, len(kept), called, ctx.random.random() < 2, len(str(ctx.uuid()))]

    async def doubled(ctx: Context, number: int) -> int:
        await ctx.sleep(number)
        return number * 2

    with World(seed=5) as world:
        assert world.run(rich) == [["real-a-1", "real-b-2"], "first", [2, 4, 6], 100_000, 8, True, 36]


def test_steps_on_any_queue_and_workflows_of_plain_functions_run_here() -> None:
    @workflow
    def plain(ctx: SyncContext) -> str:
        ctx.sleep("1d")
        return ctx.step(charge.with_(queue="gpu"), "o", 1).id

    with World() as world:
        assert world.run(plain) == "real-o-1"


def test_an_effect_under_the_key_of_its_step_happens_once() -> None:
    with World() as world:

        def do(order_id: str, cents: int) -> Charge:
            if world.effect("charged", key=step_info().key) and step_info().attempt == 1:
                world.crash()
            return Charge("c")

        world.mock(charge, calls=do)
        assert world.run(paying) == "c"
        assert world.effects.count("charged") == 1 and [effect.repeated for effect in world.effects] == [False, True]


def test_an_effect_without_a_key_that_happens_in_two_tries_is_reported() -> None:
    def tried(once: bool) -> None:
        with World() as world:

            def do(order_id: str, cents: int) -> Charge:
                world.effect("charged", once=once)
                if step_info().attempt == 1:
                    raise TimeoutError
                return Charge("c")

            world.mock(charge, calls=do)
            assert world.run(paying) == "c" and world.effects.count("charged") == 2

    with pytest.raises(NotIdempotent, match=r"step charge of default/paying/1 did 'charged' in attempt 1, and again in attempt 2, with no key"):
        tried(once=True)
    tried(once=False)


def test_effects_outside_of_steps_and_several_in_one_try_are_well() -> None:
    with World() as world:

        def do(order_id: str, cents: int) -> Charge:
            return Charge(f"{world.effect('mailed')}{world.effect('mailed')}")

        world.effect("prepared")
        world.effect("prepared")
        world.mock(charge, calls=do)
        assert world.run(paying) == "TrueTrue" and len(world.effects) == 4


# chance


def order_of_steps(seed: int | str | None) -> list[str]:
    ran: list[str] = []

    @step
    async def note(name: str) -> None:
        ran.append(name)

    @workflow
    async def noting(ctx: Context) -> None:
        await ctx.map(noted, list("abcdefgh"))

    async def noted(ctx: Context, name: str) -> None:
        await ctx.step(note, name)

    with World(seed=seed) as world:
        world.run(noting)
    return ran


@pytest.mark.slow
def test_a_seed_is_an_order_of_what_is_ready_at_one_moment() -> None:
    assert order_of_steps(None) == list("abcdefgh")
    assert order_of_steps(1) == order_of_steps(1) != order_of_steps(None)
    assert len({tuple(order_of_steps(seed)) for seed in range(5)}) > 1


@pytest.mark.slow
def test_two_worlds_are_the_same_world_without_a_seed(world: World) -> None:
    @workflow
    async def drawing(ctx: Context) -> float:
        return ctx.random.random()

    with World() as other:
        assert world.run(drawing) == other.run(drawing) != other.run(drawing)


# where a world can't move


async def test_inside_of_a_running_loop_a_world_says_what_to_do(world: World) -> None:
    for use in (lambda: world.start(paying), lambda: world.skip("1s"), world.crash, world.restart, lambda: world.mock(charge)):
        with pytest.raises(WrongVerb, match="Write the test as a plain `def`"):
            use()


def test_a_step_can_not_move_the_world_that_it_is_in(world: World) -> None:
    def do(order_id: str, cents: int) -> Charge:
        with pytest.raises(WrongVerb, match=r"skip\(\) was called in a step or a workflow"):
            world.skip("1h")
        return Charge(world.now.isoformat())

    world.mock(charge, calls=do)
    assert world.run(paying) == "2001-09-09T01:46:40+00:00"


def test_a_workflow_can_not_move_the_world_that_it_is_in(world: World) -> None:
    @workflow
    async def meddling(ctx: Context) -> None:
        for use in (world.crash, world.settle):
            with pytest.raises(WrongVerb, match="in a step or a workflow"):
                use()

    world.run(meddling)


def test_a_world_that_is_closed_says_so() -> None:
    with World() as world:
        run = world.start(paying)
    with pytest.raises(WrongVerb, match="closed"):
        world.start(paying)
    with pytest.raises(WrongVerb, match="closed"):
        run.send("late")
    world.close()


def test_errors_that_nobody_received_come_out_at_the_end() -> None:
    @step
    async def careless() -> None:
        happened["task"] = 0
        tasks.append(asyncio.create_task(failing()))

    async def failing() -> None:
        raise ZeroDivisionError

    tasks: list[asyncio.Task[None]] = []

    @workflow
    async def calling(ctx: Context) -> None:
        await ctx.step(careless)

    world = World()
    world.run(calling)
    tasks.clear()
    with pytest.raises(BaseExceptionGroup) as raised:
        world.close()
    assert raised.group_contains(ZeroDivisionError)


def test_importing_the_names_costs_nothing_until_they_are_used() -> None:
    import perdure.testing

    assert set(perdure.testing.__all__) <= set(dir(perdure.testing))
    with pytest.raises(AttributeError):
        _ = perdure.testing.Nothing


@step(transaction=True)
async def book(tx: Transaction, cents: int) -> int:
    return int(await tx.fetchval("SELECT ?", cents))


@workflow
async def books(ctx: Context) -> int:
    return await ctx.step(book, 5)


def test_a_step_that_needs_a_transaction_has_to_be_mocked(world: World) -> None:
    with pytest.raises(Unanswered, match=r"it needs a transaction, and a world has no database; mock it: world.mock\(book, ...\)"):
        world.run(books)


def test_a_mock_of_a_step_that_needs_a_transaction_answers(world: World) -> None:
    world.mock(book, returns=7)
    assert world.run(books) == 7
