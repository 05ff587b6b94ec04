"""The header of stored log rows and messages: one byte with the version of the format, and a checksum.

The checksum is the CRC-32 of zlib (ISO-HDLC) over the version byte and the payload, as four bytes, most significant first. It detects accidental damage
by a disk or memory; it does not protect against an attacker (see `perdure.stores.encryption`).

A payload that a codec has encoded begins with `ENCODED_MARKER` in place of the version, followed by its frame: see `perdure.stores.encoded_store`. A codec
has checksums of its own. A payload that is still encoded when it arrives here could not be decoded, and is refused with the reason.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from zlib import crc32

from perdure.core.errors import LogDamaged, LogVersionUnsupported, SealedPayload

ENCODED_MARKER = 0xC1
"""The first byte of an encoded payload. It is not a version, and MessagePack never uses it."""

WHOLE_FRAME, ROW_FRAME, REFUSED_FRAME = b"p", b"r", b"!"
"""The frames: a whole payload; a row of a log, with the versions before and after it; a payload that could not be decoded, with the reason as text."""

SPAN_BYTES = 16
ENCRYPTED_MARKER = b"E"
"""The first byte of the codec's own part if it is encrypted; then follow the length of the key's id in one byte, and the id."""

_HEADER = Struct(">BI")
_HEADER_BYTES = _HEADER.size
_SEEDS = tuple(crc32(bytes((version,))) for version in range(256))


def with_header(version: int, payload: bytes) -> bytes:
    """Prepends the version and the checksum."""
    return _HEADER.pack(version, crc32(payload, _SEEDS[version])) + payload


def without_header(data: bytes, oldest: int, newest: int) -> tuple[int, bytes]:
    """Returns the version of `data` and its payload, after checking the checksum.

    Raises:
        LogVersionUnsupported: the format is older than `oldest` or newer than `newest`.
        LogDamaged: the data is too short, or its checksum does not match.
        SealedPayload: the payload is still encoded by a codec.
    """
    ((version, payload),) = without_headers((data,), oldest, newest)
    return version, payload


def without_headers(payloads: Iterable[bytes], oldest: int, newest: int) -> Iterator[tuple[int, bytes]]:
    """Does to many payloads what `without_header` does to one, each when it is asked for."""
    for data in payloads:
        if len(data) < _HEADER_BYTES:
            raise LogDamaged("a payload is cut off" if data else "a payload is empty")
        version, checksum = _HEADER.unpack_from(data)
        if not oldest <= version <= newest:
            reject_encoded(data)
            raise LogVersionUnsupported(version, oldest, newest)
        payload = data[_HEADER_BYTES:]
        if crc32(payload, _SEEDS[version]) != checksum:
            raise LogDamaged("the checksum of a payload is wrong, so it was changed since it was written")
        yield version, payload


def is_encoded(data: bytes) -> bool:
    """Whether a codec has encoded the payload."""
    return data[:1] == bytes((ENCODED_MARKER,))


def check_payload(data: bytes) -> None:
    """Checks the checksum of a payload in any version; an encoded payload passes, because its codec has a checksum.

    Raises:
        LogDamaged: the data is too short, or its checksum does not match.
    """
    if not is_encoded(data):
        _ = without_header(data, 0, 255)


def encryption_key_id(data: bytes) -> str | None:
    """Returns the id of the key that a payload is encrypted with, or None. The beginning of the payload is enough."""
    if data[:1] != bytes((ENCODED_MARKER,)):
        return None
    part = data[2 + SPAN_BYTES * (data[1:2] == ROW_FRAME) :]
    return part[2 : 2 + part[1]].decode("utf-8", "backslashreplace") if part[:1] == ENCRYPTED_MARKER and len(part) > 1 else None


def reject_encoded(data: bytes) -> None:
    """Checks that a payload is not encoded.

    Raises:
        SealedPayload: it is encoded, so it could not be decoded.
    """
    if data[:1] != bytes((ENCODED_MARKER,)):
        return
    if data[1:2] == REFUSED_FRAME:
        raise SealedPayload("a payload", "can't be read: " + data[2:].decode("utf-8", "backslashreplace"))
    if (its := encryption_key_id(data)) is not None:
        raise SealedPayload(
            "a payload", f"is encrypted with the key {its!r}, and this process has no keys. Give it that key, in PERDURE_ENCRYPTION_KEYS or by codec=", its
        )
    raise SealedPayload("a payload", "is compressed, and this process has no codec. Set PERDURE_COMPRESS=1, or pass codec=")
