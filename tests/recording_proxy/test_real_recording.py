"""Claims about a recording of real servers: twenty calls for files, a memory and a repository, killed on the way, saved, and done again with other input."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import Definition
from perdure.mcp import mcp_tools
from tests.mcp.test_real_servers import SERVERS, of_npm
from tests.recording_proxy.real_recorder import CALLS

pytestmark = pytest.mark.real

PROGRAM = Path(__file__).with_name("real_recorder.py")


def servers(directory: Path, name: str) -> dict[str, Any]:
    """The servers for one run, with a memory and a repository of its own."""
    repository = directory / name
    repository.mkdir()
    git = ["git", "-C", str(repository)]
    for words in (["init", "-q"], ["config", "user.name", "Ada"], ["config", "user.email", "ada@example.com"]):
        subprocess.run([*git, *words], check=True)
    return {
        "files": of_npm("mcp-server-filesystem", str(directory)),
        "memory": of_npm("mcp-server-memory", MEMORY_FILE_PATH=str(directory / f"{name}.memory.json")),
        "git": {"command": str(SERVERS / "bin/mcp-server-git"), "args": ["--repository", str(repository)]},
    }


def given(directory: Path, name: str, text: str) -> dict[str, str]:
    notes = directory / name / "notes"
    files = {"dir": notes, "notes": notes / "a.txt", "copy": notes / "b.txt", "moved": notes / "c.txt", "repo": directory / name}
    return {**{what: str(path) for what, path in files.items()}, "text": text, "more": f"more {text}", "entity": f"note of {name}"}


def check(directory: Path, name: str, text: str) -> None:
    """Checks what the twenty calls have done."""
    assert (directory / name / "notes" / "a.txt").read_text() == f"more {text}" and (directory / name / "notes" / "c.txt").read_text() == text
    log = subprocess.run(["git", "-C", str(directory / name), "log", "--format=%s"], capture_output=True, text=True, check=True)
    assert log.stdout.splitlines() == [f"more {text}"], "one commit was made"
    memory = [json.loads(line) for line in (directory / f"{name}.memory.json").read_text().splitlines()]
    known = {one["name"]: one["observations"] for one in memory if one["type"] == "entity"}
    assert known == {f"note of {name}": [f"more {text}", text], "repository": ["@literal"]}
    assert sum(one["type"] == "relation" for one in memory) == 1


def test_twenty_calls_are_recorded_across_a_kill_saved_and_done_again_with_other_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (SERVERS / ".servers").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("the MCP servers are not installed: make .venv-mcp/.servers")
        pytest.skip("the MCP servers are not installed: make .venv-mcp/.servers")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers(tmp_path, "first")}))
    command = [sys.executable, str(PROGRAM), "mcp.json", json.dumps(given(tmp_path, "first", "hello"))]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for dies_in in (5, 16):
        killed = subprocess.run([*command, str(dies_in)], capture_output=True, text=True, timeout=120, check=False, env=environment)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = subprocess.run([*command, "0"], capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (ended.returncode, ended.stdout) == (0, "1.0.0"), ended.stderr
    check(tmp_path, "first", "hello")

    document = json.loads((tmp_path / "definition.json").read_bytes())
    assert len(document["steps"]) == len(CALLS) == 20 and str(tmp_path) not in json.dumps(document)
    flow = Definition.of(document, tools=mcp_tools({"mcpServers": servers(tmp_path, "second")}))
    _ = flow.run(**given(tmp_path, "second", "good morning"))
    check(tmp_path, "second", "good morning")
