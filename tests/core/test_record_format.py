"""The stored form of records: what was changed, cut off or written by another version is not read."""

import pytest

from perdure.core.errors import LogDamaged, LogVersionUnsupported, SealedPayload
from perdure.core.payload_header import with_header
from perdure.core.record_format import RECORD_FORMAT, decode_record_value, encode_record_value


@pytest.mark.parametrize("payload", [b"", b"\0", b"\xc1", b"a document" * 1000])
def test_what_is_encoded_is_decoded(payload: bytes) -> None:
    assert decode_record_value(encode_record_value(payload)) == payload


def test_a_change_of_any_bit_is_noticed() -> None:
    whole = encode_record_value(b"a document")
    for position in range(8 * len(whole)):
        altered = bytearray(whole)
        altered[position // 8] ^= 1 << position % 8
        with pytest.raises((LogDamaged, LogVersionUnsupported, SealedPayload)):
            decode_record_value(bytes(altered))


def test_what_is_cut_off_or_of_another_version_is_refused() -> None:
    with pytest.raises(LogDamaged):
        decode_record_value(encode_record_value(b"")[:4])
    with pytest.raises(LogVersionUnsupported):
        decode_record_value(with_header(RECORD_FORMAT + 1, b"later"))
