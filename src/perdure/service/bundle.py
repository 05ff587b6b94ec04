"""A bundle: executions as a file that can be carried elsewhere, whole or not at all. See docs/reference/export.md for the format.

Its end is the SHA-256 of all before it, so a change of any byte is noticed; before that, if somebody signed it, stands a HMAC under
a secret, so that who has not got it can make none.
"""

import hmac
from hashlib import sha256

import msgspec

from perdure.core.errors import BadValue, ExportRefused
from perdure.core.paths import Key

MAGIC = b"\x89perdure\r\n"
"""How a file begins. What takes it for text, and changes the ends of its lines, is found out at once."""

VERSION = 2
UNSIGNED, SIGNED = 0, 1
DIGEST_BYTES = 32
SECRET_BYTES_MIN = 16
_HEADER_BYTES = len(MAGIC) + 2


class Message(msgspec.Struct, frozen=True):
    """A message that waited for the execution: its key, its encoded body, and when it is due in seconds since 1970."""

    key: str
    body: bytes
    due_at_s: float


class Exported(msgspec.Struct, frozen=True):
    """An execution: whose, the program that its head names, the topmost ancestor, the rows of its log and its mail, oldest first."""

    key: Key
    program: str
    root: Key
    version: int
    status: str
    rows: tuple[bytes, ...]
    mail: tuple[Message, ...]


class Bundle(msgspec.Struct, frozen=True):
    """Executions, of which the first is the one that was asked for and the others are below it, and the blobs that they refer to, by hash; of archives
    that were pruned before, when that was."""

    made_at_s: float
    executions: tuple[Exported, ...]
    blobs: dict[str, bytes]
    removed: dict[str, float]


class Read(msgspec.Struct, frozen=True):
    """What a file holds, and whether somebody with the secret has signed it."""

    bundle: Bundle
    signed: bool


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Bundle)


def written(bundle: Bundle, secret: bytes) -> bytes:
    """The file of a bundle, signed if there is a secret.

    Raises:
        BadValue: the secret is too short.
    """
    body = MAGIC + bytes((VERSION, SIGNED if secret else UNSIGNED)) + _encoder.encode(bundle)
    body += _signature(secret, body) if secret else b""
    return body + sha256(body).digest()


def read(raw: bytes, secret: bytes) -> Read:
    """What a file holds.

    Raises:
        ExportRefused: it is no export, one of a later version, or damaged.
        BadValue: the secret is too short.
    """
    if not raw.startswith(MAGIC):
        raise ExportRefused("it does not begin as one; it is another file, or was changed on its way")
    if len(raw) < _HEADER_BYTES + DIGEST_BYTES or sha256(raw[:-DIGEST_BYTES]).digest() != raw[-DIGEST_BYTES:]:
        raise ExportRefused("it is damaged or was cut short; copy it again, or export anew")
    version, signing = raw[len(MAGIC) : _HEADER_BYTES]
    if version != VERSION or signing not in (UNSIGNED, SIGNED):
        advice = "upgrade perdure to read it" if version > VERSION else "a development version wrote it; export it anew"
        raise ExportRefused(f"it is of format {version}, and known here is {VERSION}; {advice}")
    end = len(raw) - DIGEST_BYTES - (DIGEST_BYTES if signing == SIGNED else 0)
    try:
        bundle = _decoder.decode(raw[_HEADER_BYTES:end])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ExportRefused(f"what it holds makes no sense: {error}") from error
    if any(sha256(blob).hexdigest() != name for name, blob in bundle.blobs.items()) or not bundle.executions:
        raise ExportRefused("what it holds makes no sense: its blobs are not what they are called, or it has no execution")
    genuine = signing == SIGNED and bool(secret) and hmac.compare_digest(_signature(secret, raw[:end]), raw[end:-DIGEST_BYTES])
    return Read(bundle, genuine)


def _signature(secret: bytes, body: bytes) -> bytes:
    if len(secret) < SECRET_BYTES_MIN:
        raise BadValue("the secret of exports", f"{len(secret)} bytes", f"at least {SECRET_BYTES_MIN} bytes; set PERDURE_SECRET to a long random text")
    return hmac.digest(secret, b"perdure export\0" + body, sha256)
