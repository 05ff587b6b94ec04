"""What it costs to observe an engine: 1,000 executions of 10 steps each, with nothing, with logs and metrics, and with traces.

All ways take turns in one run, on one kind of store, and the result is the median of their ratios to the way with nothing in the same turn. The last line is
what one bare span of OpenTelemetry costs here, by which the cost of tracing everything is judged: a step has one.

Times are those of the processor, of all threads: waits for the disk, and for other programs on the machine, are not part of the cost.
"""

import asyncio
import gc
import io
import itertools
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased

from perdure import Context, step, workflow
from perdure.core.paths import Key
from perdure.observe.json_logs import JsonLogFormatter
from perdure.observe.metrics import ProcessMetrics
from perdure.observe.traces import TraceObserver
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import begin_engine
from perdure.runtime.observer import Observer
from perdure.runtime.workflow_programs import encode_input
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Store
from perdure.stores.sqlite.store import SqliteStore

EXECUTIONS, STEPS, ROUNDS = (200, 10, 8) if "--quick" in sys.argv else (1_000, 10, 8)
SPANS = 20_000

logger = logging.getLogger("perdure")


@step
async def increment(number: int) -> int:
    """The smallest step there is."""
    return number + 1


@workflow
async def count(ctx: Context, steps: int) -> int:
    """So many steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(increment, number)
    return number


class Dropped(SpanProcessor):
    """Takes spans as an exporter in the background does, and drops them."""

    def __init__(self) -> None:
        self.ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Counts a span."""
        self.ended += 1


def traces(sampler: Sampler) -> TraceObserver:
    """An observer of traces with a sampler."""
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(Dropped())
    return TraceObserver(provider.get_tracer("perdure"))  # type: ignore[arg-type]  # the SDK's own


WAYS: dict[str, Callable[[], Observer | None]] = {
    "nothing": lambda: None,
    "logs and metrics": ProcessMetrics,
    "traces of 1 %": lambda: traces(ParentBased(TraceIdRatioBased(0.01))),
    "traces of 100 %": lambda: traces(ParentBased(ALWAYS_ON)),
}


async def seconds(store: Store, observer: Observer | None) -> float:
    """How much time of the processor all executions take."""
    engine, given = Engine(store, [count.code], observer=observer), encode_input(count.code, (STEPS,), {}, "run")
    running = await begin_engine(engine)
    gc.collect()
    began_s = time.process_time()
    keys = [Key("default", "count", str(number)) for number in range(EXECUTIONS)]
    ended = [engine.ending(key) for key in keys]
    _ = await asyncio.gather(*(engine.start(key, given) for key in keys))
    _ = await asyncio.gather(*ended)
    took_s = time.process_time() - began_s
    engine.stop()
    await running
    return took_s


def span_s() -> float:
    """What one span costs: begun with the attributes of a step, made the present one, ended."""
    from opentelemetry import trace

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Dropped())
    tracer = provider.get_tracer("bare")
    about: Any = {"perdure.step": "increment", "perdure.attempt": 1, "perdure.tenant": "default", "perdure.workflow": "count", "perdure.execution": "1"}
    times = []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        for _ in range(SPANS):
            span = tracer.start_span("step increment", None, attributes=about)
            with trace.use_span(span, end_on_exit=True):
                span.set_attribute("perdure.outcome", "succeeded")
        times.append((time.process_time() - began_s) / SPANS)
    return statistics.median(times)


def measure(kind: str, directory: Path) -> tuple[dict[str, list[float]], list[float]]:
    """The times of each way, in turns."""
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    spans: list[float] = []
    for turn in range(ROUNDS + 1):
        for way in itertools.islice(itertools.cycle(WAYS), turn % len(WAYS), turn % len(WAYS) + len(WAYS)):  # each comes first as often as another
            store: Store = MemoryStore() if kind == "memory" else SqliteStore(directory / f"{turn} {way}.db")
            handler = logging.StreamHandler(io.StringIO())
            handler.setFormatter(JsonLogFormatter())
            if way == "logs and metrics":
                logger.addHandler(handler)
                logger.setLevel(logging.INFO)
            took_s = asyncio.run(seconds(store, WAYS[way]()))
            logger.removeHandler(handler)
            asyncio.run(store.close())
            if turn:  # the first is to warm up
                times[way].append(took_s)
        spans.append(span_s())
    return times, spans


def main() -> None:
    """Print the costs."""
    for kind in ("memory", "SQLite"):
        with tempfile.TemporaryDirectory() as place:
            times, spans = measure(kind, Path(place))
        steps = EXECUTIONS * STEPS
        print(f"{kind}: {EXECUTIONS:,} executions of {STEPS} steps, median of {ROUNDS} turns")
        bare_us = statistics.median(spans) * 1e6
        for way, taken in times.items():
            ratio = statistics.median(one / base for one, base in zip(taken, times["nothing"], strict=True))
            more_us = statistics.median(one - base for one, base in zip(taken, times["nothing"], strict=True)) / steps * 1e6
            print(f"  {way:<18}{statistics.median(taken) / steps * 1e6:7.1f} us a step  {ratio:5.2f} x  {more_us:+6.1f} us")
        hundred = statistics.median(one - base for one, base in zip(times["traces of 100 %"], times["nothing"], strict=True)) / steps * 1e6
        print(f"  one span alone    {bare_us:7.1f} us; a step with a span costs {hundred / bare_us:.2f} x that more (with a span of each execution)")


if __name__ == "__main__":
    main()
