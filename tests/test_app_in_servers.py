"""An App inside real servers that end while a step is in flight: by SIGTERM within and beyond its grace, and by SIGKILL. The next server continues."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from perdure import Client, ExecutionFailed
from tests.sampling import some
from tests.served_steps import work

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
WAIT_S = 30.0
SERVERS = {
    "uvicorn": ("uvicorn", "--factory", "tests.served_steps:fastapi", "--port", "{port}"),
    "gunicorn": ("gunicorn", "-b", "127.0.0.1:{port}", "--no-control-socket", "--threads", "2", "tests.served_steps:flask()"),
}
KINDS = ("slow", "blocking")


class Server:
    """Servers of `tests.served_steps`, one after another, in one directory."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory, self.name = directory, name
        self._running: list[subprocess.Popen[bytes]] = []

    def begin(self, grace: str) -> None:
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        module, *arguments = (one.format(port=self.port) for one in SERVERS[self.name])
        environment = os.environ | {"SERVED_DIRECTORY": str(self.directory), "SERVED_GRACE": grace, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": ""}
        with (self.directory / "server.log").open("a") as log:
            self._running.append(
                subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
            )

    def post(self, path: str) -> None:
        until_s = time.monotonic() + WAIT_S
        while True:
            try:
                with urlopen(Request(f"http://127.0.0.1:{self.port}{path}", method="POST"), timeout=WAIT_S):
                    return
            except (URLError, ConnectionError):
                assert time.monotonic() < until_s, (self.directory / "server.log").read_text()[-3000:]
                time.sleep(0.05)

    def end(self, number: int) -> None:
        if number == signal.SIGKILL:
            os.killpg(self._running[-1].pid, number)
        else:
            self._running[-1].send_signal(number)
        self._running[-1].wait(WAIT_S)

    def close(self) -> None:
        for one in self._running:
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait(WAIT_S)

    def notes(self) -> list[str]:
        file = self.directory / "steps.txt"
        return file.read_text().splitlines() if file.exists() else []

    def has_begun(self, kind: str) -> bool:
        return any(line.startswith(f"{kind} ") for line in self.notes())


def wait_until(is_true: Callable[[], bool]) -> None:
    until_s = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < until_s
        time.sleep(0.01)


@pytest.fixture(params=["uvicorn", pytest.param("gunicorn", marks=pytest.mark.prove)])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    made = Server(tmp_path, request.param)
    try:
        yield made
    finally:
        made.close()


def notes_after(server: Server, kind: str, seconds: float, grace: str, number: int) -> list[str]:
    """What the steps note if the server ends as soon as a step of this kind has begun, and another server follows."""
    server.begin(grace)
    server.post(f"/{kind}/{seconds}")
    wait_until(lambda: server.has_begun(kind))
    server.end(number)
    server.begin("30s")
    with Client(f"sqlite:///{server.directory}/served.db") as client:
        assert client.get("w", work).result(timeout=WAIT_S) == kind
    return server.notes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_in_flight_may_end_within_the_grace(server: Server, kind: str) -> None:
    lines = notes_after(server, kind, 0.7, "20s", signal.SIGTERM)
    assert [line.split()[0] for line in lines] == ["first", kind, f"{kind}-end"]


@pytest.mark.parametrize("kind", some(KINDS, 1))
def test_one_that_takes_longer_runs_again_under_its_key_and_what_had_settled_does_not(server: Server, kind: str) -> None:
    lines = notes_after(server, kind, 1.5, "0.2s", signal.SIGTERM)
    counted = [line.split()[0] for line in lines]
    assert counted.count("first") == 1 and counted.count(kind) == 2 and counted[-1] == f"{kind}-end"
    assert len({line.split()[1] for line in lines if line.startswith(kind)}) == 1


@pytest.mark.parametrize("kind", some(KINDS[::-1], 1))
def test_killed_it_runs_again_under_its_key_and_what_had_settled_does_not(server: Server, kind: str) -> None:
    lines = notes_after(server, kind, 0.7, "20s", signal.SIGKILL)
    assert [line.split()[0] for line in lines] == ["first", kind, kind, f"{kind}-end"]
    assert len({line.split()[1] for line in lines[1:]}) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_one_that_must_not_run_again_ends_as_interrupted(server: Server, number: int) -> None:
    with pytest.raises(ExecutionFailed, match="interrupted"):
        notes_after(server, "once", 5.0, "0.2s", number)
    assert [line.split()[0] for line in server.notes()] == ["first", "once"]
