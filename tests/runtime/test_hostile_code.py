"""Whatever user code raises, returns or names: an attempt is recorded with a named error, its slot is free again, and the warm engine goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import Context, Err, JoinFailed, Queue, RaceFailed, Resource, Retry, SyncContext, Transaction, step, workflow
from perdure.core import events as e
from perdure.core import log_format
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution
from perdure.core.limits import ERROR_MESSAGE_CHARACTERS_MAX, ERROR_TRACEBACK_CHARACTERS_MAX
from perdure.core.operations import Success
from perdure.core.paths import Key
from perdure.core.replay import fold_events
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.stores.sqlite.store import SqliteStore
from perdure.workflow_function import Workflow
from tests.hostile_values import EXCEPTION_SAMPLE, EXCEPTIONS

pytestmark = pytest.mark.slow

ENDS_S = 15.0
ONCE = Retry(max=2, wait=0.0)

line = Queue("line", concurrency=1)


def made(name: str) -> BaseException:
    return EXCEPTIONS[name]()


# steps that raise


@step(retry=ONCE)
def plainly(name: str) -> None:
    raise made(name)


@step(retry=ONCE)
async def awaiting(name: str) -> None:
    await asyncio.sleep(0)
    raise made(name)


@step(retry=ONCE)
def returns_a_coroutine(name: str) -> Any:
    async def later() -> None:
        raise made(name)

    return later()


@step(retry=ONCE, raises=(Exception,))
def declared(name: str) -> None:
    raise made(name)


@step(retry=Retry(max=2, wait=0.0, should_retry=lambda error: made(str(error)) is None or _raised(str(error))))
def asked_again(name: str) -> None:
    raise ValueError(name)


def _raised(name: str) -> bool:
    raise made(name)


@step(retry=ONCE, queue=line)
async def limited(name: str) -> None:
    raise made(name)


@step(retry=ONCE, queue="far")
def far(name: str) -> None:
    raise made(name)


@step(retry=ONCE, queue="far")
async def far_awaiting(name: str) -> None:
    raise made(name)


@step(transaction=True, retry=ONCE)
async def transacting(tx: Transaction, name: str) -> None:
    raise made(name)


@step(transaction=True, retry=ONCE, queue="far")
async def far_transacting(tx: Transaction, name: str) -> None:
    raise made(name)


def opens(name: str) -> Any:
    raise made(name)


RESOURCES = {name: Resource(name, lambda name=name: opens(name)) for name in EXCEPTIONS}  # type: ignore[misc]  # mypy can't infer the default


@step(retry=ONCE)
async def opening(name: str) -> None:
    await RESOURCES[name]


@step(retry=ONCE)
def opening_in_a_thread(name: str) -> None:
    RESOURCES[name].get()


@step(retry=ONCE)
async def in_a_task(name: str) -> None:
    async def inner() -> None:
        if not isinstance(made(name), KeyboardInterrupt | SystemExit):  # which asyncio itself raises through the loop
            raise made(name)
        raise ValueError

    await asyncio.create_task(inner())


@step(retry=ONCE, queue="far")
async def far_in_a_task(name: str) -> None:
    await in_a_task.fn(name)


STEPS: list[Any] = [
    plainly,
    awaiting,
    returns_a_coroutine,
    declared,
    asked_again,
    limited,
    far,
    far_awaiting,
    transacting,
    far_transacting,
    opening,
    opening_in_a_thread,
    in_a_task,
    far_in_a_task,
]


@workflow
async def attempts(ctx: Context, number: int, name: str) -> list[str]:
    """A step fails as data, is known by its error, and the execution goes on."""
    outcome = await ctx.attempt(STEPS[number], name)
    assert isinstance(outcome, Err)
    return [outcome.kind, outcome.error.type, outcome.error.message]


@workflow
async def raises_from_step(ctx: Context, number: int, name: str) -> None:
    await ctx.step(STEPS[number], name)


@workflow
def sync_attempts(ctx: SyncContext, number: int, name: str) -> list[str]:
    outcome = ctx.attempt(STEPS[number], name)
    assert isinstance(outcome, Err)
    return [outcome.kind, outcome.error.type, outcome.error.message]


@step(retry=ONCE)
async def cancels_its_task(how: str) -> str:
    task = asyncio.current_task()
    assert task is not None
    if how == "at last":
        task.cancel()
        return "all the same"
    if how == "later":
        asyncio.get_running_loop().call_soon(task.cancel)
        return "all the same"
    task.cancel()
    await asyncio.sleep(0)
    return "never"


CANCELLING = [cancels_its_task]


@workflow
async def cancelling(ctx: Context, how: str, queue: str) -> list[str]:
    outcome = await ctx.attempt(cancels_its_task.with_(queue=queue), how)
    return [outcome.error.type if isinstance(outcome, Err) else outcome.value, await ctx.step(limited_well)]


clung: list[str] = []


@step
async def clings() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            clung.append("once more")
            if len(clung) > 2:
                raise


@workflow
async def clinging(ctx: Context) -> None:
    await ctx.step(clings)


# workflows that raise


@workflow
async def body(ctx: Context, name: str) -> None:
    await ctx.sleep(0)
    raise made(name)


@workflow
def sync_body(ctx: SyncContext, name: str) -> None:
    ctx.sleep(0)
    raise made(name)


@workflow
async def joining(ctx: Context, name: str) -> None:
    async def branch(c: Context) -> None:
        await c.sleep(0)
        raise made(name)

    try:
        await ctx.join(branch, lambda c: c.sleep(0))
    except JoinFailed as failed:
        raise next(iter(failed.errors.values())) from None


@workflow
def sync_joining(ctx: SyncContext, name: str) -> None:
    def branch(c: SyncContext) -> None:
        c.sleep(0)
        raise made(name)

    ctx.join(branch)


@workflow
async def mapping(ctx: Context, name: str) -> None:
    async def branch(c: Context, item: int) -> None:
        raise made(name)

    await ctx.map(branch, [1, 2])


@workflow
async def racing(ctx: Context, name: str) -> None:
    async def branch(c: Context) -> None:
        raise made(name)

    try:
        await ctx.race(one=branch, two=branch)
    except RaceFailed as failed:
        raise next(iter(failed.errors.values())) from None


@workflow
async def keeping(ctx: Context, name: str) -> None:
    try:
        _ = ctx.keep("it", lambda: _raised(name))
    except BaseException:
        await ctx.sleep(0)
        raise


@workflow
async def in_a_helper(ctx: Context, name: str) -> None:
    async def helper() -> None:
        await ctx.sleep(0)
        raise made(name)

    await asyncio.create_task(helper())


@workflow
async def gathering(ctx: Context, name: str) -> None:
    async def helper() -> None:
        raise made(name)

    await asyncio.gather(helper(), ctx.sleep(0))


@workflow
async def parent(ctx: Context, name: str) -> None:
    await ctx.call(body, name)


@workflow
async def conditioned(ctx: Context, name: str) -> None:
    ctx.log.info("it", given=made(name))
    async for turn in ctx.loop("turns", state=0):
        turn.state += 1
        raise made(name)


WORKFLOWS: list[Workflow[..., Any]] = [
    body,
    sync_body,
    joining,
    sync_joining,
    mapping,
    racing,
    keeping,
    in_a_helper,
    gathering,
    parent,
    conditioned,
]


# what is undone


undoing: list[str] = []


@step
def done(name: str) -> str:
    return name


@done.undo(retry=ONCE)
def undone(result: str, name: str) -> None:
    undoing.append(name)
    raise made(name)


@workflow
async def is_undone(ctx: Context, name: str) -> None:
    await ctx.step(done, name)
    raise ValueError("now undo")


@workflow
async def is_well(ctx: Context) -> str:
    return await ctx.step(limited_well)


@step(queue=line)
async def limited_well() -> str:
    return "well"


class EngineOnFile:
    """A store, an engine and a worker on it."""

    def __init__(self, store: SqliteStore, engine: Engine) -> None:
        self.store, self.engine = store, engine
        self.count = 0

    async def start(self, workflow: Workflow[..., Any], *args: Any) -> Key:
        self.count += 1
        key = Key("default", workflow.code.name, f"e{self.count}")
        assert await self.engine.start(key, workflow.code.codec.encode_args(args, {}, "input"))
        return key

    async def ended(self, keys: dict[str, Key]) -> dict[str, Execution]:
        """How all of them stand, once each has ended or needs attention."""
        async with asyncio.timeout(ENDS_S):
            while left := [name for name, key in keys.items() if (await self.fold(key)).status not in ("completed", "failed", "cancelled", "needs_attention")]:
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    raise AssertionError(f"these have not ended: {left}") from None
        return {name: await self.fold(key) for name, key in keys.items()}

    async def fold(self, key: Key) -> Execution:
        return fold_events(key, await self.events(key))

    async def events(self, key: Key) -> list[e.Event]:
        found = await self.store.read(key)
        assert found is not None
        return log_format.decode_rows(found.payloads)

    async def is_resident_and_works(self) -> None:
        """The engine goes on, and the queue of one place has it free."""
        (stands,) = (await self.ended({"well": await self.start(is_well)})).values()
        assert stands.status == "completed"


@asynccontextmanager
async def place(file: Path, *more: Workflow[..., Any]) -> AsyncIterator[EngineOnFile]:
    """With an engine that knows the workflows of this file, and a worker that has its steps."""
    store = SqliteStore(file, synchronous="OFF")
    known: list[Workflow[..., Any]] = [attempts, sync_attempts, raises_from_step, is_undone, is_well, *WORKFLOWS, *more]
    engine = Engine(store, [one.code for one in known], poll_s=0.2)
    worker = Worker(
        store, [far, far_awaiting, far_transacting, far_in_a_task, *CANCELLING, limited, limited_well], queues=["far", "line"], poll_s=0.2, limit=100
    )
    running = [asyncio.create_task(engine.run()), asyncio.create_task(worker.run())]
    await engine.ready()
    try:
        yield EngineOnFile(store, engine)
    finally:
        engine.stop()
        worker.stop()
        async with asyncio.timeout(20):
            await asyncio.gather(*running)
        await store.close()


def all_or_sample(all_of: Iterable[str], sample: Iterable[str]) -> pytest.MarkDecorator:
    """The sample in every run, all with the long proofs."""
    return pytest.mark.parametrize("names", [pytest.param([*sample], id="sample"), pytest.param([*all_of], id="all", marks=pytest.mark.prove)])


exceptions = all_or_sample(EXCEPTIONS, EXCEPTION_SAMPLE)


def is_bounded(error: ErrorInfo) -> bool:
    """Whether an error has a name, and is no larger than may be kept, with what says how much was left out."""
    some = 100
    return bool(error.type) and len(error.message) <= 2 * ERROR_MESSAGE_CHARACTERS_MAX and len(error.traceback) <= 2 * ERROR_TRACEBACK_CHARACTERS_MAX + some


def nothing_is_broken(caplog: pytest.LogCaptureFixture) -> None:
    """No task of the engine or the worker has failed, and none of asyncio's callbacks."""
    assert not [record.getMessage() for record in caplog.records if "defect of Perdure" in record.getMessage() or record.name == "asyncio"]


@exceptions
@pytest.mark.parametrize("number", range(len(STEPS)), ids=lambda number: str(STEPS[number].name))
def test_whatever_a_step_raises_is_a_recorded_failure_and_the_engine_goes_on(
    number: int, names: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with place(tmp_path / "db") as p:
            keys = {name: await p.start(attempts if name != "rollback of half a surrogate" else raises_from_step, number, name) for name in names}
            for name, execution in (await p.ended(keys)).items():
                events = await p.events(keys[name])
                failures = [event.error for event in events if isinstance(event, e.RetryingEvent)]
                failures += [event.outcome.error for event in events if isinstance(event, e.SettledEvent) and isinstance(event.outcome, Err)]
                assert failures and all(map(is_bounded, failures)), name
                assert execution.status in ("completed", "failed") and execution.ended is not None, name
                if execution.status == "failed":
                    assert "ollback" in name, (name, execution.ended)
            await p.is_resident_and_works()

    asyncio.run(scenario())
    nothing_is_broken(caplog)


@exceptions
@pytest.mark.parametrize("flow", WORKFLOWS, ids=[flow.code.name for flow in WORKFLOWS])
def test_whatever_workflow_code_raises_ends_its_execution_with_a_named_error_and_it_replays(
    flow: Workflow[..., Any], names: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with place(tmp_path / "db") as p:
            keys = {name: await p.start(flow, name) for name in names}
            for name, execution in (await p.ended(keys)).items():
                assert execution.ended is not None and execution.ended.status in ("failed", "cancelled"), (name, execution.status, execution.parked)
                outcome = execution.ended.outcome
                assert isinstance(outcome, Err) and is_bounded(outcome.error), name
            await p.is_resident_and_works()

    asyncio.run(scenario())
    nothing_is_broken(caplog)


@exceptions
def test_whatever_undoes_a_step_raises_the_execution_needs_attention_and_says_why(names: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with place(tmp_path / "db") as p:
            keys = {name: await p.start(is_undone, name) for name in names}
            for name, execution in (await p.ended(keys)).items():
                assert execution.parked is not None and execution.parked.reason == "undo" and name in undoing, name
            await p.is_resident_and_works()

    asyncio.run(scenario())
    nothing_is_broken(caplog)


@pytest.mark.parametrize("queue", ["", "far"])
@pytest.mark.parametrize("how", ["at once", "at last", "later"])
def test_a_step_that_cancels_the_task_in_which_it_runs_cancels_nothing_else(how: str, queue: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with place(tmp_path / "db", cancelling) as p:
            key = await p.start(cancelling, how, queue)
            execution = (await p.ended({"it": key}))["it"]
            assert execution.status == "completed" and execution.ended is not None
            assert isinstance(execution.ended.outcome, Success) and isinstance(execution.ended.outcome.value, bytes)
            first, second = msgspec.msgpack.decode(execution.ended.outcome.value)
            assert (first, second) == ("CancelledError" if how == "at once" else "all the same", "well")

    asyncio.run(scenario())


def test_a_step_that_goes_on_though_it_is_cancelled_does_not_keep_an_engine_from_stopping(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with place(tmp_path / "db", clinging) as p:
            key = await p.start(clinging)
            while not (await p.fold(key)).opened.performed:
                await asyncio.sleep(0.01)
        assert "ignores the cancellation" in caplog.text

    asyncio.run(scenario())
