"""Whatever a kind of a package, a tool of an agent, or a function of a deployment raises or returns: the step fails by name, and others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from perdure import Definition, Kind, Retry, step
from perdure.agent import Agent, Budget
from perdure.core import limits
from perdure.steps.deployment import Deployment
from perdure.steps.models.messages import Answer, Request, ToolCall, Usage
from perdure.stores.memory import MemoryStore
from tests.hostile import EXCEPTION_SAMPLE, EXCEPTIONS, NAMES, ODD_VALUES, VALUE_SAMPLE, VALUES
from tests.steps.kinds import working

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
    async def model(request: Request) -> Answer:
        told = [message for message in request.messages if message.role == "tool"]
        if told:
            return Answer(text=f"told: {told[-1].is_error}: {told[-1].text[:100]}", usage=Usage(1, 1))
        return Answer(calls=(ToolCall("1", tool, {"name": name}),), usage=Usage(1, 1))

    return model


FINAL = frozenset(("rollback of half a surrogate",))
"""What ends an agent by its meaning."""


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
    async def model(request: Request) -> Any:
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
