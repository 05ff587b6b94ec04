"""The kinds of steps, a row each: what every one of them is held to stands in the tests that go through this table. A further kind is a further row.

The steps of all rows use one `KindEnvironment`: a server that counts requests, answers as a model provider does, and fails until it is repaired; and a
directory of their own.
"""

import asyncio
import fcntl
import json
import os
import sqlite3
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from perdure import Definition
from perdure.async_client import AsyncClient
from perdure.code.declarations import Step as CodeStep
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.stores.protocol import Store
from perdure.workflow_function import _family
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer, Wire, json_reply

Step = dict[str, Any]
SLOW = "take your time"
PRINTED_MOST = 64_000
"""As much as a command may say without losing its middle."""


class KindEnvironment:
    """What the steps of a test reach. `mended` is whether what fails has been mended; `undone` is what was given to those who undo."""

    last: ClassVar["KindEnvironment"]

    def __init__(self, url: str, directory: Path) -> None:
        KindEnvironment.last = self
        self.url, self.directory, self.undone = url.rstrip("/"), directory, list[Any]()
        self.mended = False
        sqlite3.connect(directory / "shop.db").close()
        entry = {"provider": "openai-chat", "model": "m", "base_url": f"{self.url}/v1"}
        self.deployment = Deployment(
            Allowed(bash=True, http=("127.0.0.1",), file=directory),
            work=directory / "work",
            models={"default": entry, "broken": {**entry, "model": "broken"}},
            connections={"shop": f"sqlite:///{directory}/shop.db"},
        )
        own: dict[str, Callable[..., Any]] = {"echo": self._echo, "broken": self._broken, "slow": self._slow, "undone": self._undo}
        self.tools: dict[str, Any] = {name: CodeStep(fn, name=name, idempotent=True) for name, fn in own.items()}

    def served_by(self, server: MisbehavingServer) -> "KindEnvironment":
        """Have a server answer what steps ask here."""
        self.server = server
        for path, answer in (
            ("/echo", echoed),
            ("/broken", self._until_mended),
            ("/slow", silent),
            ("/openapi.json", described_api),
            ("/v1/chat/completions", self._completed),
        ):
            server.on(path, answer)
        return self

    def locked(self, directory: str) -> str:
        """A file in a directory to which somebody else writes for ever."""
        (self.directory / directory).mkdir(exist_ok=True)
        held = os.open(self.directory / directory, os.O_RDONLY)
        weakref.finalize(self, os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX)
        return f"{directory}/x"

    def mend(self) -> None:
        """Have what failed until now succeed."""
        self.mended = True
        with closing(sqlite3.connect(self.directory / "shop.db")) as connection:
            connection.executescript("CREATE TABLE mended (value); INSERT INTO mended VALUES ('fine')")
        (self.directory / "mended").write_text("fine")

    def definition(self, *steps: Step, **more: Any) -> Definition:
        """A definition whose steps may do all that kinds do here; its input is `value` and `broken`."""
        options = {name: more.pop(name) for name in ("policy", "secrets") if name in more}
        given = {"value": {"default": "a value"}, "broken": {"default": True}}
        document = {"perdure": 1, "name": "it", "order": "listed", "input": given, **more, "steps": list(steps)}
        return Definition.of(document, tools=self.tools, deployment=self.deployment, **options)

    async def _completed(self, wire: Wire) -> None:
        """Say again what was said last, as a model does; or nothing, or that something is wrong."""
        asked = json.loads(wire.seen.body)
        said = next(part["content"] for part in reversed(asked["messages"]) if part["role"] == "user")
        text = said if isinstance(said, str) else "".join(part["text"] for part in said)
        if text == SLOW:
            await silent(wire)
            return
        if asked["model"] == "broken" and not self.mended:
            await wire.raw(json_reply('{"error": {"message": "out of order", "type": "server_error"}}', 500))
        else:
            await wire.raw(json_reply(completion(text)))

    async def _until_mended(self, wire: Wire) -> None:
        await wire.raw(json_reply('[{"value": "fine"}]') if self.mended else json_reply("{}", 500))

    async def _echo(self, value: Any) -> Any:
        return value

    async def _broken(self) -> str:
        if not self.mended:
            raise ConnectionError("out of order")
        return "fine"

    async def _slow(self) -> None:
        await asyncio.Event().wait()

    async def _undo(self, *given: Any, **named: Any) -> None:
        self.undone.append([*given, *named.values()])


def completion(text: str) -> str:
    """The answer of a model, in the protocol of chat completions."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return json.dumps({"id": "c", "object": "chat.completion", "created": 1_700_000_000, "model": "m", "choices": [choice], "usage": usage})


async def silent(wire: Wire) -> None:
    """Answer nothing until whoever asked has gone."""
    await wire.gone()


async def echoed(wire: Wire) -> None:
    """Answer what was sent."""
    await wire.raw(json_reply(wire.seen.body.decode() or "null"))


def itself(result: Any) -> Any:
    """A result that is the value."""
    return result


def written(result: Any) -> str:
    """What stands in the file that a result names, of the place that was made last."""
    return (KindEnvironment.last.directory / str(result["path"])).read_bytes().decode()


class KindRow(NamedTuple):
    """A kind of steps, as its steps stand in a definition of a `KindEnvironment`.

    The step `echo` comes to its input `value`, which `value_of` finds in its result, up to `characters_max`. `broken` fails until the place is mended or,
    with `by_input`, until the input `broken` is false; `tries` is how often it is tried with ``retry: {max: 3}``. `slow` never ends by itself.
    `refused` are configs that are wrong. With `repeats`, a step that was interrupted is done again. `is_kind`: it is done by a `Kind`, which declares limits.
    `has_value`: its result has the value, and does not only name it.
    """

    kind: str
    echo: Callable[[KindEnvironment], Step]
    broken: Callable[[KindEnvironment], Step]
    slow: Callable[[KindEnvironment], Step]
    value_of: Callable[[Any], Any] = itself
    tries: int = 3
    by_input: bool = False
    repeats: bool = True
    characters_max: int = 2_000_000
    is_kind: bool = True
    has_value: bool = True
    refused: tuple[Any, ...] = ()


TS, PYTHON = "export default (input: any) => ", "def main(input):\n"
UNLESS_BROKEN = {"with": {"broken": "@input.broken"}}
ENDLESS = "WITH RECURSIVE x (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT max(n) FROM x"
VALUE = {"with": {"value": "@input.value"}}


def http(path: str, **more: Any) -> Callable[[KindEnvironment], Step]:
    """A step that sends a request."""
    return lambda place: {"http": {"url": f"{place.url}{path}", **more}}


def described(operation: str, **params: Any) -> Callable[[KindEnvironment], Step]:
    """A step that calls an operation of the API that the server describes."""
    return lambda place: {"openapi": {"url": f"{place.url}/openapi.json", "operation": operation, "params": params}}


API = {
    "openapi": "3.1.0",
    "servers": [{"url": "/"}],
    "paths": {
        "/echo": {"post": {"requestBody": {"required": True, "content": {"application/json": {}}}}},
        "/broken": {"get": {"operationId": "getBroken"}},
        "/slow": {"get": {"operationId": "getSlow"}},
        "/openapi-charge": {"post": {"operationId": "charge"}},
    },
}
"""What the server describes."""


async def described_api(wire: Wire) -> None:
    """Answer the document of the API."""
    await wire.raw(json_reply(json.dumps(API)))


def piped(path: str) -> Callable[[KindEnvironment], Step]:
    """A pipeline that asks for its rows."""
    return lambda place: {"pipeline": [{"http_request": f"{place.url}{path}"}]}


def always(step: Step) -> Callable[[KindEnvironment], Step]:
    """The same step wherever it stands."""
    return lambda place: step


KINDS: dict[str, KindRow] = {
    row.kind: row
    for row in (
        KindRow(
            "bash",
            always({"bash": {"command": "cat", "stdin": "@input.value"}}),
            lambda place: {"bash": {"command": f'cat "{place.directory}/mended"', "check": True}},
            always({"bash": "sleep 1000 & sleep 1000"}),
            lambda result: result["stdout"],
            repeats=False,
            characters_max=PRINTED_MOST,
            refused=("", 5, {"cwd": "x"}, {"command": "echo @{input.value}"}, {"command": "ls", "shell": "zsh"}),
        ),
        KindRow(
            "http",
            http("/echo", method="POST", json={"value": "@input.value"}),
            http("/broken"),
            http("/slow"),
            lambda result: result["body"]["value"],
            repeats=False,
            refused=("", 5, {}, {"url": "ftp://x"}, {"url": "http://a:b@x/"}, {"url": "http://x", "method": "BREW"}),
        ),
        KindRow(
            "openapi",
            described("POST /echo", body={"value": "@input.value"}),
            described("getBroken"),
            described("getSlow"),
            lambda result: result["body"]["value"],
            repeats=False,
            refused=("", 5, {}, {"url": "http://x"}, {"url": "ftp://x", "operation": "y"}, {"url": "http://x", "operation": "y", "params": 5}),
        ),
        KindRow(
            "sql",
            always({"sql": {"connection": "shop", "query": "SELECT :value", "result": "value"}, **VALUE}),
            always({"sql": {"connection": "shop", "query": "SELECT value FROM mended", "result": "value"}}),
            always({"sql": {"connection": "shop", "query": ENDLESS}}),
            tries=1,
            refused=(
                "",
                5,
                {},
                "SELECT 1",
                {"connection": "shop"},
                {"connection": "shop", "query": "SELECT @{input.value}"},
                {"connection": "X", "query": "SELECT 1"},
            ),
        ),
        KindRow(
            "file",
            always({"file": {"write": "texts/echo.txt", "content": "@input.value"}}),
            always({"file": {"read": "mended"}}),
            lambda place: {"file": {"write": place.locked("busy"), "content": "x"}},
            written,
            characters_max=1_000_000,
            has_value=False,
            refused=("", 5, {}, {"read": "../x"}, "/etc/passwd", {"read": "x", "write": "y"}, {"list": ".", "as": "csv"}, {"write": "x", "as": "xml"}),
        ),
        KindRow(
            "llm",
            always({"llm": {"prompt": "@input.value"}}),
            always({"llm": {"model": "broken", "prompt": "Go"}}),
            always({"llm": SLOW}),
            lambda result: result["text"],
            refused=({}, {"model": "default"}, {"prompt": "x", "repairs": -1}),
        ),
        KindRow(
            "ts",
            always({"ts": f"{TS}input.value", **VALUE}),
            always({"ts": f"{TS}{{ if (input.broken) throw new Error('out of order'); return 'fine' }}", **UNLESS_BROKEN}),
            always({"ts": f"{TS}{{ while (true) {{}} }}"}),
            tries=1,
            by_input=True,
            refused=("", 5, "1 + 1", {"source": "x"}),
        ),
        KindRow(
            "python",
            always({"python": f"{PYTHON}    return input['value']", **VALUE}),
            always({"python": f"{PYTHON}    if input['broken']:\n        raise ValueError('out of order')\n    return 'fine'", **UNLESS_BROKEN}),
            always({"python": f"{PYTHON}    while True: pass"}),
            tries=1,
            by_input=True,
            refused=("", 5, "1 + 1", "def main(:"),
        ),
        KindRow(
            "pipeline",
            always({"pipeline": [{"top_k": 1}], "with": {"rows": [{"value": "@input.value"}]}}),
            piped("/broken"),
            piped("/slow"),
            lambda result: result[0]["value"],
            refused=([], 5, [{"table_filer": {}}], [{"top_k": "x"}], {"ops": [], "use": "x"}),
        ),
        KindRow(
            "agent",
            always({"agent": {"prompt": "@{input.value}"}}),
            always({"agent": {"prompt": "Go", "model": "broken"}}),
            always({"agent": {"prompt": SLOW}}),
            is_kind=False,
            refused=({}, 5, {"prompt": "x", "tools": 5}, {"prompt": "x", "budget": {"calls": 0}}),
        ),
        KindRow("tool", always({"tool": "echo", **VALUE}), always({"tool": "broken"}), always({"tool": "slow"}), is_kind=False, refused=("", 5)),
    )
}
"""Every kind; `tool` is there to be compared with."""


@asynccontextmanager
async def working(store: Store, *definitions: Definition, steps: Iterable[Any] = (), queues: Iterable[str] = ()) -> AsyncIterator[AsyncClient]:
    """An engine on a store, and with `queues` a worker; a client of it."""
    members: list[Any] = [Engine(store, [code for one in definitions for code in _family(one)], poll_s=0.2)]
    if queues:
        members.append(Worker(store, list(steps), queues=list(queues)))
    tasks = [asyncio.create_task(member.run()) for member in members]
    await members[0].ready()
    try:
        async with AsyncClient(store) as client:
            yield client
    finally:
        for member in members:
            member.stop()
        await asyncio.gather(*tasks)
