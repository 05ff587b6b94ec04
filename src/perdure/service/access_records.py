"""The records of access control: keys, sessions, the last use of keys, audit entries, and the directory of credentials.

A *credential* is a key or a session (see `perdure.service.credentials`). Its record is in its own tenant, so that an audit entry is in the same post. A
request names a credential by its id alone; the directory, whose records are in a reserved tenant, has the tenant of each id. It holds nothing secret.
"""

import msgspec

from perdure.service.callers import Role
from perdure.service.record_kinds import RecordKind

CREDENTIAL_TENANT = "perdure:credentials"
"""The reserved tenant of the directory."""


class KeySecret(msgspec.Struct, frozen=True):
    """A secret of a key, as it is stored. It is valid until `expires_at_s` (None: as long as the key)."""

    sha256: bytes
    expires_at_s: float | None = None


class AccessKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key, as it is stored. `secrets` has the present secret, and before it the former one of a rotation."""

    name: str
    roles: frozenset[Role]
    queues: tuple[str, ...] | None
    created_at_s: float
    created_by: str
    expires_at_s: float | None
    secrets: tuple[KeySecret, ...]
    revoked_at_s: float | None = None
    revoked_by: str = ""


class LastKeyUse(msgspec.Struct, frozen=True):
    """About when a key was last used."""

    used_at_s: float


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session, as it is stored. `elsewhere` are the roles of the person in other tenants, which they may switch to; `key_sha256` is the hash of the secret
    of the key that has opened it, if one has."""

    subject: str
    roles: frozenset[Role]
    groups: tuple[str, ...]
    queues: tuple[str, ...] | None
    created_at_s: float
    expires_at_s: float
    sha256: bytes
    address: str = ""
    agent: str = ""
    elsewhere: dict[str, frozenset[Role]] = {}
    key_sha256: bytes = b""


class AuditTarget(msgspec.Struct, frozen=True):
    """What an operation changed: the `kind` of the record (or ``execution``, ``queue``, ``secret``, ``store``), its key, and how.

    An execution is ``workflow/id``, both percent-encoded. `change` is created, changed or removed of a record; of an execution the name of the message to
    it, such as ``cancel``, or the status that it got at once. `version` is the one that a record has from then on.
    """

    kind: str
    key: str
    change: str
    version: int | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, as it is stored. `more` is the number of targets that are left out; `address` the network address of the caller, if there is one."""

    at_s: float
    subject: str
    operation: str
    address: str
    targets: tuple[AuditTarget, ...]
    more: int = 0


class DirectoryEntry(msgspec.Struct, frozen=True):
    """The tenant of a credential."""

    tenant: str


KEYS = RecordKind("access key", AccessKey, expires=True)
"""Keys by their ids."""

KEY_USES = RecordKind("access key use", LastKeyUse, audited=False, expires=True)
"""The last use of each key, by its id. It is no change that a person makes."""

SESSIONS = RecordKind("session", Session, expires=True)
"""Sessions by their ids."""

AUDIT_ENTRIES = RecordKind("audit entry", AuditEntry, audited=False, expires=True)
"""Entries, the newest first in order of key. Only `AuditedStore` adds them; a change of one is refused."""

CREDENTIALS = RecordKind("credential", DirectoryEntry, audited=False, expires=True)
"""The directory, by the ids of keys and sessions. It follows from changes that have an entry."""
