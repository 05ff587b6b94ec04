"""A name that stands for several models: the first that can answer does, in one attempt of the step."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Definition
from perdure.agent import Agent
from perdure.core import values
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models.model_errors import ContextTooLong, ModelBusy, ModelKeyMissing, ModelRejected, ModelUnavailable, UnknownModel
from perdure.definitions.kinds.models.model_fallback import request_answer
from perdure.definitions.kinds.models.model_messages import Attachment, ChatAnswer, ChatMessage, ChatRequest
from perdure.fake_llm import Fake, models, serving, serving_aside
from tests.definitions.kinds.models.scripted_provider import said

SMALL, LARGE = {"model": "gpt-4o-mini"}, {"model": "claude-sonnet-4-6"}
BOTH = {"both": ["small", "large"]}


@pytest.mark.parametrize(
    "mishap", ["rate_limit", {"kind": "rate_limit", "retry_after": 60}, "overloaded", "server", "context_length", "auth", "quota", "not_found"]
)
async def test_the_next_model_is_asked_where_the_first_one_can_not_answer(mishap: Any) -> None:
    fake = Fake([{"when": SMALL, "error": mishap}, {"when": LARGE, "answer": "Hello", "repeat": True}])
    async with serving(fake) as url:
        answer = await request_answer(said("Hi", "both"), Deployment(models={**models(url), **BOTH}))
    assert (answer.text, answer.answered_by, answer.model) == ("Hello", "large", "claude-sonnet-4-6")
    assert [one["status"] >= 400 for one in fake.requests] == [True, False]


async def test_a_request_that_is_wrong_is_wrong_for_all_and_a_name_that_is_unknown_too() -> None:
    fake = Fake([{"when": SMALL, "error": {"status": 400, "message": "bad field"}}, {"answer": "Hello", "repeat": True}])
    async with serving(fake) as url:
        with pytest.raises(ModelRejected, match="bad field"):
            await request_answer(said("Hi", "both"), Deployment(models={**models(url), **BOTH}))
        with pytest.raises(UnknownModel, match="no model 'tiny'"):
            await request_answer(said("Hi", "both"), Deployment(models={**models(url), "both": ["tiny", "small"]}))
    with pytest.raises(UnknownModel, match="list of names of models that are no lists"):
        await request_answer(said("Hi", "both"), Deployment(models={"both": ["more"], "more": ["both"]}))
    assert len(fake.requests) == 1


async def test_a_model_whose_key_is_missing_goes_on_to_the_next_one_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def answering(request: ChatRequest) -> ChatAnswer:
        return ChatAnswer(text="Hello")

    keyless = {"provider": "openai", "model": "gpt-x", "key": "NO_SUCH_KEY"}
    where = Deployment(models={"a": keyless, "b": answering, "both": ["a", "b"], "none": ["a", "a"]})
    assert (await request_answer(said("Hi", "both"), where)).answered_by == "b"
    assert [record.message for record in caplog.records if record.name == "perdure.models"] == [
        "both: the secret NO_SUCH_KEY of the model 'a' is missing in this process; set it, and retry the execution. The next model of the list is asked"
    ]
    with pytest.raises(ModelKeyMissing, match="none: none of its models has answered: the secret NO_SUCH_KEY"):
        await request_answer(said("Hi", "none"), where)


async def test_a_file_that_the_first_model_can_not_read_goes_to_the_next_one() -> None:
    request = ChatRequest(model="both", messages=(ChatMessage("user", "Listen", attachments=(Attachment("audio/wav", b"RIFF"),)),))
    fake = Fake([{"answer": "Music", "repeat": True}])
    async with serving(fake) as url:
        answer = await request_answer(request, Deployment(models={**models(url), "both": ["large", "small"]}))
    assert (answer.text, answer.answered_by, len(fake.requests)) == ("Music", "small", 1)


@pytest.mark.slow
async def test_a_model_that_asked_for_time_is_not_asked_before() -> None:
    fake = Fake([{"when": SMALL, "error": {"kind": "rate_limit", "retry_after": 60}}, {"when": LARGE, "answer": "Hello", "repeat": True}])
    async with serving(fake) as url:
        for _ in range(3):
            assert (await request_answer(said("Hi", "both"), Deployment(models={**models(url), **BOTH}))).answered_by == "large"
    assert [one["request"]["model"] for one in fake.requests] == ["gpt-4o-mini", *["claude-sonnet-4-6"] * 3]


def failing(error: Exception) -> Any:
    async def model(request: ChatRequest) -> ChatAnswer:
        raise error

    return model


@pytest.mark.parametrize(
    ("errors", "kind"),
    [
        ((ModelBusy(60, "slow"), ModelBusy(7, "down")), ModelBusy),
        ((ModelBusy(60, "slow"), ModelUnavailable("down")), ModelUnavailable),
        ((ContextTooLong("slow"), ModelBusy(7, "down")), ModelBusy),
        ((ContextTooLong("slow"), ContextTooLong("down")), ContextTooLong),
    ],
)
async def test_where_none_answers_the_error_says_why_of_each_and_when_to_try_again(errors: tuple[Exception, Exception], kind: type[Exception]) -> None:
    where = Deployment(models={"a": failing(errors[0]), "b": failing(errors[1]), "both": ["a", "b"]})
    with pytest.raises(kind, match="both: none of its models has answered: slow; down") as raised:
        await request_answer(said("Hi", "both"), where)
    assert not isinstance(raised.value, ModelBusy) or raised.value.after_s == 7


@pytest.fixture
def provider() -> Iterator[tuple[Fake, str]]:
    fake = Fake([])
    with serving_aside(fake) as url:
        yield fake, url


ASK = """
perdure: 1
name: ask
steps:
  - {id: say, llm: {model: both, prompt: Hi}}
output: {text: "@say.text", by: "@steps.say.output.meta.llm.name"}
"""


@pytest.mark.slow
def test_a_step_and_an_agent_say_which_model_has_answered(provider: tuple[Fake, str], tmp_path: Path) -> None:
    fake, url = provider
    fake.tell([{"when": SMALL, "error": "overloaded", "times": 2}, {"when": LARGE, "answer": "Hello", "repeat": True}])
    where, db = Deployment(models={**models(url), **BOTH}), f"sqlite:///{tmp_path}/it.db"
    assert Definition.of(ASK, deployment=where).with_(db=db).run() == {"text": "Hello", "by": "large"}
    agent: Agent[str] = Agent("teller", model="both", deployment=where)
    assert agent.with_(id="1", db=db).run("Hi") == "Hello"
    with Client(db) as client:
        output = client.get("1", agent).attempts()[0].output
    assert isinstance(output, bytes) and values.decode(output, ChatAnswer, "the answer").answered_by == "large"
    assert len({one["idempotency_key"] for one in fake.requests}) == 4, "two requests of a step are not the same one to a provider"
