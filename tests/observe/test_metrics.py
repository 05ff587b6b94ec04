"""Claims about metrics: they count what has happened, their labels are bounded and hold no id, and the database is read rarely."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from perdure import App, Context, Retry, step, workflow
from perdure.api.api_app import ApiApp
from perdure.code.step_environment import StepInfo
from perdure.core import messages
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.errors import BadValue, StoreUnavailable
from perdure.core.operations import Success
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.observe import metric_table as m
from perdure.observe import store_gauges
from perdure.observe.exposition import MetricsExposition
from perdure.observe.metrics import KnownLabels, ProcessMetrics
from perdure.observe.metrics_listener import MetricsListener, metrics_address
from perdure.observe.store_gauges import StoreGauges
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import begin_engine, run_to_end
from perdure.runtime.observed_store import ObservedStore
from perdure.runtime.worker import Worker
from perdure.runtime.workflow_programs import encode_input
from perdure.service.callers import Caller
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Post, QueueLimits, Store
from tests.api.api_setup import api_in_process

tries: list[int] = []


@step
async def double(number: int) -> int:
    return 2 * number


@step(retry=Retry(max=3, wait=0.001))
async def flaky(number: int) -> int:
    tries.append(number)
    if len(tries) < 3:
        raise OSError("once more")
    return number


@step(retry=Retry(max=1))
async def hopeless() -> None:
    raise ValueError("no")


@step(queue="mails")
async def mail(number: int) -> int:
    return number


@workflow
async def pays(ctx: Context, number: int) -> int:
    return await ctx.step(double, await ctx.step(flaky, number))


@workflow
async def fails(ctx: Context) -> None:
    await ctx.step(hopeless)


@workflow
async def mails(ctx: Context) -> int:
    return await ctx.step(mail, 3)


@workflow
async def asks(ctx: Context) -> str:
    return str(await ctx.approve("may it?"))


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def samples(exposition: MetricsExposition) -> Samples:
    text, media_type = await exposition.text("")
    assert media_type.startswith("text/plain")
    families = list(text_string_to_metric_families(text.decode()))
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, tuple(sorted(labels.items()))))


@asynccontextmanager
async def observed_engine(*flows: Any, store: Store | None = None) -> AsyncIterator[tuple[Engine, ProcessMetrics, MetricsExposition]]:
    metrics, opened = ProcessMetrics(), store or MemoryStore()
    engine = Engine(opened, [one.code for one in flows], observer=metrics)
    running = await begin_engine(engine)
    try:
        yield engine, metrics, MetricsExposition(metrics, engine.store)
    finally:
        engine.stop()
        await running


async def run(engine: Engine, flow: Any, id: str, *args: Any) -> bytes:
    return await run_to_end(engine, Key("default", flow.code.name, id), encode_input(flow.code, args, {}, "run"))


async def test_executions_steps_retries_and_ends_are_counted() -> None:
    tries.clear()
    async with observed_engine(pays, fails) as (engine, _, exposition):
        _ = await run(engine, pays, "an-id-of-it", 4)
        with pytest.raises(Exception, match="hopeless"):
            _ = await run(engine, fails, "f1")
        found = await samples(exposition)
    assert value(found, "perdure_executions_started_total", workflow="pays") == 1
    assert value(found, "perdure_executions_ended_total", workflow="pays", status="completed") == 1
    assert value(found, "perdure_executions_ended_total", workflow="fails", status="failed") == 1
    assert value(found, "perdure_execution_seconds_count", workflow="pays", status="completed") == 1
    assert value(found, "workflow_tokens_consumed_total", workflow="pays", node_id="flaky") == 1
    assert value(found, "workflow_tokens_emitted_total", workflow="pays", node_id="flaky") == 1
    assert value(found, "workflow_retries_total", workflow="pays", node_id="flaky", error_type="OSError") == 2
    assert value(found, "perdure_attempt_seconds_count", workflow="pays", step="flaky", outcome="failed") == 2
    assert value(found, "perdure_attempt_seconds_count", workflow="pays", step="flaky", outcome="succeeded") == 1
    assert value(found, "perdure_attempt_seconds_count", workflow="fails", step="hopeless", outcome="failed") == 1
    assert value(found, "workflow_tokens_emitted_total", workflow="fails", node_id="hopeless") == 0
    assert value(found, "workflow_counter_value", workflow="pays") == 0
    assert (value(found, "perdure_store_commit_seconds_count") or 0) >= 6
    assert value(found, "workflow_dlq_size") == 1 and value(found, "perdure_executions", status="failed") == 1
    assert value(found, "perdure_processes", kind="engine", alive="true") == 1
    assert not any("an-id-of-it" in text for _, labels in found for _, text in labels)


async def test_the_engine_and_the_worker_of_an_app_tell_its_observer() -> None:
    tries.clear()
    metrics = ProcessMetrics()
    async with App([pays, mails], queues=["mails"], db=MemoryStore(), observer=metrics) as app:
        assert (await app.run(pays, 4), await app.run(mails)) == (8, 3)
        found = await samples(MetricsExposition(metrics, app.client.access.store))
    assert value(found, "perdure_executions_ended_total", workflow="pays", status="completed") == 1
    assert value(found, "perdure_attempt_seconds_count", workflow="mails", step="mail", outcome="succeeded") == 1


async def test_each_metric_of_the_table_is_exposed_with_its_labels() -> None:
    tries.clear()
    async with observed_engine(pays) as (engine, metrics, exposition):
        _ = await run(engine, pays, "1", 4)
        metrics.lost_lease("engine")
        metrics.store_failed()
        metrics.begin_request("GET", {}).ended("/healthz", 200)
        text, _ = await exposition.text("")
    for metric in m.METRICS:
        assert f"# TYPE {metric.series[0] if metric.type == 'counter' else metric.name} {metric.type}" in text.decode()
        for line in re.findall(rf"^{metric.series[0]}{{(.*)}} ", text.decode(), re.MULTILINE):
            assert {one.partition("=")[0] for one in re.findall(r'\w+="', line)} - {"le"} == set(metric.labels), line


async def test_a_queue_s_tasks_are_measured_by_their_worker() -> None:
    store = MemoryStore()
    await store.limit("mails", QueueLimits(concurrency=5))
    async with observed_engine(mails, store=store) as (engine, _, of_engine):
        metrics = ProcessMetrics()
        started = asyncio.create_task(run(engine, mails, "m1"))
        while not (waiting := [one for one in await store.queues() if one.work_waiting]):
            await asyncio.sleep(0.001)
        assert waiting
        found = await samples(of_engine)
        assert value(found, "perdure_queue_waiting", queue="mails", what="task") == 1
        worker = Worker(store, [mail], queues=["mails"], observer=metrics)
        working = asyncio.create_task(worker.run())
        _ = await started
        found = await samples(MetricsExposition(metrics, store))
        worker.stop()
        await working
    assert value(found, "workflow_tokens_emitted_total", workflow="mails", node_id="mail") == 1
    assert value(found, "perdure_claimed_total", what="task") == 1
    assert value(found, "workflow_hop_latency_ms_count", queue="mails") == 1
    longest_s = value(found, "perdure_longest_wait_seconds", queue="mails")
    assert longest_s is not None and 0 < longest_s < 60


async def test_executions_that_wait_for_people_are_counted() -> None:
    async with observed_engine(asks) as (engine, _, exposition):
        key = Key("default", "asks", "a1")
        assert await engine.start(key, encode_input(asks.code, (), {}, "start"))
        while not (await samples_now(exposition)).get(("perdure_approvals_waiting", ())):
            await asyncio.sleep(0.001)


async def samples_now(exposition: MetricsExposition) -> Samples:
    """The samples, with the gauges of the database read again."""
    exposition._gauges._again_s = 0.0
    return await samples(exposition)


async def test_the_lag_of_an_engine_is_measured_from_the_claim() -> None:
    store = MemoryStore()
    async with observed_engine(fails, store=store) as (engine, _, exposition):
        with pytest.raises(Exception, match="hopeless"):
            _ = await run(engine, fails, "f1")
        assert value(await samples(exposition), "perdure_engine_lag_seconds_count") is None  # it was started here, and not claimed
        key = Key("default", "fails", "f2")
        start = messages.StartMessage(1, encode_input(fails.code, (), {}, "start"), 1)
        opens = NewExecution(program_name("fails", 1), key)
        _ = await engine.store.commit([Post(messages=(OutgoingMessage(key, "start", messages.encode_message(start), opens=opens),))])
        while not value(await samples(exposition), "perdure_engine_lag_seconds_count"):
            await asyncio.sleep(0.005)
        assert value(await samples(exposition), "workflow_hop_latency_ms_count", queue="") == 1


# Bounds.


def test_labels_beyond_the_limit_are_counted_together() -> None:
    known = KnownLabels()
    assert {known.bounded(f"w{number}") for number in range(2 * m.LABELS_MAX)} == {*(f"w{number}" for number in range(m.LABELS_MAX)), m.OTHER}
    assert known.bounded("w0") == "w0" and len(known.bounded("x" * 9999)) < 200


async def test_steps_beyond_the_limit_take_no_memory() -> None:
    metrics = ProcessMetrics()
    for number in range(3 * m.LABELS_MAX):
        metrics.begin_attempt(StepInfo(Key("default", f"w{number}", "1"), (), 1), "s", "").ended(Success(b""))
    assert len(metrics.steps) == m.LABELS_MAX + 1
    assert metrics.steps[m.OTHER, m.OTHER].succeeded == 2 * m.LABELS_MAX


async def test_the_database_is_read_once_in_a_while_however_many_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(MemoryStore):
        reads = 0

        async def queues(self) -> list[Any]:
            self.reads += 1
            return await super().queues()

    store, clock = Counted(), [1000.0]
    monkeypatch.setattr(store_gauges, "monotonic", lambda: clock[0])
    gauges = StoreGauges(store)
    _ = await asyncio.gather(*(gauges.refresh() for _ in range(50)))
    assert store.reads == 1
    clock[0] += store_gauges.READ_EVERY_S - 0.01
    await gauges.refresh()
    assert store.reads == 1
    clock[0] += 0.02
    await gauges.refresh()
    assert store.reads == 2


async def test_a_database_that_answers_slowly_is_read_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]

    class Slow(MemoryStore):
        async def queues(self) -> list[Any]:
            clock[0] += 3.0
            return await super().queues()

    monkeypatch.setattr(store_gauges, "monotonic", lambda: clock[0])
    gauges = StoreGauges(Slow())
    await gauges.refresh()
    assert gauges.gauges[m.STORE_READ_SECONDS][()] == 3.0
    clock[0] = 1000.0 + 59.0
    await gauges.refresh()
    assert clock[0] == 1059.0
    clock[0] += 2.0
    await gauges.refresh()
    assert clock[0] == 1064.0


async def test_a_database_that_can_not_be_read_has_no_gauges_and_fails_no_scrape() -> None:
    class Broken(MemoryStore):
        async def queues(self) -> list[Any]:
            raise StoreUnavailable("gone")

    exposition = MetricsExposition(ProcessMetrics(), Broken())
    found = await samples(exposition)
    assert value(found, "workflow_dlq_size") is None and value(found, "perdure_store_read_seconds") is not None


async def test_failed_commits_and_claims_are_counted() -> None:
    class Broken(MemoryStore):
        async def commit(self, changes: Any) -> Any:
            raise StoreUnavailable("gone")

    metrics = ProcessMetrics()
    store = ObservedStore.of(Broken(), metrics)
    assert ObservedStore.of(store, metrics) is store
    with pytest.raises(StoreUnavailable):
        _ = await store.commit([])
    assert metrics.counts[m.STORE_ERRORS] == {(): 1}


# The listener.


async def test_a_listener_answers_prometheus_and_closes_its_port(tmp_path: Path) -> None:
    async with observed_engine(fails) as (_, __, exposition):
        listener = MetricsListener(exposition, ("127.0.0.1", 0))
        running = asyncio.create_task(listener.run())
        await listener.ready()
        async with httpx2.AsyncClient() as client:
            answer = await client.get(listener.url)
            only = await client.get(f"{listener.url}?name[]=perdure_processes")
        assert answer.status_code == 200 and 'perdure_processes{alive="true",kind="engine"} 1.0' in answer.text
        assert "process_cpu" not in only.text and "perdure_processes{" in only.text
        listener.stop()
        await running
        async with httpx2.AsyncClient() as client:
            with pytest.raises(httpx2.ConnectError):
                _ = await client.get(listener.url)


async def test_an_address_that_is_taken_or_invalid_is_refused() -> None:
    exposition = MetricsExposition(ProcessMetrics(), MemoryStore())
    first = MetricsListener(exposition, ("127.0.0.1", 0))
    running = asyncio.create_task(first.run())
    await first.ready()
    port = int(first.url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(BadValue, match="--metrics-listen"):
        await MetricsListener(exposition, ("127.0.0.1", port)).run()
    first.stop()
    await running
    assert metrics_address("9464") == ("127.0.0.1", 9464) and metrics_address("[::1]:1") == ("::1", 1)
    for text in ("", "x", "host:", "host:99999", "host:-1"):
        with pytest.raises(BadValue, match="HOST:PORT"):
            _ = metrics_address(text)


# The API.


async def test_the_api_shows_metrics_to_viewers_of_the_default_tenant(tmp_path: Path) -> None:
    async with api_in_process(tmp_path) as api:
        metrics = ProcessMetrics()
        access = api.app.access
        api.app = ApiApp(access, lambda request: api.authenticate(request), observer=metrics, metrics=MetricsExposition(metrics, access.store))
        assert (await api("GET", "/api/executions?limit=1")).status == 200
        assert (await api("GET", "/t0k3n?token=t0k3n")).status == 404
        answer = await api("GET", "/metrics")
        assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain")
        assert b'perdure_http_request_seconds_count{method="GET",route="/api/executions",status="200"} 1.0' in answer.body
        assert b'route="(unknown)",status="404"' in answer.body and b"t0k3n" not in answer.body
        opened = await api("GET", "/metrics", accept="application/openmetrics-text; version=1.0.0")
        assert opened.body.endswith(b"# EOF\n") and "openmetrics" in opened.headers["content-type"]
        for caller, status in (
            (Caller("default", "key:a", frozenset(("viewer",))), 200),
            (Caller("acme", "key:b", frozenset(("admin",))), 403),
            (Caller("default", "key:c", frozenset(("operator",))), 403),
            (Caller("default", "key:d", frozenset(("viewer",)), queues=("mails",)), 403),
        ):
            api.caller = caller
            answer = await api("GET", "/metrics")
            assert answer.status == status and b"_shown_metrics" not in answer.body, caller


async def test_an_api_without_metrics_has_no_such_route(tmp_path: Path) -> None:
    async with api_in_process(tmp_path) as api:
        assert (await api("GET", "/metrics")).status == 404
