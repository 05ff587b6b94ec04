"""Claims about the configuration of MCP servers: its usual shape, and what is wrong in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import BadValue
from perdure.mcp.server_configs import Elicitation, McpServer, ServerAuth, read_servers, with_secrets


def test_the_usual_shape_is_read(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "files": {"command": "npx", "args": ["-y", "server", "."], "env": {"A": "1"}, "cwd": "/srv"},
        "github": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer @{secrets.TOKEN}"}, "timeout": "1m", "tools": ["issue"]},
        "old": {"url": "https://example.com/sse"},
        "off": {"command": "x", "disabled": True},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": given}))
    files, github, old = read_servers(tmp_path / "mcp.json")
    assert files == McpServer(name="files", transport="stdio", command="npx", args=("-y", "server", "."), env={"A": "1"}, cwd="/srv")
    assert (github.transport, github.timeout_s, github.tools, github.secrets) == ("http", 60.0, ("issue",), ["TOKEN"])
    assert with_secrets(github.headers, {"TOKEN": "t"}) == {"Authorization": "Bearer t"}
    assert old.transport == "sse" and read_servers({"servers": {}}) == []


def test_how_to_sign_in_is_read_with_its_secrets() -> None:
    given = {"type": "client_credentials", "clientId": "perdure", "clientSecret": "@{secrets.GITHUB}", "scopes": ["repo"], "issuer": "https://id.example.com"}
    (found,) = read_servers({"mcpServers": {"a": {"url": "https://x/mcp", "auth": given}}})
    assert found.auth == ServerAuth(
        type="client_credentials", client_id="perdure", client_secret="@{secrets.GITHUB}", scopes=("repo",), issuer="https://id.example.com"
    )
    assert found.secrets == ["GITHUB"]
    assert read_servers({"mcpServers": {"a": {"url": "https://x/mcp", "auth": "oauth"}}})[0].auth == ServerAuth()


def test_who_is_asked_is_named_or_nobody_is() -> None:
    def asked(given: Any) -> Elicitation:
        return read_servers({"mcpServers": {"a": {"command": "x", "elicitation": given}}})[0].elicitation

    assert asked({"assignees": ["ada"], "timeout": "2h"}) == Elicitation(assignees=("ada",), timeout_s=7200)
    assert asked(True) == Elicitation() and not asked(False).is_allowed


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "mcpServers"),
        ({"mcpServers": []}, "a mapping of servers by name"),
        ({"mcpServers": {"a.b": {"command": "x"}}}, "the name of an MCP server"),
        ({"mcpServers": {"a": "x"}}, r"mcpServers\.a"),
        ({"mcpServers": {"a": {}}}, "either a command or a url"),
        ({"mcpServers": {"a": {"command": "x", "url": "https://y"}}}, "either a command or a url"),
        ({"mcpServers": {"a": {"command": "x", "comand": "x"}}}, "one of args, auth, command"),
        ({"mcpServers": {"a": {"command": 1}}}, r"a\.command"),
        ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, r"a\.args.*a list of texts"),
        ({"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}}, r"a\.env\.A is of type int; it has to be text"),
        ({"mcpServers": {"a": {"command": "x", "type": "http"}}}, r"a\.type.*stdio with a command"),
        ({"mcpServers": {"a": {"url": "ftp://x"}}}, r"a\.url.*https"),
        ({"mcpServers": {"a": {"command": "x", "type": ["stdio"]}}}, r"mcpServers\.a\.type.*text"),
        ({"mcpServers": {"a": {"command": "x", "disabled": "true"}}}, r"mcpServers\.a\.disabled: 'true' is not true or false"),
        ({"mcpServers": {"a": {"command": "x", "disabled": 1}}}, r"mcpServers\.a\.disabled: 1 is not true or false"),
        ({"mcpServers": {"a": {"url": "https://x", "env": {"A": "1"}}}}, r"mcpServers\.a\.env has no meaning for a server with a url"),
        ({"mcpServers": {"a": {"url": "https://x", "args": ["y"]}}}, r"mcpServers\.a\.args has no meaning for a server with a url"),
        ({"mcpServers": {"a": {"url": "https://x", "cwd": "/srv"}}}, r"mcpServers\.a\.cwd has no meaning for a server with a url"),
        ({"mcpServers": {"a": {"command": "x", "headers": {"A": "1"}}}}, r"mcpServers\.a\.headers has no meaning for a server with a command"),
        ({"mcpServers": {"a": {"command": "x", "timeout": 0}}}, r"mcpServers\.a\.timeout: 0 is not more than 0"),
        ({"mcpServers": {"a": {"command": "x", "timeout": "0s"}}}, r"mcpServers\.a\.timeout"),
        ({"mcpServers": {"a": {"command": "x", "elicitation": {"timeout": 0}}}}, r"mcpServers\.a\.elicitation\.timeout"),
        ({"mcpServers": {"a": {"command": "x", "timeout": "soon"}}}, r"mcpServers\.a\.timeout.*soon"),
        ({"mcpServers": {"a": {"command": "x", "auth": "oauth"}}}, r"a\.auth.*streamable HTTP"),
        ({"mcpServers": {"a": {"url": "https://x/mcp", "auth": "basic"}}}, r"a\.auth.*client_credentials"),
        ({"mcpServers": {"a": {"url": "https://x/mcp", "auth": {"type": "client_credentials"}}}}, "clientId and clientSecret"),
        ({"mcpServers": {"a": {"url": "https://x/mcp", "auth": {"type": "oauth", "client_id": "x"}}}}, "one of type, scopes, clientId"),
        ({"mcpServers": {"a": {"command": "x", "elicitation": "ada"}}}, r"a\.elicitation.*assignees"),
        ({"mcpServers": {"a": {"command": "x", "elicitation": {"assignee": "ada"}}}}, "assignees or timeout"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(given: Any, why: str) -> None:
    with pytest.raises(BadValue, match=why):
        read_servers(given)


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=r"nowhere\.json"):
        read_servers(tmp_path / "nowhere.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(BadValue, match=r"bad\.json.*JSON"):
        read_servers(tmp_path / "bad.json")


@pytest.mark.parametrize(
    "given",
    [
        {"command": "x", "env": {"TOKEN": "s3cret", "LEVEL": 3}},
        {"command": "x", "env": ["s3cret"]},
        {"command": "x", "args": ["--token", "s3cret", 5]},
        {"command": "x", "auth": {"type": "oauth", "clientSecret": "s3cret"}},
        {"url": ["https://s3cret@x/mcp"]},
        {"url": "https://x/mcp", "headers": "s3cret"},
        {"url": "https://x/mcp", "command": "x", "headers": {"Authorization": "s3cret"}},
        {"url": "https://x/mcp", "auth": {"type": "none", "clientSecret": "s3cret"}},
        {"url": "https://x/mcp", "auth": {"type": "client_credentials", "clientSecret": "s3cret"}},
    ],
)
def test_errors_show_no_value_that_may_be_a_secret(given: Any) -> None:
    with pytest.raises(BadValue) as refused:
        read_servers({"mcpServers": {"a": given}})
    assert "s3cret" not in str(refused.value) and "s3cret" not in repr(refused.value.__dict__)
