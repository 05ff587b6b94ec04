"""The fake provider: what it answers to whom, and what it refuses as the vendors do."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.fake_llm import Fake

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
HEADERS = {"authorization": "Bearer sk-canary", "x-api-key": "sk-canary", "anthropic-version": "2023-06-01"}
KEYED = {**HEADERS, "idempotency-key": "it:1"}


async def post(fake: Fake, path: str, body: Any, headers: dict[str, str] = HEADERS, method: str = "POST") -> tuple[int, Any, dict[str, str]]:
    """What comes back, by ASGI itself."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent: list[Any] = []
    parts = iter([{"type": "http.request", "body": raw[:10], "more_body": True}, {"type": "http.request", "body": raw[10:]}])

    async def receive() -> Any:
        return next(parts, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    answer: Callable[..., Awaitable[None]] = fake
    await answer({"type": "http", "method": method, "path": path, "headers": [(k.encode(), v.encode()) for k, v in headers.items()]}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"]), {k.decode(): v.decode() for k, v in sent[0]["headers"]}


def chat(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"model": "m", "max_tokens": 9, "messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)], **more}


async def said(fake: Fake, *texts: str, **more: Any) -> Any:
    status, body, _ = await post(fake, CHAT, chat(*texts, **more))
    return body["choices"][0]["message"]["content"] if status == 200 else (status, body["error"]["message"])


async def test_the_first_rule_that_fits_and_is_not_used_up_answers() -> None:
    a = {"contains": "a"}
    rules = [{"when": a, "answer": "1"}, {"when": a, "answer": "2", "times": 2}, {"when": {"matches": "^[bc]"}, "answer": "3", "repeat": True}]
    fake = Fake(rules)
    assert [await said(fake, text) for text in ("c", "a", "a", "b", "a", "c")] == ["3", "1", "2", "3", "2", "3"]
    assert [one["rule"] for one in fake.requests] == [3, 1, 2, 3, 2, 3]


@pytest.mark.parametrize(
    ("when", "fits", "not_"),
    [
        ({"turn": 2}, ("a", "b", "c"), ("a",)),
        ({"contains": "c"}, ("a", "b", "c"), ("c", "b", "a")),
        ({"model": "m"}, ("a",), None),
        ({"model": "n"}, None, ("a",)),
        ({"protocol": "openai-chat"}, ("a",), None),
        ({"protocol": "anthropic"}, None, ("a",)),
    ],
)
async def test_a_rule_answers_what_it_is_for(when: Any, fits: Any, not_: Any) -> None:
    fake = Fake([{"when": when, "answer": "yes", "repeat": True}])
    if fits:
        assert await said(fake, *fits) == "yes"
    if not_:
        assert (await said(fake, *not_))[0] == 400


async def test_what_no_rule_answers_is_told_with_what_came() -> None:
    status, why = await said(Fake([{"when": {"contains": "x"}, "answer": "1"}]), "Wörld")
    assert status == 400 and "no rule of the script answers this (1 of 1 are not used up)" in why and "Wörld" in why and '"turn":1' in why


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
REFUSED: list[tuple[str, Any, int, str]] = [
    (CHAT, {"messages": []}, 400, "model: expected a string, found null"),
    (CHAT, {"model": "m", "messages": []}, 400, "at least one message"),
    (CHAT, {"model": "m", "messages": [{"role": "bot", "content": "x"}]}, 400, "messages[0].role"),
    (CHAT, {"model": "m", "messages": [{"role": "tool", "tool_call_id": "c1", "content": "x"}]}, 400, "'c1', which the message before did not ask for"),
    (CHAT, {"model": "m", "messages": [{"role": "assistant", "tool_calls": [CALL]}, {"role": "user", "content": "x"}]}, 400, "have no result: c1"),
    (CHAT, chat("a", tool_choice="auto"), 400, "tool_choice"),
    (CHAT, chat("a", response_format={"type": "json_schema"}), 400, "response_format.json_schema"),
    (CHAT, b"{not", 400, "no JSON"),
    (CHAT, [], 400, "no object"),
    (RESPONSES, {"model": "m", "input": 5}, 400, "input: expected a list"),
    (RESPONSES, {"model": "m", "input": [{"type": "image"}]}, 400, "input[0]"),
    (MESSAGES, {"model": "m", "messages": [{"role": "user", "content": "x"}]}, 400, "max_tokens: expected an integer"),
    (MESSAGES, chat("a", "b", "", max_tokens=5), 400, "must be non-empty"),
    (MESSAGES, {**chat("a"), "messages": [{"role": "system", "content": "x"}]}, 400, "messages.0.role"),
    ("/v1/other", chat("a"), 404, "not served here"),
]


@pytest.mark.parametrize(("path", "body", "status", "says"), REFUSED)
async def test_what_the_vendors_refuse_is_refused(path: str, body: Any, status: int, says: str) -> None:
    fake = Fake([{"answer": "x", "repeat": True}])
    found, answer, _ = await post(fake, path, body)
    assert (found, says in answer["error"]["message"]) == (status, True), answer
    assert fake.requests[0]["rule"] is None


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_without_a_key_nobody_is_answered(path: str) -> None:
    assert (await post(Fake([]), path, chat("a"), {}))[0] == 401


async def test_errors_look_as_each_vendors_do() -> None:
    fake = Fake([{"error": {"kind": "overloaded", "retry_after": 1.5}, "repeat": True}])
    status, body, headers = await post(fake, MESSAGES, chat("a"))
    assert (status, body["type"], body["error"]["type"], headers["retry-after"]) == (529, "error", "overloaded_error", "1.5")
    status, body, _ = await post(fake, CHAT, chat("a"))
    assert (status, body["error"]["type"]) == (503, "server_error")


async def test_usage_is_told_as_each_vendor_does() -> None:
    fake = Fake([{"answer": "x", "usage": {"input": 100, "output": 7, "cache_read": 60, "cache_write": 30}, "repeat": True}])
    usage = (await post(fake, CHAT, chat("a")))[1]["usage"]
    assert (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["total_tokens"]) == (100, 60, 107)
    usage = (await post(fake, RESPONSES, {"model": "m", "input": "a"}))[1]["usage"]
    assert (usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]) == (100, 60, 7)
    usage = (await post(fake, MESSAGES, chat("a")))[1]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (10, 60, 30)


async def test_what_comes_is_written_down_and_no_key_is(tmp_path: Path) -> None:
    fake = Fake([{"answer": "Grüezi"}], tmp_path / "log.jsonl")
    assert await said(fake, "a") == "Grüezi"
    assert (await post(fake, CHAT, chat("b"), KEYED))[0] == 400
    first, second = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert (first["number"], first["rule"], first["status"], first["request"]["messages"][0]["content"]) == (1, 1, 200, "a")
    assert (second["rule"], second["status"], second["idempotency_key"]) == (None, 400, "it:1")
    assert "canary" not in (tmp_path / "log.jsonl").read_text()


async def test_it_can_be_told_another_script() -> None:
    fake = Fake([{"answer": "1"}])
    assert await said(fake, "a") == "1"
    fake.tell([{"answer": "2"}])
    assert (await said(fake, "a"), len(fake.requests)) == ("2", 1)


async def test_a_request_that_is_sent_again_with_its_key_has_the_same_answer_and_uses_no_further_rule() -> None:
    fake = Fake([{"error": "overloaded"}, {"answer": "one"}, {"answer": "two"}])
    statuses = [(await post(fake, CHAT, chat("hi"), KEYED))[0] for _ in range(3)]
    first, again = [(await post(fake, CHAT, chat("hi"), KEYED))[1] for _ in range(2)]
    assert statuses[0] >= 400 and statuses[1:] == [200, 200] and first == again
    other = (await post(fake, CHAT, chat("hi"), {**KEYED, "idempotency-key": "it:2"}))[1]
    assert (first["choices"][0]["message"]["content"], other["choices"][0]["message"]["content"]) == ("one", "two")
    assert (await post(fake, CHAT, chat("something else"), KEYED))[0] == 400, "another question is not answered by the key alone"
    assert [one["rule"] for one in fake.requests] == [1, 2, None, None, None, 3, None]


async def test_a_rule_is_not_used_up_by_a_client_that_was_killed() -> None:
    fake = Fake([{"answer": "one", "delay": "60s"}, {"answer": "two"}])
    raw = json.dumps(chat("hi")).encode()
    said = iter([{"type": "http.request", "body": raw}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(said)

    async def send(message: Any) -> None:
        raise AssertionError(message)

    answer: Callable[..., Awaitable[None]] = fake
    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": [(k.encode(), v.encode()) for k, v in KEYED.items()]}
    await answer(scope, receive, send)
    assert fake._used == [0, 0] and fake._answers == {}
