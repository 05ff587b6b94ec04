"""Carries the context of OpenTelemetry from the start of an execution to its code and steps, so that their spans belong to the trace of the caller.

The propagators that the process has configured write and read it: by default W3C trace context and baggage. Nothing of OpenTelemetry is imported unless the
program has done so.
"""

import sys
from typing import Any

from perdure.code.carried_context import carry_by


def _capture() -> dict[str, str] | None:
    if "opentelemetry" not in sys.modules:
        return None
    from opentelemetry import propagate

    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers or None


def _restore(headers: dict[str, str]) -> Any:
    if "opentelemetry" not in sys.modules:
        return
    from opentelemetry import context, propagate

    context.attach(propagate.extract(headers))


def carry_traces() -> None:
    """Lets executions carry the context of OpenTelemetry. Declaring it again has no effect."""
    carry_by("opentelemetry", _capture, _restore, dict[str, str])
