"""The process of a sandbox: it performs one job after another from its socket, until that is closed."""

from __future__ import annotations

import faulthandler
import importlib.util
import os
import socket
import sys
import traceback
from collections.abc import Callable, Mapping

from perdure.definitions.kinds.sandbox.job_protocol import (
    ERROR_CHARACTERS_MAX,
    FRAME_BYTES_MAX,
    LENGTH,
    READY,
    JobAnswer,
    JobFailure,
    RawSandboxJob,
    decode_job,
    encode_answer,
)
from perdure.definitions.kinds.sandbox.process_limits import drop_privileges

Work = Callable[[RawSandboxJob], JobAnswer]


def main() -> None:
    """Serves until the parent closes the socket, or dies. Standard error goes to the parent, which quotes it if this process ends by itself."""
    faulthandler.enable()
    if sys.platform != "win32":
        os.set_blocking(2, False)  # a full pipe must not stop the work
    code = 1
    try:
        parent = _parent()
        works = _works()
        drop_privileges()
        code = _served(parent, works)
    except BaseException:  # the process is about to end; its standard error is the only report
        traceback.print_exc()
    finally:
        os._exit(code)  # what an interpreter still holds is not tidied up: that could take for ever


def _served(parent: socket.socket, works: Mapping[str, Work]) -> int:
    """Does jobs until there are no more; the exit code."""
    try:
        parent.sendall(READY)
        while (raw := _received(parent)) is not None:
            parent.sendall(encode_answer(_answer(works, decode_job(raw))))
    except ConnectionError:
        pass  # the parent has closed it, or is dead
    return 0


def _answer(works: Mapping[str, Work], job: RawSandboxJob) -> JobAnswer:
    """The answer to a job, also if the job fails with an error that it does not expect."""
    try:
        return works[job.job](job)
    except MemoryError:
        return JobFailure("memory")
    except Exception as error:  # reported as a failure of the sandbox, not of the job's source
        return JobFailure("sandbox", type(error).__name__, traceback.format_exc()[-ERROR_CHARACTERS_MAX:])


def _parent() -> socket.socket:
    """The socket to the parent: it is standard input, or on Windows comes through that."""
    if sys.platform == "win32":
        return socket.fromshare(sys.stdin.buffer.read())
    return socket.socket(fileno=0)


def _works() -> dict[str, Work]:
    """The jobs whose libraries are installed. All are imported now, as no file can be opened later."""
    works: dict[str, Work] = {}
    if importlib.util.find_spec("jq") is not None:
        import jq  # type: ignore[import-not-found]  # noqa: F401  # it is there when a job comes

        from perdure.definitions.kinds.sandbox.sandbox_jobs import run_jq

        works["jq"] = run_jq
    if importlib.util.find_spec("quickjs") is not None:
        from perdure.definitions.kinds.sandbox.sandbox_jobs import preload_javascript, run_js

        preload_javascript()
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
