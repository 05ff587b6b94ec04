"""Callers of operations, and what they may do."""

from typing import Literal, get_args

import msgspec

from perdure.code.call_options import DEFAULT_TENANT
from perdure.core.errors import BadValue, Forbidden, Unauthenticated

Role = Literal["viewer", "operator", "approver", "author", "admin"]
"""A viewer reads; an operator starts, sends, cancels, retries and requeues; an approver decides on approvals; an author changes definitions and triggers; an
admin has all roles, and manages keys, secrets, people, queues and upkeep.
"""

ROLES: tuple[Role, ...] = get_args(Role)

SIGNED_IN, PROGRAM = "oidc:", "key:"
"""How the subjects begin of somebody who has signed in, before the name that their issuer gives them, and of a program, before the id of its key."""


class Caller(msgspec.Struct, frozen=True):
    """A caller: a tenant, who it is there (`subject`, such as ``key:AbC123xy`` or ``oidc:ada@example.com``), and the roles and groups that they have.

    `queues` limits a worker to tasks of these queues (None: all). From `expires_at_s` on, the caller has to prove again who they are.
    """

    tenant: str
    subject: str
    roles: frozenset[Role]
    groups: tuple[str, ...] = ()
    queues: tuple[str, ...] | None = None
    expires_at_s: float | None = None

    def may(self, role: Role) -> bool:
        """Is true if the caller has a role. An admin has all roles."""
        return role in self.roles or "admin" in self.roles

    def expect(self, role: Role, operation: str) -> None:
        """Checks that the caller may call an operation.

        Raises:
            Forbidden: the caller lacks the role.
        """
        if not self.may(role):
            raise Forbidden(self.subject, operation, role)

    @property
    def is_person(self) -> bool:
        """Is true of somebody who has signed in: not of a program with a key, nor of the developer at this machine."""
        return not self.subject.startswith(PROGRAM) and self.subject != LOCAL.subject

    def decides_as(self, by: str) -> str:
        """Returns the name in which the caller decides, their own if `by` is empty.

        A key is that of a program, which says for which person it decides. Somebody who has signed in decides as themselves, but for an admin.

        Raises:
            Forbidden: it is the name of another person.
        """
        own = self.subject.removeprefix(SIGNED_IN)
        if by not in ("", own, self.subject) and self.is_person and not self.may("admin"):
            raise Forbidden(self.subject, f"the decision of {by}", "admin")
        return by or own

    def expect_unexpired(self, now_s: float) -> None:
        """Checks, during a long request, that the caller still is who they have proved to be.

        Raises:
            Unauthenticated: the proof has expired.
        """
        if self.expires_at_s is not None and now_s >= self.expires_at_s:
            raise Unauthenticated(f"the key, token or session of {self.subject} has expired. Sign in again, or ask an admin for another key")


class CallerDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller is told of themselves. `operations` are the names of what they may call (None: there is no server, and no limit); what a request is about
    may still be refused. `logs_url` is the template of the address at which the logs of executions are read, empty if the service does not know one. `name` is
    that of the key, empty without one.
    """

    tenant_name: str
    subject: str
    roles: tuple[Role, ...]
    groups: tuple[str, ...]
    queues: tuple[str, ...] | None
    expires_at_s: float | None
    operations: tuple[str, ...] | None = None
    logs_url: str = ""
    name: str = ""


def caller_details(caller: Caller, operations: tuple[str, ...] | None = None, logs_url: str = "", name: str = "") -> CallerDetails:
    """What is shown of a caller; roles are in the order of the alphabet."""
    return CallerDetails(
        tenant_name=caller.tenant,
        subject=caller.subject,
        roles=tuple(sorted(caller.roles)),
        groups=caller.groups,
        queues=caller.queues,
        expires_at_s=caller.expires_at_s,
        operations=operations,
        logs_url=logs_url,
        name=name,
    )


LOCAL = Caller(DEFAULT_TENANT, "local", frozenset(("admin",)))
"""The developer at this machine, who has all roles in the default tenant."""


def checked_roles(names: object) -> frozenset[Role]:
    """Returns roles by their names; at least one.

    Raises:
        BadValue: a name is not that of a role, or there is none.
    """
    if not isinstance(names, list | tuple | set | frozenset) or not names or not all(name in ROLES for name in names):
        raise BadValue("roles", sorted(map(str, names)) if isinstance(names, set | frozenset) else names, f"one or several of {', '.join(ROLES)}")
    return frozenset(names)
