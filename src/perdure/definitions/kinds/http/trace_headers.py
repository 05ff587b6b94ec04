"""The headers by which a request belongs to the trace of its step, if the program uses OpenTelemetry."""

import sys

LEFT_OUT = frozenset(("baggage",))
"""What the caller has put into the baggage may be confidential, and the request may go to anybody."""


def trace_headers() -> list[tuple[str, str]]:
    """Returns the headers of the present trace, in the form that is configured (by default ``traceparent`` and ``tracestate``)."""
    if "opentelemetry" not in sys.modules:
        return []
    from opentelemetry import propagate

    headers: dict[str, str] = {}
    propagate.inject(headers)
    return [(name, value) for name, value in headers.items() if name.lower() not in LEFT_OUT]
