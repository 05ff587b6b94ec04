"""Encryption at rest: AES-256-GCM by the package `cryptography`, under several keys, so that they can be changed while the store is in use.

The first key encrypts, each decrypts. What is written says under which (its id, in the clear) and is bound to where it belongs, so that
neither a byte of it nor its place can be changed unnoticed. No key is ever shown: not by an error, a log, or a repr.
"""

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module
from typing import Any

from perdure.core import payload_header
from perdure.core.errors import BadValue, SealedPayload
from perdure.stores.payload_codec import Compressed, PayloadCodec, payload_text

KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16
KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
NOT_ENCRYPTED = "is not encrypted, which is required here; if you trust it, encrypt it by perdure db rekey without PERDURE_ENCRYPTION_REQUIRED"
BLOB_NAMES_CONTEXT = b"perdure: names of blobs"


class Encrypted:
    """Encrypts what `inside` makes of a payload (nothing, unless it is given), under the first of `keys`: 32 bytes each, by their ids.

    What is not encrypted is read as it is, since a store may have been used without; with `required`, it is refused. One key should
    encrypt no more than 2**32 payloads.

    Raises:
        BadValue: there is no key, an id or a key is none, or the package `cryptography` is not installed.
    """

    def __init__(self, keys: Mapping[str, bytes], inside: PayloadCodec | None = None, *, required: bool = False) -> None:
        if not keys:
            raise BadValue("keys", "{}", "a mapping of at least one id to its key; perdure db key new makes one")
        for id, key in keys.items():
            if not KEY_ID.fullmatch(id):
                raise BadValue("id of a key", id, "1 to 64 letters, digits, dots, dashes and underscores")
            if len(key) != KEY_BYTES:
                raise BadValue("key", id, f"the id of one that has {KEY_BYTES} bytes; perdure db key new makes one")
        self.required = required
        self.ids = tuple(keys)
        self._inside = Compressed(None) if inside is None else inside
        self._ciphers = {id: _cipher(key) for id, key in keys.items()}
        self._naming = [hmac.digest(key, BLOB_NAMES_CONTEXT, sha256) for key in keys.values()]
        self._header = _header(self.ids[0])

    def __repr__(self) -> str:
        return f"Encrypted(keys {', '.join(self.ids)}; {self._inside!r}{', required' if self.required else ''})"

    def encode(self, raw: bytes, about: bytes) -> bytes:
        """See `Codec.encode`."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed: bytes = self._ciphers[self.ids[0]].encrypt(nonce, self._inside.encode(raw, about), self._header + about)
        return self._header + nonce + sealed

    def decode(self, stored: bytes, about: bytes) -> bytes:
        """See `Codec.decode`."""
        if stored[:1] != payload_header.ENCRYPTED_MARKER:
            if self.required:
                raise SealedPayload(payload_text(about), NOT_ENCRYPTED)
            return self._inside.decode(stored, about)
        size = stored[1] if len(stored) > 1 else 0
        id = stored[2 : 2 + size].decode("utf-8", "backslashreplace")
        cipher = self._ciphers.get(id)
        if cipher is None:
            why = f"is encrypted with the key {id!r}, and given are {', '.join(self.ids)}; give that one as well, behind them in PERDURE_ENCRYPTION_KEYS"
            raise SealedPayload(payload_text(about), why, id)
        begins = 2 + size + NONCE_BYTES
        if len(stored) < begins + TAG_BYTES:
            raise self._altered(about, id)
        try:
            opened: bytes = cipher.decrypt(stored[2 + size : begins], memoryview(stored)[begins:], stored[: 2 + size] + about)
        except _invalid_tag_error():
            raise self._altered(about, id) from None
        return self._inside.decode(opened, about)

    def names(self, sha256: str) -> tuple[str, ...]:
        """The names under which a blob may be kept: a hash that only the first key makes, then those of the others, and its own.

        Of its own hash, whoever has the file could tell whether it is the payload that they think of.
        """
        return (*(hmac.digest(key, sha256.encode(), "sha256").hex() for key in self._naming), sha256)

    def _altered(self, about: bytes, id: str) -> SealedPayload:
        why = f"was changed since it was written, or belongs elsewhere, or was encrypted with another key that is called {id!r}, too"
        return SealedPayload(payload_text(about), f"{why}; restore the database from a backup, or give the right key", id)


def parse_keys(text: str, called: str = "PERDURE_ENCRYPTION_KEYS") -> dict[str, bytes]:
    """Keys as `PERDURE_ENCRYPTION_KEYS` has them: ``id:key,id:key``, the newest first, each key 32 bytes in base64. Errors say what the text is `called`.

    Raises:
        BadValue: an entry is none; which is said by its number, and not shown.
    """
    keys: dict[str, bytes] = {}
    for number, entry in enumerate(text.split(","), 1):
        id, _, coded = entry.strip().partition(":")
        try:
            key = base64.b64decode(coded, altchars=b"-_" if set(coded) & {"-", "_"} else None, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES or not KEY_ID.fullmatch(id):
            raise BadValue(called, f"entry {number}", f"id:key, where the key is {KEY_BYTES} bytes in base64; perdure db key new makes one")
        if id in keys:
            raise BadValue(called, f"entry {number}", f"the only one with the id {id}; give each key its own")
        keys[id] = key
    return keys


def new_key() -> str:
    """A fresh key, in base64."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def _header(id: str) -> bytes:
    return payload_header.ENCRYPTED_MARKER + bytes((len(id),)) + id.encode()


def _cipher(key: bytes) -> Any:
    try:
        ciphers = import_module("cryptography.hazmat.primitives.ciphers.aead")
    except ModuleNotFoundError as error:
        raise BadValue("codec", "Encrypted", 'possible without the package cryptography; pip install "perdure[crypto]"') from error
    return ciphers.AESGCM(key)


def _invalid_tag_error() -> Any:
    return import_module("cryptography.exceptions").InvalidTag
