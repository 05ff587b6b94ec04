"""Asking: over real HTTP, in the protocols of two vendors, to a provider that answers what a script says."""

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, Literal, NamedTuple

import pytest
import pytest_asyncio

from perdure.core.errors import Fatal, RetryAfter
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_client import send_model_request
from perdure.definitions.kinds.models.model_errors import (
    ContextTooLong,
    KeyRefused,
    MediaUnsupported,
    ModelBusy,
    ModelNotFound,
    ModelRejected,
    ModelUnavailable,
    OutOfCredit,
    UnknownModel,
)
from perdure.definitions.kinds.models.model_messages import Attachment, ChatAnswer, ChatMessage, ChatRequest, ModelUsage, ToolCall, ToolSpec
from perdure.fake_llm import Fake, serving
from tests.definitions.kinds.models.scripted_provider import BUG, KEY, NAMES, SHAPE, deployment, said

LOOK = ToolSpec("look", "Looks it up.", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})


pytestmark = pytest.mark.asyncio(loop_scope="module")  # so that what asks is made once


class Provider(NamedTuple):
    """A provider, and where it listens."""

    fake: Fake
    url: str

    async def asked(self, rules: list[Any], request: ChatRequest, **more: Any) -> ChatAnswer:
        """What comes of one request, answered by these rules."""
        self.fake.tell(rules)
        return await send_model_request(request, deployment(self.url, **more))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[Provider]:
    fake = Fake([])
    async with serving(fake) as url:
        yield Provider(fake, url)


@pytest.mark.slow
@pytest.mark.parametrize("model", NAMES)
async def test_a_text_is_answered_with_what_it_took(provider: Provider, model: str) -> None:
    provider.fake.tell([{"answer": "Grüezi 🌍\u2028", "usage": {"input": 1_000, "output": 5, "cache_read": 400}}])
    answer = await send_model_request(said("Hi, wörld", model, system="Be brief", temperature=0.2, max_tokens=50), deployment(provider.url))
    assert (answer.text, answer.data, answer.finish) == ("Grüezi 🌍\u2028", None, "stop")
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.cache_read_tokens) == (1_000, 5, 400)
    assert answer.usage.cost_usd is not None and 0 < answer.usage.cost_usd < 0.01
    (sent,) = provider.fake.requests
    assert sent["request"]["temperature"] == 0.2 and "Be brief" in str(sent["request"]) and "wörld" in str(sent["request"])
    assert 50 in {sent["request"].get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")}


@pytest.mark.slow
@pytest.mark.parametrize("model", NAMES)
@pytest.mark.parametrize(("shape", "json"), [(SHAPE, BUG), ({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}, [1, 2])])
async def test_with_a_schema_the_answer_is_data_whatever_way_the_model_has_for_it(provider: Provider, model: str, shape: Any, json: Any) -> None:
    told = json if isinstance(json, dict) else {"value": json}
    answer = await provider.asked([{"answer": {"json": told}}], said("Classify", model, schema=shape))
    assert (answer.data, answer.text, answer.calls, answer.finish) == (json, "", (), "stop")


@pytest.mark.parametrize("model", NAMES)
async def test_what_should_be_data_and_is_none_is_told_as_text(provider: Provider, model: str) -> None:
    answer = await provider.asked([{"answer": "I think: bug"}], said("Classify", model, schema=SHAPE))
    assert (answer.data, answer.text) == (None, "I think: bug")


async def test_a_map_is_not_held_to_be_empty(provider: Provider) -> None:
    shape = {"type": "object", "properties": {"counts": {"type": "object", "additionalProperties": {"type": "integer"}}}}
    for model in ("small", "large"):
        answer = await provider.asked([{"answer": {"json": {"counts": {"a": 1}}}}], said("Count", model, schema=shape))
        assert answer.data == {"counts": {"a": 1}}


@pytest.mark.parametrize("model", NAMES)
async def test_tools_are_asked_for_and_their_results_are_told(provider: Provider, model: str) -> None:
    calls = [{"name": "look", "args": {"q": "ä"}}, {"name": "look", "args": {"q": "b"}}]
    rules = [{"when": {"turn": 1}, "answer": {"text": "Let me see.", "calls": calls}}, {"when": {"tool_result": "42"}, "answer": "It is 42."}]
    provider.fake.tell(rules)
    begun = said("What is it?", model, tools=(LOOK,))
    first = await send_model_request(begun, deployment(provider.url))
    assert [(call.name, call.args) for call in first.calls] == [("look", {"q": "ä"}), ("look", {"q": "b"})]
    assert (first.text, first.finish) == ("Let me see.", "tool") and len({call.id for call in first.calls}) == 2
    results = (
        ChatMessage("tool", "42", call_id=first.calls[0].id, name="look"),
        ChatMessage("tool", "not there", call_id=first.calls[1].id, name="look", is_error=True),
    )
    messages = (*begun.messages, ChatMessage("assistant", first.text, first.calls), *results)
    assert (await send_model_request(ChatRequest(model=model, messages=messages, tools=(LOOK,)), deployment(provider.url))).text == "It is 42."


@pytest.mark.parametrize("model", NAMES)
async def test_a_tool_whose_name_no_provider_takes_has_another_one_there(provider: Provider, model: str) -> None:
    names = {"rates.convert": "rates_convert", "rates_convert": "rates_convert_2", "ä" * 80: "_" * 64}
    tools = tuple(ToolSpec(name, "", LOOK.schema) for name in names)
    calls = [{"name": given, "args": {"q": "a"}} for given in names.values()]
    provider.fake.tell([{"when": {"turn": 1}, "answer": {"calls": calls}}, {"when": {"tool_result": "42"}, "answer": "It is 42."}])
    begun = said("What is it?", model, tools=tools)
    first = await send_model_request(begun, deployment(provider.url))
    assert [call.name for call in first.calls] == [*names]
    results = [ChatMessage("tool", "42", call_id=call.id, name=call.name) for call in first.calls]
    messages = (*begun.messages, ChatMessage("assistant", first.text, first.calls), *results)
    assert (await send_model_request(ChatRequest(model=model, messages=messages, tools=tools), deployment(provider.url))).text == "It is 42."
    assert "rates.convert" not in str(provider.fake.requests) and "rates_convert_2" in str(provider.fake.requests[-1])


@pytest.mark.parametrize("model", NAMES)
async def test_tools_and_a_schema_go_together(provider: Provider, model: str) -> None:
    rules = [{"when": {"turn": 1}, "answer": {"calls": [{"name": "look", "args": {"q": "a"}}]}}, {"answer": {"json": BUG}}]
    provider.fake.tell(rules)
    begun = said("Classify", model, tools=(LOOK,), schema=SHAPE)
    first = await send_model_request(begun, deployment(provider.url))
    assert (first.finish, first.data) == ("tool", None)
    messages = (*begun.messages, ChatMessage("assistant", "", first.calls), ChatMessage("tool", "x", call_id=first.calls[0].id, name="look"))
    assert (await send_model_request(ChatRequest(model=model, messages=messages, tools=(LOOK,), schema=SHAPE), deployment(provider.url))).data == BUG


@pytest.mark.parametrize("model", NAMES)
@pytest.mark.parametrize(("answer", "finish"), [({"refusal": "I can't."}, "filter"), ({"text": "Once upon", "finish": "length"}, "length")])
async def test_an_answer_that_is_refused_or_cut_off_says_so(provider: Provider, model: str, answer: Any, finish: str) -> None:
    assert (await provider.asked([{"answer": answer}], said("Tell", model))).finish == finish


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize(
    ("model", "media_type"),
    [*((model, "video/mp4") for model in NAMES), ("small", "audio/x-foo"), ("medium", "audio/wav"), ("large", "application/zip"), ("large", "text/plain")],
)
async def test_a_file_that_the_model_can_not_read_is_refused_with_its_type_before_it_is_sent(
    provider: Provider, model: str, media_type: str, role: Literal["user", "tool"]
) -> None:
    call = ToolCall("1", "look", {"q": "a"})
    begun = (ChatMessage("user", "Hi"), ChatMessage("assistant", "", (call,))) if role == "tool" else ()
    last = ChatMessage(role, "see", call_id=call.id, name=call.name, attachments=(Attachment(media_type, b"\xff\xfe"),))
    with pytest.raises(MediaUnsupported, match=f"{model}: the model can't read an attachment of the request: .* They are '{media_type}'; convert it"):
        await provider.asked([{"answer": "Hello"}], ChatRequest(model=model, messages=(*begun, last), tools=(LOOK,)))
    assert not provider.fake.requests


MISHAPS: list[tuple[Any, type[Exception], str]] = [
    ("rate_limit", ModelUnavailable, "429: Rate limit reached"),
    ({"kind": "rate_limit", "retry_after": 7}, ModelBusy, "asks to be asked again after 7 s"),
    ("overloaded", ModelUnavailable, "Overloaded"),
    ({"kind": "overloaded", "retry_after": 2}, ModelBusy, "after 2 s"),
    ("server", ModelUnavailable, "500: Internal server error"),
    (502, ModelUnavailable, "502"),
    ("context_length", ContextTooLong, "longer than the model can read"),
    ("auth", KeyRefused, "refuses the key"),
    ("forbidden", KeyRefused, "refuses the key, or what it may do"),
    ("not_found", ModelNotFound, "no such model"),
    ("quota", OutOfCredit, "no credit left"),
    ({"status": 400, "message": "bad field"}, ModelRejected, "bad field"),
    ({"status": 500, "body": "<html>Bad gateway</html>"}, ModelUnavailable, "500"),
    *(({"status": 200, "body": body}, ModelUnavailable, "JSON|can't be read") for body in ("{not json", '{"hello": "world"}', "[]", "null", "")),
]


@pytest.mark.slow
@pytest.mark.parametrize("model", NAMES[:3])
@pytest.mark.parametrize(("mishap", "kind", "says"), MISHAPS)
async def test_an_error_is_tried_again_only_if_that_may_help(provider: Provider, model: str, mishap: Any, kind: type[Exception], says: str) -> None:
    provider.fake.tell([{"error": mishap, "repeat": True}])
    with pytest.raises(kind, match=says) as raised:
        await send_model_request(said("Hi", model), deployment(provider.url))
    assert type(raised.value) is kind and model in str(raised.value)
    assert len(provider.fake.requests) == 1, "how often it is tried is a matter of the step"
    if isinstance(raised.value, RetryAfter):
        assert raised.value.after_s == mishap["retry_after"]


@pytest.mark.parametrize("model", NAMES[:3])
async def test_a_provider_may_say_by_a_date_when_it_may_be_asked_again_and_no_later_than_in_a_day(provider: Provider, model: str) -> None:
    for ahead, most in ((timedelta(minutes=10), 600.0), (timedelta(days=30), 86_400.0), (timedelta(minutes=-10), 0.0)):
        date = format_datetime(datetime.now(UTC) + ahead, usegmt=True)
        with pytest.raises(ModelBusy) as raised:
            await provider.asked([{"error": {"kind": "rate_limit", "retry_after": date}}], said("Hi", model))
        assert most - 10 <= raised.value.after_s <= most


@pytest.mark.parametrize("model", NAMES[:3])
async def test_a_tool_asked_for_with_what_is_no_object_is_tried_again_unless_it_was_cut_off(provider: Provider, model: str) -> None:
    broken = {"calls": [{"name": "look", "args": '{"q": '}]}
    with pytest.raises(ModelUnavailable, match="arguments that are not a JSON object"):
        await provider.asked([{"answer": broken}], said("Hi", model, tools=(LOOK,)))
    cut = await provider.asked([{"answer": {**broken, "text": "Let", "finish": "length"}}], said("Hi", model, tools=(LOOK,)))
    assert (cut.calls, cut.text, cut.finish) == ((), "Let", "length")


@pytest.mark.slow
async def test_the_key_stands_in_no_error(provider: Provider) -> None:
    for model in NAMES[:3]:
        with pytest.raises(ModelRejected) as raised:
            await provider.asked([{"error": {"kind": "auth", "message": f"Incorrect API key provided: {KEY}."}}], said("Hi", model))
        assert "Incorrect API key provided: ***." in str(raised.value) and KEY not in repr(raised.getrepr())


async def test_a_provider_that_is_not_there_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    for model in NAMES[:3]:
        with pytest.raises(ModelUnavailable, match=model):
            await send_model_request(said("Hi", model), deployment(url))


@pytest.mark.slow
async def test_a_huge_answer_arrives_whole(provider: Provider) -> None:
    text = "0123456789äöü\n" * 200_000
    for model in NAMES[:3]:
        assert (await provider.asked([{"answer": text}], said("Tell", model))).text == text


async def test_a_provider_that_takes_longer_than_its_entry_allows_is_tried_again(provider: Provider) -> None:
    slow = {"provider": "openai-chat", "model": "m", "settings": {"timeout": 0.1}}
    provider.fake.tell([{"answer": "late", "delay": "1h"}])
    with pytest.raises(ModelUnavailable, match="slow"):
        await send_model_request(said("Hi", "slow"), deployment(provider.url, slow={**slow, "base_url": f"{provider.url}/v1"}))


@pytest.mark.slow
async def test_many_ask_at_once_on_one_client(provider: Provider) -> None:
    provider.fake.tell([{"answer": "Hello", "repeat": True}])
    where = deployment(provider.url)
    answers = await asyncio.gather(*(send_model_request(said(str(number), NAMES[number % 3]), where) for number in range(60)))
    assert {answer.text for answer in answers} == {"Hello"} and len(provider.fake.requests) == 60


async def test_a_name_that_is_not_known_lists_those_that_are() -> None:
    with pytest.raises(UnknownModel, match=r"no model 'tiny' .*default, large, medium, plain, small.*models.yaml.*openai:MODEL") as raised:
        await send_model_request(said("Hi", "tiny"), deployment("http://127.0.0.1:1"))
    assert isinstance(raised.value, Fatal)


async def test_a_vendors_own_model_needs_no_entry_but_its_key() -> None:
    with pytest.raises(UnknownModel, match=r"the secret ANTHROPIC_API_KEY of the model 'anthropic:claude-x' is missing"):
        await send_model_request(said("Hi", "anthropic:claude-x"), Deployment())


async def test_the_key_is_the_secret_that_the_entry_names_and_a_server_of_ones_own_may_need_none(provider: Provider) -> None:
    asked_for: list[str] = []

    def secret(name: str) -> str | None:
        asked_for.append(name)
        return KEY if name == "TEAM_KEY" else None

    provider.fake.tell([{"answer": "Hello", "repeat": True}])
    where = deployment(provider.url, secret, ours={"provider": "anthropic", "model": "m", "base_url": provider.url, "key": "TEAM_KEY"})
    assert (await send_model_request(said("Hi", "ours"), where)).text == (await send_model_request(said("Hi", "small"), where)).text == "Hello"
    with pytest.raises(UnknownModel, match="the secret OTHER of the model 'theirs' is missing"):
        await send_model_request(
            said("Hi", "theirs"), deployment(provider.url, secret, theirs={"provider": "openai", "model": "m", "base_url": provider.url, "key": "OTHER"})
        )
    assert asked_for == ["TEAM_KEY", "OPENAI_API_KEY", "OTHER"]


async def test_settings_of_an_entry_go_along_and_one_that_there_is_not_is_refused(provider: Provider) -> None:
    provider.fake.tell([{"answer": "Hello"}])
    entry = {"provider": "openai-chat", "model": "m", "base_url": f"{provider.url}/v1"}
    wrong: dict[str, Any] = {"wrong": {**entry, "settings": {"topp": 1}}, "odd": {**entry, "prize": 1}}
    where = deployment(provider.url, ours={**entry, "settings": {"top_p": 0.5, "temperature": 1}}, **wrong)
    assert (await send_model_request(said("Hi", "ours", temperature=0.0), where)).text == "Hello"
    assert (provider.fake.requests[0]["request"]["top_p"], provider.fake.requests[0]["request"]["temperature"]) == (0.5, 0.0)
    with pytest.raises(ModelRejected, match="unknown settings: topp"):
        await send_model_request(said("Hi", "wrong"), where)
    with pytest.raises(UnknownModel, match=r"'odd' .*prize"):
        await send_model_request(said("Hi", "odd"), where)


async def test_the_price_of_an_entry_counts_and_a_model_whose_price_nobody_knows_has_none(provider: Provider) -> None:
    used = {"input": 1_000_000, "output": 100_000, "cache_read": 500_000, "cache_write": 100_000}
    priced = await provider.asked([{"answer": "x", "usage": used}], said("Hi", "plain"))
    assert priced.usage == ModelUsage(1_000_000, 100_000, 500_000, 100_000, cost_usd=2 * 0.5 + 0.2 * 0.5 + 10 * 0.1)
    provider.fake.tell([{"answer": "x"}])
    unknown = await send_model_request(
        said("Hi", "own"), deployment(provider.url, own={"provider": "anthropic", "model": "nobody-knows-me", "base_url": provider.url})
    )
    assert unknown.usage.cost_usd is None


@pytest.mark.slow
@pytest.mark.parametrize("model", NAMES)
@pytest.mark.parametrize("told", [0, -1_000_000])
@pytest.mark.filterwarnings("ignore:Failed to extract usage")  # so the library says what it makes of negative numbers
async def test_a_provider_that_reports_nothing_or_less_is_paid_for_what_it_was_sent(provider: Provider, model: str, told: int) -> None:
    text = "x" * 4_000
    provider.fake.tell([{"answer": text, "usage": {"input": told, "output": told, "cache_read": told}}])
    usage = (await send_model_request(said(text, model), deployment(provider.url))).usage
    assert usage.is_estimated and usage.input_tokens >= 1_000 and usage.output_tokens >= 1_000
    assert usage.cost_usd is not None and usage.cost_usd > 0
