"""Operations of APIs as tools of agents: their schemas come from the document, and are in the log from then on."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from perdure import AsyncClient, Definition, ExecutionFailed
from perdure.agent import Agent
from perdure.core.errors import BadValue, Fatal
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.definitions.kinds.openapi import document_sources
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer, json_reply
from tests.definitions.kinds.openapi.pet_documents import pets


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(document_sources, "CACHE", document_sources.DocumentCache())
    async with MisbehavingServer() as server:
        server.on("/openapi.json", json_reply(json.dumps(pets())))
        server.on("/v1/pets", json_reply('[{"id": 7, "name": "Tom"}]'))
        yield server


def here(script: ModelScript, **more: Any) -> Deployment:
    return dataclasses.replace(deployed(default=script), allowed=Allowed(http=("127.0.0.1",)), **more)


def defined(script: ModelScript, tools: list[Any], deployment: Deployment | None = None, **options: Any) -> Definition:
    document = {"perdure": 1, "name": "it", "order": "listed", "steps": [{"id": "a", "agent": {"prompt": "Go", "tools": tools}}]}
    return Definition.of(document, deployment=deployment or here(script), **options)


async def test_each_operation_is_a_tool_with_the_schema_of_the_document(server: MisbehavingServer) -> None:
    script = ModelScript([("listPets", {"kind": "bird"})], [("listPets", {"kind": "cat", "limit": 1}), ("GET_pets_id", {})], "Tom")
    tools = ["search_tools", {"openapi": server.url("/openapi.json"), "operations": ["listPets", "GET /pets/{id}"]}]
    document = pets()
    del document["paths"]["/pets/{id}"]["get"]["operationId"]
    server.on("/openapi.json", json_reply(json.dumps(document)))
    assert await defined(script, tools).with_(db="memory:").arun() == "Tom"
    offered = {tool.name: tool for tool in script.asked[0].tools}
    assert list(offered) == ["search_tools", "listPets", "GET_pets_id"] and offered["listPets"].description == "All pets (GET /pets)"
    assert offered["listPets"].schema["properties"]["kind"] == {"type": "string", "enum": ["cat", "dog"]}
    refused = next(message for message in script.last if message.role == "tool")
    assert refused.is_error and "its arguments do not fit: at kind" in refused.text
    (found, failed), (wrong, unfit) = script.results
    assert json.loads(found)["body"] == [{"id": 7, "name": "Tom"}] and not failed and unfit and "id" in wrong
    assert [seen.target for seen in server.seen] == ["/openapi.json", "/v1/pets?kind=cat&limit=1"]


async def test_an_agent_goes_on_with_the_tools_that_it_began_with(server: MisbehavingServer, tmp_path: Path) -> None:
    def goes(_: Any) -> Any:
        raise Fatal("gone")

    source, store = {"openapi": {"url": server.url("/openapi.json")}, "operations": ["listPets"]}, f"sqlite:///{tmp_path}/it.db"
    first: Agent[Any] = Agent("it", tools=[source], deployment=here(ModelScript(goes)))
    with pytest.raises(ExecutionFailed):
        await first.with_(id="x", db=store).arun("Go")
    server.on("/openapi.json", json_reply("{}"))
    document_sources.CACHE._documents.clear()
    script = ModelScript("done")
    again: Agent[Any] = Agent("it", tools=[source], deployment=here(script))
    async with AsyncClient(store) as client:
        await (await client.get("x", "it")).retry()
    assert await again.with_(id="x", db=store).arun("Go") == "done"
    assert [tool.name for tool in script.asked[0].tools] == ["listPets"] and len(server.seen) == 1


async def test_a_tool_whose_document_is_wrong_fails_the_agent_with_what_to_do(server: MisbehavingServer) -> None:
    source = {"openapi": server.url("/openapi.json"), "operations": ["listPet"]}
    with pytest.raises(ExecutionFailed, match="has no operation 'listPet'; did you mean 'listPets'"):
        await defined(ModelScript("x"), [source]).with_(db="memory:").arun()
    twice = {"openapi": server.url("/openapi.json"), "operations": ["listPets", "listPets"]}
    with pytest.raises(ExecutionFailed, match="tools of different names"):
        await defined(ModelScript("x"), [twice]).with_(db="memory:").arun()
    with pytest.raises(BadValue, match="operations of an API"):
        Agent("it", tools=[{"openapi": "x"}], deployment=here(ModelScript("x")))


async def test_openapi_action_calls_any_operation_as_the_seed_writes_it(server: MisbehavingServer, tmp_path: Path) -> None:
    args = {"openapi_url": server.url("/openapi.json"), "operation_id": "listPets", "params": {"kind": "cat"}, "auth_profile": "weatherapi"}
    wrong = {**args, "params": {"knd": "cat"}}
    script = ModelScript([("openapi_action", wrong)], [("openapi_action", args)], "Tom")
    profile = {"bearer": "HUSH", "hosts": [server.url()[:-1]]}
    made = defined(script, ["openapi_action"], here(script, auth_profiles={"weatherapi": profile}), secrets={"HUSH": "canary-1"})
    assert await made.with_(db=f"sqlite:///{tmp_path}/it.db").arun() == "Tom"
    told = [message.text for message in script.last if message.role == "tool"]
    assert "'knd' is no parameter of listPets (GET /pets); did you mean 'kind'?" in told[0] and json.loads(told[1])["body"][0]["name"] == "Tom"
    assert server.seen[-1].headers["authorization"] == "Bearer canary-1" and "canary" not in str(script.asked)
    assert not _holds(tmp_path, b"canary")


def _holds(directory: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in directory.rglob("*") if path.is_file())
