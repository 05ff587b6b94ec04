"""A step for `perdure worker --otel` in another process, whose spans go to a file, as lines of JSON."""

import os
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from perdure import Context, step, workflow


class FileExporter(SpanExporter):
    """Writes each span as a line."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with Path(os.environ["SPANS"]).open("a") as file:
            file.writelines(f"{span.to_json(indent=None)}\n" for span in spans)
        return SpanExportResult.SUCCESS


if "SPANS" in os.environ:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(FileExporter()))
    trace.set_tracer_provider(provider)


@step(queue="far")
async def far(number: int) -> int:
    """A step with a span of its own."""
    with trace.get_tracer("shop").start_as_current_span("within the step"):
        return number + 1


@workflow
async def unused(ctx: Context) -> None:
    """A worker has to know a workflow."""
