"""Claims about what arrives on a socket: what is no request of HTTP/1.1, or could be read in two ways, is refused and ends its connection."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from perdure import App
from perdure.tasks import http_connections
from tests.api.api_setup import WORKFLOWS, api_on_a_port

HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
"""A request that a sender has hidden behind another one: it must not be answered."""

LAST = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
HOST = b"Host: 127.0.0.1\r\n"
CHUNKED = HOST + b"Transfer-Encoding: chunked\r\n"


def get(*headers: bytes, line: bytes = b"GET /healthz HTTP/1.1") -> bytes:
    """A request without a body."""
    return b"\r\n".join([line, *headers, b"", b""])


def post(headers: bytes, body: bytes, version: bytes = b"1.1") -> bytes:
    """A request with a body."""
    return b"POST /api/executions HTTP/" + version + b"\r\nContent-Type: application/json\r\n" + headers + b"\r\n" + body


REFUSED: dict[str, bytes] = {
    "a length and chunks": post(CHUNKED + b"Content-Length: 5\r\n", b"0\r\n\r\n"),
    "chunks and a length": post(HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "two lengths": post(HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n", b"{} "),
    "the same length twice": post(HOST + b"Content-Length: 2\r\nContent-Length: 2\r\n", b"{}"),
    "a list of lengths": post(HOST + b"Content-Length: 2, 2\r\n", b"{}"),
    "a signed length": post(HOST + b"Content-Length: +2\r\n", b"{}"),
    "a negative length": post(HOST + b"Content-Length: -1\r\n", b"{}"),
    "a hexadecimal length": post(HOST + b"Content-Length: 0x2\r\n", b"{}"),
    "an empty length": post(HOST + b"Content-Length: \r\n", b"{}"),
    "a length in other digits": post(HOST + "Content-Length: ²\r\n".encode(), b"{}"),
    "a length beyond 64 bits": post(HOST + b"Content-Length: 99999999999999999999999\r\n", b"{}"),
    "a space before the colon": post(HOST + b"Content-Length : 2\r\n", b"{}"),
    "lines that end with LF": b"GET /healthz HTTP/1.1\nHost: a\n\n",
    "a header that ends with LF": b"GET /healthz HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
    "a head that ends with LF": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\n",
    "a CR in a header": b"GET /healthz HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
    "a folded header": get(b"Host: a\r\nX: y\r\n z"),
    "a folded length": post(HOST + b"Content-Length:\r\n\t5\r\n", b"12345"),
    "folded chunks": post(HOST + b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"),
    "a folded first header": get(b" Host: a"),
    "a chunk beyond 64 bits": post(CHUNKED, b"FFFFFFFFFFFFFFFFF\r\nx"),
    "a chunk without a size": post(CHUNKED, b"zz\r\nx"),
    "a negative chunk": post(CHUNKED, b"-1\r\nx"),
    "a chunk with 0x": post(CHUNKED, b"0x1\r\nx\r\n0\r\n\r\n"),
    "a chunk with a space": post(CHUNKED, b"1 \r\nx\r\n0\r\n\r\n"),
    "a chunk longer than its size": post(CHUNKED, b"1\r\nxy\r\n0\r\n\r\n"),
    "a chunk size that ends with LF": post(CHUNKED, b"1\nx\r\n0\r\n\r\n"),
    "a chunk that ends with LF": post(CHUNKED, b"1\r\nx\n0\r\n\r\n"),
    "an LF in the extension of a chunk": post(CHUNKED, b"1;a\nb\r\nx\r\n0\r\n\r\n"),
    "a length behind the chunks": post(CHUNKED, b"1\r\nx\r\n0\r\nContent-Length: 5\r\n\r\n"),
    "an unknown transfer coding": post(HOST + b"Transfer-Encoding: identity\r\n", b"{}"),
    "compressed chunks": post(HOST + b"Transfer-Encoding: gzip, chunked\r\n", b"1\r\nx\r\n0\r\n\r\n"),
    "chunks twice": post(HOST + b"Transfer-Encoding: chunked, chunked\r\n", b"1\r\nx\r\n0\r\n\r\n"),
    "chunks in two headers": post(CHUNKED + b"Transfer-Encoding: chunked\r\n", b"1\r\nx\r\n0\r\n\r\n"),
    "chunks, and then not": post(CHUNKED + b"Transfer-Encoding: identity\r\n", b"1\r\nx\r\n0\r\n\r\n"),
    "a coding like chunked": post(HOST + b"Transfer-Encoding: xchunked\r\n", b"1\r\nx\r\n0\r\n\r\n"),
    "a control character before chunked": post(HOST + b"Transfer-Encoding: \x0bchunked\r\n", b"1\r\nx\r\n0\r\n\r\n"),
    "chunks in HTTP/1.0": post(CHUNKED, b"2\r\n{}\r\n0\r\n\r\n", b"1.0"),
    "NUL in a header": get(HOST[:-2], b"X: a\0b"),
    "NUL in the name of a header": get(HOST[:-2], b"X\0: a"),
    "NUL in the path": get(HOST[:-2], line=b"GET /\0 HTTP/1.1"),
    "a control character in a header": get(HOST[:-2], b"X: a\x01b"),
    "a byte over 127 in the path": get(HOST[:-2], line=b"GET /\xff HTTP/1.1"),
    "a header without a name": get(HOST[:-2], b": b"),
    "a space in the name of a header": get(HOST[:-2], b"X y: b"),
    "a header without a colon": get(HOST[:-2], b"Xy"),
    "no host": get(),
    "two hosts": get(b"Host: a", b"Host: b"),
    "an empty host": get(b"Host:"),
    "a host with a space": get(b"Host: a b"),
    "a host with a user": get(b"Host: ada@a"),
    "a host with a path": get(b"Host: a/b"),
    "two keys": get(HOST[:-2], b"Authorization: Bearer a", b"Authorization: Bearer b"),
    "two content types": post(HOST + b"Content-Type: text/plain\r\nContent-Length: 2\r\n", b"{}"),
    "a whole address of another protocol": get(HOST[:-2], line=b"GET ftp://a/healthz HTTP/1.1"),
    "a whole address with a user": get(HOST[:-2], line=b"GET http://ada@a/healthz HTTP/1.1"),
    "CONNECT": get(HOST[:-2], line=b"CONNECT a:80 HTTP/1.1"),
    "an asterisk": get(HOST[:-2], line=b"OPTIONS * HTTP/1.1"),
    "a fragment": get(HOST[:-2], line=b"GET /healthz#x HTTP/1.1"),
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "HTTP/2 without asking": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2.0": get(HOST[:-2], line=b"GET /healthz HTTP/2.0"),
    "HTTP/1.2": get(HOST[:-2], line=b"GET /healthz HTTP/1.2"),
    "HTTP/1.11": get(HOST[:-2], line=b"GET /healthz HTTP/1.11"),
    "http in small letters": get(HOST[:-2], line=b"GET /healthz http/1.1"),
    "a method in small letters": get(HOST[:-2], line=b"get /healthz HTTP/1.1"),
    "a method that is none": get(HOST[:-2], line=b"FROB /healthz HTTP/1.1"),
    "tabs in the first line": get(HOST[:-2], line=b"GET\t/healthz\tHTTP/1.1"),
    "a space behind the first line": get(HOST[:-2], line=b"GET /healthz HTTP/1.1 "),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a line that is too long": get(HOST[:-2], line=b"GET /" + b"x" * 70_000 + b" HTTP/1.1"),
    "a header that is too long": get(HOST[:-2], b"X: " + b"x" * 70_000),
    "many headers": get(HOST[:-2], *(b"X%d: y" % number for number in range(10_000))),
}

ANSWERED: dict[str, tuple[bytes, list[int]]] = {
    "a plain request": (get(HOST[:-2]), [200]),
    "two requests at once": (get(HOST[:-2]) + get(HOST[:-2], line=b"GET /nothing HTTP/1.1"), [200, 404]),
    "HTTP/1.0 without a host": (get(line=b"GET /healthz HTTP/1.0"), [200]),
    "a whole address": (get(HOST[:-2], line=b"GET http://127.0.0.1/healthz HTTP/1.1"), [200]),
    "empty lines in front": (b"\r\n\r\n" + get(HOST[:-2]), [200]),
    "a method that no route has": (get(HOST[:-2], line=b"PROPFIND /api/executions HTTP/1.1"), [405]),
    "chunks in capital letters": (post(HOST + b"Transfer-Encoding: CHUNKED\r\n", b"1\r\n{\r\n1;a=b\r\n}\r\n0\r\n\r\n"), [422]),
    "a body that a GET does not need": (get(HOST[:-2], b"Content-Length: 2") + b"{}", [200]),
    "a length with zeros in front": (post(HOST + b"Content-Length: 0000000000002\r\n", b"[]"), [400]),
    "a length before a tab": (post(HOST + b"Content-Length: 2\t\r\n", b"[]"), [400]),
    "an offer of WebSockets": (get(HOST[:-2], b"Connection: Upgrade", b"Upgrade: websocket"), [200]),
    "an offer of HTTP/2 with a body": (post(HOST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 2\r\n", b"[]"), [400]),
    "bytes over 127 in a header": (get(HOST[:-2], b"X: a\xffb"), [200]),
    "a key behind the chunks": (post(HOST + b"Transfer-Encoding: chunked\r\n", b"2\r\n{}\r\n0\r\nAuthorization: Bearer x\r\nContent-Type: a/b\r\n\r\n"), [422]),
    "IPv6": (get(b"Host: [::1]:7788"), [200]),
    "a last request, and another one": (get(HOST[:-2], b"Connection: close") + HIDDEN, [200]),
}


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with App(WORKFLOWS, db=f"sqlite:///{tmp_path}/raw.db") as app, api_on_a_port(app.client._access.on_store("a test")) as url:
        yield url


async def answers(url: str, *sent: bytes, ends: bool = True) -> bytes:
    """What comes back until the connection ends. With `ends`, the sender has nothing more to send."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for part in sent:
            writer.write(part)
            await asyncio.sleep(0)
            if reader.at_eof():  # the answer is there, and more would be refused by the network, which may drop the answer as well
                break
        if ends and not reader.at_eof():
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 10.0)
    finally:
        writer.close()


def statuses(received: bytes) -> list[int]:
    """The statuses of the answers in what was received."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


async def test_what_is_no_request_is_refused_and_ends_its_connection_while_others_are_served(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as other:
        for name, sent in REFUSED.items():
            whole = sent + HIDDEN
            for parts in ([whole], [*(whole[at : at + 7] for at in range(0, 700, 7)), whole[700:]]):
                received = await answers(url, *parts, ends=False)
                assert len(found := statuses(received)) == 1 and (400 <= found[0] < 500 or found[0] == 505), (name, received)
                assert b"application/problem+json" in received and b"connection: close" in received, (name, received)
            assert (await other.get("/healthz")).status_code == 200, name


async def test_what_is_no_request_for_a_webhook_is_refused_as_well(url: str) -> None:
    for name, sent in REFUSED.items():
        hooked = sent.replace(b"/api/executions", b"/webhooks/in").replace(b"/healthz", b"/webhooks/in") + HIDDEN
        received = await answers(url, hooked, ends=False)
        assert len(found := statuses(received)) == 1 and (400 <= found[0] < 500 or found[0] == 505), (name, received)
        assert b"connection: close" in received, (name, received)


async def test_a_webhook_is_answered_whatever_way_its_request_is_written(url: str) -> None:
    for name, (sent, expected) in ANSWERED.items():
        hooked = sent.replace(b"/api/executions", b"/webhooks/in").replace(b"/healthz", b"/webhooks/in", 1)
        assert statuses(await answers(url, hooked)) == [404, *expected[1:]], name


async def test_what_is_a_request_is_answered(url: str) -> None:
    for name, (sent, expected) in ANSWERED.items():
        assert statuses(await answers(url, sent)) == expected, name
        if b"close" not in sent and b"1.0" not in sent:
            received = await answers(url, *(sent[at : at + 1] for at in range(len(sent))), LAST)
            assert statuses(received) == [*expected, 200], (name, received)


async def test_requests_before_one_that_is_none_are_answered_and_those_behind_are_not(url: str) -> None:
    assert statuses(await answers(url, HIDDEN * 3 + REFUSED["two lengths"] + HIDDEN, ends=False)) == [200, 200, 200]
    assert len(statuses(await answers(url, HIDDEN * 1000, ends=False))) == http_connections.PIPELINED_MAX + 1


async def test_a_body_that_turns_out_to_be_none_is_answered_once(url: str) -> None:
    begun = b"POST /nothing HTTP/1.1\r\n" + CHUNKED + b"\r\n1\r\nx\r\n"
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(begun)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
    writer.write(b"zz\r\n" + HIDDEN)
    received = await asyncio.wait_for(reader.read(), 10.0)
    assert statuses(received) == []
    writer.close()


@pytest.mark.parametrize(
    ("begun", "more"), [(b"0\r\nX: ", b"y" * 1000), (b"0\r\n", b"X: y\r\n" * 200), (b"1;", b"a" * 1000)], ids=["a trailer", "trailers", "an extension"]
)
async def test_what_is_around_the_chunks_of_a_body_has_an_end(url: str, begun: bytes, more: bytes) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(b"POST /api/executions HTTP/1.1\r\n" + CHUNKED + b"\r\n1\r\nx\r\n" + begun)
        receiving = asyncio.create_task(reader.read())
        for _ in range(200):
            if receiving.done():
                break
            writer.write(more)
            await asyncio.sleep(0.005)
        assert statuses(await asyncio.wait_for(receiving, 5.0)) == [431]
    finally:
        writer.close()


async def test_connections_whose_peer_is_gone_end(url: str) -> None:
    listening = socket.socket()
    http_connections.detect_dead_peers(listening)
    assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == http_connections.DEAD_PEER_S * 1000
    listening.close()
