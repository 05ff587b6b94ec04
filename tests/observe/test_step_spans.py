"""Claims about the spans of steps: field by field they are those that the tracer of the SDK makes, whatever samplers, limits, processors and steps do."""

import contextvars
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk import trace as sdk_trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState

from perdure.code.step_environment import StepInfo
from perdure.core import values
from perdure.core.errors import ErrorInfo
from perdure.core.operations import Failure, Outcome, Success
from perdure.core.paths import Key, parse_path
from perdure.observe.traces import TraceObserver
from perdure.runtime.trace_context import CARRIER

CALLER = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03", "tracestate": "shop=1"}
CARRIED = ((CARRIER, values.encode(CALLER, "the context")),)
DONE = Success(b"1")
FAILED = Failure("error", 1, ErrorInfo("OSError", "broken", "Traceback"))


class Counted(IdGenerator):
    """An id generator of users: it counts."""

    def __init__(self) -> None:
        self._next = itertools.count(1)

    def generate_span_id(self) -> int:
        return next(self._next)

    def generate_trace_id(self) -> int:
        return next(self._next)


class Seen(SpanProcessor):
    """A span processor of users: it reads each span at its start, may change it, and keeps what has ended."""

    def __init__(self, change: Callable[[Any], None] | None = None) -> None:
        self.change = change
        self.started: list[dict[str, Any]] = []
        self.ended: list[dict[str, Any]] = []

    def on_start(self, span: Any, parent_context: context.Context | None = None) -> None:
        """Reads the span, also as exporters of unfinished spans do, and changes it."""
        assert span.start_time is not None and span.end_time is None and span.is_recording()
        self.started.append(fields(span) | fields(span._readable_span()) | {"above": trace.get_current_span(parent_context).get_span_context()})
        if self.change is not None:
            self.change(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Keeps the span."""
        assert span.start_time is not None and span.end_time is not None and span.start_time <= span.end_time
        self.ended.append(fields(span))


class Asked(Sampler):
    """A sampler of users, which adds to the attributes and the trace state, and remembers what it is asked."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision
        self.asked: list[Any] = []

    def should_sample(
        self,
        parent_context: context.Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Any = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decides always alike."""
        above = trace.get_current_span(parent_context).get_span_context()
        self.asked.append((above, trace_id, name, kind, dict(attributes or {}), links, trace_state))
        return SamplingResult(self._decision, {**(attributes or {}), "sampled.by": ["me"]}, TraceState([("sampler", "me")]))

    def get_description(self) -> str:
        """Names it."""
        return "Asked"


def state(given: SpanContext | None) -> Any:
    return None if given is None else (*given[:4], list(given.trace_state.items()), given.is_valid)


def fields(span: ReadableSpan) -> dict[str, Any]:
    """What a span has, but for its times."""
    return {
        "name": span.name,
        "context": state(span.context),
        "parent": state(span.parent),
        "kind": span.kind,
        "attributes": list((span.attributes or {}).items()),
        "status": (span.status.status_code, span.status.description),
        "events": [(one.name, dict(one.attributes or {})) for one in span.events],
        "links": [(state(one.context), dict(one.attributes or {})) for one in span.links],
        "dropped": (span.dropped_attributes, span.dropped_events, span.dropped_links),
        "resource": span.resource,
        "scope": span.instrumentation_scope,
    }


def nothing() -> None:
    """A step that does not know of spans."""


def uses_its_span() -> None:
    span = trace.get_current_span()
    span.update_name("renamed")
    span.set_attributes({"mine": 1, "perdure.attempt": 7})
    span.add_event("first", {"at": 1})
    span.add_event("second")
    span.add_link(SpanContext(1, 2, True, TraceFlags(1)), {"why": "x" * 20})
    span.record_exception(ValueError("handled"))
    span.set_status(StatusCode.ERROR, "said by the step")


def ends_its_span() -> None:
    trace.get_current_span().end()


def attempts_of(
    provider: Mapping[str, Any], change: Callable[[Any], None] | None, carried: Any, body: Callable[[], None], outcome: Outcome | None, like_sdk: bool
) -> Any:
    """Runs two attempts with a provider of its own; returns the spans at their start and end, and whether they are made faster than by the tracer."""
    seen = Seen(change)
    made = TracerProvider(**{"id_generator": Counted(), "resource": Resource({"service.name": "shop"}), **provider}, shutdown_on_exit=False)
    made.add_span_processor(seen)
    tracer = made.get_tracer("perdure", "1", "https://example.org", {"scope": "mine"})
    observer = TraceObserver(tracer)  # type: ignore[arg-type]  # the SDK's own
    is_fast = observer._step_spans._span_class is not None
    if like_sdk:
        observer._step_spans._span_class = None

    def attempt(queue: str) -> None:
        observed = observer.begin_attempt(StepInfo(Key("default", "w", "w1"), parse_path("a/~1/b#2"), 1, carried=carried), "b", queue)
        body()
        tracer.start_span("child").end()
        if observed is not None:  # an attempt that is not sampled is not observed
            observed.ended(outcome)

    for queue in ("", "far"):
        contextvars.copy_context().run(attempt, queue)
    return (seen.started, seen.ended), is_fast


def compared(
    provider: Callable[[], Mapping[str, Any]],
    *,
    is_fast: bool,
    change: Callable[[Any], None] | None = None,
    carried: Any = CARRIED,
    body: Callable[[], None] = nothing,
    outcome: Outcome | None = DONE,
) -> list[dict[str, Any]]:
    """Compares the spans with those of the tracer; returns them at their end."""
    ours, was_fast = attempts_of(provider(), change, carried, body, outcome, like_sdk=False)
    theirs, _ = attempts_of(provider(), change, carried, body, outcome, like_sdk=True)
    assert ours == theirs and was_fast == is_fast
    ended: list[dict[str, Any]] = ours[1]
    return ended


@pytest.mark.parametrize("carried", [(), CARRIED], ids=["root", "traced"])
@pytest.mark.parametrize("sampler", [None, ALWAYS_ON, ParentBased(TraceIdRatioBased(1.0))], ids=["default", "all", "ratio"])
def test_a_step_of_a_sampled_execution(sampler: Sampler | None, carried: Any) -> None:
    ended = compared(lambda: {"sampler": sampler}, is_fast=True, carried=carried)
    assert [one["name"] for one in ended] == ["child", "step b", "child", "step b"]
    assert [one["kind"] for one in ended] == [SpanKind.INTERNAL, SpanKind.INTERNAL, SpanKind.INTERNAL, SpanKind.CONSUMER]


@pytest.mark.parametrize(
    ("sampler", "names"),
    [(ALWAYS_OFF, []), (TraceIdRatioBased(0.0), []), (TraceIdRatioBased(1.0), 2 * ["child", "step b"]), (ParentBased(ALWAYS_ON, ALWAYS_OFF), [])],
    ids=["off", "no ratio", "ratio", "not of remote parents"],
)
def test_samplers_that_do_not_surely_sample_are_asked_by_the_tracer(sampler: Sampler, names: list[str]) -> None:
    assert [one["name"] for one in compared(lambda: {"sampler": sampler}, is_fast=False)] == names


@pytest.mark.parametrize("decision", list(Decision))
@pytest.mark.parametrize("is_delegate", [False, True])
def test_samplers_of_users_are_asked_what_they_were_asked_and_add_what_they_did(decision: Decision, is_delegate: bool) -> None:
    samplers: list[Asked] = []

    def provider() -> dict[str, Any]:
        samplers.append(Asked(decision))
        return {"sampler": ParentBased(ALWAYS_ON, remote_parent_sampled=samplers[-1]) if is_delegate else samplers[-1]}

    steps = [one for one in compared(provider, is_fast=False) if one["name"] == "step b"]
    assert samplers[0].asked == samplers[1].asked and len([one for one in samplers[0].asked if one[2] == "step b"]) == 2
    assert all(("sampled.by", ("me",)) in one["attributes"] and one["context"][4] == [("sampler", "me")] for one in steps)
    assert len(steps) == (0 if decision is Decision.DROP else 2)


@pytest.mark.parametrize(
    ("limits", "is_fast"),
    [
        ({"max_span_attributes": 3}, False),
        ({"max_span_attributes": 0}, False),
        ({"max_attribute_length": 4}, False),
        ({"max_span_attribute_length": 4}, False),
        ({"max_span_attributes": 8}, True),
        ({"max_attributes": SpanLimits.UNSET, "max_span_attributes": SpanLimits.UNSET}, True),
        ({"max_events": 1, "max_links": 0, "max_event_attributes": 0, "max_link_attributes": 0}, True),
        ({"max_events": 0}, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("outcome", [DONE, FAILED], ids=["success", "failure"])
def test_the_limits_of_spans_hold(limits: dict[str, int], is_fast: bool, outcome: Outcome) -> None:
    _ = compared(lambda: {"span_limits": SpanLimits(**limits)}, is_fast=is_fast, body=uses_its_span, outcome=outcome)


@pytest.mark.parametrize(("variable", "is_fast"), [("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", False), ("OTEL_SPAN_EVENT_COUNT_LIMIT", True)])
def test_the_limits_of_the_environment_hold(monkeypatch: pytest.MonkeyPatch, variable: str, is_fast: bool) -> None:
    monkeypatch.setenv(variable, "2")
    for one in compared(dict, is_fast=is_fast, body=uses_its_span, outcome=FAILED):
        assert one["name"] == "child" or any(one["dropped"])


def test_a_processor_may_change_a_span_that_starts() -> None:
    def change(span: Any) -> None:
        span.set_attribute("tenant", "t1")
        span.set_attribute("perdure.step", "hidden")
        span.add_event("started")

    ended = compared(dict, is_fast=True, change=change)
    assert all(dict(one["attributes"])["tenant"] == "t1" and one["events"] == [("started", {})] for one in ended)


@pytest.mark.parametrize("outcome", [DONE, FAILED, None], ids=["success", "failure", "cancelled"])
@pytest.mark.parametrize("body", [nothing, uses_its_span, ends_its_span])
def test_steps_use_their_span_and_end_in_each_way(body: Callable[[], None], outcome: Outcome | None) -> None:
    ended = [one for one in compared(dict, is_fast=True, body=body, outcome=outcome) if one["name"] != "child"]
    assert len(ended) == 2
    if body is not ends_its_span:
        assert {dict(one["attributes"])["perdure.outcome"] for one in ended} == {
            "cancelled" if outcome is None else "error" if outcome is FAILED else "succeeded"
        }


def ended(observer: TraceObserver) -> None:
    """Has an attempt begin and end."""
    observed = observer.begin_attempt(StepInfo(Key("default", "w", "w1"), parse_path("a"), 1), "a", "")
    assert observed is not None, "it is sampled"
    observed.ended(None)


def test_a_disabled_tracer_makes_spans_that_record_nothing() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    observer = TraceObserver(provider.get_tracer("perdure"))  # type: ignore[arg-type]  # the SDK's own
    observer._tracer._tracer_config.is_enabled = False
    observed: list[Any] = []

    def attempt() -> None:
        ended(observer)
        observed.append(trace.get_current_span())

    contextvars.copy_context().run(attempt)
    assert isinstance(observed[0], NonRecordingSpan)


@pytest.mark.parametrize("value", [object, int], ids=["one more field for each span", "one more field"])
def test_a_version_of_the_sdk_with_other_spans_makes_them_itself_unless_the_field_is_alike(monkeypatch: pytest.MonkeyPatch, value: Callable[[], Any]) -> None:
    made = sdk_trace.Span.__init__

    def with_field(span: Any, *args: Any, **given: Any) -> None:
        made(span, *args, **given)
        span._more = value()

    monkeypatch.setattr(sdk_trace.Span, "__init__", with_field)
    _ = compared(dict, is_fast=value is int)


def test_the_spans_that_the_sdk_counts_are_made_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    _ = compared(dict, is_fast=False)


def test_a_span_has_the_resource_that_its_tracer_has_now() -> None:
    provider, seen = TracerProvider(resource=Resource({"a": "1"}), shutdown_on_exit=False), Seen()
    provider.add_span_processor(seen)
    observer = TraceObserver(provider.get_tracer("perdure"))  # type: ignore[arg-type]  # the SDK's own
    observer._tracer.resource = Resource({"b": "2"})
    contextvars.copy_context().run(lambda: ended(observer))
    assert dict(seen.ended[0]["resource"].attributes) == {"b": "2"}
