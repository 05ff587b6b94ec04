"""What seed 003 keeps in tables, over HTTP: definitions, their steps, executions and approvals, and the indexes by which it finds them."""

import asyncio
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.api.webhook_setup import Hooks, hooks_in_process

SIGN_OFF: dict[str, Any] = {
    "workflowConfig": {
        "name": "sign-off",
        "description": "Asks a person",
        "version": "1.0.0",
        "config": {"timeout": 60_000, "retryPolicy": {"maxRetries": 1}, "variables": {"size": 50}, "secrets": {"TOKEN": "hush-hush"}},
    },
    "stepsConfig": [
        {"stepSlug": "begin", "name": "Begin", "stepType": "trigger", "order": 1, "config": {"type": "manual"}, "nextSteps": {"success": "sign"}},
        {
            "stepSlug": "sign",
            "name": "Sign",
            "stepType": "approval",
            "order": 2,
            "config": {"approverMemberId": "m1", "title": "Well?"},
            "nextSteps": {"approved": "end", "rejected": None},
        },
        {
            "stepSlug": "end",
            "name": "End",
            "stepType": "output",
            "order": 3,
            "config": {"mapping": {"size": "{{ size }}", "began": "{{ steps.begin.output }}"}},
            "nextSteps": {},
        },
    ],
}
PAY = {
    "perdure": 1,
    "name": "pay",
    "steps": [
        {
            "id": "sign",
            "approve": {
                "title": "Pay?",
                "assignees": ["m1"],
                "details": {"cents": 500},
                "priority": "high",
                "due": "2d",
                "resource": {"type": "invoice", "id": "7"},
                "route_hint": "invoices",
                "deep_link": "/invoices/7",
            },
        }
    ],
}


async def asked(service: Hooks, key: str, query: str = "") -> Any:
    """The approval that waits, once there is one."""
    async with asyncio.timeout(20):
        while not (found := (await service.by(key, "GET", f"/api/approvals{query}")).json["items"]):
            await asyncio.sleep(0.02)
    (one,) = found
    return one


async def ended(service: Hooks, key: str, address: str) -> Any:
    """An execution, once it has ended."""
    async with asyncio.timeout(20):
        while (found := (await service.by(key, "GET", address)).json)["status"] != "completed":
            await asyncio.sleep(0.02)
    return found


async def test_a_definition_is_kept_for_its_organization_with_its_configuration_and_its_steps(tmp_path: Path) -> None:
    async with hooks_in_process(tmp_path, engine=False) as service:
        ours, theirs = await service.key("admin"), await service.key("admin", tenant="other")
        row = (await service.by(ours, "POST", "/api/workflows", {"document": SIGN_OFF})).json
        assert (row["name"], row["description"], row["version"]) == ("sign-off", "Asks a person", "1.0.0")

        async def listed(key: str, query: str) -> list[str]:
            return [one["slug"] for one in (await service.by(key, "GET", f"/api/workflows?kind=definition{query}")).json["items"]]

        assert (await listed(ours, ""), await listed(theirs, "")) == (["sign-off"], [])
        assert (await listed(ours, "&enabled=true"), await listed(ours, "&enabled=false")) == (["sign-off"], [])
        found = (await service.by(ours, "GET", "/api/workflow-versions/sign-off")).json
        assert found["dialect"] == "port_graph"
        graph = (await service.by(ours, "GET", "/api/workflow-versions/sign-off/graph")).json
        assert [(one["id"], one["name"]) for one in graph["nodes"]] == [("begin", "Begin"), ("sign", "Sign"), ("end", "End")]
        assert ("sign", "end", "approved") in [(one["source"], one["target"], one["label"]) for one in graph["edges"]]


async def test_an_execution_is_found_by_its_definition_and_its_status_and_has_what_the_seed_keeps_of_it(tmp_path: Path) -> None:
    async with hooks_in_process(tmp_path) as service:
        key = await service.key("admin")
        assert (await service.by(key, "POST", "/api/workflows", {"document": SIGN_OFF})).status == 200
        ran = (await service.by(key, "POST", "/api/triggers/sign-off%3Amanual/run", {"payload": {"x": 1}})).json
        one = f"/api/executions/sign-off/{quote(ran['id'], safe='')}"
        asking = await asked(service, key)
        row = (await service.by(key, "GET", one)).json
        assert (row["workflowName"], row["status"], row["currentStepSlug"], row["isInlineExecution"]) == ("sign-off", "waiting_approval", "sign", False)
        assert (row["triggerType"], row["triggerId"], row["outputs"]) == ("manual", "sign-off:manual", None)
        pinned = (await service.by(key, "GET", f"{one}/definition")).json["document"]
        assert (pinned["limits"]["deadline"], pinned["retry"], pinned["vars"]) == (60, {"max": 2}, {"size": 50})
        assert [step["id"] for step in pinned["steps"]] == ["begin", "sign", "end"]
        assert b"hush-hush" not in (await service.by(key, "GET", f"{one}/definition")).body

        async def found(query: str) -> list[str]:
            return [one["id"] for one in (await service.by(key, "GET", f"/api/executions?{query}")).json["items"]]

        assert await found("workflowId=sign-off") == await found("workflowId=sign-off&status=waiting_approval") == [ran["id"]]
        assert await found("workflowId=sign-off&status=completed") == []
        decided = await service.by(key, "POST", f"/api/approvals/{quote(asking['id'], safe='')}/decide", {"by": "m1", "approve": True})
        assert decided.status == 204, decided.body
        outputs = (await ended(service, key, one))["outputs"]
        began = {"type": "trigger", "data": None, "meta": {"trigger": {"type": "manual", "receivedAt": outputs["began"]["meta"]["trigger"]["receivedAt"]}}}
        assert outputs["size"] == 50 and began.items() <= outputs["began"].items()
        assert abs(datetime.fromisoformat(outputs["began"]["meta"]["trigger"]["receivedAt"]).timestamp() - time.time()) < 600
        assert await found("workflowId=sign-off&status=completed") == [ran["id"]]


async def test_an_approval_is_found_by_its_approver_its_execution_and_what_it_is_about_and_keeps_the_decision(tmp_path: Path) -> None:
    async with hooks_in_process(tmp_path) as service:
        key, other = await service.key("admin"), await service.key("admin", tenant="other")
        assert (await service.by(key, "POST", "/api/workflows", {"document": PAY})).status == 200
        begun = (await service.by(key, "POST", "/api/workflow-versions/pay/executions", {"input": {}, "id": "p1"})).json
        one = await asked(service, key, "?assignee=m1")
        assert (one["requestedBy"], one["path"], one["details"]) == ({"workflow": "pay", "id": begun["id"]}, "sign", {"cents": 500})
        about = {"priority": "high", "resourceType": "invoice", "resourceId": "7", "routeHint": "invoices", "deeplink": "/invoices/7"}
        assert about.items() <= one.items() and one["dueAt"] > one["requestedAt"]
        for query, fits in (
            ("assignee=m2", False),
            (f"execution={begun['id']}", True),
            ("execution=p2", False),
            ("resourceType=invoice&resourceId=7", True),
            ("resourceType=invoice&resourceId=8", False),
        ):
            listed = (await service.by(key, "GET", f"/api/approvals?{query}")).json["items"]
            assert [found["id"] for found in listed] == [one["id"]] * fits, query
        assert (await service.by(other, "GET", "/api/approvals")).json["items"] == []

        address = f"/api/approvals/{quote(one['id'], safe='')}"
        assert (await service.by(key, "POST", f"{address}/decide", {"by": "m1", "approve": True, "comment": "fine"})).status == 204
        _ = await ended(service, key, f"/api/executions/pay/{begun['id']}")
        kept = (await service.by(key, "GET", address)).json
        assert [(vote["by"], vote["approve"], vote["comment"]) for vote in kept["votes"]] == [("m1", True, "fine")]
        assert (await service.by(key, "GET", "/api/approvals")).json["items"] == []
        listed = (await service.by(key, "GET", "/api/executions?workflow=perdure.approval&status=completed")).json["items"]
        assert [found["id"] for found in listed] == [one["id"]]
