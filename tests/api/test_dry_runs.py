"""Claims about dry runs and bulk executions over HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.operations.operation_table import OPERATIONS
from perdure.service.callers import Caller
from tests.api.api_setup import Api, api_in_process


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with api_in_process(tmp_path) as api:
        yield api


async def waiting(api: Api, *ids: str) -> None:
    """Executions that wait for a name."""
    for id in ids:
        await api("POST", "/api/executions", {"workflow": "greet", "id": id})


@pytest.mark.parametrize("how", ["query", "body"])
async def test_a_dry_run_says_what_would_happen_and_changes_nothing(api: Api, how: str) -> None:
    await api("POST", "/api/executions", {"workflow": "calc", "id": "bad", "input": [-1]})
    await api("GET", "/api/executions/calc/bad/result?waitSeconds=10")
    place = "/api/executions/calc/bad"
    query, body = ("?dryRun=true", {}) if how == "query" else ("", {"dryRun": True})
    found = await api("POST", f"{place}/retry{query}", {**body, "reason": "why not"})
    assert found.status == 200
    assert (found.json["verb"], found.json["status"], found.json["hasEffect"]) == ("retry", "failed", True)
    assert (found.json["reused"], found.json["repeated"]) == (["set:seen", "emit", "add"], [])
    earlier = (await api("POST", f"{place}/retry{query}", {**body, "fromStep": "add"})).json
    assert (earlier["reused"], earlier["repeated"]) == (["set:seen", "emit"], ["add"])
    assert (await api("POST", f"{place}/rerun{query}", body)).json["repeated"] == ["set:seen", "emit", "add"]
    refused = await api("POST", f"{place}/cancel{query}", body)
    assert (refused.status, refused.json["code"]) == (409, "has_ended")
    assert (await api("GET", place)).json["status"] == "failed" and len((await api("GET", "/api/executions")).json["items"]) == 1


async def test_a_field_that_the_query_and_the_body_give_differently_is_refused(api: Api) -> None:
    await waiting(api, "g")
    refused = await api("POST", "/api/executions/greet/g/terminate?dryRun=true", {"dryRun": False})
    assert (refused.status, refused.json["code"], refused.json["where"]) == (422, "bad_value", "/dryRun")
    assert (await api("GET", "/api/executions/greet/g")).json["status"] != "cancelled"
    assert (await api("POST", "/api/executions/greet/g/terminate?dryRun=true", {"dryRun": True})).status == 200


async def test_a_dry_run_needs_the_role_of_the_command(api: Api) -> None:
    await waiting(api, "g")
    api.caller = Caller("default", "key:1", frozenset(("viewer",)))
    assert (await api("POST", "/api/executions/greet/g/cancel?dryRun=true", {})).status == 403
    plan = await api("POST", "/api/executions/greet/g/plan", {"verb": "cancel"})
    assert (plan.status, plan.json["stopped"]) == (200, ["listen:named"])


async def test_dry_runs_are_in_the_document(api: Api) -> None:
    document = (await api("GET", "/openapi.json")).json
    planned = [one for one in OPERATIONS if one.has_plan]
    assert len(planned) == 10
    for one in planned:
        described: Any = document["paths"][one.path]["post"]
        assert described["requestBody"]["content"]["application/json"]["schema"]["properties"]["dryRun"] == {"type": "boolean"}
        assert "ChangePlan" in str(described["responses"]["200"])


async def test_a_bulk_execution_is_counted_started_once_and_read_like_any_other(api: Api) -> None:
    await waiting(api, "g1", "g2", "g3")
    wanted = {"workflow": "greet", "action": "cancel", "reason": "enough"}
    counted = (await api("POST", "/api/executions/bulk?dryRun=true", wanted)).json
    assert counted["id"] is None and counted["count"]["total"] == 3 and sum(counted["count"]["statuses"].values()) == 3
    assert [one["id"] for one in counted["count"]["newest"]] == ["g3", "g2", "g1"]
    first, again = [await api("POST", "/api/executions/bulk", wanted, idempotency_key="k1") for _ in range(2)]
    assert first.status == 201 and first.body == again.body
    place = f"/api/executions/perdure.bulk/{first.json['id']}"
    assert (await api("GET", f"{place}/result?waitSeconds=20")).json["value"]["done"] == 3
    assert (await api("GET", f"{place}/state")).json["progress"]["left"] == 0
    assert (await api("GET", f"{place}/stream")).json["items"] == []
    assert {one["id"] for one in (await api("GET", "/api/executions?status=cancelled")).json["items"]} == {"g1", "g2", "g3"}
    assert len((await api("GET", "/api/executions?workflow=perdure.bulk")).json["items"]) == 1


async def test_executions_of_another_tenant_are_not_selected(api: Api) -> None:
    await waiting(api, "g1")
    api.caller = Caller("others", "key:1", api.caller.roles)
    assert (await api("POST", "/api/executions/bulk?dryRun=true", {"action": "cancel"})).json["count"]["total"] == 0


async def test_pruning_in_bulk_is_for_admins(api: Api) -> None:
    api.caller = Caller("default", "key:1", frozenset(("operator",)))
    answer = await api("POST", "/api/executions/bulk", {"action": "prune"})
    assert (answer.status, answer.json["code"]) == (403, "forbidden")
