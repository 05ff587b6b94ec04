"""Conversation: the engine's side of what is said with a keeper. When it is over, however that came, no process of the command is left."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from perdure.steps.bash import nursery
from perdure.steps.bash.command import GIVE_UP_S, GRACE_S
from perdure.steps.bash.keeper import LENGTH_BYTES

T = TypeVar("T")

CHUNK_BYTES = 1 << 18
TRIES_MAX = 3
MORE_S = 5.0
"""How much longer than it may take a keeper is waited for that ends a command."""


async def converse(asked: Mapping[str, Any], shown: Callable[[Any], None]) -> dict[str, Any]:
    """Ask a keeper, and wait for its answer; `shown` is given the progress that it tells of. An empty answer says that the keeper was killed.

    Who is cancelled meanwhile waits until the command is ended; cancelled again, it does not, and the command is ended all the same.
    """
    raw = json.dumps(asked).encode()
    for _ in range(TRIES_MAX):
        if (answer := await _try(len(raw).to_bytes(LENGTH_BYTES, "big") + raw, shown)) is not None:
            return answer
    return {}


async def _try(raw: bytes, shown: Callable[[Any], None]) -> dict[str, Any] | None:
    """One keeper's answer; None if it was killed before it has started anything."""
    control, answer, rest = nursery.begin(), None, b""
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # it was killed, or has said already why it will not
            await _send(control, raw)
        while some := await _receive(control):
            *lines, rest = (rest + some).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                if "progress" in answer:
                    shown(answer.pop("progress"))
                if answer:
                    return dict(answer)
        return answer
    except BaseException:
        await _ended(control)
        raise
    finally:
        control.close()


async def _ended(control: socket.socket) -> None:
    """Tell a keeper that nobody wants the result any more, and wait until it has ended everything."""
    with suppress(OSError):
        control.shutdown(socket.SHUT_WR)
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(GRACE_S + GIVE_UP_S + MORE_S):
            while await _receive(control):
                pass


async def _send(control: socket.socket, raw: bytes) -> None:
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(control, raw)
    except NotImplementedError:
        await _in_thread(lambda: _blocking(control, lambda: control.sendall(raw)))


async def _receive(control: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    try:
        return await loop.sock_recv(control, CHUNK_BYTES)
    except NotImplementedError:
        return await _in_thread(lambda: _blocking(control, lambda: control.recv(CHUNK_BYTES)))
    except ConnectionResetError:
        return b""


async def _in_thread(work: Callable[[], T]) -> T:
    """For event loops without sockets, as that of virtual time is, in which what runs in a thread takes no time."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def _blocking(control: socket.socket, work: Callable[[], T]) -> T:
    control.setblocking(True)
    try:
        return work()
    finally:
        control.setblocking(False)
