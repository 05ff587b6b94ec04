"""What an agent does: it asks, does what is asked for, tells what came of it, and answers; killed anywhere, it goes on where it stood."""

import dataclasses
from datetime import UTC, date, datetime
from typing import Any

import pytest

from perdure import Context, Definition, ExecutionFailed, Fatal, Retry, Rollback, step, workflow
from perdure.agent import Agent
from perdure.definitions.kinds.agents.agent_conversation import SAID, AgentMessage
from perdure.definitions.kinds.agents.agent_profile import AgentProfile
from perdure.definitions.kinds.agents.agent_task import AgentTask, Budget
from perdure.definitions.kinds.agents.agent_tools import tool_of
from perdure.definitions.kinds.agents.agent_workflow import perform_agent_task
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ToolCall
from perdure.testing import Run, World
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed


@step
def price(item: str) -> int:
    """The price of an item, in cents."""
    if item == "unknown":
        raise Fatal("nobody sells that")
    return len(item) * 100


@step(idempotent=False)
def order(item: str, pieces: int = 1) -> dict[str, Any]:
    """Order an item."""
    return {"ordered": item, "pieces": pieces}


@dataclasses.dataclass
class Receipt:
    """What was bought."""

    item: str
    cents: int
    on: date


@dataclasses.dataclass
class Visit:
    """When somebody was there."""

    at: datetime


RECEIPT = {"item": "tea", "cents": 300, "on": "2026-11-22"}


def shopper(script: ModelScript, name: str = "shopper", **options: Any) -> Agent[Any]:
    return Agent(name, model="m", deployment=deployed(m=script, other=script), **{"tools": [price, order], **options})


def failed(run: Run[Any]) -> tuple[str, str]:
    with pytest.raises(ExecutionFailed) as caught:
        run.result()
    return caught.value.error.type, caught.value.error.message


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_tools_of_one_answer_run_and_are_told_in_order_wherever_the_process_is_killed(world: World) -> None:
    script = ModelScript([("price", {"item": "tea"}), ("price", {"item": "coffee"})], [("price", {"item": "cocoa"})], "Tea it is.")
    run = world.start(shopper(script), "Buy the cheapest")
    assert run.result() == "Tea it is."
    told = [(message.role, message.text) for message in script.last]
    assert told == [
        ("user", "Buy the cheapest"),
        ("assistant", ""),
        ("tool", "300"),
        ("tool", "600"),
        ("assistant", ""),
        ("tool", "500"),
    ]
    assert [message.call_id for message in script.last if message.role == "tool"] == ["call-0-0", "call-0-1", "call-1-0"]
    assert [one.path for one in run.steps() if one.kind == "call"] == [
        "model",
        "turn 1/call/price",
        "turn 1/call#2/price",
        "model#2",
        "turn 2/call/price",
        "model#3",
    ]


def test_a_settled_model_call_is_never_asked_again_and_a_replay_asks_nobody(world: World) -> None:
    script = ModelScript([("price", {"item": "tea"})], lambda _: ChatAnswer(text="3 euros"))
    run = world.start(shopper(script), "How much is tea?")
    assert run.result() == "3 euros" and len(script.asked) == 2
    world.check(replay=True)
    world.restart()
    assert world.get(run.id, shopper(script)).result() == "3 euros" and len(script.asked) == 2


def test_every_request_holds_all_that_was_said_and_the_log_what_is_new(world: World) -> None:
    script = ModelScript(*([("price", {"item": "x" * size})] for size in range(1, 11)), "enough")
    run = world.start(shopper(script), "Ask " + "long " * 1000)
    assert run.result() == "enough"
    assert [len(request.messages) for request in script.asked] == list(range(1, 23, 2))
    first = script.asked[0]
    assert all((one.system, one.tools) == (first.system, first.tools) for one in script.asked), "what stands first never changes, so that caches hold"
    new = [one.args[0] for one in run.steps() if one.target == "model"]
    assert [len(messages) for messages in new] == [1] * 11
    assert len({one.args[1] for one in run.steps() if one.target == "model"}) == 11


def test_the_answer_is_read_as_the_type_that_was_asked_for(world: World) -> None:
    script = ModelScript(RECEIPT)
    assert world.run(shopper(script, output=Receipt), "Buy tea") == Receipt("tea", 300, date(2026, 11, 22))
    assert script.asked[0].schema is not None and script.asked[0].schema["required"] == ["item", "cents", "on"]


@pytest.mark.parametrize("bad", [{"item": "tea"}, {**RECEIPT, "cents": "300"}, {**RECEIPT, "on": "tomorrow"}, "here you are", ""])
def test_an_answer_that_does_not_fit_is_mended_once_and_then_fails(world: World, bad: Any) -> None:
    script = ModelScript(bad, RECEIPT)
    assert world.run(shopper(script, output=Receipt), "Buy tea").cents == 300
    assert script.last[-1].role == "user" and script.last[-1].text.startswith("Your answer can't be used: the answer ")
    kind, why = failed(world.start(shopper(ModelScript(bad, bad), "another", output=Receipt), "Buy tea"))
    assert kind == "bad_answer" and "can't be used" in why


def test_data_that_stands_in_text_is_data(world: World) -> None:
    script = ModelScript('```json\n{"item": "tea", "cents": 1, "on": "2026-01-01"}\n```')
    assert world.run(shopper(script, output=Receipt), "Buy tea").cents == 1


def test_an_answer_that_was_cut_off_or_is_empty_is_asked_for_again_and_one_withheld_is_not(world: World) -> None:
    script = ModelScript(ChatAnswer(text="It costs", finish="length"), "3 euros")
    assert world.run(shopper(script), "How much?") == "3 euros"
    assert "cut off" in script.last[-1].text
    refusing = ModelScript(ChatAnswer(finish="filter"))
    kind, why = failed(world.start(shopper(refusing, "another"), "How much?"))
    assert (kind, len(refusing.asked)) == ("bad_answer", 1) and "withheld" in why


def test_arguments_that_do_not_fit_are_told_and_nothing_is_run(world: World) -> None:
    script = ModelScript([("order", {"item": 5}), ("order", {"item": "tea", "colour": "green"}), ("order", {"item": "tea"})], "done")
    run = world.start(shopper(script), "Buy tea")
    assert run.result() == "done"
    (one, is_error), (two, _), (three, fine) = script.results
    assert is_error and "at item: 5 is not of type" in one and "colour" in two and (three, fine) == ('{"ordered":"tea","pieces":1}', False)
    assert [step.path for step in run.steps() if step.target == "order"] == ["turn 1/call#3/order"]


def test_a_tool_that_it_may_not_use_is_told_up_to_a_bound_and_names_both(world: World) -> None:
    wanted: list[tuple[str, dict[str, Any]]] = [("refund", {})]
    script = ModelScript(wanted, wanted, wanted, "I may not")
    assert world.run(shopper(script), "Give it back") == "I may not"
    assert script.results == [("tried to use 'refund', which is unauthorized; allowed are price, order", True)]
    kind, why = failed(world.start(shopper(ModelScript(*[wanted] * 9), "stubborn", tools=[price]), "Give it back"))
    assert kind == "unauthorized" and "asked 4 times" in why and "'refund', which is unauthorized; allowed are price" in why


def test_only_the_tools_of_its_task_may_be_used(world: World) -> None:
    script = ModelScript([("order", {"item": "tea"})], "no")
    assert world.run(shopper(script), AgentTask(prompt="Buy tea", tools=("price",))) == "no"
    assert "allowed are price" in script.results[0][0] and [tool.name for tool in script.asked[0].tools] == ["price"]


def test_a_tool_that_fails_is_told_after_its_own_tries(world: World) -> None:
    tries = []

    @step(retry=Retry(max=3, wait="1s"))
    def flaky() -> str:
        tries.append(1)
        raise ConnectionError("nobody there")

    script = ModelScript([("flaky", {}), ("price", {"item": "unknown"})], "sorry")
    assert world.run(shopper(script, tools=[flaky, price]), "Try") == "sorry"
    assert script.results == [("failed (exhausted, 3 attempts): ConnectionError: nobody there", True), ("failed (fatal): fatal: nobody sells that", True)]
    assert len(tries) == 3


@pytest.mark.slow
def test_a_tool_that_rolls_back_ends_the_agent_and_what_other_tools_have_done_is_undone(world: World) -> None:
    cancelled = []

    @step
    def buy(item: str) -> str:
        return f"bought {item}"

    @buy.undo
    def cancel(result: str, item: str) -> None:
        cancelled.append(item)

    @step
    def stop() -> None:
        raise Rollback("enough")

    script = ModelScript([("buy", {"item": "tea"})], [("buy", {"item": "milk"})], [("stop", {})])
    assert failed(world.start(shopper(script, tools=[buy, stop]), "Go")) == ("rollback", "enough")
    assert cancelled == ["milk", "tea"] and len(script.asked) == 3


def test_a_tool_that_was_interrupted_is_told_as_not_known_and_not_run_again(world: World) -> None:
    ran = []

    @step(idempotent=False)
    def launch() -> str:
        ran.append(1)
        world.crash()
        return "away"

    script = ModelScript([("launch", {})], "I do not know")
    assert world.run(shopper(script, tools=[launch]), "Launch it") == "I do not know"
    assert ran == [1] and script.results[0][1] and script.results[0][0].startswith("interrupted: it is not known whether it happened")


def test_workflows_and_agents_are_tools(world: World) -> None:
    @workflow
    async def brew(ctx: Context, cups: int) -> str:
        """Make tea."""
        await ctx.sleep("3m")
        return f"{cups} cups"

    taster: Agent[str] = Agent("taster", model="taster", about="Tastes tea.", deployment=deployed(taster=ModelScript("Good tea")))
    script = ModelScript([("brew", {"cups": 2})], [("taster", {"task": "Taste it"})], "Served")
    host: Agent[str] = Agent("host", model="m", tools=[brew, taster], deployment=deployed(m=script))
    run = world.start(host, "Serve tea")
    assert run.result() == "Served"
    assert [message.text for message in script.last if message.role == "tool"] == ["2 cups", "Good tea"]
    assert [tool.description for tool in script.asked[0].tools] == ["Make tea.", "Tastes tea."]
    assert [child.key.workflow for child in run.children()] == ["brew", "taster"]


def test_a_definition_is_a_tool_and_its_arguments_are_those_of_its_input(world: World) -> None:
    document = """
    {perdure: 1, name: brew, description: Makes tea., input: {cups: {type: integer}, kind: {type: string, default: green}},
     steps: [{id: wait, sleep: 3m}], output: "@{input.cups} cups of @{input.kind} tea"}
    """
    script = ModelScript([("brew", {"cups": "two"}), ("brew", {"cups": 2})], "Served")
    brew = Definition.of(document)
    host: Agent[str] = Agent("host", model="m", tools=[brew], deployment=deployed(m=script))
    run = world.start(host, "Serve tea")
    assert run.result() == "Served" and [child.key.workflow for child in run.children()] == ["brew"]
    assert [is_error for _, is_error in script.results] == [True, False] and script.results[1][0] == "2 cups of green tea"
    (spec,) = script.asked[0].tools
    assert (spec.description, spec.schema["required"], list(spec.schema["properties"])) == ("Makes tea.", ["cups"], ["cups", "kind"])


def test_a_task_is_handed_over_to_another_agent_whose_answer_is_that_of_the_first(world: World) -> None:
    billing: Agent[str] = Agent("billing", model="b", about="Knows invoices.", deployment=deployed(b=ModelScript("You owe 3 euros")))
    script = ModelScript([("price", {"item": "tea"}), ("billing", {"task": "Ada asks what she owes"})])
    desk = shopper(script, "desk", handoffs=[billing])
    run = world.start(desk, "What do I owe?")
    assert run.result() == "You owe 3 euros" and len(script.asked) == 1
    assert [child.key.workflow for child in run.children()] == ["billing"]
    assert "Hand the task over to billing" in next(tool.description for tool in script.asked[0].tools if tool.name == "billing")
    broken: Agent[str] = Agent("broken", model="b", deployment=deployed(b=ModelScript(ChatAnswer(finish="filter"))))
    going_on = ModelScript([("broken", {"task": "Go"})], "I answer myself")
    assert world.run(shopper(going_on, "other_desk", handoffs=[broken]), "Go") == "I answer myself", "a handoff that fails is told as any tool"


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_a_handoff_survives_a_crash_at_every_write(world: World) -> None:
    billing: Agent[str] = Agent("billing", model="b", deployment=deployed(b=ModelScript("You owe 3 euros")))
    assert world.run(shopper(ModelScript([("billing", {"task": "Ada"})]), "desk", handoffs=[billing]), "What do I owe?") == "You owe 3 euros"


def test_a_handoff_ends_the_work_on_its_own_message_only(world: World) -> None:
    billing: Agent[str] = Agent("billing", model="b", deployment=deployed(b=ModelScript("You owe 3 euros")))
    script = ModelScript([("billing", {"task": "Ada"})], [("price", {"item": "tea"})], "Tea costs 3 euros")
    run = world.start(shopper(script, "desk", handoffs=[billing]), AgentTask(session=True))
    for message in (AgentMessage("What do I owe?"), AgentMessage("How much is tea?"), AgentMessage(is_over=True)):
        run.send(SAID, message)
    assert run.result() == "Tea costs 3 euros" and len(script.asked) == 3


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_an_answer_of_a_handoff_that_does_not_fit_is_told_to_the_model_and_one_that_fits_is_the_answer(world: World) -> None:
    bill: Agent[str] = Agent("bill", model="b", deployment=deployed(b=ModelScript("300 cents")))
    till: Agent[Receipt] = Agent("till", model="t", output=Receipt, deployment=deployed(t=ModelScript(RECEIPT)))
    script = ModelScript([("bill", {"task": "Ada"})], [("till", {"task": "Ada"})])
    run = world.start(shopper(script, "desk", handoffs=[bill, till], output=Receipt), "What did Ada buy?")
    assert run.result() == Receipt("tea", 300, date(2026, 11, 22)) and len(script.last) == 3
    ((told, is_error),) = script.results
    assert is_error and 'bill has answered, but the answer does not fit: at the top: "300 cents" is not of type' in told


def test_an_answer_of_a_handoff_fits_if_it_has_a_time(world: World) -> None:
    till: Agent[Visit] = Agent("till", model="t", output=Visit, deployment=deployed(t=ModelScript({"at": "2026-11-22T10:00:00Z"})))
    desk = shopper(ModelScript([("till", {"task": "Ada"})]), "desk", handoffs=[till], output=Visit)
    assert world.run(desk, "When?") == Visit(datetime(2026, 11, 22, 10, tzinfo=UTC))


def test_a_person_approves_a_tool_or_says_no_and_the_model_is_told(world: World) -> None:
    script = ModelScript([("order", {"item": "tea"}), ("price", {"item": "tea"})], [("order", {"item": "coffee"})], "bought")
    run = world.start(shopper(script, approve=["order"]), "Buy")
    (asked,) = [child for child in run.children() if child.status == "waiting"]
    shown = asked.query("approval")["request"]
    assert shown["title"] == "May shopper use order?" and shown["details"]["arguments"] == {"item": "tea"}
    asked.send("vote", {"by": "ada", "approve": False, "comment": "too dear"})
    assert script.results == [("rejected by ada: too dear", True), ("300", False)]
    (again,) = [child for child in run.children() if child.status == "waiting"]
    again.send("vote", {"by": "ada", "approve": True})
    assert run.result() == "bought" and [one.path for one in run.steps() if one.target == "order"] == ["turn 2/call/order"]


def test_an_agent_is_called_by_a_workflow(world: World) -> None:
    agent = shopper(ModelScript("Three"))

    @workflow
    async def asks(ctx: Context) -> str:
        found: str = await ctx.call(agent, "How much?")
        return found

    assert world.run(asks) == "Three"


def test_what_it_used_can_be_seen_while_it_works(world: World) -> None:
    script = ModelScript([("order", {"item": "tea"})], "done")
    run = world.start(shopper(script, approve=["order"]), "Buy")
    assert run.query("agent") == {"spent": {"calls": 1, "input_tokens": 100, "output_tokens": 10, "cost_usd": 0.01}, "asked_for": ["order"]}


def test_long_results_are_cut_and_long_context_too(world: World) -> None:
    @step
    def much() -> str:
        return "x" * 100_000

    script = ModelScript([("much", {})], "done")
    task = AgentTask(prompt="Go", context={"fetch": ["y" * 50] * 100, "score": 7}, input={"a": 1})
    assert world.run(shopper(script, tools=[much]), task) == "done"
    first, result = script.last[0].text, script.last[-1].text
    assert '">\n{"a":1}\n</untrusted id="' in first and "- score: 7" in first and first.count("y") < 2_100 and "(cut: it has 5,301 characters)" in first
    assert result.count("x") == 32_000 and result.endswith("(cut: it has 100,000 characters)")


def test_an_asking_tool_call_is_answered_even_when_the_model_asks_for_nothing_sensible(world: World) -> None:
    script = ModelScript(ChatAnswer(calls=(ToolCall("1", "", {}),)), "ok")
    assert world.run(shopper(script), "Go") == "ok"
    assert "tried to use ''" in script.results[0][0]


@pytest.mark.perdure(always_suspend=True)
def test_an_agent_that_leaves_memory_at_each_wait_comes_to_the_same(world: World) -> None:
    script = ModelScript([("price", {"item": "tea"})], [("order", {"item": "tea"})], "Tea it is.")
    assert world.run(shopper(script, budget=Budget(wall="1h")), "Buy") == "Tea it is." and len(script.asked) == 3


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_an_agent_with_final_tools_ends_when_one_has_succeeded_and_not_before(world: World) -> None:
    script = ModelScript("Done!", [("price", {"item": "unknown"})], [("price", {"item": "tea"})])
    profile = AgentProfile("buyer", {"price": tool_of(price)}.get, ("price",), model="m", final=("price",), deployment=deployed(m=script))

    @workflow(name="buyer")
    async def buyer(ctx: Context, task: str) -> tuple[str, int]:
        found = await perform_agent_task(ctx, profile, task)
        return found.output, found.spent.calls

    assert world.start(buyer, "What is tea?").result() == ("300", 3)
    assert "the work is not done before one of these tools has succeeded: price" in script.asked[-1].messages[2].text
