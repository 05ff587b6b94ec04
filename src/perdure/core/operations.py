"""Operations: the six verbs that a program may use, and the outcome with which each operation settles, exactly once.

Everything else (join, race, loop, map, approval, schedule) is composed of these inside a program.
"""

from random import Random
from typing import Literal

import msgspec

from perdure.core.attributes import Attributes
from perdure.core.errors import ErrorInfo
from perdure.core.paths import Key
from perdure.core.values import ENCODED_NONE, Blob, Value


class RetriedErrors(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Which errors a call retries, by the names of their classes: only those in `only` (empty: all), and none in `fatal`.

    They stand in place of what the step declares or, if this `adds`, both hold.
    """

    only: tuple[str, ...] = ()
    fatal: tuple[str, ...] = ()
    adds: bool = False


class RetryPolicy(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How often a call is attempted and how long to wait in between. `max` counts attempts; waits grow by `factor` up to `max_wait_s`.

    Each wait is shortened at random by up to the share `jitter` of itself, so that many executions do not retry at one time. `errors` are for the worker of a
    queue, where the call says about them something else than the step.
    """

    max: int = 3
    wait_s: float = 1.0
    factor: float = 2.0
    max_wait_s: float = 60.0
    jitter: float = 0.1
    errors: RetriedErrors | None = None

    def delay_s(self, failures: int, seed: str) -> float:
        """Returns the wait after this many failed attempts; `seed` makes the jitter the same in every replay."""
        try:
            wait_s = min(self.wait_s * self.factor ** (failures - 1), self.max_wait_s)
        except OverflowError:
            wait_s = self.max_wait_s if self.wait_s else 0.0
        return wait_s * (1 - self.jitter * Random(seed).random())


DEFAULT_RETRY_POLICY = RetryPolicy()

FailureKind = Literal["exhausted", "timeout", "fatal", "interrupted", "rollback", "abandoned", "cancelled"]


class Success(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="ok", rename={"value": "v", "port": "o"}):
    """A success: its value, and the port by which a definition continues."""

    value: Value = ENCODED_NONE
    port: str = "success"


_FAILURE_FIELDS = {"kind": "k", "error": "e", "attempts": "n", "after_s": "s"}


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="err", rename=_FAILURE_FIELDS):
    """A failure: its kind (see `FailureKind`), the number of attempts, and the last error.

    As the outcome of a single attempt, `after_s` is the least wait before the next one, if the step asks for one.
    """

    kind: str
    attempts: int
    error: ErrorInfo
    after_s: float | None = None


Outcome = Success | Failure


class CallOperation(
    msgspec.Struct,
    gc=False,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="call",
    rename={
        "target": "g",
        "args": "a",
        "queue": "q",
        "retry": "r",
        "timeout_s": "s",
        "idempotent": "i",
        "undo": "u",
        "lane": "l",
        "priority": "p",
        "limited": "m",
        "heartbeat_s": "h",
        "about": "b",
        "transaction": "x",
        "secrets": "k",
        "grace_s": "c",
        "may_fail": "f",
    },
):
    """A call of a step. The engine performs it when it serves the queue; otherwise any worker of the queue does.

    `args` is the encoded pair of positional and named arguments; `timeout_s` bounds each attempt. A call that is not `idempotent` is not repeated after an
    interruption. `undo` says when the call has to be undone: if it succeeded, or also if that is in doubt. `lane` and `priority` are its place in the queue;
    a `limited` queue is used even if the engine serves it. An attempt that reports nothing for `heartbeat_s` fails. In a `transaction`, the writes of the
    step and its outcome are one commit of the store. `secrets` are the places in the named arguments, as JSON pointers, where a mark stands for a secret;
    the secret is put there for the attempt only and is in no log. An attempt in flight may continue for `grace_s` after the execution failed or was
    cancelled (None: the grace of the execution). An undo handler that has failed for good parks the execution unless it `may_fail`.
    """

    target: str
    args: Value = ENCODED_NONE
    queue: str = ""
    retry: RetryPolicy = DEFAULT_RETRY_POLICY
    timeout_s: float | None = None
    idempotent: bool = True
    about: Value = ENCODED_NONE
    undo: Literal["", "done", "in_doubt"] = ""
    lane: str = ""
    priority: int = 0
    limited: bool = False
    heartbeat_s: float | None = None
    transaction: bool = False
    secrets: tuple[str, ...] = ()
    grace_s: float | None = None
    may_fail: bool = False


class SleepOperation(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="sleep", rename={"duration_s": "d", "until_s": "u", "about": "b"}
):
    """A sleep of `duration_s` from when it is opened, or until the time `until_s` in seconds since 1970."""

    duration_s: float | None = None
    until_s: float | None = None
    about: Value = ENCODED_NONE


class ReceiveOperation(
    msgspec.Struct,
    gc=False,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="receive",
    rename={"names": "g", "limit": "l", "gather": "c", "timeout_s": "s", "completable": "k", "about": "b"},
):
    """A wait for messages of any of `names`, first in first out across them.

    It settles with up to `limit` messages as soon as there is one; with `gather`, when there are `limit` of them or `timeout_s` has passed. A completable
    message belongs to the execution until it is completed, and returns to its place in the mailbox if the receiver is dropped.
    """

    names: tuple[str, ...]
    limit: int = 1
    gather: bool = False
    timeout_s: float | None = None
    completable: bool = False
    about: Value = ENCODED_NONE


APPROVAL_WORKFLOW = "perdure.approval"
"""The workflow of approvals: an execution of it waits for a person's decision."""

COMPOSITE_WORKFLOW = "perdure.composite"
"""The workflow of composites: each execution counts the uses of a pipeline."""

SCHEDULE_WORKFLOW = "perdure.schedules"
"""The workflow of the schedule clock: one execution of it in each tenant starts what the schedules of the tenant have due."""

PROPOSAL_WORKFLOW = "perdure.proposal"
"""The workflow of proposals that executions make: an execution of it proposes a change of the definition of the one that has started it."""

PROPOSAL_AGENT_WORKFLOW = "perdure.propose"
"""The workflow of proposal agents: a model writes or changes a definition, and proposes it. Only engines with models know it."""

PROMPT_WORKFLOW = "perdure.prompt"
"""The workflow that hands the prompt of a schedule to the handler of an application. Only engines with a handler know it."""

BULK_WORKFLOW = "perdure.bulk"
"""The workflow of bulk executions: each does something to all executions of a filter."""

NOTIFICATION_WORKFLOW = "perdure.notification"
"""The workflow that sends one notification, or several together, to one recipient."""

HOOK_WORKFLOW = "perdure.hook"
"""The workflow that hands a notification to the function of an application. Only engines with such a function know it."""

NOTICES_WORKFLOW = "perdure.notices"
"""The workflow that looks for what people are notified of, one execution of it in a tenant."""

EVENTS_WORKFLOW = "perdure.events"
"""The workflow of announced events: each execution of it starts what one event triggers."""

RECORDING_WORKFLOW = "perdure.recording"
"""The workflow of recordings. Only engines that have tools of MCP servers for it know it."""

OnCancel = Literal["cancel", "terminate", "detach"]


class SpawnOperation(
    msgspec.Struct,
    gc=False,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="spawn",
    rename={
        "workflow": "g",
        "id": "i",
        "version": "n",
        "input": "a",
        "awaited": "w",
        "deadline_s": "s",
        "about": "b",
        "undo": "u",
        "on_cancel": "c",
        "queue": "q",
        "lane": "l",
        "priority": "p",
        "attributes": "m",
        "definition": "f",
        "grace_s": "e",
        "program": "z",
    },
):
    """A child execution: awaited, it settles when the child ends; detached, at once. A child that exists already is joined.

    With `undo`, a completed child is undone with its parent, by a spawn of the same child under `~undo`. `on_cancel` says what happens to the child when
    no execution waits for it any more; `queue`, `lane` and `priority` order its beginning among others; it is found by its `attributes`. A child that runs
    a definition is pinned to `definition`; engines claim it by the name `program` (empty: that of the workflow).
    """

    workflow: str
    id: str
    version: int = 0
    input: Value = ENCODED_NONE
    awaited: bool = True
    deadline_s: float | None = None
    about: Value = ENCODED_NONE
    undo: bool = False
    on_cancel: OnCancel = "cancel"
    queue: str = ""
    lane: str = ""
    priority: int = 0
    attributes: Attributes = ()
    definition: Blob | None = None
    grace_s: float | None = None
    program: str = ""


class SendOperation(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="send", rename={"to": "g", "name": "n", "body": "a", "about": "b"}
):
    """A message to another execution; settles at once."""

    to: Key
    name: str
    body: Value = ENCODED_NONE
    about: Value = ENCODED_NONE


KeepRole = Literal["value", "state", "stream", "turn", "branches", "reply", "undo", "undoable", "undo_input", "commit", "version", "attributes", "warning"]


_KEEP_FIELDS = {"value": "v", "role": "r", "label": "g", "about": "b", "port": "o"}


class KeepOperation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="keep", rename=_KEEP_FIELDS):
    """A value to keep; settles at once. `port` is the one by which a definition continues. The meaning depends on `role`:

    - value: a plain value; state: state that clients query under `label`; stream: an item of the stream of the execution, which with a `label` is also
      announced under that name; warning: a warning.
    - turn: the state with which an iteration of a loop begins; branches: the names of the branches of a join or race.
    - reply: the reply to the completable message whose number is `label`; attributes: a change of the attributes of the execution.
    - undo: how the execution will end once it is undone (`label`, and the outcome); undoable: a block has completed and is undone as a whole from here on;
      undo_input: the input of an undo handler; commit: nothing done before is undone any more.
    - version: the version that a gate chose.
    """

    value: Value = ENCODED_NONE
    role: KeepRole = "value"
    label: str = ""
    about: Value = ENCODED_NONE
    port: str = "success"


Operation = CallOperation | SleepOperation | ReceiveOperation | SpawnOperation | SendOperation | KeepOperation


def operation_target(op: Operation) -> str:
    """Returns what replay compares beside path and kind: the target of the operation, never its arguments."""
    match op:
        case CallOperation():
            return f"{op.target} on {op.queue}" if op.queue else op.target
        case SleepOperation():
            return ""
        case ReceiveOperation():
            return ", ".join(op.names)
        case SpawnOperation():
            return op.workflow
        case SendOperation():
            return f"{op.to.workflow}: {op.name}"
        case KeepOperation(role="stream"):
            return "stream: "  # the name of an announcement does not count: logs from before there were names have none
        case KeepOperation():
            return op.label if op.role in ("value", "turn", "reply") else f"{op.role}: {op.label}"


def operation_kind(op: Operation) -> str:
    """Returns the kind as text: call, sleep, receive, spawn, send or keep."""
    return str(type(op).__struct_config__.tag)


def is_same_operation(remembered: Operation, asked: Operation) -> bool:
    """Whether replay accepts `asked` in the place of `remembered`."""
    return type(remembered) is type(asked) and (remembered == asked or operation_target(remembered) == operation_target(asked))


def settles_later(op: Operation) -> bool:
    """Whether the operation stays open for a while; the others settle when they are opened."""
    return not isinstance(op, KeepOperation | SendOperation) and not (isinstance(op, SpawnOperation) and not op.awaited)


def awaits_approval(op: Operation) -> bool:
    """Whether a person has to decide before the operation settles."""
    return isinstance(op, SpawnOperation) and op.workflow == APPROVAL_WORKFLOW and op.awaited
