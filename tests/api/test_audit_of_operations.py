"""Each operation that changes something has an audit entry under the name of its caller, but for those that the log of an execution has."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from perdure.operations.operation_table import OPERATIONS
from perdure.service.agent_memories import MEMORIES
from perdure.service.audit import AuditFilter, list_entries
from perdure.service.catalog_changes import Edit
from perdure.service.catalog_sync import sync_definition
from perdure.service.record_kinds import post_records
from perdure.service.sessions import open_session
from perdure.service.store_access import StoreAccess
from perdure.stores.agent_memory_records import AgentMemory
from perdure.stores.encryption import new_key
from tests.api.service_setup import Service, service_in_process
from tests.recording.recorder import recorder

pytestmark = pytest.mark.slow

IN_THE_LOG = {
    *("executions.start", "executions.rerun", "executions.fork", "executions.send", "executions.ask", "executions.preset", "catalog.start"),
    *("runs.run_workflow", "triggers.run", "triggers.backfill", "events.post", "runs.approve", "runs.decide", "runs.complete", "runs.report_status"),
    "notifications.try_rule",
    *("catalog.start_document", "approvals.vote", "approvals.delegate", "approvals.vote_by_link"),
    *("approvals.complete", "approvals.fail", "approvals.heartbeat"),
    "proposals.start_agent",
    *("recordings.start", "recordings.call", "recordings.cancel_call", "recordings.preset", "recordings.set_input", "recordings.end"),
    *("executions.start_bulk", "deliveries.replay", "deliveries.replay_many", "deliveries.send_sample"),
}
"""Operations that start executions or send messages to them: their logs have these. For approvals, see the test of decisions."""

WITHOUT_CHANGES = {
    "executions.selected",
    "executions.plan",
    "catalog.validate",
    "catalog.preview",
    "kinds.references",
    "triggers.preview_config",
    "approvals.sign_link",
    "upkeep.verify",
    "proposals.try",
    "proposals.try_document",
    "recordings.definition",
    "recordings.suggestions",
}
"""Operations that change nothing, and are asked by POST since their arguments are long."""

LARGE_VALUES = {"upkeep.prune_values", "upkeep.prune_archives"}
"""Operations that call a part of the store where there is something old to remove, as does the removal of months: the entry is before that call."""

CHANGING = {one.name: one for one in OPERATIONS if one.method != "GET" and one.name not in WITHOUT_CHANGES}


class Request(NamedTuple):
    """A request for an operation, by its path and body."""

    operation: str
    path: str
    body: Any = None


def document(value: int) -> dict[str, Any]:
    """A definition that waits for an approval and returns a number."""
    steps = [{"id": "ask", "approve": {"title": "go on?"}}, {"id": "note", "set": {"n": value}, "needs": ["ask"]}]
    return {"perdure": 1, "name": "invoice", "allow": {"self_edit": True}, "vars": {"n": 0}, "steps": steps, "output": "@vars.n"}


def definitions(directory: Path) -> Path:
    """A file with a definition for an engine."""
    file = directory / "flows" / "reviewed.json"
    file.parent.mkdir()
    file.write_text(json.dumps({**document(1), "name": "reviewed"}))
    return file


async def _begun(service: Service, key: str, workflow: str, id: str, input: list[Any], status: str) -> None:
    """Starts an execution, and waits until it has a status."""
    assert (await service.by(key, "POST", "/api/executions", {"workflow": workflow, "id": id, "input": input})).status == 201
    await _until(service, key, workflow, id, status)


async def _until(service: Service, key: str, workflow: str, id: str, status: str) -> None:
    async with asyncio.timeout(10):
        while (await service.by(key, "GET", f"/api/executions/{workflow}/{id}")).json["status"] != status:
            await asyncio.sleep(0.01)


def _one(workflow: str, id: str, verb: str) -> str:
    return f"/api/executions/{workflow}/{id}/{verb}"


async def _proposed_by_another(service: Service) -> dict[str, Any]:
    """A proposal that the caller may review."""
    other = await service.key("admin")
    base = (await service.by(other, "GET", "/api/workflows/drafted")).json["hash"]
    made = await service.by(other, "POST", "/api/workflows/drafted/proposals", {"baseWorkflowHash": base, "proposalJson": document(8)})
    assert made.status in (200, 201), made.body
    found: dict[str, Any] = made.json
    return found


async def _requests(service: Service, key: str) -> list[Request]:
    """A request for each operation that has an entry, in an order in which each one changes something."""
    for id in ("cancelled", "terminated", "paused", "enqueued", "evicted", "bulk"):
        await _begun(service, key, "greet", id, [], "waiting")
    for id in ("retried", "requeued", "discarded"):
        await _begun(service, key, "calc", id, [-1], "failed")
    await _begun(service, key, "calc", "undone", [1], "completed")
    started = {"document": {**document(1), "name": "reviewed"}, "workflow": "reviewed", "id": "patched"}
    assert (await service.by(key, "POST", "/api/inline-executions", started)).status == 201
    await _until(service, key, "reviewed", "patched", "waiting_approval")
    exported = (await service.by(key, "GET", _one("calc", "undone", "export"))).body
    opened = await open_session(service.store, await service.app._authenticate.keys.caller(key))  # type: ignore[attr-defined]  # it is that of a server
    made = (await service.by(key, "POST", "/api/keys", {"name": "another", "roles": ["viewer"]})).json["key"]["id"]
    versions = {slug: (await service.by(key, "POST", "/api/workflows", {"document": document(1), "slug": slug})).status for slug in ("old", "drafted")}
    nightly = {"name": "nightly", "config": {"type": "schedule", "cron": "@daily"}, "workflowId": "old"}
    trigger = (await service.by(key, "POST", "/api/triggers", nightly)).json["id"]
    assert versions == {"old": 201, "drafted": 201} or versions == {"old": 200, "drafted": 200}
    proposed = await _proposed_by_another(service)
    remembered = MEMORIES.change("default", "clerk/tea", 0, AgentMemory("clerk", "tea", "with milk", "clerk/1"))
    await post_records(service.store, [remembered])
    return [
        Request("executions.cancel", _one("greet", "cancelled", "cancel"), {"wait": True}),
        Request("executions.terminate", _one("greet", "terminated", "terminate"), {"wait": True}),
        Request("executions.pause", _one("greet", "paused", "pause"), {"wait": True}),
        Request("executions.resume", _one("greet", "paused", "resume"), {"wait": True}),
        Request("executions.pause", _one("greet", "enqueued", "pause"), {"wait": True}),
        Request("runs.enqueue", _one("greet", "enqueued", "enqueue"), {}),
        Request("executions.evict", _one("greet", "evicted", "evict"), {}),
        Request("executions.undo", _one("calc", "undone", "undo"), {}),
        Request("executions.retry", _one("calc", "retried", "retry"), {}),
        Request("executions.bulk", "/api/executions/batch", {"verb": "cancel", "which": {"workflow": "greet"}}),
        Request("executions.patch", _one("reviewed", "patched", "patch"), {"definition": {**document(2), "name": "reviewed"}}),
        Request("dead_letters.requeue", "/api/dead-letters/calc/requeued/requeue", {}),
        Request("dead_letters.discard", "/api/dead-letters/calc/discarded/discard", {}),
        Request("triggers.create", "/api/triggers", {"name": "by hand", "config": {"type": "manual"}, "workflowId": "old"}),
        Request("triggers.disable", f"/api/triggers/{trigger}/disable", {}),
        Request("triggers.enable", f"/api/triggers/{trigger}/enable", {}),
        Request("triggers.pause", f"/api/triggers/{trigger}/pause", {"reason": "a fair"}),
        Request("triggers.resume", f"/api/triggers/{trigger}/resume", {}),
        Request("triggers.update", f"/api/triggers/{trigger}", {"name": "weekly"}),
        Request("triggers.delete", f"/api/triggers/{trigger}"),
        Request("catalog.create", "/api/workflows", {"document": document(1)}),
        Request("catalog.update", "/api/workflows/invoice", {"document": document(2)}),
        Request("catalog.move_tag", "/api/workflows/invoice/tags/production", {"version": "1.0.0"}),
        Request("catalog.remove_tag", "/api/workflows/invoice/tags/production"),
        Request("catalog.roll_back", "/api/workflows/invoice/rollback", {"target": "1.0.0"}),
        Request("catalog.save_draft", "/api/workflows/drafted/draft", {"document": "perdure: 1"}),
        Request("catalog.discard_draft", "/api/workflows/drafted/draft"),
        Request("catalog.sync", "/api/workflows/sync", {"document": document(3)}),
        Request("proposals.create", "/api/workflows/drafted/proposals", {"baseWorkflowHash": proposed["baseWorkflowHash"], "proposalJson": document(9)}),
        Request("proposals.review", f"/api/proposals/{proposed['id']}/review", {"decision": "approve"}),
        Request("proposals.apply", f"/api/proposals/{proposed['id']}/apply", {}),
        Request("catalog.delete", "/api/workflows/old"),
        Request("catalog.sync_all", "/api/workflows/sync-all", {"documents": [{"document": document(4), "slug": "invoice"}], "delete": True, "expect": 1}),
        Request("queues.declare", "/api/queues/mails/declaration", {"limits": {"concurrency": 2, "declared": "mails of two"}}),
        Request("queues.change", "/api/queues/mails", {"concurrency": 3}),
        Request("queues.remove", "/api/queues/mails"),
        Request("upkeep.import", "/api/imports", {"raw": base64.b64encode(exported).decode(), "id": "imported", "unsigned": True}),
        Request("upkeep.prune", "/api/upkeep/prune", {"olderThanSeconds": 0}),
        Request("notifications.save_rule", "/api/notification-rules/mail", {"kinds": ["asked"], "channel": "smtp"}),
        Request("notifications.remove_rule", "/api/notification-rules/mail"),
        Request("people.save_person", "/api/people/ada", {"email": "ada@example.com"}),
        Request("executions.forget_memory", "/api/agent-memories/clerk/tea"),
        Request("access.create_key", "/api/keys", {"name": "ci", "roles": ["viewer"]}),
        Request("access.rotate_key", f"/api/keys/{made}/rotate", {}),
        Request("access.revoke_key", f"/api/keys/{made}"),
        Request("access.revoke_session", f"/api/sessions/{opened.id}"),
    ]


async def _has_entry(service: Service, key: str, operation: str) -> bool:
    """Whether the newest entry of an operation has the name and the address of the caller."""
    found = (await list_entries(service.store, "default", AuditFilter(operation=operation))).items
    return bool(found) and (found[0].entry.subject, found[0].entry.address) == (f"key:{key[4:12]}", "192.0.2.7")


async def test_each_change_has_an_entry(tmp_path: Path) -> None:
    async with service_in_process(tmp_path, definitions=definitions(tmp_path)) as service:
        key = await service.key("admin")
        requests, without = await _requests(service, key), list[str]()
        for request in requests:
            answer = await service.by(key, CHANGING[request.operation].method, request.path, request.body)
            assert answer.status < 300, (request, answer.status, answer.body)
            if not await _has_entry(service, key, request.operation):
                without.append(request.operation)
    assert without == []
    elsewhere = {"executions.withdraw_patches", "upkeep.prune_months", "catalog.release"}  # the last changes what a watched file owns
    elsewhere |= {"secrets.save", "secrets.remove"}  # they need the package cryptography
    elsewhere |= {"recordings.save"}  # it needs an engine that records
    assert CHANGING.keys() == {one.operation for one in requests} | IN_THE_LOG | elsewhere | LARGE_VALUES


async def test_saving_a_recording_has_an_entry(tmp_path: Path) -> None:
    async with service_in_process(tmp_path) as service, recorder(service.store) as recording:
        key = await service.key("admin")
        await recording.call("get_user", user=7)
        saved = await service.by(key, "POST", "/api/recordings/s1/save", {"slug": "recorded"})
        assert saved.status == 200, saved.body
        assert await _has_entry(service, key, "recordings.save")


async def test_a_decision_has_an_entry_with_the_key_that_gave_it_for_a_person(tmp_path: Path) -> None:
    async with service_in_process(tmp_path) as service:
        key = await service.key("admin")
        for id, operation in (("t1", "approvals.vote"), ("t2", "runs.decide")):
            await _begun(service, key, "trip", id, ["Rome"], "waiting_approval")
            (asked,) = (await service.by(key, "GET", f"/api/executions/trip/{id}")).json["approvals"]
            root, said = ("/api", {"by": "ada", "approve": True}) if operation == "approvals.vote" else ("/api/v1", {"decision": "approve", "decidedBy": "ada"})
            answer = await service.by(key, "POST", f"{root}/approvals/{quote(asked['id'], safe='')}/decide", said)
            assert answer.status < 300, answer.body
            assert await _has_entry(service, key, operation), operation
            (entry,) = (await list_entries(service.store, "default", AuditFilter(operation=operation))).items[:1]
            assert entry.entry.targets[0].key == f"perdure.approval/{quote(asked['id'], safe='')}" and entry.entry.targets[0].change == "vote"


async def test_a_change_of_a_secret_has_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ = pytest.importorskip("cryptography", reason="encryption needs the package cryptography: pip install 'perdure[crypto]'")
    monkeypatch.setenv("PERDURE_SECRETS_KEY", f"first:{new_key()}")
    async with service_in_process(tmp_path) as service:
        key = await service.key("admin")
        saved = await service.by(key, "PUT", "/api/secrets/TOKEN", {"value": "canary-of-the-audit"})
        assert (saved.status, saved.json["version"]) == (200, 1), saved
        assert await _has_entry(service, key, "secrets.save")
        assert (await service.by(key, "DELETE", "/api/secrets/TOKEN")).status == 204
        assert await _has_entry(service, key, "secrets.remove")
        assert (await service.by(key, "DELETE", "/api/secrets/TOKEN")).status == 404


async def test_the_release_of_a_definition_from_its_file_has_an_entry(tmp_path: Path) -> None:
    async with service_in_process(tmp_path) as service:
        key, file = await service.key("author"), "definitions/invoice.json"
        _ = await sync_definition(StoreAccess(service.store), "default", json.dumps(document(1)).encode(), Edit("files", file=file))
        refused = await service.by(key, "PUT", "/api/workflows/invoice", {"document": document(2)})
        assert (refused.status, refused.json["code"], file in refused.json["detail"]) == (409, "definition_owned", True)
        released = await service.by(key, "POST", "/api/workflows/invoice/release", {})
        assert (released.status, released.json["owner"]) == (200, "")
        assert await _has_entry(service, key, "catalog.release")


async def test_the_withdrawal_of_a_patch_has_an_entry(tmp_path: Path) -> None:
    started = {"document": {**document(1), "name": "reviewed"}, "workflow": "reviewed", "id": "later"}
    async with service_in_process(tmp_path, definitions=definitions(tmp_path)) as service:
        key = await service.key("admin")
        assert (await service.by(key, "POST", "/api/inline-executions", started)).status == 201
        await _until(service, key, "reviewed", "later", "waiting_approval")
    async with service_in_process(tmp_path, engine=False) as service:
        change = {"definition": {**document(2), "name": "reviewed"}, "wait": False}
        assert (await service.by(key, "POST", _one("reviewed", "later", "patch"), change)).status == 204
        assert (await service.by(key, "POST", _one("reviewed", "later", "patch/withdraw"), {})).json == {"value": 1}
        assert await _has_entry(service, key, "executions.withdraw_patches")
