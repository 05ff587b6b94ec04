"""Claims about steps of the kind in whole definitions: example, secrets, tries, and what kill -9 leaves of them."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import BadDefinition, Definition, ExecutionFailed
from perdure.core import log_format
from perdure.core.errors import BadValue, MissingExtra
from perdure.core.events import SettledEvent
from perdure.core.operations import Failure
from perdure.core.paths import path_text
from perdure.definitions.expr.json_schema import compile_schema
from perdure.definitions.kinds.deployment import NOTHING_MORE, Allowed, Deployment
from perdure.definitions.kinds.http.http_kind import EXAMPLE, attempt_limit_s, http_kind
from perdure.stores.protocol import HeadFilter
from perdure.stores.sqlite.store import SqliteStore
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer, Wire, json_reply, never, reply

ROOT = Path(__file__).parents[4]
HERE = Deployment(Allowed(http=("127.0.0.1",)))


def defined(document: Any, deployment: Deployment = HERE, **options: Any) -> Definition:
    return Definition.of(document, kinds={"http": http_kind(deployment)}, deployment=deployment, **options)


def one(http: Any, **step: Any) -> dict[str, Any]:
    return {"perdure": 1, "name": "it", "steps": [{"id": "a", "http": http, **step}]}


@pytest.mark.slow
async def test_the_example_does_what_it_says(server: MisbehavingServer) -> None:
    server.on("/orders", json_reply('{"id": "o-1"}'), json_reply("{}", 404))
    server.on("/charges", json_reply("{}", 503, Retry_After="0"), json_reply('{"id": "ch-9"}', 201))
    definition = defined(EXAMPLE, secrets={"SHOP_TOKEN": "hush"})
    asked = {"shop": server.url()[:-1], "cents": 500}
    assert await definition.with_(db="memory:", id="p1").arun(order="o 1", **asked) == {"charged": True, "id": "ch-9"}
    order, *charges = server.seen
    assert order.target == "/orders?id=o%201" and [json.loads(seen.body) for seen in charges] == [{"order": "o-1", "cents": 500}] * 2
    assert {seen.headers["idempotency-key"] for seen in charges} == {"default/charge/p1:charge"}
    assert {seen.headers["authorization"] for seen in charges} == {"Bearer hush"}
    assert await definition.with_(db="memory:").arun(order="none", **asked) == {"charged": False}


@pytest.mark.slow
async def test_secrets_in_the_input_reach_the_body_and_stand_in_no_log(server: MisbehavingServer, tmp_path: Path) -> None:
    server.on("/token", json_reply('{"token": "t"}'))
    document = one({"url": server.url("/token"), "method": "POST", "form": {"grant": "client"}}, **{"with": {"form": {"secret": "@secrets.HUSH"}}})
    file = tmp_path / "it.db"
    found = await defined(document, secrets={"HUSH": "canary-1"}).with_(db=f"sqlite:///{file}").arun()
    assert found["body"] == {"token": "t"} and server.seen[0].body == b"grant=client&secret=canary-1"
    assert b"canary-1" not in _bytes(tmp_path)


def _bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


async def test_what_is_transient_is_tried_again_and_what_is_not_fails_at_once(server: MisbehavingServer) -> None:
    server.on("/flaky", reply("x", 500), reply("x", 503), reply("fine"))
    server.on("/gone", reply("it is gone", 410, {"Content-Type": "text/plain"}))
    retry = {"max": 3, "wait": 0.01}
    assert (await defined(one({"url": server.url("/flaky")}, retry=retry)).with_(db="memory:").arun())["body"] == "fine"
    with pytest.raises(ExecutionFailed, match=r"status_refused: GET .*/gone: it answered 410 Gone: it is gone"):
        await defined(one({"url": server.url("/gone")}, retry=retry)).with_(db="memory:").arun()
    assert [seen.path for seen in server.seen] == ["/flaky"] * 3 + ["/gone"]


@pytest.mark.slow
async def test_it_is_tried_again_no_earlier_than_the_server_says(server: MisbehavingServer) -> None:
    server.on("/busy", reply("x", 429, {"Retry-After": "1"}), reply("fine"))
    began_s = time.monotonic()
    await defined(one({"url": server.url("/busy")}, retry={"wait": 0.01})).with_(db="memory:").arun()
    assert time.monotonic() - began_s >= 1


@pytest.mark.slow
async def test_the_time_of_a_step_is_that_of_a_try_and_a_try_in_vain_may_be_followed_by_another(server: MisbehavingServer) -> None:
    server.on("/slow", never, reply("fine"))
    server.on("/once", never)
    document = one({"url": server.url("/slow")}, timeout=0.5, retry={"wait": 0.01, "max": 20})
    assert (await defined(document).with_(db="memory:").arun())["body"] == "fine"
    once = one({"url": server.url("/once"), "method": "POST", "idempotency_key": False}, timeout=4, retry={"wait": 0.01, "max": 20})
    # The step ends its request 0.4 s before the engine ends the step; where the processors are busy, less than that would not do.
    with pytest.raises(ExecutionFailed, match=r"in_doubt: POST .* may have been carried out"):
        await defined(once).with_(db="memory:").arun()
    assert [seen.method for seen in server.seen if seen.path == "/once"] == ["POST"]


def test_a_try_ends_itself_before_the_engine_ends_it() -> None:
    assert (attempt_limit_s(None), attempt_limit_s(60), attempt_limit_s(1)) == (30, 59.5, 0.9)


async def test_a_step_that_nobody_wants_any_more_ends_its_request(server: MisbehavingServer) -> None:
    came, closed = asyncio.Event(), asyncio.Event()

    async def until_closed(wire: Wire) -> None:
        came.set()
        await wire.gone()
        closed.set()

    async def when_it_came(wire: Wire) -> None:
        await came.wait()
        await wire.raw(reply("won"))

    server.on("/slow", until_closed)
    server.on("/fast", when_it_came)
    branches = [{"id": name, "http": server.url(f"/{name}")} for name in ("slow", "fast")]
    assert "won" in str(await defined({"perdure": 1, "name": "it", "steps": [{"id": "first", "race": branches}]}).with_(db="memory:").arun())
    await asyncio.wait_for(closed.wait(), 10)


async def test_what_a_deployment_does_not_allow_fails_for_good(server: MisbehavingServer) -> None:
    with pytest.raises(ExecutionFailed, match=r"address_refused: 127.0.0.1, which is loopback, .* can allow http:127.0.0.1"):
        await defined(one({"url": server.url("/a")}), NOTHING_MORE).with_(db="memory:").arun()
    assert server.connections == 0


async def test_a_task_of_the_kind_has_its_request_in_its_input(server: MisbehavingServer) -> None:
    server.on("/a", reply("fine"))
    document = {"perdure": 1, "name": "it", "steps": [{"id": "a", "task": "http", "with": {"url": server.url("/a"), "method": "PUT", "json": 1}}]}
    found = await defined(document).with_(db="memory:").arun()
    assert found["body"] == "fine" and server.seen[0].method == "PUT" and server.seen[0].body == b"1"


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"http": {"url": "https://u:p@x.example"}}, r"http\.url: a URL has no user and password"),
        ({"http": {"url": "https://x.example", "json": 1, "body": "x"}}, "keep one"),
        ({"http": {"url": "https://x.example", "headers": {"Host": "y"}}}, "follows from the request"),
        ({"http": "https://x.example", "with": {"method": "POST"}}, "method can't stand in `with`"),
        ({"http": "https://x.example", "env": {"A": "b"}}, "'env' is allowed only with 'bash' or 'task'"),
        ({"task": "http", "env": {"A": "b"}}, "no environment"),
        ({"task": {"type": "http", "config": {"url": "https://x.example", "max_bytes": 0}}}, "http: "),
    ],
)
def test_what_is_wrong_with_a_step_is_told_when_its_definition_is_read(step: Any, why: str) -> None:
    with pytest.raises(BadDefinition, match=rf"steps\[0\] \(a\): .*{why}"):
        defined({"perdure": 1, "name": "it", "steps": [{"id": "a", **step}]})


def test_what_the_kind_says_of_itself_is_so() -> None:
    made = http_kind(HERE)
    config = compile_schema(dict(made.config or {}))
    assert (made.name, made.extra, made.ports) == ("http", "http", ("success", "error")) and made.step.timeout_s is None
    assert made.may_repeat({"url": "x"}) and not made.may_repeat({"url": "x", "method": "POST"})
    assert list(made.check({"url": "ftp://x"})) and not list(made.check({"url": "@input.url"}))
    assert config.is_valid({"url": "https://x.example", "accept": "any"}) and not config.is_valid({"body": 1})
    assert config.is_valid(None) and not list(made.check(None))
    for step in Definition.of(EXAMPLE).read.canonical["steps"]:
        assert "http" not in step or not list(made.check(step["http"]))
    with pytest.raises(BadValue, match=r"http:10\.0\.0\.1/8"):
        http_kind(Deployment(Allowed(http=("10.0.0.1/8",))))


async def test_without_the_library_a_step_says_which_extra_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name
        for name in sys.modules
        if name.startswith(("httpx2", "httpcore2", "perdure.definitions.kinds.http.guarded_network", "perdure.definitions.kinds.http.http_exchange"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtra, match=r"perdure\[http\]"):
        await http_kind(HERE).run(config="http://x/")
    assert list(http_kind(HERE).check({"url": "http://x/", "redirects": -1})) == [("/redirects", "a whole number from 0 to 20")]


# kill -9

PROGRAM = """
import json, sys
from perdure import Definition
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.definitions.kinds.http.http_kind import http_kind

DEPLOYMENT = Deployment(Allowed(http=("127.0.0.1",)))
url = sys.argv[1]
branches = [
    {"id": "get", "http": {"url": url + "/get"}},
    {"id": "post", "http": {"url": url + "/post", "method": "POST"}},
    {"id": "again", "http": {"url": url + "/again", "method": "POST"}, "idempotent": True},
    {"id": "put", "http": {"url": url + "/put", "method": "PUT"}, "idempotent": False},
]
steps = [{"id": "all", "parallel": {"steps": branches, "on_error": "go_on"}}]
document = {"perdure": 1, "name": "it", "steps": steps}
print(json.dumps(Definition.of(document, kinds={"http": http_kind(DEPLOYMENT)}).with_(id="k", db="sqlite:///it.db").run(), default=str))
"""


@pytest.fixture
async def program(tmp_path: Path, server: MisbehavingServer) -> AsyncIterator[Any]:
    begun = list[asyncio.subprocess.Process]()

    async def begin() -> asyncio.subprocess.Process:
        environment, said = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, asyncio.subprocess.PIPE
        arguments = ("-W", "error", "-c", PROGRAM, server.url()[:-1])
        begun.append(
            await asyncio.create_subprocess_exec(
                sys.executable, *arguments, cwd=tmp_path, env=environment, stdout=said, stderr=said, start_new_session=True
            )
        )  # fmt: skip
        return begun[-1]

    yield begin
    for process in begun:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


@pytest.mark.slow
async def test_after_kill_9_what_may_be_sent_again_is_and_nothing_else(server: MisbehavingServer, program: Any, tmp_path: Path) -> None:
    async def until_all_are_there(wire: Wire) -> None:
        if len(server.seen) == 4:
            process.kill()
        await never(wire)

    for path in ("/get", "/post", "/again", "/put"):
        server.on(path, until_all_are_there, reply("fine"))
    process = await program()
    assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGKILL
    process = await program()
    said, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    found = json.loads(said)
    first, second = server.seen[:4], server.seen[4:]
    assert {seen.path for seen in first} == {"/get", "/post", "/again", "/put"} and sorted(seen.path for seen in second) == ["/again", "/get"]
    assert {seen.headers.get("idempotency-key") for seen in server.seen if seen.path == "/again"} == {"default/it/k:all/again"}, server.seen
    assert [found[name] and found[name]["body"] for name in ("get", "post", "again", "put")] == ["fine", None, "fine", None]
    assert await _failed(tmp_path / "it.db") == {"all/post": "interrupted", "all/put": "interrupted"}


async def _failed(file: Path) -> dict[str, str]:
    """How the steps in a file have failed that did, by their paths."""
    store = SqliteStore(file)
    try:
        (head,) = await store.heads(HeadFilter())
        read = await store.read(head.key)
        assert read is not None
        settled = [event for event in log_format.decode_rows(read.payloads) if isinstance(event, SettledEvent)]
        return {path_text(event.path): event.outcome.kind for event in settled if isinstance(event.outcome, Failure)}
    finally:
        await store.close()
