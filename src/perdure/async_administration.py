"""The asyncio interface of a client to access: the keys, sessions, secrets and audit of a tenant.

It holds no rules, but gives `perdure.operations.on_access` and `on_secrets` their typed interface. `perdure.sync_administration` is generated from it.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.core.paths import Key
from perdure.operations import on_access, on_secrets
from perdure.operations.local_service import LocalService
from perdure.service.access_keys import CreatedKey, KeyDetails, KeyRequest
from perdure.service.audit import AuditFilter, ListedEntry, execution_text
from perdure.service.callers import Role
from perdure.service.page_cursors import PAGE_MAX
from perdure.service.secrets.secret_list import ListedSecret, SavedSecret
from perdure.service.service_access import ServiceAccess
from perdure.service.sessions import SessionDetails

KeyList = list[KeyDetails]
Sessions = list[SessionDetails]
Entries = list[ListedEntry]
Secrets = list[ListedSecret]


class AsyncAdministration:
    """The keys, sessions, secrets and audit of a tenant. It is the client's `administration`.

    A client of a store may do all of this in every tenant; one of a server needs the role admin, and is in the tenant of its key.
    """

    def __init__(self, access: ServiceAccess) -> None:
        self._access = access

    def _service(self, tenant: str) -> LocalService:
        return LocalService(self._access, checked_name(tenant, "tenant"))

    async def create_key(
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
        call, valid_s = self._service(tenant), None if expires is None else duration_seconds(expires, "expires")
        request = KeyRequest(name=name, roles=tuple(roles), queues=None if queues is None else tuple(queues), valid_s=valid_s)
        return await call(on_access.create_key, call.caller, request)

    async def keys(self, *, tenant: str = DEFAULT_TENANT) -> KeyList:
        """Lists the keys of a tenant in order of id, without their secrets. Revoked and expired ones are listed for 90 days."""
        found: KeyList = []
        call, after = self._service(tenant), None
        while True:
            page = await call(on_access.list_keys, tenant, PAGE_MAX, after)
            found += page.items
            if (after := page.next) is None:
                return found

    async def key(self, id: str, *, tenant: str = DEFAULT_TENANT) -> KeyDetails:
        """One key, without its secret.

        Raises:
            NotFound: the tenant has no such key.
        """
        return await self._service(tenant)(on_access.read_key, tenant, id)

    async def rotate_key(self, id: str, *, overlap: Duration = "1d", revision: int | None = None, tenant: str = DEFAULT_TENANT) -> CreatedKey:
        """Gives a key a new secret, which is shown in this answer alone. The present one stays valid for the `overlap`; 0: not at all.

        Raises:
            NotFound: the tenant has no such key.
            StaleRecord: it is not at the `revision`, if one is given.
            BadValue: the key was revoked or has expired, or the overlap is not valid.
        """
        overlap_s = 0.0 if overlap == 0 else duration_seconds(overlap, "overlap")
        return await self._service(tenant)(on_access.rotate_key, tenant, id, overlap_s, revision)

    async def revoke_key(self, id: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> KeyDetails:
        """Revokes a key: within seconds no process accepts it, nor a session that it has opened.

        Raises:
            NotFound: the tenant has no such key.
            StaleRecord: it is not at the `revision`, if one is given.
        """
        call = self._service(tenant)
        return await call(on_access.revoke_key, call.caller, id, revision)

    async def sessions(self, subject: str | None = None, *, tenant: str = DEFAULT_TENANT) -> Sessions:
        """Lists the sessions of browsers that have not ended, of all people of a tenant or of one."""
        found: Sessions = []
        call, after = self._service(tenant), None
        while True:
            page = await call(on_access.list_sessions, tenant, subject, PAGE_MAX, after)
            found += page.items
            if (after := page.next) is None:
                return found

    async def revoke_session(self, id: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Ends a session: within seconds no process accepts its cookie.

        Raises:
            NotFound: the tenant has no such session, or it has ended.
        """
        await self._service(tenant)(on_access.revoke_session, tenant, id)

    async def secrets(self, *, tenant: str = DEFAULT_TENANT) -> Secrets:
        """Lists the secrets that definitions of a tenant may read, by name, without their values: where each is, and when it was set."""
        return await self._service(tenant)(on_secrets.names, tenant)

    async def save_secret(self, name: str, value: str, *, tenant: str = DEFAULT_TENANT) -> SavedSecret:
        """Stores a secret in place of its present value, encrypted with a key of the server, or of this process.

        Raises:
            BadValue: the name is not valid, the value is empty or too long, there is no key, or the store keeps no secrets.
        """
        return await self._service(tenant)(on_secrets.save, tenant, name, value)

    async def remove_secret(self, name: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Removes a stored secret.

        Raises:
            NotFound: there is none of this name in the store.
        """
        await self._service(tenant)(on_secrets.remove, tenant, name)

    async def audit(
        self,
        *,
        subject: str | None = None,
        operation: str | None = None,
        execution: Key | None = None,
        limit: int = 100,
        tenant: str = DEFAULT_TENANT,
    ) -> Entries:
        """Lists who did what in a tenant, newest first: by the subject of a caller, the name of an operation, and the execution that it was done to."""
        found: Entries = []
        which = AuditFilter(subject=subject, operation=operation, execution=None if execution is None else execution_text(execution))
        call, after, left = self._service(tenant), None, whole_number(limit, "limit")
        while len(found) < left:
            page = await call(on_access.list_audit, tenant, which, min(left - len(found), PAGE_MAX), after)
            found += page.items
            if (after := page.next) is None:
                break
        return found
