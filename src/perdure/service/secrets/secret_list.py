"""Lists the secrets of a tenant, and stores and removes those in the vault. No function here returns a value of a secret."""

import msgspec

from perdure.core.errors import BadValue, NotFound
from perdure.core.secret_masks import is_maskable
from perdure.service.secrets.secret_resolver import SecretResolver, secret_resolver_for
from perdure.service.secrets.secret_sources import checked_secret_name
from perdure.service.secrets.vault_client import VaultClient, secret_keys
from perdure.stores.protocol import Store
from perdure.stores.secret_vault import VAULT, Vault


class ListedSecret(msgspec.Struct, frozen=True):
    """A secret and its place: environment, file or store. For a stored one, its version, when it was set, and its key."""

    name: str
    place: str
    version: int | None = None
    set_at_s: float | None = None
    key_id: str | None = None


class SavedSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret that was stored: its name and version. One that is not `is_masked` is too short to be masked in the outcomes of steps. Unless `is_wiped`, its
    former value is still in a file of the database, encrypted, since a process reads that.
    """

    name: str
    version: int
    is_masked: bool
    is_wiped: bool


async def listed_secrets(client: VaultClient, resolver: SecretResolver, tenant: str) -> list[ListedSecret]:
    """The secrets of a tenant, by name; of one name, the one that takes precedence first."""
    stored = [ListedSecret(one.name, "store", one.version, one.set_at_s, one.key_id) for one in await client.listed(tenant)]
    return sorted([*(ListedSecret(name, place) for name, place in resolver.names(tenant)), *stored], key=lambda one: one.name)


async def list_secrets(store: Store, tenant: str) -> list[ListedSecret]:
    """The secrets that executions of a tenant find from this process, by name: those of its environment and files, and those in the store."""
    resolver, vault = secret_resolver_for(store), store.part(VAULT)
    if vault is None:
        return sorted((ListedSecret(*one) for one in resolver.names(tenant)), key=lambda one: one.name)
    return await listed_secrets(VaultClient(vault, secret_keys()), resolver, tenant)


async def save_secret(store: Store, tenant: str, name: str, value: str) -> SavedSecret:
    """Stores a secret, encrypted, in place of its present value.

    Raises:
        BadValue: the name is not valid, the value is empty or too long, this process has no key, or the store keeps no secrets.
    """
    vault = _vault(store)
    version = await VaultClient(vault, secret_keys()).put(tenant, checked_secret_name(name), value)
    return SavedSecret(name=name, version=version, is_masked=is_maskable(value), is_wiped=await vault.wipe())


async def remove_secret(store: Store, tenant: str, name: str) -> None:
    """Removes a stored secret.

    Raises:
        NotFound: there is none of this name in the store.
        BadValue: the name is not valid, or the store keeps no secrets.
    """
    vault = _vault(store)
    # It is looked for first, since the removal of a secret has its entry in the audit before it happens.
    if not await vault.read(tenant, checked_secret_name(name)) or not await VaultClient(vault, None).remove(tenant, name):
        raise NotFound(name, f"the store has no secret {name!r}: GET /api/secrets, or perdure secret ls, lists those that there are")
    _ = await vault.wipe()


def _vault(store: Store) -> Vault:
    vault = store.part(VAULT)
    if vault is None:
        raise BadValue("store", "", "one that keeps secrets; set them in the environment, PERDURE_SECRET_NAME, or in files, PERDURE_SECRETS_PATH")
    return vault
