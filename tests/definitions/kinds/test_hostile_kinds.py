"""Whatever a kind of a package, a tool of an agent, or a function of a deployment raises or returns: the step fails by name, and others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from perdure import BadDefinition, Definition, Kind, Retry, step
from perdure.agent import Agent, Budget
from perdure.async_client import AsyncClient
from perdure.core import limits
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ModelUsage, ToolCall
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore
from tests.definitions.kinds.kind_table import working
from tests.hostile_values import EXCEPTION_SAMPLE, EXCEPTIONS, NAMES, ODD_VALUES, VALUE_SAMPLE, VALUES

ENDS_S = 20.0
MADE: dict[str, Callable[[], Any]] = {**EXCEPTIONS, **{f"value: {name}": make for name, make in VALUES.items()}}


def given(name: str) -> Any:
    """A value of the table; an exception of it is raised."""
    made = MADE[name]()
    if name in EXCEPTIONS:
        raise made
    return made


def of_a_kind(config: Any, input: Any = None) -> Any:
    return given(config)


async def of_an_async_kind(config: Any, input: Any = None) -> Any:
    await asyncio.sleep(0)
    return given(config)


KINDS = {"threaded": Kind("threaded", of_a_kind), "awaited": Kind("awaited", of_an_async_kind)}


def all_or_sample(all_of: Iterable[str], sample: Iterable[str]) -> pytest.MarkDecorator:
    """The sample in every run, all with the long proofs."""
    return pytest.mark.parametrize("names", [pytest.param([*sample], id="sample"), pytest.param([*all_of], id="all", marks=pytest.mark.prove)])


everything = all_or_sample(MADE, (*EXCEPTION_SAMPLE, *(f"value: {name}" for name in VALUE_SAMPLE)))


exceptions = all_or_sample(EXCEPTIONS, EXCEPTION_SAMPLE)


def named(verb: str, **more: Any) -> Definition:
    document = {"perdure": 1, "name": verb, "input": {"name": {}}, "steps": [{"id": "a", "task": {"type": verb, "config": "@input.name"}, "retry": {"max": 1}}]}
    return Definition.of(document, kinds=KINDS, **more)


WELL = Definition.of({"perdure": 1, "name": "well", "steps": [{"id": "a", "set": {"x": 1}}, {"id": "b", "return": "well"}]})


async def ends(definition: Definition, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Exception | Any]:
    """How an execution for each input ends, all at one engine, which then does another."""
    async with working(MemoryStore(), definition, WELL) as client:
        handles = {name: await client.start(definition.with_(id=f"e{number}"), **one) for number, (name, one) in enumerate(inputs.items())}
        async with asyncio.timeout(ENDS_S):
            found = await asyncio.gather(*(handle.result() for handle in handles.values()), return_exceptions=True)
            assert await client.run(WELL) == "well"
        return dict(zip(handles, found, strict=True))


def is_named(name: str, error: Any) -> None:
    """An error has a name, a text that may be kept, and is no larger than may be."""
    assert isinstance(error, Exception), (name, error)
    text = str(error)
    assert text.encode() and len(text) < 5 * limits.ERROR_MESSAGE_CHARACTERS_MAX and "defect of Perdure" not in text, (name, text[:500])


@pytest.mark.slow
@everything
@pytest.mark.parametrize("verb", ["threaded", "awaited"])
async def test_whatever_a_kind_of_a_package_raises_or_returns_fails_its_step_by_name(verb: str, names: list[str], caplog: pytest.LogCaptureFixture) -> None:
    for name, error in (await ends(named(verb), {name: {"name": name} for name in names})).items():
        is_named(name, error)
    assert not [record.getMessage() for record in caplog.records if "defect of Perdure" in record.getMessage() or record.name == "asyncio"]


async def test_odd_values_come_back_from_a_kind_as_they_were() -> None:
    odd = {name: value for name, value in ODD_VALUES.items() if not isinstance(value, bytes)}
    kind = Kind("gives", lambda config, input=None: ODD_VALUES[config])
    document = {"perdure": 1, "name": "gives", "input": {"name": {}}, "steps": [{"id": "a", "task": {"type": "gives", "config": "@input.name"}}]}
    found = await ends(Definition.of(document, kinds={"gives": kind}), {name: {"name": name} for name in odd})
    assert {name: repr(value) for name, value in found.items()} == {name: repr(value) for name, value in odd.items()}


# agents: a tool fails, and the model is told of it; a model's function fails, and the agent does


@step(retry=Retry(max=1))
def broken(name: str) -> Any:
    """Breaks."""
    return given(name)


@step(retry=Retry(max=1))
async def broken_awaiting(name: str) -> Any:
    """Breaks."""
    return given(name)


def model_that_asks(name: str, tool: str) -> Any:
    async def model(request: ChatRequest) -> ChatAnswer:
        told = [message for message in request.messages if message.role == "tool"]
        if told:
            return ChatAnswer(text=f"told: {told[-1].is_error}: {told[-1].text[:100]}", usage=ModelUsage(1, 1))
        return ChatAnswer(calls=(ToolCall("1", tool, {"name": name}),), usage=ModelUsage(1, 1))

    return model


FINAL = frozenset(("rollback of half a surrogate",))
"""What ends an agent by its meaning."""


@pytest.mark.slow
@everything
@pytest.mark.parametrize("tool", [broken, broken_awaiting], ids=["threaded", "awaited"])
async def test_whatever_a_tool_of_an_agent_raises_or_returns_the_model_is_told(tool: Any, names: list[str]) -> None:
    agents: dict[str, Any] = {
        name: Agent(f"a{number}", model="m", tools=[tool], budget=Budget(calls=3), deployment=Deployment(models={"m": model_that_asks(name, tool.name)}))
        for number, name in enumerate(names)
    }
    async with working(MemoryStore(), *agents.values()) as client, asyncio.timeout(ENDS_S):
        all_found: list[Any] = await asyncio.gather(*(client.run(agent, "Go") for agent in agents.values()), return_exceptions=True)
    for name, found in zip(agents, all_found, strict=True):
        if name in FINAL:
            is_named(name, found)
        else:
            assert isinstance(found, str) and found.startswith("told: True: failed"), (name, found)


@everything
async def test_whatever_a_function_in_place_of_a_model_raises_or_returns_fails_the_agent_by_name(names: list[str]) -> None:
    async def model(request: ChatRequest) -> Any:
        return given(request.messages[0].text)

    definition = Definition.of(
        {"perdure": 1, "name": "asks", "input": {"name": {}}, "steps": [{"id": "a", "llm": "@{input.name}", "retry": {"max": 1}}]},
        deployment=Deployment(models={"default": model}),
    )
    for name, error in (await ends(definition, {name: {"name": name} for name in names})).items():
        is_named(name, error)


@pytest.mark.parametrize("name", ["StopIteration", "SystemExit", "of no class", pytest.param("half a surrogate", marks=pytest.mark.prove)])
async def test_whatever_finds_the_key_of_a_model_raises_the_step_ends(name: str) -> None:
    """The function runs in a thread, whose future can't carry a `StopIteration`."""

    def secret(_: str) -> str:
        made = EXCEPTIONS[name]()
        raise made

    entry = {"provider": "openai-chat", "model": "m", "base_url": "http://127.0.0.1:1/v1", "key": "K"}
    definition = Definition.of(
        {"perdure": 1, "name": "keyed", "steps": [{"id": "a", "llm": "Hi", "retry": {"max": 1}}]},
        deployment=Deployment(models={"default": entry}, secret=secret),
    )
    (error,) = (await ends(definition, {name: {}})).values()
    is_named(name, error)


@pytest.mark.parametrize("name", NAMES)
async def test_whatever_a_tool_is_called_by_a_model_it_is_told_that_there_is_none(name: str) -> None:
    agent: Any = Agent("namer", model="m", tools=[broken], deployment=Deployment(models={"m": model_that_asks("x", NAMES[name])}))
    async with working(MemoryStore(), agent) as client, asyncio.timeout(ENDS_S):
        found: Any = (await asyncio.gather(client.run(agent, "Go"), return_exceptions=True))[0]
    if isinstance(found, Exception):
        is_named(name, found)
    else:
        assert found.startswith("told: True: ") and "unauthorized" in found


# the functions that a kind brings beside its work, which an engine asks; conditions of definitions


KIND_FUNCTIONS = ("written", "idempotent", "counts")


@pytest.mark.slow
@exceptions
@pytest.mark.parametrize("function", KIND_FUNCTIONS)
async def test_whatever_a_function_of_a_kind_raises_fails_its_step_by_name(function: str, names: list[str], caplog: pytest.LogCaptureFixture) -> None:
    def fails(config: Any, *_: Any) -> Any:
        return given(config if config in MADE else of["name"])

    of = {"name": ""}
    kind = Kind("asked", lambda config, input=None: None, **{function: fails})  # type: ignore[arg-type]  # mypy can't know which it is
    document = {"perdure": 1, "name": "asks", "input": {"name": {}}, "steps": [{"id": "a", "task": {"type": "asked", "config": "@input.name"}}]}
    definition = Definition.of(document, kinds={"asked": kind})
    for name in names:
        of["name"] = name  # `written` is given the reference
        (error,) = (await ends(definition, {name: {"name": name}})).values()
        is_named(name, error)
        assert f"{function} of the kind asked failed: " in str(error), (name, error)
    assert not [record.getMessage() for record in caplog.records if "defect of Perdure" in record.getMessage() or record.name == "asyncio"]


@exceptions
@pytest.mark.parametrize("function", ["check", "check_step"])
def test_whatever_a_check_of_a_kind_raises_is_wrong_with_the_definition(function: str, names: list[str]) -> None:
    document = {"perdure": 1, "name": "checked", "steps": [{"id": "a", "task": {"type": "asked", "config": 1}}]}
    for name in names:
        kind = Kind("asked", lambda config, input=None: None, **{function: lambda _, name=name: given(name)})  # type: ignore[arg-type]  # as above
        with pytest.raises(BadDefinition, match=rf"steps\[0\].*: {function} of the kind asked failed: "):
            Definition.of(document, kinds={"asked": kind})


class FailingSecretSource:
    """Finds secrets, and fails."""

    def __init__(self, name: str, at: str) -> None:
        self.name, self.at = name, at

    def of(self, tenant: str) -> Any:
        return given(self.name) if self.at == "of" else lambda name: given(self.name)


@pytest.mark.parametrize("at", ["of", "find"])
@exceptions
async def test_whatever_finds_secrets_raises_fails_the_step_by_name(at: str, names: list[str], caplog: pytest.LogCaptureFixture) -> None:
    document = {"perdure": 1, "name": "told", "steps": [{"id": "a", "tool": "broken", "with": {"name": "@secrets.TOKEN"}, "retry": {"max": 1}}]}
    definition = Definition.of(document, tools=[broken])
    for name in [*names, "value: an object"]:
        engine = Engine(store := MemoryStore(), [definition.code], secrets=FailingSecretSource(name, at))
        running = asyncio.create_task(engine.run())
        await engine.ready()
        async with AsyncClient(store) as client, asyncio.timeout(ENDS_S):
            is_named(name, (await asyncio.gather(client.run(definition), return_exceptions=True))[0])
        engine.stop()
        await running
    assert not [record.getMessage() for record in caplog.records if "defect of Perdure" in record.getMessage() or record.name == "asyncio"]


CONDITIONS: dict[str, Any] = {
    "division by 0": {"expr": "1 / 0 == 1"},
    "an overflow": {"expr": "9223372036854775807 + int(input.v) > 0"},
    "no time": {"expr": "timestamp('x') > timestamp('y')"},
    "a time beyond all": {"expr": "timestamp('9999-12-31T23:59:59Z') + duration('99999h') > timestamp('0001-01-01T00:00:00Z')"},
    "an expression that is none": {"expr": "'a'.matches(input.v)"},
    "no element": {"expr": "[1][5] == 1"},
    "no number": {"expr": "int(input.v) > 0"},
    "no text": {"expr": "string(b'\\xff') == 'x'"},
    "other types": {"expr": "input.v < 1"},
    "a comparison of other types": {"ref": "@input.v", "gt": "@input.v"},
    "a pattern": {"ref": "@input.v", "contains": "@input.v"},
    "a member of nothing": {"ref": "@input.v", "in": "@input.v"},
    "a path": {"ref": "$.steps[?@.a == @.b].x.y.z", "eq": 1},
}
CONDITION_INPUTS: list[Any] = [{"a": 1}, [1, [2, "x"]], "(", "(a+)+$", None, 5, 1e300, True, 10**18, [[[[[[]]]]]]]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["when", "while", "rule"])
async def test_whatever_a_condition_comes_upon_it_holds_or_not_or_its_step_fails_by_name(where: str, caplog: pytest.LogCaptureFixture) -> None:
    for name, condition in CONDITIONS.items():
        step: dict[str, Any] = {"id": "a", "set": {"x": 1}}
        match where:
            case "when":
                step |= {"when": condition}
            case "while":
                step |= {"repeat": {"while": condition, "max": 2}}
            case _:
                step |= {"next": [{"when": condition, "to": "b"}]}
        order = {"order": "ports"} if where == "rule" else {}
        document = {"perdure": 1, "name": "judged", "input": {"v": {}}, **order, "steps": [step, {"id": "b", "set": {"y": 1}}]}
        definition = Definition.of(document)
        found = await ends(definition, {str(number): {"v": value} for number, value in enumerate(CONDITION_INPUTS)})
        for one in found.values():
            if isinstance(one, Exception):
                is_named(name, one)
    assert not [record.getMessage() for record in caplog.records if "defect of Perdure" in record.getMessage() or record.name == "asyncio"]
