"""The chain: where a process looks for a secret. In its environment, then in files, then in the store; what a definition was given itself goes before all.

Environment and files belong to the process, so only the tenant ``default`` is given what is in them; others have what is kept for them in the store.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from perdure.core.secret_masks import SecretFinder
from perdure.service.secrets import secret_sources, vault_client
from perdure.service.secrets.secret_sources import SecretFiles, is_secret_name
from perdure.service.secrets.vault_client import VaultClient
from perdure.stores.encryption import Encrypted
from perdure.stores.protocol import ReadOnlyStore
from perdure.stores.secret_vault import VAULT

T = TypeVar("T")

SECRETS_PATH_VARIABLE = "PERDURE_SECRETS_PATH"
PROCESS_TENANT = "default"
"""Who is given what the environment and files have."""

CACHE_S = 2.0
"""For how long what was found in a store is taken from memory; what is not there is looked for each time."""


class SecretResolver:
    """Finds the secrets of each tenant. Satisfies `perdure.runtime.call_secrets.TenantSecrets`; what it finds, it may wait for."""

    def __init__(self, safe: VaultClient | None, files: SecretFiles | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._safe, self._files, self._clock = safe, files, clock
        self._recent: dict[tuple[str, str], tuple[float, str]] = {}

    def of(self, tenant: str) -> SecretFinder:
        """See `TenantSecrets.of`."""
        return partial(self._find, tenant)

    def places(self, tenant: str, name: str) -> list[str]:
        """Where a secret is, of the places that are looked at: environment, file and store; the first is the one that is meant.

        Raises:
            SealedSecret: it is kept in the store, and can't be read here.
        """
        found = (
            [("environment", secret_sources.secret_from_environment), ("file", self._files.find if self._files is not None else _no_secret)]
            if tenant == PROCESS_TENANT
            else []
        )
        stored = [] if self._kept(tenant, name) is None else ["store"]
        return [where for where, find in found if find(name) is not None] + stored

    def names(self, tenant: str) -> list[tuple[str, str]]:
        """The names of those that the environment and files have, each with where it is: ``environment`` or ``file``."""
        if tenant != PROCESS_TENANT:
            return []
        files = [] if self._files is None else self._files.names()
        return [*((name, "environment") for name in secret_sources.secret_names_in_environment()), *((name, "file") for name in files)]

    def _find(self, tenant: str, name: str) -> str | None:
        found = None
        if tenant == PROCESS_TENANT:
            found = secret_sources.secret_from_environment(name)
            if found is None and self._files is not None:
                found = self._files.find(name)
        return self._kept(tenant, name) if found is None else found

    def _kept(self, tenant: str, name: str) -> str | None:
        if self._safe is None or not is_secret_name(name):
            return None
        now_s, recent = self._clock(), self._recent.get((tenant, name))
        if recent is not None and now_s < recent[0]:
            return recent[1]
        self._recent.pop((tenant, name), None)
        found = run_blocking(self._safe.get(tenant, name))
        if found is not None:
            self._recent[tenant, name] = (now_s + CACHE_S, found)
        return found


def secret_resolver_for(store: ReadOnlyStore, given: Encrypted | None = None) -> SecretResolver:
    """The chain of this process for a store: its environment, what `PERDURE_SECRETS_PATH` names, and what the store keeps.

    Raises:
        BadValue: the keys in the environment can't be understood.
    """
    vault, path = store.part(VAULT), os.environ.get(SECRETS_PATH_VARIABLE)
    safe = None if vault is None else VaultClient(vault, vault_client.secret_keys() if given is None else given)
    return SecretResolver(safe, SecretFiles(Path(path)) if path else None)


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """What `work` comes to, waited for in this thread; or, if an event loop runs in this one, in another."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _no_secret(_: str) -> None:
    return None
