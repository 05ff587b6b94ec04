"""The safe: secrets in a store, each encrypted with AES-256-GCM under a key that the store has not got, and bound to its tenant, its name and its version.

So none can be read, changed or moved to another place by who has the store alone. A key is changed while all goes on: the new one is put before the old
ones, `rotate` encrypts everything with it, and then the old ones may go.
"""

from typing import NamedTuple

import msgspec

from perdure.core import wire
from perdure.core.errors import BadValue, SealedPayload, SealedSecret
from perdure.service.secrets.names import checked
from perdure.stores.encryption import Encrypted
from perdure.stores.vault import Sealed, Vault

VALUE_BYTES_MAX = 64 * 1024
NO_KEY = "set PERDURE_SECRETS_KEY=id:key; perdure db key new makes a key, which is to be kept where passwords are kept"


class Kept(msgspec.Struct, frozen=True):
    """What may be known of a secret that is kept: never its value. `key_id` names the key that it is encrypted with."""

    name: str
    version: int
    set_at_s: float
    key_id: str | None


class Rotated(NamedTuple):
    """How many secrets were encrypted with the newest key, and why others could not be."""

    done: int
    refused: tuple[str, ...]


class Safe:
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
            version = 1 + max((row.version for row in await self._vault.read(tenant, checked(name))), default=0)
            if await self._vault.keep(tenant, name, version, keys.encode(value.encode(), _about(tenant, name, version))):
                return version

    async def remove(self, tenant: str, name: str) -> bool:
        """Remove a secret; return whether there was one."""
        return await self._vault.drop(tenant, name)

    async def listed(self, tenant: str) -> list[Kept]:
        """What is kept for a tenant, by name."""
        return [Kept(row.name, row.version, row.set_at_s, _key_id(row)) for row in await self._vault.read(tenant)]

    async def rotate(self) -> Rotated:
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
            done += await self._vault.keep(row.tenant, row.name, version, keys.encode(value.encode(), _about(row.tenant, row.name, version)))
        return Rotated(done, tuple(refused))

    def _opened(self, row: Sealed) -> str:
        id = _key_id(row)
        if self._keys is None or id not in self._keys.ids:
            known = "none is given here" if self._keys is None else f"given are {', '.join(self._keys.ids)}"
            raise SealedSecret(
                row.name, f"is kept encrypted with the key {id!r}, and {known}; give that one as well, behind others, in PERDURE_SECRETS_KEY", id
            )
        try:
            return self._keys.decode(row.sealed, _about(row.tenant, row.name, row.version)).decode()
        except (SealedPayload, UnicodeDecodeError):
            why = f"was changed since it was kept, or was encrypted with another key that is called {id!r}, too; give the right key, or set it anew"
            raise SealedSecret(row.name, why, id) from None

    def _must_have_keys(self) -> Encrypted:
        if self._keys is None:
            raise BadValue("PERDURE_SECRETS_KEY", "", f"a key, without which no secret is kept: {NO_KEY}")
        return self._keys


def _about(tenant: str, name: str, version: int) -> bytes:
    """Where a secret belongs: no two places are the same bytes."""
    return msgspec.json.encode(("secret", tenant, name, version))


def _key_id(row: Sealed) -> str | None:
    size = row.sealed[1] if row.sealed[:1] == wire.ENCRYPTED and len(row.sealed) > 1 else 0
    return row.sealed[2 : 2 + size].decode("utf-8", "backslashreplace") if size else None
