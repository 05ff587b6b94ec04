"""Steps that ask models: over real HTTP, each request a call of its own that is remembered."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.core import log_format
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.models import llm_kind
from perdure.fake_llm import Fake, serving_aside
from perdure.loop_thread import LoopThread
from perdure.testing import World
from tests.definitions.kinds.models.scripted_provider import BUG, KEY, deployment

pytestmark = pytest.mark.slow

SHAPE = {"label": {"enum": ["bug", "question"]}, "confidence": {"type": "number"}}
ASK: dict[str, Any] = {"id": "classify", "llm": {"model": "small", "prompt": "Classify: @{input.text}", "temperature": 0.2, "schema": SHAPE}}
ENVELOPE = {"id": "end", "return": {"data": "@classify", "envelope": "@steps.classify.output"}}


def document(*steps: Any) -> dict[str, Any]:
    return {"perdure": 1, "name": "triage", "order": "listed", "input": {"text": {"type": "string", "default": "It broke"}}, "steps": list(steps)}


def asking(**more: Any) -> dict[str, Any]:
    return {**ASK, "llm": {**ASK["llm"], **more}}


@pytest.fixture(scope="module")
def aside() -> Iterator[LoopThread]:
    thread = LoopThread("models")
    yield thread
    thread.close()


class Asked:
    """A provider, and worlds whose steps ask it: a world has no network of its own, so a thread beside it asks."""

    def __init__(self, fake: Fake, url: str, aside: LoopThread) -> None:
        self.fake, self.url, self.aside = fake, url, aside

    def kind(self, where: Deployment | None = None) -> Kind:
        real = llm_kind.llm_kind(where or deployment(self.url))
        return Kind("llm", lambda config, input=None: self.aside.call(real.run(config, input)), idempotent=real.idempotent)

    def definition(self, *steps: Any, where: Deployment | None = None) -> Definition:
        return Definition.of(document(*steps), kinds={"llm": self.kind(where)})


@pytest.fixture
def asked(aside: LoopThread, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A provider that answers by the rules it is given."""
    with serving_aside(fake := Fake([])) as url:
        yield partial(_telling, Asked(fake, url, aside))


def _telling(asked: Asked, *rules: Any) -> Asked:
    asked.fake.tell(rules)
    return asked


def test_a_step_is_its_data_and_its_envelope_what_that_came_by(world: World, asked: Any) -> None:
    provider = asked({"answer": {"json": BUG}, "usage": {"input": 100, "output": 10, "cache_read": 60}})
    found: Any = world.run(provider.definition(ASK, ENVELOPE))
    assert found["data"] == BUG
    meta = found["envelope"].pop("meta")
    assert found["envelope"] == {"type": "llm", "data": BUG, "port": "success"}
    assert meta["llm"] == {"model": "gpt-4o-mini", "temperature": 0.2, "provider": "openai", "name": "small"} and meta["finish"] == "stop"
    assert {name: meta["usage"][name] for name in ("input_tokens", "output_tokens", "cache_read_tokens")} == {
        "input_tokens": 100,
        "output_tokens": 10,
        "cache_read_tokens": 60,
    }
    assert 0 < meta["usage"]["cost_usd"] < 1


def test_without_a_schema_it_is_the_text_and_what_that_took(world: World, asked: Any) -> None:
    rules = {
        "when": {"protocol": "anthropic", "contains": 'Sum up\n\n{"n":[1,2]}', "system": "Be brief"},
        "answer": "Three.",
        "usage": {"input": 7, "output": 2},
    }
    provider = asked(rules)
    step = {"id": "sum", "llm": {"model": "plain", "prompt": "Sum up", "system": "Be brief"}, "with": {"n": [1, 2]}}
    found: Any = world.run(provider.definition(step))
    usage = {"input_tokens": 7, "output_tokens": 2, "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": (7 * 2 + 2 * 10) / 1e6, "is_estimated": False}
    assert found == {"text": "Three.", "finish": "stop", "model": "claude-x", "usage": usage}


def test_earlier_messages_stand_before_the_prompt_and_a_text_alone_is_one(world: World, asked: Any) -> None:
    provider = asked({"when": {"turn": 2, "contains": "And now?"}, "answer": "Later."}, {"when": {"contains": "What is it?"}, "answer": "It."})
    said = [{"role": "user", "text": "Hi"}, {"role": "assistant", "content": "Hello"}]
    talk = {"id": "talk", "llm": {"messages": said, "prompt": "And now?"}}
    found: Any = world.run(provider.definition(talk, {"id": "short", "llm": "What is it?"}, {"id": "end", "return": ["@talk.text", "@short.text"]}))
    assert found == ["Later.", "It."]


WRONG = {"label": "nonsense", "confidence": 0.9}
TOOK = {"repeat": True, "usage": {"input": 50, "output": 10}}
ONCE = ({"when": {"turn": 1}, "answer": {"json": WRONG}, **TOOK}, {"when": {"turn": 2}, "answer": {"json": BUG}, **TOOK})


@pytest.mark.parametrize("model", ["small", "medium", "large", "plain"])
def test_what_does_not_fit_is_asked_for_again_in_a_call_of_its_own(world: World, asked: Any, model: str) -> None:
    provider = asked(*ONCE)
    run = world.start(provider.definition(asking(model=model), ENVELOPE))
    found: Any = run.result()
    assert (found["data"], found["envelope"]["meta"]["repairs"]) == (BUG, 1)
    assert [one.path for one in run.steps() if one.kind == "call"] == ["classify", "classify/repair"]
    first, second = provider.fake.requests
    assert first["idempotency_key"] + "/repair" == second["idempotency_key"]
    assert "nonsense" in str(second["request"]) and "at label" in str(second["request"])
    assert found["envelope"]["meta"]["usage"]["output_tokens"] == 20


def test_it_is_asked_for_again_as_often_as_the_step_says(world: World, asked: Any) -> None:
    rules = [
        {"when": {"turn": 1}, "answer": "I think it is a bug"},
        {"when": {"turn": 2}, "answer": {"json": WRONG}},
        {"when": {"turn": 3}, "answer": {"json": BUG}},
    ]
    provider = asked(*rules)
    found: Any = world.run(provider.definition(asking(repairs=2), ENVELOPE))
    assert (found["data"], found["envelope"]["meta"]["repairs"]) == (BUG, 2)
    last = [one["content"] for one in provider.fake.requests[2]["request"]["messages"]]
    assert last[0] == "Classify: It broke" and last[1] == "I think it is a bug" and "it is not JSON" in last[2] and "at label" in last[4]


@pytest.mark.parametrize(("repairs", "says"), [(0, "0 times"), (1, "once"), (2, "2 times")])
def test_after_that_it_fails_and_lists_what_does_not_fit(world: World, asked: Any, repairs: int, says: str) -> None:
    provider = asked({"answer": {"json": {"label": "x", "confidence": "high"}}, "repeat": True})
    with pytest.raises(ExecutionFailed, match=rf"requested again {says}: at label: .*; at confidence: ") as failed:
        world.run(provider.definition(asking(repairs=repairs)))
    assert failed.value.error.type == "bad_answer" and len(provider.fake.requests) == 1 + repairs


def test_what_stands_in_for_it_is_told_why(world: World, asked: Any) -> None:
    provider = asked({"answer": {"json": WRONG}, "repeat": True})
    found: Any = world.run(provider.definition({**ASK, "on_error": [{"id": "person", "set": {"why": "@error.type"}}]}, {"id": "end", "return": "@vars.why"}))
    assert found == "bad_answer"


def test_a_refusal_is_not_asked_for_again(world: World, asked: Any) -> None:
    provider = asked({"answer": {"refusal": "I can't help with that."}, "repeat": True})
    with pytest.raises(ExecutionFailed, match="answer_refused: classify: the model refused"):
        world.run(provider.definition(ASK))
    assert len(provider.fake.requests) == 1


def test_an_answer_that_was_cut_off_is_told_so(world: World, asked: Any) -> None:
    provider = asked({"when": {"turn": 1}, "answer": {"text": '{"label": "b', "finish": "length"}}, {"when": {"contains": "cut off"}, "answer": {"json": BUG}})
    found: Any = world.run(provider.definition(ASK, ENVELOPE))
    assert found["data"] == BUG


def test_a_busy_provider_is_asked_again_when_it_said_and_not_before(world: World, asked: Any) -> None:
    provider = asked({"error": {"kind": "rate_limit", "retry_after": 3600}}, {"error": "server"}, {"answer": {"json": BUG}})
    run = world.start(provider.definition(ASK, ENVELOPE))
    world.skip("59m")
    assert len(provider.fake.requests) == 1
    world.skip("2m")
    assert run.result()["data"] == BUG and run.step("classify").attempts == 3
    assert len({one["idempotency_key"] for one in provider.fake.requests}) == 1


def test_what_can_not_succeed_is_not_tried_again(world: World, asked: Any) -> None:
    provider = asked({"error": "context_length", "repeat": True})
    with pytest.raises(ExecutionFailed, match="context_too_long: small: the request is longer"):
        world.run(provider.definition(ASK))
    assert len(provider.fake.requests) == 1


def test_no_log_has_the_key(asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    provider = asked({"error": {"kind": "rate_limit", "message": f"slow down, {KEY}", "retry_after": 0}}, {"answer": {"json": BUG}})
    assert Definition.of(document(ASK), deployment=deployment(provider.url)).run() == BUG
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"gpt-4o-mini" in kept and b"slow down, ***" in kept
    assert KEY.encode() not in kept


def test_a_step_that_takes_too_long_is_given_up(asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    provider = asked({"when": {"contains": "Classify"}, "answer": "late", "delay": "1h", "repeat": True})
    with pytest.raises(ExecutionFailed, match=r"timeout: no answer within 0\.2 s"):
        Definition.of(document({**ASK, "timeout": "200ms", "retry": {"max": 1}}), deployment=deployment(provider.url)).run()


def test_what_was_answered_is_not_asked_for_again_and_is_replayed_without_the_provider(world: World, aside: LoopThread) -> None:
    with serving_aside(fake := Fake(ONCE)) as url:
        provider = Asked(fake, url, aside)
        found = provider.definition(ASK, {"id": "wait", "listen": "go"}, ENVELOPE)
        run = world.start(found)
        assert run.status == "waiting" and len(fake.requests) == 2
    world.restart(found)
    run.send("go", None)
    assert run.result()["data"] == BUG and len(fake.requests) == 2
    world.check()


@pytest.mark.perdure(crash_at="every", crashes_max=40)
def test_an_answer_and_its_repair_survive_a_crash_at_every_write(world: World, asked: Any) -> None:
    provider = asked(*ONCE)
    run = world.start(provider.definition(ASK, ENVELOPE))
    found: Any = run.result()
    assert (found["data"], found["envelope"]["meta"]["repairs"]) == (BUG, 1)
    entry = world.machine.read(run.key)
    assert entry is not None and KEY not in repr(log_format.decode_rows(entry.payloads))


def test_messages_that_are_no_list_are_told_of(world: World, asked: Any) -> None:
    with pytest.raises(ExecutionFailed, match="messages of an llm step must be a list"):
        world.run(asked({"answer": "never"}).definition({"id": "a", "llm": {"messages": True}}))
