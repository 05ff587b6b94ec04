"""Real web servers with the shop of `examples/web`, as subprocesses in a directory of their own."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[3]
WAIT_S = 60.0

GUNICORN = ("gunicorn", "-b", "127.0.0.1:{port}", "--no-control-socket", "--graceful-timeout", "10")
SERVERS = {
    "fastapi": ("uvicorn", "examples.web.fastapi_shop:web", "--port", "{port}", "--workers", "2"),
    "flask": (*GUNICORN, "examples.web.flask_shop:web", "--workers", "2", "--threads", "4"),
    "flask-preload": (*GUNICORN, "examples.web.flask_shop:web", "--workers", "2", "--threads", "4", "--preload"),
    "flask-sync": (*GUNICORN, "examples.web.flask_shop:web", "--workers", "2"),
    "django": (*GUNICORN, "examples.web.django_shop.wsgi", "--workers", "2", "--threads", "4"),
}
"""The servers that run the shop with two processes each."""

RELOADERS = {
    "fastapi": ("uvicorn", "examples.web.fastapi_shop:web", "--port", "{port}", "--reload"),
    "flask": ("flask", "--app", "examples.web.flask_shop:web", "run", "--port", "{port}", "--reload"),
    "django": ("django", "runserver", "{port}"),
}
"""The servers of developers, which begin again when a file changes."""


class Shop:
    """A server of the shop. Its processes are those of a group, so that all of them end with it."""

    def __init__(self, directory: Path, command: tuple[str, ...], code: Path = ROOT, ready: tuple[str, int] = ("/orders/none", 404)) -> None:
        self.directory, self.code, self.ready = directory, code, ready
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        module, *arguments = (one.format(port=self.port) for one in command)
        self.command = [sys.executable, "-m", module, *arguments]
        self.environment = os.environ | {"SHOP_DIRECTORY": str(directory / "shop"), "PYTHONPATH": str(code), "PYTHONWARNINGS": ""}
        self.environment |= {"DJANGO_SETTINGS_MODULE": "examples.web.django_shop.settings"}
        self.log = directory / "server.log"

    def begin(self) -> None:
        """Starts the server and waits until it answers."""
        if any("django" in one for one in self.command):
            migrate = [sys.executable, "-m", "django", "migrate", "--verbosity", "0"]
            (self.directory / "shop").mkdir(exist_ok=True)
            subprocess.run(migrate, cwd=self.code, env=self.environment, check=True, timeout=WAIT_S)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(self.command, cwd=self.code, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        self.wait_until(lambda: self.get(self.ready[0])[0] == self.ready[1], "it answers")

    def end(self, number: int = signal.SIGKILL) -> int:
        """Sends the main process a signal (SIGKILL: all of its processes), and returns its exit code."""
        with suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)
        code = self._process.wait(WAIT_S)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return code

    def workers(self) -> list[int]:
        """The processes that the main one has begun."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [pid for pid in map(int, children.split()) if "resource_tracker" not in _command(pid)]

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """The status and the body of an answer; status 0 if there is none."""
        return self._request(Request(f"http://127.0.0.1:{self.port}{path}", headers=headers))

    def post(self, path: str, body: str = "") -> tuple[int, str]:
        """See `get`."""
        return self._request(Request(f"http://127.0.0.1:{self.port}{path}", data=body.encode(), method="POST"))

    def _request(self, request: Request) -> tuple[int, str]:
        try:
            with urlopen(request, timeout=WAIT_S) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (URLError, HTTPException, ConnectionError, TimeoutError):  # an answer may break off
            return 0, ""

    def result(self, order_id: str) -> Any:
        """The result of an order, after its end."""
        status, body = self.get(f"/orders/{order_id}?wait=1")
        assert status == 200, (status, body, self.log.read_text()[-3000:])
        return json.loads(body)["result"]

    def rows(self, statement: str) -> list[Any]:
        """Rows of the shop's database."""
        with closing(sqlite3.connect(self.directory / "shop" / "shop.db", timeout=WAIT_S)) as connection:
            return connection.execute(statement).fetchall()

    def links(self) -> dict[str, str]:
        """The links that the manager has been sent, by the last word before them: yes or no."""
        mails = self.directory / "shop" / "mails.txt"
        lines = mails.read_text().splitlines() if mails.exists() else []
        return {line.split()[-2].rstrip(":"): line.split()[-1] for line in lines}

    def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        """Waits for something that happens soon."""
        until_s = time.monotonic() + WAIT_S
        while not is_true():
            assert time.monotonic() < until_s and self._process.poll() is None, f"not in time: {what}\n{self.log.read_text()[-3000:]}"
            time.sleep(0.02)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@contextmanager
def served(shop: Shop) -> Iterator[Shop]:
    """Keeps a server up during the block."""
    try:
        shop.begin()
        yield shop
    finally:
        shop.end()
