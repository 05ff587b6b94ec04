"""The memory of agents: notes under names, which an agent writes, reads and removes by tools, and people see and remove too.

They are records of the tenant, under the name of the agent: `remember`, `recall` and `forget` are the tools. Nothing is remembered by itself, and nothing is
told to the model unless it asks. What it reads is marked as untrusted, as all results of tools are.
"""

from typing import Any

from perdure.code.declarations import Step
from perdure.code.step_environment import StepInfo, current_resources, step_info
from perdure.core.errors import Fatal, StoreUnavailable
from perdure.definitions.kinds.agents.agent_tools import AgentTool
from perdure.stores.agent_memory_records import MEMORIES_MAX, TEXT_CHARACTERS_MAX, AgentMemory, decode_memory, encode_memory, memory_key, read_memories
from perdure.stores.protocol import Post, Store
from perdure.stores.records import RecordChange, Stale, StoredRecord

CHANGES_MAX = 20
SHOWN_CHARACTERS = 200
"""How much of a text is in the list of all memories."""


async def remember(name: str, text: str) -> str:
    """Keeps a text under a name, in place of what was there."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise Fatal(f"a memory may have {TEXT_CHARACTERS_MAX:,} characters, and this one has {len(text):,}; keep less")
    store, info, agent = _place()
    if await _record(store, info, agent, name) is None and len(await _all(store, info, agent)) >= MEMORIES_MAX:
        raise Fatal(f"there are {MEMORIES_MAX} memories already; forget one first, or write to one that there is")
    execution = f"{info.execution.workflow}/{info.execution.id}"
    await _change(store, info, agent, name, encode_memory(AgentMemory(agent, name, info.mask.text(text), execution)))
    return f"kept as {name}"


async def recall(name: str = "") -> Any:
    """Returns the text under a name; without one, all names with the beginnings of their texts."""
    store, info, agent = _place()
    if not name:
        return {one.name: one.text[:SHOWN_CHARACTERS] for one in await _all(store, info, agent)}
    found = await _record(store, info, agent, name)
    if found is None:
        raise Fatal(await _unknown(store, info, agent, name))
    return decode_memory(found.value).text


async def forget(name: str) -> str:
    """Removes what is kept under a name."""
    store, info, agent = _place()
    if await _change(store, info, agent, name, None):
        return f"{name} is forgotten"
    return await _unknown(store, info, agent, name)  # not an error, as an attempt that was interrupted may have removed it


def _place() -> tuple[Store, StepInfo, str]:
    """The store, the step, and the agent under whose name the memories are: for a step of a definition, the workflow of that definition's agents."""
    store, info = current_resources.get().store, step_info()
    if store is None:
        raise Fatal("this process has no store in which an agent could remember anything")
    return store, info, info.execution.workflow


async def _record(store: Store, info: StepInfo, agent: str, name: str) -> StoredRecord | None:
    return await store.record(memory_key(info.execution.tenant, agent, name))


async def _all(store: Store, info: StepInfo, agent: str) -> list[AgentMemory]:
    return [decode_memory(one.value) for one in await read_memories(store, info.execution.tenant, agent)]


async def _unknown(store: Store, info: StepInfo, agent: str, name: str) -> str:
    known = ", ".join(one.name for one in await _all(store, info, agent)) or "none"
    return f"there is no memory {name!r}; there are: {known}"


async def _change(store: Store, info: StepInfo, agent: str, name: str, value: bytes | None) -> bool:
    """Sets or removes a memory; returns False if there is none to remove. Done again after a crash, it comes to the same."""
    for _ in range(CHANGES_MAX):
        found = await _record(store, info, agent, name)
        if found is None and value is None:
            return False
        change = RecordChange(memory_key(info.execution.tenant, agent, name), 0 if found is None else found.version, value)
        (answer,) = await store.commit([Post(records=(change,))])
        if not isinstance(answer, Stale):
            return True
    raise StoreUnavailable(f"the memory {name} of {agent} is changed by too many at once")


_NAME = {"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[^/]+$", "description": "a short name, such as the topic"}


def _tool(fn: Any, about: str, properties: dict[str, Any], required: list[str]) -> AgentTool:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return AgentTool(fn.__name__, Step(fn, name=fn.__name__, idempotent=True), about, schema)


def memory_tools() -> dict[str, AgentTool]:
    """The tools by name."""
    text = {"type": "string", "maxLength": TEXT_CHARACTERS_MAX}
    tools = (
        _tool(remember, "Keep a text under a name for later tasks, in place of what was there.", {"name": _NAME, "text": text}, ["name", "text"]),
        _tool(recall, "Read what you have kept under a name, in this or an earlier task; without a name, list all names.", {"name": _NAME}, []),
        _tool(forget, "Remove what is kept under a name.", {"name": _NAME}, ["name"]),
    )
    return {tool.name: tool for tool in tools}
