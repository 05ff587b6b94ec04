"""Claims about agents of the OpenAI Agents SDK in workflows: what is a step, what a crash repeats, and what runs in the workflow itself."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from agents.items import TResponseOutputItem
from agents.testing import assistant_message, function_call

from perdure import App, Context, ExecutionFailed, workflow
from perdure.openai_agents import PerdureRunner, current_context
from perdure.testing import World

Answer = list[TResponseOutputItem] | Exception


class ScriptModel(Model):
    """A model that gives its n-th answer to the n-th request of a conversation, and the requests that it got."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = answers
        self.requests = list[list[Any]]()
        self.instructions = list[str | None]()

    async def get_response(self, system_instructions: str | None, input: str | list[Any], *args: Any, **kwargs: Any) -> ModelResponse:  # type: ignore[override]
        items: list[Any] = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        self.requests.append(items)
        self.instructions.append(system_instructions)
        outputs = sum(one.get("type") in ("function_call_output",) for one in items)
        _ = outputs
        given = self.answers[self.turn(items)]
        if isinstance(given, Exception):
            raise given
        return ModelResponse(output=given, usage=Usage(requests=1, input_tokens=7, output_tokens=3, total_tokens=10), response_id=None)

    def turn(self, items: list[Any]) -> int:
        """Counts the answers in a conversation: each is a message of the assistant, or calls without anything else between them."""
        kinds = ["answer" if one.get("type") == "function_call" or one.get("role") == "assistant" else "other" for one in items]
        return sum(kind == "answer" and before == "other" for before, kind in zip(["other", *kinds], kinds, strict=False))

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def says(text: str) -> Answer:
    return [assistant_message(text)]


def calls(*tools: tuple[str, dict[str, Any]]) -> Answer:
    return [function_call(name, args, call_id=f"{name}{number}") for number, (name, args) in enumerate(tools)]


def outputs(items: list[Any]) -> list[Any]:
    return [one["output"] for one in items if one.get("type") == "function_call_output"]


def steps_of(run: Any) -> list[str]:
    return [one.path for one in run.steps() if "agent:" in one.path]


def shopper() -> tuple[Agent[Any], ScriptModel, list[str]]:
    """An agent that looks at two prices, orders the cheaper thing and says so; its model, and the calls of its tools."""
    model = ScriptModel(calls(("price", {"item": "tea"}), ("price", {"item": "coffee"})), calls(("order", {"item": "tea"})), says("tea is on the way"))
    called = list[str]()

    @function_tool
    def price(item: str) -> int:
        called.append(f"price {item}")
        return {"tea": 300, "coffee": 450}[item]

    @function_tool
    async def order(item: str) -> str:
        called.append(f"order {item}")
        return f"ordered {item}"

    return Agent(name="shopper", model=model, tools=[price, order]), model, called


def test_each_request_and_each_tool_call_is_a_step(world: World) -> None:
    agent, model, called = shopper()

    @workflow
    async def shop(ctx: Context, wish: str) -> str:
        result = await PerdureRunner().run(agent, wish)
        assert result.context_wrapper.usage.requests == 3 and result.context_wrapper.usage.total_tokens == 30
        return str(result.final_output)

    run = world.start(shop, "Buy tea or coffee")
    assert run.result() == "tea is on the way"
    assert steps_of(run) == [
        "agent:shopper/model.request",
        "agent:shopper/tool:price",
        "agent:shopper/tool:price#2",
        "agent:shopper/model.request#2",
        "agent:shopper/tool:order",
        "agent:shopper/model.request#3",
    ]
    assert len(model.requests) == 3 and called == ["price tea", "price coffee", "order tea"]
    assert outputs(model.requests[-1]) == ["300", "450", "ordered tea"]
