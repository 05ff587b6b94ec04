"""What an agent remembers under names: it writes, reads and removes it by tools, for itself and its tenant alone, and people see and remove it."""

from typing import Any

import pytest

from perdure import Client, Definition
from perdure.agent import Agent
from perdure.core.errors import BadValue, NotFound
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest
from perdure.service.agent_memories import list_memories, remove_memory
from perdure.stores.agent_memory_records import MEMORIES_MAX, PAGE, AgentMemory, encode_memory, memory_key
from perdure.stores.protocol import Post
from perdure.stores.records import RecordChange
from perdure.testing import World
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed

TOOLS = ["remember", "recall", "forget"]


def agent(script: ModelScript, name: str = "clerk") -> Agent[str]:
    return Agent(name, model="m", tools=TOOLS, deployment=deployed(m=script))


def known(world: World, name: str = "clerk", tenant: str = "default") -> dict[str, str]:
    return {one.name: one.text for one in world.call(list_memories(world.access, tenant, name))}


def test_a_later_task_reads_what_an_earlier_one_has_kept(world: World) -> None:
    scripts = list[ModelScript]()

    async def latest(request: ChatRequest) -> ChatAnswer:
        return await scripts[-1](request)

    clerk: Agent[str] = Agent("clerk", model="m", tools=TOOLS, deployment=deployed(m=latest))
    first = ModelScript([("remember", {"name": "Ada", "text": "likes tea"}), ("remember", {"name": "Bob", "text": "x" * 500})], "kept")
    scripts.append(first)
    assert world.run(clerk, "Keep it") == "kept"
    second = ModelScript([("recall", {}), ("recall", {"name": "Ada"}), ("recall", {"name": "Eve"})], [("forget", {"name": "Bob"})], [("recall", {})], "done")
    scripts.append(second)
    assert world.run(clerk, "What do you know?") == "done"
    told = [message.text for message in second.last if message.role == "tool"]
    assert told[0] == '{"Ada":"likes tea","Bob":"' + "x" * 200 + '"}' and told[1] == "likes tea" and "no memory 'Eve'; there are: Ada, Bob" in told[2]
    assert told[4] == '{"Ada":"likes tea"}' and known(world) == {"Ada": "likes tea"}


def test_other_agents_and_those_of_other_tenants_have_memories_of_their_own(world: World) -> None:
    world.run(agent(ModelScript([("remember", {"name": "a", "text": "mine"})], "kept")), "Keep it")
    other = ModelScript([("recall", {})], "nothing")
    assert world.run(agent(other, "other"), "Read") == "nothing" and other.results == [("{}", False)]
    assert known(world, tenant="acme") == {} and known(world, "other") == {}


def test_an_agent_does_not_see_the_memories_of_one_whose_name_begins_with_its_own(world: World) -> None:
    others = [AgentMemory("clerk/a", f"{number:03}", "theirs", "e") for number in range(PAGE + 1)]
    changes = [RecordChange(memory_key("default", one.agent, one.name), 0, encode_memory(one)) for one in others]
    world.call(world.access.store.commit([Post(records=(change,)) for change in changes]))
    script = ModelScript([("remember", {"name": "z", "text": "mine"})], [("recall", {})], "read")
    assert world.run(agent(script), "Keep it, and read") == "read"
    assert script.results == [('{"z":"mine"}', False)] and known(world) == {"z": "mine"} and len(known(world, "clerk/a")) == PAGE + 1
    with pytest.raises(BadValue, match="without a /"):
        world.call(remove_memory(world.access, "default", "clerk", "a/001"))


def test_forgetting_what_is_not_there_says_so(world: World) -> None:
    script = ModelScript([("remember", {"name": "a", "text": "b"})], [("forget", {"name": "c"})], "done")
    assert world.run(agent(script), "Forget it") == "done"
    assert script.results == [("there is no memory 'c'; there are: a", False)] and known(world) == {"a": "b"}


def test_agents_of_a_definition_share_those_of_their_definition(world: World) -> None:
    document = {"perdure": 1, "name": "desk", "steps": [{"id": "a", "agent": {"prompt": "Keep", "tools": TOOLS}}], "output": "@a"}
    script = ModelScript([("remember", {"name": "a", "text": "b"})], "kept")
    assert world.run(Definition.of(document, deployment=deployed(default=script))) == "kept" and known(world, "desk.agent") == {"a": "b"}


def test_there_are_bounds(world: World) -> None:
    many = ModelScript(
        *([("remember", {"name": f"{turn}-{n}", "text": "x"}) for n in range(20)] for turn in range(MEMORIES_MAX // 20)),
        [("remember", {"name": "more", "text": "x"}), ("remember", {"name": "0-0", "text": "y"}), ("remember", {"name": "long", "text": "x" * 30_000})],
        "full",
    )
    assert world.run(agent(many), "Keep all") == "full"
    (more, _), (again, is_error), (long, _) = many.results
    assert f"{MEMORIES_MAX} memories already" in more and (again, is_error) == ("kept as 0-0", False) and "at text" in long


def test_people_see_and_remove_them(world: World) -> None:
    run = world.start(agent(ModelScript([("remember", {"name": "a", "text": "b"})], "kept")), "Keep it")
    assert run.result() == "kept"
    (one,) = world.call(list_memories(world.access, "default", "clerk"))
    assert (one.agent, one.name, one.text, one.execution) == ("clerk", "a", "b", f"clerk/{run.id}")
    world.call(remove_memory(world.access, "default", "clerk", "a"))
    with pytest.raises(NotFound, match="remembers nothing under 'a'"):
        world.call(remove_memory(world.access, "default", "clerk", "a"))


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_killed_anywhere_it_remembers_the_same(world: World) -> None:
    script = ModelScript([("remember", {"name": "a", "text": "b"})], [("remember", {"name": "a", "text": "c"})], [("recall", {"name": "a"})], "done")
    assert world.run(agent(script), "Keep it") == "done"
    assert script.results == [("c", False)] and known(world) == {"a": "c"}


@pytest.mark.slow
def test_a_client_lists_and_removes(tmp_path: Any) -> None:
    db = f"sqlite:///{tmp_path}/it.db"
    clerk = agent(ModelScript([("remember", {"name": "a", "text": "b"})], "kept"))
    clerk.with_(db=db, id="1").run("Keep it")
    with Client(db) as client:
        assert [one.text for one in client.agent_memories("clerk")] == ["b"]
        client.forget_memory("clerk", "a")
        assert client.agent_memories("clerk") == []
