"""Codecs encode payloads before they are stored and decode them when they are read. This module compresses; `encryption` encrypts.

The first byte of an encoded payload says how it was encoded, so every later configuration can read what an earlier one wrote.
"""

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, Protocol

from perdure.core import payload_header
from perdure.core.errors import BadValue, SealedPayload

COMPRESSED_BYTES_MIN = 256
"""Compression gains hardly anything below this size."""

UNCOMPRESSED, ZLIB, ZSTD = b"\x00", b"\x01", b"\x02"

CompressionMethod = Literal["zlib", "zstd"]


class PayloadCodec(Protocol):
    """Encodes and decodes payloads. Both methods are called from any thread, and concurrently.

    `about` says what the payload is and where it belongs. A codec that authenticates refuses the payload anywhere else.
    """

    def encode(self, raw: bytes, about: bytes) -> bytes:
        """Returns the bytes to store for `raw`."""
        ...

    def decode(self, stored: bytes, about: bytes) -> bytes:
        """Returns the bytes that `encode` was given.

        Raises:
            SealedPayload: it can't be decoded here, or it is not what was encoded.
        """
        ...


class Compressed:
    """A codec that compresses payloads of at least `bytes_min` bytes where that makes them smaller. With None it compresses nothing but reads everything.

    With `method` ``zstd``, every reader needs Python 3.14 or the package `zstandard`.

    Raises:
        BadValue: the method is unknown, or this Python does not have it.
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
                    payload_text(about), f"is encrypted with the key {its!r}, and this process has no keys. Give it that key in PERDURE_ENCRYPTION_KEYS", its
                )
            case _:
                raise SealedPayload(
                    payload_text(about), "is encoded in a way that this process does not know. Use the version of Perdure, or the codec, that wrote it"
                )
        if expand is None:
            raise SealedPayload(payload_text(about), "is compressed by zstd, which this Python does not have. Install it: pip install zstandard")
        try:
            return expand(stored[1:])
        except Exception as error:  # each library raises an error class of its own
            raise SealedPayload(payload_text(about), f"was changed since it was written ({error}). Restore the database from a backup") from error


def payload_text(about: bytes) -> str:
    """Describes a payload for errors."""
    return f"the payload {about.decode('utf-8', 'backslashreplace')}"


def _deflate(raw: bytes) -> bytes:
    return zlib.compress(raw, 1)  # A commit waits for this: a higher level saves a tenth of the size and takes three times as long.


def _zstd() -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]] | None:
    """Returns the functions that compress and decompress: those of Python from 3.14 on, else of the package `zstandard`; None without either."""
    for name in ("compression.zstd", "zstandard"):
        try:
            library: Any = import_module(name)
        except ModuleNotFoundError:
            continue
        return library.compress, library.decompress
    return None
