"""Resolves secrets in this order: the environment of the process, files, the store. Secrets that a definition was started with come before all of these.

Environment and files belong to the process and are visible to the tenant ``default`` only. Other tenants have the secrets in the store.
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
"""The tenant that sees the secrets of the environment and of files."""

CACHE_S = 2.0
"""How long a secret from a store is cached. That a secret is absent is not cached."""


class SecretResolver:
    """Finds the secrets of each tenant. Implements `perdure.runtime.call_secrets.TenantSecrets`; finding one may block."""

    def __init__(self, vault: VaultClient | None, files: SecretFiles | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._vault, self._files, self._clock = vault, files, clock
        self._recent: dict[tuple[str, str], tuple[float, str]] = {}

    def of(self, tenant: str) -> SecretFinder:
        """See `TenantSecrets.of`."""
        return partial(self._find, tenant)

    def places(self, tenant: str, name: str) -> list[str]:
        """The places that have a secret: environment, file and store. The first one is used.

        Raises:
            SealedSecret: it is in the store and cannot be decrypted here.
        """
        found = (
            [("environment", secret_sources.secret_from_environment), ("file", self._files.find if self._files is not None else _no_secret)]
            if tenant == PROCESS_TENANT
            else []
        )
        stored = [] if self._kept(tenant, name) is None else ["store"]
        return [where for where, find in found if find(name) is not None] + stored

    def names(self, tenant: str) -> list[tuple[str, str]]:
        """The names of the secrets in the environment and in files, each with its place: ``environment`` or ``file``."""
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
        if self._vault is None or not is_secret_name(name):
            return None
        now_s, recent = self._clock(), self._recent.get((tenant, name))
        if recent is not None and now_s < recent[0]:
            return recent[1]
        self._recent.pop((tenant, name), None)
        found = run_blocking(self._vault.get(tenant, name))
        if found is not None:
            self._recent[tenant, name] = (now_s + CACHE_S, found)
        return found


def secret_resolver_for(store: ReadOnlyStore, given: Encrypted | None = None) -> SecretResolver:
    """The resolver of this process for a store: the environment, the files of `PERDURE_SECRETS_PATH`, and the store.

    Raises:
        BadValue: the keys in the environment are invalid.
    """
    vault, path = store.part(VAULT), os.environ.get(SECRETS_PATH_VARIABLE)
    client = None if vault is None else VaultClient(vault, vault_client.secret_keys() if given is None else given)
    return SecretResolver(client, SecretFiles(Path(path)) if path else None)


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end and returns its result: in this thread or, if an event loop runs here, in another."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _no_secret(_: str) -> None:
    return None
