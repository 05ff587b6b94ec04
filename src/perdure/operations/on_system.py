"""The operation on the system as a whole."""

from perdure.service import system_status
from perdure.service.server_description import NO_SERVER, ServerDescription
from perdure.service.store_access import StoreAccess
from perdure.service.system_status import SystemStatus


async def status(access: StoreAccess, tenant: str, server: ServerDescription = NO_SERVER) -> SystemStatus:
    """The process that answers (version, uptime, parts, settings), its database (kind, latency, clock), and how many executions of the tenant begin and end."""
    return await system_status.system_status(access, tenant, server)
