"""Messages: everything that can make an execution go on. Each is handled once; late and repeated ones do nothing.

Those that travel through the mail have an encoding that other languages may write: the stamp of `perdure.core.payload_header`, then MessagePack.
"""

from typing import Any

import msgspec

from perdure.core import payload_header
from perdure.core.attributes import Attributes
from perdure.core.errors import LogDamaged
from perdure.core.operations import OnCancel, Outcome
from perdure.core.paths import Key, Path, path_text
from perdure.core.recalled import ForkData
from perdure.core.values import ENCODED_NONE, Value


class Parent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Who waits for an execution: the operation at `path` of the execution `key`, which was reopened `life` times before it opened that."""

    key: Key
    path: Path
    life: int = 0


class StartMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="start"):
    """Begin. `version` pins one of the workflow (0: whichever the engine has); `seed` feeds the execution's random numbers.

    `parent` waits for the end. `origin` is the execution that starts it, if one does, and `depth` how many stand above it; with `fork`, it begins
    with what another execution had reached. A `definition` that it is to go by may be given itself, or as the blob that holds it. After `expires_at_s` it
    does not begin any more. `grace_s` is how long its steps in flight may go on when it fails or is cancelled.
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


class SettleMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="settle"):
    """The answer to a try of an operation: counts only while the operation is open and on this attempt."""

    path: Path
    attempt: int
    outcome: Outcome


def attempt_answer_key(path: Path, attempt: int) -> str:
    """The key of the mail that answers a try."""
    return f"settle:{path_text(path)}:{attempt}"


class SignalMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="signal"):
    """A message for the program. From an execution it carries its sender and its number in what that one sent here, from 1;
    from outside, a key that is remembered for 24 hours."""

    name: str
    body: Value = ENCODED_NONE
    key: str = ""
    sender: Key | None = None
    sent: int = 0


class CancelMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="cancel"):
    """End as cancelled, after the program has unwound and, with `undo`, what it has done is undone."""

    reason: str = ""
    undo: bool = True


class TerminateMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="terminate"):
    """End as cancelled at once; the program gets no say."""

    reason: str = ""


class LeaveMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="leave"):
    """A parent no longer waits. If it has created the execution, and no other waits, that is cancelled, terminated or, with ``detach``, goes on."""

    parent: Parent
    end: OnCancel = "cancel"


class UndoMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="undo"):
    """Undo what a completed execution has done; of one that ended otherwise, what could not be undone then. A `parent` is answered when it is over."""

    reason: str = ""
    parent: Parent | None = None


class RetryMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="retry"):
    """Go on: a failed execution from what failed, or from the operation at `before` on; one that needs attention from where it was parked.

    With `parked`, only if it is parked for this reason.
    """

    reason: str = ""
    before: Path = ()
    parked: str = ""


class PresetMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="preset"):
    """Give the outcome of an operation: of an open one, now; of one that is yet to be opened, or that failed with its execution, when it is."""

    path: Path
    outcome: Outcome


class PauseMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="pause"):
    """Begin nothing more until resumed: what is being done is finished and remembered, and timers wait."""

    reason: str = ""


class ResumeMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="resume"):
    """Go on from where it was parked, for whatever reason."""

    reason: str = ""


class EvictMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="evict"):
    """Leave the engine that has it: what that performs is given back, and whoever is next goes on from the log."""

    reason: str = ""


class PatchMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="patch"):
    """Go on by another definition, given as its bytes, if the present one is that of the hash `base` (empty: whichever)."""

    definition: bytes
    base: str = ""
    reason: str = ""


class DiscardMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="discard"):
    """Nobody will mend it: what has failed, or needs attention, is cancelled as it stands, and not gone on with."""

    reason: str = ""


class LostMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="lost"):
    """Whoever performed this try is gone, and no answer will come; it has happened so many times: 0, if it was given back in good order.

    One that had not `begun` has done nothing.
    """

    path: Path
    attempt: int
    times: int = 1
    begun: bool = True


class ProgressMessage(msgspec.Struct, frozen=True, gc=False, tag_field="t", tag="progress"):
    """Who performs a try says how far it is, and that it is alive."""

    path: Path
    attempt: int
    body: Value


class TickMessage(msgspec.Struct, frozen=True, gc=False, tag_field="t", tag="tick"):
    """Time has passed."""


class DivergeMessage(msgspec.Struct, frozen=True, gc=False, tag_field="t", tag="diverge"):
    """The program could not be rebuilt from the log: what differs, in words."""

    diff: tuple[str, ...]


ExecutionMessage = (
    StartMessage
    | SettleMessage
    | SignalMessage
    | CancelMessage
    | TerminateMessage
    | LeaveMessage
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


class WorkMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="t", tag="work"):
    """A try of a call, for whoever serves its queue; the answer is a `SettleMessage` to `execution`. `key` is the same in every try.

    `progress` is what an earlier try has said; one that says nothing for `heartbeat_s` is taken for lost. `secrets` are the places in the named
    arguments, as JSON pointers, where a mark stands for a secret. Work that is taken back may still be answered for `grace_s`.
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


MESSAGE_FORMAT_VERSION = 2
"""The version of the format of messages, the only one that is read."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ExecutionMessage | WorkMessage)


def encode_message(message: ExecutionMessage | WorkMessage) -> bytes:
    """The bytes of a message as it travels."""
    return payload_header.with_header(MESSAGE_FORMAT_VERSION, _encoder.encode(message))


def decode_message_or_work(body: bytes) -> ExecutionMessage | WorkMessage:
    """Read what `encode` wrote.

    Raises:
        LogVersionUnsupported: it is in another format.
        LogDamaged: it is no message.
    """
    try:
        message: ExecutionMessage | WorkMessage = _decoder.decode(payload_header.without_header(body, MESSAGE_FORMAT_VERSION, MESSAGE_FORMAT_VERSION)[1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LogDamaged(str(error)) from error
    return message


def decode_execution_message(body: bytes) -> ExecutionMessage:
    """Read a message to an execution.

    Raises:
        LogVersionUnsupported: it is in another format.
        LogDamaged: it is none.
    """
    message = decode_message_or_work(body)
    if isinstance(message, WorkMessage):
        raise LogDamaged("it is work for a queue")
    return message
