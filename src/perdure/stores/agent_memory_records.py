"""The records that hold what agents remember: a text under the name of the agent and a name of its own, for each tenant."""

import msgspec

from perdure.core.record_format import decode_record_value, encode_record_value
from perdure.stores.records import RecordKey

AGENT_MEMORY = "agent_memory"
"""The kind of these records."""

TEXT_CHARACTERS_MAX = 20_000
MEMORIES_MAX = 200
"""How many memories an agent may have in a tenant."""


class AgentMemory(msgspec.Struct, frozen=True):
    """What an agent remembers under a name, and the execution that wrote it."""

    agent: str
    name: str
    text: str
    execution: str


def memory_key(tenant: str, agent: str, name: str) -> RecordKey:
    """The key of a memory; with an empty name, the beginning of the keys of all memories of an agent."""
    return RecordKey(tenant, AGENT_MEMORY, f"{agent}/{name}")


def encode_memory(memory: AgentMemory) -> bytes:
    """The value of the record of a memory."""
    return encode_record_value(msgspec.msgpack.encode(memory))


def decode_memory(value: bytes) -> AgentMemory:
    """The memory of a record.

    Raises:
        LogVersionUnsupported, LogDamaged: the record is of another version, or damaged.
    """
    return msgspec.msgpack.decode(decode_record_value(value), type=AgentMemory)
