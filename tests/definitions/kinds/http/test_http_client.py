"""Claims about all that makes clients of HTTP: a variable of the environment that is not usable is named, and this machine is reached without a proxy."""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

import perdure
from perdure import App
from perdure.api.service_api import ServiceApi, ServiceSettings
from perdure.async_client import AsyncClient
from perdure.cli import webhook_commands
from perdure.core.errors import BadValue, StoreError
from perdure.definitions.kinds.http.http_client import http_client
from perdure.definitions.kinds.models import model_client
from perdure.mcp.server_configs import McpServer
from perdure.mcp.server_session import ServerSession, ServerUnavailable
from perdure.mcp_server.operation_requests import RequestRefused, RequestsToServer
from perdure.operations import on_access
from perdure.service.notifications import notification_channels
from perdure.service.oidc import GroupGrant, OidcSettings
from perdure.service.triggers.trigger_records import Verification
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer
from tests.definitions.kinds.http.request_sender import calling

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("PERDURE_SECRET_HOOK", "whsec_c2VjcmV0IHNlY3JldCBzZWNyZXQ=")
    monkeypatch.chdir(tmp_path)


async def of_a_client(url: str) -> None:
    async with AsyncClient(url, token="prd_key") as client:
        await client.list()


async def of_the_tools_of_a_server(url: str) -> None:
    async with aclosing(RequestsToServer(url, "prd_key")) as requests:
        await requests(on_access.whoami, {})


async def of_the_sign_in(url: str) -> None:
    oidc = OidcSettings(issuer=url, audiences=("a",), client_id="a", grants=(GroupGrant("ops", ("viewer",)),))
    async with App(db="memory://", engine=False) as app:
        service = ServiceApi(app.client.access, ServiceSettings(oidc=oidc))
        assert service._client is not None
        await service._client.get(url)
        await service._close()


async def of_a_delivery(url: str) -> None:
    given: dict[str, Any] = {"content_type": "application/json", "id": None, "event": "", "headers": ()}
    await asyncio.to_thread(webhook_commands._sent, webhook_commands._Target(url, "POST", Verification(scheme="none")), "", b"{}", given)


async def of_a_notification(url: str) -> None:
    async with App(db="memory://", engine=False) as app:
        one = notification_channels.OutgoingNotification("1", "title", "text", {})
        await notification_channels.send_webhook(app.client.access.store, "default", url, "HOOK", one)


async def of_models(url: str) -> None:
    async with await asyncio.to_thread(model_client._connected) as client:
        await client.get(url)


async def of_a_tool_over_http(url: str) -> None:
    await tools_of(McpServer(name="tools", transport="http", url=url))


async def of_a_tool_over_sse(url: str) -> None:
    await tools_of(McpServer(name="tools", transport="sse", url=url))


async def tools_of(server: McpServer) -> None:
    session = ServerSession(server)
    try:
        await session.tools({})
    finally:
        await session.aclose()


async def of_a_step(url: str) -> None:
    async with calling("*") as caller:
        await caller(url)


Ask = Callable[[str], Awaitable[None]]
CLIENTS: list[Ask] = [
    of_a_client,
    of_the_tools_of_a_server,
    of_the_sign_in,
    of_a_delivery,
    of_a_notification,
    of_models,
    of_a_tool_over_http,
    of_a_tool_over_sse,
]
PROXIES = [
    ("HTTPS_PROXY", "nonsense://me:hush@x"),
    ("HTTP_PROXY", "http://[hush"),
    ("all_proxy", "http://me:hush"),
    ("HTTP_PROXY", "http://"),
    ("HTTP_PROXY", "hush:0"),
    ("ALL_PROXY", "://"),
    ("HTTPS_PROXY", "http://me:\udc80@x"),
]
FILES = [("SSL_CERT_FILE", "/nowhere"), ("SSL_CERT_FILE", "/"), ("SSL_CERT_FILE", __file__)]


@pytest.mark.parametrize("ask", [*CLIENTS, of_a_step])
async def test_a_variable_that_is_not_usable_is_named_with_what_to_do(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FILES if ask is of_a_step else [*PROXIES, *FILES]:
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            with pytest.raises((BadValue, ServerUnavailable), match=rf"{name}(=\S+)? can't be used: .*, or unset it") as refused:
                await ask("https://perdure.invalid")
            assert "hush" not in str(refused.value)


@pytest.mark.parametrize("ask", CLIENTS)
async def test_this_machine_is_reached_without_the_proxy_of_the_environment(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    async with MisbehavingServer() as server, MisbehavingServer() as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url(""))
        for url in (server.url(""), server.url("").replace("127.0.0.1", "localhost")):
            before = len(server.seen)
            with suppress(StoreError, RequestRefused, ServerUnavailable, notification_channels.NotificationRefused):  # it answers 404
                await ask(url)
            assert len(server.seen) > before and not proxy.seen


async def test_a_client_of_several_servers_uses_the_proxy_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MisbehavingServer() as server, MisbehavingServer() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url(""))
        async with http_client() as client:
            for host in ("127.0.0.1", "127.9.9.9", "localhost", "perdure.invalid"):
                with suppress(httpx2.ConnectError):  # not every machine has all of 127.0.0.0/8
                    await client.get(server.url("/a").replace("127.0.0.1", host))
        assert [one.headers["host"].partition(":")[0] for one in proxy.seen] == ["perdure.invalid"]


@pytest.mark.parametrize("value", ["http://[bad", "[bad", "10.0.0.0/99", "a b,é,::1/300,,", "://x", "x://", "\udc80", "http://h:99999", "*."])
async def test_an_odd_entry_of_no_proxy_is_ignored(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", value)
    async with http_client():
        pass


async def test_a_proxy_that_needs_a_library_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:hush@127.0.0.1:1")
    with pytest.raises(BadValue, match=r"ALL_PROXY can't be used: the scheme socks5 needs socksio, .*httpx2\[socks\]"):
        http_client("https://perdure.invalid")
    await http_client("http://127.0.0.1:1").aclose()


async def test_a_log_of_tls_keys_that_can_not_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authorities = ssl.get_default_verify_paths().cafile
    if authorities is None:
        pytest.skip("this machine has no file of authorities")
    monkeypatch.setenv("SSL_CERT_FILE", authorities)
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "none" / "keys"))
    with pytest.raises(BadValue, match=r"SSLKEYLOGFILE=\S+ can't be used: No such file or directory"):
        http_client()


def made_elsewhere() -> Iterator[str]:
    package = Path(perdure.__file__).parent
    for file in package.rglob("*.py"):
        place = file.relative_to(package).as_posix()
        if place == "definitions/kinds/http/http_client.py" or place.startswith("cli/templates/"):
            continue
        if re.search(r"\bhttpx2\.((Async)?(Client|HTTPTransport)|request|stream|get|post|create_ssl_context)\(|import create_ssl_context", file.read_text()):
            yield place


def test_clients_are_made_in_one_place() -> None:
    assert list(made_elsewhere()) == []
