"""Makes spans of OpenTelemetry: one for each execution, each attempt of a step, and each request to the API.

An execution may take days and pass through many processes, and a span has to be begun and ended by one. So the ids of its span are not drawn but follow from
its key: whoever performs a step knows the parent of the step's span at once, and the engine that ends the execution makes the span of the whole, with the
times that are in the log. An execution belongs to the trace of the request that started it, which is recorded with the start (see
`perdure.runtime.trace_context`), and is sampled if that is. One that was started outside of any trace is the root of a trace whose id follows from its key as
well; the sampler of the process is asked, and those that decide by the trace's id, as the usual ones do, decide alike everywhere.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.sdk.trace import Tracer
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from perdure.code.step_environment import StepInfo
from perdure.core import values
from perdure.core.carried import Carried
from perdure.core.events import EndedEvent, Event
from perdure.core.execution import Execution
from perdure.core.operations import Failure, Outcome
from perdure.core.paths import Key, path_text
from perdure.observe.step_spans import StepSpans
from perdure.runtime.observer import ObservedAttempt, ObservedRequest
from perdure.runtime.trace_context import CARRIER, in_span_of_step
from perdure.stores.protocol import Claimed

REMEMBERED_MAX = 4_096
"""Of how many executions the place in their traces is remembered; that of others is found again."""

MESSAGE_CHARACTERS_MAX = 500


class TracePlace:
    """The place of an execution in its trace: its own span, and the context of what that is in (the caller's, or nothing)."""

    __slots__ = ("_key", "_within", "caller", "is_sampled", "own")

    def __init__(self, key: Key, own: SpanContext, caller: OtelContext) -> None:
        self.own, self.caller, self.is_sampled = own, caller, own.trace_flags.sampled
        self._key = key
        self._within: OtelContext | None = None  # made for those that are sampled, which may be few

    @property
    def within(self) -> OtelContext:
        """The context for what is in its span."""
        if self._within is None:
            self._within = trace.set_span_in_context(NonRecordingSpan(self.own), self.caller)
        return self._within

    @property
    def about(self) -> dict[str, Any]:
        """The attributes of all its spans."""
        return {"perdure.tenant": self._key.tenant, "perdure.workflow": self._key.workflow, "perdure.execution": self._key.id}


class _GivenIds(IdGenerator):
    """Gives a span the ids that it is told."""

    def __init__(self, given: SpanContext, drawn: IdGenerator) -> None:
        self._given, self._drawn = given, drawn

    def generate_span_id(self) -> int:
        return self._given.span_id

    def generate_trace_id(self) -> int:
        return self._given.trace_id

    def is_trace_id_random(self) -> bool:
        return self._drawn.is_trace_id_random()  # asked only by versions of the SDK whose generators have it


class _TracedAttempt:
    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def ended(self, outcome: Outcome | None) -> None:
        """See `ObservedAttempt.ended`."""
        self._span.set_attribute("perdure.outcome", "cancelled" if outcome is None else outcome.kind if isinstance(outcome, Failure) else "succeeded")
        if isinstance(outcome, Failure):
            _record_failure(self._span, outcome)
        self._span.end()


class _TracedRequest:
    __slots__ = ("_method", "_span", "_token")

    def __init__(self, span: Span, method: str) -> None:
        self._span, self._method = span, method
        self._token = otel_context.attach(trace.set_span_in_context(span))

    def ended(self, route: str, status: int) -> None:
        """See `ObservedRequest.ended`."""
        otel_context.detach(self._token)
        if self._span.is_recording():
            self._span.update_name(f"{self._method} {route}")
            self._span.set_attributes({"http.route": route, "http.response.status_code": status})
            if status >= 500:
                self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class TraceObserver:
    """An `Observer` that makes spans with a tracer of OpenTelemetry's SDK, which it has for itself: it sets the ids of some of its spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._drawn = tracer.id_generator
        self._step_spans = StepSpans(tracer)
        self._places: dict[Key, TracePlace] = {}

    def place_of(self, key: Key, carried: Carried) -> TracePlace:
        """Returns the place of an execution in its trace: the same in every process."""
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = self._found_place(key, carried)
            if len(self._places) > REMEMBERED_MAX:
                del self._places[next(iter(self._places))]
        return found

    def _found_place(self, key: Key, carried: Carried) -> TracePlace:
        digest = sha256("\0".join(key).encode(errors="surrogatepass")).digest()
        span_id = int.from_bytes(digest[:8], "big") or 1
        headers = next((values.decode(raw, dict[str, str], "the context of OpenTelemetry") for name, raw in carried if name == CARRIER), None)
        caller = propagate.extract(headers, otel_context.Context()) if headers else otel_context.Context()
        above = trace.get_current_span(caller).get_span_context()
        if above.is_valid:
            return TracePlace(key, SpanContext(above.trace_id, span_id, True, above.trace_flags, above.trace_state), caller)
        trace_id = int.from_bytes(digest[8:24], "big") or 1
        decision = self._tracer.sampler.should_sample(None, trace_id, _execution_name(key), SpanKind.INTERNAL, {}).decision
        flags = TraceFlags(TraceFlags.DEFAULT if decision is Decision.DROP else TraceFlags.SAMPLED)
        return TracePlace(key, SpanContext(trace_id, span_id, True, flags), caller)

    # What the process tells.

    def begin_attempt(self, info: StepInfo, target: str, queue: str) -> ObservedAttempt | None:
        """See `Observer.begin_attempt`. The span is that of the present context from here on, so that spans within the step are in it."""
        place = self.place_of(info.execution, info.carried)
        if not place.is_sampled:
            return None
        about = {"perdure.step": path_text(info.path), "perdure.attempt": info.attempt, **place.about}
        if queue:
            about["perdure.queue"] = queue
        span = self._step_spans.start(f"step {target}", place.within, place.own, SpanKind.CONSUMER if queue else SpanKind.INTERNAL, about)
        _ = otel_context.attach(trace.set_span_in_context(span, place.caller))  # the context ends with the attempt
        in_span_of_step.set(True)
        return _TracedAttempt(span)

    def decided(self, execution: Execution, events: Sequence[Event], waited_s: float) -> None:
        """See `Observer.decided`. The span of an execution is made when it has ended."""
        for event in events:
            if type(event) is EndedEvent:
                self._end_execution(execution, event)

    def _end_execution(self, execution: Execution, ended: EndedEvent) -> None:
        started, key = execution.started, execution.key
        place = self.place_of(key, execution.carried)
        if not place.is_sampled or started is None:
            return
        parent = None if started.parent is None else self.place_of(started.parent.key, execution.carried)
        within, links = place.caller, []
        if parent is not None and parent.own.trace_id == place.own.trace_id:
            within = parent.within
        elif parent is not None:
            links.append(Link(parent.own))
        about = {"perdure.status": ended.status, "perdure.workflow_version": started.version, **place.about}
        if execution.reopened:  # its first end has the span by which all is connected; each later one is linked to that
            links.append(Link(place.own))
            about["perdure.reopened"] = execution.reopened
        else:
            self._tracer.id_generator = _GivenIds(place.own, self._drawn)
        try:
            span = self._tracer.start_span(_execution_name(key), within, SpanKind.INTERNAL, about, links, _nanoseconds(started.at_s))
        finally:
            self._tracer.id_generator = self._drawn
        if isinstance(ended.outcome, Failure):
            _record_failure(span, ended.outcome, _nanoseconds(ended.at_s))
        span.end(_nanoseconds(max(ended.at_s, started.at_s)))

    def begin_request(self, method: str, headers: dict[str, str]) -> ObservedRequest:
        """See `Observer.begin_request`. The request is in the trace that its headers name, if they name one."""
        return _TracedRequest(self._tracer.start_span(method, propagate.extract(headers), SpanKind.SERVER, {"http.request.method": method}), method)

    def claimed(self, claimed: Claimed) -> None:
        """See `Observer.claimed`. There is no span of it."""

    def committed(self, changes: int, took_s: float) -> None:
        """See `Observer.committed`. There is no span of it."""

    def store_failed(self) -> None:
        """See `Observer.store_failed`. There is no span of it."""

    def lost_lease(self, kind: str) -> None:
        """See `Observer.lost_lease`. There is no span of it."""


def _execution_name(key: Key) -> str:
    return f"execution {key.workflow}"


def _record_failure(span: Span, failure: Failure, at_ns: int | None = None) -> None:
    """Records an error, whose secrets are masked by now, as OpenTelemetry has them: an event, and the status of the span."""
    error, message = failure.error, failure.error.message[:MESSAGE_CHARACTERS_MAX]
    span.add_event("exception", {"exception.type": error.type, "exception.message": message, "exception.stacktrace": error.traceback}, at_ns)
    span.set_status(Status(StatusCode.ERROR, f"{error.type}: {message}"))


def _nanoseconds(at_s: float) -> int:
    return int(at_s * 1e9)
