"""Carries the context of OpenTelemetry from the start of an execution to its code and steps, so that their spans belong to the trace of the caller.

The propagators that the process has configured write and read it: by default W3C trace context and baggage. Nothing of OpenTelemetry is imported unless the
program has done so.
"""

import sys
from contextvars import ContextVar
from typing import Any

from perdure.code.carried_context import carry_by

CARRIER = "opentelemetry"
"""The name under which the context is recorded."""

in_span_of_step: ContextVar[bool] = ContextVar("perdure_in_span_of_step", default=False)
"""Whether an observer has begun a span for the attempt that runs here. It is in the trace that the execution carries, so nothing is to be restored."""


def _capture() -> dict[str, str] | None:
    if "opentelemetry" not in sys.modules:
        return None
    from opentelemetry import propagate

    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers or None


def _restore(headers: dict[str, str]) -> Any:
    if "opentelemetry" not in sys.modules or in_span_of_step.get():
        return
    from opentelemetry import context, propagate

    context.attach(propagate.extract(headers))


def carry_traces() -> None:
    """Lets executions carry the context of OpenTelemetry. Declaring it again has no effect."""
    carry_by(CARRIER, _capture, _restore, dict[str, str])
