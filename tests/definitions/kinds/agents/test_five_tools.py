"""The five tools of seed 004 in one agent, with the arguments that the seed writes: each of them completes, and the step tells the session and a preview."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from perdure import Definition
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.definitions.kinds.openapi import document_sources
from perdure.fake_llm import Fake, models, serving
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer, json_reply
from tests.definitions.kinds.openapi.pet_documents import pets
from tests.seeds.examples_of_004 import NO_DEFINITIONS

TOOLS = ["execute_pipeline", "patch_workflow", "search_tools", "openapi_action", "delegate_to_agent"]
FLIGHTS = [{"airline": name, "price": price} for name, price in (("United", 310), ("Delta", 299), ("Alaska", 345), ("JetBlue", 333))]


def calls(server: MisbehavingServer) -> list[dict[str, Any]]:
    pipeline = json.loads(json.dumps(NO_DEFINITIONS["execute_pipeline"]["args"]))
    pipeline["pipeline"][0]["url"] = server.url("/search")
    action = {"openapi_url": server.url("/openapi.json"), "operation_id": "listPets", "params": {"kind": "cat"}, "auth_profile": "weatherapi"}
    patch = {"operations": [{"op": "add_step", "step": {"id": "more", "set": {"a": 1}}}], "scope": "execution", "description": "Add a step"}
    code = {"agent_type": "code_interpreter", "inputs": {"code": "def main(input):\n    return 1 + 1"}}
    given = {
        "execute_pipeline": pipeline,
        "patch_workflow": patch,
        "search_tools": NO_DEFINITIONS["search_tools"]["args"],
        "openapi_action": action,
        "delegate_to_agent": code,
    }
    return [{"name": name, "args": given[name]} for name in TOOLS]


@pytest.mark.slow
async def test_all_five_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_sources, "CACHE", document_sources.DocumentCache())
    document = {
        "perdure": 1,
        "name": "flights",
        "order": "listed",
        "allow": {"self_edit": True},
        "steps": [{"id": "a", "agent": {"model": "large", "prompt": "Find three", "tools": TOOLS, "schema": {"type": "array"}}}],
        "output": "@steps.a.output.meta",
    }
    async with MisbehavingServer() as server:
        server.on("/openapi.json", json_reply(json.dumps(pets())))
        server.on("/v1/pets", json_reply('[{"id": 7, "name": "Tom"}]'))
        server.on("/search", json_reply(json.dumps(FLIGHTS)))
        fake = Fake([{"when": {"turn": 1}, "answer": {"calls": calls(server)}}, {"when": {"turn": 2}, "answer": {"json": FLIGHTS[:3]}}])
        async with serving(fake) as url:
            profiles = {"weatherapi": {"bearer": "HUSH", "hosts": [server.url()[:-1]]}}
            where = dataclasses.replace(Deployment(models=models(url)), allowed=Allowed(http=("127.0.0.1",)), auth_profiles=profiles)
            made = Definition.of(document, deployment=where, secrets={"HUSH": "canary-1"})
            meta: Any = await made.with_(db=f"sqlite:///{tmp_path}/it.db").arun()
    assert meta["tools"] == [{"tool": name} for name in TOOLS], "none of them has failed"
    assert meta["preview"] == {"type": "dataset", "row_count": 3, "sample": FLIGHTS[:3]} and meta["session_id"] and meta["llm"]["model"] == "claude-sonnet-4-6"
    told = json.dumps(fake.requests[1]["request"])
    assert "Delta" in told and "Tom" in told and "canary-1" not in told
