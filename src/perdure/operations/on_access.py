"""Operations on access: keys, sessions, the audit, and who asks. The parameter `caller`, like `tenant`, is filled in by what dispatches a request."""

from perdure.service import access_keys, audit, sessions
from perdure.service.access_keys import OVERLAP_S, CreatedKey, KeyDetails, KeyPage, KeyRequest
from perdure.service.audit import AuditFilter, AuditPage
from perdure.service.callers import Caller, CallerDetails, caller_details
from perdure.service.page_cursors import page_limit
from perdure.service.server_description import NO_SERVER, ServerDescription
from perdure.service.sessions import SessionPage
from perdure.service.store_access import StoreAccess


async def create_key(access: StoreAccess, caller: Caller, request: KeyRequest) -> CreatedKey:
    """Makes a key for the tenant of the caller. Its text is shown in this answer, and never again.

    Raises:
        BadName, BadValue: its name, a role, a queue or its time is not valid.
    """
    return await access_keys.create_key(access.store, caller.tenant, request, caller.subject)


async def list_keys(access: StoreAccess, tenant: str, limit: int = 100, after: str | None = None) -> KeyPage:
    """Lists the keys of a tenant in order of id, in pages of up to `limit`: their roles, ends and last uses, and not their secrets.

    Raises:
        BadValue: the limit is no number from 1 on, or `after` is not the `next` of a page.
    """
    return await access_keys.list_keys(access.store, tenant, page_limit(limit), after)


async def read_key(access: StoreAccess, tenant: str, id: str) -> KeyDetails:
    """One key: its roles, ends and last use, and not its secret.

    Raises:
        NotFound: the tenant has no such key.
    """
    return await access_keys.read_key(access.store, tenant, id)


async def revoke_key(access: StoreAccess, caller: Caller, id: str, revision: int | None = None) -> KeyDetails:
    """Revokes a key: this process accepts it no more, nor a session that it has opened, and within seconds no other does. It stays listed for 90 days.

    Raises:
        NotFound: the tenant has no such key.
        StaleRecord: it is not at the revision.
    """
    revoked = await access_keys.revoke_key(access.store, caller.tenant, id, caller.subject, revision)
    access.keys.forget(id)
    return revoked


async def rotate_key(access: StoreAccess, tenant: str, id: str, overlap_s: float = OVERLAP_S, revision: int | None = None) -> CreatedKey:
    """Gives a key a new secret, which is shown in this answer alone. The present one stays valid for `overlap_s` seconds, a day if nothing is said,
    and the sessions that it has opened end with it.

    Raises:
        NotFound: the tenant has no such key.
        StaleRecord: it is not at the revision.
        BadValue: the key was revoked or has expired, or the overlap is not valid.
    """
    rotated = await access_keys.rotate_key(access.store, tenant, id, overlap_s, revision)
    access.keys.forget(id)
    return rotated


async def list_audit(access: StoreAccess, tenant: str, which: AuditFilter, limit: int = 100, after: str | None = None) -> AuditPage:
    """Lists who did what in a tenant, newest first, in pages of up to `limit`. Starts and messages are in the logs of executions.

    Raises:
        BadValue: the limit is no number from 1 on, or `after` is not the `next` of a page.
    """
    return await audit.list_entries(access.store, tenant, which, page_limit(limit), after)


async def list_sessions(access: StoreAccess, tenant: str, subject: str | None = None, limit: int = 100, after: str | None = None) -> SessionPage:
    """Lists the sessions of browsers that have not ended, of all people of a tenant or of one, in pages of up to `limit`.

    Raises:
        BadValue: the limit is no number from 1 on, or `after` is not the `next` of a page.
    """
    return await sessions.list_sessions(access.store, tenant, subject, page_limit(limit), after)


async def revoke_session(access: StoreAccess, tenant: str, id: str) -> None:
    """Ends a session: this process accepts its cookie no more, and within seconds no other does.

    Raises:
        NotFound: the tenant has no such session, or it has ended.
    """
    await sessions.revoke_session(access.store, tenant, id)
    access.sessions.forget(id)


async def whoami(access: StoreAccess, caller: Caller, allowed: tuple[str, ...] | None = None, server: ServerDescription = NO_SERVER) -> CallerDetails:
    """Returns the caller as the service sees them: tenant, subject, roles, groups, queues, when the key, token or session ends, and the operations that they
    may call, by their names; the name of the key, and the template of the address at which logs are read.
    """
    return caller_details(caller, allowed, server.logs_url, await access_keys.key_name(access.store, caller))
