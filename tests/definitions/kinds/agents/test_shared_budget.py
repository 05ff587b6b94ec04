"""A budget that several agents share: no call more than it allows, also after a process died; what is in flight may exceed tokens and cost."""

import asyncio
from typing import Any

import pytest

from perdure import Context, ExecutionFailed, workflow
from perdure.agent import Agent
from perdure.definitions.kinds.agents.agent_task import Budget
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ModelUsage, ToolCall
from perdure.testing import World
from tests.definitions.kinds.agents.scripted_model import deployed

USAGE = ModelUsage(input_tokens=100, output_tokens=10, cost_usd=0.01)


def look() -> str:
    """Looks."""
    return "nothing"


class Endless:
    """A model that calls tools without end; `asked` counts its requests, and `most` how many of them were in flight at once."""

    def __init__(self) -> None:
        self.asked = self.at_once = self.most = 0

    async def __call__(self, request: ChatRequest) -> ChatAnswer:
        self.asked, self.at_once = self.asked + 1, self.at_once + 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.1)
        self.at_once -= 1
        return ChatAnswer(calls=(ToolCall(f"c{self.asked}", "look"),), usage=USAGE)


def family(world: World, model: Any, budget: Budget, count: int) -> Any:
    agents: list[Agent[Any]] = [Agent(f"worker{number}", model="m", tools=[look], budget=budget, deployment=deployed(m=model)) for number in range(count)]
    world.use(*agents)

    @workflow
    async def team(ctx: Context) -> list[str]:
        return [str(outcome) for outcome in await asyncio.gather(*(ctx.call(agent, "Go") for agent in agents), return_exceptions=True)]

    return team


@pytest.mark.parametrize("always_suspend", [False, pytest.param(True, marks=pytest.mark.perdure(always_suspend=True))])
def test_calls_of_agents_side_by_side_are_counted_exactly(world: World, always_suspend: bool) -> None:
    model = Endless()
    errors = world.run(family(world, model, Budget(calls=12, shared="team"), 5))
    assert model.asked == 12 and model.most == 5
    assert len(errors) == 5 and all("exceeded_calls" in error and "of the shared budget 'team'" in error for error in errors), errors


@pytest.mark.parametrize("budget", [Budget(calls=None, cost_usd=0.1, shared="team"), Budget(calls=None, tokens=1_100, shared="team")])
def test_cost_and_tokens_are_exceeded_by_what_is_in_flight_and_no_more(world: World, budget: Budget) -> None:
    model = Endless()
    _ = world.run(family(world, model, budget, 4))
    assert 10 <= model.asked <= 10 + 4 - 1


def test_the_same_name_in_another_family_is_another_budget(world: World) -> None:
    model = Endless()
    team = family(world, model, Budget(calls=3, shared="team"), 2)
    _ = world.run(team), world.run(team)
    assert model.asked == 6


def test_an_agent_and_those_that_it_calls_share_a_budget(world: World) -> None:
    async def boss(request: ChatRequest) -> ChatAnswer:
        return ChatAnswer(calls=(ToolCall("1", "helper", {"task": "Go"}),), usage=USAGE) if len(request.messages) == 1 else ChatAnswer(text="done", usage=USAGE)

    model, budget = Endless(), Budget(calls=4, shared="all")
    helper: Agent[str] = Agent("helper", model="m", tools=[look], budget=budget, deployment=deployed(m=model))
    lead: Agent[str] = Agent("lead", model="b", tools=[helper], budget=budget, deployment=deployed(b=boss))
    with pytest.raises(ExecutionFailed, match="4 of 4 model calls of the shared budget 'all'"):
        world.run(lead, "Go")
    assert model.asked == 3


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_a_call_that_is_repeated_after_a_crash_counts_once(world: World) -> None:
    async def answering(request: ChatRequest) -> ChatAnswer:
        turn = sum(message.role == "assistant" for message in request.messages)
        return ChatAnswer(calls=(ToolCall(f"c{turn}", "look"),), usage=USAGE) if turn < 2 else ChatAnswer(text="done", usage=USAGE)

    agent: Agent[str] = Agent("worker", model="m", tools=[look], budget=Budget(calls=3, cost_usd=0.03, shared="one"), deployment=deployed(m=answering))
    assert world.run(agent, "Go") == "done"


def test_a_retry_grants_it_once_more(world: World) -> None:
    model = Endless()
    agent: Agent[str] = Agent("worker", model="m", tools=[look], budget=Budget(calls=2, shared="one"), deployment=deployed(m=model))
    run = world.start(agent, "Go")
    with pytest.raises(ExecutionFailed, match="exceeded_calls"):
        run.result()
    run.retry()
    with pytest.raises(ExecutionFailed, match="exceeded_calls"):
        run.result()
    assert model.asked == 4
