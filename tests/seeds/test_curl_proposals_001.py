"""The life of a proposal of seed 001, by curl alone, against `perdure serve`, which is killed on the way."""

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.serve_process import ServeProcess, new_key, serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")]

RELEASE: dict[str, Any] = {
    "id": "release",
    "slug": "release",
    "name": "Release",
    "version": "1.0.0",
    "variables": {"version": "0"},
    "constraints": {"allowSelfModification": True},
    "steps": [{"id": "gate", "type": "approval", "prompt": "Release {{version}}?", "outputVariable": "decision"}],
}
BETTER = {**RELEASE, "steps": [{**RELEASE["steps"][0], "prompt": "Really release {{version}}?"}]}
WIDER = {**RELEASE, "steps": [*RELEASE["steps"], {"id": "ship", "type": "bash", "command": "echo shipped"}]}
PROPOSALS = "/api/workflows/release/proposals"


class Curled(NamedTuple):
    """The status and the JSON of an answer."""

    status: int
    json: Any


def curl(server: ServeProcess, key: str, path: str, body: Any = None, *options: str) -> Curled:
    """What curl prints of an answer to a request with a key."""
    given = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
    return curl_with(server, path, "-H", f"Authorization: Bearer {key}", *given, *options)


def curl_with(server: ServeProcess, path: str, *options: str) -> Curled:
    """What curl prints of an answer."""
    command = ["curl", "-s", "-m", "30", "-w", "\n%{http_code}", *options, server.url + path]
    said, _, status = subprocess.run(command, capture_output=True, check=False, timeout=60, text=True).stdout.rpartition("\n")
    return Curled(int(status), json.loads(said) if said else None)


def proposed(server: ServeProcess, key: str, document: Any, **more: Any) -> Curled:
    base = curl(server, key, "/api/workflows/release").json["hash"]
    return curl(server, key, PROPOSALS, {"baseWorkflowHash": base, "proposalJson": document, **more})


@pytest.mark.prove
def test_a_proposal_is_made_reviewed_and_applied_by_curl_and_a_stale_one_fails(tmp_path: Path) -> None:
    agent, reviewer = new_key(tmp_path, "--role", "viewer", "--role", "operator"), new_key(tmp_path, "--role", "viewer", "--role", "author")
    admin = new_key(tmp_path)
    with serving(tmp_path) as server:
        assert curl(server, admin, "/api/workflows/sync", {"document": RELEASE}).status == 200
        first = curl(server, agent, "/api/workflows/release").json
        stale = curl(server, agent, PROPOSALS, {"baseWorkflowHash": "sha256:" + 64 * "0", "proposalJson": BETTER})
        assert (stale.status, stale.json["code"]) == (409, "stale_proposal")
        assert curl(server, agent, PROPOSALS).json["items"] == []

        made = proposed(server, agent, BETTER, note="ask twice")
        assert made.status == 200, made
        found = made.json
        assert (found["status"], found["expired"], found["workflowId"], found["baseWorkflowHash"]) == ("pending", False, first["id"], first["hash"])
        assert "Really release" in found["diffText"] and found["proposalJson"]["allow"] == {"self_edit": True}
        one = f"{PROPOSALS}/{found['id']}"
        assert [one["id"] for one in curl(server, agent, f"{PROPOSALS}?status=pending").json["items"]] == [found["id"]]
        assert curl(server, agent, f"{PROPOSALS}?status=applied").json["items"] == []
        assert curl(server, agent, f"{one}/review", {"decision": "approve"}).status == 403, "it is no author"
        assert curl(server, reviewer, f"{one}/apply", {}).json["code"] == "proposal_refused", "it is not approved"
        approved = curl(server, reviewer, f"{one}/review", {"decision": "approve", "reviewNotes": "fine"})
        assert (approved.status, approved.json["status"], approved.json["reviewNotes"]) == (200, "approved", "fine")
        server.signal(signal.SIGKILL)
        server.ended()
    with serving(tmp_path) as server:
        also = proposed(server, agent, {**RELEASE, "description": "Another"}).json
        assert curl(server, reviewer, f"{PROPOSALS}/{also['id']}/review", {"decision": "approve"}).status == 200
        assert curl(server, reviewer, f"{one}/apply", {}, "-H", 'If-Match: "1"').status == 412
        applied = curl(server, reviewer, f"{one}/apply", {}, "-H", 'If-Match: "2"').json
        assert (applied["status"], applied["appliedVersion"]) == ("applied", "1.0.1")
        now = curl(server, agent, "/api/workflows/release").json
        assert (now["version"], now["hash"]) == ("1.0.1", found["workflowHash"])
        entry = curl(server, agent, "/api/workflows/release/history").json["items"][0]
        assert (entry["source"], entry["sourceProposalId"], entry["fromHash"], entry["note"]) == ("proposal", found["id"], first["hash"], "ask twice")
        assert curl(server, agent, f"/api/workflow-versions/release@{first['hash']}").json["version"] == "1.0.0", "the version before is kept"
        failed = curl(server, reviewer, f"{PROPOSALS}/{also['id']}/apply", {})
        assert (failed.status, failed.json["code"]) == (409, "stale_proposal")
        gone = curl(server, agent, f"/api/proposals/{also['id']}").json
        assert (gone["status"], "its current version is" in gone["failure"]) == ("failed", True)

        wider = proposed(server, agent, WIDER).json
        assert wider["widensRights"] == ["bash"]
        assert curl(server, reviewer, f"{PROPOSALS}/{wider['id']}/review", {"decision": "approve"}).status == 403
        rejected = curl(server, admin, f"{PROPOSALS}/{wider['id']}/review", {"decision": "reject"})
        assert (rejected.status, rejected.json["status"]) == (200, "rejected")


def test_who_proposes_does_not_review_and_a_workflow_that_does_not_allow_it_takes_no_proposals(tmp_path: Path) -> None:
    author = new_key(tmp_path, "--role", "author", "--role", "operator", "--role", "viewer")
    with serving(tmp_path) as server:
        assert curl(server, author, "/api/workflows/sync", {"document": RELEASE}).status == 200
        made = proposed(server, author, BETTER).json
        own = curl(server, author, f"{PROPOSALS}/{made['id']}/review", {"decision": "approve"})
        assert (own.status, "proposed it" in own.json["detail"]) == (403, True)
        closed = {name: value for name, value in RELEASE.items() if name != "constraints"}
        assert curl(server, author, "/api/workflows/sync", {"document": closed}).status == 200
        refused = proposed(server, author, BETTER)
        assert (refused.status, refused.json["code"]) == (409, "proposal_refused")
