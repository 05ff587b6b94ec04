"""Operations: the six things that a program may ask for, and the outcome with which each settles, exactly once.

Everything else (join, race, loop, map, approval, schedule) is composed of these inside a program.
"""

from random import Random
from typing import Literal

import msgspec

from perdure.core.attributes import Attributes
from perdure.core.errors import ErrorInfo
from perdure.core.paths import Key
from perdure.core.values import ENCODED_NONE, Blob, Value


class RetryPolicy(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How often and when a call is tried again. `max` counts tries; waits are seconds and grow by `factor` up to `max_wait_s`.

    Each wait is shortened at random by up to `jitter` of itself, so that many executions do not come back at one time.
    """

    max: int = 3
    wait_s: float = 1.0
    factor: float = 2.0
    max_wait_s: float = 60.0
    jitter: float = 0.1

    def delay_s(self, failures: int, seed: str) -> float:
        """The wait after this many failed tries; `seed` makes the jitter the same in every replay."""
        try:
            wait_s = min(self.wait_s * self.factor ** (failures - 1), self.max_wait_s)
        except OverflowError:
            wait_s = self.max_wait_s if self.wait_s else 0.0
        return wait_s * (1 - self.jitter * Random(seed).random())


DEFAULT_RETRY_POLICY = RetryPolicy()

FailureKind = Literal["exhausted", "timeout", "fatal", "interrupted", "rollback", "abandoned", "cancelled"]


class Success(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="ok", rename={"value": "v", "port": "o"}):
    """A promise kept: its value, and the port by which a graph goes on."""

    value: Value = ENCODED_NONE
    port: str = "success"


_FAILURE_FIELDS = {"kind": "k", "error": "e", "attempts": "n", "after_s": "s"}


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="err", rename=_FAILURE_FIELDS):
    """A promise broken: exhausted, timeout, fatal, interrupted, abandoned or cancelled, after how many tries, with the last error.

    Of a single try, `after_s` says when the next one may begin at the earliest, if the step knows.
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
    """Work on a queue, done by the engine itself when it serves the queue, else by any worker.

    `args` is the encoded pair of positional and named arguments; `timeout_s` bounds each try. What is not `idempotent` is not run
    again after an interruption. `undo` says when what it has done is to be undone: once it is done, or also when that is in doubt. `lane` and
    `priority` are its place in the queue; if that is `limited`, nobody takes it but from there. A try that says nothing for `heartbeat_s` has failed.
    In a `transaction`, what it does and its answer are one commit of the store. `secrets` are the places in its named arguments, as JSON pointers, where
    a mark stands for a secret, which is put there when it is performed, and in no log. A try in flight may go on for `grace_s` when the execution fails or
    is cancelled (None: as long as the execution says). What undoes something, and has failed for good, parks the execution unless it `may_fail`.
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
    """A wait of `duration_s` from when it is opened, or until a time in seconds since 1970."""

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

    Settles with up to `limit` as soon as there is one; with `gather`, when there are `limit` or `timeout_s` has passed, with what is
    there. A completable message stays the execution's until it is completed, and goes back to its place if the receiver is dropped.
    """

    names: tuple[str, ...]
    limit: int = 1
    gather: bool = False
    timeout_s: float | None = None
    completable: bool = False
    about: Value = ENCODED_NONE


APPROVAL_WORKFLOW = "perdure.approval"
"""The workflow of approvals: a child of it waits for a person."""

COMPOSITE_WORKFLOW = "perdure.composite"
"""The workflow of composites: each counts the uses of a pipeline."""

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
    },
):
    """A child execution: awaited, it settles as the child ends; detached, at once. A child that exists already is joined, not started.

    With `undo`, a completed child is undone with its parent: the operation that does that is a spawn of the same child, under `~undo`.
    `on_cancel` says what becomes of the child when nobody waits for it any more; `queue`, `lane` and `priority`, in which turn it begins; `attributes`,
    what it is found by. A workflow that is a definition is pinned by it.
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


class SendOperation(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="send", rename={"to": "g", "name": "n", "body": "a", "about": "b"}
):
    """A message to another execution; settles at once."""

    to: Key
    name: str
    body: Value = ENCODED_NONE
    about: Value = ENCODED_NONE


KeepRole = Literal["value", "state", "stream", "turn", "branches", "reply", "undo", "undoable", "undo_with", "commit", "version", "attributes", "warning"]


_KEEP_FIELDS = {"value": "v", "role": "r", "label": "g", "about": "b", "port": "o"}


class KeepOperation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="keep", rename=_KEEP_FIELDS):
    """A value to remember; settles at once.

    `role` says what it is for: a plain value, state that people query (under `label`), an item of the execution's stream, the state of a
    loop's turn, the names of the branches of a join or race, the reply to the completable message numbered by `label`, how the
    execution will end (`label`, and the outcome) once what it has done is undone, that a block has completed and is undone as a whole from then on, the way
    taken at a gate, a change of the execution's attributes, or a warning.
    `port` is the one by which a graph goes on.
    """

    value: Value = ENCODED_NONE
    role: KeepRole = "value"
    label: str = ""
    about: Value = ENCODED_NONE
    port: str = "success"


Operation = CallOperation | SleepOperation | ReceiveOperation | SpawnOperation | SendOperation | KeepOperation


def operation_target(op: Operation) -> str:
    """What replay compares beside path and kind: whom or what the operation is for, never with which arguments."""
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
        case KeepOperation():
            return op.label if op.role in ("value", "turn", "reply") else f"{op.role}: {op.label}"


def operation_kind(op: Operation) -> str:
    """The operation's kind, as people read it: call, sleep, receive, spawn, send or keep."""
    return str(type(op).__struct_config__.tag)


def is_same_operation(remembered: Operation, asked: Operation) -> bool:
    """Whether replay takes the two for the same operation."""
    return type(remembered) is type(asked) and (remembered == asked or operation_target(remembered) == operation_target(asked))


def settles_later(op: Operation) -> bool:
    """Whether it is open for a while; the others settle as they are opened."""
    return not isinstance(op, KeepOperation | SendOperation) and not (isinstance(op, SpawnOperation) and not op.awaited)


def awaits_approval(op: Operation) -> bool:
    """Whether somebody has to decide before it settles."""
    return isinstance(op, SpawnOperation) and op.workflow == APPROVAL_WORKFLOW and op.awaited
