"""The version byte in front of everything that is kept: what a later Perdure must still read, and an earlier one must refuse.

A payload that a codec has encoded has `CODED` in its place, and behind it how it is framed: see `perdure.stores.coded`. Where it gets
this far it could not be decoded, and is refused with the reason.
"""

from perdure.core.errors import LogDamaged, LogVersionUnsupported, SealedPayload

CODED = 0xC1
"""What begins a payload that a codec has encoded: no version, and the one byte with which nothing in MessagePack begins."""

WHOLE, ROW, REFUSED = b"p", b"r", b"!"
"""How it is framed: as it is; as a row of a log, with the versions before and behind it; as what could not be decoded, with the reason in words."""

SPAN_BYTES = 16
ENCRYPTED = b"E"
"""What begins the codec's own part if it is encrypted; then come the length of the key's id in one byte, and the id."""


def stamp(version: int, payload: bytes) -> bytes:
    """Put the version in front."""
    return bytes((version,)) + payload


def version_of(data: bytes, newest: int) -> int:
    """The version that wrote `data`.

    Raises:
        LogVersionUnsupported: it is later than `newest`, or none at all.
        LogDamaged: there is nothing.
        SealedPayload: a codec has encoded it.
    """
    if not data:
        raise LogDamaged("it is empty")
    if not 1 <= data[0] <= newest:
        refuse_coded(data)
        raise LogVersionUnsupported(data[0], newest)
    return data[0]


def unstamp(data: bytes, newest: int) -> memoryview:
    """The payload behind the version byte, which must be known."""
    version_of(data, newest)
    return memoryview(data)[1:]


def key_id(data: bytes) -> str | None:
    """The id of the key that a payload is encrypted with; its beginning is enough. None if it is not encrypted."""
    if data[:1] != bytes((CODED,)):
        return None
    part = data[2 + SPAN_BYTES * (data[1:2] == ROW) :]
    return part[2 : 2 + part[1]].decode("utf-8", "backslashreplace") if part[:1] == ENCRYPTED and len(part) > 1 else None


def refuse_coded(data: bytes) -> None:
    """Let pass what no codec has encoded.

    Raises:
        SealedPayload: it was encoded, and not decoded.
    """
    if data[:1] != bytes((CODED,)):
        return
    if data[1:2] == REFUSED:
        raise SealedPayload("a payload can't be read:", data[2:].decode("utf-8", "backslashreplace"))
    if (its := key_id(data)) is not None:
        raise SealedPayload("a payload", f"is encrypted with the key {its!r}, and no keys are given here; give that one, in PERDURE_KEYS or by codec=", its)
    raise SealedPayload("a payload", "is compressed, and no codec is given here; set PERDURE_COMPRESS=1, or give one by codec=")
