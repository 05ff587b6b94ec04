"""Serves a fake provider on the loopback interface, on the running event loop or in a thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any

from perdure.core.errors import MissingExtra
from perdure.fake_llm.fake_app import Fake
from perdure.fake_llm.fake_script import Script

HOST = "127.0.0.1"
KEY = "fake"


@asynccontextmanager
async def serving(what: Fake | Script | Sequence[Any] | Mapping[str, Any], port: int = 0) -> AsyncIterator[str]:
    """Serves a script for the duration of the context; yields the address, such as ``http://127.0.0.1:40123``. Port 0 picks a free port.

    Raises:
        OSError: the port is taken.
        MissingExtra: the server library is not installed.
    """
    server, listening = _server(what), _listening(port)
    server.capture_signals = nullcontext  # signals belong to the program that runs the loop
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield listener_address(listening)
    finally:
        server.should_exit = server.force_exit = True
        await task
        listening.close()


@contextmanager
def serving_aside(what: Fake | Script | Sequence[Any] | Mapping[str, Any]) -> Iterator[str]:
    """Does the same in a thread, for tests that are plain functions."""
    server, listening = _server(what), _listening(0)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), name="fake-llm", daemon=True)
    thread.start()
    try:
        yield listener_address(listening)
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        listening.close()


def run_server(what: Fake, listening: socket.socket) -> None:
    """Serves until a signal stops the process."""
    _server(what).run(sockets=[listening])


def open_listener(port: int) -> socket.socket:
    """Opens a socket that listens on a port of the loopback interface. Port 0 picks a free port.

    Raises:
        OSError: the port is taken.
    """
    return _listening(port)


def _listening(port: int) -> socket.socket:
    found = socket.create_server((HOST, port), backlog=1_024)
    found.setblocking(False)
    return found


def _server(what: Fake | Script | Sequence[Any] | Mapping[str, Any]) -> Any:
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("a fake provider of models", "uvicorn", "serve") from None
    app = what if isinstance(what, Fake) else Fake(what)
    return uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning", access_log=False, timeout_keep_alive=60))


def listener_address(listening: socket.socket) -> str:
    """Returns the address of a listening socket as a URL."""
    return f"http://{HOST}:{listening.getsockname()[1]}"


def environment(url: str) -> dict[str, str]:
    """Returns the environment variables that direct the vendors' own libraries to the server."""
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY}


def models(url: str) -> dict[str, dict[str, Any]]:
    """Returns models for a deployment that use the server: one for each protocol, and one for steps that name none. They need no key."""
    return {
        "default": {"provider": "openai-chat", "model": "gpt-4o-mini", "base_url": f"{url}/v1"},
        "small": {"provider": "openai-chat", "model": "gpt-4o-mini", "base_url": f"{url}/v1"},
        "medium": {"provider": "openai", "model": "gpt-4o", "base_url": f"{url}/v1"},
        "large": {"provider": "anthropic", "model": "claude-sonnet-4-6", "base_url": url},
    }


def models_yaml(url: str) -> str:
    """Returns the same as text for a ``models.yaml``."""
    lines = [f"{name}: {{{', '.join(f'{field}: {value}' for field, value in entry.items())}}}" for name, entry in models(url).items()]
    return "\n".join(lines) + "\n"
