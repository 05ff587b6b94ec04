"""What agents remember, for people: they list it, and remove what should not be remembered."""

import msgspec

from perdure.core.errors import NotFound
from perdure.core.paths import Key
from perdure.service.record_kinds import RecordKind, post_records
from perdure.service.store_access import StoreAccess
from perdure.stores.agent_memory_records import AGENT_MEMORY, AgentMemory, memory_key, read_memories

MEMORIES = RecordKind(AGENT_MEMORY, AgentMemory)


class ShownMemory(msgspec.Struct, frozen=True):
    """What an agent remembers under a name: the text, when it was written, and by which execution, as ``workflow/id``."""

    agent: str
    name: str
    text: str
    execution: str
    changed_at_s: float


async def list_memories(access: StoreAccess, tenant: str, agent: str) -> list[ShownMemory]:
    """What an agent remembers, in order of name."""
    found = map(MEMORIES.decode, await read_memories(access.store, tenant, agent))
    return [ShownMemory(one.value.agent, one.value.name, one.value.text, one.value.execution, one.changed_at_s) for one in found]


async def remove_memory(access: StoreAccess, tenant: str, agent: str, name: str) -> None:
    """Has an agent forget what it remembers under a name.

    Raises:
        NotFound: there is nothing of this name.
        BadValue: no memory can have this name.
        StaleRecord: it was changed at the same time.
    """
    found = await MEMORIES.read(access.store, tenant, memory_key(tenant, agent, name).key)
    if found is None:
        raise NotFound(Key(tenant, agent, name), f"the agent {agent} of the tenant {tenant} remembers nothing under {name!r}")
    await post_records(access.store, [MEMORIES.change(tenant, found.key, found.version, None)])
