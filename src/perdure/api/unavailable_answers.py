"""Answers the requests of a listening socket while nothing serves it: each with a problem that says why, and what to do."""

import select
import socket
import time
from contextlib import suppress

import msgspec

from perdure.api.problems import MEDIA_TYPE, Refusal, refusal_problem

REQUEST_S = 0.2
"""How long one request is read. What follows is dropped."""

RECEIVE_BYTES = 64 * 1024


def answer_unavailable(listening: socket.socket, wait_s: float, refusal: Refusal) -> None:
    """Answers each request that arrives within `wait_s` with `refusal`, and closes its connection."""
    answer, until_s = _answer(refusal), time.monotonic() + wait_s
    while (left_s := until_s - time.monotonic()) > 0:
        ready, _, _ = select.select([listening], [], [], left_s)
        if ready:
            with suppress(OSError):  # the client has left
                connection, _ = listening.accept()
                with connection:
                    _send(connection, answer)


def _answer(refusal: Refusal) -> bytes:
    body = msgspec.json.encode(refusal_problem(refusal))
    lines = (
        f"HTTP/1.1 {refusal.status} Service Unavailable",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "retry-after: 1",
        "connection: close",
    )
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def _send(connection: socket.socket, answer: bytes) -> None:
    connection.settimeout(REQUEST_S)
    connection.recv(RECEIVE_BYTES)
    connection.sendall(answer)
    connection.shutdown(socket.SHUT_WR)
    until_s = time.monotonic() + REQUEST_S
    while connection.recv(RECEIVE_BYTES) and time.monotonic() < until_s:  # closed with something unread, it would be reset, and the answer lost
        pass
