"""Makes the spans of steps, which are equal to those of the tracer of OpenTelemetry's SDK, with less work than it takes.

Most of the twenty fields of a span of the SDK have the same value in all spans of a tracer. They are taken once, from spans that the tracer has made, and
become attributes of a class, so that a span sets only its own. What the SDK does with a span that has started is not replaced.

The tracer makes the span itself wherever the result might differ: with samplers that users have written, or that do not surely sample a step of a sampled
execution; with limits that the first attributes of a step may reach; where the SDK counts its spans; and with versions of the SDK that make spans otherwise.
"""

from collections.abc import Callable
from copy import copy
from threading import Lock
from typing import Any

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context as OtelContext
from opentelemetry.sdk.trace import Span, SpanProcessor, Tracer
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, ParentBasedTraceIdRatio, Sampler
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags

ATTRIBUTES_MAX = 8
"""How many attributes the span of a step begins with, at most."""

DIFFERENT = {"_attributes", "_context", "_events", "_links", "_lock", "_start_time"}
"""The fields whose values differ in any two spans, even if they are begun alike."""

ALIKE = {"_end_time", "_kind", "_limits", "_name", "_parent", "_resource", "_sampler", "_span_processor", "_status"}
"""The fields that are known to have the same value in two spans that are begun alike. A version of the SDK may have more."""

EVERY_FLAG = SpanContext(1, 1, True, TraceFlags(0xFF))
SAMPLED_ONLY = SpanContext(1, 1, True, TraceFlags(TraceFlags.SAMPLED))
"""Parents of the spans that are made to learn the fields, and which trace flags a span has from its parent."""


class _ListOnUse:
    """A field of a span that is a list, which is made when something is added to it."""

    def __init__(self, name: str, make: Callable[[Any], Any]) -> None:
        self._name, self._make = name, make

    def __get__(self, span: Any, _: type[Any]) -> Any:
        if span._end_time is not None:  # nothing has been added, and nothing can be any more
            return ()
        return vars(span).setdefault(self._name, self._make(span))  # one list, even if two threads of the step come here at once


class _StepSpan(Span):
    """A span of the SDK without lists of events and links as long as there are none, as in most steps."""

    _events: Any = _ListOnUse("_events", lambda span: span._new_events())
    _links: Any = _ListOnUse("_links", lambda span: span._new_links(()))


class StepSpans:
    """Starts the spans of steps for a tracer."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._flags = 0  # those that a span has from its parent
        self._span_class: Any = None
        if _samples_every_child(tracer.sampler) and not _counts_spans(tracer):
            self._learn_fields()

    def _learn_fields(self) -> None:
        """Has a copy of the tracer make spans, of which no sampler, processor or id generator of users learns, and takes from them what all have alike."""
        tracer: Any = copy(self._tracer)
        tracer.sampler, tracer.span_processor, tracer.id_generator = ALWAYS_ON, SpanProcessor(), RandomIdGenerator()
        one, other, in_plain = (tracer.start_span("sample", _child_of(parent), attributes={"sample": 1}) for parent in (EVERY_FLAG, EVERY_FLAG, SAMPLED_ONLY))
        fields = vars(one)
        alike = {name: value for name, value in fields.items() if value is vars(other).get(name)}
        has_flags_of_parent = in_plain.get_span_context().trace_flags == TraceFlags.SAMPLED
        has_known_fields = fields.keys() - alike.keys() == DIFFERENT and alike.keys() >= ALIKE
        if has_flags_of_parent and has_known_fields and _keeps_attributes(fields["_attributes"], fields["_limits"]):
            own = {"_sampler": self._tracer.sampler, "_span_processor": self._tracer.span_processor, "_start_time": None, "_record_end_metrics": None}
            self._flags = one.get_span_context().trace_flags
            self._span_class = type("_StepSpan", (_StepSpan,), alike | own)

    def start(self, name: str, within: OtelContext, parent: SpanContext, kind: SpanKind, attributes: dict[str, Any]) -> trace.Span:
        """Returns a span that has started, as `Tracer.start_span` does.

        `parent` is the span of the context `within`: that of an execution, sampled, and remote. `attributes` are texts and numbers, at most `ATTRIBUTES_MAX`;
        the dict becomes the span's own.
        """
        tracer, span_class = self._tracer, self._span_class
        if span_class is None or not tracer._is_enabled():
            return tracer.start_span(name, within, kind, attributes)
        span = span_class.__new__(span_class)
        limits, flags = span._limits, TraceFlags(parent.trace_flags & self._flags)
        span._name, span._parent, span._kind, span._lock = name, parent, kind, Lock()
        span._context = SpanContext(parent.trace_id, tracer.id_generator.generate_span_id(), False, flags, parent.trace_state)
        span._resource = tracer.resource  # the SDK replaces it after a fork
        span._attributes = BoundedAttributes(limits.max_span_attributes, immutable=False, max_value_len=limits.max_span_attribute_length)
        span._attributes._dict = attributes
        span.start(parent_context=within)
        started: trace.Span = span
        return started


def _child_of(parent: SpanContext) -> OtelContext:
    return trace.set_span_in_context(NonRecordingSpan(parent), OtelContext())


def _samples_every_child(sampler: Sampler) -> bool:
    """Whether this is a sampler of the SDK that samples every span whose parent is sampled and remote, and adds nothing to it."""
    if type(sampler) in {ParentBased, ParentBasedTraceIdRatio}:
        return getattr(sampler, "_remote_parent_sampled", None) is ALWAYS_ON
    return sampler is ALWAYS_ON


def _counts_spans(tracer: Tracer) -> bool:
    """Whether the SDK has metrics of its spans, or is so old that it does not say."""
    return type(tracer) is not Tracer or type(getattr(tracer, "_tracer_metrics", None)).__name__ != "NoOpTracerMetrics"


def _keeps_attributes(attributes: Any, limits: Any) -> bool:
    """Whether a span with such limits keeps all attributes that a step begins with, as they are, in a dict."""
    kept = getattr(attributes, "_dict", None)
    is_wide = limits.max_span_attributes is None or limits.max_span_attributes >= ATTRIBUTES_MAX
    return type(kept) is dict and kept == {"sample": 1} and is_wide and limits.max_span_attribute_length is None
