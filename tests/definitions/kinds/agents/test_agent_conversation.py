"""Conversations with providers, over real HTTP: what is asked for reaches each of them, and comes back, in its own protocol."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.agent import Agent
from perdure.definitions.kinds.agents.agent_conversation import Conversation, model_text
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatMessage, ChatRequest, ToolCall
from perdure.fake_llm import Fake, models, serving_aside

SCRIPT: list[dict[str, Any]] = [
    {
        "when": {"contains": "cheapest"},
        "answer": {"calls": [{"name": "price", "args": {"item": "tea"}}, {"name": "price", "args": {"item": 5}}]},
        "usage": {"input": 100, "output": 10, "cache_read": 40},
    },
    {"when": {"tool_result": "300"}, "answer": {"json": {"item": "tea"}}, "usage": {"input": 200, "output": 10, "cache_read": 120}},
    {"when": {"contains": "can't be used"}, "answer": {"json": {"item": "tea", "cents": 300}}, "usage": {"input": 220, "output": 10, "cache_read": 200}},
]


class Bought(msgspec.Struct):
    """What was bought, for how much."""

    item: str
    cents: int


def price(item: str) -> int:
    """The price of an item, in cents."""
    return len(item) * 100


@pytest.mark.slow
@pytest.mark.parametrize("model", ["small", "medium", "large"])
def test_tools_side_by_side_errors_data_and_repair_go_through_each_protocol(model: str, tmp_path: Path) -> None:
    with serving_aside(Fake(SCRIPT)) as url:
        agent = Agent("shopper", model=model, tools=[price], output=Bought, deployment=Deployment(models=models(url)))
        assert agent.with_(db=f"sqlite:///{tmp_path}/it.db", id="1").run("Buy the cheapest") == Bought("tea", 300)
    assert agent.with_(db=f"sqlite:///{tmp_path}/it.db", id="1").run("Buy the cheapest") == Bought("tea", 300), "what is remembered takes no provider"


def test_the_digest_is_of_all_that_was_said_and_the_same_for_the_same() -> None:
    def talked(last: str) -> Conversation:
        one = Conversation(ChatRequest(model="m", messages=(), system="s"))
        one.say(ChatMessage("user", "a"))
        one.heard(ChatAnswer(calls=(ToolCall("1", "t", {"x": 1}),)))
        one.say(ChatMessage("tool", last, call_id="1", name="t"))
        return one

    assert talked("b").digest == talked("b").digest != talked("c").digest
    assert [message.text for message in talked("b").new] == ["b"]


@pytest.mark.parametrize(
    ("value", "text"), [("as it is", "as it is"), ({"a": [1, None]}, '{"a":[1,null]}'), ("x" * 12, "xxxxxxxxxx… (cut: it has 12 characters)")]
)
def test_a_model_is_told_text_as_it_is_and_data_as_json_and_what_is_long_is_cut(value: Any, text: str) -> None:
    assert model_text(value, 10 if isinstance(value, str) and len(value) > 10 else 100) == text
