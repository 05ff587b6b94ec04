"""Encodes values as bytes that any language can read (MessagePack), and decodes them by their type; large values become references to blobs.

Every value takes the same way, live or replayed: it is encoded once where it is made, and decoded by its type where it is used. A surprise (a tuple that
becomes a list) therefore shows in the first run and not after a crash.

Models of pydantic, and other classes with `model_dump` and `model_validate`, encode and decode themselves; pydantic itself is not needed.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from hashlib import sha256
from inspect import signature
from typing import Any, get_args

import msgspec

from perdure.core import limits, payload_header
from perdure.core.error_text import exception_text, safe_text
from perdure.core.errors import LogDamaged, TooLarge, Undecodable, Unencodable
from perdure.core.paths import ROOT, Path, path_text


def is_model(kind: Any) -> bool:
    """Whether a class has the methods of a model."""
    return hasattr(kind, "model_validate")


def dump_model(value: Any) -> Any:
    """Returns a model as plain data.

    Raises:
        TypeError: the value is not a model, or something in it would be lost.
    """
    kind: Any = type(value)
    if hasattr(value, "get_secret_value"):
        raise TypeError("a secret is not kept in the log; pass its name, and let the step read it (docs/guides/secrets.md)")
    if not hasattr(value, "model_dump"):
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} has no encoding")
    if (secret := secret_field_of(kind)) is not None:
        raise TypeError(f"its field {secret} is a secret, which is not kept in the log; pass its name, and let the step read it (docs/guides/secrets.md)")
    dump, excluded = _model_dumper(kind)
    made = dump(value)
    if excluded:
        _reject_lost_fields(value, made, excluded)
    return made


def validate_model(kind: Any, raw: Any) -> Any:
    """Builds a model from plain data, by the names of its fields or by their aliases."""
    return _model_validator(kind)(raw)


def _reject_lost_fields(value: Any, made: Any, excluded: tuple[str, ...]) -> None:
    try:
        again = validate_model(type(value), made)
        lost = [name for name in excluded if getattr(again, name) != getattr(value, name)]
    except Exception as error:  # the model can't be built without the fields that it excludes
        raise TypeError(f"its excluded fields are lost ({', '.join(excluded)}): {exception_text(error)}") from error
    if lost:
        raise TypeError(f"its field {lost[0]} is excluded from what it writes, and would be lost; remove exclude=True, or give it its default")


@lru_cache(maxsize=1024)
def _model_dumper(kind: type) -> tuple[Callable[[Any], Any], tuple[str, ...]]:
    """Returns the function that dumps a class, and the fields that the class excludes."""
    fields = getattr(kind, "model_fields", {})
    excluded = tuple(name for name, field in fields.items() if getattr(field, "exclude", None)) if isinstance(fields, dict) else ()
    named = "by_alias" in _parameters(kind.model_dump)  # type: ignore[attr-defined]  # is_model has checked it
    return (lambda value: value.model_dump(mode="json", by_alias=False) if named else value.model_dump(mode="json")), excluded


@lru_cache(maxsize=1024)
def _model_validator(kind: Any) -> Callable[[Any], Any]:
    read: Callable[..., Any] = kind.model_validate
    return partial(read, by_name=True, by_alias=True) if "by_name" in _parameters(read) else read


def _parameters(function: Any) -> frozenset[str]:
    try:
        return frozenset(signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


@lru_cache(maxsize=1024)
def secret_field_of(kind: Any) -> str | None:
    """Returns the first field of a model, or of a model inside of it, that is a secret."""
    left: list[tuple[str, Any]] = [("", kind)]
    seen = set[int]()
    while left:
        where, hint = left.pop(0)
        if id(hint) in seen:
            continue
        seen.add(id(hint))
        if isinstance(hint, type) and hasattr(hint, "get_secret_value"):
            return where
        fields = getattr(hint, "model_fields", None)
        if isinstance(fields, dict):
            left += [(f"{where}.{name}" if where else name, getattr(field, "annotation", None)) for name, field in fields.items()]
        left += [(where, part) for part in get_args(hint)]
    return None


class Blob(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A reference to a value outside of the log: its SHA-256 in hexadecimal, and its size in bytes."""

    sha256: str
    size_bytes: int


Value = bytes | Blob
"""An encoded value, or a reference to it."""

ENCODED_NONE: bytes = msgspec.msgpack.encode(None)
"""The encoded form of None."""


def _decode_model(kind: type, raw: Any) -> Any:
    if kind is object:  # `object` tells no more than Any.
        return raw
    if is_model(kind):
        return validate_model(kind, raw)
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} has no decoding")


_encoder = msgspec.msgpack.Encoder(enc_hook=dump_model)


def encode(value: Any, what: str, path: Path = ROOT) -> bytes:
    """Encodes a value of user code; errors name `what` it is and the path of its operation.

    Raises:
        Unencodable: it holds something that has no encoding (a connection, an integer over 64 bits, a cycle).
        TooLarge: it takes more than 16 MiB.
    """
    try:
        raw = _encoder.encode(value)
    except BaseException as error:  # a model may raise anything
        raise Unencodable(_value_location(what, path), type(value).__qualname__, exception_text(error)) from error
    if len(raw) > limits.VALUE_BYTES_MAX:
        raise TooLarge(_value_location(what, path), len(raw), limits.VALUE_BYTES_MAX)
    return raw


def decode(raw: bytes | msgspec.Raw, kind: Any, what: str, path: Path = ROOT) -> Any:
    """Decodes a value by its type hint; `Any` returns plain data.

    Raises:
        Undecodable: the bytes do not fit the type.
    """
    try:
        try:
            found = _cached_decoder(kind)
        except TypeError:  # the type has no hash, so its decoder is not cached
            found = value_decoder(kind)
        return found(raw)
    except BaseException as error:  # a model may raise anything
        raise Undecodable(_value_location(what, path), safe_text(lambda: str(kind), "its type"), exception_text(error)) from error


def _value_location(what: str, path: Path) -> str:
    return f"{what} {path_text(path)}" if path else what


def value_decoder(kind: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    """Returns the decoder of a type, cached for each type that has a hash."""
    try:
        return _cached_decoder(kind)
    except TypeError:
        return msgspec.msgpack.Decoder(kind, dec_hook=_decode_model).decode


@lru_cache(maxsize=4096)
def _cached_decoder(kind: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_decode_model).decode


def offload_if_large(value: Value, blobs: dict[str, bytes]) -> Value:
    """Adds a large value to `blobs` by its hash and returns the reference; returns a small one unchanged."""
    return value if isinstance(value, Blob) or len(value) < limits.BLOB_BYTES_MIN else put_blob(value, blobs)


def verified_payload(name: str, payload: bytes | None) -> bytes:
    """Returns the payload that a store holds under the `name` of a blob, after comparing it with that name, which is its SHA-256.

    Raises:
        LogDamaged: the store holds none, or it was changed since it was written.
        SealedPayload: it is still encoded by a codec.
    """
    if payload is None:
        raise LogDamaged(f"blob {name} is missing")
    payload_header.reject_encoded(payload)
    if sha256(payload).hexdigest() != name:
        raise LogDamaged(f"blob {name} was changed since it was written: its SHA-256 is not its name")
    return payload


def put_blob(value: Value, blobs: dict[str, bytes]) -> Blob:
    """Adds a value of any size to `blobs` by its hash, and returns the reference."""
    if isinstance(value, Blob):
        return value
    digest = sha256(value).hexdigest()
    blobs[digest] = value
    return Blob(digest, len(value))
