"""Encryption at rest: AES-256-GCM from the package `cryptography`, under several keys, so that keys can be rotated while the store is in use.

The first key encrypts, every key decrypts. A stored payload names its key by id, in the clear, and is bound to its place, so that neither its bytes
nor its place can be changed unnoticed. No error, log line or repr shows a key.
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
NOT_ENCRYPTED = "is not encrypted, which is required here. If you trust it, encrypt it by perdure db rekey without PERDURE_ENCRYPTION_REQUIRED"
BLOB_NAMES_CONTEXT = b"perdure: names of blobs"


class Encrypted:
    """A codec that encrypts payloads under the first of `keys` (32 bytes each, by id), after encoding them with the codec `inside` if it is given.

    Payloads that are not encrypted are read as they are, since a store may have been used without encryption before; with `required`, they are
    refused. One key should encrypt no more than 2**32 payloads.

    Raises:
        BadValue: there is no key, an id or a key is not valid, or the package `cryptography` is not installed.
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
            why = f"is encrypted with the key {id!r}, and this process has only {', '.join(self.ids)}. Add that key after the others in PERDURE_ENCRYPTION_KEYS"
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
        """Returns the names under which a blob may be stored: its hash keyed with the first key, then with the others, and its plain hash.

        A plain hash as name would let a reader of the file check a guess at the payload.
        """
        return (*(hmac.digest(key, sha256.encode(), "sha256").hex() for key in self._naming), sha256)

    def _altered(self, about: bytes, id: str) -> SealedPayload:
        why = f"was changed since it was written, or moved from another place, or encrypted with a different key of the id {id!r}"
        return SealedPayload(payload_text(about), f"{why}. Restore the database from a backup, or give the right key", id)


def parse_keys(text: str, called: str = "PERDURE_ENCRYPTION_KEYS") -> dict[str, bytes]:
    """Parses keys in the form of `PERDURE_ENCRYPTION_KEYS`: ``id:key,id:key``, the newest first, each key 32 bytes in base64. Errors name the text `called`.

    Raises:
        BadValue: an entry is not valid. The error gives the number of the entry and does not show it.
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
    """Generates a key, in base64."""
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
