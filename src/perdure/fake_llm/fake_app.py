"""The ASGI application: it reads a request of one protocol, matches it against the script, and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.fake_llm import anthropic_protocol, openai_protocols, openai_streams
from perdure.fake_llm.fake_script import (
    FakeRequest,
    RequestRejected,
    Script,
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
    ScriptedUsage,
    ScriptRule,
    parse_script,
)

BODY_BYTES_MAX = 64 * 1024 * 1024
CHARACTERS_PER_TOKEN = 4
"""How many tokens are reported where the script does not say it."""

MESSAGES = {
    "rate_limit": "Rate limit reached for requests",
    "overloaded": "Overloaded",
    "server": "Internal server error",
    "context_length": "prompt is too long: the messages exceed the model's maximum context length",
    "auth": "invalid API key",
    "forbidden": "this key may not use this model",
    "not_found": "the model does not exist",
    "quota": "You exceeded your current quota, please check your plan and billing details.",
}


class Protocol(NamedTuple):
    """The functions that read and write one protocol, and its form of errors."""

    read: Callable[[dict[str, Any]], FakeRequest]
    write: Callable[[FakeRequest, ScriptedReply, ScriptedUsage, int], dict[str, Any]]
    error: Callable[[str, str], dict[str, Any]]
    statuses: Mapping[str, Sequence[Any]]
    stream: Callable[[dict[str, Any]], list[bytes]]


PROTOCOLS = {
    "/v1/chat/completions": Protocol(
        openai_protocols.read_chat_request,
        openai_protocols.write_chat_answer,
        openai_protocols.openai_error,
        openai_protocols.OPENAI_ERRORS,
        openai_streams.stream_chat_answer,
    ),
    "/v1/responses": Protocol(
        openai_protocols.read_responses_request,
        openai_protocols.write_responses_answer,
        openai_protocols.openai_error,
        openai_protocols.OPENAI_ERRORS,
        openai_streams.stream_responses_answer,
    ),
    "/v1/messages": Protocol(
        anthropic_protocol.read_messages_request,
        anthropic_protocol.write_messages_answer,
        anthropic_protocol.anthropic_error,
        anthropic_protocol.ANTHROPIC_ERRORS,
        anthropic_protocol.stream_messages_answer,
    ),
}


class FakeResponse(NamedTuple):
    """A response: its status, body, further headers and content type. A stream is sent in `pieces`, one every `pace_s` seconds."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    type: bytes = b"application/json"
    pieces: tuple[bytes, ...] = ()
    pace_s: float = 0.0


class Fake:
    """A scripted provider. `requests` lists the requests in order, each with the rule that answered it (from 1) and the response.

    Each is also appended to `log`, if there is one, as a line of JSON. Keys are never recorded.
    """

    def __init__(self, rules: Script | Sequence[Any] | Mapping[str, Any], log: Path | None = None) -> None:
        self._log = log
        self.script: Script = ()
        self.requests: list[dict[str, Any]] = []
        self._used: list[int] = []
        self._answers: dict[str, FakeResponse] = {}
        self.tell(rules)

    def tell(self, rules: Script | Sequence[Any] | Mapping[str, Any]) -> None:
        """Replaces the script, and forgets the requests so far."""
        self.script = parse_script(rules)
        self._used = [0] * len(self.script)
        self.requests.clear()
        self._answers.clear()

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        """Answers a request, as an ASGI application."""
        if scope["type"] != "http":
            return
        raw = await _body(receive)
        if raw is None:
            return
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
        number, answer, delay_s = self._answered(scope["method"], scope["path"], headers, raw)
        if delay_s and await _is_gone(receive, delay_s):
            self._give_back(number, _key(scope["path"], headers, raw))
            return
        about = ((b"content-type", answer.type), (b"content-length", b"%d" % len(answer.body)))
        await send({"type": "http.response.start", "status": answer.status, "headers": [*about, *answer.headers]})
        for piece in answer.pieces if answer.pace_s else ():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            if await _is_gone(receive, answer.pace_s):
                return
        await send({"type": "http.response.body", "body": b"" if answer.pace_s else answer.body})

    def _answered(self, method: str, path: str, headers: Mapping[str, str], raw: bytes) -> tuple[int, FakeResponse, float]:
        """Returns the number of the rule that answers, the answer, and its delay. A request with the key of an answered one gets the same answer."""
        key = _key(path, headers, raw)
        if (kept := self._answers.get(key)) is not None:
            self._note(path, headers, msgspec.json.decode(raw), 0, kept)
            return 0, kept, 0.0
        protocol, body, delay_s, number = PROTOCOLS.get(path), None, 0.0, 0
        try:
            if protocol is None or method != "POST":
                raise RequestRejected(404, f"{method} {path} is not served here; use POST {', '.join(PROTOCOLS)}", "not_found")
            body = _checked(path, headers, raw)
            seen = protocol.read(body)
            number, rule = self._next(seen)
            delay_s = rule.delay_s
            answer = _mishap(protocol, rule.mishap) if rule.mishap is not None else self._reply(protocol, seen, rule, bool(body.get("stream")))
        except RequestRejected as refused:
            shape = openai_protocols.openai_error if protocol is None else protocol.error
            answer = FakeResponse(refused.status, msgspec.json.encode(shape(refused.kind, str(refused))))
        self._note(path, headers, body, number, answer)
        if key and answer.status < 400:
            self._answers[key] = answer
        return number, answer, delay_s

    def _give_back(self, number: int, key: str) -> None:
        """Makes the rule of a request available again, because its client has disconnected before the answer."""
        if number:
            self._used[number - 1] -= 1
            self._answers.pop(key, None)

    def _next(self, seen: FakeRequest) -> tuple[int, ScriptRule]:
        """Returns the first rule that fits and is not used up, and its number."""
        for index, rule in enumerate(self.script):
            if (rule.repeat or self._used[index] < rule.times) and rule.when.holds(seen):
                self._used[index] += 1
                return index + 1, rule
        left = sum(rule.repeat or self._used[index] < rule.times for index, rule in enumerate(self.script))
        came = {"protocol": seen.protocol, "model": seen.model, "turn": seen.number, "prompt": seen.prompt, "tool_results": seen.results, "system": seen.system}
        shown = {name: value if len(str(value)) <= 500 else f"{str(value)[:500]}…" for name, value in came.items()}
        raise RequestRejected(
            400, f"fake-llm: no rule of the script answers this ({left} of {len(self.script)} are not used up): {msgspec.json.encode(shown).decode()}"
        )

    def _reply(self, protocol: Protocol, seen: FakeRequest, rule: ScriptRule, is_stream: bool) -> FakeResponse:
        reply = _by_its_way(rule.reply, seen)
        written = protocol.write(seen, reply, rule.usage or _counted(seen, reply), len(self.requests) + 1)
        if is_stream:
            pieces = protocol.stream(written)
            return FakeResponse(200, b"".join(pieces), type=b"text/event-stream", pieces=tuple(pieces), pace_s=rule.pace_s)
        return FakeResponse(200, msgspec.json.encode(written))

    def _note(self, path: str, headers: Mapping[str, str], body: Any, rule: int, answer: FakeResponse) -> None:
        about = {"number": len(self.requests) + 1, "path": path, "rule": rule or None, "status": answer.status}
        about |= {"idempotency_key": headers.get("idempotency-key", ""), "request": body, "answer": answer.body.decode("utf-8", "replace")}
        self.requests.append(about)
        if self._log is not None:
            with self._log.open("ab") as file:
                file.write(msgspec.json.encode(about) + b"\n")


def _key(path: str, headers: Mapping[str, str], raw: bytes) -> str:
    """The identity of a request that may be repeated: its idempotency key and content; empty without a key."""
    said = headers.get("idempotency-key", "")
    return f"{path} {said} {sha256(raw).hexdigest()}" if said else ""


def _checked(path: str, headers: Mapping[str, str], raw: bytes) -> dict[str, Any]:
    """The body of a request that has a key and is JSON."""
    is_anthropic = path == "/v1/messages"
    if not (headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer").strip()):
        raise RequestRejected(401, "there is no API key in the request", "auth")
    if is_anthropic and not headers.get("anthropic-version"):
        raise RequestRejected(400, "anthropic-version: header is required")
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise RequestRejected(400, f"the body is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise RequestRejected(400, "the body is no object")
    return body


def _by_its_way(reply: ScriptedReply, seen: FakeRequest) -> ScriptedReply:
    """A reply whose data is where the request wants it: in the text, or in the arguments of a tool."""
    if reply.json is msgspec.UNSET:
        return reply
    if seen.answer_tool and not seen.has_schema:
        args = reply.json if isinstance(reply.json, dict) else {"value": reply.json}
        return msgspec.structs.replace(reply, json=msgspec.UNSET, calls=(*reply.calls, ScriptedToolCall(seen.answer_tool, args)))
    return msgspec.structs.replace(reply, json=msgspec.UNSET, text=msgspec.json.encode(reply.json).decode())


def _counted(seen: FakeRequest, reply: ScriptedReply) -> ScriptedUsage:
    asked = sum(len(turn.text) for turn in seen.turns)
    said = len(reply.text) + len(reply.thinking) + len(reply.refusal) + sum(len(openai_protocols.tool_arguments(call.args)) for call in reply.calls)
    return ScriptedUsage(1 + asked // CHARACTERS_PER_TOKEN, 1 + said // CHARACTERS_PER_TOKEN)


def _mishap(protocol: Protocol, error: ScriptedError) -> FakeResponse:
    named = {429: "rate_limit", 529: "overloaded", 503: "overloaded", 401: "auth", 403: "forbidden", 404: "not_found"}
    kind = error.kind or named.get(error.status, "invalid" if error.status and error.status < 500 else "server")
    status = error.status or int(protocol.statuses[kind][0])
    message = error.message or MESSAGES.get(kind, "the request is not valid")
    body = msgspec.json.encode(protocol.error(kind, message)) if error.body is None else error.body.encode()
    after = f"{error.retry_after:g}" if isinstance(error.retry_after, float | int) else error.retry_after
    headers = () if after is None else ((b"retry-after", after.encode()),)
    return FakeResponse(status, body, headers)


async def _body(receive: Callable[[], Awaitable[Any]]) -> bytes | None:
    """The whole body; None if the client is gone or the body is too large."""
    parts = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect" or len(parts) > BODY_BYTES_MAX:
            return None
        parts += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(parts)


async def _is_gone(receive: Callable[[], Awaitable[Any]], delay_s: float) -> bool:
    """Waits; returns whether the client has disconnected meanwhile."""
    try:
        await asyncio.wait_for(receive(), delay_s)
    except TimeoutError:
        return False
    return True
