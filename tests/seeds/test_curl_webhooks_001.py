"""The webhook flow of seed 001 (68 to 76), by curl alone, against `perdure serve`, which is killed on the way."""

import hashlib
import hmac
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.serve_process import new_key, serving
from tests.seeds.test_curl_proposals_001 import curl

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")]

RELEASE: dict[str, Any] = {
    "id": "release",
    "slug": "release",
    "name": "Release",
    "version": "1.0.0",
    "variables": {"branch": "main", "by": "nobody"},
    "steps": [{"id": "gate", "type": "approval", "prompt": "Release {{branch}} for {{by}}?"}],
}
HOOK: dict[str, Any] = {
    "workflowId": "release",
    "name": "Release hook",
    "enabled": True,
    "config": {"type": "webhook", "path": "ci/release", "method": "POST", "secret": "@secrets.HOOK", "headers": {"X-Event": "release"}},
    "variableMapping": {"branch": "$.release.branch.name", "by": "$.query.by"},
}
SECRET = "a secret of seed 001"


def test_a_webhook_starts_its_workflow_once_with_what_is_mapped_though_the_server_is_killed(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    body = json.dumps({"release": {"branch": {"name": "v2"}}})
    signature = hmac.new(SECRET.encode(), body.encode(), hashlib.sha256).hexdigest()

    def delivery(server: Any, *options: str, signed: str = signature) -> Any:
        headers = ("-H", "Content-Type: application/json", "-H", "X-Event: release", "-H", f"X-Signature: {signed}", "-H", "X-Delivery-Id: d1")
        return curl(server, "no key", "/webhooks/ci/release?by=ada", None, *headers, "-d", body, *options)

    with serving(tmp_path, targets=(), PERDURE_SECRET_HOOK=SECRET) as server:
        assert curl(server, key, "/api/workflows/sync", {"document": RELEASE}).status == 200
        trigger = curl(server, key, "/api/triggers", HOOK).json
        assert (trigger["webhookUrl"], trigger["type"], trigger["enabled"]) == ("/webhooks/ci/release", "webhook", True)
        assert delivery(server, signed="0" * 64).status == 401
        assert delivery(server, "-X", "PUT").status == 405
        first = delivery(server)
        assert (first.status, first.json["executionId"]) == (202, f"webhook:{trigger['id']}:d1")
        server.signal(signal.SIGKILL)
        assert server.ended() == -signal.SIGKILL
    with serving(tmp_path, targets=(), PERDURE_SECRET_HOOK=SECRET) as server:
        again = delivery(server)
        assert (again.status, again.json) == (200, {**first.json, "created": False})
        found = curl(server, key, f"/api/executions/{first.json['executionId']}").json
        assert (found["workflowName"], found["variables"]) == ("Release", {"branch": "v2", "by": "ada"})
        listed = curl(server, key, "/api/executions?workflowId=release").json["items"]
        assert [one["id"] for one in listed] == [first.json["executionId"]]
        assert curl(server, key, f"/api/triggers/{trigger['id']}").json["lastRunAt"] is not None
        assert curl(server, key, f"/api/triggers/{trigger['id']}/disable", {}).status == 200
        assert delivery(server).status == 404
