"""Claims about servers that ask for OAuth: a person signs in once, what they signed in to is kept for this user alone, and no engine opens a browser."""

import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from perdure import Definition
from perdure.cli.command_list import root
from perdure.mcp import ServerUnavailable, mcp_tools
from perdure.mcp.server_configs import read_servers
from perdure.mcp.tool_lists import sign_in

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def url() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, str(Path(__file__).with_name("oauth_server.py")), str(port)]) as server:
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
        server.kill()


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A person whose browser follows where it is led; the addresses that were opened."""
    opened: list[str] = []

    def follow(address: str) -> None:
        """Goes where the page leads, which is the program; it listens a moment after it has opened the page."""
        for _ in range(100):
            try:
                urllib.request.urlopen(address, timeout=30).close()
                return
            except OSError:
                time.sleep(0.1)

    def open_page(address: str, *_: Any) -> bool:
        opened.append(address)
        threading.Thread(target=follow, args=(address,)).start()
        return True

    monkeypatch.setattr(webbrowser, "open", open_page)
    return opened


def servers(url: str) -> dict[str, Any]:
    return {"mcpServers": {"private": {"url": url, "auth": "oauth"}}}


def test_a_person_signs_in_once_and_engines_use_it(url: str, browser: list[str]) -> None:
    (server,) = read_servers(servers(url))
    assert [one.name for one in sign_in(server).tools] == ["secret_number"] and len(browser) == 1
    flow = Definition.of({"perdure": 1, "name": "flow", "steps": [{"id": "n", "tool": "private.secret_number"}], "output": "@n"}, tools=mcp_tools(servers(url)))
    assert flow.run() == 42
    assert len(browser) == 1
    kept = Path(".perdure/mcp/private.oauth")
    assert kept.stat().st_mode & 0o777 == 0o700 and any(one.is_file() for one in kept.rglob("*"))
    tokens = re.findall(r'"access_token": ?"([^"]+)"', "".join(one.read_text() for one in kept.rglob("*") if one.is_file()).replace("\\", ""))
    others = b"".join(one.read_bytes() for one in Path().rglob("*") if one.is_file() and kept not in one.parents)
    assert tokens and not any(token.encode() in others for token in tokens)


def test_where_nobody_has_signed_in_no_browser_is_opened_and_the_remedy_is_said(url: str, browser: list[str]) -> None:
    with pytest.raises(ServerUnavailable, match=r"Sign in: perdure tools mcp\.json --sign-in private"):
        mcp_tools(servers(url))
    assert browser == []


def command(*arguments: str) -> Result:
    return CliRunner().invoke(root, arguments)


def test_the_command_signs_in(url: str, browser: list[str]) -> None:
    Path("mcp.json").write_text(json.dumps(servers(url)))
    signed_in = command("tools", "mcp.json", "--sign-in", "private")
    assert signed_in.exit_code == 0 and "private.secret_number" in signed_in.output and len(browser) == 1
    other = command("tools", "mcp.json", "--sign-in", "github")
    assert other.exit_code != 0 and "private" in other.output + str(other.exception)
