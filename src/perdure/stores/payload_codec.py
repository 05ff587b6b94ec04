"""Codecs: what a payload becomes before it is kept, and again when it is read. This one makes it smaller; `encryption` has the one that hides it.

What a codec writes says by its first byte what was done to it, so that whatever is configured later can read what was kept before.
"""

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, Protocol

from perdure.core import payload_header
from perdure.core.errors import BadValue, SealedPayload

COMPRESSED_BYTES_MIN = 256
"""What is smaller is hardly made smaller still."""

UNCOMPRESSED, ZLIB, ZSTD = b"\x00", b"\x01", b"\x02"

CompressionMethod = Literal["zlib", "zstd"]


class PayloadCodec(Protocol):
    """Encodes what is kept. Both are called from any thread, and several at a time.

    `about` says what the payload is and where it belongs: a codec that authenticates refuses it anywhere else.
    """

    def encode(self, raw: bytes, about: bytes) -> bytes:
        """What is kept of `raw`."""
        ...

    def decode(self, stored: bytes, about: bytes) -> bytes:
        """What `encode` was given.

        Raises:
            SealedPayload: it can't be decoded here, or it is not what was encoded.
        """
        ...


class Compressed:
    """Compresses payloads of at least `bytes_min` bytes where that makes them smaller; None compresses none, and reads them all the same.

    With `method` ``zstd``, everyone who reads needs Python 3.14 or the package `zstandard`.

    Raises:
        BadValue: the method is none, or this Python does not have it.
    """

    def __init__(self, bytes_min: int | None = COMPRESSED_BYTES_MIN, method: CompressionMethod = "zlib") -> None:
        if method not in ("zlib", "zstd"):
            raise BadValue("compression", method, "zlib or zstd")
        zstd = _zstd() if method == "zstd" else None
        if method == "zstd" and zstd is None:
            raise BadValue("compression", method, "in this Python; use zlib, Python 3.14 or later, or pip install zstandard")
        self._bytes_min = bytes_min
        self._tag, self._compress = (ZLIB, _deflate) if zstd is None else (ZSTD, zstd[0])

    def __repr__(self) -> str:
        return f"Compressed({self._bytes_min}, {'zlib' if self._tag == ZLIB else 'zstd'!r})"

    def encode(self, raw: bytes, about: bytes) -> bytes:
        """See `Codec.encode`."""
        if self._bytes_min is not None and len(raw) >= self._bytes_min:
            smaller = self._compress(raw)
            if len(smaller) < len(raw):
                return self._tag + smaller
        return UNCOMPRESSED + raw

    def decode(self, stored: bytes, about: bytes) -> bytes:
        """See `Codec.decode`."""
        match stored[:1]:
            case b"\x00":
                return stored[1:]
            case b"\x01":
                expand: Callable[[bytes], bytes] | None = zlib.decompress
            case b"\x02":
                expand = zstd[1] if (zstd := _zstd()) is not None else None
            case payload_header.ENCRYPTED_MARKER:
                its = payload_header.encryption_key_id(bytes((payload_header.ENCODED_MARKER,)) + payload_header.WHOLE_FRAME + stored[:258])
                raise SealedPayload(
                    payload_text(about), f"is encrypted with the key {its!r}, and no keys are given here; give that one in PERDURE_ENCRYPTION_KEYS", its
                )
            case _:
                raise SealedPayload(payload_text(about), "was encoded in a way that is not known here; use the Perdure or the codec that wrote it")
        if expand is None:
            raise SealedPayload(payload_text(about), "is compressed by zstd, which this Python does not have; pip install zstandard")
        try:
            return expand(stored[1:])
        except Exception as error:  # each library has its own
            raise SealedPayload(payload_text(about), f"was changed since it was written ({error}); restore the database from a backup") from error


def payload_text(about: bytes) -> str:
    """What a payload is, for errors."""
    return f"the payload {about.decode('utf-8', 'backslashreplace')}"


def _deflate(raw: bytes) -> bytes:
    return zlib.compress(raw, 1)  # a commit waits for it: a higher level saves a tenth and takes three times as long


def _zstd() -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]] | None:
    """How it compresses and expands: by Python's own library from 3.14 on, else by the package; None if there is neither."""
    for name in ("compression.zstd", "zstandard"):
        try:
            library: Any = import_module(name)
        except ModuleNotFoundError:
            continue
        return library.compress, library.decompress
    return None
