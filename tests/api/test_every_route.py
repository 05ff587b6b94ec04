"""Walks over all routes: without proof, with each role, and as another tenant, for which nothing of the first is there, nor read."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from perdure.core.paths import Key
from perdure.operations import wire_codec
from perdure.operations.operation_table import OPERATIONS, Operation
from perdure.service.access_records import CREDENTIAL_TENANT
from perdure.service.callers import ROLES, Caller
from perdure.service.sessions import open_session
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import HeadFilter, Store
from perdure.stores.records import RecordFilter, RecordKey
from tests.api.api_setup import Answer
from tests.api.service_setup import Service, service_in_process

pytestmark = pytest.mark.slow

BY_PROOF = {"approvals.complete", "approvals.fail", "approvals.heartbeat", "approvals.vote_by_link"}
"""Operations whose argument, a secret token or a signed link, proves by itself that its bearer may do this."""

OF_ONESELF = {"people.read_person", "people.save_person"}
"""Operations that need no role for what concerns the person who calls, and the role admin for all others. A key is no person."""

MAKES_ITS_OWN = {"catalog.save_draft", "secrets.save", "notifications.save_rule", "notifications.remove_rule", "approvals.sign_link", *OF_ONESELF}
"""Operations that make something in the caller's own tenant under the name in their path, whether or not there is anything of it."""

BODIES: dict[str, Any] = {
    "executions.preset": {"step": "x"},
    "executions.send": {"name": "named", "body": "Eve"},
    "executions.ask": {"name": "named", "body": "Eve"},
    "executions.bulk": {"verb": "cancel", "which": {}},
    "executions.start_bulk": {"action": "cancel"},
    "executions.plan": {"verb": "cancel"},
    "approvals.vote": {"by": "eve", "approve": True},
    "notifications.save_rule": {"kinds": ["asked"], "channel": "smtp"},
    "approvals.delegate": {"to": "bob", "by": "eve"},
    "approvals.sign_link": {"by": "eve", "approve": True, "lifetimeSeconds": 60},
    "catalog.start": {"workflow": ""},
    "catalog.update": {"document": {"perdure": 1, "name": "invoice", "steps": []}},
    "catalog.roll_back": {"target": "1.0.0"},
    "proposals.create": {"baseWorkflowHash": "sha256:0", "proposalJson": {"perdure": 1, "name": "invoice", "steps": []}},
    "proposals.review": {"decision": "approve"},
    "proposals.try_document": {"document": {"perdure": 1, "name": "invoice", "steps": []}},
    "triggers.backfill": {"fromAt": "2026-01-01T00:00:00Z", "untilAt": "2026-01-02T00:00:00Z"},
    "upkeep.prune": {"olderThanSeconds": 0},
    "dead_letters.requeue": {},
    "recordings.call": {"tool": "shop.get_user"},
    "recordings.cancel_call": {"callId": "1"},
    "recordings.preset": {"step": "get_user_1"},
    "recordings.set_input": {"input": {}},
    "recordings.save": {"slug": "invoice"},
    "runs.approve": {"approve": True, "resumeToken": "x"},
    "runs.decide": {"decision": "approve"},
    "runs.complete": {"status": "completed"},
    "runs.report_status": {"status": "running"},
}
"""What requests need to say so that it is the address alone that is wrong."""

DOCUMENT = {"perdure": 1, "name": "invoice", "allow": {"self_edit": True}, "vars": {"n": 0}, "steps": [{"id": "note", "set": {"n": 1}}], "output": "@vars.n"}


QUERIES = {"executions.passages": "?node=add", "executions.conditions": "?path=add"}
"""What must be given in the query of operations that only read."""


def path_of(operation: Operation, named: dict[str, str]) -> str:
    """The path of an operation, with names in the place of its parameters."""
    parts = (quote(named.get(part[1:-1], "x"), safe="") if part.startswith("{") else part for part in operation.path.split("/"))
    return "/".join(parts)


async def asked(service: Service, key: str, operation: Operation, named: dict[str, str]) -> Answer:
    """The answer to a request for an operation."""
    body = None if operation.method in ("GET", "DELETE") else BODIES.get(operation.name, {})
    return await service.by(key, operation.method, path_of(operation, named) + QUERIES.get(operation.name, ""), body)


async def test_without_proof_every_route_answers_401_but_those_that_say_how_it_is_and_let_people_in(tmp_path: Path) -> None:
    async with service_in_process(tmp_path) as service:
        for operation in OPERATIONS:
            body = None if operation.method in ("GET", "DELETE") else BODIES.get(operation.name, {})
            assert (await service(operation.method, path_of(operation, {}), body)).status == 401, operation
            raw = await service("POST", f"/api/call/{operation.name}", raw=b"", content_type=wire_codec.MEDIA_TYPE)
            assert raw.status == 401, operation
        for path in ("/api/session", "/api/whoami"):
            assert (await service("GET", path)).status == 401
        assert (await service("POST", "/logout")).status == 401
        for path in ("/healthz", "/readyz", "/openapi.json", "/login"):
            assert (await service("GET", path)).status == 200


async def test_each_role_may_what_the_table_says_and_no_more(tmp_path: Path) -> None:
    async with service_in_process(tmp_path) as service:
        keys = {role: await service.key(role) for role in ROLES}
        for operation in OPERATIONS:
            for role, key in keys.items():
                answer = await service.by(key, operation.method, path_of(operation, {}), None if operation.method in ("GET", "DELETE") else {})
                may = (operation.role in (role, None) and operation.name not in OF_ONESELF) or role == "admin"
                assert (answer.status == 403) is not may, (operation, role, answer)
                assert answer.status < 500, (operation, role, answer)


class SpyingStore:
    """A store that notes the tenants whose rows are read through it."""

    def __init__(self, inner: Store) -> None:
        self._inner, self.tenants = inner, set[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def record(self, key: RecordKey) -> Any:
        """See `Store.record`."""
        self.tenants.add(key.tenant)
        return await self._inner.record(key)

    async def records(self, which: RecordFilter) -> Any:
        """See `Store.records`."""
        self.tenants.add(which.tenant)
        return await self._inner.records(which)

    async def heads(self, which: HeadFilter = HeadFilter()) -> Any:  # noqa: B008  # as the protocol has it
        """See `Store.heads`."""
        found = await self._inner.heads(which)
        self.tenants |= {one.key.tenant for one in found}
        return found

    async def read(self, key: Key, after: int = 0) -> Any:
        """See `Store.read`."""
        self.tenants.add(key.tenant)
        return await self._inner.read(key, after)

    async def messages(self, to: Any) -> Any:
        """See `Store.messages`."""
        self.tenants.add(to.tenant)
        return await self._inner.messages(to)


async def _first_tenant(service: Service) -> dict[str, str]:
    """Makes things of the default tenant, and returns their names as parameters of paths."""
    key = await service.key("admin")
    for workflow, id, input in (("greet", "hidden", []), ("calc", "hidden-failed", [-1]), ("trip", "hidden-trip", ["Rome"])):
        assert (await service.by(key, "POST", "/api/executions", {"workflow": workflow, "id": id, "input": input})).status == 201
    made = await service.by(key, "POST", "/api/workflows", {"document": DOCUMENT})
    assert made.status in (200, 201)
    proposed = {"baseWorkflowHash": made.json["hash"], "proposalJson": {**DOCUMENT, "description": "hidden"}}
    proposal = (await service.by(key, "POST", "/api/workflows/invoice/proposals", proposed)).json["id"]
    async with asyncio.timeout(10):
        while (
            not (approvals := (await service.by(key, "GET", "/api/approvals")).json["items"])
            or not (await service.by(key, "GET", "/api/dead-letters")).json["items"]
        ):
            await asyncio.sleep(0.01)
    opened = await open_session(service.store, Caller("default", "oidc:ada@example.com", frozenset(("viewer",))))
    return {
        "workflow": "greet",
        "id": "hidden",
        "approval": approvals[0]["id"],
        "key": key[4:12],
        "session": opened.id,
        "definition": "invoice",
        "reference": "invoice@1.0.0",
        "tag": "latest",
        "proposal": proposal,
    }


def _named(operation: Operation, names: dict[str, str]) -> dict[str, str]:
    """The names of the first tenant's things in the path of an operation."""
    for place, name in (("/api/approvals/", "approval"), ("/api/keys/", "key"), ("/api/sessions/", "session")):
        if operation.path.startswith(place):
            return {"id": names[name]}
    if operation.path.startswith("/api/dead-letters/"):
        return {"workflow": "calc", "id": "hidden-failed"}
    return names


async def test_for_another_tenant_nothing_is_there_and_no_row_of_the_first_is_read(tmp_path: Path) -> None:
    async with service_in_process(tmp_path) as service:
        names = await _first_tenant(service)
        other = await service.key("admin", tenant="acme")
        spy = SpyingStore(service.store)
        service.app.access = StoreAccess(spy)
        wrong = list[tuple[Operation, Answer]]()
        for operation in (one for one in OPERATIONS if one.name not in BY_PROOF):
            answer = await asked(service, other, operation, _named(operation, names))
            if operation.is_store_wide:
                is_right = answer.status == 403
            elif "{" in operation.path and operation.name not in MAKES_ITS_OWN:
                is_right = answer.status == 404 and answer.json["code"] == "not_found"
            else:
                is_right = answer.status < 500 and b"hidden" not in answer.body and names["key"].encode() not in answer.body
            wrong += [] if is_right else [(operation, answer)]
        assert not wrong, [(one.name, answer.status, answer.body[:300]) for one, answer in wrong]
        assert spy.tenants <= {"acme", CREDENTIAL_TENANT}
        await service.app.access.aclose()
