"""The keys, sessions, secrets and audit for a client of sync programs.

Made from `perdure.async_administration` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.async_administration import AsyncAdministration, Entries, KeyList, Secrets, Sessions
from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.durations import Duration
from perdure.core.paths import Key
from perdure.loop_thread import LoopThread
from perdure.service.access_keys import CreatedKey, KeyDetails
from perdure.service.callers import Role
from perdure.service.secrets.secret_list import SavedSecret


class Administration:
    """The keys, sessions, secrets and audit of a tenant. See `AsyncAdministration`."""

    def __init__(self, thread: LoopThread, inner: AsyncAdministration) -> None:
        self._thread = thread
        self._inner = inner

    def create_key(
        self,
        name: str,
        roles: Iterable[Role],
        *,
        queues: Iterable[str] | None = None,
        expires: Duration | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> CreatedKey:
        """Makes a key with these roles. Its `text` is shown in this answer, and never again.

        With `queues`, it is for work in these alone. It is valid until it is revoked, or until it `expires`.

        Raises:
            BadName, BadValue: its name, a role, a queue or its time is not valid.
        """
        return self._thread.call(self._inner.create_key(name, roles, queues=queues, expires=expires, tenant=tenant))

    def keys(self, *, tenant: str = DEFAULT_TENANT) -> KeyList:
        """Lists the keys of a tenant in order of id, without their secrets. Revoked and expired ones are listed for 90 days."""
        return self._thread.call(self._inner.keys(tenant=tenant))

    def key(self, id: str, *, tenant: str = DEFAULT_TENANT) -> KeyDetails:
        """One key, without its secret.

        Raises:
            NotFound: the tenant has no such key.
        """
        return self._thread.call(self._inner.key(id, tenant=tenant))

    def rotate_key(self, id: str, *, overlap: Duration = "1d", revision: int | None = None, tenant: str = DEFAULT_TENANT) -> CreatedKey:
        """Gives a key a new secret, which is shown in this answer alone. The present one stays valid for the `overlap`; 0: not at all.

        Raises:
            NotFound: the tenant has no such key.
            StaleRecord: it is not at the `revision`, if one is given.
            BadValue: the key was revoked or has expired, or the overlap is not valid.
        """
        return self._thread.call(self._inner.rotate_key(id, overlap=overlap, revision=revision, tenant=tenant))

    def revoke_key(self, id: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> KeyDetails:
        """Revokes a key: within seconds no process accepts it, nor a session that it has opened.

        Raises:
            NotFound: the tenant has no such key.
            StaleRecord: it is not at the `revision`, if one is given.
        """
        return self._thread.call(self._inner.revoke_key(id, revision=revision, tenant=tenant))

    def sessions(self, subject: str | None = None, *, tenant: str = DEFAULT_TENANT) -> Sessions:
        """Lists the sessions of browsers that have not ended, of all people of a tenant or of one."""
        return self._thread.call(self._inner.sessions(subject, tenant=tenant))

    def revoke_session(self, id: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Ends a session: within seconds no process accepts its cookie.

        Raises:
            NotFound: the tenant has no such session, or it has ended.
        """
        self._thread.call(self._inner.revoke_session(id, tenant=tenant))

    def secrets(self, *, tenant: str = DEFAULT_TENANT) -> Secrets:
        """Lists the secrets that definitions of a tenant may read, by name, without their values: where each is, and when it was set."""
        return self._thread.call(self._inner.secrets(tenant=tenant))

    def save_secret(self, name: str, value: str, *, tenant: str = DEFAULT_TENANT) -> SavedSecret:
        """Stores a secret in place of its present value, encrypted with a key of the server, or of this process.

        Raises:
            BadValue: the name is not valid, the value is empty or too long, there is no key, or the store keeps no secrets.
        """
        return self._thread.call(self._inner.save_secret(name, value, tenant=tenant))

    def remove_secret(self, name: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Removes a stored secret.

        Raises:
            NotFound: there is none of this name in the store.
        """
        self._thread.call(self._inner.remove_secret(name, tenant=tenant))

    def audit(
        self,
        *,
        subject: str | None = None,
        operation: str | None = None,
        execution: Key | None = None,
        limit: int = 100,
        tenant: str = DEFAULT_TENANT,
    ) -> Entries:
        """Lists who did what in a tenant, newest first: by the subject of a caller, the name of an operation, and the execution that it was done to."""
        return self._thread.call(self._inner.audit(subject=subject, operation=operation, execution=execution, limit=limit, tenant=tenant))
