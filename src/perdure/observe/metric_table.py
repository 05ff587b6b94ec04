"""All metrics: the name, type, help and labels of each, and the buckets of histograms.

Label values are bounded: an id of an execution is never one, and after `LABELS_MAX` names of workflows, steps or queues all others are counted together as
`OTHER`. A gauge that is read from the database is counted to `COUNT_MAX` and not further.
"""

from typing import Literal, NamedTuple

LABELS_MAX = 500
OTHER = "(other)"

COUNT_MAX = 1_000

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0)
LONG_SECONDS = (0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0)
HOP_MILLISECONDS = (10.0, 50.0, 100.0, 500.0, 1_000.0, 5_000.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


class Metric(NamedTuple):
    """A metric: its name, without the suffix of a counter; its help, which begins with what it counts or measures; and its labels."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which it is scraped."""
        match self.type:
            case "counter":
                return (f"{self.name}_total",)
            case "histogram":
                return (f"{self.name}_bucket", f"{self.name}_count", f"{self.name}_sum")
        return (self.name,)


EXECUTIONS_STARTED = Metric("perdure_executions_started", "counter", "Executions that an engine of this process has begun.", ("workflow",))
EXECUTIONS_ENDED = Metric("perdure_executions_ended", "counter", "Executions that have ended in an engine of this process.", ("workflow", "status"))
EXECUTION_SECONDS = Metric(
    "perdure_execution_seconds", "histogram", "Time from the beginning of an execution to its end, waits included.", ("workflow", "status"), LONG_SECONDS
)
PARKED = Metric("perdure_executions_parked", "counter", "Executions that stopped until a person decides, or that were paused.", ("workflow", "reason"))
ATTEMPT_SECONDS = Metric("perdure_attempt_seconds", "histogram", "Duration of an attempt of a step, by how it ended.", ("workflow", "step", "outcome"), SECONDS)
TOKENS_CONSUMED = Metric("workflow_tokens_consumed", "counter", "Steps whose first attempt has begun in this process.", ("workflow", "node_id"))
TOKENS_EMITTED = Metric(
    "workflow_tokens_emitted", "counter", "Steps that have succeeded in this process, so that what follows goes on.", ("workflow", "node_id")
)
COUNTER_VALUE = Metric("workflow_counter_value", "gauge", "Attempts of steps in flight in this process.", ("workflow",))
RETRIES = Metric("workflow_retries", "counter", "Attempts that failed and are made again.", ("workflow", "node_id", "error_type"))
HOP_LATENCY = Metric(
    "workflow_hop_latency_ms",
    "histogram",
    "Time from when a message (queue empty) or a task was due until this process claimed it.",
    ("queue",),
    HOP_MILLISECONDS,
)
COUNTER_DIVERGENCE = Metric(
    "workflow_counter_divergence", "gauge", "Executions that this process has parked because their log and their code differ.", ("workflow",)
)
LONGEST_WAIT = Metric(
    "perdure_longest_wait_seconds", "gauge", "Longest time that a task (or, queue empty, a message) of the last claim had been due.", ("queue",)
)
ENGINE_LAG = Metric("perdure_engine_lag_seconds", "histogram", "Time from the claim of an execution until the decision on it was durable.", (), SECONDS)
COMMIT_SECONDS = Metric("perdure_store_commit_seconds", "histogram", "Duration of a commit of the store.", (), SECONDS)
COMMIT_CHANGES = Metric("perdure_store_commit_changes", "histogram", "Changes that were committed together.", (), SIZES)
STORE_ERRORS = Metric("perdure_store_errors", "counter", "Commits and claims that failed.")
CLAIMED = Metric("perdure_claimed", "counter", "Executions and tasks that this process has claimed.", ("what",))
LEASES_LOST = Metric("perdure_leases_lost", "counter", "Times that an engine or worker of this process lost all that it held.", ("kind",))
HTTP_SECONDS = Metric(
    "perdure_http_request_seconds", "histogram", "Duration of a request to the API, streams included.", ("method", "route", "status"), SECONDS
)

EXECUTIONS = Metric("perdure_executions", "gauge", f"Executions in the database by status, counted to {COUNT_MAX}.", ("status",))
DEAD_LETTERS = Metric("workflow_dlq_size", "gauge", f"Dead letters: executions that have failed or need attention, counted to {COUNT_MAX}.")
APPROVALS_WAITING = Metric("perdure_approvals_waiting", "gauge", f"Executions that wait for an approval, counted to {COUNT_MAX}.")
QUEUE_WAITING = Metric("perdure_queue_waiting", "gauge", "Tasks and executions that wait in a queue.", ("queue", "what"))
QUEUE_HELD = Metric("perdure_queue_held", "gauge", "Tasks and executions of a queue that live processes hold.", ("queue", "what"))
PROCESSES = Metric("perdure_processes", "gauge", "Engines and workers on the database, by whether their lease holds.", ("kind", "alive"))
STORE_READ_SECONDS = Metric("perdure_store_read_seconds", "gauge", "How long reading the gauges of the database took the last time.")

OF_PROCESS = (
    EXECUTIONS_STARTED,
    EXECUTIONS_ENDED,
    EXECUTION_SECONDS,
    PARKED,
    ATTEMPT_SECONDS,
    TOKENS_CONSUMED,
    TOKENS_EMITTED,
    COUNTER_VALUE,
    RETRIES,
    HOP_LATENCY,
    COUNTER_DIVERGENCE,
    LONGEST_WAIT,
    ENGINE_LAG,
    COMMIT_SECONDS,
    COMMIT_CHANGES,
    STORE_ERRORS,
    CLAIMED,
    LEASES_LOST,
    HTTP_SECONDS,
)
"""What this process has done, since it began."""

OF_STORE = (EXECUTIONS, DEAD_LETTERS, APPROVALS_WAITING, QUEUE_WAITING, QUEUE_HELD, PROCESSES, STORE_READ_SECONDS)
"""What is in the database, whichever process is asked."""

METRICS = (*OF_PROCESS, *OF_STORE)
