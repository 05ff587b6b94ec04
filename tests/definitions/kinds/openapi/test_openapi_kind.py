"""Claims about steps of the kind in whole definitions: example, checks, documents, secrets, attempts, and what kill -9 leaves of them."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import BadDefinition, Definition, ExecutionFailed
from perdure.core.errors import BadValue
from perdure.definitions.expr.json_schema import compile_schema
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.definitions.kinds.openapi import document_sources
from perdure.definitions.kinds.openapi.openapi_kind import EXAMPLE, OUTPUT, openapi_kind
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer, Wire, json_reply, never, redirect, reply
from tests.definitions.kinds.openapi.pet_documents import pets

PET = '{"id": 7, "name": "Tom"}'


def here(bound_to: MisbehavingServer | None = None, directory: Path | None = None, **profile: Any) -> Deployment:
    origin = [bound_to.url()[:-1]] if bound_to is not None else []
    profiles = {"it": {"hosts": origin, **profile}} if profile else {}
    return Deployment(Allowed(http=("127.0.0.1",), file=directory), auth_profiles=profiles)


def defined(document: Any, deployment: Deployment, **options: Any) -> Definition:
    return Definition.of(document, deployment=deployment, **options)


def serve(server: MisbehavingServer, document: Any = None) -> str:
    """Have the server answer the document; its URL."""
    server.on("/openapi.json", json_reply(json.dumps(pets() if document is None else document)))
    return server.url("/openapi.json")


def one(openapi: Any, **step: Any) -> dict[str, Any]:
    return {"perdure": 1, "name": "it", "steps": [{"id": "a", "openapi": openapi, **step}]}


def asked(server: MisbehavingServer) -> list[str]:
    return [f"{seen.method} {seen.target}" for seen in server.seen if seen.path != "/openapi.json"]


async def test_an_operation_is_called_and_the_result_is_that_of_a_request(server: MisbehavingServer) -> None:
    url = serve(server)
    server.on("/v1/pets/7", json_reply(PET))
    found = await defined(one({"url": url, "operation": "getPet", "params": {"id": 7, "X-Trace": "t"}}), here()).with_(db="memory:").arun()
    assert found["body"] == {"id": 7, "name": "Tom"} and found["status"] == 200 and found["url"] == server.url("/v1/pets/7")
    assert found["operation"] == "getPet" and found["problems"] == [] and compile_schema(OUTPUT).is_valid(found)
    assert server.seen[-1].headers["x-trace"] == "t" and server.seen[-1].headers["accept"] == "application/json, */*;q=0.1"


@pytest.mark.slow
async def test_the_example_does_what_it_says(server: MisbehavingServer) -> None:
    document = pets(servers=[{"url": "/"}])
    document["paths"]["/pets/{id}/adoptions"] = {
        "post": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "requestBody": {"content": {"application/json": {"schema": {"type": "object", "required": ["by"]}}}},
            "responses": {"201": {"description": "ok", "content": {"application/json": {}}}},
        }
    }
    serve(server, document)
    server.on("/pets", json_reply(f"[{PET}]"))
    server.on("/pets/7/adoptions", json_reply("{}", 503, Retry_After="0"), json_reply('{"id": "a-1"}', 201))
    found = await defined(EXAMPLE, here()).with_(db="memory:", id="p").arun(kind="cat", api=server.url()[:-1])
    assert found == {"name": "Tom", "adoption": "a-1"}
    assert asked(server) == ["GET /pets?kind=cat&limit=1", "POST /pets/7/adoptions", "POST /pets/7/adoptions"]
    assert {seen.headers["idempotency-key"] for seen in server.seen if seen.method == "POST"} == {"default/adopt/p:adopted"}


async def test_a_document_may_be_a_file_and_the_server_that_of_the_profile(server: MisbehavingServer, tmp_path: Path) -> None:
    (tmp_path / "pets.json").write_text(json.dumps(pets()))
    server.on("/v9/pets", json_reply("[]"))
    step = {"file": "pets.json", "operation": "GET /pets", "params": {"kind": "cat"}, "auth": "it"}
    found = await defined(one(step), here(directory=tmp_path, server=server.url("/v9/"))).with_(db="memory:").arun()
    assert found["body"] == [] and asked(server) == ["GET /v9/pets?kind=cat"]
    with pytest.raises(ExecutionFailed, match="file is not allowed here"):
        await defined(one(step), here(server=server.url())).with_(db="memory:").arun()


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"operation": "getPets", "params": {}}, "has no operation 'getPets'; did you mean 'getPet'?"),
        ({"operation": "listPets", "params": {"kind": "cat", "limt": 5}}, r"'limt' is no parameter of listPets \(GET /pets\); did you mean 'limit'?"),
        ({"operation": "listPets"}, "kind is missing"),
        ({"operation": "listPets", "params": {"kind": "bird"}}, "kind does not fit"),
        ({"operation": "addPet", "params": {"body": {}}}, '"name" is a required property'),
    ],
)
async def test_what_a_file_or_a_fetched_document_shows_is_told_when_the_definition_is_read(
    step: Any, why: str, tmp_path: Path, server: MisbehavingServer
) -> None:
    (tmp_path / "pets.json").write_text(json.dumps(pets()))
    with pytest.raises(BadDefinition, match=rf"steps\[0\] \(a\): .*{why}"):
        defined(one({"file": "pets.json", **step}), here(directory=tmp_path))
    url = serve(server)
    wrong = defined(one({"url": url, **step}), here())
    with pytest.raises(ExecutionFailed, match=rf"operation_refused: openapi\..*{why}"):
        await wrong.with_(db="memory:").arun()
    assert asked(server) == []
    with pytest.raises(BadDefinition, match=why):
        defined(one({"url": url, **step}), here())


def test_what_is_only_known_when_it_runs_is_no_problem_before(tmp_path: Path) -> None:
    (tmp_path / "pets.json").write_text(json.dumps(pets()))
    step = {"file": "pets.json", "operation": "listPets", "params": {"kind": "@input.kind"}}
    document = {**one(step), "input": {"kind": {"type": "string"}, "more": {}}}
    defined(document, here(directory=tmp_path))
    document["steps"][0] |= {"openapi": {"file": "pets.json", "operation": "listPets"}, "with": "@input.more"}
    defined(document, here(directory=tmp_path))
    defined(one({"file": "elsewhere.json", "operation": "x"}), here(directory=tmp_path))
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(BadDefinition, match=r"the OpenAPI document broken.json: it can't be read"):
        defined(one({"file": "broken.json", "operation": "x"}), here(directory=tmp_path))


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"openapi": {"operation": "x"}}, "exactly one of 'url' and 'file'"),
        ({"openapi": {"url": "https://x.example", "file": "x", "operation": "x"}}, "exactly one of"),
        ({"openapi": {"url": "https://x.example"}}, "'operation' is missing"),
        ({"openapi": {"url": "ftp://x", "operation": "x"}}, "begins with http"),
        ({"openapi": {"url": "https://u:p@x.example", "operation": "x"}}, "no user and password"),
        ({"openapi": {"file": "../x", "operation": "x"}}, "leads out of the directory"),
        ({"openapi": {"url": "https://x.example", "operation": "x", "parms": {}}}, "did you mean 'params'"),
        ({"openapi": {"url": "https://x.example", "operation": "x", "auth": "Bearer x"}}, "an auth profile"),
        ({"openapi": {"url": "https://x.example", "operation": "x", "params": {"a": "@secrets.X"}}}, "secrets"),
        ({"openapi": {"url": "https://x.example", "operation": "x", "check_response": "yes"}}, "check_response"),
        ({"openapi": {"url": "https://x.example", "operation": "x", "max_bytes": 17_000_000}}, "from 1 to 16,000,000"),
        ({"task": "openapi", "env": {"A": "b"}}, "no environment"),
    ],
)
def test_what_is_wrong_with_a_step_is_told_when_its_definition_is_read(step: Any, why: str) -> None:
    with pytest.raises(BadDefinition, match=rf"steps\[0\].*(\(a\))?.*{why}"):
        defined({"perdure": 1, "name": "it", "steps": [{"id": "a", **step}]}, here())


# documents


async def test_a_document_is_fetched_once_and_asked_again_with_its_etag(server: MisbehavingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("/openapi.json", reply(json.dumps(pets()), 200, {"ETag": '"v1"'}), reply(b"", 304), reply("{}"))
    server.on("/v1/pets", json_reply("[]"))
    url = server.url("/openapi.json")
    step = {"url": url, "operation": "listPets", "params": {"kind": "cat"}}
    both = {"perdure": 1, "name": "it", "steps": [{"id": name, "openapi": step} for name in ("a", "b", "c")]}
    await defined(both, here()).with_(db="memory:").arun()
    fetched = [seen for seen in server.seen if seen.path == "/openapi.json"]
    assert len(fetched) == 1 and len(asked(server)) == 3
    monkeypatch.setattr(document_sources, "FRESH_S", -1.0)
    known = document_sources.CACHE.address(("127.0.0.1",), url)
    assert known is not None
    document_sources.CACHE.answered(("127.0.0.1",), url, known._replace(until_s=0.0))
    await defined(one(step), here()).with_(db="memory:").arun()
    assert [seen.headers.get("if-none-match") for seen in server.seen if seen.path == "/openapi.json"] == [None, '"v1"']
    with pytest.raises(ExecutionFailed, match=r"document_refused: the OpenAPI document .* says no version"):
        await defined(one(step), here()).with_(db="memory:").arun()


async def test_what_one_deployment_has_fetched_is_not_known_to_another(server: MisbehavingServer) -> None:
    step = {"url": serve(server), "operation": "getPets"}
    with pytest.raises(ExecutionFailed, match="has no operation"):
        await defined(one(step), here()).with_(db="memory:").arun()
    other = defined(one(step), Deployment())
    with pytest.raises(ExecutionFailed, match=r"address_refused: 127.0.0.1, which is loopback"):
        await other.with_(db="memory:").arun()


async def test_a_document_and_its_operation_go_by_the_guard_of_addresses(server: MisbehavingServer) -> None:
    server.on("/away", redirect("http://169.254.169.254/latest"))
    with pytest.raises(ExecutionFailed, match=r"address_refused: 169\.254\.169\.254, which is link-local"):
        await defined(one({"url": server.url("/away"), "operation": "x"}), here()).with_(db="memory:").arun()
    url = serve(server, pets(servers=[{"url": "http://169.254.169.254/v1"}]))
    with pytest.raises(ExecutionFailed, match=r"address_refused: 169\.254\.169\.254"):
        await defined(one({"url": url, "operation": "getPet", "params": {"id": 1}}), here()).with_(db="memory:").arun()


async def test_a_document_that_is_too_large_is_not_read(server: MisbehavingServer) -> None:
    server.on("/openapi.json", reply(b" " * 5_000_001))
    with pytest.raises(ExecutionFailed, match=r"document_refused: .* can't be fetched: GET .* has more than 5,000,000 bytes"):
        await defined(one({"url": server.url("/openapi.json"), "operation": "x"}), here()).with_(db="memory:").arun()


@pytest.mark.slow
async def test_steps_that_begin_together_fetch_a_document_once(server: MisbehavingServer) -> None:
    url = serve(server)
    server.on("/v1/pets", json_reply("[]"))
    step = {"id": "a", "openapi": {"url": url, "operation": "listPets", "params": {"kind": "cat"}}, "each": {"in": "@input.of"}}
    document = {"perdure": 1, "name": "it", "input": {"of": {"type": "array"}}, "steps": [step]}
    await defined(document, here()).with_(db="memory:").arun(of=list(range(10)))
    assert len(asked(server)) == 10 and len(server.seen) == 11


# responses


async def test_a_response_that_is_not_as_the_document_says_is_told_or_fails_the_step(server: MisbehavingServer) -> None:
    url = serve(server)
    server.on("/v1/pets/7", json_reply('{"id": "x"}'), reply("text", 200, {"Content-Type": "text/plain"}), json_reply("{}", 202), json_reply('{"id": "x"}'))
    step = {"url": url, "operation": "getPet", "params": {"id": 7}}
    found = [(await defined(one(step), here()).with_(db="memory:").arun())["problems"] for _ in range(3)]
    assert "name" in found[0][0] and found[1] == ["the response of the status 200 is text/plain, and the document has application/json"]
    assert found[2] == ["the document names no response of the status 202 for getPet (GET /pets/{id})"]
    with pytest.raises(ExecutionFailed, match=r"response_refused: getPet .* the body does not fit"):
        await defined(one({**step, "check_response": "fail"}), here()).with_(db="memory:").arun()
    assert (await defined(one({**step, "check_response": "ignore"}), here()).with_(db="memory:").arun())["problems"] == []


async def test_what_is_transient_is_tried_again_and_what_is_not_fails_at_once(server: MisbehavingServer) -> None:
    url = serve(server)
    server.on("/v1/pets/1", reply("x", 500), reply("x", 429, {"Retry-After": "0"}), json_reply(PET))
    server.on("/v1/pets/2", reply("gone", 410))
    server.on("/v1/pets", reply("x", 500), json_reply(PET, 201))
    retry = {"max": 3, "wait": 0.01}
    document = one({"url": url, "operation": "getPet", "params": {"id": "@input.id"}}, retry=retry)
    document["input"] = {"id": {}}
    assert (await defined(document, here()).with_(db="memory:").arun(id=1))["body"]["name"] == "Tom"
    with pytest.raises(ExecutionFailed, match=r"status_refused: GET .*/pets/2: it answered 410"):
        await defined(document, here()).with_(db="memory:").arun(id=2)
    keyless = one({"url": url, "operation": "addPet", "params": {"body": {"name": "x"}}, "idempotency_key": False}, retry=retry)
    with pytest.raises(ExecutionFailed, match=r"in_doubt: POST .*/pets: it answered 500"):
        await defined(keyless, here()).with_(db="memory:").arun()
    assert asked(server).count("POST /v1/pets") == 1 and asked(server).count("GET /v1/pets/1") == 3


async def test_accept_makes_a_status_a_result(server: MisbehavingServer) -> None:
    url = serve(server)
    server.on("/v1/pets/1", json_reply("{}", 404))
    found = await defined(one({"url": url, "operation": "getPet", "params": {"id": 1}, "accept": [404]}), here()).with_(db="memory:").arun()
    assert found["status"] == 404


async def test_an_undo_calls_an_operation(server: MisbehavingServer) -> None:
    url = serve(server)
    server.on("/v1/pets", json_reply(PET, 201))
    server.on("/v1/pets/7", reply(b"", 204))
    undo = {"tool": "openapi", "with": {"url": url, "operation": "deletePet", "params": {"path.id": "@self.body.id"}}}
    steps = [
        {"id": "a", "openapi": {"url": url, "operation": "addPet", "params": {"body": {"name": "x"}}}, "undo": undo},
        {"id": "b", "needs": "a", "fail": "no"},
    ]
    with pytest.raises(ExecutionFailed):
        await defined({"perdure": 1, "name": "it", "steps": steps}, here()).with_(db="memory:").arun()
    assert asked(server) == ["POST /v1/pets", "DELETE /v1/pets/7"]


def test_a_file_of_yaml_is_a_document_as_well(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("openapi: 3.1.0\npaths: {/a: {get: {operationId: a}}}\n")
    defined(one({"file": "a.yaml", "operation": "a"}), here(directory=tmp_path))
    with pytest.raises(BadDefinition, match="has no operation 'b'; it has a"):
        defined(one({"file": "a.yaml", "operation": "b"}), here(directory=tmp_path))


# secrets


def _bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


WAYS: dict[str, dict[str, Any]] = {
    "bearer": {"bearer": "HUSH"},
    "basic": {"basic": {"user": "ada", "password": "HUSH"}},
    "header": {"api_key": {"secret": "HUSH", "in": "header", "name": "X-Key"}},
    "query": {"api_key": {"secret": "HUSH", "in": "query", "name": "key"}},
    "cookie": {"api_key": {"secret": "HUSH", "in": "cookie", "name": "key"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
async def test_the_secret_of_a_profile_reaches_the_server_and_stands_in_no_log(server: MisbehavingServer, tmp_path: Path, way: str) -> None:
    url = serve(server)

    async def echoed(wire: Wire) -> None:
        await wire.raw(json_reply(json.dumps({"target": wire.seen.target, "headers": dict(wire.seen.headers)}), 200 if "kind=cat" in wire.seen.target else 400))

    server.on("/v1/pets", echoed)
    step = {"id": "a", "openapi": {"url": url, "operation": "listPets", "params": {"kind": "@input.kind"}, "auth": "it"}}
    it = defined({"perdure": 1, "name": "it", "input": {"kind": {}}, "steps": [step]}, here(server, **WAYS[way]), secrets={"HUSH": "canary/1?&x"})
    found = await it.with_(db=f"sqlite:///{tmp_path}/it.db").arun(kind="cat")
    with pytest.raises(ExecutionFailed, match="status_refused") as failed:
        await it.with_(db=f"sqlite:///{tmp_path}/it.db").arun(kind="dog")
    sent = str(server.seen[-1])
    assert any(form in sent for form in ("canary/1?&x", "canary%2F1%3F%26x", "YWRhOmNhbmFyeS8xPyZ4"))
    for text in (str(found), str(failed.value), _bytes(tmp_path).decode("latin-1")):
        assert not any(form in text for form in ("canary", "YWRhOmNhbmFyeS8xPyZ4"))
    assert "***" in str(found["body"])
    assert not any("canary" in str(seen) for seen in server.seen if seen.path == "/openapi.json")


async def test_a_secret_is_not_sent_where_a_document_leads_it(server: MisbehavingServer) -> None:
    url = serve(server, pets(servers=[{"url": server.url("/", host="localhost")}]))
    step = {"url": url, "operation": "listPets", "params": {"kind": "cat"}, "auth": "it"}
    with pytest.raises(ExecutionFailed, match=r"auth_refused: the auth profile it is not for http://localhost:\d+"):
        await defined(one(step), here(server, bearer="HUSH"), secrets={"HUSH": "canary-1"}).with_(db="memory:").arun()
    assert asked(server) == []


async def test_a_secret_does_not_follow_a_redirect_to_another_host(server: MisbehavingServer) -> None:
    async with MisbehavingServer() as other:
        other.on("/there", json_reply("[]"))
        url = serve(server)
        server.on("/v1/pets", redirect(other.url("/there")))
        step = {"url": url, "operation": "listPets", "params": {"kind": "cat"}, "auth": "it"}
        for way in ("bearer", "query", "cookie", "header"):
            await defined(one(step), here(server, **WAYS[way]), secrets={"HUSH": "canary-1"}).with_(db="memory:").arun()
        assert len(other.seen) == 4 and not any("canary" in str(seen) for seen in other.seen)


@pytest.mark.slow
async def test_secrets_in_the_input_become_parameters_and_stand_in_no_log(server: MisbehavingServer, tmp_path: Path) -> None:
    url = serve(server)
    server.on("/v1/login", json_reply("{}"))
    server.on("/v1/files/canary-2", reply("x", 404))
    step = {"url": url, "operation": "login", "params": {"body": {"user": "ada"}}}
    document = one(step, **{"with": {"body": {"user": "ada", "password": "@secrets.HUSH"}}})
    await defined(document, here(), secrets={"HUSH": "canary-2"}).with_(db=f"sqlite:///{tmp_path}/it.db").arun()
    assert server.seen[-1].body == b"password=canary-2&user=ada"
    document = one({"url": url, "operation": "getFile"}, **{"with": {"name": "@secrets.HUSH"}})
    with pytest.raises(ExecutionFailed, match="it answered 404") as failed:
        await defined(document, here(), secrets={"HUSH": "canary-2"}).with_(db=f"sqlite:///{tmp_path}/it.db").arun()
    assert "canary" not in str(failed.value) and b"canary" not in _bytes(tmp_path)


async def test_an_unknown_profile_is_told_with_what_to_do(server: MisbehavingServer) -> None:
    step = {"url": serve(server), "operation": "listPets", "params": {"kind": "cat"}, "auth": "weather"}
    with pytest.raises(
        ExecutionFailed, match="auth_refused: the auth profile weather is not known in this process; start the engine with PERDURE_AUTH_PROFILE_W"
    ):
        await defined(one(step), here()).with_(db="memory:").arun()


def test_what_the_kind_says_of_itself_is_so() -> None:
    made = openapi_kind(here())
    assert (made.name, made.extra, made.ports) == ("openapi", "http", ("success", "error"))
    assert made.may_repeat({"operation": "x"}) and made.may_repeat({"operation": "get /x"}) and not made.may_repeat({"operation": "POST /x"})
    with pytest.raises(BadValue, match="auth profile"):
        openapi_kind(Deployment(auth_profiles={"it": {"bearer": "X"}}))


# kill -9

PROGRAM = """
import json, sys
from perdure import Definition
from perdure.definitions.kinds.deployment import Allowed, Deployment

url = sys.argv[1] + "/openapi.json"
branches = [
    {"id": "get", "openapi": {"url": url, "operation": "getPet", "params": {"id": 1}}},
    {"id": "post", "openapi": {"url": url, "operation": "addPet", "params": {"body": {"name": "post"}}}},
    {"id": "named", "openapi": {"url": url, "operation": "POST /login", "params": {"body": {"user": "a"}}}},
    {"id": "again", "openapi": {"url": url, "operation": "upload", "params": {"name": "again", "body": {}}}, "idempotent": True},
    {"id": "put", "openapi": {"url": url, "operation": "putPet", "params": {"id": 2}}, "idempotent": False},
]
steps = [{"id": "all", "parallel": {"steps": branches, "on_error": "go_on"}}]
document = {"perdure": 1, "name": "it", "steps": steps}
deployment = Deployment(Allowed(http=("127.0.0.1",)))
print(json.dumps(Definition.of(document, deployment=deployment).with_(id="k", db="sqlite:///it.db").run(), default=str))
"""


@pytest.fixture
async def program(tmp_path: Path, server: MisbehavingServer) -> AsyncIterator[Any]:
    begun = list[asyncio.subprocess.Process]()

    async def begin() -> asyncio.subprocess.Process:
        environment, said = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, asyncio.subprocess.PIPE
        arguments = ("-W", "error", "-c", PROGRAM, server.url()[:-1])
        begun.append(
            await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=tmp_path, env=environment, stdout=said, stderr=said, start_new_session=True)
        )
        return begun[-1]

    yield begin
    for process in begun:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _paths() -> Iterator[str]:
    yield from ("/v1/pets/1", "/v1/pets", "/v1/login", "/v1/files/again", "/v1/pets/2")


@pytest.mark.slow
async def test_after_kill_9_what_may_be_sent_again_is_and_nothing_else(server: MisbehavingServer, program: Any) -> None:
    async def until_all_are_there(wire: Wire) -> None:
        if len(asked(server)) == 5:
            process.kill()
        await never(wire)

    serve(server)
    for path in _paths():
        server.on(path, until_all_are_there, json_reply(PET))
    process = await program()
    assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGKILL
    process = await program()
    said, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    found = json.loads(said)
    first, second = asked(server)[:5], asked(server)[5:]
    assert {one.split()[1] for one in first} == set(_paths()) and sorted(second) == ["GET /v1/pets/1", "POST /v1/files/again"]
    assert {name: value and value["status"] for name, value in found.items()} == {"get": 200, "post": None, "named": None, "again": 200, "put": None}
