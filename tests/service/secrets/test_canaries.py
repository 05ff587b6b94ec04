"""Secrets are in nothing that is written: canaries go every way that a secret can go, and then all is searched for them, in all their forms."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from perdure import Definition, step
from perdure.async_client import AsyncClient
from perdure.cli.command_list import root
from perdure.code.declarations import Retry
from perdure.core import log_format
from perdure.core.errors import WorkflowError
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.service.secrets import vault_client
from perdure.service.secrets.secret_resolver import secret_resolver_for
from perdure.service.secrets.vault_client import VaultClient
from perdure.stores.encryption import new_key
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing import World
from perdure.workflow_function import _family
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer, Wire, reply
from tests.definitions.kinds.kind_table import completion
from tests.service.secrets.canaries import (
    FORMS,
    KINDS,
    LEAKS,
    MODELS,
    SECRETS,
    WITH,
    all_forms,
    asked_over_http,
    awaited,
    echo,
    leaking,
    of_secrets,
    tool,
    written,
)

pytest.importorskip("httpx2", reason="requests take the package httpx2: pip install 'perdure[http]'")
pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")

ONCE = {"retry": {"max": 2, "wait": "1ms"}}
undone: list[list[str]] = []
LOOKS = ("show {}", "show {} --json", "events {} -o json", "logs {}", "result {}", "export {} --children")
MORE_LOOKS = ("events {}", "stream {}", "ls", "secret ls", "secret ls --json", "doctor", "dead-letters")


@step
def refund(token: str, key: str, plain: str, cents: int = 0) -> Any:
    undone.append([token, key, plain])
    return {"undone": [token, key, plain]}


@step(retry=Retry(max=2, wait="1ms"))
def charged(token: str, key: str, plain: str) -> Any:
    return {"id": plain, "said": all_forms([token, key, plain])}


@charged.undo
def uncharge(done: Any, token: str, key: str, plain: str) -> Any:
    undone.append([token, key, plain])
    return [token, key, plain]


def told(error: Any, execution: Any) -> Any:
    """Who is told of a failure."""
    return error


TOOLS: dict[str, Any] = {"tool": tool, "awaited": awaited, "refund": refund, "charged": charged, "told": told, "say": lambda value: value}


def test_what_finds_canaries_finds_them_in_every_form() -> None:
    for form in FORMS.values():
        for secret in SECRETS.values():
            assert of_secrets(f"some {form(secret)} more".encode()), form(secret)


def definition(*steps: dict[str, Any], kind: Any = None, **more: Any) -> Definition:
    document = {"perdure": 1, "name": "it", "input": {"port": {"default": 0}}, **more, "steps": list(steps)}
    return Definition.of(document, tools=TOOLS, kinds=kind, deployment=Deployment(Allowed(bash=True, http=("127.0.0.1",)), models=MODELS))


async def echoed(wire: Wire) -> None:
    """What the server of the tests answers: all that it was sent, as a result or, at /refused, as what is wrong."""
    seen = wire.seen
    said = json.dumps({"target": seen.target, "headers": dict(seen.headers), "body": seen.body.decode(), "repr": repr(seen)})
    await wire.raw(reply(said, 410 if seen.path == "/refused" else 200, {"Content-Type": "application/json"}))


async def completed(wire: Wire) -> None:
    """What a model of the server says: all that it was sent, as its answer or as what is wrong."""
    asked = wire.seen.body.decode()
    refused = json.loads(asked)["model"] == "refuses"
    said = json.dumps({"error": {"message": f"{asked} {wire.seen!r}"}}) if refused else completion(f"{asked} {wire.seen!r}")
    await wire.raw(reply(said, 400 if refused else 200, {"Content-Type": "application/json"}))


def paths() -> Iterator[Any]:
    """Every way that a secret can go: what is run, and how."""
    for name, hows in (("tool", LEAKS), ("awaited", ("result", "error", "progress", "logs"))):
        for how in hows:
            yield pytest.param(definition({"id": "a", "tool": name, "with": {"how": how, **WITH}, **ONCE}), id=f"{name}: {how}")
    called = {"id": "a", "call": "py:tests.service.secrets.canaries.tool", **ONCE}
    yield pytest.param(definition({**called, "with": {"how": "result", **WITH}}), id="a function that is called")
    for how in ("result", "fatal error"):
        queued = {"id": "a", "task": {"type": "tool", "queue": "far"}, "with": {"how": how, **WITH}, **ONCE}
        yield pytest.param(definition(queued), id=f"a queue: {how}")
    refunded = {"undo": {"tool": "refund", "with": {**WITH, "cents": "@self.cents?"}}}
    failing = {"id": "b", "needs": ["a"], "tool": "tool", "with": {"how": "fatal error", **WITH}, **ONCE}
    yield pytest.param(definition({"id": "a", "tool": "awaited", "with": {"how": "result", **WITH}, **refunded}, failing), id="undo")
    yield pytest.param(definition({"id": "a", "tool": "charged", "with": WITH}, failing), id="undo that a tool declares")
    yield pytest.param(definition(failing | {"needs": []}, on_failure={"call": "told"}), id="who is told of a failure")
    items = {"each": {"in": [1, 2], "on_error": "null"}}
    yield pytest.param(definition({"id": "a", "tool": "tool", "with": {"how": "error", **WITH}, **items, **ONCE}), id="each")
    turns = {"repeat": {"until": {"ref": "@self.never?"}, "max": 3, "on_max": "go_on"}}
    yield pytest.param(definition({"id": "a", "tool": "tool", "with": {"how": "result", **WITH}, **turns}), id="repeat")
    text = {"value": "Bearer @{secrets.ODD} and @{secrets.PLAIN} of @{input.x}"}
    yield pytest.param(definition({"id": "a", "tool": "say", "with": text}, input={"x": {"default": 1}}), id="inside text")
    flowing = {"id": "b", "emit": {"body": "@a"}, "needs": ["a"]}
    shown = {"id": "c", "set": {"v": "@a.forms"}, "needs": ["b"]}
    yield pytest.param(definition({"id": "a", "tool": "tool", "with": {"how": "result", **WITH}}, flowing, shown), id="what is made of a result")
    asked = {"id": "b", "needs": ["a"], "agent": {"model": "parrot", "prompt": "Say @{a.forms}", "context": ["@a"], "tools": ["say"]}}
    yield pytest.param(definition({"id": "a", "tool": "tool", "with": {"how": "result", **WITH}}, asked), id="an agent, and what its tool gives")
    for name, row in KINDS.items():
        of_kind = ("result", "large result", "fatal error") if row.kind is not None else ("",)
        for how_of_kind in of_kind:
            given = {**row.step, "with": {**row.step.get("with", {}), **({"how": how_of_kind} if how_of_kind else {})}}
            named = "own" if name == "task" else name
            yield pytest.param(definition({"id": "a", **given, **ONCE}, kind={named: row.kind} if row.kind else None), id=f"{name}: {how_of_kind or 'real'}")


@pytest.fixture
def secretive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for all that is written, where the secrets are kept in a store, in a file and in the environment, one each."""
    elsewhere = tmp_path / "secrets"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "KEY").write_text(SECRETS["KEY"])
    (elsewhere / "KEY").chmod(0o600)
    monkeypatch.setenv("PERDURE_SECRETS_PATH", str(elsewhere))
    monkeypatch.setenv("PERDURE_SECRET_PLAIN", SECRETS["PLAIN"])
    monkeypatch.setenv(vault_client.KEYS_VARIABLE, f"a:{new_key()}")
    monkeypatch.delenv("PERDURE_DB", raising=False)
    place = tmp_path / "written"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@asynccontextmanager
async def running(store: SqliteStore, one: Definition, idle_s: float) -> AsyncIterator[AsyncClient]:
    chosen = vault_client.secret_keys()
    assert chosen is not None
    await VaultClient(store.vault, chosen).put("default", "ODD", SECRETS["ODD"])
    found = secret_resolver_for(store)
    engine = Engine(store, _family(one), idle_s=idle_s, poll_s=0.2, secrets=found)
    worker = Worker(store, [step(tool)], queues=["far"], secrets=found)
    tasks = [asyncio.create_task(member.run()) for member in (engine, worker)]
    await engine.ready()
    try:
        async with AsyncClient(store) as client:
            yield client
    finally:
        engine.stop()
        worker.stop()
        await asyncio.gather(*tasks)


async def played(file: Path, one: Definition, idle_s: float) -> None:
    store = SqliteStore(file, synchronous="OFF")
    async with MisbehavingServer() as server, running(store, one, idle_s) as client:
        for path in ("/echo", "/refused"):
            server.on(path, echoed)
        server.on("/v1/chat/completions", completed)
        MODELS.update(asked_over_http(server.url()))
        handle = await client.start(one.with_(id="x"), **{"port": server.port} if "port" in one.ir.input else {})
        ended: Any = (await asyncio.gather(handle.result("20s"), return_exceptions=True))[0]
        assert not isinstance(ended, Exception) or isinstance(ended, WorkflowError)
        assert not of_secrets(f"{ended!r} {ended}".encode())
        assert not of_secrets(b"".join(part.read_bytes() for part in file.parent.iterdir() if part.is_file())), "with what is written ahead"
    await store.close()


@pytest.mark.slow
@pytest.mark.parametrize("one", [*paths()])
def test_no_canary_is_in_anything_that_is_written(
    one: Definition, secretive: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    undone.clear()
    with caplog.at_level(logging.DEBUG):
        asyncio.run(played(secretive / "perdure.db", one, 60.0))
    for command in (*LOOKS, *(MORE_LOOKS if "'result'" in repr(one.read.document) else ())):
        said = CliRunner().invoke(root, ["--db", f"sqlite:///{secretive}/perdure.db", *command.format("it/x").split()])
        assert not of_secrets(said.output.encode() + said.stderr.encode()), (command, said.output)
    assert [name for name in written(secretive) if name.endswith(".perdure")], "it was exported"
    assert {name: found for name, raw in written(secretive).items() if (found := of_secrets(raw))} == {}
    logged = "\n".join(f"{record.getMessage()} {record.exc_text} {record.stack_info} {record.args}" for record in caplog.records) + caplog.text
    assert not of_secrets(logged.encode())
    captured = capfd.readouterr()
    assert not of_secrets((captured.out + captured.err).encode())
    assert all(secrets == list(SECRETS.values()) for secrets in undone)
    raw = b"".join(written(secretive).values())
    assert b"@secret" in raw, "the marks are kept"
    assert b"***" in raw or "'logs'" in repr(one.read.document), "the step has said something of them"


@pytest.mark.parametrize("how", ["result", "error", "progress"])
def test_no_canary_is_written_where_everything_leaves_memory_at_each_wait(how: str, secretive: Path) -> None:
    one = definition({"id": "a", "tool": "awaited", "with": {"how": how, **WITH}, **ONCE}, {"id": "b", "needs": ["a"], "sleep": "1ms"})
    asyncio.run(played(secretive / "perdure.db", one, 0.0))
    assert {name: found for name, raw in written(secretive).items() if (found := of_secrets(raw))} == {}


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_no_canary_is_written_when_a_process_is_killed_at_any_write(world: World) -> None:
    said: list[str] = []
    commit = world.machine.store.commit

    async def heard(changes: Any) -> Any:
        said.append(repr(changes))
        said.extend(repr(log_format.decode_row(change.row)) for change in changes if getattr(change, "row", b""))
        return await commit(changes)

    world.machine.store.commit = heard  # type: ignore[method-assign]  # all that is ever written goes through it
    given: list[Any] = []

    async def charge(token: str, key: str, plain: str) -> Any:
        given.append([token, key, plain])
        return leaking("result", [token, key, plain])

    def refunds(token: str, id: Any) -> Any:
        given.append(token)
        return token

    pay = {
        "id": "a",
        "idempotent": True,
        "tool": "charge",
        "with": WITH,
        "undo": {"tool": "refunds", "with": {"token": "@secrets.ODD", "id": "@self.forms.JSON"}},
    }
    http = {"id": "h", "needs": ["a"], "idempotent": True, **KINDS["http"].step}
    fails = {"id": "b", "needs": ["h"], "idempotent": True, "tool": "tool", "with": {"how": "fatal error", **WITH}}
    document = {"perdure": 1, "name": "it", "steps": [pay, http, fails]}
    found = Definition.of(document, tools={"charge": charge, "refunds": refunds, "tool": tool}, kinds={"http": echo}, secrets=SECRETS)
    run = world.start(found)
    assert run.status == "failed" and run.steps()
    assert list(SECRETS.values()) in given and SECRETS["ODD"] in given
    assert not of_secrets("".join(said).encode()) and not of_secrets(repr(world.machine.store.__dict__).encode())
    assert not of_secrets(world.trace().encode())
