"""The binary form in which Perdure's own client and server speak: arguments, results and errors as MessagePack, each of its type, so nothing is lost.

An error arrives as an exception of its class, with its attributes.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from perdure.code.exception_data import encode_exception, error_info, rebuild_exception
from perdure.core.errors import BadDefinition, ErrorInfo, PerdureError
from perdure.core.paths import Key
from perdure.core.values import dump_model
from perdure.definitions.format.definition_findings import DefinitionFinding
from perdure.operations.operation_table import FILLED_IN, NO_DEFAULT, Operation

MEDIA_TYPE = "application/vnd.perdure+msgpack"
FRAMES = "application/vnd.perdure+msgpack-frames"
"""The media type of a stream of frames: four bytes of length, most significant first, then that many bytes: 0 and a thing, or 1 and an error, the last. Length
0 is a heartbeat.
"""
HEARTBEAT = b"\0\0\0\0"


TUPLES = frozenset(("candidates", "diff", "findings", "known", "paths", "present", "why"))
"""The attributes of errors that are tuples, where they are no text."""


class SentError(msgspec.Struct, frozen=True):
    """An error in place of a result."""

    error: ErrorInfo


def _encode_hook(value: Any) -> Any:
    return _error_data(value) if isinstance(value, PerdureError) else dump_model(value)


def _decode_hook(kind: type, raw: Any) -> Any:
    if issubclass(kind, PerdureError):
        return error_of(msgspec.convert(raw, ErrorInfo))
    raise TypeError(f"{kind.__qualname__} does not travel")


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_hook)
_decode_error = msgspec.msgpack.Decoder(SentError).decode


def _error_data(error: BaseException) -> ErrorInfo:
    info = error_info(error, data=encode_exception(error, (PerdureError,), bytes_max=None))
    return ErrorInfo(info.type, info.message, "", info.data)


def error_of(info: ErrorInfo) -> PerdureError:
    """Returns the exception of an error. One of a class that is not known here is a plain `PerdureError`."""
    found = rebuild_exception(info, (PerdureError,))
    if not isinstance(found, PerdureError):
        return PerdureError(info.message)
    if isinstance(found, BadDefinition):
        found.findings = msgspec.convert(found.findings, tuple[DefinitionFinding, ...])
    for name, value in vars(found).items():
        if name == "key" and _is_key(value):
            found.key = Key(*value)  # type: ignore[attr-defined]  # it was just found
        elif name == "error" and isinstance(value, dict):
            found.error = msgspec.convert(value, ErrorInfo)  # type: ignore[attr-defined]  # the same
        elif name in TUPLES and isinstance(value, list | tuple):
            setattr(found, name, tuple(Key(*one) if _is_key(one) else one for one in value))
    return found


def _is_key(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 3 and all(isinstance(part, str) for part in value)


def encode(value: Any) -> bytes:
    """Encodes arguments by name, or a result."""
    return _encoder.encode(value)


def encode_error(error: PerdureError) -> bytes:
    """Encodes an error."""
    return _encoder.encode(SentError(_error_data(error)))


def decode_error(raw: bytes) -> PerdureError:
    """Decodes an error.

    Raises:
        MsgspecError: the bytes are no error.
    """
    return error_of(_decode_error(raw).error)


def decode_arguments(operation: Operation, raw: bytes) -> dict[str, Any]:
    """Decodes the arguments of an operation, by name. What was not given has its default; what the server fills in is None.

    Raises:
        MsgspecError: the bytes are not what the operation takes.
    """
    given = _arguments_decoder(operation.name, operation).decode(raw)
    return {name: getattr(given, name) for name in given.__struct_fields__}


def decode_result(operation: Operation, raw: bytes) -> Any:
    """Decodes the result of an operation, or one thing that a stream yields."""
    return _result_decoder(operation.name, operation).decode(raw)


def number_of(one: Any) -> int:
    """Returns the number of a thing in its stream. A reader goes on after it."""
    return int(getattr(one, "id", None) or one.number)


def frame_of(one: Any) -> bytes:
    """Encodes one thing of a stream."""
    return _framed(b"\0" + encode(one))


def error_frame(error: PerdureError) -> bytes:
    """Encodes the error with which a stream ends."""
    return _framed(b"\1" + encode_error(error))


def _framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


class FrameReader:
    """Decodes the frames of one stream from its parts, which may end anywhere."""

    def __init__(self, operation: Operation) -> None:
        self._operation, self._left = operation, b""

    def read(self, part: bytes) -> Iterator[Any]:
        """Yields the things whose frames are complete with this part.

        Raises:
            PerdureError: the stream ended with an error.
            MsgspecError: the bytes are no stream of this operation.
        """
        self._left += part
        while len(self._left) >= 4 and len(self._left) >= 4 + (size := int.from_bytes(self._left[:4], "big")):
            frame, self._left = self._left[4 : 4 + size], self._left[4 + size :]
            if frame[:1] == b"\1":
                raise decode_error(frame[1:])
            if frame:
                yield decode_result(self._operation, frame[1:])


@cache
def _arguments_decoder(name: str, operation: Operation) -> Any:
    fields = [
        (one.name, one.type | None, None) if one.name in FILLED_IN else (one.name, one.type) if one.default is NO_DEFAULT else (one.name, one.type, one.default)
        for one in operation.parameters
    ]
    kind = msgspec.defstruct(f"Arguments of {name}", fields, kw_only=True, forbid_unknown_fields=True)
    return msgspec.msgpack.Decoder(kind, dec_hook=_decode_hook)


@cache
def _result_decoder(name: str, operation: Operation) -> Any:
    return msgspec.msgpack.Decoder(operation.result, dec_hook=_decode_hook)
