"""Seed 001 by curl alone: its release workflow from sync to approval to result, against `perdure dev` that is killed on the way."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perdure.api.loopback_access import DevServer, read_dev_server

RELEASE = {
    "id": "release",
    "slug": "release",
    "name": "Release",
    "version": "1.0.0",
    "variables": {"version": "0"},
    "steps": [
        {"id": "build", "type": "bash", "command": "echo build $V >> $MARKS; echo built $V", "env": {"V": "{{version}}"}, "outputVariable": "built"},
        {"id": "gate", "type": "approval", "prompt": "Release {{version}}?"},
        {"id": "ship", "type": "bash", "command": "echo ship $V >> $MARKS; echo shipped $V", "env": {"V": "{{version}}"}, "outputVariable": "shipped"},
    ],
}
READY_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")]


class Dev:
    """A `perdure dev` of the release workflow, and curl."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.marks, self.retries = directory, directory / "marks", 0
        document = json.dumps(RELEASE).replace("$MARKS", str(self.marks))
        self.document = json.loads(document)
        (directory / "release.json").write_text(document)
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Starts it, and waits until it serves."""
        command = [sys.executable, "-m", "perdure.cli", "dev", "release.json", "--allow", "bash", "--no-reload", "--port", "0"]
        environment = {**os.environ, "PERDURE_SIGNING_SECRET": "a secret that outlives the process"}
        before = self.server
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.directory, env=environment, stdout=log, stderr=log, start_new_session=True)
        until_s = time.monotonic() + READY_S
        while self.server in (None, before) or self.curl("/readyz").get("status") != "ok":
            assert time.monotonic() < until_s and self._process.poll() is None, (self.directory / "log").read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """Ends its processes without a word: the one that serves has a session of its own, and would stop in order if its parent alone were gone."""
        if self._process is not None:
            listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.splitlines()
            serving = [int(pid) for pid, parent in map(str.split, listed) if int(parent) == self._process.pid]
            for pid in (self._process.pid, *serving):
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    @property
    def server(self) -> DevServer | None:
        """Where it serves."""
        return read_dev_server(self.directory / ".perdure/dev.json")

    def curl(self, path: str, body: Any = None) -> Any:
        """What curl prints of an answer, as JSON."""
        place = self.server
        assert place is not None
        given = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
        command = ["curl", "-s", "-m", "30", "-H", f"Authorization: Bearer {place.token}", *given, place.url + path]
        said = subprocess.run(command, capture_output=True, check=False, timeout=60).stdout
        return json.loads(said) if said else {}

    def until(self, path: str, **wanted: Any) -> Any:
        """Reads again until the answer has these fields. An execution that failed because a kill interrupted its step is retried."""
        until_s = time.monotonic() + READY_S
        while not all((found := self.curl(path)).get(name) == value for name, value in wanted.items()):
            assert time.monotonic() < until_s, (found, (self.directory / "log").read_text())
            if found.get("status") == "failed":  # the kill hit a command of bash, which is not run again on a guess
                assert found["error"]["code"] == "interrupted", found["error"]
                retried = self.curl(f"/api/executions/{found['id']}/retry", {"wait": True})
                assert "value" in retried, (retried, found)
                self.retries += 1
            time.sleep(0.05)
        return found


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    found = Dev(tmp_path)
    try:
        found.begin()
        yield found
    finally:
        found.kill()


def test_the_release_workflow_goes_from_sync_to_approval_to_result_by_curl_whenever_it_is_killed(dev: Dev) -> None:
    synced = dev.curl("/api/workflows/sync", {"document": dev.document})
    assert synced["definition"]["slug"] == "release" and dev.curl("/api/workflows/release")["version"] == "1.0.0", synced
    asked = {"workflowId": "release", "variables": {"version": "7"}, "clientRequestId": "seven"}
    begun = dev.curl("/api/triggers/manual/run", asked)
    id = begun["executionId"]
    assert id == "manual:release:local:seven"
    dev.kill()
    dev.begin()
    assert dev.curl("/api/triggers/manual/run", asked) == {**begun, "created": False}
    waiting = dev.until(f"/api/executions/{id}", seedStatus="waiting_approval")
    dev.kill()
    dev.begin()
    assert dev.curl(f"/api/executions/{id}")["resumeToken"] == waiting["resumeToken"]
    assert dev.curl(f"/api/executions/{id}/approve", {"approve": True, "resumeToken": "wrong"})["code"] == "decision_refused"
    assert dev.curl(f"/api/executions/{id}/approve", {"approve": True, "resumeToken": waiting["resumeToken"]}) == {}
    dev.kill()
    dev.begin()
    found = dev.until(f"/api/executions/{id}", status="completed")
    assert "built 7" in found["outputs"]["built"]["stdout"] and "shipped 7" in found["outputs"]["shipped"]["stdout"]
    assert (found["workflowName"], found["workflowVersion"], found["variables"]) == ("Release", "1.0.0", {"version": "7"})
    steps = dev.curl(f"/api/executions/{id}/steps")["items"]
    assert [(one["stepId"], one["seedStatus"]) for one in steps] == [("build", "completed"), ("gate", "completed"), ("ship", "completed")]
    done = dev.marks.read_text().splitlines()
    assert set(done) == {"build 7", "ship 7"} and len(done) <= 2 + dev.retries, (done, dev.retries)
    listed = dev.curl("/api/executions?workflowId=release&seedStatus=completed")["items"]
    assert [one["id"] for one in listed] == [id]
