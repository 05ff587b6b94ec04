"""Messages: the inputs of an execution. Each is handled once; late and repeated messages have no effect.

Stored messages have an encoding that other languages may write: the header of `perdure.core.payload_header`, then MessagePack.
"""

from typing import Any

import msgspec

from perdure.core import payload_header
from perdure.core.attributes import Attributes
from perdure.core.carried import Carried
from perdure.core.errors import LogDamaged
from perdure.core.operations import OnCancel, Outcome, RetriedErrors
from perdure.core.paths import Key, Path, path_text
from perdure.core.pinned_calls import Hosting, PinnedCalls
from perdure.core.recalled import ForkData
from perdure.core.values import ENCODED_NONE, Value


class Parent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The operation that waits for an execution: the one at `path` of the execution `key`, opened after that execution had been `reopened` so many times."""

    key: Key
    path: Path
    reopened: int = 0


class StartMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="start"):
    """Starts an execution. `version` pins a version of the workflow (0: the one that the engine has); `seed` feeds the random numbers of the execution.

    `parent` waits for the end. `origin` is the execution that starts this one, if one does, and `depth` the number of its ancestors. With `fork`, the
    execution begins with the results of another one. `definition` pins a definition, given as its bytes or as the blob that holds them. A start that is
    handled after `expires_at_s` cancels the execution. Steps in flight may go on for `grace_s` when the execution fails or is cancelled. `carried` are values
    of the caller's context. `hosting` says how a definition is run that engines need not know.
    """

    version: int = 0
    input: Value = ENCODED_NONE
    seed: int = 0
    parent: Parent | None = None
    deadline_s: float | None = None
    origin: Key | None = None
    depth: int = 0
    fork: ForkData | None = None
    expires_at_s: float | None = None
    attributes: Attributes = ()
    definition: Value | None = None
    grace_s: float | None = None
    carried: Carried = ()
    hosting: Hosting | None = None


class SettleMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="settle"):
    """The outcome of an attempt. It counts only while the operation is open and on this attempt."""

    path: Path
    attempt: int
    outcome: Outcome


def attempt_answer_key(path: Path, attempt: int) -> str:
    """Returns the idempotency key of the message that settles an attempt."""
    return f"settle:{path_text(path)}:{attempt}"


class SignalMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="signal"):
    """A message for the program.

    An execution that sends one gives its own key as `sender` and counts what it sends to this receiver from 1 in `sent`. A client gives a `key`, which
    is remembered for 24 hours.
    """

    name: str
    body: Value = ENCODED_NONE
    key: str = ""
    sender: Key | None = None
    sent: int = 0


class CancelMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="cancel"):
    """Cancels the execution: the program unwinds, then with `undo` its completed steps are undone, then it ends."""

    reason: str = ""
    undo: bool = True


class TerminateMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="terminate"):
    """Ends the execution as cancelled at once, without unwinding the program."""

    reason: str = ""


class UnwatchMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="unwatch"):
    """A parent no longer waits. If it created the execution and no other parent waits, the execution is cancelled or terminated, or goes on with ``detach``."""

    parent: Parent
    end: OnCancel = "cancel"


class UndoMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="undo"):
    """Undoes a completed execution, or retries the undo handlers that failed when it ended. A `parent` receives the outcome."""

    reason: str = ""
    parent: Parent | None = None


class RetryMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="retry"):
    """Reopens a failed execution at what failed, or at the operation at `before`; resumes a parked one.

    With `parked`, does so only if the execution is parked for this reason.
    """

    reason: str = ""
    before: Path = ()
    parked: str = ""


class PresetMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="preset"):
    """Sets the outcome of an operation: at once if it is open, otherwise when it is opened next."""

    path: Path
    outcome: Outcome


class PauseMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="pause"):
    """Parks the execution until it is resumed: attempts in flight end and are recorded, nothing new begins, and timers wait."""

    reason: str = ""


class ResumeMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="resume"):
    """Resumes a parked execution, whatever it was parked for."""

    reason: str = ""


class EvictMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="evict"):
    """Makes the engine that holds the execution let it go: it gives back attempts in flight, and the next engine goes on from the log."""

    reason: str = ""


class PatchMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="patch"):
    """Replaces the pinned definition, given as its bytes, if the present one has the SHA-256 `base` (empty: any). It may make `calls` besides those before."""

    definition: bytes
    base: str = ""
    reason: str = ""
    calls: PinnedCalls = ()


class DiscardMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="discard"):
    """Gives a failed or parked execution up: it ends as cancelled, without unwinding."""

    reason: str = ""


class LostMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="lost"):
    """This attempt will not be answered, because the process that made it is gone; `times` counts such losses (0: it was given back in an orderly stop).

    An attempt that had not `begun` has done nothing. One that had, of a step that is not idempotent, is not repeated.
    """

    path: Path
    attempt: int
    times: int = 1
    begun: bool = True


class ProgressMessage(msgspec.Struct, frozen=True, gc=False, tag_field="t", tag="progress"):
    """The progress that an attempt reports, which also proves that it is alive."""

    path: Path
    attempt: int
    body: Value


class TickMessage(msgspec.Struct, frozen=True, gc=False, tag_field="t", tag="tick"):
    """Time has passed: what is due is decided now."""


class DivergeMessage(msgspec.Struct, frozen=True, gc=False, tag_field="t", tag="diverge"):
    """Replay found a divergence; `diff` describes it in lines of text."""

    diff: tuple[str, ...]


ExecutionMessage = (
    StartMessage
    | SettleMessage
    | SignalMessage
    | CancelMessage
    | TerminateMessage
    | UnwatchMessage
    | UndoMessage
    | RetryMessage
    | PresetMessage
    | PauseMessage
    | ResumeMessage
    | EvictMessage
    | DiscardMessage
    | LostMessage
    | ProgressMessage
    | TickMessage
    | DivergeMessage
    | PatchMessage
)


class TaskMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="task"):
    """An attempt of a call, for a worker of its queue, which answers with a `SettleMessage` to `execution`. `key` is the same in every attempt.

    `progress` is what an earlier attempt reported last; an attempt that reports nothing for `heartbeat_s` is taken for lost. `secrets` are the places in
    the named arguments, as JSON pointers, where a mark stands for a secret. Work that is taken back may still be answered for `grace_s`. `carried` is what
    the execution carries. `errors` says which errors are retried, where the call says something else about them than the step.
    """

    execution: Key
    path: Path
    attempt: int
    target: str
    key: str
    args: Value = ENCODED_NONE
    timeout_s: float | None = None
    idempotent: bool = True
    progress: Value = ENCODED_NONE
    heartbeat_s: float | None = None
    secrets: tuple[str, ...] = ()
    grace_s: float = 0.0
    carried: Carried = ()
    errors: RetriedErrors | None = None


MESSAGE_FORMAT_VERSION = 2
"""The version of the message format, and the only one that is read."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ExecutionMessage | TaskMessage)


def encode_message(message: ExecutionMessage | TaskMessage) -> bytes:
    """Encodes a message for the store."""
    return payload_header.with_header(MESSAGE_FORMAT_VERSION, _encoder.encode(message))


def decode_message_or_task(body: bytes) -> ExecutionMessage | TaskMessage:
    """Decodes what `encode_message` wrote.

    Raises:
        LogVersionUnsupported: the bytes are in another format.
        LogDamaged: the bytes are not a message.
    """
    try:
        message: ExecutionMessage | TaskMessage = _decoder.decode(payload_header.without_header(body, MESSAGE_FORMAT_VERSION, MESSAGE_FORMAT_VERSION)[1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LogDamaged(str(error)) from error
    return message


def decode_execution_message(body: bytes) -> ExecutionMessage:
    """Decodes a message to an execution.

    Raises:
        LogVersionUnsupported: the bytes are in another format.
        LogDamaged: the bytes are not a message to an execution.
    """
    message = decode_message_or_task(body)
    if isinstance(message, TaskMessage):
        raise LogDamaged("a message to an execution was expected, and a task of a queue was found")
    return message
