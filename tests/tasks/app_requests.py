"""Asking the app as a server would, without one: in virtual time, each exchange held against the OpenAPI description."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jsonschema_rs

from perdure.tasks.http_endpoint import TaskApp, openapi_description

DESCRIPTION: dict[str, Any] = json.loads(openapi_description())
JSON = (b"content-type", b"application/json")
HERE = (b"host", b"127.0.0.1:7800")


class AppResponse(NamedTuple):
    """What was answered."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def error(self) -> str:
        """The type of the error."""
        return str(self.body["error"]["type"])


async def ask(
    app: TaskApp, path: str, body: Any = None, *, method: str = "POST", headers: Sequence[tuple[bytes, bytes]] = (HERE, JSON), **how: Any
) -> AppResponse | None:
    """Ask once. `parts` are the pieces in which the body comes, each after `pause_s`; after `leaves_s` whoever asks is gone. None, if nothing was answered."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    parts = list(how.get("parts", [raw]))
    answer: list[Any] = []

    async def receive() -> dict[str, Any]:
        if parts:
            await asyncio.sleep(how.get("pause_s", 0.0))
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
        await asyncio.sleep(how.get("leaves_s", 1e6))
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        answer.append(message)

    length = (b"content-length", str(how.get("length", sum(map(len, parts)))).encode())
    await app({"type": "http", "method": method, "path": path, "headers": [*headers, length]}, receive, send)
    if not answer:
        return None
    start, end = answer
    told = AppResponse(start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, json.loads(end["body"]) if end["body"] else None)
    assert end["body"] == b"" or told.headers["content-length"] == str(len(end["body"]))
    described(path, method, body, told)
    return told


async def told(app: TaskApp, path: str, body: Any = None, **how: Any) -> AppResponse:
    """What is answered."""
    found = await ask(app, path, body, **how)
    assert found is not None
    return found


def described(path: str, method: str, body: Any, told: AppResponse) -> None:
    """Hold an exchange against the description."""
    operation = next((one[method.lower()] for name, one in DESCRIPTION["paths"].items() if matches(name, path) and method.lower() in one), None)
    if operation is None:
        assert told.status in (404, 405) or method == "HEAD"
        return
    answer = operation["responses"].get(str(told.status))
    assert answer is not None, f"{path} is not described as answering {told.status}: {told.body}"
    valid(answer["content"]["application/json"]["schema"], told.body)
    if told.status == 200 and body is not None and not isinstance(body, bytes):
        valid(operation["requestBody"]["content"]["application/json"]["schema"], body)
    for header in answer.get("headers", {}):
        assert header.lower() in told.headers


def matches(name: str, path: str) -> bool:
    """Whether a path of the description is this one."""
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", name), path) is not None


def valid(schema: Any, value: Any) -> None:
    """Hold a value against a schema of the description."""
    jsonschema_rs.validate({**schema, "components": DESCRIPTION["components"]}, value)


def is_valid(schema: Any, value: Any) -> bool:
    """Whether a value fits a schema of the description."""
    return bool(jsonschema_rs.is_valid({**schema, "components": DESCRIPTION["components"]}, value))
