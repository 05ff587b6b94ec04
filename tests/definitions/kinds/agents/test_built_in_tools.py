"""Perdure's own tools for agents: pipelines, the search for tools, other agents, an interpreter, and kinds of steps as tools."""

import json
from typing import Any

import pytest

from perdure import Context, Definition, workflow
from perdure.agent import Agent
from perdure.definitions.graph.step_kind import Capabilities, Kind
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ToolCall
from perdure.testing import World
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed


def price(item: str) -> int:
    """What an item costs, in cents."""
    return len(item)


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def defined(script: ModelScript, tools: list[str], **options: Any) -> Definition:
    document = {"perdure": 1, "name": "it", "order": "listed", "steps": [{"id": "a", "agent": {"prompt": "Go", "tools": tools}}]}
    return Definition.of(document, tools=[price, weather], deployment=deployed(default=script), **options)


def test_a_pipeline_runs_as_its_kind_does_and_only_its_result_is_told(world: World) -> None:
    given: list[Any] = []

    def pipeline(config: Any, input: Any) -> Any:
        given.append((config, input))
        return [{"price": 1}]

    steps = [{"step": "table_sort", "field": "price", "order": "asc"}, {"step": "top_k", "k": 1}]
    script = ModelScript([("execute_pipeline", {"session_id": "sess-123", "pipeline": steps, "rows": [{"price": 2}, {"price": 1}]})], "1")
    assert world.run(defined(script, ["execute_pipeline"], kinds={"pipeline": pipeline})) == "1"
    assert given == [(steps, {"rows": [{"price": 2}, {"price": 1}]})] and script.results == [('[{"price":1}]', False)]


@pytest.mark.prove
@pytest.mark.perdure(crash_at="every", crashes_max=200)
def test_a_pipeline_is_counted_once_for_each_use_and_from_the_second_on_is_found_and_used_by_its_name(world: World) -> None:
    steps = [{"step": "table_sort", "field": "price", "order": "asc"}, {"step": "top_k", "k": 1}]
    once = ("execute_pipeline", {"pipeline": steps, "rows": [{"price": 2}, {"price": 1}]})

    def named(request: ChatRequest) -> ChatAnswer:
        (found,) = [one for one in json.loads(request.messages[-1].text) if "use" in one]
        return ChatAnswer(calls=(ToolCall("use", "execute_pipeline", {"use": found["use"], "rows": [{"price": 4}, {"price": 3}]}),))

    search = ("search_tools", {"query": "sort price"})
    script = ModelScript([search], [once], [once], [search], named, "ok")
    assert world.run(defined(script, ["execute_pipeline", "search_tools"])) == "ok"
    first, one, two, _, three = (message for message in script.last if message.role == "tool")
    assert all("use" not in found for found in json.loads(first.text)), "what was used once is not found yet"
    assert one.text == two.text == '[{"price":1}]'
    # by its name it may make requests that are not to be made twice: where it was interrupted, that is told
    assert three.text.startswith("interrupted") if three.is_error else three.text == '[{"price":3}]'
    world.skip("2s")  # uses are counted together
    (composite,) = [one for one in world.runs if one.key.workflow == "perdure.composite"]
    assert composite.query("uses") == (2 if three.is_error else 3)


def test_a_pipeline_that_may_not_be_done_twice_is_not(world: World) -> None:
    ran = []

    def pipeline(config: Any, input: Any) -> Any:
        ran.append(1)
        world.crash()

    kind = Kind("pipeline", pipeline, idempotent=lambda config: False)
    script = ModelScript([("execute_pipeline", {"pipeline": [{"step": "http_request", "method": "POST"}]})], "not known")
    assert world.run(defined(script, ["execute_pipeline"], kinds={"pipeline": kind})) == "not known"
    assert ran == [1] and script.results[0][0].startswith("interrupted")


def test_tools_are_found_by_words_the_best_first_and_only_those_that_may_be_used(world: World) -> None:
    script = ModelScript(
        [("search_tools", {"query": "price of an item"})], [("search_tools", {"query": "a", "limit": 1})], [("search_tools", {"query": "xyz"})], "ok"
    )
    assert world.run(defined(script, ["price", "search_tools"])) == "ok"
    found, one, nothing = (json.loads(message.text) for message in script.last if message.role == "tool")
    assert [tool["name"] for tool in found] == ["price"] and found[0]["schema"]["required"] == ["item"]
    assert len(one) == 1 and nothing == []


def test_work_is_delegated_to_another_agent_by_its_name(world: World) -> None:
    helper: Agent[str] = Agent("helper", model="h", tools=[weather], deployment=deployed(h=ModelScript([("weather", {"city": "Rome"})], "Rain")))
    script = ModelScript([("delegate_to_agent", {"agent_type": "helper", "inputs": {"task": "What is the weather?"}})], "Take an umbrella")
    run = world.start(defined(script, ["delegate_to_agent"], calls=[helper]))
    assert run.result() == "Take an umbrella" and script.results == [("Rain", False)]
    assert [one.key.workflow for one in world.runs] == ["it", "it.agent", "helper"]


def test_the_interpreter_is_the_sandboxed_python(world: World) -> None:
    def python(config: Any, input: Any) -> Any:
        return {"ran": config, "with": input}

    script = ModelScript([("delegate_to_agent", {"agent_type": "code_interpreter", "inputs": {"code": "def main(input): ...", "rows": [1]}})], "ok")
    assert world.run(defined(script, ["delegate_to_agent"], kinds={"python": python})) == "ok"
    assert json.loads(script.results[0][0]) == {"ran": "def main(input): ...", "with": {"rows": [1]}}


def test_nobody_else_can_be_delegated_to(world: World) -> None:
    script = ModelScript([("delegate_to_agent", {"agent_type": "root", "inputs": {}})], "no")
    assert world.run(defined(script, ["delegate_to_agent"], kinds={"python": lambda config, input: 1})) == "no"
    assert script.results[0][1] and "root" in script.results[0][0]


def test_a_kind_of_steps_is_a_tool_and_a_person_is_asked_if_it_says_so(world: World) -> None:
    given: list[Any] = []

    async def publish(config: Any, input: Any, env: Any) -> str:
        given.append((config, input, env))
        return "published"

    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    kind = Kind("publish", publish, title="Publish", summary="Tells the world", config=schema, capabilities=Capabilities(requires_approval=True))
    script = ModelScript([("publish", {"to": 1}), ("publish", {"to": "all"})], "done")
    run = world.start(defined(script, ["publish"], kinds={"publish": kind}))
    assert given == []
    approval = next(one for one in world.runs if one.key.workflow == "perdure.approval")
    approval.send("vote", {"by": "ada", "approve": True})
    assert run.result() == "done" and given == [({"to": "all"}, None, None)]
    assert script.results[1] == ("published", False) and "at to: 1 is not of type" in script.results[0][0]
    assert script.asked[0].tools[0].description == "Publish. Tells the world"


def test_an_agent_has_perdure_s_own_tools_by_name(world: World) -> None:
    script = ModelScript([("search_tools", {"query": "what weather"})], "found")
    agent: Agent[str] = Agent("finder", model="m", tools=["search_tools", weather], deployment=deployed(m=script))
    assert world.run(agent, "Find") == "found"
    assert '"name":"search_tools"' not in script.results[0][0] and '"name":"weather"' in script.results[0][0]


def test_a_child_that_fails_is_told_and_the_agent_goes_on(world: World) -> None:
    @workflow
    async def breaks(ctx: Context, times: int = 1) -> str:
        """Break."""
        raise ValueError("broken")

    script = ModelScript([("breaks", {})], "it broke")
    agent: Agent[str] = Agent("careful", model="m", tools=[breaks], deployment=deployed(m=script))
    assert world.run(agent, "Go") == "it broke"
    assert script.results == [("failed (failed): ValueError: broken", True)]
