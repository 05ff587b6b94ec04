"""Context variables, traces and fields of logs in the steps of an execution: those of the caller, also after a recovery."""

import asyncio
import contextvars
import logging
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import (
    App,
    AsyncClient,
    Client,
    Context,
    Definition,
    ExecutionFailed,
    Queue,
    StepFields,
    SyncContext,
    Transaction,
    carry,
    carry_by,
    step,
    step_info,
    workflow,
)
from perdure.code import carried_context
from perdure.code.carried_context import captured_context, restore_context
from perdure.core.errors import BadName, BadValue, TooLarge, Undecodable, Unencodable
from perdure.testing.world import World

user = carry(ContextVar[str]("test_user"), str)
request: ContextVar[dict[str, int]] = carry(ContextVar("test_request"), dict[str, int], name="test.request")
bound: ContextVar[str] = ContextVar("bound", default="")
carry_by("test.bound", lambda: bound.get() or None, bound.set, str)
seen: list[Any] = []
NONE: dict[str, int] = {}
far = Queue("far")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    seen.clear()


def context_here() -> str:
    return f"{user.get('')} {request.get(NONE).get('id')} {bound.get()}"


@step
async def in_async() -> str:
    return context_here()


@step
def in_thread() -> str:
    return context_here()


@step(queue=far)
def in_worker() -> str:
    return context_here()


@workflow
async def child(ctx: Context) -> Any:
    return await ctx.step(in_async)


@workflow
async def everywhere(ctx: Context) -> dict[str, Any]:
    return {
        "workflow": context_here(),
        "async": await ctx.step(in_async),
        "thread": await ctx.step(in_thread),
        "branch": (await ctx.join(branch))[0],
        "child": await ctx.call(child),
    }


async def branch(ctx: Context) -> Any:
    return await ctx.step(in_async)


@workflow
def plainly(ctx: SyncContext) -> Any:
    return [context_here(), ctx.step(in_thread)]


@workflow
async def at_a_worker(ctx: Context) -> Any:
    return await ctx.step(in_worker)


CALLER = "ada 7 structured"
NOBODY = " None "


def as_caller(call: Any) -> Any:
    def set_and_call() -> Any:
        user.set("ada")
        request.set({"id": 7})
        bound.set("structured")
        return call()

    return contextvars.copy_context().run(set_and_call)


def test_code_steps_branches_and_children_have_the_context_of_the_caller(world: World) -> None:
    run = as_caller(lambda: world.start(everywhere))
    assert set(run.result().values()) == {CALLER}
    assert as_caller(lambda: world.run(plainly)) == [CALLER, CALLER]
    assert context_here() == NOBODY


def test_what_is_not_set_is_not_recorded_and_has_its_default(world: World) -> None:
    assert set(world.run(everywhere).values()) == {NOBODY}
    assert captured_context() == ()


@pytest.mark.perdure(always_suspend=True)
def test_executions_that_are_restored_from_their_logs_have_it_too(world: World) -> None:
    run = as_caller(lambda: world.start(everywhere))
    assert set(run.result().values()) == {CALLER}


def test_executions_beside_each_other_have_their_own(world: World) -> None:
    def started_by(name: str) -> Any:
        user.set(name)
        return world.start(everywhere)

    runs = {name: contextvars.copy_context().run(started_by, name) for name in ("ada", "bob", "carl")}
    for name, run in runs.items():
        assert set(run.result().values()) == {f"{name} None "}


@pytest.mark.parametrize("how", ["run", "arun", "client", "async client", "app", "async app", "background"])
def test_every_way_to_start_takes_the_context(tmp_path: Path, how: str) -> None:
    db = f"sqlite:///{tmp_path}/perdure.db"

    def call() -> Any:
        app = App([everywhere], db=db)
        match how:
            case "run":
                return everywhere.with_(db=db).run()
            case "arun":
                return asyncio.run(everywhere.with_(db=db).arun())
            case "client":
                with app, Client(db) as client:
                    return client.start(everywhere.with_(delay="1ms")).result(timeout="20s")
            case "async client" | "async app":
                return asyncio.run(_in_async(app, db, how))
            case "app":
                with app as shop:
                    return shop.run(everywhere)
            case _:
                found = app.background().run(everywhere)
                app._close_in_background()
                return found

    assert set(as_caller(call).values()) == {CALLER}


async def _in_async(app: App, db: str, how: str) -> Any:
    async with app:
        if how == "async app":
            return await app.run(everywhere)
        async with AsyncClient(db) as client:
            return await (await client.start(everywhere)).result(timeout="20s")


def test_a_worker_of_a_queue_has_it(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/perdure.db"
    with App([at_a_worker], db=db) as shop, App(steps=[in_worker], queues=[far], db=db):
        assert as_caller(lambda: shop.run(at_a_worker)) == CALLER


@step(transaction=True)
async def in_transaction(tx: Transaction) -> str:
    return context_here()


@step
async def reserve(fail: bool) -> str:
    return "reserved"


@reserve.undo
async def release(result: str, fail: bool) -> None:
    seen.append(context_here())


@workflow
async def undone(ctx: Context) -> Any:
    await ctx.step(reserve, True)
    found = await ctx.step(in_transaction)
    raise ValueError(found)


def test_transactional_steps_and_undo_handlers_have_it(tmp_path: Path) -> None:
    with pytest.raises(ExecutionFailed, match=CALLER):
        as_caller(lambda: undone.with_(db=f"sqlite:///{tmp_path}/perdure.db").run())
    assert seen == [CALLER]


def test_tools_of_definitions_have_it(world: World) -> None:
    defined = Definition.of(
        {"perdure": 1, "name": "tools", "version": "1.0.0", "steps": [{"id": "look", "tool": "in_thread"}], "output": "@look"}, tools=[in_thread]
    )
    assert as_caller(lambda: world.run(defined)) == CALLER


def test_reruns_and_forks_keep_it(tmp_path: Path) -> None:
    with App([everywhere], db=f"sqlite:///{tmp_path}/perdure.db") as shop:
        handle = as_caller(lambda: shop.start(everywhere.with_(id="first")))
        handle.result(timeout="20s")
        for again in (handle.rerun(id="again"), handle.fork(id="forked", from_step="in_async")):
            assert set(again.result(timeout="20s").values()) == {CALLER}


def test_a_value_that_no_longer_fits_fails_the_step_with_its_name() -> None:
    carried = (("test_user", msgspec.msgpack.encode({"no": "text"})),)
    with pytest.raises(Undecodable, match="what is carried as test_user"):
        restore_context(carried)
    restore_context((("unknown here", b"\x01"),))


def test_what_can_not_be_carried_is_said_at_the_start(world: World) -> None:
    def start_with(value: Any) -> Any:
        user.set(value)
        return world.start(everywhere)

    with pytest.raises(Unencodable, match="what is carried as test_user"):
        contextvars.copy_context().run(start_with, object())
    with pytest.raises(TooLarge, match="what an execution carries from its start"):
        contextvars.copy_context().run(start_with, "x" * 20_000)
    assert world.runs == []


def test_a_name_belongs_to_one_module() -> None:
    carry(user, str)
    other = "from perdure import carry\nfrom contextvars import ContextVar\ncarry(ContextVar('test_user'), str)"
    with pytest.raises(BadName, match=r"the module .*test_carried_context carries something under this name"):
        exec(other, {"__name__": "another"})  # a second module
    with pytest.raises(BadValue, match="a ContextVar"):
        carry("user", str)  # type: ignore[arg-type]  # this is what is tested
    assert carried_context._CARRIERS["test_user"].kind is str


def test_a_step_sets_variables_for_itself_alone(world: World) -> None:
    @step
    async def sets() -> str:
        before = user.get("")
        user.set("somebody else")
        return before

    @workflow
    async def twice(ctx: Context) -> list[str]:
        return [await ctx.step(sets), await ctx.step(sets), user.get("")]

    assert as_caller(lambda: world.run(twice)) == ["ada"] * 3


# Traces.


def test_spans_of_steps_belong_to_the_trace_of_the_caller(tmp_path: Path) -> None:
    trace = pytest.importorskip("opentelemetry.trace", reason="OpenTelemetry is not installed")
    from opentelemetry import baggage, context

    @step
    def look() -> tuple[str, str, Any]:
        span = trace.get_current_span().get_span_context()
        return f"{span.trace_id:032x}", f"{span.span_id:016x}", baggage.get_baggage("customer")

    @workflow
    async def traced(ctx: Context) -> Any:
        return await ctx.step(look)

    def call() -> Any:
        span = trace.NonRecordingSpan(trace.SpanContext(0x1234, 0x56, False, trace.TraceFlags(1)))
        context.attach(baggage.set_baggage("customer", "c7", trace.set_span_in_context(span)))
        return traced.with_(db=f"sqlite:///{tmp_path}/perdure.db").run()

    assert contextvars.copy_context().run(call) == [f"{0x1234:032x}", f"{0x56:016x}", "c7"]
    assert traced.with_(db=f"sqlite:///{tmp_path}/perdure.db").run() == ["0" * 32, "0" * 16, None]


# Logs.


def test_records_say_which_step_wrote_them(world: World) -> None:
    lines = list[str]()

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler, logger = Lines(), logging.getLogger("test.step.fields")
    handler.addFilter(StepFields())
    handler.setFormatter(logging.Formatter("%(execution)s|%(step)s|%(attempt)d|%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    @step
    def writes(number: int) -> None:
        logger.info("from %s", "a thread" if threading.current_thread() is not threading.main_thread() else "the loop")
        if step_info().attempt < number:
            raise OSError("once more")

    @workflow
    async def logs(ctx: Context) -> None:
        await ctx.step(writes, 2)

    logger.info("outside")
    world.run(logs.with_(id="l1"))
    logger.removeHandler(handler)
    assert [line.rpartition("|")[0] for line in lines] == ["||0", "default/logs/l1|writes|1", "default/logs/l1|writes|2"]
