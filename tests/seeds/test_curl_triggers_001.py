"""The triggers of seed 001, by curl alone, against `perdure serve`, which is killed on the way: its routes, bodies and configs."""

import hmac
import json
import shutil
import signal
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.cli.serve_process import ServeProcess, new_key, serving
from tests.seeds.test_curl_proposals_001 import Curled, curl, curl_with

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")]

SECRET = "the secret of the hook"
RELEASE: dict[str, Any] = {
    "id": "release",
    "slug": "release",
    "name": "Release",
    "version": "1.0.0",
    "variables": {"branch": "main"},
    "triggers": [
        {
            "name": "push",
            "type": "webhook",
            "config": {"path": "release", "method": "POST", "secret": "taken from the vault"},
            "variableMapping": {"branch": "$.ref.branch"},
        },
        {"name": "nightly", "type": "schedule", "config": {"cron": "30 2 * * 1-5", "timezone": "Europe/London"}},
        {"name": "hand", "type": "manual", "config": {}},
    ],
    "steps": [{"id": "gate", "type": "approval", "prompt": "Release {{branch}}?"}],
}


def sent(server: ServeProcess, path: str, body: str, delivery: str, secret: str = SECRET, method: str = "POST") -> Curled:
    """What curl prints of the answer to a delivery."""
    signature = hmac.new(secret.encode(), body.encode(), sha256).hexdigest()
    headers = ["-H", "Content-Type: application/json", "-H", f"X-Signature: {signature}", "-H", f"X-Delivery-Id: {delivery}"]
    return curl_with(server, path, "-X", method, *headers, "-d", body)


def until(server: ServeProcess, key: str, path: str, **wanted: Any) -> Any:
    """Reads again until the answer has these fields."""
    ends_s = time.monotonic() + 30
    while not all((found := curl(server, key, path).json).get(name) == value for name, value in wanted.items()):
        assert time.monotonic() < ends_s, found
        time.sleep(0.05)
    return found


@pytest.mark.prove
def test_triggers_live_and_start_executions_by_curl_whenever_the_server_is_killed(tmp_path: Path) -> None:
    admin = new_key(tmp_path)
    with serving(tmp_path, PERDURE_SECRET_RELEASE_SECRET=SECRET) as server:
        assert curl(server, admin, "/api/workflows/sync", {"document": RELEASE}).status == 200
        listed = {one["name"]: one for one in curl(server, admin, "/api/triggers").json["items"]}
        assert {(one["type"], one["workflowId"], one["enabled"]) for one in listed.values()} == {
            ("webhook", "release", True),
            ("schedule", "release", True),
            ("manual", "release", True),
        }
        push = curl(server, admin, f"/api/triggers/{listed['push']['id']}").json
        assert (push["webhookUrl"], push["variableMapping"], push["lastRunAt"]) == ("/webhooks/release", {"branch": "$.ref.branch"}, None)
        assert SECRET not in json.dumps(push) and "taken from the vault" not in json.dumps(push)

        body = '{"ref": {"branch": "next"}}'
        assert sent(server, "/webhooks/release", body, "d1", secret="another").status == 401
        assert sent(server, "/webhooks/elsewhere", body, "d1").status == 404
        assert sent(server, "/webhooks/release", body, "d1", method="PUT").status == 405
        first = sent(server, "/webhooks/release?via=curl", body, "d1")
        assert (first.status, first.json["executionId"]) == (202, f"webhook:{push['id']}:d1")
        server.signal(signal.SIGKILL)
        server.ended()
    with serving(tmp_path, PERDURE_SECRET_RELEASE_SECRET=SECRET) as server:
        again = sent(server, "/webhooks/release?via=curl", body, "d1")
        assert (again.status, again.json["executionId"]) == (200, first.json["executionId"])
        id = first.json["executionId"].replace(":", "%3A")
        found = until(server, admin, f"/api/executions/{id}", seedStatus="waiting_approval")
        assert (found["variables"], found["triggerType"], found["triggerId"], found["triggerName"], found["initiatorType"]) == (
            {"branch": "next"},
            "webhook",
            push["id"],
            "push",
            "webhook",
        )
        assert curl(server, admin, f"/api/triggers/{push['id']}").json["lastRunAt"] == found["createdAt"]
        assert curl(server, admin, "/api/executions?workflowId=release").json["items"][0]["id"] == first.json["executionId"]

        disabled = curl(server, admin, f"/api/triggers/{push['id']}/disable", {})
        assert (disabled.status, disabled.json["enabled"]) == (200, False)
        assert sent(server, "/webhooks/release", body, "d2").status == 404
        assert curl(server, admin, f"/api/triggers/{push['id']}/enable", {}).json["enabled"] is True
        assert sent(server, "/webhooks/release", body, "d2").status == 202
        ran = curl(server, admin, f"/api/triggers/{listed['hand']['id']}/run", {"clientRequestId": "r1"})
        assert (ran.status, curl(server, admin, f"/api/triggers/{listed['hand']['id']}/run", {"clientRequestId": "r1"}).json["created"]) == (201, False)
        owned = curl(server, admin, f"/api/triggers/{push['id']}", {"name": "mine"}, "-X", "PATCH")
        assert (owned.status, owned.json["code"]) == (409, "trigger_owned")


def test_a_trigger_of_its_own_is_created_changed_and_deleted_by_curl(tmp_path: Path) -> None:
    admin = new_key(tmp_path)
    with serving(tmp_path) as server:
        assert curl(server, admin, "/api/workflows/sync", {"document": {**RELEASE, "triggers": []}}).status == 200
        config = {"type": "schedule", "cron": "*/5 9-17 * 1,6 1-5", "timezone": "America/New_York"}
        made = curl(server, admin, "/api/triggers", {"name": "often", "workflowId": "release", "config": config, "variableMapping": {}})
        assert (made.status, made.json["type"], made.json["config"]["cron"]) == (200, "schedule", config["cron"])
        one = f"/api/triggers/{made.json['id']}"
        changed = curl(server, admin, one, {"config": {**config, "cron": "@daily"}, "enabled": False}, "-X", "PATCH").json
        assert (changed["config"]["cron"], changed["enabled"]) == ("@daily", False)
        for wrong, where in (({**config, "cron": "61 * * * *"}, "/config/cron"), ({**config, "timezone": "Mars"}, "/config/timezone")):
            refused = curl(server, admin, "/api/triggers", {"name": "wrong", "workflowId": "release", "config": wrong})
            assert (refused.status, refused.json["where"]) == (422, where)
        missing = curl(server, admin, "/api/triggers", {"name": "wrong", "workflowId": "nothing", "config": {"type": "manual"}})
        assert (missing.status, missing.json["code"]) == (404, "not_found")
        assert curl(server, admin, one, None, "-X", "DELETE").status == 204
        assert (curl(server, admin, one).status, curl(server, admin, "/api/triggers").json["items"]) == (404, [])
