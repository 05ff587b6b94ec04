"""The stored form of a record's value: a version and a checksum, as log rows and messages have them, before the payload."""

from perdure.core.payload_header import with_header, without_header

RECORD_FORMAT = 1
"""The version of the form, as the first byte."""


def encode_record_value(payload: bytes) -> bytes:
    """The value to store for `payload`."""
    return with_header(RECORD_FORMAT, payload)


def decode_record_value(value: bytes) -> bytes:
    """The payload of a stored value.

    Raises:
        LogVersionUnsupported: the form is of another version.
        LogDamaged: the value is too short, or its checksum does not match.
        SealedPayload: the value is still encoded by a codec.
    """
    return bytes(without_header(value, RECORD_FORMAT, RECORD_FORMAT)[1])
