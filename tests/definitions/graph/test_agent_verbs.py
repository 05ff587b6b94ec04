"""Agents of definitions: what they are told, by which list they lead on, what messages come to, and what stands in for them."""

import asyncio
from typing import Any

import pytest

from perdure import Context, Definition, ExecutionFailed, step, workflow
from perdure.definitions.graph.agent_verbs import result_preview
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest
from perdure.testing import Run, World
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed


def look(at: str = "") -> str:
    """Look at something."""
    return f"nothing at {at}"


def big() -> list[str]:
    return ["x" * 100] * 1000


def defined(script: Any, *steps: dict[str, Any], order: str = "listed", **more: Any) -> Definition:
    options = {name: more.pop(name) for name in ("kinds", "policy", "calls") if name in more}
    document = {"perdure": 1, "name": "it", "order": order, "steps": list(steps), **more}
    return Definition.of(document, tools={"look": look, "big": step(idempotent=True)(big)}, deployment=deployed(default=script), **options)


def failed(run: Run[Any]) -> tuple[str, str]:
    with pytest.raises(ExecutionFailed) as caught:
        run.result()
    return caught.value.error.type, caught.value.error.message


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=200)
def test_an_agent_is_told_what_its_step_says_and_settles_with_its_answer(world: World) -> None:
    script = ModelScript([("look", {"at": "the log"})], "All is well")
    agent = {"prompt": "Look at @{input.what}", "system": "Be brief", "tools": ["look"], "context": True, "temperature": 0.2, "max_tokens": 99}
    found = defined(
        script,
        {"id": "big", "tool": "big"},
        {"id": "a", "agent": agent, "with": {"n": "@input.n"}},
        input={"what": {}, "n": {}},
        output={"a": "@a", "meta": "@steps.a.output.meta"},
    )
    run = world.start(found, what="it", n=7)
    assert run.result()["a"] == "All is well"
    request = script.asked[-1]
    first = request.messages[0].text
    assert (
        first.startswith('Look at it\n\nInput:\n<untrusted id="')
        and "What earlier steps" in first
        and '{"n":7}' in first
        and "- big: [" in first
        and len(first) < 2_700
        and "sha256:" in first
    )
    assert request.system.endswith("\n\nBe brief") and (request.temperature, request.max_tokens) == (0.2, 99)
    assert [tool.name for tool in request.tools] == ["look"] and script.results == [("nothing at the log", False)]
    meta = run.result()["meta"]
    assert meta["preview"] == {"type": "text", "sample": "All is well"} and meta["session_id"] == run.children()[-1].id
    assert (meta["llm"]["model"], meta["usage"]["calls"], meta["tools"]) == ("default", 2, [{"tool": "look"}])


def test_text_alone_is_a_prompt_and_no_tool_may_be_used_that_the_step_does_not_name(world: World) -> None:
    script = ModelScript([("look", {})], "Fine")
    assert world.run(defined(script, {"id": "a", "agent": "How are you?"})) == "Fine"
    assert script.asked[0].tools == () and "allowed are none" in script.results[0][0]


@pytest.mark.parametrize("context", [["@big[0]", "@said"], {"first": "@big[0]", "said": "@said"}])
def test_the_context_is_what_the_step_names(world: World, context: Any) -> None:
    script = ModelScript("ok")
    run = world.start(defined(script, {"id": "big", "tool": "big"}, {"id": "said", "tool": "look"}, {"id": "a", "agent": {"prompt": "?", "context": context}}))
    assert run.result() == "ok"
    first = script.asked[0].messages[0].text
    assert "x" * 100 in first and "said: nothing at" in first and first.count("x") < 150


def choosing(script: Any, **more: Any) -> Definition:
    default = {"default": "nobody"} if more.pop("default", False) else {}
    ends = [{"id": id, "tool": "look", "with": {"at": id}} for id in ("sales", "gift", *default.values())]
    choose = {"choose": ["sales", "gift"], **default}
    return defined(script, {"id": "a", "agent": {"prompt": "Where to?", **more.pop("agent", {})}, "next": choose}, *ends, order="ports", **more)


def test_it_leads_to_what_it_chooses_of_a_closed_list(world: World) -> None:
    script = ModelScript({"next": ["sales", "gift"], "reasoning": "large"})
    run = world.start(choosing(script))
    assert run.result() == {"sales": "nothing at sales", "gift": "nothing at gift"}
    schema = script.asked[0].schema or {}
    assert schema["properties"]["next"]["items"] == {"enum": ["sales", "gift"]} and schema["properties"]["next"]["minItems"] == 1
    assert "sales, gift" in script.asked[0].messages[0].text


def test_where_there_is_a_default_it_may_choose_nothing(world: World) -> None:
    assert world.run(choosing(ModelScript({"next": []}), default=True)) == {"nobody": "nothing at nobody"}


def test_its_own_schema_and_the_choice_are_one_answer(world: World) -> None:
    script = ModelScript({"next": ["gift"], "score": 3})
    run = world.start(choosing(script, agent={"schema": {"score": {"type": "integer"}}}, output="@a"))
    assert run.result() == {"next": ["gift"], "score": 3} and (script.asked[0].schema or {})["required"] == ["next", "score"]


def test_a_choice_outside_of_the_list_is_told_once_and_then_fails_naming_both(world: World) -> None:
    wrong = {"next": ["legal"], "reasoning": "?"}
    mended = ModelScript(wrong, {"next": ["gift"]})
    assert world.run(choosing(mended, name="mended")) == {"gift": "nothing at gift"}
    assert "chose the step 'legal', which is not allowed; choose one of sales, gift" in mended.last[-1].text
    kind, why = failed(world.start(choosing(ModelScript(wrong, wrong, wrong), name="stubborn", agent={"repairs": 5})))
    assert kind == "unauthorized" and "'legal', which is not allowed; choose one of sales, gift" in why


def test_a_budget_is_an_error_that_other_steps_may_stand_in_for(world: World) -> None:
    script = ModelScript([("look", {})], "never")
    agent = {"prompt": "?", "tools": ["look"], "budget": {"calls": 1}}
    stand_in = [{"id": "b", "return": "@error.type"}]
    assert world.run(defined(script, {"id": "a", "agent": agent, "on_error": stand_in})) == "exceeded_calls"


def test_a_step_that_takes_too_long_has_its_agent_cancelled(world: World) -> None:
    async def hang(request: ChatRequest) -> ChatAnswer:
        await asyncio.sleep(10**6)
        raise AssertionError

    run = world.start(defined(hang, {"id": "a", "agent": "?", "timeout": "10m"}))
    assert failed(run)[0] == "timeout" and [(one.key.workflow, one.status) for one in world.runs] == [("it", "failed"), ("it.agent", "cancelled")]


def test_what_stands_in_for_the_kind_goes_before_the_agent(world: World) -> None:
    kinds = {"agent": lambda config, input: config["prompt"], "agent_message": lambda config, input: "sent"}
    found = defined(ModelScript(), {"id": "b", "agent_message": "x"}, {"id": "a", "agent": "Played"}, kinds=kinds)
    assert world.run(found) == "Played" and found.lacks() == []


def test_a_definition_lacks_the_tools_that_its_agents_name_and_nobody_has() -> None:
    found = defined(ModelScript(), {"id": "a", "agent": {"prompt": "?", "tools": ["look", "fly", "search_tools"]}})
    assert [(need.what, need.name, need.id) for need in found.lacks()] == [("tool", "fly", "a")]


def test_a_policy_holds_for_the_tools_of_agents(world: World) -> None:
    policy = {
        "rules": [{"on": "tool", "when": "tool == 'look' && input.at == 'secrets'", "deny": "not these"}],
        "capabilities": [{"kind": "agent", "allowed_tools": ["look"]}],
    }
    script = ModelScript([("look", {"at": "secrets"}), ("big", {})], [("look", {"at": "the rest"})], "ok")
    run = world.start(defined(script, {"id": "a", "agent": {"prompt": "?", "tools": ["look", "big"]}}, policy=policy))
    assert run.result() == "ok"
    told = [message.text for message in script.last if message.role == "tool"]
    assert told == ["may not use 'look': not these", "tried to use 'big', which is unauthorized; allowed are look", "nothing at the rest"]


# messages


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=200)
def test_without_an_agent_at_work_a_session_keeps_what_was_said_and_ends_with_the_execution(world: World) -> None:
    script = ModelScript("Hello to you", "You said hello")
    asks = {"await_response": True}
    steps: list[dict[str, Any]] = [
        {"id": "a", "agent_message": {"content": "Hello", **asks}},
        {"id": "n", "sleep": "40d"},
        {"id": "b", "agent_message": {"goal": "What did I say?", **asks}},
    ]
    run = world.start(defined(script, *steps))
    (session,) = run.children()
    world.skip("39d")
    assert session.status == "waiting"
    assert run.result() == "You said hello" and session.status == "completed"
    assert [message.text for message in script.last] == ["Hello", "Hello to you", "What did I say?"]


def test_a_message_that_is_not_waited_for_is_said_all_the_same(world: World) -> None:
    script = ModelScript("noted")
    run = world.start(defined(script, {"id": "a", "agent_message": "Note this"}))
    assert run.result()["sent"] is True
    assert [message.text for message in script.last] == ["Note this"] and [child.status for child in run.children()] == ["completed"]


def test_an_agent_that_can_not_answer_says_why(world: World) -> None:
    run = world.start(defined(ModelScript(ChatAnswer(finish="filter")), {"id": "a", "agent_message": {"content": "?", "await_response": True}}))
    kind, why = failed(run)
    assert kind == "agent_failed" and "the provider withheld the answer" in why


def test_an_answer_that_does_not_come_in_time_is_a_timeout(world: World) -> None:
    async def hang(request: ChatRequest) -> ChatAnswer:
        await asyncio.sleep(10**5)
        raise AssertionError

    message = {"content": "?", "await_response": True, "await_timeout_ms": 1000}
    run = world.start(defined(hang, {"id": "a", "agent_message": message}))
    began = world.now
    assert failed(run)[0] == "timeout" and (world.now - began).total_seconds() == 1


def beside(script: Any, message: dict[str, Any]) -> Definition:
    branches = [
        {"id": "a", "agent": {"prompt": "Work", "tools": ["look"]}},
        {"id": "late", "do": [{"id": "n", "sleep": "5s"}, {"id": "b", "agent_message": message}]},
    ]
    return defined(script, {"id": "p", "parallel": branches})


@pytest.mark.perdure(always_suspend=True)
@pytest.mark.parametrize("interrupt", [False, True])
def test_a_message_reaches_the_agent_that_is_at_work(world: World, interrupt: bool) -> None:
    asked: list[ChatRequest] = []

    async def slow(request: ChatRequest) -> ChatAnswer:
        asked.append(request)
        if len(request.messages) == 1:
            await asyncio.sleep(60)
            return ChatAnswer(text="Done")
        return ChatAnswer(text=f"Done, and {request.messages[-1].text}")

    began = world.now
    run = world.start(beside(slow, {"content": "hurry", "interrupt": interrupt, "await_response": True}))
    assert run.result() == {"a": "Done, and hurry", "late": "Done, and hurry"}
    assert (world.now - began).total_seconds() == (5 if interrupt else 60)
    assert [message.role for message in asked[-1].messages] == (["user", "user"] if interrupt else ["user", "assistant", "user"])
    assert len(run.children()) == 1, "it is the agent at work that was told, and no session"


def test_the_preview_of_a_result_has_its_type_and_of_rows_their_number_and_the_first(world: World) -> None:
    rows = [{"airline": "Delta", "price": 299}, {"airline": "United", "price": 310}, {"airline": "JetBlue", "price": 333}, {"airline": "Alaska", "price": 345}]
    assert result_preview(rows) == {"type": "dataset", "row_count": 4, "sample": rows[:3]}
    assert result_preview({"a": 1}) == {"type": "object", "sample": {"a": 1}} and result_preview(5) == {"type": "value", "sample": 5}
    found = defined(ModelScript(rows), {"id": "a", "agent": {"prompt": "List", "schema": {"type": "array"}}}, output="@steps.a.output.meta")
    assert world.run(found)["preview"]["row_count"] == 4


def test_an_agent_of_a_definition_uses_workflows_and_definitions_that_it_may_call(world: World) -> None:
    @workflow
    async def brew(ctx: Context, cups: int) -> str:
        """Makes tea."""
        return f"{cups} cups"

    bake = Definition.of("{perdure: 1, name: bake, input: {loaves: {type: integer}}, steps: [{id: wait, sleep: 1s}], output: '@{input.loaves} loaves'}")
    script = ModelScript([("brew", {"cups": 2}), ("bake", {"loaves": 3})], "Served")
    host = defined(script, {"id": "a", "agent": {"prompt": "Serve", "tools": ["brew", "bake"]}}, calls=[brew, bake], output="@a")
    assert host.lacks() == [] and world.run(host) == "Served"
    assert script.results == [("2 cups", False), ("3 loaves", False)]
