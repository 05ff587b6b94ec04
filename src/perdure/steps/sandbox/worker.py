"""The process of a sandbox: it takes one job after another from the socket that it was given, until that is closed."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from collections.abc import Callable

from perdure.steps.sandbox.confined import confine
from perdure.steps.sandbox.frames import FRAME_BYTES_MAX, LENGTH, READY, Answer, RawJob, answering, read_job

Work = Callable[[RawJob], Answer]


def main() -> None:
    """Serve until the parent closes the socket, or dies."""
    parent = _parent()
    works = _works()
    os.dup2(1, 2)  # until here, errors were for the parent's eyes; from here on they would be those of strangers
    confine()
    try:
        parent.sendall(READY)
        while (raw := _received(parent)) is not None:
            job = read_job(raw)
            parent.sendall(answering(works[job.job](job)))
    except ConnectionError:
        pass  # the parent has closed it, or is dead
    finally:
        os._exit(0)  # what an interpreter still holds is not tidied up: that could take for ever


def _parent() -> socket.socket:
    """The socket to the parent: it is standard input, or on Windows comes through that."""
    if sys.platform == "win32":
        return socket.fromshare(sys.stdin.buffer.read())
    return socket.socket(fileno=0)


def _works() -> dict[str, Work]:
    """What can be done with the libraries that are here, all imported: later, no file can be opened."""
    works: dict[str, Work] = {}
    if importlib.util.find_spec("jq") is not None:
        import jq  # type: ignore[import-not-found]  # noqa: F401  # it is there when a job comes

        from perdure.steps.sandbox.jq_job import run_jq

        works["jq"] = run_jq
    if importlib.util.find_spec("quickjs") is not None:
        from perdure.steps.sandbox.js_job import prepare, run_js

        prepare()
        works["js"] = run_js
    return works


def _received(parent: socket.socket) -> bytes | None:
    head = parent.recv(LENGTH.size, socket.MSG_WAITALL)
    if len(head) < LENGTH.size:
        return None
    (size_bytes,) = LENGTH.unpack(head)
    if size_bytes > FRAME_BYTES_MAX:
        return None
    body = bytearray(size_bytes)
    view, at = memoryview(body), 0
    while at < size_bytes:
        more = parent.recv_into(view[at:])
        if not more:
            return None
        at += more
    return bytes(body)


if __name__ == "__main__":
    main()
