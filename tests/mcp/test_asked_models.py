"""Claims about models that answer what servers ask while they perform a call: only if the configuration names one, and within its limits."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import App, Definition
from perdure.core.errors import BadValue
from perdure.definitions.kinds.models.model_messages import Attachment, ChatAnswer, ChatRequest, ModelUsage
from perdure.mcp import mcp_tools, read_servers
from perdure.mcp.asked_models import SampledAnswer, SamplingRefused, cut, sampling_request

SERVER = Path(__file__).with_name("raw_server.py")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Model:
    """A model that keeps what it was asked, and answers after a while."""

    def __init__(self, text: str = "Hello yourself", after_s: float = 0.0) -> None:
        self.asked: list[ChatRequest] = []
        self.was_cancelled = False
        self._text, self._after_s = text, after_s

    async def __call__(self, request: ChatRequest) -> ChatAnswer:
        self.asked.append(request)
        try:
            await asyncio.sleep(self._after_s)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if self._text == "fails":
            raise OSError("the provider is down")
        return ChatAnswer(text=self._text, model="tiny-1", usage=ModelUsage(10, 5, cost_usd=0.25))


@asynccontextmanager
async def sampling(model: Model, config: Any, *steps: dict[str, Any], **more: Any) -> AsyncIterator[tuple[App, Definition]]:
    """An App with a definition whose steps call tools of a server that asks a model."""
    server = {"command": sys.executable, "args": [str(SERVER)], "env": {"CALLS": str(Path.cwd() / "calls")}, "timeout": "2s", "sampling": config, **more}
    listed = [{"id": f"s{number}", "on_error": "go_on", **one} for number, one in enumerate(steps)]
    document = {"perdure": 1, "name": "flow", "steps": listed, "output": f"@s{len(steps) - 1}"}
    definition = Definition.of(document, tools=mcp_tools({"mcpServers": {"raw": server}}, models={"tiny": model}))
    async with App([definition], db="sqlite:///mcp.db") as app:
        yield app, definition


async def test_the_model_of_the_configuration_answers_within_its_tokens_and_its_cost_counts_for_the_step() -> None:
    model = Model()
    given = {"systemPrompt": "Be kind", "maxTokens": 900, "temperature": 0.5, "stopSequences": ["self"], "times": 2}
    async with sampling(model, {"model": "tiny", "maxTokens": 300}, {"tool": "raw.samples", "with": given}) as (app, flow):
        answers = await app.run(flow, timeout="30s")
        costs = await app.client.model_costs()
    expected = {"role": "assistant", "content": {"type": "text", "text": "Hello your"}, "model": "tiny-1", "stopReason": "stopSequence"}
    assert [{name: answer[name] for name in expected} for answer in answers] == [expected, expected]
    (first, _) = model.asked
    assert (first.model, first.system, first.max_tokens, first.temperature, first.tools) == ("tiny", "Be kind", 300, 0.5, ())
    assert [(one.role, one.text) for one in first.messages] == [("user", "Hello")]
    (cost,) = costs.costs
    assert (cost.workflow, cost.step, cost.answers, cost.cost_usd) == ("flow", "s0", 2, 0.5)


@pytest.mark.slow
async def test_the_time_of_the_call_stands_still_while_the_model_is_asked() -> None:
    async with sampling(Model(after_s=3.0), "tiny", {"tool": "raw.samples"}) as (app, flow):
        (answer,) = await app.run(flow, timeout="30s")
    assert answer["content"]["text"] == "Hello yourself"


async def test_a_server_may_not_ask_more_often_than_allowed_and_goes_on() -> None:
    model = Model()
    async with sampling(model, {"model": "tiny", "requests": 2}, {"tool": "raw.samples", "with": {"times": 3}}) as (app, flow):
        *answered, refused = await app.run(flow, timeout="30s")
    assert len(model.asked) == 2 and all("content" in one for one in answered)
    assert "2 times in one call" in refused["message"]


@pytest.mark.parametrize(
    ("model", "config", "said"),
    [
        (Model("fails"), "tiny", "the provider is down"),
        (Model(after_s=30.0), {"model": "tiny", "timeout": "300ms"}, "0.3 s"),
        (Model(), "other", "no model 'other'"),
    ],
)
async def test_a_model_that_does_not_answer_does_not_end_the_call(model: Model, config: Any, said: str) -> None:
    async with sampling(model, config, {"tool": "raw.samples"}, {"tool": "raw.add", "with": {"a": 1, "b": 2}}) as (app, flow):
        handle = await app.start(flow.with_(id="1"))
        assert await handle.result(timeout="30s") == {"total": 3}
        (answer,) = next(one for one in await handle.attempts() if one.path == "s0").decoded_output()
    assert said in answer["message"] and "content" not in answer


async def test_a_cancelled_call_asks_no_model_any_more() -> None:
    model = Model(after_s=60.0)
    async with sampling(model, "tiny", {"tool": "raw.samples"}) as (app, flow):
        handle = await app.start(flow.with_(id="1"))
        while not model.asked:
            await asyncio.sleep(0.02)
        await handle.cancel()
        for _ in range(500):
            if model.was_cancelled:
                break
            await asyncio.sleep(0.02)
        assert model.was_cancelled


@pytest.mark.slow
async def test_while_calls_of_two_tenants_are_open_no_model_is_asked() -> None:
    model = Model()
    async with sampling(model, "tiny", {"tool": "raw.samples", "with": {"delay": "@input.delay"}}, timeout="30s") as (app, flow):
        (alone,) = await (await app.start(flow.with_(id="0", tenant="a"), {"delay": 0})).result(timeout="30s")
        first = await app.start(flow.with_(id="1", tenant="a"), {"delay": 2.0})
        second = await app.start(flow.with_(id="2", tenant="b"), {"delay": 1.0})  # the server answers one call after the other
        answers = [*await first.result(timeout="30s"), *await second.result(timeout="30s")]
    (refused,) = [one["message"] for one in answers if "message" in one]
    assert "not known for which call" in refused, "the other one was open when it asked"
    assert "content" in alone and len(model.asked) == 2


def test_messages_have_text_and_images_of_the_user() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    asked = {"messages": [{"role": "user", "content": [{"type": "text", "text": "what is"}, image, {"type": "text", "text": "this?"}]}], "maxTokens": -1}
    request = sampling_request("tiny", asked, 100)
    (message,) = request.messages
    assert (message.text, message.attachments, request.max_tokens) == ("what is\nthis?", (Attachment("image/png", b"hi"),), 100)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}},
        {"role": "user", "content": {"type": "image", "data": "é", "mimeType": "image/png"}},
        {"role": "user", "content": {"type": "tool_use", "id": "1", "name": "x", "input": {}}},
        {"role": "user", "content": "text"},
        {"role": "user"},
    ],
)
def test_what_a_model_can_t_be_sent_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(SamplingRefused, match="can't be sent"):
        sampling_request("tiny", {"messages": [message]}, 100)


def test_an_answer_ends_at_the_first_of_its_stops() -> None:
    answer = SampledAnswer("one two three", "tiny-1", "endTurn")
    assert cut(answer, ["three", "two", ""]) == SampledAnswer("one ", "tiny-1", "stopSequence")
    assert cut(answer, ["four"]) == answer


@pytest.mark.parametrize(
    "given",
    [
        *(True, 1, "", [], {}, {"model": ""}, {"model": 3}),
        *({"model": "m", **more} for more in ({"maxTokens": 0}, {"requests": True}, {"requests": 1.5}, {"timeout": "soon"}, {"more": 1})),
    ],
)
def test_a_configuration_that_is_not_valid_is_refused_with_its_place(given: Any) -> None:
    with pytest.raises(BadValue, match=r"mcpServers\.raw\.sampling"):
        read_servers({"mcpServers": {"raw": {"command": "raw", "sampling": given}}})
    assert read_servers({"mcpServers": {"raw": {"command": "raw", "sampling": False}}})[0].sampling is None
