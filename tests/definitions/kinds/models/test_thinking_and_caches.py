"""What a model has thought goes back to its provider as it was, and the vendors are asked to keep the beginning of a conversation in their caches."""

from typing import Any

import pytest

from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_client import send_model_request
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatMessage, ChatRequest, ThinkingBlock, ToolSpec
from perdure.definitions.kinds.models.provider_translation import provider_messages
from perdure.fake_llm import Fake, environment, models, serving

LOOK = ToolSpec("look", "Looks it up.", {"type": "object", "properties": {"q": {"type": "string"}}})
THOUGHT: dict[str, Any] = {"thinking": "Let me see.", "text": "I look.", "calls": [{"name": "look", "args": {"q": "a"}}]}


def sources(url: str) -> dict[str, Any]:
    return {**models(url), "thinker": {"provider": "openai", "model": "gpt-5-mini", "base_url": f"{url}/v1"}}


def after(first: ChatRequest, answer: ChatAnswer, **more: Any) -> ChatRequest:
    heard = ChatMessage("assistant", answer.text, answer.calls, thinking=answer.thinking)
    result = ChatMessage("tool", "found", call_id=answer.calls[0].id, name="look")
    return ChatRequest(model=more.get("model", first.model), messages=(*first.messages, heard, result), tools=first.tools)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["small", "thinker", "large"])
async def test_what_was_thought_goes_back_with_its_signature(model: str) -> None:
    fake = Fake([{"when": {"turn": 1}, "answer": THOUGHT}, {"when": {"turn": 2}, "answer": "It is a.", "repeat": True}])
    first = ChatRequest(model=model, messages=(ChatMessage("user", "Find it"),), tools=(LOOK,))
    async with serving(fake) as url:
        where = Deployment(models=sources(url))
        answer = await send_model_request(first, where)
        assert "".join(block.text for block in answer.thinking) == "Let me see." and answer.text == "I look."
        assert (await send_model_request(after(first, answer), where)).text == "It is a."
    sent = str(fake.requests[1]["request"])
    assert "Let me see." in sent and (model == "small" or answer.thinking[0].signature in sent)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["thinker", "large"])
async def test_another_provider_does_not_get_it_and_a_changed_one_is_refused(model: str) -> None:
    fake = Fake([{"when": {"turn": 1}, "answer": THOUGHT}, {"when": {"turn": 2}, "answer": "It is a.", "repeat": True}])
    first = ChatRequest(model=model, messages=(ChatMessage("user", "Find it"),), tools=(LOOK,))
    async with serving(fake) as url:
        where = Deployment(models=sources(url))
        answer = await send_model_request(first, where)
        other = "large" if model == "thinker" else "small"
        assert (await send_model_request(after(first, answer, model=other), where)).text == "It is a."
        changed = ChatAnswer(text=answer.text, calls=answer.calls, thinking=(ThinkingBlock("I know.", *_rest(answer.thinking[0])),))
        with pytest.raises(Exception, match="Invalid `signature`"):
            await send_model_request(after(first, changed), where)
    assert "Let me see." not in str(fake.requests[1]["request"])


def _rest(block: ThinkingBlock) -> tuple[str, str, str]:
    return block.id, block.signature, block.provider


def test_thoughts_stand_where_they_stood_between_the_text_and_the_calls() -> None:
    from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

    from perdure.definitions.kinds.models.provider_translation import model_answer

    signed: dict[str, Any] = {"provider_name": "anthropic"}
    parts: list[Any] = [
        ThinkingPart("one", signature="1", **signed),
        TextPart("I look."),
        ThinkingPart("two", signature="2", **signed),
        ToolCallPart("look", {"q": "a"}, "a"),
        ThinkingPart("", id="redacted_thinking", signature="3", **signed),
        ToolCallPart("look", {"q": "b"}, "b"),
    ]
    request = ChatRequest(model="large", messages=(ChatMessage("user", "Find it"),), tools=(LOOK,))
    answer = model_answer(ModelResponse(parts=parts, provider_name="anthropic"), request, None)
    response = provider_messages(after(request, answer), "anthropic")[1]
    assert list(response.parts) == parts


@pytest.mark.slow
@pytest.mark.parametrize(("vendor", "field"), [("anthropic:claude-sonnet-4-6", "cache_control"), ("openai:gpt-4o", "prompt_cache_key")])
async def test_the_vendors_keep_the_beginning_of_an_agents_conversation(vendor: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake([{"answer": "Hello", "repeat": True, "usage": {"input": 1_000, "output": 5, "cache_read": 900}}])
    async with serving(fake) as url:
        for name, value in environment(url).items():
            monkeypatch.setenv(name, value)
        where, messages = Deployment(secret=lambda name: "fake"), (ChatMessage("user", "Hi"),)
        monkeypatch.setattr("perdure.definitions.kinds.models.model_client.step_info", StepOfTest)
        answer = await send_model_request(ChatRequest(model=vendor, messages=messages, tools=(LOOK,)), where)
        await send_model_request(ChatRequest(model=vendor, messages=messages), where)
        known = Deployment(models={"mine": {"provider": "anthropic", "model": "claude-x", "base_url": url}})
        await send_model_request(ChatRequest(model="mine", messages=messages, tools=(LOOK,)), known)
    assert answer.usage.cache_read_tokens == 900
    assert [field in one["request"] for one in fake.requests] == [True, False, False], "a single request has no use for it, and other servers may not know it"


class StepOfTest:
    """Stands for the step that asks."""

    key, execution = "k", "default/agent/1"

    def secret(self, name: str) -> str:
        """Every secret is the same."""
        return "fake"
