"""Claims about agents of pydantic-ai in workflows: what is a step, what a crash repeats, and what runs in the workflow itself."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext, ToolDenied
from pydantic_ai.exceptions import ApprovalRequired, ModelHTTPError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset

from perdure import App, Context, ExecutionFailed, Resource, Retry, Signal, StepFailed, workflow
from perdure.core.errors import BadValue
from perdure.pydantic_ai import AgentStepOptions, PerdureDurability, current_context
from perdure.testing import World

Answer = Callable[[list[ModelMessage], AgentInfo], ModelResponse]


def scripted(*answers: ModelResponse | Exception) -> tuple[FunctionModel, list[list[ModelMessage]]]:
    """A model that gives its n-th answer to the n-th request of a conversation, and the requests that it got."""
    requests = list[list[ModelMessage]]()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        requests.append(list(messages))
        given = answers[sum(isinstance(one, ModelResponse) for one in messages)]
        if isinstance(given, Exception):
            raise given
        return given

    return FunctionModel(answer), requests


def says(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def calls(*tools: tuple[str, dict[str, Any]]) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(name, args, tool_call_id=f"{name}{number}") for number, (name, args) in enumerate(tools)])


def tool_results(messages: list[ModelMessage]) -> list[tuple[str, Any]]:
    return [(part.tool_name, part.content) for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def steps_of(run: Any) -> list[str]:
    return [one.path for one in run.steps() if "agent:" in one.path]


def shopper(**options: Any) -> tuple[Agent[object, str], list[list[ModelMessage]], list[str]]:
    """An agent that looks at two prices, orders the cheaper thing and says so; the requests to its model, and the calls of its tools."""
    model, requests = scripted(calls(("price", {"item": "tea"}), ("price", {"item": "coffee"})), calls(("order", {"item": "tea"})), says("tea is on the way"))
    agent = Agent(model, name="shopper", capabilities=[PerdureDurability(**options)])
    called = list[str]()

    @agent.tool_plain
    def price(item: str) -> int:
        called.append(f"price {item}")
        return {"tea": 300, "coffee": 450}[item]

    @agent.tool_plain
    async def order(item: str) -> str:
        called.append(f"order {item}")
        return f"ordered {item}"

    return agent, requests, called


def test_each_request_and_each_tool_call_is_a_step(world: World) -> None:
    agent, requests, called = shopper()

    @workflow
    async def shop(ctx: Context, wish: str) -> str:
        return (await agent.run(wish)).output

    run = world.start(shop, "Buy tea or coffee")
    assert run.result() == "tea is on the way"
    assert steps_of(run) == [
        "agent:shopper/shopper__model.request",
        "agent:shopper/shopper__function_toolset__<agent>.call_tool:price",
        "agent:shopper/shopper__function_toolset__<agent>.call_tool:price#2",
        "agent:shopper/shopper__model.request#2",
        "agent:shopper/shopper__function_toolset__<agent>.call_tool:order",
        "agent:shopper/shopper__model.request#3",
    ]
    assert len(requests) == 3 and called == ["price tea", "price coffee", "order tea"]
    assert tool_results(requests[-1]) == [("price", 300), ("price", 450), ("order", "ordered tea")]


@pytest.mark.perdure(always_suspend=True)
def test_an_agent_survives_leaving_memory_at_each_wait(world: World) -> None:
    agent, requests, called = shopper()

    @workflow
    async def shop(ctx: Context, wish: str) -> str:
        return (await agent.run(wish)).output

    assert world.run(shop, "Buy tea or coffee") == "tea is on the way"
    assert len(requests) == 3 and called == ["price tea", "price coffee", "order tea"]


@pytest.mark.perdure(crash_at="every")
def test_a_crash_at_any_write_repeats_at_most_what_was_in_flight(world: World) -> None:
    agent, requests, called = shopper()

    @workflow
    async def shop(ctx: Context, wish: str) -> str:
        return (await agent.run(wish)).output

    assert world.run(shop, "Buy tea or coffee") == "tea is on the way"
    assert len(requests) <= 4 and len(called) <= 5 and set(called) == {"price tea", "price coffee", "order tea"}


def test_a_crash_in_a_tool_repeats_no_request(world: World) -> None:
    begun = list[str]()
    model, requests = scripted(calls(("slow", {})), says("done"))
    agent = Agent(model, name="slow", capabilities=[PerdureDurability()])

    @agent.tool_plain
    async def slow() -> str:
        begun.append("slow")
        await asyncio.sleep(10)
        return "slept"

    @workflow
    async def shop(ctx: Context) -> str:
        return (await agent.run("wait")).output

    run = world.start(shop)
    world.skip("5s")
    world.crash()
    assert run.result() == "done"
    assert len(begun) == 2 and len(requests) == 2


def test_it_runs_in_the_engine_of_run_and_in_an_app(tmp_path: Path) -> None:
    agent, requests, called = shopper()

    @workflow
    async def shop_of_run(ctx: Context, wish: str) -> str:
        return (await agent.run(wish)).output

    db = f"sqlite:///{tmp_path}/perdure.db"
    assert shop_of_run.with_(id="1", db=db).run("Buy tea or coffee") == "tea is on the way"
    assert shop_of_run.with_(id="1", db=db).run("Buy tea or coffee") == "tea is on the way"
    assert len(requests) == 3 and len(called) == 3
    with App([shop_of_run], db=db) as app:
        assert app.run(shop_of_run.with_(id="2"), "Buy tea or coffee") == "tea is on the way"
    assert len(requests) == 6


async def test_outside_of_a_workflow_the_agent_is_as_without_the_capability() -> None:
    agent, requests, _ = shopper(approvals=True, emits=True)
    assert (await agent.run("Buy tea or coffee")).output == "tea is on the way"
    assert len(requests) == 3 and current_context() is None


def test_an_agent_without_the_capability_is_refused_with_its_name(world: World) -> None:
    agent = Agent(TestModel(), name="plain")

    @agent.tool_plain
    def blocking() -> int:
        return 1

    @workflow
    async def shop(ctx: Context) -> str:
        return (await agent.run("x")).output

    with pytest.raises(ExecutionFailed, match=r"a workflow cannot use .*Use PerdureDurability from perdure\.pydantic_ai for an agent in a workflow"):
        world.run(shop)


def test_a_timeout_of_a_run_is_refused_because_a_replay_would_not_repeat_it(world: World) -> None:
    agent, _, _ = shopper()

    @workflow
    async def shop(ctx: Context) -> str:
        return (await agent.run("x", timeout=5)).output

    with pytest.raises(ExecutionFailed, match=r"otherwise ctx\.sleep"):
        world.run(shop)


# Output, retries of the model, and what runs in the workflow.


class Ticket(BaseModel):
    title: str
    urgent: bool


def test_an_answer_is_data_and_a_validator_may_ask_again(world: World) -> None:
    model, requests = scripted(
        calls(("final_result", {"title": "", "urgent": True})),
        calls(("final_result", {"title": "x", "urgent": 3})),
        calls(("final_result", {"title": "x", "urgent": False})),
    )
    agent = Agent(model, name="clerk", output_type=Ticket, retries=3, capabilities=[PerdureDurability()])

    @agent.instructions
    def instructions() -> str:
        return "Write tickets."

    @agent.output_validator
    def expect_title(ticket: Ticket) -> Ticket:
        if not ticket.title:
            raise ModelRetry("the title is missing")
        return ticket

    @workflow
    async def write(ctx: Context) -> Ticket:
        return (await agent.run("x")).output

    assert world.run(write) == Ticket(title="x", urgent=False)
    assert len(requests) == 3


@pytest.mark.perdure(always_suspend=True)
def test_a_tool_may_ask_the_model_to_call_it_again(world: World) -> None:
    model, requests = scripted(calls(("find", {"name": "x"})), calls(("find", {"name": "y"})), says("found"))
    agent = Agent(model, name="finder", capabilities=[PerdureDurability()])

    @agent.tool_plain
    def find(name: str) -> str:
        if name == "x":
            raise ModelRetry("there is no x")
        return "y1"

    @workflow
    async def look(ctx: Context) -> str:
        return (await agent.run("x")).output

    assert world.run(look) == "found"
    assert len(requests) == 3


def test_each_run_iteration_and_branch_has_names_of_its_own(world: World) -> None:
    agent = Agent(TestModel(custom_output_text="yes"), name="a", capabilities=[PerdureDurability()])

    @workflow
    async def several(ctx: Context) -> list[str]:
        both = await asyncio.gather(agent.run("1"), agent.run("2"))
        joined = await ctx.join(lambda c: agent.run("3"), lambda c: agent.run("4"))
        said = [one.output for one in (*both, *joined)]
        async for turn in ctx.loop("turns", state=0):
            said.append((await agent.run("5")).output)
            if turn.number == 1:
                break
        async with agent.iter("6") as nodes:
            async for _ in nodes:
                ctx.log.info("a node")
        return [*said, nodes.result.output if nodes.result else ""]

    run = world.start(several)
    assert run.result() == ["yes"] * 7
    assert [name.removesuffix("/a__model.request") for name in steps_of(run)] == [
        "agent:a",
        "agent:a#2",
        "join/branch/agent:a",
        "join/branch#2/agent:a",
        "turns/~0/agent:a",
        "turns/~1/agent:a",
        "agent:a#3",
    ]


def test_a_tool_that_is_no_step_may_use_the_verbs_of_the_workflow(world: World) -> None:
    model, requests = scripted(calls(("ask", {"question": "why?"})), says("because"))
    agent = Agent(model, name="asker", capabilities=[PerdureDurability()])
    told = Signal("told", str)

    @agent.tool_plain(metadata={"perdure": False})
    async def ask(question: str) -> str:
        context = current_context()
        assert context is not None
        return await context.listen(told, timeout="1d")

    @workflow
    async def wait(ctx: Context) -> str:
        return (await agent.run("x")).output

    run = world.start(wait)
    assert run.status == "waiting"
    run.send(told, "so")
    assert run.result() == "because" and tool_results(requests[1]) == [("ask", "so")]


# Dependencies.


class Pool:
    """What no log could hold: an open connection."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.queries = list[str]()


def test_dependencies_are_objects_of_this_process_or_a_resource(world: World) -> None:
    opened = list[Pool]()

    def open_pool() -> Pool:
        opened.append(Pool())
        return opened[-1]

    pool = Resource("pool", open_pool)
    model, requests = scripted(calls(("query", {"sql": "a"}), ("query", {"sql": "b"})), says("done"))
    agent = Agent(model, name="reader", deps_type=Pool, capabilities=[PerdureDurability(deps=pool)])

    @agent.tool
    async def query(ctx: RunContext[Pool], sql: str) -> str:
        ctx.deps.queries.append(sql)
        return sql.upper()

    @workflow
    async def read(ctx: Context) -> str:
        return (await agent.run("x")).output  # pyright: ignore[reportCallIssue, reportArgumentType]  # steps have the resource

    assert world.run(read) == "done"
    assert [one.queries for one in opened] == [["a", "b"]] and tool_results(requests[1]) == [("query", "A"), ("query", "B")]


def test_dependencies_of_a_run_reach_tools_as_they_are(world: World) -> None:
    model, requests = scripted(calls(("whose", {})), says("done"))
    agent = Agent(model, name="reader", deps_type=Pool, capabilities=[PerdureDurability()])

    @agent.tool
    def whose(ctx: RunContext[Pool]) -> list[str]:
        return ctx.deps.queries

    @workflow
    async def read(ctx: Context, user: str) -> str:
        given = Pool()
        given.queries.append(user)
        return (await agent.run("x", deps=given)).output

    assert world.run(read, "ada") == "done"
    assert tool_results(requests[1]) == [("whose", ["ada"])]


# Errors and options.


def test_a_passing_failure_of_a_model_is_retried_and_a_refusal_is_not(world: World) -> None:
    statuses = [503, 400]

    def fails(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(statuses.pop(0), "m", {"why": "busy"})

    agent = Agent(FunctionModel(fails), name="a", capabilities=[PerdureDurability()])

    @workflow
    async def ask(ctx: Context) -> str:
        try:
            return (await agent.run("x")).output
        except ModelHTTPError as error:
            return f"{error.status_code} {error.body}"

    assert world.run(ask) == "400 {'why': 'busy'}"
    assert statuses == []


def test_a_fallback_asks_the_next_model_in_the_step_of_the_request(world: World) -> None:
    first, _ = scripted(ModelHTTPError(503, "first"))
    second, _ = scripted(says("second"))
    agent = Agent(FallbackModel(first, second), name="a", capabilities=[PerdureDurability()])

    @workflow
    async def ask(ctx: Context) -> str:
        return (await agent.run("x")).output

    run = world.start(ask)
    assert run.result() == "second" and len(steps_of(run)) == 1


def test_options_are_those_of_steps_and_a_tool_may_have_its_own(world: World) -> None:
    model, _ = scripted(calls(("flaky", {})), says("done"))
    tools = AgentStepOptions(retry=Retry(max=2, wait="1s"), timeout="1m")
    agent = Agent(model, name="a", capabilities=[PerdureDurability(tools=tools)])
    failures = list[str]()

    @agent.tool_plain(metadata={"perdure": {"retry": Retry(max=4, wait="1s")}})
    async def flaky() -> str:
        if len(failures) < 3:
            failures.append("failed")
            raise OSError("not now")
        return "at last"

    @workflow
    async def ask(ctx: Context) -> str:
        return (await agent.run("x")).output

    assert world.run(ask) == "done" and len(failures) == 3


def test_a_tool_that_fails_for_good_fails_the_run_with_its_step(world: World) -> None:
    model, _ = scripted(calls(("broken", {})), says("never"))
    agent = Agent(model, name="a", capabilities=[PerdureDurability(tools={"retry": Retry(max=1)})])

    @agent.tool_plain
    async def broken() -> str:
        raise OSError("the disk is full")

    @workflow
    async def ask(ctx: Context) -> str:
        try:
            return (await agent.run("x")).output
        except StepFailed as failed:
            return f"{failed.kind}: {failed.error.message}"

    assert world.run(ask) == "exhausted: the disk is full"


def test_a_tool_that_must_not_run_twice_is_reported_as_interrupted(world: World) -> None:
    model, requests = scripted(calls(("pay", {})), says("I do not know"))
    agent = Agent(model, name="a", capabilities=[PerdureDurability()])
    paid = list[int]()

    @agent.tool_plain(metadata={"perdure": {"idempotent": False}})
    async def pay() -> str:
        paid.append(1)
        await asyncio.sleep(60)
        return "paid"

    @workflow
    async def ask(ctx: Context) -> str:
        return (await agent.run("x")).output

    run = world.start(ask)
    world.skip("5s")
    world.crash()
    assert run.result() == "I do not know" and paid == [1]
    assert "not known whether it had an effect" in str(requests[1][-1])


@pytest.mark.parametrize("wrong", [{"retries": 3}, {"timeout": -1}, {"retry": Retry(max=0)}, {"retry": 3}, 5])
def test_wrong_options_are_refused_where_they_are_written(wrong: Any) -> None:
    with pytest.raises(BadValue):
        PerdureDurability(model=wrong)


def test_wrong_options_of_a_tool_name_the_tool(world: World) -> None:
    model, _ = scripted(calls(("odd", {})), says("done"))
    agent = Agent(model, name="a", capabilities=[PerdureDurability()])

    @agent.tool_plain(metadata={"perdure": {"retries": 3}})
    async def odd() -> str:
        return ""

    @workflow
    async def ask(ctx: Context) -> str:
        return (await agent.run("x")).output

    with pytest.raises(ExecutionFailed, match="the options of tool odd"):
        world.run(ask)


def test_a_result_that_can_not_be_stored_fails_at_once_and_says_so(world: World) -> None:
    model, _ = scripted(calls(("odd", {})), says("done"))
    agent = Agent(model, name="a", capabilities=[PerdureDurability()])
    made = list[int]()

    @agent.tool_plain
    async def odd() -> Any:
        made.append(1)
        return object()

    @workflow
    async def ask(ctx: Context) -> str:
        return (await agent.run("x")).output

    with pytest.raises(ExecutionFailed, match="can't be stored"):
        world.run(ask)
    assert made == [1]


def test_a_model_of_a_run_is_one_that_was_registered(world: World) -> None:
    first, _ = scripted(says("first"))
    second, _ = scripted(says("second"))
    other, _ = scripted(says("other"))
    agent = Agent(first, name="a", capabilities=[PerdureDurability(models={"second": second})])

    @workflow
    async def ask(ctx: Context) -> list[str]:
        found = [(await agent.run("x", model=one)).output for one in (None, "second", second)]
        try:
            await agent.run("x", model=other)
        except UserError as error:
            found.append(str(error)[:40])
        return found

    found = world.run(ask)
    assert found[:3] == ["first", "second", "second"] and "models=" not in found[:3] and len(found) == 4


def test_a_toolset_of_a_run_is_refused(world: World) -> None:
    agent = Agent(TestModel(), name="a", capabilities=[PerdureDurability()])
    late: FunctionToolset[object] = FunctionToolset(id="late")

    @workflow
    async def ask(ctx: Context) -> str:
        return (await agent.run("x", toolsets=[late])).output

    @late.tool_plain
    def never() -> str:
        return ""

    with pytest.raises(ExecutionFailed, match="Perdure"):
        world.run(ask)


def test_an_agent_needs_a_name() -> None:
    with pytest.raises(UserError, match="unique `name`"):
        Agent(TestModel(), capabilities=[PerdureDurability()])


def test_a_toolset_that_is_made_for_each_step_is_discovered_in_a_step(world: World) -> None:
    model, requests = scripted(calls(("hello", {"who": "ada"})), says("done"))

    def hello(who: str) -> str:
        return f"hello {who}"

    def made(ctx: RunContext[object]) -> FunctionToolset[object]:
        assert current_context() is None
        return FunctionToolset([hello], id="inner")

    agent = Agent(model, name="a", toolsets=[DynamicToolset(made, id="made")], capabilities=[PerdureDurability()])

    @workflow
    async def ask(ctx: Context) -> str:
        return (await agent.run("x")).output

    run = world.start(ask)
    assert run.result() == "done" and tool_results(requests[1]) == [("hello", "hello ada")]


# Approvals.


def careful(**options: Any) -> Agent[object, str | DeferredToolRequests]:
    def last(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        results = tool_results(messages)
        return calls(("remove", {"file": "a"}), ("remove", {"file": "b"})) if not results else says(str(results))

    agent = Agent(FunctionModel(last), name="careful", output_type=[str, DeferredToolRequests], capabilities=[PerdureDurability(**options)])

    @agent.tool
    def remove(ctx: RunContext[object], file: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired({"size": 7})
        return f"removed {file}"

    return agent


@pytest.mark.perdure(always_suspend=True)
def test_a_tool_that_requires_approval_asks_people(world: World) -> None:
    agent = careful(approvals={"assignees": ["ada"], "timeout": "2d", "on_timeout": "reject"})

    @workflow
    async def ask(ctx: Context) -> str:
        output = (await agent.run("x")).output
        assert isinstance(output, str)
        return output

    run = world.start(ask)
    assert run.status == "waiting_approval"
    first, _ = run.children()
    shown = first.query("approval")["request"]
    assert shown["title"] == "May careful use remove?" and shown["details"] == {"tool": "remove", "arguments": {"file": "a"}, "metadata": {"size": 7}}
    run.approve(by="ada", path="agent:careful/approve:May careful use remove?")
    run.reject(by="ada", comment="keep it", path="agent:careful/approve:May careful use remove?#2")
    assert run.result() == "[('remove', 'removed a'), ('remove', 'rejected by ada: keep it')]"


def test_when_the_time_to_decide_is_over_the_model_is_told(world: World) -> None:
    agent = careful(approvals={"timeout": "2d", "on_timeout": "reject"})

    @workflow
    async def ask(ctx: Context) -> str:
        output = (await agent.run("x")).output
        assert isinstance(output, str)
        return output

    assert world.run(ask) == "[('remove', 'the time to decide is over'), ('remove', 'the time to decide is over')]"


def test_without_approvals_the_workflow_gets_the_requests(world: World) -> None:
    agent = careful()

    @workflow
    async def ask(ctx: Context) -> str:
        first = await agent.run("x")
        assert isinstance(first.output, DeferredToolRequests)
        decided = DeferredToolResults(approvals={one.tool_call_id: ToolDenied("no") for one in first.output.approvals})
        output = (await agent.run(message_history=first.all_messages(), deferred_tool_results=decided)).output
        assert isinstance(output, str)
        return output

    assert world.run(ask) == "[('remove', 'no'), ('remove', 'no')]"


# Events.


async def streamed(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
    if len(messages) == 1:
        yield {0: DeltaToolCall(name="add", json_args='{"a": 1}', tool_call_id="1")}
    else:
        for word in ("it ", "is ", "two"):
            yield word


def counter(seen: list[str], **options: Any) -> Agent[object, str]:
    async def handle(ctx: RunContext[object], events: AsyncIterable[Any]) -> None:
        assert current_context() is None
        seen.extend([event.event_kind async for event in events])

    agent = Agent(FunctionModel(stream_function=streamed), name="counter", capabilities=[PerdureDurability(event_stream_handler=handle, **options)])

    @agent.tool_plain
    def add(a: int) -> int:
        return a + 1

    return agent


@pytest.mark.perdure(always_suspend=True)
def test_a_handler_sees_the_chunks_of_an_answer_in_the_step_of_the_request(world: World) -> None:
    seen = list[str]()
    agent = counter(seen)

    @workflow
    async def count(ctx: Context) -> str:
        return (await agent.run("x")).output

    run = world.start(count)
    assert run.result() == "it is two"
    assert seen.count("part_delta") == 2 and seen.count("function_tool_call") == 1 and seen.count("function_tool_result") == 1
    assert list(run.stream()) == []


@pytest.mark.perdure(always_suspend=True)
def test_events_are_appended_to_the_stream_of_the_execution(world: World) -> None:
    agent = counter([], emits=True)

    @workflow
    async def count(ctx: Context) -> str:
        async with agent.run_stream("x") as answer:
            return " ".join([text async for text in answer.stream_text(debounce_by=None)])

    run = world.start(count)
    assert run.result() == "it is two"
    kinds = [one.value["event_kind"] for one in run.stream()]
    assert kinds.count("function_tool_result") == 1 and "part_start" in kinds and "final_result" in kinds


# The extra.


def test_perdure_itself_does_not_import_pydantic_ai() -> None:
    code = "import sys, perdure; perdure.Agent, perdure.App; assert not [one for one in sys.modules if one.startswith('pydantic_ai')]"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_library_the_import_names_the_extra() -> None:
    code = "import sys; sys.modules['pydantic_ai'] = None; import perdure.pydantic_ai"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'perdure.pydantic_ai needs pydantic-ai-slim 2.68 or later, which is not installed. Install it: pip install "perdure[agents]"' in said.stderr


def test_a_model_that_misbehaves_is_an_error_of_pydantic_ai(world: World) -> None:
    model, _ = scripted(calls(("unknown", {})), calls(("unknown", {})))
    agent = Agent(model, name="a", retries=1, capabilities=[PerdureDurability()])

    @workflow
    async def ask(ctx: Context) -> str:
        try:
            return (await agent.run("x")).output
        except UnexpectedModelBehavior:
            return "misbehaved"

    assert world.run(ask) == "misbehaved"


def test_a_prepared_tool_is_prepared_in_the_workflow(world: World) -> None:
    model, requests = scripted(calls(("hidden", {})), says("done"))
    agent = Agent(model, name="a", capabilities=[PerdureDurability()])
    where = list[bool]()

    def prepare(ctx: RunContext[object], tool: ToolDefinition) -> ToolDefinition | None:
        where.append(current_context() is not None)
        return tool

    @agent.tool_plain(prepare=prepare)
    def hidden() -> str:
        return "found"

    @workflow
    async def ask(ctx: Context) -> str:
        return (await agent.run("x")).output

    assert world.run(ask) == "done" and where and all(where) and tool_results(requests[1]) == [("hidden", "found")]
