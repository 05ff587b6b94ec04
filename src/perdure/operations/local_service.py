"""Calls operations as somebody who works at this machine: on a store, where each change has an entry in the audit, or on a server, which knows its callers."""

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from perdure.service.audit import AuditedBy, audited_access
from perdure.service.callers import LOCAL, Caller
from perdure.service.service_access import ServiceAccess
from perdure.service.store_access import StoreAccess

P = ParamSpec("P")
T = TypeVar("T")


class LocalService:
    """The operations of a store or a server. `caller` is who calls them on a store: the local user, in a tenant."""

    def __init__(self, access: ServiceAccess, tenant: str) -> None:
        self.caller: Caller = msgspec.structs.replace(LOCAL, tenant=tenant)
        self.access = access

    @property
    def author(self) -> str:
        """The author of what is changed on a store. A server takes none."""
        return self.caller.subject

    def __call__(self, operation: Callable[Concatenate[StoreAccess, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Performs an operation, with the errors that it documents."""
        from perdure.operations.operation_table import BY_FUNCTION  # here, since it loads the modules of all operations

        if not isinstance(self.access, StoreAccess):
            return self.access.call(operation, *args, **kwargs)
        return audited_access(self.access, AuditedBy(self.caller, BY_FUNCTION[operation].name)).call(operation, *args, **kwargs)
