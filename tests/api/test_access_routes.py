"""Claims about the routes of keys, sessions and the audit, and about callers who may do less than their role says."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perdure import App
from perdure.cli.command_list import root
from perdure.core.errors import Forbidden, NotFound
from perdure.core.paths import Key
from perdure.operations import on_access, on_executions
from perdure.operations.operation_table import OPERATIONS, Operation
from perdure.remote.http_access import HttpAccess
from perdure.service.access_keys import KeyRequest, create_key
from perdure.service.callers import LOCAL, ROLES, Caller, caller_details
from perdure.service.sessions import open_session
from tests.api.api_setup import Api, api_in_process, api_on_a_port
from tests.api.service_setup import service_in_process


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with api_in_process(tmp_path) as api:
        yield api


async def test_keys_are_made_listed_rotated_and_revoked(api: Api) -> None:
    api.caller = Caller("acme", "key:root", frozenset(("admin",)))
    made = await api("POST", "/api/keys", {"name": "ci", "roles": ["viewer"], "validSeconds": 3600})
    assert made.status == 200 and made.headers["cache-control"] == "no-store"
    id, text = made.json["key"]["id"], made.json["text"]
    assert text.startswith(f"prd_{id}_") and "tenant" not in made.json["key"] and made.json["key"]["expiresAt"].endswith("Z")
    rotated = await api("POST", f"/api/keys/{id}/rotate", {"overlapSeconds": 60})
    assert rotated.json["text"] not in (text, "") and rotated.json["key"]["secrets"] == 2
    listed = await api("GET", "/api/keys?limit=10")
    assert [(one["id"], one["createdBy"]) for one in listed.json["items"]] == [(id, "key:root")]
    assert text not in listed.body.decode() and "sha256" not in listed.body.decode()
    assert (await api("DELETE", f"/api/keys/{id}")).json["revokedBy"] == "key:root"
    missing = await api("DELETE", "/api/keys/nothing")
    assert (missing.status, missing.json["code"]) == (404, "not_found")
    assert (await api("POST", "/api/keys", {"name": "ci", "roles": ["root"]})).json["where"] == "/roles/0"
    assert (await api("POST", "/api/keys", {"name": "", "roles": ["viewer"]})).json["where"] == "/name"
    late = (await api("POST", "/api/keys", {"name": "ci", "roles": ["viewer"], "validSeconds": -1}, idempotency_key="k")).json
    assert (late["where"], late["detail"][:17]) == ("/validSeconds", "/validSeconds: -1")
    assert (await api("POST", f"/api/keys/{id}/rotate", {"overlapSeconds": -1})).json["where"] == "/overlapSeconds"
    assert (await api("GET", "/api/keys?limit=0")).json["where"] == "/limit"


async def test_sessions_are_listed_and_ended(api: Api) -> None:
    opened = await open_session(api.app.access.store, Caller("default", "oidc:ada@example.com", frozenset(("viewer",))))
    listed = await api("GET", "/api/sessions?subject=oidc:ada@example.com")
    assert [one["id"] for one in listed.json["items"]] == [opened.id] and opened.token not in listed.body.decode()
    assert (await api("DELETE", f"/api/sessions/{opened.id}")).status == 204
    assert (await api("DELETE", f"/api/sessions/{opened.id}")).status == 404


async def test_who_has_a_key_learns_its_name(api: Api) -> None:
    created = await create_key(api.app.access.store, "acme", KeyRequest(name="ci of the shop", roles=("viewer",)), "key:root")
    api.caller = Caller("acme", f"key:{created.key.id}", frozenset(("viewer",)))
    assert (await api("GET", "/api/whoami")).json["name"] == "ci of the shop"
    api.caller = Caller("default", f"key:{created.key.id}", frozenset(("viewer",)))
    assert (await api("GET", "/api/whoami")).json["name"] == "", "a key of another tenant"


async def test_everybody_learns_who_they_are_and_nobody_says_it(api: Api) -> None:
    api.caller = Caller("acme", "key:w", frozenset(("operator",)), queues=("mails",))
    found = (await api("GET", "/api/whoami")).json
    assert found.pop("operations") == [one.name for one in OPERATIONS if one.for_workers and one.role in ("operator", None)]
    assert found == {
        "tenantName": "acme",
        "subject": "key:w",
        "roles": ["operator"],
        "groups": [],
        "queues": ["mails"],
        "expiresAt": None,
        "logsUrl": "",
        "name": "",
    }
    assert (await api("GET", "/api/whoami?caller=key:root")).status == 422


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_a_key_that_is_limited_to_queues_is_for_work_in_them_alone(operation: Operation) -> None:
    worker = Caller("default", "key:w", frozenset(ROLES), queues=("mails",))
    if operation.name in ("access.whoami", "approvals.complete", "approvals.fail", "approvals.heartbeat"):
        operation.expect_allowed(worker)
    else:
        with pytest.raises(Forbidden, match="key:w is limited to work in queues"):
            operation.expect_allowed(worker)


STORE_WIDE = {
    *("queues.statuses", "queues.read", "queues.declare", "queues.change", "queues.remove", "queues.processes"),
    *("upkeep.import", "upkeep.verify", "upkeep.prune_archives", "upkeep.prune_values", "upkeep.prune_months"),
}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_what_concerns_all_tenants_is_for_those_who_operate_the_service(operation: Operation) -> None:
    operation.expect_allowed(Caller("default", "key:a", frozenset(("admin",))))
    if operation.name in STORE_WIDE:
        with pytest.raises(Forbidden, match=r"concerns all tenants, so key:a of the tenant acme may not call it"):
            operation.expect_allowed(Caller("acme", "key:a", frozenset(("admin",))))
    else:
        operation.expect_allowed(Caller("acme", "key:a", frozenset(("admin",))))


async def test_a_client_of_a_server_calls_operations_on_access(tmp_path: Path) -> None:
    async with App(db=f"sqlite:///{tmp_path}/a.db", engine=False) as app, api_on_a_port(app.client.access) as url:
        access = HttpAccess(url)
        forged = Caller("default", "key:forged", frozenset(("admin",)))
        made = await access.call(on_access.create_key, forged, KeyRequest(name="ci", roles=("viewer",)))
        assert made.key.created_by == "local", "the server says who asks, and not the client"
        assert [one.id for one in (await access.call(on_access.list_keys, "default")).items] == [made.key.id]
        with pytest.raises(NotFound, match=r"nothing of the tenant acme here: the key is one of the tenant default"):
            await access.call(on_access.list_keys, "acme")
        with pytest.raises(NotFound, match=r"nothing of the tenant acme here"):
            await access.call(on_executions.status, Key("acme", "calc", "x"))
        assert await access.call(on_access.whoami, forged) == caller_details(LOCAL, tuple(one.name for one in OPERATIONS))
        await access.aclose()


async def test_the_command_makes_keys_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with App(db=f"sqlite:///{tmp_path}/a.db", engine=False) as app, api_on_a_port(app.client.access) as url:
        monkeypatch.setenv("PERDURE_SERVER", url)
        monkeypatch.delenv("PERDURE_DB", raising=False)

        async def said(command: str) -> Result:
            return await asyncio.to_thread(CliRunner().invoke, root, command.split())

        made = await said("keys create ci --role viewer")
        assert made.exit_code == 0 and made.stdout.startswith("prd_"), made
        id = made.stdout[4:12]
        assert (await said("keys ls -o ids")).stdout == f"{id}\n"
        assert (await said(f"keys rotate {id}")).stdout.startswith(f"prd_{id}_")
        assert (await said(f"keys revoke {id}")).stdout == f"{id} (ci) is revoked\n"
        refused = await said("keys ls --tenant acme")
        assert refused.exit_code == 10 and "the key is one of the tenant default" in refused.stderr


async def test_a_caller_is_told_which_operations_they_may_call(tmp_path: Path) -> None:
    async with service_in_process(tmp_path) as service:
        by_role = {role: set((await service.by(await service.key(role), "GET", "/api/whoami")).json["operations"]) for role in ROLES}
        assert by_role["admin"] == {one.name for one in OPERATIONS}
        assert "executions.start" in by_role["operator"] and "executions.start" not in by_role["viewer"]
        assert by_role["viewer"] == {one.name for one in OPERATIONS if one.role in ("viewer", None)}
        other = (await service.by(await service.key("admin", tenant="acme"), "GET", "/api/whoami")).json["operations"]
        assert "queues.statuses" not in other and "executions.start" in other


async def test_people_of_whom_something_is_known_are_listed_for_admins(tmp_path: Path) -> None:
    async with service_in_process(tmp_path) as service:
        key = await service.key("admin")
        for name in ("ben", "ada"):
            assert (await service.by(key, "PUT", f"/api/people/{name}", {"email": f"{name}@example.com"})).status == 200
        first = (await service.by(key, "GET", "/api/people?limit=1")).json
        assert [one["name"] for one in first["items"]] == ["ada"] and first["next"] == "ada"
        assert [one["name"] for one in (await service.by(key, "GET", "/api/people?after=ada")).json["items"]] == ["ben"]
        assert (await service.by(await service.key("viewer"), "GET", "/api/people")).status == 403
