"""Who asks for an operation, and what they may do."""

from typing import Literal

import msgspec

from perdure.code.call_options import DEFAULT_TENANT

Role = Literal["viewer", "operator", "approver", "author", "admin"]
"""A viewer reads; an operator starts, sends, cancels and repairs; an approver decides on approvals; an author changes definitions and triggers; an admin does
all, and manages keys, secrets and the store.
"""


class Caller(msgspec.Struct, frozen=True):
    """Who asks: a tenant, who it is there (`subject`), and the roles and groups that they have. An admin has all roles."""

    tenant: str
    subject: str
    roles: frozenset[Role]
    groups: tuple[str, ...] = ()

    def may(self, role: Role) -> bool:
        """Whether the caller has a role."""
        return role in self.roles or "admin" in self.roles


LOCAL = Caller(DEFAULT_TENANT, "local", frozenset(("admin",)))
"""The developer at this machine."""
