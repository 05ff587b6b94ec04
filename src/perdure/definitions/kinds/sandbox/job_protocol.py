"""The protocol between a sandbox and its parent, over one socket. A frame is the length of its body, in four bytes, and the body as JSON."""

from __future__ import annotations

import math
import struct
from typing import Any, Literal

import msgspec

from perdure.core.errors import Unencodable

LENGTH = struct.Struct(">I")
FRAME_BYTES_MAX = 128 * 1024 * 1024
READY = LENGTH.pack(0)
"""The empty frame by which a sandbox reports that it takes jobs."""

PRINTED_CHARACTERS_MAX = 64 * 1024
ERROR_CHARACTERS_MAX = 4000
MARGIN_CHARACTERS = 4096
"""How much is kept of what is printed, and of what an error says; and how much more than that a sandbox sends: see `saying`."""

FailureKind = Literal["source", "time", "memory", "output", "absent", "sandbox"]


class SandboxJob(msgspec.Struct, frozen=True):
    """A job for a sandbox: the name of the work, its input, and its limits in seconds, bytes of memory and bytes of the answer."""

    job: str
    given: Any
    wall_s: float
    memory_bytes: int
    output_bytes: int


class RawSandboxJob(msgspec.Struct, frozen=True):
    """A job as the sandbox reads it, with an input that is still JSON."""

    job: str
    given: msgspec.Raw
    wall_s: float
    memory_bytes: int
    output_bytes: int


class JobFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why there is no result: the source (`type` and `text` are those of its error, `line` and `column` where), which limit was met, or the sandbox itself."""

    kind: FailureKind
    type: str = ""
    text: str = ""
    line: int = 0
    column: int = 0
    console: str = ""


JobAnswer = bytes | JobFailure
"""The outcome of a job: a result, as JSON, or the reason why there is none."""


def encode_job(job: SandboxJob) -> bytes:
    """Encodes a job as a frame.

    Raises:
        Unencodable: the input can't be JSON: it holds NaN or infinity, is nested too deeply, or is too large.
    """
    try:
        raw = msgspec.json.encode(job)
    except (TypeError, OverflowError, ValueError, RecursionError) as error:
        raise Unencodable("the input of a sandbox", type(job.given).__qualname__, str(error)) from None
    if b"null" in raw and not _finite(job.given):
        raise Unencodable("the input of a sandbox", "float", "JSON has no NaN and no Infinity")
    if len(raw) > FRAME_BYTES_MAX:
        raise Unencodable("the input of a sandbox", type(job.given).__qualname__, f"it takes more than {FRAME_BYTES_MAX:,} bytes")
    return LENGTH.pack(len(raw)) + raw


def _finite(value: Any) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_finite, value.values()))
        case list() | tuple():
            return all(map(_finite, value))
    return True


def encode_answer(answer: JobAnswer) -> bytes:
    """The frame of an answer. Its body begins with a byte that says which it is."""
    raw = b"=" + answer if isinstance(answer, bytes) else b"!" + msgspec.json.encode(answer)
    return LENGTH.pack(len(raw)) + raw


def decode_answer(body: bytes) -> JobAnswer:
    """The answer in the body of a frame; a result is not looked at.

    Raises:
        msgspec.DecodeError: it is none.
    """
    match body[:1]:
        case b"=":
            return body[1:]
        case b"!":
            return _read_failure(body[1:])
    raise msgspec.DecodeError("neither a result nor a failure")


decode_job = msgspec.json.Decoder(RawSandboxJob).decode
_read_failure = msgspec.json.Decoder(JobFailure).decode
