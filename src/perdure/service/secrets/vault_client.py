"""The keys of kept secrets: those of `PERDURE_SECRETS_KEY`, or of a file, as ``id:key,id:key``; the first encrypts, each decrypts.

The safe: secrets in a store, each encrypted with AES-256-GCM under a key that the store has not got, and bound to its tenant, its name and its version.

So none can be read, changed or moved to another place by who has the store alone. A key is changed while all goes on: the new one is put before the old
ones, `rotate` encrypts everything with it, and then the old ones may go.
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
    """What encrypts with the keys that are meant: those in `file`, else of `PERDURE_SECRETS_KEY`, else in the file that `PERDURE_SECRETS_KEY_FILE` names;
    None if there are none.

    Raises:
        BadValue: they can't be read, or the package `cryptography` is not installed.
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
    """What may be known of a secret that is kept: never its value. `key_id` names the key that it is encrypted with."""

    name: str
    version: int
    set_at_s: float
    key_id: str | None


class RotationResult(NamedTuple):
    """How many secrets were encrypted with the newest key, and why others could not be."""

    done: int
    refused: tuple[str, ...]


class VaultClient:
    """The secrets in a vault. Without keys, what is there can be listed and removed, and nothing be read or kept."""

    def __init__(self, vault: Vault, keys: Encrypted | None) -> None:
        self._vault, self._keys = vault, keys

    async def get(self, tenant: str, name: str) -> str | None:
        """The value of a secret; None if there is none.

        Raises:
            SealedSecret: it can't be read with the keys that are here, or was changed.
        """
        return next((self._opened(row) for row in await self._vault.read(tenant, name)), None)

    async def put(self, tenant: str, name: str, value: str) -> int:
        """Keep a secret in the place of what was kept before; return how often it was written since it is there.

        Raises:
            BadValue: it can't be called so, is empty or too long, or there is no key.
        """
        if not 0 < len(value.encode()) <= VALUE_BYTES_MAX:
            raise BadValue("the value of the secret", f"{len(value.encode()):,} bytes", f"1 to {VALUE_BYTES_MAX:,} bytes")
        keys = self._must_have_keys()
        while True:
            version = 1 + max((row.version for row in await self._vault.read(tenant, checked_secret_name(name))), default=0)
            if await self._vault.keep(tenant, name, version, keys.encode(value.encode(), _secret_identity(tenant, name, version))):
                return version

    async def remove(self, tenant: str, name: str) -> bool:
        """Remove a secret; return whether there was one."""
        return await self._vault.drop(tenant, name)

    async def listed(self, tenant: str) -> list[StoredSecret]:
        """What is kept for a tenant, by name."""
        return [StoredSecret(row.name, row.version, row.set_at_s, _key_id(row)) for row in await self._vault.read(tenant)]

    async def rotate(self) -> RotationResult:
        """Encrypt the secrets of all tenants with the newest key, but those that are already.

        What is written meanwhile is left as it is written. What can't be read stays as it is.

        Raises:
            BadValue: there is no key.
        """
        keys, done, refused = self._must_have_keys(), 0, list[str]()
        for row in await self._vault.read():
            if _key_id(row) == keys.ids[0]:
                continue
            try:
                value, version = self._opened(row), row.version + 1
            except SealedSecret as sealed:
                refused.append(f"of the tenant {row.tenant}, {sealed}")
                continue
            done += await self._vault.keep(row.tenant, row.name, version, keys.encode(value.encode(), _secret_identity(row.tenant, row.name, version)))
        return RotationResult(done, tuple(refused))

    def _opened(self, row: SealedValue) -> str:
        id = _key_id(row)
        if self._keys is None or id not in self._keys.ids:
            known = "none is given here" if self._keys is None else f"given are {', '.join(self._keys.ids)}"
            raise SealedSecret(
                row.name, f"is kept encrypted with the key {id!r}, and {known}; give that one as well, behind others, in PERDURE_SECRETS_KEY", id
            )
        try:
            return self._keys.decode(row.sealed, _secret_identity(row.tenant, row.name, row.version)).decode()
        except (SealedPayload, UnicodeDecodeError):
            why = f"was changed since it was kept, or was encrypted with another key that is called {id!r}, too; give the right key, or set it anew"
            raise SealedSecret(row.name, why, id) from None

    def _must_have_keys(self) -> Encrypted:
        if self._keys is None:
            raise BadValue("PERDURE_SECRETS_KEY", "", f"a key, without which no secret is kept: {NO_KEY_ADVICE}")
        return self._keys


def _secret_identity(tenant: str, name: str, version: int) -> bytes:
    """Where a secret belongs: no two places are the same bytes."""
    return msgspec.json.encode(("secret", tenant, name, version))


def _key_id(row: SealedValue) -> str | None:
    size = row.sealed[1] if row.sealed[:1] == payload_header.ENCRYPTED_MARKER and len(row.sealed) > 1 else 0
    return row.sealed[2 : 2 + size].decode("utf-8", "backslashreplace") if size else None
