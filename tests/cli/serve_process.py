"""`perdure serve` as a process of its own, and requests to it."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from ssl import SSLContext
from typing import Any, NamedTuple

from tests.cli.shell import run_aside

FLOWS = Path(__file__).with_name("served_flows.py")
WAIT_S = 60.0


class Answered(NamedTuple):
    """An answer: its status, headers and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def free_port() -> int:
    """A port that nothing listens on."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def new_key(directory: Path, *options: str) -> str:
    """A key that the command has made in the database of a directory."""
    made = run_aside("--db", f"sqlite:///{directory}/served.db", "keys", "create", "test", *(options or ("--admin",)))
    assert made.code == 0, made.err
    return made.out.strip()


def command(*words: str) -> list[str]:
    """The command line of `perdure`."""
    return [sys.executable, "-m", "perdure.cli", *words]


def environment(directory: Path, **more: str) -> dict[str, str]:
    """The environment of a process on the database of a directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    return {**kept, "PERDURE_DB": f"sqlite:///{directory}/served.db", "PYTHONWARNINGS": "", **more}


class ServeProcess:
    """A process that serves the database of a directory; its log is `log` there."""

    def __init__(self, directory: Path, *options: str, targets: tuple[str, ...] = (str(FLOWS),), **more: str) -> None:
        self.directory, self.log = directory, directory / "serve.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command("serve", *targets, *options), env=environment(directory, **more), stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.log.read_text()

    def request(
        self, method: str, path: str, body: Any = None, key: str = "", headers: Mapping[str, str] | None = None, context: SSLContext | None = None
    ) -> Answered:
        """Sends a request, and returns its answer whatever its status."""
        sent = {**({"Authorization": f"Bearer {key}"} if key else {}), **({"Content-Type": "application/json"} if body is not None else {})}
        sent |= headers or {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S, context=context) as answer:
                return Answered(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answered(error.code, {name.lower(): value for name, value in error.headers.items()}, error.read())

    def signal(self, number: int) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """Waits for the end of the process, and returns its exit code."""
        return self.process.wait(WAIT_S)

    def close(self) -> None:
        """Ends the process, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def serving(directory: Path, *options: str, **how: Any) -> Iterator[ServeProcess]:
    """A process that serves until the end of the block."""
    process = ServeProcess(directory, "--listen", "127.0.0.1:0", *options, **how)
    try:
        yield process
    finally:
        process.close()
