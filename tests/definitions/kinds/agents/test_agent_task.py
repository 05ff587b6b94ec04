"""Budgets: what an agent may use, what ends it, and how it goes on with more; and forks, in which another model goes on from a turn."""

import asyncio
from typing import Any

import pytest

from perdure import ExecutionFailed, step
from perdure.agent import Agent
from perdure.definitions.kinds.agents.agent_task import AgentTask, Budget
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ModelUsage
from perdure.service import reruns
from perdure.testing import Run, World
from perdure.testing.immediate_calls import run_immediately
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed

LOOK: list[tuple[str, dict[str, Any]]] = [("look", {})]


@step
def look() -> str:
    """Look."""
    return "nothing yet"


def watcher(script: Any, **options: Any) -> Agent[str]:
    return Agent("watcher", model="m", deployment=deployed(m=script), **{"tools": [look], **options})


def failed(run: Run[Any]) -> tuple[str, str]:
    with pytest.raises(ExecutionFailed) as caught:
        run.result()
    return caught.value.error.type, caught.value.error.message


@pytest.mark.parametrize(
    ("budget", "kind", "said"),
    [
        (Budget(calls=2), "exceeded_calls", "2 of 2 model calls"),
        (Budget(tokens=200), "exceeded_tokens", "220 of 200 tokens"),
        (Budget(cost_usd=0.018), "exceeded_cost", "0.02 of 0.018 USD"),
    ],
)
def test_a_budget_that_is_used_up_ends_the_agent_and_a_retry_grants_it_once_more(world: World, budget: Budget, kind: str, said: str) -> None:
    script = ModelScript(LOOK, LOOK, LOOK, "seen")
    run = world.start(watcher(script, budget=budget), "Watch")
    found, why = failed(run)
    assert found == kind and said in why and len(script.asked) == 2
    run.retry()
    assert run.result() == "seen" and len(script.asked) == 4, "earlier turns are not asked again"


def test_a_cost_that_is_not_known_can_not_be_bounded(world: World) -> None:
    script = ModelScript(LOOK, "seen", usage=ModelUsage(input_tokens=1))
    kind, why = failed(world.start(watcher(script, budget=Budget(cost_usd=1)), "Watch"))
    assert kind == "exceeded_cost" and "Give the model a price" in why


def test_without_a_budget_there_are_25_calls(world: World) -> None:
    script = ModelScript(*[LOOK] * 30)
    assert failed(world.start(watcher(script), "Watch"))[0] == "exceeded_calls" and len(script.asked) == 25


@pytest.mark.parametrize("usage", [ModelUsage(), ModelUsage(input_tokens=-(10**9), output_tokens=0)], ids=["absent", "negative"])
def test_a_budget_of_tokens_holds_though_the_provider_reports_none(world: World, usage: ModelUsage) -> None:
    script = ModelScript(*[LOOK] * 30, usage=usage)
    kind, _ = failed(world.start(watcher(script, budget=Budget(calls=30, tokens=2_000)), "Watch"))
    assert kind == "exceeded_tokens" and len(script.asked) < 15


@pytest.mark.slow
def test_calls_of_tools_count_also_those_of_one_answer(world: World) -> None:
    looked = []

    @step
    def look() -> str:
        looked.append(1)
        return "nothing yet"

    greedy = ModelScript(LOOK * 2_000, "seen")
    kind, why = failed(world.start(Agent("greedy", model="m", tools=[look], deployment=deployed(m=greedy)), "Watch"))
    assert kind == "exceeded_calls" and "asks for 2,000 tools, and 0 of 250 tool calls are used" in why and not looked

    script = ModelScript(LOOK * 8, LOOK * 3, "seen")
    run = world.start(watcher(script, tools=[look], budget=Budget(tool_calls=10)), "Watch")
    kind, why = failed(run)
    assert kind == "exceeded_calls" and "asks for 3 tools, and 8 of 10 tool calls are used" in why and len(looked) == 8
    run.retry()
    assert run.result() == "seen" and len(looked) == 11 and len(script.asked) == 3, "nothing is asked or used twice"


def test_the_time_ends_a_model_call_that_hangs_and_its_tries(world: World) -> None:
    async def hang(request: ChatRequest) -> ChatAnswer:
        await asyncio.sleep(45)
        raise ConnectionError("nobody there")

    run = world.start(watcher(hang, budget=Budget(wall="1m")), "Watch")
    began = world.now
    kind, why = failed(run)
    assert kind == "deadline_exceeded" and "60 s" in why and 59 <= (world.now - began).total_seconds() <= 61


def test_the_time_ends_a_tool_that_hangs_and_a_retry_grants_it_anew(world: World) -> None:
    hangs = [True]

    @step(grace=0)
    async def wait() -> str:
        if hangs:
            await asyncio.sleep(10_000)
        return "over"

    script = ModelScript([("wait", {})], "seen")
    run = world.start(watcher(script, tools=[wait], budget=Budget(wall="1m")), "Watch")
    began = world.now
    assert failed(run)[0] == "deadline_exceeded" and (world.now - began).total_seconds() == 60
    hangs.clear()
    run.retry()
    assert run.result() == "seen" and len(script.asked) == 2


def forked(world: World, run: Run[Any], task: AgentTask, at: str | None = None) -> Run[Any]:
    key = run.key._replace(id="fork")
    raw = watcher(ModelScript()).code.codec.encode_args((task,), {}, "a task")
    run_immediately(reruns.fork_execution(world.access, run.key, reruns.RerunRequest(key=key, input=raw, from_step=at)))
    world.settle()
    return world.run_of(key)


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_a_fork_goes_on_from_a_turn_with_another_model_and_asks_no_earlier_turn_again(world: World) -> None:
    first, other = ModelScript(LOOK, "seen by m"), ModelScript("never", "seen by other")
    agent: Agent[str] = Agent("watcher", model="m", tools=[look], deployment=deployed(m=first, other=other))
    run = world.start(agent, "Watch")
    assert run.result() == "seen by m"
    asked = len(first.asked)
    fork = forked(world, run, AgentTask(prompt="Watch", model="other"), "model#2")
    assert fork.result() == "seen by other"
    assert len(first.asked) == asked and {request.model for request in other.asked} == {"other"}
    assert [message.text for message in other.last] == ["Watch", "", "nothing yet"]
    assert run.result() == "seen by m", "what was reached is never changed"


def test_a_fork_with_a_larger_budget_goes_on_where_the_smaller_one_ended(world: World) -> None:
    script = ModelScript(LOOK, LOOK, "seen")
    run = world.start(watcher(script, budget=Budget(calls=2)), "Watch")
    assert failed(run)[0] == "exceeded_calls"
    fork = forked(world, run, AgentTask(prompt="Watch", budget=Budget(calls=5)))
    assert fork.result() == "seen" and len(script.asked) == 3
