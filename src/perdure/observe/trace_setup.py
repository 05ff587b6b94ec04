"""Sets up the SDK of OpenTelemetry for a command, as its own variables of the environment say, and makes the observer of traces."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perdure.core.errors import BadValue, MissingExtra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from perdure.observe.traces import TraceObserver

SERVICE_NAME = "perdure"
"""The name of the service in its traces, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES name it."""


def set_up_traces() -> TraceObserver:
    """Returns an observer that sends spans where the environment says. A provider that the loaded code has set up is used as it is.

    Raises:
        MissingExtra: the SDK is not installed.
        BadValue: the environment names an exporter or a protocol that is not there.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError as missing:
        raise MissingExtra("traces", missing.name or "opentelemetry.sdk", "otel") from missing
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(_provider())
    return trace_observer()


def trace_observer() -> TraceObserver:
    """Returns an observer that makes spans with the provider that this process has set up.

    Raises:
        MissingExtra: the SDK is not installed.
        BadValue: the process has set up no provider, or one that is not of the SDK.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import Tracer

        from perdure.observe.traces import TraceObserver
    except ImportError as missing:
        raise MissingExtra("traces", missing.name or "opentelemetry.sdk", "otel") from missing
    tracer = trace.get_tracer_provider().get_tracer("perdure")
    if not isinstance(tracer, Tracer):
        raise BadValue("the tracer provider", type(trace.get_tracer_provider()).__name__, "one of OpenTelemetry's SDK; call trace.set_tracer_provider first")
    return TraceObserver(tracer)


def _provider() -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if named else {"service.name": SERVICE_NAME}))
    if (exporter := _exporter(os.environ.get("OTEL_TRACES_EXPORTER", "otlp"))) is not None:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporter(name: str) -> SpanExporter | None:
    match name.strip().lower():
        case "none":
            return None
        case "console":
            from opentelemetry.sdk.trace.export import ConsoleSpanExporter

            return ConsoleSpanExporter()
        case "otlp":
            protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
            if protocol != "http/protobuf":
                raise BadValue("OTEL_EXPORTER_OTLP_PROTOCOL", protocol, "http/protobuf; set up another one in code, with trace.set_tracer_provider")
            try:
                from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            except ImportError as missing:
                raise MissingExtra("traces", missing.name or "opentelemetry.exporter", "otel") from missing
            return OTLPSpanExporter()
    raise BadValue("OTEL_TRACES_EXPORTER", name, "otlp, console or none; set up another one in code, with trace.set_tracer_provider")
