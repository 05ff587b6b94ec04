"""Claims about traces: one trace leads from a client through the API, the execution and its steps, in whatever process, to the requests of steps."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode

from perdure import Allowed, AsyncClient, Context, Definition, Deployment, Retry, step, workflow
from perdure.api.api_app import ApiApp
from perdure.api.api_server import ApiServer, listening_socket, url_of
from perdure.api.http_requests import ApiRequest
from perdure.core.paths import Key
from perdure.observe.traces import REMEMBERED_MAX, TraceObserver
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import begin_engine, run_to_end
from perdure.runtime.worker import Worker
from perdure.runtime.workflow_programs import encode_input
from perdure.service.callers import LOCAL, Caller
from perdure.service.execution_operations import StartRequest, start_execution
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.stores.sqlite.store import SqliteStore
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer, reply
from tests.observe.far_steps import far
from tests.tasks.worker_setup import perdure, program


class Spans(NamedTuple):
    """A provider, and the spans that it was given."""

    provider: TracerProvider
    exporter: InMemorySpanExporter

    def observer(self) -> TraceObserver:
        """An observer, as each process has its own."""
        return TraceObserver(self.provider.get_tracer("perdure"))  # type: ignore[arg-type]  # the SDK's own

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans that have ended, of a name."""
        return [one for one in self.exporter.get_finished_spans() if one.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (found,) = self.named(name)
        return found


def spans_with(sampler: Sampler | None = None) -> Spans:
    provider, exporter = TracerProvider(sampler=sampler), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Spans(provider, exporter)


@pytest.fixture
def spans() -> Spans:
    return spans_with()


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def above(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


tries: list[int] = []


@step(retry=Retry(max=2, wait=0.001))
async def flaky(number: int) -> int:
    tries.append(number)
    if len(tries) < 2:
        raise OSError("once more")
    return number


@step
def threaded(number: int) -> list[str]:
    carrier = trace.get_current_span().get_span_context()
    return [f"{carrier.trace_id:032x}", f"{carrier.span_id:016x}", str(baggage.get_baggage("customer"))]


@workflow
async def pays(ctx: Context, number: int) -> int:
    return await ctx.step(flaky, number)


@workflow
async def looks(ctx: Context) -> list[str]:
    return await ctx.step(threaded, 1)


@workflow
async def family(ctx: Context) -> int:
    tries.append(0)
    return await ctx.call(pays, 1)


@workflow
async def fails(ctx: Context) -> None:
    raise ValueError("no")


@asynccontextmanager
async def engine_of(spans: Spans, *flows: Any, store: Any = None) -> AsyncIterator[Engine]:
    engine = Engine(store or MemoryStore(), [one.code for one in flows], observer=spans.observer())
    running = await begin_engine(engine)
    try:
        yield engine
    finally:
        engine.stop()
        await running


async def run(engine: Engine, flow: Any, id: str, *args: Any) -> bytes:
    return await run_to_end(engine, Key("default", flow.code.name, id), encode_input(flow.code, args, {}, "run"))


async def test_each_attempt_has_a_span_in_that_of_its_execution(spans: Spans) -> None:
    tries.clear()
    async with engine_of(spans, pays) as engine:
        _ = await run(engine, pays, "p1", 4)
    whole = spans.one("execution pays")
    first, second = spans.named("step flaky")
    assert above(first) == above(second) == ids(whole) and above(whole) is None
    assert [one.attributes and one.attributes["perdure.attempt"] for one in (first, second)] == [1, 2]
    assert first.status.status_code is StatusCode.ERROR and first.status.description == "OSError: once more"
    assert [one.name for one in first.events] == ["exception"] and second.status.status_code is StatusCode.UNSET
    assert whole.attributes and dict(whole.attributes) == {
        "perdure.status": "completed",
        "perdure.workflow_version": 1,
        "perdure.tenant": "default",
        "perdure.workflow": "pays",
        "perdure.execution": "p1",
    }
    assert whole.start_time and first.start_time and second.end_time and whole.end_time and whole.start_time <= first.start_time + 10_000_000


async def test_a_failed_execution_has_its_error(spans: Spans) -> None:
    async with engine_of(spans, fails) as engine:
        with pytest.raises(Exception, match="no"):
            _ = await run(engine, fails, "f1")
    whole = spans.one("execution fails")
    assert whole.status.status_code is StatusCode.ERROR and [one.name for one in whole.events] == ["exception"]


async def test_a_step_in_a_thread_sees_its_span_and_the_baggage_of_the_caller(spans: Spans) -> None:
    tracer = spans.provider.get_tracer("shop")
    async with engine_of(spans, looks) as engine:
        with tracer.start_as_current_span("client"):
            token = context.attach(baggage.set_baggage("customer", "c7"))
            access = StoreAccess(engine.store, engine)
            key, created = await start_execution(access, StartRequest(key=Key("default", "looks", "l1"), input=encode_input(looks.code, (), {}, "start")))
            context.detach(token)
        raw = await access.result(key)
    seen = spans.one("step threaded")
    assert created and f"{ids(seen)[0]:032x}".encode() in raw and f"{ids(seen)[1]:016x}".encode() in raw and b"c7" in raw
    assert above(spans.one("execution looks")) == ids(spans.one("client"))


async def test_a_child_is_in_the_span_of_its_parent_within_a_trace_and_linked_to_it_outside_of_any(spans: Spans) -> None:
    async with engine_of(spans, family, pays) as engine:
        tries.clear()
        _ = await run(engine, family, "alone")
        alone, child = spans.one("execution family"), spans.one("execution pays")
        assert above(child) is None and [(one.context.trace_id, one.context.span_id) for one in child.links] == [ids(alone)]
        spans.exporter.clear()
        with spans.provider.get_tracer("shop").start_as_current_span("client"):
            access, given = StoreAccess(engine.store, engine), encode_input(family.code, (), {}, "start")
            key, _ = await start_execution(access, StartRequest(key=Key("default", "family", "traced"), input=given))
        _ = await access.result(key)
    assert above(spans.one("execution pays")) == ids(spans.one("execution family"))
    assert above(spans.one("execution family")) == ids(spans.one("client"))


async def test_an_execution_that_goes_on_after_its_end_is_linked_to_its_first_span(spans: Spans) -> None:
    broken = [True]

    @step(retry=Retry(max=1))
    async def mends() -> None:
        if broken:
            raise OSError("broken")

    @workflow
    async def mended(ctx: Context) -> None:
        await ctx.step(mends)

    async with engine_of(spans, mended) as engine:
        key = Key("default", "mended", "m1")
        with pytest.raises(Exception, match="broken"):
            _ = await run(engine, mended, "m1")
        broken.clear()
        handle = await AsyncClient(engine.store).get(key)
        await handle.retry()
        _ = await asyncio.wait_for(handle.result(), 20)
    first, second = spans.named("execution mended")
    assert ids(first) != ids(second) and [(one.context.trace_id, one.context.span_id) for one in second.links] == [ids(first)]
    assert {above(one) for one in spans.named("step mends")} == {ids(first)}


# Sampling.


async def test_an_execution_is_sampled_if_its_caller_is(spans: Spans) -> None:
    sampled, unsampled = spans, spans_with(ParentBased(ALWAYS_OFF))
    for one, expected in ((sampled, 2), (unsampled, 0)):
        store = MemoryStore()
        async with engine_of(sampled, looks, store=store) as engine:
            sampled.exporter.clear()
            with one.provider.get_tracer("shop").start_as_current_span("client"):
                access, given = StoreAccess(engine.store, engine), encode_input(looks.code, (), {}, "start")
                key, _ = await start_execution(access, StartRequest(key=Key("default", "looks", "l1"), input=given))
            _ = await access.result(key)
        assert len([one for one in sampled.exporter.get_finished_spans() if one.name != "client"]) == expected


async def test_processes_decide_alike_on_executions_that_no_trace_started() -> None:
    engines, workers = spans_with(ParentBased(TraceIdRatioBased(0.3))), spans_with(ParentBased(TraceIdRatioBased(0.3)))
    keys = [Key("default", "w", str(number)) for number in range(1000)]
    one, other = engines.observer(), workers.observer()
    places = [(one.place_of(key, ()).own, other.place_of(key, ()).own) for key in keys]
    assert all(here == there for here, there in places)
    assert 200 < sum(here.trace_flags.sampled for here, _ in places) < 400
    assert len({here.trace_id for here, _ in places}) == len({here.span_id for here, _ in places}) == 1000


async def test_what_is_remembered_of_executions_is_bounded(spans: Spans) -> None:
    observer = spans.observer()
    for number in range(2 * REMEMBERED_MAX):
        _ = observer.place_of(Key("default", "w", str(number)), ())
    assert len(observer._places) == REMEMBERED_MAX


# Processes.


@asynccontextmanager
async def served(spans: Spans, store: Any, *flows: Any) -> AsyncIterator[str]:
    """The URL of an API with an engine, both observed."""

    async def anybody(_: ApiRequest) -> Caller:
        return LOCAL

    async with engine_of(spans, *flows, store=store) as engine:
        listening = listening_socket("127.0.0.1", 0)
        server = ApiServer(ApiApp(StoreAccess(engine.store, engine), anybody, observer=spans.observer()), listening)
        running = asyncio.create_task(server.run())
        await server.ready()
        try:
            yield url_of(listening)
        finally:
            server.stop()
            await running


def definition(url: str) -> Definition:
    steps = [{"id": "away", "tool": "far", "with": {"number": 1}}, {"id": "asks", "http": {"url": url}}]
    document = {"perdure": 1, "name": "journey", "steps": steps}
    return Definition.of(document, tools=[far], deployment=Deployment(Allowed(http=("127.0.0.1",))))


@pytest.mark.slow
async def test_one_trace_leads_from_a_client_to_the_request_of_a_step_through_three_processes(spans: Spans, tmp_path: Path) -> None:
    written, url = tmp_path / "spans.jsonl", f"sqlite:///{tmp_path}/here.db"
    command = perdure("worker", str(Path(__file__).with_name("far_steps.py")), "--queue", "far", "--otel")
    async with MisbehavingServer() as shop:
        shop.on("/asked", reply("{}"))
        flow = definition(shop.url("/asked"))
        async with (
            served(spans, SqliteStore(tmp_path / "here.db"), flow) as address,
            program(*command, cwd=tmp_path, env={**os.environ, "PERDURE_DB": url, "SPANS": str(written)}) as worker,
            AsyncClient(address, token="t") as client,
        ):
            _ = await worker.until("serves far")
            with spans.provider.get_tracer("shop").start_as_current_span("client"):
                handle = await client.start(flow.with_(id="j1"))
            _ = await asyncio.wait_for(handle.result(), 60)
            while not written.exists() or written.read_text().count("\n") < 2:
                await asyncio.sleep(0.01)
        (asked,) = shop.seen
    of_worker = {one["name"]: one for one in map(json.loads, written.read_text().splitlines())}
    client_span, whole, http_step = (
        spans.one("client"),
        spans.one("execution journey"),
        next(one for one in spans.exporter.get_finished_spans() if one.attributes and one.attributes.get("perdure.step") == "asks"),
    )
    posted = next(one for one in spans.named("POST /api/call/executions.start") if one.kind is SpanKind.SERVER and above(one) == ids(client_span))
    trace_id = ids(client_span)[0]
    assert ids(posted)[0] == ids(whole)[0] == ids(http_step)[0] == trace_id
    assert above(whole) in (ids(client_span), ids(posted)) and above(http_step) == ids(whole)
    assert asked.headers["traceparent"] == f"00-{trace_id:032x}-{ids(http_step)[1]:016x}-{trace_flags(http_step)}"
    away = of_worker["step far"]
    assert (away["context"]["trace_id"], away["parent_id"]) == (f"0x{trace_id:032x}", f"0x{ids(whole)[1]:016x}")
    assert away["kind"] == "SpanKind.CONSUMER" and away["attributes"]["perdure.queue"] == "far"
    assert of_worker["within the step"]["parent_id"] == away["context"]["span_id"]


def trace_flags(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{int(span.context.trace_flags):02x}"


async def test_a_request_by_curl_with_a_traceparent_starts_an_execution_in_its_trace(spans: Spans) -> None:
    async with served(spans, MemoryStore(), looks) as address, httpx2.AsyncClient(base_url=address) as client:
        headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        answer = await client.post("/api/executions", json={"workflow": "looks", "id": "c1"}, headers=headers)
        assert answer.status_code == 201
        assert (await client.get("/api/executions/looks/c1/result?waitSeconds=20")).status_code == 200
        assert (await client.get("/api/executions/looks/none")).status_code == 404
    request = spans.one("POST /api/executions")
    assert above(request) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
    assert above(spans.one("execution looks")) == ids(request)
    assert request.attributes and request.attributes["http.response.status_code"] == 201
    lost = spans.one("GET /api/executions/{workflow}/{id}")
    assert lost.attributes and lost.attributes["http.response.status_code"] == 404 and lost.status.status_code is StatusCode.UNSET


async def test_a_worker_s_step_without_a_trace_is_in_the_execution_of_its_engine(spans: Spans) -> None:
    @workflow
    async def sends(ctx: Context) -> int:
        return await ctx.step(far, 1)

    store = MemoryStore()
    of_worker = spans_with()
    async with engine_of(spans, sends, store=store) as engine:
        worker = Worker(store, [far], queues=["far"], observer=of_worker.observer())
        working = asyncio.create_task(worker.run())
        _ = await run(engine, sends, "s1")
        worker.stop()
        await working
    assert above(of_worker.one("step far")) == ids(spans.one("execution sends"))
