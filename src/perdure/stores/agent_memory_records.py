"""The records that hold what agents remember: a text under the name of the agent and a name of its own, for each tenant."""

import msgspec

from perdure.core.errors import BadValue
from perdure.core.record_format import decode_record_value, encode_record_value
from perdure.stores.protocol import ReadOnlyStore
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord, record_position

AGENT_MEMORY = "agent_memory"
"""The kind of these records."""

TEXT_CHARACTERS_MAX = 20_000
MEMORIES_MAX = 200
"""How many memories an agent may have in a tenant."""

PAGE = 500


class AgentMemory(msgspec.Struct, frozen=True):
    """What an agent remembers under a name, and the execution that wrote it."""

    agent: str
    name: str
    text: str
    execution: str


def memory_key(tenant: str, agent: str, name: str) -> RecordKey:
    """The key of a memory.

    Raises:
        BadValue: the name contains a ``/``, which ends the name of the agent.
    """
    if "/" in name:
        raise BadValue("the name of a memory", name, "a text without a /")
    return RecordKey(tenant, AGENT_MEMORY, f"{agent}/{name}")


async def read_memories(store: ReadOnlyStore, tenant: str, agent: str) -> list[StoredRecord]:
    """The records of the memories of an agent, in order of name."""
    found, after = list[StoredRecord](), None
    while True:
        page = await store.records(RecordFilter(tenant, AGENT_MEMORY, f"{agent}/", after=after, limit=PAGE))
        # names of agents may contain a /, so keys of other agents can begin in the same way
        found += [record for record in page if record.key.key.rpartition("/")[0] == agent]
        if len(page) < PAGE:
            return found
        after = record_position(page[-1])


def encode_memory(memory: AgentMemory) -> bytes:
    """The value of the record of a memory."""
    return encode_record_value(msgspec.msgpack.encode(memory))


def decode_memory(value: bytes) -> AgentMemory:
    """The memory of a record.

    Raises:
        LogVersionUnsupported, LogDamaged: the record is of another version, or damaged.
    """
    return msgspec.msgpack.decode(decode_record_value(value), type=AgentMemory)
