"""Values: what programs pass around, as bytes that any language can read (MessagePack), or as a reference to a blob.

Every value takes the same way, live or replayed: encoded once where it is made, decoded by its type where it is used,
so a surprise (a tuple that becomes a list) shows in the first run and not after a crash.
"""

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec

from perdure.core import limits, wire
from perdure.core.error_text import said_by, text_of
from perdure.core.errors import LogDamaged, TooLarge, Undecodable, Unencodable
from perdure.core.models import dumped, is_model, validated
from perdure.core.paths import ROOT, Path, text


class Blob(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A value kept outside the log: its SHA-256 in hexadecimal, and its size in bytes."""

    sha256: str
    size_bytes: int


Value = bytes | Blob
"""An encoded value, or where it is."""

NOTHING: bytes = msgspec.msgpack.encode(None)
"""The encoded form of None."""


def _decode_other(kind: type, raw: Any) -> Any:
    if kind is object:  # It says as little as Any does.
        return raw
    if is_model(kind):
        return validated(kind, raw)
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} has no decoding")


_encoder = msgspec.msgpack.Encoder(enc_hook=dumped)


def encode(value: Any, what: str, path: Path = ROOT) -> bytes:
    """Encode a value that user code made; `what` it is, and the path of its operation, stand in errors.

    Raises:
        Unencodable: it holds something that has no encoding (a connection, an integer over 64 bits, a cycle).
        TooLarge: it takes more than 16 MiB.
    """
    try:
        raw = _encoder.encode(value)
    except BaseException as error:  # a model may raise anything
        raise Unencodable(_where(what, path), type(value).__qualname__, said_by(error)) from error
    if len(raw) > limits.VALUE_BYTES_MAX:
        raise TooLarge(_where(what, path), len(raw), limits.VALUE_BYTES_MAX)
    return raw


def decode(raw: bytes | msgspec.Raw, kind: Any, what: str, path: Path = ROOT) -> Any:
    """Decode a value by the type that its user hints at; `Any` gives plain data.

    Raises:
        Undecodable: the bytes do not fit the type.
    """
    try:
        try:
            found = _cached_decoder(kind)
        except TypeError:  # it has no hash
            found = decoder(kind)
        return found(raw)
    except BaseException as error:  # a model may raise anything
        raise Undecodable(_where(what, path), text_of(lambda: str(kind), "its type"), said_by(error)) from error


def _where(what: str, path: Path) -> str:
    return f"{what} {text(path)}" if path else what


def decoder(kind: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    """The decoder of a type, made once for each that has a hash."""
    try:
        return _cached_decoder(kind)
    except TypeError:
        return msgspec.msgpack.Decoder(kind, dec_hook=_decode_other).decode


@lru_cache(maxsize=4096)
def _cached_decoder(kind: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_decode_other).decode


def offload(value: Value, blobs: dict[str, bytes]) -> Value:
    """Put a large value among `blobs`, by its hash, and return the reference; return a small one as it is."""
    return value if isinstance(value, Blob) or len(value) < limits.BLOB_BYTES_MIN else kept(value, blobs)


def intact(name: str, payload: bytes | None) -> bytes:
    """The payload that a store has under the `name` of a blob, compared with that name, which is its SHA-256.

    Raises:
        LogDamaged: the store has none, or it was changed since it was written.
        SealedPayload: a codec has encoded it, and it was not decoded.
    """
    if payload is None:
        raise LogDamaged(f"blob {name} is missing")
    wire.refuse_coded(payload)
    if sha256(payload).hexdigest() != name:
        raise LogDamaged(f"blob {name} was changed since it was written: its SHA-256 is not its name")
    return payload


def kept(value: Value, blobs: dict[str, bytes]) -> Blob:
    """Put a value among `blobs`, by its hash, however small it is; return the reference."""
    if isinstance(value, Blob):
        return value
    digest = sha256(value).hexdigest()
    blobs[digest] = value
    return Blob(digest, len(value))
