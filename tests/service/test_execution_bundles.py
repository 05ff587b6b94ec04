"""Claims about the files of exports: damage is noticed at any byte, and a signature can't be had without the secret."""

import pytest

from perdure.core.errors import BadValue, ExportRefused
from perdure.core.paths import Key
from perdure.service.execution_bundles import BUNDLE_MAGIC, BUNDLE_VERSION, Bundle, BundledExecution, BundledMessage, BundleFile, decode_bundle, encode_bundle

SECRET = b"a secret that is long enough"
BUNDLE = Bundle(
    1.5,
    (BundledExecution(Key("t", "order", "o1"), "order@1", Key("t", "order", "o1"), 2, "waiting", (b"row",), (BundledMessage("m", b"body", 2.0),)),),
    {"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad": b"abc"},
    {"0" * 64: 3.0},
)


@pytest.mark.parametrize(("secret", "signed"), [(b"", False), (SECRET, True)])
def test_what_was_written_is_read_again(secret: bytes, signed: bool) -> None:
    assert decode_bundle(encode_bundle(BUNDLE, secret), secret) == BundleFile(BUNDLE, signed, bool(secret))


@pytest.mark.parametrize("secret", [b"", SECRET])
def test_damage_is_noticed_at_any_byte(secret: bytes) -> None:
    raw = encode_bundle(BUNDLE, secret)
    for at in range(len(raw)):
        for flipped in (1, 0x80):
            with pytest.raises(ExportRefused):
                decode_bundle(raw[:at] + bytes((raw[at] ^ flipped,)) + raw[at + 1 :], secret)
        with pytest.raises(ExportRefused):
            decode_bundle(raw[:at], secret)
    with pytest.raises(ExportRefused):
        decode_bundle(raw + b"\n", secret)


def test_nobody_signs_without_the_secret() -> None:
    assert not decode_bundle(encode_bundle(BUNDLE, b"another secret, long enough"), SECRET).signed
    assert not decode_bundle(encode_bundle(BUNDLE, b""), SECRET).signed
    assert not decode_bundle(encode_bundle(BUNDLE, SECRET), b"").signed
    with pytest.raises(BadValue, match="at least 16 bytes"):
        encode_bundle(BUNDLE, b"short")


def test_a_file_of_another_format_is_refused_and_not_guessed_at() -> None:
    from hashlib import sha256

    for version, advice in ((BUNDLE_VERSION + 1, "upgrade perdure"), (BUNDLE_VERSION - 1, "export it anew")):
        body = BUNDLE_MAGIC + bytes((version, 0)) + b"\x80"
        with pytest.raises(ExportRefused, match=advice):
            decode_bundle(body + sha256(body).digest(), b"")
    body = BUNDLE_MAGIC + bytes((BUNDLE_VERSION, 0)) + b"\x80"
    with pytest.raises(ExportRefused, match="is invalid"):
        decode_bundle(body + sha256(body).digest(), b"")


def test_blobs_are_what_they_are_called() -> None:
    with pytest.raises(ExportRefused, match="a blob does not match its hash"):
        decode_bundle(encode_bundle(Bundle(1.5, BUNDLE.executions, {"0" * 64: b"abc"}, {}), b""), b"")
