"""Claims about sending, against a real server that misbehaves: every answer is data or an error that says whether to try again, and in time."""

import asyncio
import gzip
import time
import tracemalloc
import zlib
from email.utils import formatdate
from typing import Any

import pytest

from perdure.core.errors import Fatal, RetryAfter
from perdure.definitions.kinds.http.http_errors import InDoubt, NoResponse, ResponseRefused, StatusDelayed, StatusRefused, StatusTransient
from perdure.definitions.kinds.http.http_exchange import idempotency_key_text, retry_after_s
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer, Wire, json_reply, never, redirect, reply
from tests.definitions.kinds.http.request_sender import INFO, RequestSender

TEXT = {"Content-Type": "text/plain"}
UNSAFE: dict[str, Any] = {"method": "POST", "idempotency_key": False}
AS_JSON: dict[str, Any] = {"as": "json"}


async def test_an_answer_is_status_headers_body_and_where_it_came_from(server: MisbehavingServer, caller: RequestSender) -> None:
    server.on("/a", json_reply('{"ok": true}', 201, Set_Cookie="a=1", X_Trace="5"))
    found = await caller(server.url("/a?x=1"), query={"y": [1, 2]}, headers={"X-Own": ["a", "b"]})
    assert found == {
        "status": 201,
        "headers": {"content-type": "application/json", "set-cookie": ["a=1"], "x-trace": "5", "content-length": "12"},
        "body": {"ok": True},
        "url": server.url("/a?x=1&y=1&y=2"),
        "redirects": 0,
    }
    (seen,) = server.seen
    assert (seen.method, seen.target, seen.body) == ("GET", "/a?x=1&y=1&y=2", b"") and seen.headers["host"] == f"127.0.0.1:{server.port}"
    assert "idempotency-key" not in seen.headers and seen.headers["user-agent"].startswith("perdure")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_what_changes_something_is_sent_under_the_steps_key(server: MisbehavingServer, caller: RequestSender, method: str) -> None:
    server.on("/a", reply("done", headers=TEXT))
    await caller(server.url("/a"), method=method)
    await caller(server.url("/a"), method=method, headers={"idempotency-KEY": "mine"})
    await caller(server.url("/a"), method=method, idempotency_key=False)
    assert [seen.headers.get("idempotency-key") for seen in server.seen] == [INFO.key, "mine", None]
    assert all(seen.method == method for seen in server.seen)


def test_a_key_that_no_header_can_have_is_sent_as_its_hash() -> None:
    assert idempotency_key_text("default/pay/1:charge") == "default/pay/1:charge"
    assert len({idempotency_key_text(one) for one in ("ä", "x" * 256, "a\nb")}) == 3 and all(
        len(idempotency_key_text(one)) == 64 for one in ("ä", "x" * 256, "a\nb")
    )


async def test_no_cookie_is_kept_between_steps(server: MisbehavingServer, caller: RequestSender) -> None:
    server.on("/a", reply("x", headers={"Set-Cookie": "session=1; Path=/"}))
    server.on("/b", redirect("/a"))
    await caller(server.url("/a"))
    await caller(server.url("/b"))
    assert [seen.headers.get("cookie") for seen in server.seen] == [None, None, None]


async def test_head_and_empty_answers_have_no_body(server: MisbehavingServer, caller: RequestSender) -> None:
    server.on("/a", reply(b"", headers={"Content-Length": "5000000000", "Content-Type": "application/json"}))
    server.on("/b", b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (await caller(server.url("/a"), method="HEAD", **AS_JSON))["body"] is None
    assert (await caller(server.url("/b"), **AS_JSON))["body"] is None


# statuses


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 501, 505, 599])
async def test_an_error_for_good_says_what_was_answered_and_no_secret(server: MisbehavingServer, caller: RequestSender, status: int) -> None:
    server.on("/a", reply("no  such\nthing" + "x" * 400, status, TEXT))
    with pytest.raises(StatusRefused) as refused:
        await caller(server.url("/a?token=hush"), method="POST", headers={"Authorization": "hush"}, body="hush")
    text = str(refused.value)
    assert text.startswith(f"POST {server.url('/a')}: it answered {status}") and "no such thing" in text and "hush" not in text and len(text) < 420
    assert issubclass(StatusRefused, Fatal) and refused.value.status == status


@pytest.mark.parametrize("accept", ["any", [404], 404, [409, 404]])
async def test_an_error_that_is_accepted_is_a_result(server: MisbehavingServer, caller: RequestSender, accept: Any) -> None:
    server.on("/a", json_reply('{"why": "gone"}', 404))
    server.on("/b", reply("later", 503, {**TEXT, "Retry-After": "5"}))
    assert (await caller(server.url("/a"), accept=accept))["body"] == {"why": "gone"}
    assert (await caller(server.url("/b"), accept=[503]))["status"] == 503


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_a_transient_error_is_tried_again_when_the_server_says(server: MisbehavingServer, caller: RequestSender, status: int) -> None:
    server.on("/a", reply("busy", status, TEXT))
    server.on("/b", reply("busy", status, {**TEXT, "Retry-After": "7"}))
    server.on("/c", reply("busy", status, {**TEXT, "Retry-After": formatdate(time.time() + 90, usegmt=True)}))
    with pytest.raises(StatusTransient, match=f"it answered {status} .*: busy") as transient:
        await caller(server.url("/a"), method="POST")
    assert not isinstance(transient.value, RetryAfter | Fatal)
    for path, least_s, most_s in (("/b", 7, 7), ("/c", 80, 90)):
        with pytest.raises(StatusDelayed) as delayed:
            await caller(server.url(path))
        assert issubclass(StatusDelayed, RetryAfter) and least_s <= delayed.value.after_s <= most_s


@pytest.mark.parametrize(
    ("said", "wait_s"),
    [("0", 0.0), ("120", 120.0), (" 5 ", 5.0), ("9" * 5000, 3600.0), ("Thu, 01 Jan 1970 00:01:00 GMT", 50.0), ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
     ("Fri, 31 Dec 9999 23:59:59 GMT", 3600.0), ("-5", None), ("soon", None), ("", None), ("1e3", None), ("٣", None)],
)  # fmt: skip
def test_a_wait_is_seconds_or_a_date_and_an_hour_at_most(said: str, wait_s: float | None) -> None:
    assert retry_after_s(said, 10.0) == wait_s


@pytest.mark.parametrize(("status", "error"), [(500, InDoubt), (502, InDoubt), (504, InDoubt), (503, StatusTransient), (429, StatusTransient)])
async def test_what_may_not_be_sent_twice_is_not_tried_again_unless_it_is_known_that_nothing_was_done(
    server: MisbehavingServer, caller: RequestSender, status: int, error: type[Exception]
) -> None:
    server.on("/a", reply("oh", status, TEXT))
    with pytest.raises(error):
        await caller(server.url("/a"), **UNSAFE)


# what breaks


async def _reset(wire: Wire) -> None:
    wire.reset()


async def _closed(wire: Wire) -> None:
    wire.writer.close()


async def _broken_off(wire: Wire) -> None:
    await wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    wire.reset()


async def _short(wire: Wire) -> None:
    await wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    wire.writer.close()


async def _half_chunked(wire: Wire) -> None:
    await wire.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf")
    wire.writer.close()


BROKEN: dict[str, Any] = {
    "reset": _reset,
    "closed": _closed,
    "broken off": _broken_off,
    "too short": _short,
    "half a chunk": _half_chunked,
    "no status": b"HTTP/1.1 abc OK\r\n\r\n",
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "huge headers": b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 200_000 + b"\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
}


@pytest.mark.parametrize("how", BROKEN)
async def test_what_breaks_is_tried_again_if_it_may_be(server: MisbehavingServer, caller: RequestSender, how: str) -> None:
    server.on("/a", BROKEN[how])
    repeatable: list[dict[str, Any]] = [{}, {"method": "PUT", "idempotency_key": False}, {"method": "POST"}]
    for config in repeatable:
        with pytest.raises(NoResponse, match=r"no answer|broke off"):
            await caller(server.url("/a"), **config)
    with pytest.raises(InDoubt, match="may have been carried out"):
        await caller(server.url("/a"), **UNSAFE)
    assert len(server.seen) == 4


async def test_what_was_never_sent_is_tried_again_whatever_it_is(server: MisbehavingServer, caller: RequestSender) -> None:
    async with MisbehavingServer() as gone:
        url = gone.url("/a")
    with pytest.raises(NoResponse, match="no connection: Connect call failed"):
        await caller(url, **UNSAFE)


async def test_an_idle_connection_that_was_closed_is_not_used_again(server: MisbehavingServer, caller: RequestSender) -> None:
    async def last(wire: Wire) -> None:
        await wire.raw(reply("x"))
        wire.writer.close()

    server.on("/a", last)
    for _ in range(5):
        await caller(server.url("/a"), **UNSAFE)
        await asyncio.sleep(0.01)
    assert [seen.connection for seen in server.seen] == [1, 2, 3, 4, 5]


async def test_an_idle_connection_that_lives_is_used_again(server: MisbehavingServer, caller: RequestSender) -> None:
    server.on("/a", reply("x"))
    for _ in range(5):
        await caller(server.url("/a"))
    assert server.connections == 1 and len(server.seen) == 5


# time


@pytest.mark.slow
async def test_silence_and_a_byte_at_a_time_end_when_the_time_is_over(server: MisbehavingServer, caller: RequestSender) -> None:
    async def drips(wire: Wire) -> None:
        await wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b"x"] * 1000, every_s=0.01)

    async def drips_headers(wire: Wire) -> None:
        await wire.raw(b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n"] * 1000, every_s=0.01)

    async def goes_on(wire: Wire) -> None:
        await wire.raw(*[b"HTTP/1.1 100 Continue\r\n\r\n"] * 1000, every_s=0.01)

    for path, answer in {"/a": never, "/b": drips, "/c": drips_headers, "/d": goes_on}.items():
        server.on(path, answer)
        began_s = time.monotonic()
        with pytest.raises(NoResponse, match=r"no whole answer within 0\.18 s"):
            await caller(server.url(path), timeout_s=0.2)
        assert time.monotonic() - began_s < 6
    with pytest.raises(InDoubt, match="no whole answer"):
        await caller(server.url("/a"), timeout_s=0.2, **UNSAFE)


@pytest.mark.slow
async def test_the_time_is_that_of_all_redirects_together(server: MisbehavingServer, caller: RequestSender) -> None:
    async def slowly(wire: Wire) -> None:
        await asyncio.sleep(0.1)
        await wire.raw(redirect("/a"))

    server.on("/a", slowly)
    with pytest.raises(NoResponse, match="no whole answer"):
        await caller(server.url("/a"), timeout_s=0.3, redirects=20)


async def test_an_error_whose_body_never_ends_is_that_error(server: MisbehavingServer, caller: RequestSender) -> None:
    async def endless(wire: Wire) -> None:
        await wire.raw(b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await wire.raw(b"400\r\n" + b"x" * 1024 + b"\r\n")

    server.on("/a", endless)
    with pytest.raises(StatusRefused, match="404 Not Found: x"):
        await caller(server.url("/a"))


async def test_a_step_that_is_cancelled_leaves_no_connection(server: MisbehavingServer, caller: RequestSender) -> None:
    server.on("/a", never)
    step = asyncio.create_task(caller(server.url("/a")))
    await server.arrived.wait()
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert (await caller.pool()).connections == []


@pytest.mark.slow
async def test_what_was_sent_and_ended_from_outside_is_not_sent_by_the_next_try_unless_it_may_be(server: MisbehavingServer, caller: RequestSender) -> None:
    server.on("/a", never)
    ended: list[tuple[dict[str, Any], type[Exception]]] = [({"method": "POST"}, NoResponse), (UNSAFE, InDoubt)]
    for config, error in ended:
        server.arrived.clear()
        step = asyncio.create_task(caller(server.url("/a"), **config))
        await server.arrived.wait()
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        with pytest.raises(error):
            await caller(server.url("/a"), timeout_s=0.2, **config)
    assert len(server.seen) == 3
    server.on("/a", reply("x"))
    assert (await caller(server.url("/a"), **UNSAFE))["body"] == "x"


# sizes


async def test_no_more_is_read_than_shows_that_it_is_too_long(server: MisbehavingServer, caller: RequestSender) -> None:
    sent = 0

    async def huge(wire: Wire) -> None:
        nonlocal sent
        await wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(1000):
            await wire.raw(b"x" * 100_000)
            sent += 100_000

    server.on("/a", huge)
    server.on("/b", reply(b"x" * 1000))
    with pytest.raises(ResponseRefused, match="more than 500,000 bytes; raise max_bytes"):
        await caller(server.url("/a"), max_bytes=500_000)
    assert sent < 20_000_000
    assert (await caller(server.url("/b"), max_bytes=1000))["body"] == "x" * 1000
    with pytest.raises(ResponseRefused, match="more than 999 bytes"):
        await caller(server.url("/b"), max_bytes=999)


@pytest.mark.slow
@pytest.mark.parametrize("packed", ["gzip", "deflate"])
async def test_what_is_packed_is_counted_as_it_is_unpacked(server: MisbehavingServer, caller: RequestSender, packed: str) -> None:
    pack = gzip.compress if packed == "gzip" else zlib.compress
    server.on("/a", reply(pack(b"[1, 2]"), headers={"Content-Encoding": packed, "Content-Type": "application/json"}))
    server.on("/b", reply(pack(b"\0" * 50_000_000), headers={"Content-Encoding": packed}))
    assert (await caller(server.url("/a")))["body"] == [1, 2]
    tracemalloc.start()
    try:
        with pytest.raises(ResponseRefused, match="more than 1,000,000 bytes"):
            await caller(server.url("/b"), max_bytes=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


async def test_what_can_not_be_unpacked_is_an_error(server: MisbehavingServer, caller: RequestSender) -> None:
    server.on("/a", reply(b"not packed", headers={"Content-Encoding": "gzip"}))
    server.on("/b", reply(gzip.compress(gzip.compress(b"x")), headers={"Content-Encoding": "gzip, gzip"}))
    server.on("/c", reply(b"\x1b\x03", headers={"Content-Encoding": "unheard-of", "Content-Type": "text/plain"}))
    with pytest.raises(ResponseRefused, match="can't be decompressed"):
        await caller(server.url("/a"))
    with pytest.raises(ResponseRefused, match="compressed more than once"):
        await caller(server.url("/b"))
    assert (await caller(server.url("/c")))["headers"]["content-encoding"] == "unheard-of"


async def test_chunks_and_an_end_by_closing_are_whole_answers(server: MisbehavingServer, caller: RequestSender) -> None:
    async def to_the_end(wire: Wire) -> None:
        await wire.raw(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n", b"all ", b"of it")
        wire.writer.close()

    server.on("/a", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\n3\r\nall\r\n6\r\n of it\r\n0\r\n\r\n")
    server.on("/b", to_the_end)
    assert [(await caller(server.url(path)))["body"] for path in ("/a", "/b")] == ["all of it"] * 2


@pytest.mark.slow
async def test_a_hundred_at_once_are_served_at_once(server: MisbehavingServer, caller: RequestSender) -> None:
    all_here = asyncio.Event()

    async def together(wire: Wire) -> None:
        if server.busy == 100:
            all_here.set()
        await all_here.wait()
        await wire.raw(json_reply(f'"{wire.seen.target}"'))

    server.on("/a", together)
    found = await asyncio.gather(*(caller(server.url(f"/a?{number}")) for number in range(100)))
    assert [one["body"] for one in found] == [f"/a?{number}" for number in range(100)] and server.busiest == 100


# redirects


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [(301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (307, "POST", "POST"), (308, "POST", "POST"), (301, "PUT", "PUT"),
     (302, "DELETE", "DELETE"), (303, "PUT", "GET"), (303, "HEAD", "HEAD"), (301, "GET", "GET"), (307, "PATCH", "PATCH")],
)  # fmt: skip
async def test_a_redirect_keeps_or_changes_the_method_as_its_status_says(
    server: MisbehavingServer, caller: RequestSender, status: int, method: str, then: str
) -> None:
    server.on("/a", redirect("b?x=1", status))
    server.on("/b", reply("" if method == "HEAD" else "there", headers=TEXT))
    sends: dict[str, Any] = {"body": "sent"} if method not in ("GET", "HEAD") else {}
    found = await caller(server.url("/a"), method=method, headers={"Authorization": "own"}, **sends)
    assert (found["url"], found["redirects"]) == (server.url("/b?x=1"), 1)
    first, second = server.seen
    assert second.method == then and second.headers["authorization"] == "own"
    kept = ("content-type", "content-length", "idempotency-key")
    assert second.body == (first.body if then == method else b"")
    assert [second.headers.get(name) for name in kept] == ([first.headers.get(name) for name in kept] if then == method else [None] * 3)


async def test_somebody_else_is_told_nothing_that_was_for_the_first_alone(server: MisbehavingServer, caller: RequestSender) -> None:
    async with MisbehavingServer() as other:
        server.on("/a", redirect(other.url("/b"), 307))
        other.on("/b", redirect(server.url("/c"), 307))
        server.on("/c", reply("x"))
        secrets = dict.fromkeys(("Authorization", "Cookie", "X-Api-Key", "Idempotency-Key", "Proxy-Authorization", "Private-Token"), "hush")
        await caller(server.url("/a"), method="POST", headers={**secrets, "Accept": "text/html"}, body="sent")
        for seen in (*other.seen, server.seen[1]):
            assert "hush" not in seen.headers.values()
            assert (seen.method, seen.headers["accept"], seen.body) == ("POST", "text/html", b"sent")
        assert other.seen[0].headers["host"] == f"127.0.0.1:{other.port}"


@pytest.mark.parametrize("status", [307, 308])
async def test_a_body_that_may_hold_a_secret_goes_to_nobody_else(server: MisbehavingServer, caller: RequestSender, status: int) -> None:
    async with MisbehavingServer() as other:
        server.on("/a", redirect(other.url("/b"), status))
        server.on("/near", redirect(server.url("/c"), status))
        server.on("/c", reply("x"))
        for given in ({"body": "hush"}, {"json": {"token": "hush"}}, {"form": {"token": "hush"}}):
            with pytest.raises(ResponseRefused, match="the body of the request holds a secret"):
                await caller(server.url("/a"), given, method="POST")
            assert (await caller(server.url("/near"), given, method="POST"))["body"] == "x"
        assert other.seen == []


async def test_a_request_that_has_lost_its_key_on_the_way_is_not_sent_again(server: MisbehavingServer, caller: RequestSender) -> None:
    async with MisbehavingServer() as other:
        server.on("/a", redirect(other.url("/b"), 307))
        other.on("/b", _reset)
        with pytest.raises(InDoubt):
            await caller(server.url("/a"), method="POST")


async def test_redirects_are_counted_and_none_is_followed_unasked(server: MisbehavingServer, caller: RequestSender) -> None:
    server.on("/a", redirect("/a"))
    with pytest.raises(ResponseRefused, match="more than 5 redirects"):
        await caller(server.url("/a"))
    assert len(server.seen) == 6
    found = await caller(server.url("/a"), redirects=0)
    assert (found["status"], found["headers"]["location"], found["redirects"]) == (302, "/a", 0) and len(server.seen) == 7
    with pytest.raises(ResponseRefused, match="more than 1 redirects"):
        await caller(server.url("/a"), redirects=1)


@pytest.mark.parametrize("to", ["ftp://x.example/", "file:///etc/passwd", "http://user:pass@127.0.0.1/", "http://2130706433/", "http://x:99999/"])
async def test_a_redirect_to_where_nobody_may_go_is_not_followed(server: MisbehavingServer, caller: RequestSender, to: str) -> None:
    server.on("/a", redirect(to))
    with pytest.raises(ResponseRefused, match="redirects to an invalid address"):
        await caller(server.url("/a"))


async def test_a_secret_url_is_in_no_error_and_in_no_result(server: MisbehavingServer, caller: RequestSender) -> None:
    server.on("/hush", reply("x"))
    assert (await caller(server.url(), {"url": server.url("/hush")}))["url"] == server.url("/…")
    assert (await caller(server.url("/hush"), {"query": {"key": "hush-3"}}, query={"a": 1}))["url"] == server.url("/hush")
    assert server.seen[-1].target == "/hush?a=1&key=hush-3"
    with pytest.raises(StatusRefused) as refused:
        await caller(server.url(), {"url": server.url("/hush-2")})
    assert "hush" not in str(refused.value)


FORGED = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nforged"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n"


@pytest.mark.parametrize("first", [reply("first", headers=TEXT), CHUNKED, b"HTTP/1.1 204 No Content\r\n\r\n"], ids=["sized", "chunked", "empty"])
@pytest.mark.parametrize("behind", [FORGED, b"\r\n", b"x"], ids=["an answer", "a line", "a byte"])
async def test_bytes_behind_an_answer_are_not_taken_for_the_next_answer(server: MisbehavingServer, caller: RequestSender, first: bytes, behind: bytes) -> None:
    server.on("/a", first + behind)
    server.on("/b", reply("second", headers=TEXT))
    assert (await caller(server.url("/a")))["body"] in ("first", None)
    assert (await caller(server.url("/b")))["body"] == "second"
    assert [seen.connection for seen in server.seen] == [1, 2]


@pytest.mark.parametrize(
    ("raw", "taken_as", "comes_to"),
    [
        (b"item,cents\r\ntea,300\r\n", "csv", [{"item": "tea", "cents": "300"}]),
        ("name\ncafé\n".encode("latin-1"), "csv", [{"name": "café"}]),
        (b"a\nb\n", "lines", ["a", "b"]),
        (b"<a x='1'><b/></a>", "xml", {"a": {"@x": "1", "b": ""}}),
    ],
)
async def test_tables_lines_and_xml_are_data_where_they_are_wanted(
    server: MisbehavingServer, caller: RequestSender, raw: bytes, taken_as: str, comes_to: Any
) -> None:
    server.on("/a", reply(raw, headers={"Content-Type": "text/plain; charset=latin-1"}))
    wanted: dict[str, Any] = {"as": taken_as}
    assert (await caller(server.url("/a"), **wanted))["body"] == comes_to


@pytest.mark.parametrize(("raw", "taken_as"), [(b"a,b\n1,2,3\n", "csv"), (b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "xml"), (b"\xff", "lines")])
async def test_what_is_not_what_it_is_wanted_as_is_refused(server: MisbehavingServer, caller: RequestSender, raw: bytes, taken_as: str) -> None:
    server.on("/a", reply(raw, headers={"Content-Type": "text/plain"}))
    wanted: dict[str, Any] = {"as": taken_as}
    with pytest.raises(ResponseRefused, match=r"not csv|not xml|not text"):
        await caller(server.url("/a"), **wanted)
