"""Stores secrets in a vault, each encrypted with AES-256-GCM and bound to its tenant, name and version.

The keys are those of `PERDURE_SECRETS_KEY` or of a file, written ``id:key,id:key``; the first encrypts, and each decrypts. The store does not have them, so a
reader of the database can neither read, change nor move a secret. To rotate keys without downtime, put the new key first, call `rotate`, then drop the old.
"""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from perdure.core import payload_header
from perdure.core.errors import BadValue, SealedPayload, SealedSecret
from perdure.service.secrets.secret_sources import checked_secret_name
from perdure.stores.encryption import Encrypted, parse_keys
from perdure.stores.secret_vault import SealedValue, Vault

KEYS_VARIABLE, KEYS_FILE_VARIABLE = "PERDURE_SECRETS_KEY", "PERDURE_SECRETS_KEY_FILE"


def secret_keys(file: str | Path | None = None) -> Encrypted | None:
    """Reads the keys from `file`, else from `PERDURE_SECRETS_KEY`, else from the file that `PERDURE_SECRETS_KEY_FILE` names; None if there are none.

    Raises:
        BadValue: they cannot be read, or the package `cryptography` is not installed.
    """
    text, called = os.environ.get(KEYS_VARIABLE, ""), KEYS_VARIABLE
    if file is not None or not text.strip():
        named = file or os.environ.get(KEYS_FILE_VARIABLE)
        if not named:
            return None
        text, called = _read_key_file(Path(named)), f"the key file {named}"
    entries = [line.strip() for line in text.replace(",", "\n").splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return Encrypted(parse_keys(",".join(entries), called))


def _read_key_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or "").lower() if isinstance(error, OSError) else "it is no text"
        raise BadValue("the key file", str(file), f"one that can be read: {why}") from None


VALUE_BYTES_MAX = 64 * 1024
NO_KEY_ADVICE = "set PERDURE_SECRETS_KEY=id:key; perdure db key new makes a key, which is to be kept where passwords are kept"


class StoredSecret(msgspec.Struct, frozen=True):
    """The metadata of a stored secret, without its value. `key_id` names the key that encrypts it."""

    name: str
    version: int
    set_at_s: float
    key_id: str | None


class RotationResult(NamedTuple):
    """How many secrets were encrypted with the newest key, and the reasons why others were not."""

    done: int
    refused: tuple[str, ...]


class VaultClient:
    """The secrets in a vault. Without keys, secrets can be listed and removed, but not read or stored."""

    def __init__(self, vault: Vault, keys: Encrypted | None) -> None:
        self._vault, self._keys = vault, keys

    async def get(self, tenant: str, name: str) -> str | None:
        """The value of a secret; None if there is none.

        Raises:
            SealedSecret: it cannot be decrypted with these keys, or was altered.
        """
        return next((self._decrypted(row) for row in await self._vault.read(tenant, name)), None)

    async def put(self, tenant: str, name: str, value: str) -> int:
        """Stores a secret in place of any present value; returns its version.

        Raises:
            BadValue: the name is invalid, the value is empty or too long, or there is no key.
        """
        if not 0 < len(value.encode()) <= VALUE_BYTES_MAX:
            raise BadValue("the value of the secret", f"{len(value.encode()):,} bytes", f"1 to {VALUE_BYTES_MAX:,} bytes")
        keys = self._must_have_keys()
        while True:
            version = 1 + max((row.version for row in await self._vault.read(tenant, checked_secret_name(name))), default=0)
            if await self._vault.keep(tenant, name, version, keys.encode(value.encode(), _secret_identity(tenant, name, version))):
                return version

    async def remove(self, tenant: str, name: str) -> bool:
        """Removes a secret; returns whether there was one."""
        return await self._vault.drop(tenant, name)

    async def listed(self, tenant: str) -> list[StoredSecret]:
        """The stored secrets of a tenant, by name."""
        return [StoredSecret(row.name, row.version, row.set_at_s, _key_id(row)) for row in await self._vault.read(tenant)]

    async def rotate(self) -> RotationResult:
        """Encrypts the secrets of all tenants with the newest key, except those that use it already.

        A secret that is written concurrently keeps the new value. A secret that cannot be decrypted stays as it is.

        Raises:
            BadValue: there is no key.
        """
        keys, done, refused = self._must_have_keys(), 0, list[str]()
        for row in await self._vault.read():
            if _key_id(row) == keys.ids[0]:
                continue
            try:
                value, version = self._decrypted(row), row.version + 1
            except SealedSecret as sealed:
                refused.append(f"of the tenant {row.tenant}, {sealed}")
                continue
            done += await self._vault.keep(row.tenant, row.name, version, keys.encode(value.encode(), _secret_identity(row.tenant, row.name, version)))
        return RotationResult(done, tuple(refused))

    def _decrypted(self, row: SealedValue) -> str:
        id = _key_id(row)
        if self._keys is None or id not in self._keys.ids:
            known = "no keys" if self._keys is None else f"only the keys {', '.join(self._keys.ids)}"
            raise SealedSecret(
                row.name, f"is encrypted with the key {id!r}, and this process has {known}. Add that key, after any others, in PERDURE_SECRETS_KEY", id
            )
        try:
            return self._keys.decode(row.sealed, _secret_identity(row.tenant, row.name, row.version)).decode()
        except (SealedPayload, UnicodeDecodeError):
            why = f"was changed since it was stored, or is encrypted with a different key of the id {id!r}. Give the right key, or set the secret again"
            raise SealedSecret(row.name, why, id) from None

    def _must_have_keys(self) -> Encrypted:
        if self._keys is None:
            raise BadValue("PERDURE_SECRETS_KEY", "", f"a key, without which no secret is kept: {NO_KEY_ADVICE}")
        return self._keys


def _secret_identity(tenant: str, name: str, version: int) -> bytes:
    """The bytes that bind a secret to its place. They differ for any two places."""
    return msgspec.json.encode(("secret", tenant, name, version))


def _key_id(row: SealedValue) -> str | None:
    size = row.sealed[1] if row.sealed[:1] == payload_header.ENCRYPTED_MARKER and len(row.sealed) > 1 else 0
    return row.sealed[2 : 2 + size].decode("utf-8", "backslashreplace") if size else None
