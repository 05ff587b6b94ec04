"""Operations on secrets: their names, places and times, and changes of those in the store. No operation returns a value."""

from perdure.service.secrets import secret_list
from perdure.service.secrets.secret_list import ListedSecret, SavedSecret
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import SecretText


async def names(access: StoreAccess, tenant: str) -> list[ListedSecret]:
    """Lists the secrets that definitions of the tenant may read, by name, without their values: where each is, and when it was set.

    Of one name, the one that takes precedence comes first. Those of the environment and of files belong to the process that answers; the tenant ``default``
    alone has them.

    Raises:
        BadValue: the keys of the process that answers are not valid.
    """
    return await secret_list.list_secrets(access.store, tenant)


async def save(access: StoreAccess, tenant: str, name: str, value: SecretText) -> SavedSecret:
    """Stores a secret in place of its present value, encrypted with a key of the process that answers. Steps have the new value within seconds.

    Raises:
        BadValue: the name is not valid, the value is empty or longer than 64 KiB, the process has no key, or the store keeps no secrets.
    """
    return await secret_list.save_secret(access.store, tenant, name, value)


async def remove(access: StoreAccess, tenant: str, name: str) -> None:
    """Removes a stored secret. Those of the environment and of files stay.

    Raises:
        NotFound: there is none of this name in the store.
        BadValue: the name is not valid, or the store keeps no secrets.
    """
    await secret_list.remove_secret(access.store, tenant, name)
