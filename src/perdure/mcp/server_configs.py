"""The configuration of MCP servers: which there are, how each is reached, and what it may be given.

It has the usual shape of ``mcp.json``, with a few fields more::

    {"mcpServers": {
      "files":  {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."], "env": {"LEVEL": "info"}},
      "github": {"url": "https://api.githubcopilot.com/mcp/", "headers": {"Authorization": "Bearer @{secrets.GITHUB}"}, "timeout": "60s"}
    }}

Texts of `env` and `headers` may contain secrets, ``@{secrets.NAME}``, which are resolved where the server is begun or asked, and never stored. Some write a
secret into the file itself: errors name a place and what is wrong there, and show no value of a field that may hold one.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from perdure.code.durations import duration_seconds
from perdure.core.errors import BadValue

SERVER_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
TIMEOUT_S = 30.0
ASKED_S = 3_600.0
SAMPLED_TOKENS, SAMPLINGS, SAMPLED_S = 4_000, 10, 300.0
SIGN_IN_S = 300.0
"""How long a person has to sign in to a server, once they were asked."""

FIELDS = frozenset(("command", "args", "env", "cwd", "url", "headers", "type", "timeout", "tools", "disabled", "elicitation", "sampling", "auth"))
OF_PROGRAM, OF_URL = ("args", "env", "cwd"), ("headers",)
"""The fields that only a program takes, and those that only a URL takes."""

TRANSPORTS = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse"}
"""The values of `type` in use, each with the transport that it means."""

AUTH_FIELDS = {"type": "type", "scopes": "scopes", "clientId": "client_id", "clientSecret": "client_secret", "issuer": "issuer"}

SECRET = re.compile(r"@\{secrets\.(\w+)\}")


class Elicitation(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked what a server asks while it performs a call (nobody named: anybody may answer), and how long they have. Unless `is_allowed`, nobody is."""

    is_allowed: bool = True
    assignees: tuple[str, ...] = ()
    timeout_s: float = ASKED_S


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """The model that a server may ask while it performs a call: its name in the models of the engine, or ``vendor:model``.

    An answer has at most `max_tokens`, and in one call the server may ask so many times (`requests`), and for so long in all (`timeout_s`).
    """

    model: str
    max_tokens: int = SAMPLED_TOKENS
    requests: int = SAMPLINGS
    timeout_s: float = SAMPLED_S


class ServerAuth(msgspec.Struct, frozen=True, kw_only=True):
    """How to sign in to a server by OAuth: a person in a browser (`oauth`), or the program itself (`client_credentials`).

    A client that the authorization server knows has an id and a secret, which are sent to the `issuer` alone, if that is named. Without, Perdure registers.
    """

    type: Literal["oauth", "client_credentials"] = "oauth"
    scopes: tuple[str, ...] = ()
    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """One server: a program that is begun with `command` and `args`, or a `url` that is asked over `transport`. A call takes at most `timeout_s` seconds.

    `tools` are the only ones that may be used (empty: all). Without `sampling`, it may ask no model.
    """

    name: str
    transport: Literal["stdio", "http", "sse"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    timeout_s: float = TIMEOUT_S
    tools: tuple[str, ...] = ()
    elicitation: Elicitation = Elicitation()
    sampling: Sampling | None = None
    auth: ServerAuth | None = None

    @property
    def secrets(self) -> list[str]:
        """The names of the secrets that it is given."""
        own = () if self.auth is None else (self.auth.client_id, self.auth.client_secret)
        return sorted({name for text in (*self.env.values(), *self.headers.values(), *own) for name in SECRET.findall(text)})


def read_servers(source: str | Path | Mapping[str, Any]) -> list[McpServer]:
    """Reads a configuration: a file of JSON, or its content. Servers that are `disabled` are left out.

    Raises:
        BadValue: it can't be read, or a field is not valid; the message says which.
    """
    found = source if isinstance(source, Mapping) else _content(Path(source))
    servers = found.get("mcpServers", found.get("servers")) if isinstance(found, Mapping) else None
    if not isinstance(servers, Mapping):
        raise BadValue("mcpServers", servers, 'a mapping of servers by name: {"mcpServers": {"files": {"command": "npx", "args": [...]}}}')
    return [_server(str(name), given) for name, given in servers.items() if not _is_disabled(str(name), given)]


def with_secrets(texts: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """Returns texts with the secrets that they name."""
    return {name: SECRET.sub(lambda one: secrets[one[1]], text) for name, text in texts.items()}


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadValue("the file of MCP servers", str(path), f"a file that can be read: {error.strerror or error}") from None
    except ValueError as error:
        raise BadValue("the file of MCP servers", str(path), f"JSON: {error}") from None


def _is_disabled(name: str, given: Any) -> bool:
    disabled = given.get("disabled", False) if isinstance(given, Mapping) else False
    if not isinstance(disabled, bool):
        raise BadValue(f"mcpServers.{name}.disabled", disabled, "true or false")
    return disabled


def _server(name: str, given: Any) -> McpServer:
    where = f"mcpServers.{name}"
    if not re.fullmatch(SERVER_NAME, name):
        raise BadValue("the name of an MCP server", name, "of the form A-Z or a-z, then A-Z, a-z, 0-9, _ and -, 64 at most")
    if not isinstance(given, Mapping):
        raise BadValue(where, given, 'a mapping, {"command": ..., "args": [...]} or {"url": ...}')
    for field in given:
        if field not in FIELDS:
            raise BadValue(where, field, f"one of {', '.join(sorted(FIELDS))}")
    is_program = "command" in given
    if is_program is ("url" in given):
        raise BadValue(where, sorted(given), "one with either a command or a url")
    meaningless = next((field for field in (OF_URL if is_program else OF_PROGRAM) if given.get(field)), None)
    if meaningless is not None:
        kind = "command" if is_program else "url"
        raise BadValue(f"{where}.{meaningless}", "", "", f"{where}.{meaningless} has no meaning for a server with a {kind}. Leave it out")
    usual = "stdio" if is_program else "sse" if str(given["url"]).rstrip("/").endswith("/sse") else "http"
    transport = TRANSPORTS.get(_text(where, "type", given.get("type", usual)), "")
    if transport not in (("stdio",) if is_program else ("http", "sse")):
        raise BadValue(f"{where}.type", given.get("type"), "stdio with a command, http or sse with a url")
    url = _text(where, "url", given.get("url", ""))
    if not is_program and not url.startswith(("http://", "https://")):
        raise BadValue(f"{where}.url", url, "a URL that begins with https:// or http://")
    return McpServer(
        name=name,
        transport=transport,  # type: ignore[arg-type]  # it was looked up
        command=_text(where, "command", given.get("command", "")),
        args=tuple(_list(where, "args", given.get("args", []))),
        env=_texts(where, "env", given.get("env", {})),
        cwd=None if given.get("cwd") is None else _text(where, "cwd", given["cwd"]),
        url=url,
        headers=_texts(where, "headers", given.get("headers", {})),
        timeout_s=_timeout_s(where, given.get("timeout", TIMEOUT_S)),
        tools=tuple(_list(where, "tools", given.get("tools", []))),
        elicitation=_elicitation(f"{where}.elicitation", given.get("elicitation", True)),
        sampling=_sampling(f"{where}.sampling", given.get("sampling", False)),
        auth=None if given.get("auth") is None else _auth(f"{where}.auth", given["auth"], transport),
    )


def _auth(where: str, given: Any, transport: str) -> ServerAuth:
    if transport != "http":
        raise BadValue(where, "", "", f"{where} has no meaning here: only a server over streamable HTTP is signed in to. Leave it out")
    about = {"type": given} if isinstance(given, str) else given
    if not isinstance(about, Mapping) or about.get("type") not in ("oauth", "client_credentials"):
        raise _hidden(where, given, 'oauth, or a mapping: {"type": "oauth" or "client_credentials", "clientId": ..., "clientSecret": ..., "scopes": [...]}')
    for field in about:
        if field not in AUTH_FIELDS:
            raise BadValue(where, field, f"one of {', '.join(AUTH_FIELDS)}")
    found = {own: _text(where, field, about[field]) for field, own in AUTH_FIELDS.items() if field in about and field != "scopes"}
    auth = ServerAuth(scopes=tuple(_list(where, "scopes", about.get("scopes", []))), **found)  # type: ignore[arg-type]  # the type was looked at
    if auth.type == "client_credentials" and not (auth.client_id and auth.client_secret):
        raise BadValue(where, sorted(about), "one with clientId and clientSecret")
    return auth


def _elicitation(where: str, given: Any) -> Elicitation:
    if isinstance(given, bool):
        return Elicitation(is_allowed=given)
    if not isinstance(given, Mapping):
        raise BadValue(where, given, 'false, or a mapping: {"assignees": ["ada"], "timeout": "1h"}')
    for field in given:
        if field not in ("assignees", "timeout"):
            raise BadValue(where, field, "assignees or timeout")
    return Elicitation(assignees=tuple(_list(where, "assignees", given.get("assignees", []))), timeout_s=_timeout_s(where, given.get("timeout", ASKED_S)))


def _timeout_s(where: str, value: Any) -> float:
    found_s = duration_seconds(value, f"{where}.timeout")
    if not found_s:
        raise BadValue(f"{where}.timeout", value, "more than 0, such as 30s")
    return found_s


def _sampling(where: str, given: Any) -> Sampling | None:
    if given is False:
        return None
    about = {"model": given} if isinstance(given, str) else given
    if not isinstance(about, Mapping) or not isinstance(about.get("model"), str) or not about["model"]:
        raise BadValue(where, given, 'false, the name of a model, or a mapping: {"model": "fast", "maxTokens": 1000, "requests": 5, "timeout": "2m"}')
    for field in about:
        if field not in ("model", "maxTokens", "requests", "timeout"):
            raise BadValue(where, field, "model, maxTokens, requests or timeout")
    return Sampling(
        model=about["model"],
        max_tokens=_count(where, "maxTokens", about.get("maxTokens", SAMPLED_TOKENS)),
        requests=_count(where, "requests", about.get("requests", SAMPLINGS)),
        timeout_s=_timeout_s(where, about.get("timeout", SAMPLED_S)),
    )


def _count(where: str, field: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadValue(f"{where}.{field}", value, "a whole number from 1")
    return value


def _text(where: str, field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _hidden(f"{where}.{field}", value, "text")
    return value


def _list(where: str, field: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _hidden(f"{where}.{field}", value, "a list of texts")
    return value


def _texts(where: str, field: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _hidden(f"{where}.{field}", value, "a mapping of texts")
    for name, one in value.items():
        if not isinstance(one, str):
            raise _hidden(f"{where}.{field}.{name}", one, "text")
    return dict(value)


def _hidden(place: str, value: Any, expected: str) -> BadValue:
    """The error about a value that may hold a secret, so that it is not shown."""
    kind = "null" if value is None else f"of type {type(value).__name__}"
    return BadValue(place, kind, expected, f"{place} is {kind}; it has to be {expected}")
