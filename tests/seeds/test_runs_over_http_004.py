"""What seed 004 asks of runs over HTTP: started by a tag, watched by their tokens, decided on by people, patched, and of one tenant alone."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.api.webhook_setup import Hooks, hooks_in_process, received

TASK = {"type": "task", "config": {"action": "note", "payload": "$inputs.payload"}}
FAN_OUT = {
    "metadata": {"name": "fan-out", "version": "1.0.0"},
    "nodes": [{"id": "A", **TASK}, {"id": "B", **TASK}, {"id": "C", **TASK}, {"id": "D", "type": "task", "wait_for_all": True, **TASK}],
    "edges": [{"from": "A", "to": "B"}, {"from": "A", "to": "C"}, {"from": "B", "to": "D"}, {"from": "C", "to": "D"}],
}
DEAL = {
    "metadata": {"name": "deal", "version": "1.0.0"},
    "nodes": [{"id": "A", **TASK}, {"id": "ask", "type": "human", "rejection_path": ["no"]}, {"id": "B", **TASK}, {"id": "no", **TASK}],
    "edges": [{"from": "A", "to": "ask"}, {"from": "ask", "to": "B"}],
}


async def begun(service: Hooks, key: str, document: dict[str, Any]) -> str:
    """A run of a document that is published under the tag `live`: its id."""
    name = document["metadata"]["name"]
    assert (await service.by(key, "POST", "/api/workflows/sync", {"document": document})).status == 200
    assert (await service.by(key, "PUT", f"/api/workflows/{name}/tags/live", {})).status == 200
    ran = await service.by(key, "POST", "/runs", {"tag": f"{name}:live", "inputs": {"payload": 1}})
    assert ran.status == 201, ran.body
    return str(ran.json["id"])


async def until(service: Hooks, key: str, id: str, status: str) -> Any:
    """A run, once it has this status."""
    async with asyncio.timeout(20):
        while (found := (await service.by(key, "GET", f"/runs/{id}")).json)["status"] != status:
            assert found["status"] != "failed", found
            await asyncio.sleep(0.02)
    return found


async def tokens(service: Hooks, key: str, run: Any) -> list[dict[str, Any]]:
    """The tokens of a run as of each event."""
    address = f"/api/executions/{run['workflow']}/{run['id']}/tokens"
    return [(await service.by(key, "GET", f"{address}?at={number}")).json for number in range(1, run["version"] + 1)]


def in_turn(counts: list[Any]) -> list[Any]:
    """The counts without repetitions of the one before."""
    return [one for number, one in enumerate(counts) if number == 0 or counts[number - 1] != one]


async def test_a_run_of_a_tag_has_its_counter_and_its_applied_keys_as_of_each_event(tmp_path: Path) -> None:
    async with hooks_in_process(tmp_path) as service:
        key = await service.key("admin")
        run = await until(service, key, await begun(service, key, FAN_OUT), "completed")
        found = await tokens(service, key, run)
        assert in_turn([one["counter"] for one in found]) == [0, 1, 2, 1, 0], "the run begins by its first event, and its first token is there by the next"
        assert next(one["joins"] for one in found if one["joins"]) in ({"D": ["B"]}, {"D": ["C"]})
        applied = found[-1]["applied"]
        assert {"emit:A->B", "emit:A->C", "emit:B->D", "emit:C->D", "consume:B->D", "consume:C->D"} <= set(applied)
        assert len(applied) == len(set(applied)) and found[-1]["outputs"].keys() == {"A", "B", "C", "D"}
        assert len(received) == 4


async def test_a_run_waits_for_a_decision_that_counts_once_and_leads_on_by_its_path(tmp_path: Path) -> None:
    async with hooks_in_process(tmp_path) as service:
        key = await service.key("admin")
        for decision, follows in (("approve", "B"), ("reject", "no")):
            waiting = await until(service, key, await begun(service, key, DEAL), "waiting_approval")
            stood = (await tokens(service, key, waiting))[-1]
            assert (stood["counter"], stood["approvals"], stood["open"]) == (0, 1, ["ask"])
            address = f"/api/v1/approvals/{quote(waiting['approvals'][0]['id'], safe='')}/decide"
            said = {"decision": decision, "comments": "so it is", "decided_by": "user:ada"}
            first, second = await service.by(key, "POST", address, said), await service.by(key, "POST", address, said)
            assert (first.status, first.json) == (200, {"approvalId": waiting["approvals"][0]["id"], "status": "resumed", "nextNodes": [follows]})
            assert (second.status, second.json["code"]) == (409, "already_decided")
            run = await until(service, key, waiting["id"], "completed")
            stood = (await tokens(service, key, run))[-1]
            assert (stood["counter"], stood["approvals"], list(stood["outputs"])[-1]) == (0, 0, follows)


async def test_a_run_does_not_exist_for_another_tenant_whose_runs_may_have_the_same_id(tmp_path: Path) -> None:
    async with hooks_in_process(tmp_path) as service:
        ours, theirs = await service.key("admin"), await service.key("admin", tenant="other")
        run = await until(service, ours, await begun(service, ours, FAN_OUT), "completed")
        for address in (f"/runs/{run['id']}", f"/api/executions/fan-out/{run['id']}/tokens"):
            assert (await service.by(theirs, "GET", address)).status == 404
        assert (await service.by(theirs, "POST", "/runs", {"tag": "fan-out:live", "inputs": {"payload": 1}})).status == 404
        assert (await service.by(theirs, "POST", "/api/workflows/sync", {"document": FAN_OUT})).status == 200
        same = await service.by(theirs, "POST", "/runs", {"tag": "fan-out", "inputs": {"payload": 1}, "id": run["id"]})
        assert (same.status, same.json["created"]) == (201, True), same.body
        assert [one["id"] for one in (await service.by(ours, "GET", "/api/executions")).json["items"]] == [run["id"]]
