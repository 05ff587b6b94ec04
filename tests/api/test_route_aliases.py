"""Claims about the routes of other systems: they are the operations, under paths and fields that clients of those systems know."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from perdure import Allowed, App, Context, Deployment, Retry, step, workflow
from perdure.api.api_app import ApiApp
from perdure.definition_workflow import Definition
from perdure.operations.operation_table import OPERATIONS
from perdure.service.callers import Caller
from tests.api.api_setup import WORKFLOWS, Api

RELEASE = {
    "id": "release",
    "name": "release",
    "version": "1.0.0",
    "steps": [
        {"id": "build", "type": "bash", "command": "echo built", "outputVariable": "built"},
        {"id": "gate", "type": "approval", "prompt": "Release?"},
        {"id": "ship", "type": "bash", "command": "echo shipped", "outputVariable": "shipped"},
    ],
}
tokens: list[str] = []


@step(retry=Retry(max=1))
async def order_rendering(token: str, frames: int) -> None:
    """Hands the work to a program outside."""
    tokens.append(token)


@workflow
async def rendering(ctx: Context, frames: int) -> Any:
    """Is run externally."""
    return await ctx.external(Any, order_rendering, frames)


@workflow
async def two_renderings(ctx: Context) -> list[Any]:
    """Has two steps that are performed outside at the same time."""
    return list(await asyncio.gather(ctx.external(Any, order_rendering, 1), ctx.external(Any, order_rendering, 2)))


ADA = Caller("default", "user:ada", frozenset(("viewer", "operator", "approver")))
BOB = Caller("default", "user:bob", frozenset(("viewer", "operator")))


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    may_bash = Deployment(allowed=Allowed(bash=True))
    listed = [*WORKFLOWS, rendering, two_renderings, Definition.of(RELEASE, deployment=may_bash)]
    async with App(listed, deployment=may_bash, db=f"sqlite:///{tmp_path}/api.db") as app:
        made = Api(ApiApp(app.client.access, lambda request: made.authenticate(request), secret=b"a secret of the tests"))
        yield made


async def until(api: Api, path: str, **wanted: Any) -> Any:
    found: Any = None
    try:
        async with asyncio.timeout(20):
            while True:
                found = (await api("GET", path)).json
                if all(found.get(name) == value for name, value in wanted.items()):
                    return found
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{path} has not come to {wanted}: {found}") from None


async def test_a_workflow_is_run_by_its_slug_approved_by_its_resume_token_and_has_its_outputs(api: Api) -> None:
    assert (await api("POST", "/api/workflows/sync", {"document": RELEASE})).status == 200
    api.caller = ADA
    asked = {"workflowId": "release", "variables": {}, "clientRequestId": "r1"}
    begun = await api("POST", "/api/triggers/manual/run", asked)
    assert (begun.status, begun.json["executionId"]) == (201, "manual:release:user:ada:r1")
    assert (await api("POST", "/api/triggers/manual/run", asked)).json == {**begun.json, "created": False}
    place = "/api/executions/manual:release:user:ada:r1"
    waiting = await until(api, place, seedStatus="waiting_approval")
    assert (waiting["workflowName"], waiting["workflowVersion"], waiting["initiatorUserId"]) == ("release", "1.0.0", "user:ada")
    assert waiting["workflowHash"].startswith("sha256:") and waiting["workflowId"] and waiting["currentStepSlug"] == "gate"
    token = waiting["resumeToken"]
    assert token and waiting["approvals"][0]["resumeToken"] == token

    api.caller = BOB
    shown = (await api("GET", place)).json
    assert shown["resumeToken"] is None and shown["approvals"][0]["resumeToken"] is None
    assert (await api("POST", f"{place}/approve", {"approve": True, "resumeToken": token})).status == 403
    api.caller = ADA
    for wrong in (token[:-1] + ("0" if token[-1] != "0" else "1"), "", "ä"):
        refused = await api("POST", f"{place}/approve", {"approve": True, "resumeToken": wrong})
        assert (refused.status, refused.json["code"]) == (409, "decision_refused")
    assert (await api("POST", f"{place}/approve", {"approve": True, "resumeToken": token, "by": "user:eve"})).status == 403
    assert (await api("POST", f"{place}/approve", {"approve": True, "resumeToken": token})).status == 204
    ended = await until(api, place, status="completed")
    assert ended["resumeToken"] is None and ended["approvals"] == []
    steps = (await api("GET", f"{place}/steps")).json["items"]
    assert [(one["stepId"], one["seedStatus"]) for one in steps] == [("build", "completed"), ("gate", "completed"), ("ship", "completed")]
    listed = (await api("GET", "/api/workflows/release/executions?seedStatus=completed")).json["items"]
    assert [(one["id"], one["seedStatus"]) for one in listed] == [("manual:release:user:ada:r1", "completed")]
    assert (await api("GET", f"/api/executions?workflowId={waiting['workflowId']}&seedStatus=failed,pending")).json["items"] == []


async def test_a_denied_approval_cancels_and_is_a_resume_as_well(api: Api) -> None:
    await api("POST", "/api/workflows/sync", {"document": RELEASE})
    id = (await api("POST", "/api/workflows/release/run", {})).json["executionId"]
    token = (await until(api, f"/api/executions/{id}", seedStatus="waiting_approval"))["resumeToken"]
    assert (await api("POST", f"/api/executions/{id}/approve", {"approve": False, "resumeToken": token})).status == 204
    assert (await until(api, f"/api/executions/{id}", status="cancelled"))["seedStatus"] == "cancelled"
    late = await api("POST", f"/api/executions/{id}/resume", {"resumeToken": token})
    assert (late.status, late.json["code"]) == (409, "decision_refused")


async def test_the_executions_of_a_definition_are_those_of_no_other(api: Api) -> None:
    for slug in ("release", "rollout"):
        await api("POST", "/api/workflows/sync", {"document": RELEASE, "slug": slug})
        assert (await api("POST", f"/api/workflow-versions/{slug}/executions", {"id": f"of-{slug}"})).status == 201
    definition = (await api("GET", "/api/workflows/rollout")).json
    for name in ("rollout", definition["id"]):
        assert [one["id"] for one in (await api("GET", f"/api/workflows/{name}/executions")).json["items"]] == ["of-rollout"]
    assert (await api("GET", "/api/workflows/nothing/executions")).json["items"] == []


async def test_code_is_run_by_its_name_and_what_nobody_has_is_not_found(api: Api) -> None:
    found = (await api("POST", "/api/triggers/manual/run", {"workflowId": "calc", "variables": {"a": 3}})).json
    assert (await until(api, f"/api/executions/{found['executionId']}", status="completed"))["outputs"] == 4
    refused = await api("POST", "/api/triggers/manual/run", {"workflowId": "nothing"})
    assert (refused.status, refused.json["code"]) == (404, "not_found") and "nothing" in refused.json["detail"]


async def test_an_id_of_several_workflows_is_ambiguous_and_never_a_prefix(api: Api) -> None:
    for name in ("greet", "trip"):
        await api("POST", "/api/executions", {"workflow": name, "id": "a/1 ü", "input": ["Rome"] if name == "trip" else []})
    place = "/api/executions/a%2F1%20%C3%BC"
    answer = await api("GET", place)
    assert (answer.status, answer.json["code"]) == (409, "ambiguous")
    assert sorted(one["workflow"] for one in answer.json["candidates"]) == ["greet", "trip"]
    assert all(one["id"] == "a/1 ü" for one in answer.json["candidates"])
    assert (await api("POST", f"{place}/cancel", {})).status == 409
    assert (await api("GET", "/api/executions/a%2F1")).status == 404
    assert (await api("GET", "/api/executions/greet/a%2F1%20%C3%BC")).json["status"] == "waiting"


async def test_every_command_takes_an_id_alone(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "greet", "id": "g1", "input": []})
    assert (await until(api, "/api/executions/g1", status="waiting"))["workflowName"] == "greet"
    own = [one.path for one in OPERATIONS if one.method == "POST" and one.path.startswith("/api/executions/{workflow}/{id}/")]
    assert "/api/executions/{workflow}/{id}/retry" in own
    for path in own:
        answer = await api("POST", path.replace("{workflow}/{id}", "nothing"), {})
        assert (answer.status, answer.json["code"]) == (404, "not_found"), path
    assert (await api("POST", "/api/executions/g1/pause", {})).status == 204
    await until(api, "/api/executions/g1", status="paused")
    assert (await api("POST", "/api/executions/g1/enqueue", {})).status == 200
    assert (await api("POST", "/api/executions/g1/terminate", {})).status == 204
    await until(api, "/api/executions/g1", status="cancelled")


@pytest.mark.parametrize("id", ["cancel", "retry", "patch", "status"])
async def test_an_execution_may_have_the_name_of_a_command_as_its_id(api: Api, id: str) -> None:
    assert (await api("POST", "/api/executions", {"workflow": "greet", "id": id, "input": []})).status == 201
    assert (await api("GET", f"/api/executions/greet/{id}")).json["id"] == id
    assert (await api("POST", f"/api/executions/greet/{id}/cancel", {})).status == 204
    answer = await api("DELETE", f"/api/executions/greet/{id}")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")


async def test_runs_are_started_by_a_tag_and_patched(api: Api) -> None:
    await api("POST", "/api/workflows/sync", {"document": RELEASE})
    await api("PUT", "/api/workflows/release/tags/main", {})
    for root, field in ((root, field) for root in ("", "/api/v1") for field in ("decidedBy", "decided_by")):
        begun = await api("POST", f"{root}/runs", {"tag": "release:main", "inputs": {}})
        assert begun.status == 201, begun.body
        id = begun.json["id"]
        assert (await until(api, f"{root}/runs/{id}", status="waiting_approval"))["workflowName"] == "release"
        change = [{"op": "replace", "path": "/steps/2/bash", "value": "echo patched"}]
        patched = await api("PATCH", f"{root}/runs/{id}", change)
        assert patched.status == 200, patched.body
        again = await api("POST", f"{root}/runs/{id}/patch", [{"op": "remove", "path": "/steps/77"}])
        assert (again.status, again.json["code"]) == (422, "bad_definition")
        approval = (await api("GET", f"{root}/runs/{id}")).json["approvals"][0]["id"]
        where = f"{root}/approvals/{approval.replace('%', '%25').replace('/', '%2F')}/decide"
        assert (await api("POST", where, {"decision": "approve", "decided_by": "user:ada", "decidedBy": "user:eve"})).json["where"] == "/decided_by"
        decided = await api("POST", where, {"decision": "approve", "comments": "fine", field: "user:ada"})
        assert decided.json == {"approvalId": approval, "status": "resumed", "nextNodes": ["ship"]}, decided.body
        steps = await until(api, f"/api/executions/{id}", status="completed")
        assert steps["settled"] and "patched" in str((await api("GET", f"/api/executions/{id}/steps")).json["items"][-1]["output"])


async def test_a_decision_names_the_steps_that_it_leads_to(api: Api) -> None:
    ask: dict[str, Any] = {"approve": {"title": "Well?"}}
    sets: dict[str, Any] = {"set": {"x": 1}}
    cases: dict[str, tuple[list[dict[str, Any]], str, list[str]]] = {
        "in-order": ([{"id": "ask", **ask}, {"id": "after", **sets}], "approve", ["after"]),
        "stops": ([{"id": "ask", **ask}, {"id": "after", **sets}], "reject", []),
        "goes-on": ([{"id": "ask", **ask, "on_rejected": "go_on"}, {"id": "after", **sets}], "reject", ["after"]),
        "last": ([{"id": "ask", **ask}], "approve", []),
        "in-a-loop": (
            [{"id": "each", "each": {"in": [1]}, "do": [{"id": "ask", **ask}, {"id": "inside", **sets}]}, {"id": "after", **sets}],
            "approve",
            ["inside"],
        ),
        "of-two": ([{"id": "ask", "approve": {"title": "Well?", "quorum": 2}}, {"id": "after", **sets}], "approve", []),
    }
    for name, (steps, decision, following) in cases.items():
        synced = await api("POST", "/api/workflows/sync", {"document": {"perdure": 1, "name": name, "version": "1.0.0", "order": "listed", "steps": steps}})
        assert synced.status == 200, synced.body
        id = (await api("POST", "/runs", {"tag": name, "inputs": {}})).json["id"]
        waiting = await until(api, f"/runs/{id}", status="waiting_approval")
        where = f"/approvals/{quote(waiting['approvals'][0]['id'], safe='')}/decide"
        decided = await api("POST", where, {"decision": decision, "decided_by": "user:ada"})
        assert decided.json["nextNodes"] == following, (name, decided.body)
    await api("POST", "/api/executions", {"workflow": "trip", "id": "t", "input": ["Rome"]})
    (asked,) = (await until(api, "/api/executions/t", status="waiting_approval"))["approvals"]
    of_code = await api("POST", f"/approvals/{quote(asked['id'], safe='')}/decide", {"decision": "approve", "decided_by": "user:ada"})
    assert of_code.json["nextNodes"] == []


async def test_a_rollback_is_to_a_workflow_hash(api: Api) -> None:
    first = (await api("POST", "/api/workflows/sync", {"document": RELEASE})).json["definition"]
    await api("POST", "/api/workflows/sync", {"document": {**RELEASE, "version": "2.0.0", "description": "changed"}})
    place = "/api/workflows/release/rollback"
    for wrong in ({}, {"workflowHash": ""}, {"workflowHash": first["hash"], "target": first["version"]}):
        refused = await api("POST", place, wrong)
        assert (refused.status, refused.json["where"]) == (422, "/target") and "in workflowHash" in refused.json["detail"], refused.body
    assert (await api("POST", place, {"workflowHash": "1.0.0"})).json["where"] == "/workflowHash"
    assert (await api("POST", place, {"workflowHash": f"sha256:{'0' * 64}"})).status == 404
    done = (await api("POST", place, {"workflowHash": first["hash"]})).json
    assert (done["alreadyAtVersion"], done["definition"]["hash"], done["definition"]["version"]) == (False, first["hash"], "2.1.0")
    again = (await api("POST", place, {"workflowHash": first["hash"]})).json
    assert again == {"definition": done["definition"], "alreadyAtVersion": True}


async def test_the_kinds_of_steps_have_their_schemas(api: Api) -> None:
    for path in ("/api/kinds", "/node-types", "/api/v1/node-types"):
        found = {one["name"]: one for one in (await api("GET", path)).json["items"]}
        assert {"bash", "http", "agent", "tool", "llm"} <= found.keys()
        assert found["http"]["config"] and found["http"]["form"] and found["http"]["example"]


async def test_an_external_run_is_completed_by_its_runner_once(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "rendering", "id": "film", "input": [24]})
    await until(api, "/api/executions/film", status="waiting", currentStepSlug="completion")
    assert (await api("POST", "/api/executions/film/status", {"status": "running"})).status == 204
    assert (await api("POST", "/api/executions/film/status", {"status": "sleeping"})).status == 422
    done = {"status": "completed", "outputs": {"file": "film.mp4"}, "steps": [{"stepId": "encode", "status": "completed"}]}
    assert (await api("POST", "/api/executions/film/complete", done)).status == 204
    found = await until(api, "/api/executions/film", status="completed")
    assert found["outputs"] == {"outputs": done["outputs"], "steps": done["steps"]}
    late = await api("POST", "/api/executions/film/complete", done)
    assert (late.status, late.json["code"]) == (409, "has_ended")


async def test_a_reported_failure_fails_the_run(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "rendering", "id": "film", "input": [24]})
    await until(api, "/api/executions/film", status="waiting", currentStepSlug="completion")
    failed = {"status": "failed", "error": {"code": "out_of_disk", "message": "the disk is full"}}
    assert (await api("POST", "/api/executions/film/complete", failed)).status == 204
    found = await until(api, "/api/executions/film", status="failed")
    assert "the disk is full" in found["error"]["message"]


async def test_nothing_is_reported_on_an_execution_that_is_run_by_an_engine(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "greet", "id": "g"})
    for what, body in (("complete", {"status": "completed"}), ("status", {"status": "running"}), ("status", {"status": "failed"})):
        refused = await api("POST", f"/api/executions/g/{what}", body)
        assert (refused.status, refused.json["code"]) == (409, "completion_refused")
    assert (await api("POST", "/api/executions/none/complete", {"status": "completed"})).status == 404


async def test_of_several_steps_outside_the_token_says_which(api: Api) -> None:
    tokens.clear()
    await api("POST", "/api/executions", {"workflow": "two_renderings", "id": "two"})
    await until(api, "/api/executions/two", status="waiting", currentStepSlug="completion")
    refused = await api("POST", "/api/executions/two/complete", {"status": "completed", "outputs": 1})
    assert (refused.status, refused.json["code"]) == (409, "completion_refused") and "token" in refused.json["detail"]
    await api("POST", "/api/executions", {"workflow": "greet", "id": "other"})
    assert (await api("POST", "/api/executions/other/complete", {"status": "completed", "token": tokens[0]})).status == 422
    for number, token in enumerate(tokens):
        assert (await api("POST", "/api/executions/two/complete", {"status": "completed", "outputs": number, "token": token})).status == 204
    assert sorted((await until(api, "/api/executions/two", status="completed"))["outputs"]) == [0, 1]


async def test_what_is_parked_is_dispatched_again(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "greet", "id": "g"})
    assert (await api("POST", "/api/executions/greet/g/pause", {"wait": True})).status == 204
    again = await api("POST", "/api/executions/g/enqueue", {})
    assert again.json["executor"]["dispatchCount"] == 0 and again.json["executor"]["firstEnqueuedAt"]
    await until(api, "/api/executions/g", status="waiting")


async def test_an_enqueue_that_comes_too_late_is_refused_under_its_own_name(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "calc", "id": "c", "input": {"a": 3, "b": 4}})
    await until(api, "/api/executions/c", status="completed")
    for place in ("c", "calc/c"):
        late = await api("POST", f"/api/executions/{place}/enqueue", {})
        assert (late.status, late.json["code"]) == (409, "has_ended") and "so enqueue would have no effect" in late.json["detail"], late.json
    assert "so resume would have no effect" in (await api("POST", "/api/executions/calc/c/resume", {})).json["detail"]
