"""The version byte in front of everything that is kept: what a later Perdure must still read, and an earlier one must refuse."""

from perdure.core.errors import LogDamaged, LogVersionUnsupported


def stamp(version: int, payload: bytes) -> bytes:
    """Put the version in front."""
    return bytes((version,)) + payload


def version_of(data: bytes, newest: int) -> int:
    """The version that wrote `data`.

    Raises:
        LogVersionUnsupported: it is later than `newest`, or none at all.
        LogDamaged: there is nothing.
    """
    if not data:
        raise LogDamaged("it is empty")
    if not 1 <= data[0] <= newest:
        raise LogVersionUnsupported(data[0], newest)
    return data[0]


def unstamp(data: bytes, newest: int) -> memoryview:
    """The payload behind the version byte, which must be known."""
    version_of(data, newest)
    return memoryview(data)[1:]
