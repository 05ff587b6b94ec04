"""Claims about agents of the OpenAI Agents SDK in workflows: what is a step, what a crash repeats, and what runs in the workflow itself."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    LocalShellTool,
    MaxTurnsExceeded,
    Model,
    ModelResponse,
    ModelRetrySettings,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    RunConfig,
    RunContextWrapper,
    Runner,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputImage,
    TracingProcessor,
    Usage,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
    set_trace_processors,
    tool_input_guardrail,
)
from agents.items import TResponseOutputItem
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai import APIStatusError, AsyncOpenAI
from pydantic import BaseModel

from perdure import App, Context, ExecutionFailed, Resource, Retry, Signal, step, workflow
from perdure.core.errors import BadValue
from perdure.fake_llm import Fake, serving_aside
from perdure.openai_agents import PerdureRunner, current_context
from perdure.testing import World

Answer = list[TResponseOutputItem] | Exception

IDS = count(1)
"""The numbers of calls of tools, whose ids are unique in a conversation."""


class ScriptModel(Model):
    """A model that gives its n-th answer to the n-th request of a conversation, and the requests that it got."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = answers
        self.requests = list[list[Any]]()
        self.instructions = list[str | None]()

    async def get_response(self, system_instructions: str | None, input: str | list[Any], *args: Any, **kwargs: Any) -> ModelResponse:
        items: list[Any] = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        self.requests.append(items)
        self.instructions.append(system_instructions)
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
    return [function_call(name, args, call_id=f"{name}{next(IDS)}") for name, args in tools]


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


@pytest.mark.perdure(always_suspend=True)
def test_an_agent_survives_leaving_memory_at_each_wait(world: World) -> None:
    agent, model, called = shopper()

    @workflow
    async def shop(ctx: Context, wish: str) -> str:
        return str((await PerdureRunner().run(agent, wish)).final_output)

    assert world.run(shop, "Buy tea or coffee") == "tea is on the way"
    assert len(model.requests) == 3 and called == ["price tea", "price coffee", "order tea"]


@pytest.mark.perdure(crash_at="every")
def test_a_crash_at_any_write_repeats_at_most_what_was_in_flight(world: World) -> None:
    agent, model, called = shopper()

    @workflow
    async def shop(ctx: Context, wish: str) -> str:
        return str((await PerdureRunner().run(agent, wish)).final_output)

    assert world.run(shop, "Buy tea or coffee") == "tea is on the way"
    assert len(model.requests) <= 4 and len(called) <= 5 and set(called) == {"price tea", "price coffee", "order tea"}


def test_a_crash_in_a_tool_repeats_no_request(world: World) -> None:
    begun = list[str]()
    model = ScriptModel(calls(("slow", {})), says("done"))

    @function_tool
    async def slow() -> str:
        begun.append("slow")
        await asyncio.sleep(10)
        return "slept"

    agent = Agent(name="slow", model=model, tools=[slow])

    @workflow
    async def shop(ctx: Context) -> str:
        return str((await PerdureRunner().run(agent, "wait")).final_output)

    run = world.start(shop)
    world.skip("5s")
    world.crash()
    assert run.result() == "done"
    assert len(begun) == 2 and len(model.requests) == 2


def test_it_runs_in_the_engine_of_run_and_in_an_app(tmp_path: Path) -> None:
    agent, model, called = shopper()

    @workflow
    async def shop_of_run(ctx: Context, wish: str) -> str:
        return str((await PerdureRunner().run(agent, wish)).final_output)

    db = f"sqlite:///{tmp_path}/perdure.db"
    assert shop_of_run.with_(id="1", db=db).run("Buy tea or coffee") == "tea is on the way"
    assert shop_of_run.with_(id="1", db=db).run("Buy tea or coffee") == "tea is on the way"
    assert len(model.requests) == 3 and len(called) == 3
    with App([shop_of_run], db=db) as app:
        assert app.run(shop_of_run.with_(id="2"), "Buy tea or coffee") == "tea is on the way"
    assert len(model.requests) == 6


async def test_outside_of_a_workflow_it_is_the_runner_of_the_sdk() -> None:
    agent, model, _ = shopper()
    result = await PerdureRunner(approvals=True).run(agent, "Buy tea or coffee", run_config=RunConfig(tracing_disabled=True))
    assert result.final_output == "tea is on the way" and result.last_agent is agent
    assert len(model.requests) == 3 and current_context() is None


def test_the_agent_itself_stays_as_it_is(world: World) -> None:
    agent, _model, _ = shopper()
    before = (agent.model, list(agent.tools), [tool.on_invoke_tool for tool in agent.tools if hasattr(tool, "on_invoke_tool")])

    @workflow
    async def shop(ctx: Context, wish: str) -> str:
        return str((await PerdureRunner().run(agent, wish)).final_output)

    assert world.run(shop, "Buy") == "tea is on the way"
    assert before == (agent.model, list(agent.tools), [tool.on_invoke_tool for tool in agent.tools if hasattr(tool, "on_invoke_tool")])


# What a workflow refuses.


def failure_of(world: World, run: Any) -> str:
    """Runs a workflow around `run`, which gets its context; returns with what it fails."""

    @workflow
    async def failing(ctx: Context) -> None:
        await run()

    with pytest.raises(ExecutionFailed) as failed:
        world.run(failing)
    return str(failed.value)


@pytest.mark.parametrize("retries", [0, 2])
def test_the_runner_of_the_sdk_is_refused_and_the_error_names_the_right_one(world: World, retries: int) -> None:
    @function_tool
    def blocking() -> int:
        return 1

    client = AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="fake", max_retries=retries)
    agent = Agent(name="plain", model=OpenAIChatCompletionsModel("gpt-4o-mini", client), tools=[blocking])
    said = failure_of(world, lambda: Runner.run(agent, "x", run_config=RunConfig(tracing_disabled=True)))
    assert "Use PerdureRunner from perdure.openai_agents for an agent in a workflow: await PerdureRunner().run(agent, ...)" in said


def test_streams_are_refused_with_what_to_use(world: World) -> None:
    agent, _, _ = shopper()

    async def run() -> None:
        PerdureRunner().run_streamed(agent, "x")

    assert "Use PerdureRunner(on_event=...).run(agent, ...)" in failure_of(world, run)


async def _never(request: Any) -> str:
    raise AssertionError


@pytest.mark.parametrize(
    ("changed", "config", "expected"),
    [
        (
            {"model_settings": ModelSettings(timeout=5)},
            None,
            "model_settings.timeout of agent shopper can't be used in a workflow. Use PerdureRunner(model={'timeout'",
        ),
        (
            {},
            RunConfig(model_settings=ModelSettings(retry=ModelRetrySettings(max_retries=2))),
            "model_settings.retry of run_config can't be used in a workflow",
        ),
        ({"tools": [LocalShellTool(executor=_never)]}, None, "Write it as a function_tool, whose calls are steps"),
    ],
)
def test_what_would_wait_or_act_in_the_workflow_is_refused(world: World, changed: dict[str, Any], config: RunConfig | None, expected: str) -> None:
    agent = shopper()[0].clone(**changed)
    assert expected in failure_of(world, lambda: PerdureRunner().run(agent, "x", run_config=config))


@pytest.mark.parametrize("wrong", [{"retries": 3}, {"timeout": -1}, {"retry": Retry(max=0)}, {"retry": 3}, 5])
def test_wrong_options_are_refused_where_they_are_written(wrong: Any) -> None:
    with pytest.raises(BadValue, match=r"PerdureRunner\(model\)|Retry\(max\)"):
        PerdureRunner(model=wrong)
    with pytest.raises(BadValue, match=r"PerdureRunner\(tool_options\) of pay|Retry\(max\)"):
        PerdureRunner(tool_options={"pay": wrong})


# Handoffs, outputs, limits.


@pytest.mark.perdure(always_suspend=True)
def test_agents_hand_over_also_in_a_circle(world: World) -> None:
    first_model = ScriptModel(calls(("transfer_to_second", {})), [], says("done"))
    second_model = ScriptModel([], calls(("look", {})), calls(("back", {})))
    told = list[str]()

    @function_tool
    async def look() -> str:
        return "seen"

    first = Agent[Any](name="first", model=first_model)
    second = Agent[Any](
        name="second", model=second_model, tools=[look], handoffs=[handoff(first, tool_name_override="back", on_handoff=lambda c: told.append("back"))]
    )
    first.handoffs = [second]

    @workflow
    async def talk(ctx: Context) -> list[str]:
        result = await PerdureRunner().run(first, "x")
        first_again = await PerdureRunner().run(result.last_agent, "y", max_turns=1)  # a copy is as good as the agent
        return [str(result.final_output), result.last_agent.name, type(first_again.last_agent.model).__name__]

    first_model.answers = (calls(("transfer_to_second", {})), says("?"), says("?"), says("done"))

    def turn(items: list[Any]) -> int:
        return 3 if items[-1].get("content") == "y" or any("first" in str(one.get("output")) for one in items) else 0

    first_model.turn = turn  # type: ignore[method-assign]  # an answer for each way into the conversation
    run = world.start(talk)
    assert run.result() == ["done", "first", "DurableModel"]
    assert told and [name.partition("/")[2] for name in steps_of(run)] == [
        "model.request",
        "model.request#2",
        "tool:look",
        "model.request#3",
        "model.request#4",
        "model.request",
    ]


class Ticket(BaseModel):
    title: str
    urgent: bool


def test_an_output_is_of_its_type(world: World) -> None:
    agent = Agent(name="clerk", model=ScriptModel(says('{"title": "x", "urgent": true}')), output_type=Ticket)

    @workflow
    async def write(ctx: Context) -> Ticket:
        return (await PerdureRunner().run(agent, "x")).final_output_as(Ticket, raise_if_incorrect_type=True)

    assert world.run(write) == Ticket(title="x", urgent=True)


def test_a_limit_of_turns_holds(world: World) -> None:
    agent, model, _ = shopper()

    @workflow
    async def shop(ctx: Context) -> str:
        try:
            return str((await PerdureRunner().run(agent, "x", max_turns=2)).final_output)
        except MaxTurnsExceeded as error:
            return str(error)

    assert "Max turns (2) exceeded" in world.run(shop) and len(model.requests) == 2


def test_each_run_iteration_and_branch_has_names_of_its_own(world: World) -> None:
    runner, agent = PerdureRunner(), Agent(name="a", model=ScriptModel(says("yes")))

    async def ask() -> str:
        return str((await runner.run(agent, "x")).final_output)

    @workflow
    async def several(ctx: Context) -> list[str]:
        said = await asyncio.gather(ask(), ask())
        await ctx.join(lambda c: ask(), lambda c: ask())
        async for turn in ctx.loop("turns", state=0):
            await ask()
            if turn.number == 1:
                break
        await PerdureRunner(name="named").run(agent, "x")
        return [*said, await ask()]

    run = world.start(several)
    assert run.result() == ["yes"] * 3
    assert [name.removesuffix("/model.request") for name in steps_of(run)] == [
        "agent:a",
        "agent:a#2",
        "join/branch/agent:a",
        "join/branch#2/agent:a",
        "turns/~0/agent:a",
        "turns/~1/agent:a",
        "agent:named",
        "agent:a#3",
    ]


# Guardrails.


@pytest.mark.perdure(always_suspend=True)
def test_guardrails_run_in_the_workflow_and_may_use_its_verbs(world: World) -> None:
    @step
    async def is_rude(text: str) -> bool:
        return "!" in text

    judge_model = ScriptModel(says("fine"))
    judge = Agent(name="judge", model=judge_model)

    @input_guardrail
    async def polite(ctx: RunContextWrapper[Any], agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        context = current_context()
        assert context is not None
        rude = await context.step(is_rude, str(given))
        return GuardrailFunctionOutput(output_info="rude" if rude else "", tripwire_triggered=rude)

    @output_guardrail
    async def judged(ctx: RunContextWrapper[Any], agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        verdict = (await PerdureRunner().run(judge, str(output))).final_output
        return GuardrailFunctionOutput(output_info=verdict, tripwire_triggered=verdict != "fine")

    agent, _model, _ = shopper()
    agent = agent.clone(input_guardrails=[polite], output_guardrails=[judged])

    @workflow
    async def shop(ctx: Context, wish: str) -> str:
        try:
            return str((await PerdureRunner().run(agent, wish)).final_output)
        except InputGuardrailTripwireTriggered as tripped:
            return f"refused: {tripped.guardrail_result.output.output_info}"

    run = world.start(shop, "tea")
    assert run.result() == "tea is on the way" and len(judge_model.requests) == 1
    assert "agent:shopper/is_rude" in steps_of(run) and "agent:shopper/agent:judge/model.request" in steps_of(run)
    assert world.run(shop, "tea!") == "refused: rude"


# Tools.


def asked(tools: list[Any], *turns: Answer, runner: PerdureRunner | None = None, context: Any = None) -> tuple[Any, ScriptModel]:
    """A workflow that runs an agent with these tools, and the model of the agent."""
    model = ScriptModel(*turns)
    agent = Agent[Any](name="a", model=model, tools=tools)

    @workflow
    async def ask(ctx: Context) -> str:
        return str((await (runner or PerdureRunner()).run(agent, "x", context=context)).final_output)

    return ask, model


def test_a_tool_that_fails_is_attempted_again_and_then_the_model_is_told(world: World) -> None:
    failures = list[str]()

    def explain(ctx: Any, error: Exception) -> str:
        return f"{type(error).__name__}: {error}"

    @function_tool(failure_error_function=explain)
    async def flaky() -> str:
        failures.append("flaky")
        raise OSError("not now")

    @function_tool
    async def broken() -> str:
        raise OSError("the disk is full")

    ask, model = asked(
        [flaky, broken], calls(("flaky", {}), ("broken", {})), says("done"), runner=PerdureRunner(tool_options={"flaky": {"retry": Retry(max=4, wait="1s")}})
    )
    assert world.run(ask) == "done" and len(failures) == 4
    assert outputs(model.requests[1]) == ["OSError: not now", "An error occurred while running the tool. Please try again."]


@pytest.mark.perdure(always_suspend=True)
def test_a_tool_that_raises_its_errors_ends_the_run_and_the_other_tools(world: World) -> None:
    over = list[str]()

    @function_tool(failure_error_function=None)
    async def broken() -> str:
        raise OSError("the disk is full")

    @function_tool
    async def slow() -> str:
        await asyncio.sleep(60)
        over.append("slow")
        return ""

    model = ScriptModel(calls(("slow", {}), ("broken", {}), ("broken", {})), says("never"))
    agent = Agent[Any](name="a", model=model, tools=[slow, broken])

    @workflow
    async def ask(ctx: Context) -> str:
        try:
            return str((await PerdureRunner(tools={"retry": Retry(max=1)}).run(agent, "x")).final_output)
        except OSError as error:
            return str(error)

    run = world.start(ask)
    assert run.result() == "the disk is full" and over == []


def test_arguments_that_do_not_fit_are_not_attempted_again(world: World) -> None:
    @function_tool
    async def add(a: int) -> int:
        return a + 1

    ask, model = asked([add], calls(("add", {"a": "x"})), calls(("add", {"a": 1})), says("done"))
    run = world.start(ask)
    assert run.result() == "done"
    assert run.step("agent:a/tool:add").attempts == 1 and outputs(model.requests[2])[-1] == "2"


def test_the_timeout_of_a_tool_holds_in_its_step(world: World) -> None:
    @function_tool(timeout=5)
    async def slow() -> str:
        await asyncio.sleep(60)
        return ""

    ask, model = asked([slow], calls(("slow", {})), says("done"))
    assert world.run(ask) == "done" and outputs(model.requests[1]) == ["Tool 'slow' timed out after 5 seconds."]


def test_a_tool_that_must_not_run_twice_is_reported_as_interrupted(world: World) -> None:
    paid = list[int]()

    @function_tool
    async def pay() -> str:
        paid.append(1)
        await asyncio.sleep(60)
        return "paid"

    ask, model = asked([pay], calls(("pay", {})), says("I do not know"), runner=PerdureRunner(tools={"idempotent": False}))
    run = world.start(ask)
    world.skip("5s")
    world.crash()
    assert run.result() == "I do not know" and paid == [1]
    assert "not known whether it had an effect" in outputs(model.requests[1])[0]


def test_guardrails_of_a_tool_run_in_the_workflow(world: World) -> None:
    called = list[str]()

    @tool_input_guardrail
    async def no_secrets(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        assert current_context() is not None
        return ToolGuardrailFunctionOutput.reject_content("no secrets, please")

    @function_tool(tool_input_guardrails=[no_secrets])
    async def tell(text: str) -> str:
        called.append(text)
        return ""

    ask, model = asked([tell], calls(("tell", {"text": "secret"})), says("done"))
    assert world.run(ask) == "done" and called == [] and outputs(model.requests[1]) == ["no secrets, please"]


class Size(BaseModel):
    value: int


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"a": [1, None]}, "{'a': [1, None]}"),
        ((1, 2), "(1, 2)"),
        (Size(value=3), "value=3"),
        (ToolOutputImage(image_url="http://x/y"), [{"type": "input_image", "image_url": "http://x/y"}]),
        (
            [ToolOutputImage(image_url="http://x/y"), {"type": "text", "text": "z"}],
            [{"type": "input_image", "image_url": "http://x/y"}, {"type": "input_text", "text": "z"}],
        ),
    ],
)
def test_the_model_gets_the_output_of_a_tool_as_it_would_from_the_sdk(world: World, output: Any, expected: Any) -> None:
    @function_tool
    async def give() -> Any:
        return output

    ask, model = asked([give], calls(("give", {})), says("done"))
    assert world.run(ask) == "done" and outputs(model.requests[1]) == [expected]


def test_a_tool_that_is_no_step_may_use_the_verbs_of_the_workflow(world: World) -> None:
    told = Signal("told", str)

    @function_tool
    async def ask_customer(question: str) -> str:
        context = current_context()
        assert context is not None
        return await context.listen(told, timeout="1d")

    ask, model = asked(
        [ask_customer], calls(("ask_customer", {"question": "why?"})), says("because"), runner=PerdureRunner(tool_options={"ask_customer": False})
    )
    run = world.start(ask)
    assert run.status == "waiting"
    run.send(told, "so")
    assert run.result() == "because" and outputs(model.requests[1]) == ["so"]


def test_a_tool_that_is_no_step_and_does_io_fails_the_run_and_not_only_the_tool(world: World) -> None:
    @function_tool
    def blocking() -> str:
        return ""

    ask, _ = asked([blocking], calls(("blocking", {})), says("never"), runner=PerdureRunner(tool_options={"blocking": False}))
    with pytest.raises(ExecutionFailed, match=r"a step for such work: ctx\.step"):
        world.run(ask)


def test_an_agent_in_a_tool_is_part_of_its_step_unless_the_workflow_runs_it(world: World) -> None:
    inner_model = ScriptModel(says("42"))
    inner = Agent[Any](name="inner", model=inner_model)

    @function_tool
    async def research(topic: str) -> str:
        return str((await PerdureRunner().run(inner, topic)).final_output)

    tools = [inner.as_tool("think", "Thinks."), research]
    ask, model = asked(
        tools, calls(("think", {"input": "x"}), ("research", {"topic": "y"})), says("done"), runner=PerdureRunner(tool_options={"research": False})
    )
    run = world.start(ask)
    assert run.result() == "done" and outputs(model.requests[1]) == ["42", "42"] and len(inner_model.requests) == 2
    assert steps_of(run) == ["agent:a/model.request", "agent:a/tool:think", "agent:a/agent:inner/model.request", "agent:a/model.request#2"]


def test_an_agent_in_a_step_can_not_ask_people_and_says_so(world: World) -> None:
    @function_tool(needs_approval=True)
    async def remove() -> str:
        return ""

    inner = Agent[Any](name="inner", model=ScriptModel(calls(("remove", {}))), tools=[remove])
    ask, _ = asked([inner.as_tool("clean", "Cleans.")], calls(("clean", {"input": "x"})), says("never"))
    with pytest.raises(ExecutionFailed, match=r"PerdureRunner\(tool_options=\{'clean': False\}\)"):
        world.run(ask)


def test_the_requests_of_an_agent_in_a_tool_are_counted_on_every_replay(world: World) -> None:
    inner = Agent[Any](name="inner", model=ScriptModel(says("42")))
    model = ScriptModel(calls(("think", {"input": "x"})), says("done"))
    agent = Agent[Any](name="a", model=model, tools=[inner.as_tool("think", "Thinks.")])

    @workflow
    async def ask(ctx: Context) -> list[int]:
        usage = (await PerdureRunner().run(agent, "x")).context_wrapper.usage
        await ctx.sleep("1d")
        return [usage.requests, usage.total_tokens]

    run = world.start(ask)
    world.crash()
    assert run.result() == [3, 30]


# The context of a run.


@dataclass
class Basket:
    user: str
    items: list[str] = field(default_factory=list)
    connection: Any = None


@pytest.mark.perdure(crash_at="every")
def test_what_tools_change_in_the_context_is_the_same_after_a_crash(world: World) -> None:
    @function_tool
    async def add(ctx: RunContextWrapper[Basket], item: str) -> str:
        ctx.context.items.append(item)
        assert ctx.context.connection is lock
        return f"{ctx.context.user} has {len(ctx.context.items)}"

    lock = object()
    model = ScriptModel(calls(("add", {"item": "tea"})), calls(("add", {"item": "milk"})), says("done"))
    agent = Agent[Basket](name="a", model=model, tools=[add], instructions=lambda ctx, agent: f"In the basket: {ctx.context.items}")

    @workflow
    async def shop(ctx: Context) -> list[str]:
        basket = Basket("ada", connection=lock)
        await PerdureRunner().run(agent, "x", context=basket)
        return basket.items

    assert world.run(shop) == ["tea", "milk"]
    assert model.instructions[-1] == "In the basket: ['tea', 'milk']" and outputs(model.requests[-1]) == ["ada has 1", "ada has 2"]


def test_a_failed_attempt_changes_nothing_in_the_context(world: World) -> None:
    @function_tool
    async def add(ctx: RunContextWrapper[dict[str, int]]) -> str:
        ctx.context["tries"] += 1
        if len(tries) < 2:
            tries.append(1)
            raise OSError("not now")
        return ""

    tries, context = list[int](), {"tries": 0}
    ask, _ = asked([add], calls(("add", {})), says("done"), context=context)
    assert world.run(ask) == "done" and context == {"tries": 1}


def test_a_change_of_the_context_that_can_not_be_recorded_is_refused(world: World) -> None:
    @function_tool
    async def break_it(ctx: RunContextWrapper[dict[str, Any]]) -> str:
        ctx.context["size"] = object()
        return ""

    ask, _ = asked([break_it], calls(("break_it", {})), says("never"), context={"size": 1})
    with pytest.raises(ExecutionFailed, match="Tool break_it changed size of the context of its run to what can't be recorded"):
        world.run(ask)


def test_a_resource_is_the_context_of_tools(world: World) -> None:
    pool = Resource("pool", lambda: ["open"])

    @function_tool
    async def query(ctx: RunContextWrapper[list[str]]) -> str:
        ctx.context.append("queried")
        return ",".join(ctx.context)

    ask, model = asked([query], calls(("query", {})), says("done"), runner=PerdureRunner(context=pool))
    assert world.run(ask) == "done" and outputs(model.requests[1]) == ["open,queried"]


# Models.


def client_of(url: str) -> AsyncOpenAI:
    """A client that keeps no connection, which would outlive the loop of its engine."""
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="fake", max_retries=0, default_headers={"Connection": "close"})


def test_a_passing_failure_of_a_model_is_retried_and_a_refusal_is_not(world: World) -> None:
    fake = Fake([{"when": {}, "error": "overloaded", "times": 1}, {"when": {}, "error": "auth"}])
    with serving_aside(fake) as url:
        agent = Agent(name="a", model=OpenAIChatCompletionsModel("gpt-4o-mini", client_of(url)))

        @workflow
        async def ask(ctx: Context) -> int:
            try:
                await PerdureRunner().run(agent, "x")
            except APIStatusError as error:
                return error.status_code
            return 0

        assert ask.with_(db="memory://").run() == 401
    assert [one["status"] for one in fake.requests] == [503, 401]


def test_a_model_of_the_run_is_durable_whether_by_name_or_as_an_object(world: World) -> None:
    agent, model, _ = shopper()

    class Provider:
        def get_model(self, name: str | None) -> Model:
            assert name == "small"
            return model

        async def aclose(self) -> None: ...

    @workflow
    async def shop(ctx: Context) -> list[str]:
        named: Any = RunConfig(model="small", model_provider=Provider())  # type: ignore[arg-type]  # it has the methods
        configs = [named, RunConfig(model=model), {"model": model}]
        return [str((await PerdureRunner().run(agent.clone(model=None), "x", run_config=one)).final_output) for one in configs]

    run = world.start(shop)
    assert run.result() == ["tea is on the way"] * 3 and len(steps_of(run)) == 18


@pytest.mark.perdure(always_suspend=True)
def test_a_model_by_name_speaks_the_protocol_of_responses(world: World) -> None:
    @function_tool
    async def price(item: str) -> int:
        return 300

    script = [
        {"when": {"contains": "tea"}, "answer": {"calls": [{"name": "price", "args": {"item": "tea"}}]}},
        {"when": {"tool_result": "300", "protocol": "openai"}, "answer": "300 cents"},
    ]
    fake = Fake(script)
    with serving_aside(fake) as url:
        agent = Agent[Any](name="a", model="gpt-4o", tools=[price])
        provider = OpenAIProvider(openai_client=client_of(url))

        @workflow
        async def ask(ctx: Context) -> list[Any]:
            result = await PerdureRunner().run(agent, "tea", run_config=RunConfig(model_provider=provider))
            return [result.final_output, result.last_response_id, [item.type for item in result.new_items]]

        assert ask.with_(db="memory://").run() == ["300 cents", "resp_2", ["tool_call_item", "tool_call_output_item", "message_output_item"]]
    assert len(fake.requests) == 2


def test_a_race_that_is_lost_ends_the_agent_in_the_middle_of_its_tools(world: World) -> None:
    over = list[str]()

    @function_tool
    async def slow(name: str) -> str:
        await asyncio.sleep(600)
        over.append(name)
        return name

    model = ScriptModel(calls(("slow", {"name": "a"}), ("slow", {"name": "b"})), says("never"))
    agent = Agent[Any](name="a", model=model, tools=[slow])

    @workflow
    async def hurry(ctx: Context) -> str:
        won = await ctx.race(agent=lambda c: PerdureRunner().run(agent, "x"), late=lambda c: c.sleep("1m"))
        return won.name

    run = world.start(hurry)
    assert run.result() == "late" and over == [] and len(model.requests) == 1


def test_a_handler_gets_the_events_of_an_answer_in_the_step_of_the_request(world: World) -> None:
    seen = list[str]()

    async def show(event: Any) -> None:
        assert current_context() is None
        seen.append(event.type)

    model = ScriptedModel([ModelStep(output=[assistant_message("good morning")], usage=Usage(requests=1, input_tokens=2, output_tokens=3, total_tokens=5))])
    agent = Agent(name="a", model=model)

    @workflow
    async def ask(ctx: Context) -> list[Any]:
        result = await PerdureRunner(on_event=show).run(agent, "x")
        return [result.final_output, result.context_wrapper.usage.total_tokens]

    assert world.run(ask) == ["good morning", 5]
    assert "response.output_text.delta" in seen and seen.count("response.completed") == 1


class TraceRecorder(TracingProcessor):
    """Counts traces and spans."""

    def __init__(self) -> None:
        self.traced = list[Any]()

    def on_trace_start(self, trace: Any) -> None:
        self.traced.append(trace)

    def on_span_start(self, span: Any) -> None:
        self.traced.append(span)

    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_end(self, span: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


@pytest.fixture(autouse=True)
def traces() -> Iterator[TraceRecorder]:
    """Takes the place of the exporter, which would need the network."""
    recorder = TraceRecorder()
    set_trace_processors([recorder])
    yield recorder
    set_trace_processors([])


def test_nothing_is_traced_in_a_workflow(world: World, traces: TraceRecorder) -> None:
    inner = Agent[Any](name="inner", model=ScriptModel(says("42")))
    ask, model = asked([inner.as_tool("think", "Thinks.")], calls(("think", {"input": "x"})), says("done"))
    assert world.run(ask) == "done" and outputs(model.requests[1]) == ["42"] and traces.traced == []
    asyncio.run(Runner.run(inner, "x"))
    assert traces.traced


# Approvals.


def careful() -> tuple[Agent[Any], ScriptModel]:
    @function_tool(needs_approval=True)
    async def remove(file: str) -> str:
        return f"removed {file}"

    model = ScriptModel(calls(("remove", {"file": "a"}), ("remove", {"file": "b"})), says("done"))
    return Agent[Any](name="careful", model=model, tools=[remove]), model


@pytest.mark.perdure(always_suspend=True)
def test_a_tool_that_needs_an_approval_asks_people(world: World) -> None:
    agent, model = careful()

    @workflow
    async def ask(ctx: Context) -> str:
        runner = PerdureRunner(approvals={"assignees": ["ada"], "timeout": "2d", "on_timeout": "reject"})
        return str((await runner.run(agent, "x")).final_output)

    run = world.start(ask)
    assert run.status == "waiting_approval"
    first, _ = run.children()
    shown = first.query("approval")["request"]
    assert shown["title"] == "May careful use remove?" and shown["details"] == {"tool": "remove", "arguments": {"file": "a"}}
    run.approve(by="ada", path="agent:careful/approve:May careful use remove?")
    run.reject(by="ada", comment="keep it", path="agent:careful/approve:May careful use remove?#2")
    assert run.result() == "done" and outputs(model.requests[1]) == ["removed a", "rejected by ada: keep it"] and len(model.requests) == 2


def test_when_the_time_to_decide_is_over_the_model_is_told(world: World) -> None:
    agent, model = careful()

    @workflow
    async def ask(ctx: Context) -> str:
        return str((await PerdureRunner(approvals={"timeout": "2d", "on_timeout": "reject"}).run(agent, "x")).final_output)

    assert world.run(ask) == "done" and outputs(model.requests[1]) == ["the time to decide is over"] * 2


@pytest.mark.perdure(always_suspend=True)
def test_without_approvals_the_workflow_decides_by_its_own_means(world: World) -> None:
    agent, model = careful()
    decided = Signal("decided", bool)

    @workflow
    async def ask(ctx: Context) -> str:
        result = await PerdureRunner().run(agent, "x")
        state = result.to_state()
        for item in result.interruptions:
            if await ctx.listen(decided):
                state.approve(item)
            else:
                state.reject(item, rejection_message="no")
        return str((await PerdureRunner().run(agent, state)).final_output)

    run = world.start(ask)
    run.send(decided, True)
    run.send(decided, False)
    assert run.result() == "done" and outputs(model.requests[1]) == ["removed a", "no"]


@pytest.mark.perdure(always_suspend=True)
def test_a_tool_of_an_earlier_run_s_agent_or_state_still_ends_the_later_run(world: World) -> None:
    @function_tool(needs_approval=True, failure_error_function=None)
    async def remove() -> str:
        raise OSError("the disk is full")

    agent = Agent[Any](name="a", model=ScriptModel(calls(("remove", {})), says("never")), tools=[remove])
    once = PerdureRunner(tools={"retry": Retry(max=1)})

    @workflow
    async def ask(ctx: Context) -> list[str]:
        said = list[str]()
        result = await once.run(agent, "x")
        for starting in (agent, result.last_agent):
            again = await once.run(starting, "y")
            state = again.to_state()
            state.approve(again.interruptions[0])
            try:
                await once.run(starting, state)
            except OSError as error:
                said.append(str(error))
        return said

    assert world.run(ask) == ["the disk is full"] * 2


def test_an_agent_of_a_result_is_not_for_the_runner_of_the_sdk(world: World) -> None:
    agent, _, _ = shopper()

    async def run() -> None:
        result = await PerdureRunner().run(agent, "x")
        await Runner.run(result.last_agent, "y")

    assert "Use PerdureRunner().run(...) for it" in failure_of(world, run)


# Sessions.


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_a_session_is_read_and_written_by_steps_and_nothing_is_added_twice(world: World, tmp_path: Path) -> None:
    session = SQLiteSession(f"user-{id(world)}", tmp_path / "sessions.db")
    model = ScriptModel(says("hello"), says("again"))
    agent = Agent[Any](name="a", model=model)

    @workflow
    async def talk(ctx: Context) -> list[str]:
        return [str((await PerdureRunner().run(agent, text, session=session)).final_output) for text in ("hi", "hi again")]

    assert world.run(talk) == ["hello", "again"]
    kept = [one.get("content") for one in asyncio.run(session.get_items())]
    session.close()
    assert len(kept) == 4 and kept[0] == "hi" and kept[2] == "hi again"


def test_the_workflow_itself_can_hold_the_conversation(world: World) -> None:
    agent = Agent[Any](name="a", model=ScriptModel(says("hello"), says("again")))

    @workflow
    async def talk(ctx: Context) -> list[str]:
        first = await PerdureRunner().run(agent, "hi")
        second = await PerdureRunner().run(agent, [*first.to_input_list(), {"role": "user", "content": "more"}])
        return [str(first.final_output), str(second.final_output)]

    assert world.run(talk) == ["hello", "again"]


# The extra.


@pytest.mark.slow
def test_perdure_itself_does_not_import_the_sdk() -> None:
    code = "import sys, perdure; perdure.Agent, perdure.App; assert not [one for one in sys.modules if one == 'agents' or one.startswith('agents.')]"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_without_the_sdk_the_import_names_the_extra() -> None:
    code = "import sys; sys.modules['agents'] = None; import perdure.openai_agents"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'perdure.openai_agents needs openai-agents 0.24 or later, which is not installed. Install it: pip install "perdure[openai-agents]"' in said.stderr
