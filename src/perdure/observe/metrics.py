"""Counts and measures what an observer is told, in plain numbers. `exposition` turns them into Prometheus' text when they are scraped.

A step costs two lookups and a few additions here: the client library of Prometheus takes a lock and several calls for each of them. All methods run on one
event loop; a scrape in another thread copies what it reads.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

from perdure.code.step_environment import StepInfo
from perdure.core import events as e
from perdure.core.execution import Execution
from perdure.core.operations import CallOperation, Outcome, Success
from perdure.observe import metric_table as m
from perdure.runtime.observer import ObservedAttempt, ObservedRequest
from perdure.stores.protocol import Claimed

LABEL_CHARACTERS_MAX = 120

Labels = tuple[str, ...]


class Distribution:
    """The counts of a histogram for one combination of labels. The last count is of values above all buckets."""

    __slots__ = ("_buckets", "counts", "sum")

    def __init__(self, buckets: tuple[float, ...]) -> None:
        self._buckets, self.counts, self.sum = buckets, [0] * (len(buckets) + 1), 0.0

    def observe(self, value: float) -> None:
        """Adds a value."""
        self.counts[bisect_left(self._buckets, value)] += 1
        self.sum += value


class KnownLabels:
    """The values that one label may have: the first `LABELS_MAX`, and `OTHER` for all that come later."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def bounded(self, value: str) -> str:
        """Returns the value, shortened, or `OTHER`."""
        found = self._known.get(value)
        if found is None:
            if len(self._known) >= m.LABELS_MAX:
                return m.OTHER
            found = self._known[value] = value[:LABEL_CHARACTERS_MAX]
        return found


class _StepNumbers:
    """The numbers of one step of one workflow."""

    __slots__ = ("attempts", "begun", "in_flight", "succeeded")

    def __init__(self) -> None:
        self.begun = self.succeeded = self.in_flight = 0
        self.attempts: dict[str, Distribution] = {}


class _MeasuredAttempt:
    __slots__ = ("_began_s", "_numbers")

    def __init__(self, numbers: _StepNumbers) -> None:
        self._numbers, self._began_s = numbers, perf_counter()

    def ended(self, outcome: Outcome | None) -> None:
        """See `ObservedAttempt.ended`."""
        numbers = self._numbers
        numbers.in_flight -= 1
        if type(outcome) is Success:
            numbers.succeeded += 1
            name = "succeeded"
        else:
            name = "cancelled" if outcome is None else outcome.kind  # type: ignore[union-attr]  # mypy does not narrow by `type() is`
        if (found := numbers.attempts.get(name)) is None:
            found = numbers.attempts[name] = Distribution(m.SECONDS)
        found.observe(perf_counter() - self._began_s)


class _MeasuredRequest:
    __slots__ = ("_began_s", "_method", "_metrics")

    def __init__(self, metrics: "ProcessMetrics", method: str) -> None:
        self._metrics, self._method, self._began_s = metrics, method, perf_counter()

    def ended(self, route: str, status: int) -> None:
        """See `ObservedRequest.ended`."""
        self._metrics.observe(m.HTTP_SECONDS, (self._method, route, str(status)), perf_counter() - self._began_s)


class ProcessMetrics:
    """An `Observer` that keeps the metrics of a process."""

    def __init__(self) -> None:
        self.counts: dict[m.Metric, dict[Labels, float]] = {one: {} for one in m.OF_PROCESS if one.type != "histogram"}
        self.distributions: dict[m.Metric, dict[Labels, Distribution]] = {one: {} for one in m.OF_PROCESS if one.type == "histogram"}
        self.steps: dict[tuple[str, str], _StepNumbers] = {}
        self._other_steps = self.steps[m.OTHER, m.OTHER] = _StepNumbers()
        self._workflows, self._errors, self._queues = KnownLabels(), KnownLabels(), KnownLabels()
        self._notes: dict[type[Any], Callable[[Execution, Any], None]] = {
            e.StartedEvent: self._started,
            e.EndedEvent: self._ended,
            e.RetryingEvent: self._retrying,
            e.ParkedEvent: self._parked,
        }

    def add(self, metric: m.Metric, labels: Labels = (), more: float = 1) -> None:
        """Adds to a counter."""
        known = self.counts[metric]
        known[labels] = known.get(labels, 0) + more

    def observe(self, metric: m.Metric, labels: Labels, value: float) -> None:
        """Adds a value to a histogram."""
        known = self.distributions[metric]
        if (found := known.get(labels)) is None:
            found = known[labels] = Distribution(metric.buckets)
        found.observe(value)

    # What the process tells.

    def begin_attempt(self, info: StepInfo, target: str, queue: str) -> ObservedAttempt:
        """See `Observer.begin_attempt`."""
        numbers = self.steps.get((info.execution.workflow, target)) or self._numbers(info.execution.workflow, target)
        numbers.in_flight += 1
        if info.attempt == 1:
            numbers.begun += 1
        return _MeasuredAttempt(numbers)

    def _numbers(self, workflow: str, target: str) -> _StepNumbers:
        if len(self.steps) > m.LABELS_MAX:
            return self._other_steps
        found = self.steps[workflow, target] = _StepNumbers()
        return found

    def decided(self, execution: Execution, events: Sequence[e.Event], waited_s: float) -> None:
        """See `Observer.decided`."""
        for event in events:
            if (note := self._notes.get(type(event))) is not None:
                note(execution, event)
        if waited_s:
            self.observe(m.ENGINE_LAG, (), waited_s)

    def _started(self, execution: Execution, _: e.StartedEvent) -> None:
        self.add(m.EXECUTIONS_STARTED, (self._workflows.bounded(execution.key.workflow),))

    def _ended(self, execution: Execution, event: e.EndedEvent) -> None:
        labels = (self._workflows.bounded(execution.key.workflow), event.status)
        self.add(m.EXECUTIONS_ENDED, labels)
        if execution.started is not None:
            self.observe(m.EXECUTION_SECONDS, labels, max(0.0, event.at_s - execution.started.at_s))

    def _retrying(self, execution: Execution, event: e.RetryingEvent) -> None:
        pending = execution.open.get(event.path)
        target = pending.op.target if pending is not None and isinstance(pending.op, CallOperation) else m.OTHER
        known = (execution.key.workflow, target) in self.steps
        workflow = self._workflows.bounded(execution.key.workflow)
        self.add(m.RETRIES, (workflow, target if known else m.OTHER, self._errors.bounded(event.error.type)))

    def _parked(self, execution: Execution, event: e.ParkedEvent) -> None:
        workflow = self._workflows.bounded(execution.key.workflow)
        self.add(m.PARKED, (workflow, event.reason))
        if event.reason == "diverged":
            self.add(m.COUNTER_DIVERGENCE, (workflow,))

    def claimed(self, claimed: Claimed) -> None:
        """See `Observer.claimed`."""
        if claimed.executions:
            self.add(m.CLAIMED, ("execution",), len(claimed.executions))
            self._waited("", (claimed.now_s - min(one.due_at_s for one in found.messages) for found in claimed.executions if found.messages))
        if claimed.work:
            self.add(m.CLAIMED, ("task",), len(claimed.work))
            by_queue: dict[str, list[float]] = {}
            for one in claimed.work:
                by_queue.setdefault(self._queues.bounded(str(one.to[1])), []).append(claimed.now_s - one.due_at_s)
            for queue, waits_s in by_queue.items():
                self._waited(queue, waits_s)

    def _waited(self, queue: str, waits_s: Iterable[float]) -> None:
        longest_s = 0.0
        for wait_s in waits_s:
            longest_s = max(longest_s, wait_s)
            self.observe(m.HOP_LATENCY, (queue,), max(0.0, wait_s) * 1000)
        self.counts[m.LONGEST_WAIT][queue,] = longest_s

    def committed(self, changes: int, took_s: float) -> None:
        """See `Observer.committed`."""
        self.observe(m.COMMIT_SECONDS, (), took_s)
        self.observe(m.COMMIT_CHANGES, (), changes)

    def store_failed(self) -> None:
        """See `Observer.store_failed`."""
        self.add(m.STORE_ERRORS)

    def lost_lease(self, kind: str) -> None:
        """See `Observer.lost_lease`."""
        self.add(m.LEASES_LOST, (kind,))

    def begin_request(self, method: str, headers: dict[str, str]) -> ObservedRequest:
        """See `Observer.begin_request`."""
        return _MeasuredRequest(self, method)
