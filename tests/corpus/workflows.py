"""Canonical workflows, and what happens to each: the corpus of logs that every later version of Perdure must read and replay.

What stands here is as frozen as the logs that were made of it: a new release adds workflows, and changes none.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import perdure
from perdure import Context, ErrorInfo, Fatal, Key, Retry, Rollback, Signal, StepFailed, Vote, Workflow, step, workflow
from perdure.agent import Agent, AgentTask
from perdure.code.declarations import Step
from perdure.core import values
from perdure.core.completions import Completion
from perdure.definitions.format.verb_shapes import AGENT_MESSAGE
from perdure.definitions.kinds.agents.agent_conversation import AgentMessage
from perdure.recording.recording_messages import CallCancellation, CallRequest, InputValues, RecordingOrder, ToolAnswer, ToolCallFailed, ToolPreset
from perdure.recording.recording_workflow import recording_workflow
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed


class Stage(Protocol):
    """What a case may do to its executions while they run."""

    async def start(self, workflow: Workflow[..., Any], *args: Any, id: str = "1") -> Key:
        """Start an execution."""
        ...

    async def send(self, key: Key, name: str, body: Any = None, once: str = "") -> None:
        """Send a message from outside."""
        ...

    async def cancel(self, key: Key, reason: str) -> None:
        """Cancel an execution."""
        ...

    async def retry(self, key: Key, reason: str) -> None:
        """Retry an execution."""
        ...

    async def halfway(self) -> None:
        """Record the executions as they are now, in flight."""
        ...

    def repair(self) -> None:
        """From now on the steps that are broken at first succeed."""
        ...


class DecidingStage(Stage, Protocol):
    """What the cases that only the corpus plays may do besides."""

    async def undo(self, key: Key, reason: str) -> None:
        """Undo what a completed execution has done."""
        ...

    async def vote(self, key: Key, path: str, vote: Vote) -> None:
        """Decide about the approval that an execution asks for at a path."""
        ...


@dataclass
class Order:
    """A type of the user's."""

    id: int
    lines: list[str]
    at: datetime | None = None


approved: Signal[int] = Signal("approved", int)
broken = {"yes": False}
old = {"yes": False}
"""Whether the code of `gated` is that from before its gates were written."""


@step
async def echo(value: Any) -> Any:
    """Return what it is given."""
    return value


@step
def priced(order: Order, factor: float = 2.0) -> dict[str, Any]:
    """Take and return structured data, in a thread."""
    return {"price": len(order.lines) * factor, "order": order}


@step(retry=Retry(max=2, wait=5, jitter=0.5))
async def fails() -> None:
    """Fail always."""
    raise ValueError("it fails")


@step
async def gives_up() -> None:
    """Fail for good."""
    raise Fatal("it gives up")


@step(retry=Retry(max=2, wait="1s"), timeout="3s")
async def hangs() -> None:
    """Never answer."""
    await asyncio.sleep(1e6)


@step(retry=Retry(max=1))
async def fails_until_repaired(value: Any) -> Any:
    """Fail as long as the world is broken."""
    if broken["yes"]:
        raise ConnectionError("the world is broken")
    return value


@step(retry=Retry(max=5, wait=2))
async def fails_twice(key: str) -> int:
    """Succeed in the third try."""
    attempt: int = perdure.step_info().attempt
    if attempt < 3:
        raise OSError(f"{key} fails in try {attempt}")
    return attempt


@workflow
async def sequential(ctx: Context, order: Order) -> dict[str, Any]:
    """Steps one after the other: with and without results, failing, caught, timing out."""
    nothing = await ctx.step(echo, None)
    price = await ctx.step(priced, order, factor=3.0)
    tries = await ctx.step("third", fails_twice, "key/1")
    try:
        await ctx.step(fails)
    except StepFailed as failed:
        caught = [failed.kind, failed.attempts, failed.error.message]
    given_up = await ctx.attempt(gives_up)
    late = await ctx.attempt("late", hangs)
    again = [await ctx.step(echo, number) for number in range(3)]
    return {
        "nothing": nothing,
        "price": price["price"],
        "tries": tries,
        "caught": caught,
        "kinds": [getattr(given_up, "kind", ""), getattr(late, "kind", "")],
        "again": again,
    }


@workflow
async def joined(ctx: Context) -> list[Any]:
    """A join by name, one by position, a map with a limit, asyncio's own gather and task group, and a failing branch."""

    async def user(c: Context) -> Any:
        await c.sleep("2s")
        return await c.step(echo, "user")

    async def orders(c: Context) -> Any:
        return [await c.step(echo, number) for number in (1, 2)]

    async def doubled(c: Context, item: int) -> int:
        known: int = await c.step(echo, item)
        return 2 * known

    by_name = await ctx.join(user=user, orders=orders)
    by_place = await ctx.join(orders, user)
    mapped = await ctx.map(doubled, [1, 2, 3, 4, 5], limit=2)
    gathered = await asyncio.gather(ctx.step(echo, "a"), ctx.step(echo, "b"), ctx.sleep(1))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.step(echo, number)) for number in (7, 8)]
    try:
        await ctx.join(good=user, bad=lambda c: c.step(gives_up), name="fails")
    except perdure.JoinFailed as failed:
        errors = sorted(failed.errors)
    return [by_name, by_place, mapped, gathered, [task.result() for task in tasks], errors]


@workflow
async def raced(ctx: Context) -> list[Any]:
    """Races with a timer: the step wins, the timer wins, a message goes back to its place."""

    async def slow(c: Context) -> str:
        await c.sleep("1d")
        return "slow"

    async def listens(c: Context) -> Any:
        message = await c.listen("note", completable=True)
        await c.sleep("1d")
        return message.body

    quick = await ctx.race(step=lambda c: c.step(echo, "quick"), late=slow)
    late = await ctx.race(step=lambda c: c.step("never", hangs.with_(timeout="1h")), late=lambda c: c.sleep("10s"))
    kept = await ctx.race(listener=listens, timer=lambda c: c.sleep("5s"))
    return [quick.name, quick.value, late.name, kept.name, await ctx.listen("note")]


@workflow(archive=True)
async def looped(ctx: Context, turns: int) -> list[Any]:
    """A long loop that is trimmed, and whose log is compacted more than once."""
    total: list[Any] = []
    async for turn in ctx.loop("audit", state=[0, 0.5], keep=3):
        value = await turn.step(echo, turn.number)
        turn.state = [turn.state[0] + value, turn.state[1] * 1.5 % 7]
        turn.set("progress", turn.number)
        if turn.number % 10 == 0:
            await turn.sleep("1m")
        if turn.number == turns:
            total = turn.state
            break
    return [total, await ctx.step(echo, "after")]


@workflow
async def nested(ctx: Context) -> list[Any]:
    """Loops in loops, with options, beside a branch that waits."""

    async def days(c: Context) -> Any:
        async for day in c.loop("day", state=0, keep=1):
            async for poll in day.loop("poll", state=0, keep=2, trim_every=2, commit_every=3):
                poll.state += await poll.step(echo, 1)
                if poll.number == 8:
                    day.state += poll.state
                    break
            if day.number == 12:
                return day.state
        return None

    async def waits(c: Context) -> Any:
        return await c.listen(approved, timeout="30d", default=-1)

    return [dict(await ctx.join(days=days, waits=waits))]


@workflow
async def listening(ctx: Context) -> list[Any]:
    """Messages: typed, by any of several names, many at a time, in time and too late, completed."""
    first = await ctx.listen(approved)
    either = [await ctx.listen("left", "right"), await ctx.listen("left", "right")]
    many = await ctx.listen_many("item", limit=3)
    gathered = await ctx.listen_many("vote", limit=5, timeout="1m")
    none = await ctx.listen("never", timeout="10s", default="none")
    message = await ctx.listen("question", completable=True)
    message.complete({"answer": message.body})
    return [first, either, many, gathered, none, message.body]


@workflow
async def child(ctx: Context, number: int) -> Any:
    """A child: waits a little, fails when told to."""
    await ctx.sleep(number)
    if number < 0 or number == 3:
        raise ValueError(f"child {number} fails")
    return [await ctx.step(echo, number), ctx.uuid().hex]


@workflow
async def parent(ctx: Context) -> list[Any]:
    """Children: one after the other, side by side, failing, cancelled in a race, detached."""
    one = await ctx.call(child, 1)
    two, four = await ctx.join(lambda c: c.call(child, 2), lambda c: c.call(child, 4))
    try:
        await ctx.call(child, 3)
    except perdure.ChildFailed as failed:
        caught = failed.error.message
    lost = await ctx.race(child=lambda c: c.call(child, 1000), timer=lambda c: c.sleep(5))
    detached = await ctx.start(child, 6)
    return [one[0], two[0], four[0], caught, lost.name, detached.workflow, len({one[1], two[1], four[1]})]


@workflow
async def remembering(ctx: Context) -> list[Any]:
    """What is not the same twice: values kept, the time, random numbers, ids."""
    kept = await ctx.keep("kept", lambda: 42)
    before = ctx.now()
    await ctx.sleep("90s")
    passed_s = (ctx.now() - before).total_seconds()
    drawn = [ctx.random.random(), ctx.random.randint(1, 6), ctx.uuid().hex]
    await ctx.sleep_until(datetime(2001, 9, 9, 3, tzinfo=UTC), name="at three")
    ids = list(await ctx.join(lambda c: c.step(echo, c.uuid().hex), lambda c: c.step(echo, c.uuid().hex)))
    return [kept, passed_s, drawn, ids, ctx.now().hour, ctx.execution.id]


@workflow
async def receiver(ctx: Context) -> Any:
    """Hear what `telling` sends."""
    return [await ctx.listen("hello"), await ctx.listen("hello")]


@workflow
async def telling(ctx: Context) -> int:
    """What others see: messages sent, state set, a stream."""
    other = await ctx.start(receiver)
    for number in range(3):
        ctx.set("progress", {"number": number})
        ctx.emit(["item", number])
        await ctx.send(other, "hello", number)
        await ctx.step(echo, number)
    ctx.log.info("told", count=3)
    return 3


@workflow
async def heavy(ctx: Context, text: str) -> list[Any]:
    """Values that are kept as blobs: input, arguments, results, kept, messages, result."""
    result = await ctx.step(echo, text + "!")
    kept = await ctx.keep("kept", lambda: text + "?")
    message = await ctx.listen("large")
    ctx.set("large", message)
    return [len(result), len(kept), len(message), text]


@workflow
async def reopened(ctx: Context) -> list[Any]:
    """Fails, is retried, and goes on from what failed, with messages, values and sends of its first life."""
    first = await ctx.step(echo, 1)
    kept = await ctx.keep("kept", lambda: "k" * 70_000)
    note = await ctx.listen("note")
    await ctx.send(ctx.execution.key, "self", first)
    async for turn in ctx.loop("audit", state=0, keep=2):
        turn.state += await turn.step(fails_until_repaired if turn.number == 5 else echo, 1)
        if turn.number == 9:
            break
    return [first, len(kept), note, await ctx.listen("self"), turn.state]


@workflow
async def cancelled(ctx: Context) -> None:
    """Is cancelled, and cleans up with steps of its own."""
    try:
        await ctx.join(a=lambda c: c.sleep("1d"), b=lambda c: c.listen("never"), c=lambda c: c.call(child, 1000))
    finally:
        await ctx.step("clean", echo, "up")
        await ctx.sleep("1s")


@step
async def slow(value: Any, takes_s: float) -> Any:
    """Return what it is given, after some time."""
    await asyncio.sleep(takes_s)
    return value


@step
async def charge(amount: int, takes_s: float = 0) -> str:
    """Charge, so that it can be undone."""
    await asyncio.sleep(takes_s)
    return f"charged {amount}"


@charge.undo
async def refund(charged: str, amount: int, takes_s: float = 0) -> str:
    """Take some time to give it back."""
    await asyncio.sleep(10)
    return f"not {charged}"


@step(retry=Retry(max=1))
async def doubtful(takes_s: float) -> None:
    """Fail, after some time, having done something or not."""
    await asyncio.sleep(takes_s)
    raise ValueError("it is not known")


@doubtful.undo(in_doubt=True)
async def set_right(result: Any, takes_s: float) -> None:
    """Set right what was done, if anything was."""


@dataclass
class Filled:
    """A form."""

    price: int


@step
async def notify(notice: Any) -> str:
    """Tell people."""
    return str(notice["why"] if isinstance(notice, dict) else notice)


@workflow
async def decided(ctx: Context) -> list[Any]:
    """Approvals: by a quorum with a form, with reminders and an escalation; rejected; by the end of the time."""
    asked: Any = {"form": Filled, "assignees": ["ada", "bob"], "quorum": 2, "remind": "10s", "escalate": "20s", "escalate_to": ["eve"], "notify": notify}
    first = await ctx.approve("Ship it?", details={"n": 1}, **asked)
    second = await ctx.approve("Really?", name="second")
    late = await ctx.approve("Too late?", name="late", timeout="5s", on_timeout="approve")
    return [first.value.price, first.approved, second.approved, second.comment, late.approved, late.expired]


@workflow
async def lost(ctx: Context) -> list[Any]:
    """Losers of races with messages: not used, so that it goes back; used by a step; held, as it can be completed; and of a loop's turns."""

    async def unused(c: Context) -> Any:
        got = await c.listen("note")
        await c.sleep("1d")
        return got

    async def used(c: Context) -> Any:
        got = await c.listen("note")
        await c.step(echo, got)
        await c.sleep("1d")
        return got

    async def held(c: Context) -> Any:
        got = await c.listen("note", completable=True)
        await c.step(echo, got.body)
        await c.sleep("1d")
        return got.body

    async def serves(c: Context) -> Any:
        async for turn in c.loop("jobs", state=0):
            turn.state += await turn.listen("job")
        return None

    names = []
    for branch in (unused, used, held, serves):
        won = await ctx.race(name=f"beside {branch.__name__}", listener=branch, timer=lambda c: c.sleep("5s"))
        names.append(won.name)
    left = [await ctx.listen("note"), await ctx.listen("job")]
    first, second = await ctx.race(a=lambda c: c.listen("a"), b=lambda c: c.listen("b")), await ctx.listen("b")
    return [names, left, first.name, second]


@workflow
async def waiting(ctx: Context) -> list[Any]:
    """Tasks waited for: those that are done, as each ends, all that there are; steps and workflows mapped."""
    tasks = [asyncio.ensure_future(ctx.step(slow, n, takes_s=n)) for n in (3, 1, 2)]
    done, rest = await ctx.wait(*tasks, return_when=asyncio.FIRST_COMPLETED)
    timed, _ = await ctx.wait(*rest, timeout="1500ms")
    ended = [await task async for task in ctx.as_completed(*tasks)]
    mapped = await ctx.map(child, [1, 2])
    return [len(done), len(timed), ended, [one[0] for one in mapped]]


@workflow
async def undone(ctx: Context, how: str) -> Any:
    """What is undone: steps, a child, the turns of a loop; not what was committed, nor what was left behind in a turn that is over."""
    await ctx.step("before", charge, 1)
    ctx.commit()
    await ctx.step("after", charge, 2)
    async for turn in ctx.loop("turns", state=0, keep=2, undo_keep=2):
        turn.state += 1
        await turn.step(charge, turn.number)
        if turn.number == 4:
            break
    await ctx.call(undoes.with_(undo=True), 3)
    _ = await ctx.attempt(doubtful, 1)
    if how == "fails":
        raise Rollback("it is not wanted")
    if how == "drops":
        await ctx.join(a=lambda c: c.step("slow", charge, 4, takes_s=8), b=lambda c: c.step("fails", doubtful, 2))
    if how == "cancelled":
        await ctx.join(a=lambda c: c.step("stays", doubtful, 1000), b=lambda c: c.step("ends", charge, 5, takes_s=12))
    return how


@workflow
async def undoes(ctx: Context, number: int) -> str:
    """A child that is undone with its parent."""
    return await ctx.step(charge, number)


@workflow
async def gated(ctx: Context) -> list[Any]:
    """Code that changed under its executions: an operation was removed, and an open one; there are gates where there were none."""
    if old["yes"]:
        await ctx.step(echo, "old")
        await ctx.sleep("10s")
    else:
        await ctx.removed("echo")
        await ctx.removed("sleep:10s", "sleep")
    ways = [await ctx.version("tax", 2) for _ in range(2)]
    ctx.set_attributes({"way": ways[0], "stage": "paid"})
    await ctx.listen("go")
    ctx.set_attributes({"stage": None})
    late = await ctx.version("late", 3)
    return [late, await ctx.listen("go")]


@workflow
async def ungated(ctx: Context) -> list[Any]:
    """An execution that has passed by where a gate was written later goes the first way there, and the last at one that it reaches."""
    first = 1 if old["yes"] else await ctx.version("tax", 2)
    before = await ctx.step("by", echo, "this way")
    await ctx.listen("go")
    return [first, before, await ctx.version("tax", 2)]


@step(retry=Retry(max=2, wait="5s"), timeout="1m", heartbeat="20s")
async def request(token: str, what: str) -> str:
    """Request something of somebody who has the token from then on."""
    return what


@workflow
async def external(ctx: Context) -> list[Any]:
    """Steps that are completed from outside: after a heartbeat, and after two failures."""
    first = await ctx.external(Order, request, "a")
    try:
        await ctx.external(int, request.with_(name="second"), "b")
    except StepFailed as failed:
        return [first.id, failed.kind, failed.attempts, failed.error.type, failed.error.message]
    return [first.id]


even: Signal[int] = Signal("even", int, validate=lambda number: number % 2 == 0)


@workflow
async def validating(ctx: Context) -> list[Any]:
    """Messages that validators reject: of a receive, of one that is completed, and of several."""
    first = await ctx.listen(even, validate=lambda number: number < 10, timeout="1h")
    question = await ctx.listen("question", completable=True, validate=lambda body: body != "who")
    question.complete(f"{question.body}: because")
    many = await ctx.listen_many(even, limit=3, timeout="1m")
    return [first, question.body, many]


class Case(NamedTuple):
    """A workflow with those it needs, and what happens to it."""

    workflows: Sequence[Workflow[..., Any]]
    play: Callable[[Any], Coroutine[Any, Any, object]]


customer = perdure.carry(ContextVar[str]("corpus_customer"), str)


@step
async def customer_of_step() -> str:
    return customer.get()


@workflow
async def carried(ctx: Context) -> list[str]:
    return [customer.get(), await ctx.step(customer_of_step)]


@workflow
async def carrying(ctx: Context) -> list[str]:
    found = [customer.get(), await ctx.step(customer_of_step)]
    await ctx.sleep(5)
    return [*found, *await ctx.call(carried), customer.get()]


async def recorded_echo(value: Any) -> ToolAnswer:
    """Answer what it is given."""
    return ToolAnswer([], {"result": value}, True)


async def recorded_slow(value: Any, takes_s: float) -> ToolAnswer:
    """Answer what it is given, after some time."""
    await asyncio.sleep(takes_s)
    return ToolAnswer([], {"result": value}, True)


async def recorded_failure() -> ToolAnswer:
    """Fail as a tool does."""
    raise ToolCallFailed("no money")


_once: dict[str, Any] = {"retry": Retry(max=1), "idempotent": False, "raises": (ToolCallFailed,)}
RECORDED_TOOLS: dict[str, Step[..., Any, Any]] = {
    "shop.echo": Step(recorded_echo, "shop.echo", **_once),
    "shop.slow": Step(recorded_slow, "shop.slow", **_once),
    "shop.fails": Step(recorded_failure, "shop.fails", **_once),
}
recorded: Any = SimpleNamespace(code=recording_workflow(lambda name, _: RECORDED_TOOLS.get(name)))
"""The workflow of recordings, with tools that are functions."""


async def _raced(stage: Stage) -> None:
    key = await stage.start(raced)
    await asyncio.sleep(12)
    await stage.halfway()
    await stage.send(key, "note", "back")


async def _nested(stage: Stage) -> None:
    key = await stage.start(nested)
    await asyncio.sleep(100)
    await stage.halfway()
    await stage.send(key, "approved", 3)


async def _listening(stage: Stage) -> None:
    key = await stage.start(listening)
    for name, body, once in [
        ("item", 1, ""),
        ("approved", 7, "k"),
        ("approved", 7, "k"),
        ("right", "r", ""),
        ("item", 2, ""),
        ("left", "l", ""),
        ("vote", "yes", ""),
        ("vote", "no", ""),
    ]:
        await stage.send(key, name, body, once)
        await asyncio.sleep(1)
    await asyncio.sleep(100)
    await stage.halfway()
    await stage.send(key, "question", "why")


async def _external(stage: Stage) -> None:
    key = await stage.start(external)
    await asyncio.sleep(10)
    await stage.send(key, "completion of external:request/request", Completion("1", heartbeat=True))
    await asyncio.sleep(15)
    await stage.halfway()
    done = Completion("2", values.encode(Order(7, ["x"]), "an order"))
    await stage.send(key, "completion of external:request/request", done, "completion:external:request/request")
    await asyncio.sleep(5)
    await stage.send(key, "completion of second/request", Completion("3", error=ErrorInfo("ValueError", "no")))
    await asyncio.sleep(70)


async def _validating(stage: Stage) -> None:
    key = await stage.start(validating)
    for name, body in (("even", 3), ("even", 12), ("even", "x"), ("question", "who"), ("even", 4), ("question", "why")):
        await stage.send(key, name, body)
        await asyncio.sleep(1)
    await stage.halfway()
    for number in (5, 6, 7, 8):
        await stage.send(key, "even", number)


async def _heavy(stage: Stage) -> None:
    key = await stage.start(heavy, "x" * 70_000)
    await asyncio.sleep(5)
    await stage.halfway()
    await stage.send(key, "large", "m" * 80_000)


async def _reopened(stage: Stage) -> None:
    broken["yes"] = True
    key = await stage.start(reopened)
    await asyncio.sleep(5)
    await stage.halfway()
    await stage.send(key, "note", "n")
    await asyncio.sleep(100)
    stage.repair()
    await stage.retry(key, "the world is repaired")
    await asyncio.sleep(100)


async def _cancelled(stage: Stage) -> None:
    key = await stage.start(cancelled)
    await asyncio.sleep(10)
    await stage.cancel(key, "enough")
    await asyncio.sleep(0.5)
    await stage.halfway()


async def _decided(stage: DecidingStage) -> None:
    key = await stage.start(decided)
    await asyncio.sleep(25)
    await stage.vote(key, "approve:Ship it?", Vote("ada", True, value={"price": 3}))
    await stage.vote(key, "approve:Ship it?", Vote("eve", True))
    await asyncio.sleep(5)
    await stage.halfway()
    await stage.vote(key, "second", Vote("bob", False, "too dear"))


async def _lost(stage: Stage) -> None:
    key = await stage.start(lost)
    for name, body in [("note", 1), ("note", 2), ("note", 3), ("job", 4), ("job", 5), ("note", 6)]:
        await stage.send(key, name, body)
    await asyncio.sleep(18)
    await stage.halfway()
    await asyncio.sleep(5)
    await stage.send(key, "job", 7)
    await stage.send(key, "b", 1)
    await stage.send(key, "b", 2)


async def _undone(stage: DecidingStage) -> None:
    keys = [await stage.start(undone, how, id=how) for how in ("fails", "drops", "cancelled", "completes")]
    await asyncio.sleep(10)
    await stage.cancel(keys[2], "enough")
    await stage.undo(keys[3], "a mistake")
    await asyncio.sleep(5)
    await stage.halfway()


async def _gated(stage: Stage) -> None:
    old["yes"] = True
    keys = [await stage.start(gated), await stage.start(ungated)]
    await asyncio.sleep(5)
    old["yes"] = False
    keys += [await stage.start(gated, id="new"), await stage.start(ungated, id="new")]
    await asyncio.sleep(2)
    await stage.halfway()
    for _ in range(2):
        await asyncio.sleep(10)
        for key in keys:
            await stage.send(key, "go")


billing: Agent[str] = Agent("billing", model="m", deployment=deployed(m=ModelScript("You owe 3 euros")))
desk: Agent[Any] = Agent(
    "desk",
    model="m",
    tools=[echo],
    handoffs=[billing],
    output={"cents": {"type": "integer"}},
    deployment=deployed(m=ModelScript([("billing", {"task": "Ada asks"})], [("echo", {"value": 1})])),
)
"""An agent that hands its task over, to one whose answer does not fit."""


async def _handing_over(stage: Stage) -> None:
    key = await stage.start(desk, AgentTask(session=True))
    await stage.send(key, AGENT_MESSAGE, AgentMessage("What do I owe?"))
    await asyncio.sleep(10)
    await stage.send(key, AGENT_MESSAGE, AgentMessage("What is 1?"))
    await asyncio.sleep(10)
    await stage.halfway()
    await stage.send(key, AGENT_MESSAGE, AgentMessage(is_over=True))


async def _carrying(stage: Stage) -> None:
    token = customer.set("c7")
    await stage.start(carrying)
    customer.reset(token)
    await asyncio.sleep(2)
    await stage.halfway()


async def _recorded(stage: Stage) -> None:
    """Calls that wait for each other, fail, are cancelled, or have presets, and messages that nest deep."""
    key = await stage.start(recorded, RecordingOrder(title="All", input={"user": 7}))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("shop.slow", {"value": "@input.user", "takes_s": 3}),
        ("shop.slow", {"value": "@slow_1", "takes_s": 1}),
        ("shop.echo", {"value": ["@slow_2", "@slow_1", "@alice"]}),
        ("shop.echo", {"value": "@input.nothing"}),
        ("shop.echo", {"value": "@echo_1"}),
        ("shop.fails", {}),
        ("shop.none", {}),
        ("shop.echo", {"value": _deep(80)}),
        ("shop.echo", {"value": ["@echo_4"]}),
        ("shop.slow", {"value": "@fails_1", "takes_s": 1}),
        ("shop.slow", {"value": 1, "takes_s": 1000}),
        ("shop.echo", {"value": "@slow_4"}),
    ]
    for number, (tool, arguments) in enumerate(calls):
        await stage.send(key, "call", CallRequest(id=str(number), tool=tool, arguments=arguments))
    await stage.send(key, "call", {"tool": 5})
    await asyncio.sleep(2)
    await stage.halfway()
    await asyncio.sleep(5)
    for preset in (
        ToolPreset(tool="shop.echo", arguments={"value": "@input"}, result={"deep": _deep(70)}),
        ToolPreset(step="fails_1", result="done"),
        ToolPreset(step="echo_8", result=[1]),
        ToolPreset(step="echo_1", result="late"),
    ):
        await stage.send(key, "preset", preset)
    await stage.send(key, "input", InputValues(values={"more": _deep(90)}))
    for number, value in enumerate(["@echo_7.deep", "@input.more[0]", "@fails_1"]):
        await stage.send(key, "call", CallRequest(id=f"late {number}", tool="shop.echo", arguments={"value": value}))
    await stage.send(key, "cancel_call", CallCancellation(id="11"))
    await stage.send(key, "cancel_call", CallCancellation(id="10"))
    await stage.send(key, "end")


def _deep(levels: int) -> Any:
    return [_deep(levels - 1)] if levels else "x"


def _started(after_s: float, *args: Any) -> Callable[[Stage], Coroutine[Any, Any, object]]:
    """Start a workflow, and record it in flight after some time."""

    async def play(stage: Stage) -> None:
        await stage.start(args[0], *args[1:])
        if after_s:
            await asyncio.sleep(after_s)
        await stage.halfway()

    return play


CANONICAL: dict[str, Case] = {
    "sequential": Case([sequential], _started(10, sequential, Order(1, ["a", "b"]))),
    "joined": Case([joined], _started(1, joined)),
    "raced": Case([raced], _raced),
    "looped": Case([looped], _started(200, looped, 120)),
    "nested": Case([nested], _nested),
    "listening": Case([listening], _listening),
    "parent": Case([parent, child], _started(7, parent)),
    "remembering": Case([remembering], _started(60, remembering)),
    "telling": Case([telling, receiver], _started(0, telling)),
    "heavy": Case([heavy], _heavy),
    "reopened": Case([reopened], _reopened),
    "cancelled": Case([cancelled, child], _cancelled),
}
"""The workflows whose process is also killed at each of its writes, in `tests/testing/test_crashes.py`."""

CASES: dict[str, Case] = CANONICAL | {
    "decided": Case([decided], _decided),
    "lost": Case([lost], _lost),
    "waiting": Case([waiting, child], _started(2, waiting)),
    "undone": Case([undone, undoes], _undone),
    "gated": Case([gated, ungated], _gated),
    "carrying": Case([carrying, carried], _carrying),
    "external": Case([external], _external),
    "validating": Case([validating], _validating),
    "handing_over": Case([desk, billing], _handing_over),
    "recorded": Case([recorded], _recorded),
}
