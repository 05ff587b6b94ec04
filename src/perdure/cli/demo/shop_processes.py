"""The processes of the demo: a shop has a database, a file that stands for the world, and workers, in a directory of its own.

The database is a file in the directory, or that of a URL, on a server. On a file it is known at once that a process is gone, on a server when its lease ends.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.stores.configured_store import is_postgres
from perdure.sync_client import Client, Handle

TICK_S = 0.02
"""The time between two looks at the order and at the keys."""

STORY_S_MAX = 30.0
"""How long an order may take if no person plays."""

LEASE_S = 3.0
"""The lease of workers on a server."""

GOES_ON_S_MAX = 5.0
"""How soon an order must continue once it is known that a worker is gone. Most of it is the start of the next worker, which takes 0.7 s on a quiet machine."""


class DemoStuck(Exception):
    """The order does not continue, for the reason in its message."""


@dataclass
class ShopWorker:
    """A worker process."""

    number: int
    process: "subprocess.Popen[bytes]"
    out: Path

    def ready_s(self) -> float | None:
        """The time at which it had joined the database and printed its first line; None before."""
        found = self.out.stat()
        return found.st_mtime if found.st_size else None


class DemoShop:
    """A directory with a database, unless that is at a `url` of a server, the file of the requests, and workers."""

    def __init__(self, directory: Path, takes_s: float, url: str = "") -> None:
        self.directory = directory
        self.url = url or f"sqlite:///{directory}/perdure.db"
        self.on_server = is_postgres(self.url)
        self.goes_on_s_max = GOES_ON_S_MAX + LEASE_S * self.on_server
        self.workers: list[ShopWorker] = []
        self._environment = os.environ | {
            "PERDURE_DB": self.url,
            "ORDER_WORLD": str(directory / "world.jsonl"),
            "ORDER_WORLD_TAKES_S": str(takes_s),
        }
        directory.mkdir(exist_ok=True)
        self.client = Client(self.url)

    def hire(self) -> ShopWorker:
        """Starts a worker in a session of its own, which Ctrl-C of the terminal does not reach."""
        command = [
            sys.executable,
            "-m",
            "perdure.cli",
            "worker",
            "perdure.cli.demo.order_workflow",
            "--no-catalog",
            *(["--lease", f"{LEASE_S:g}s"] if self.on_server else []),
        ]
        number = len(self.workers) + 1
        out = self.directory / f"worker-{number}.out"
        with out.open("wb") as output, out.with_suffix(".errors").open("wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=self._environment, start_new_session=True
            )  # `close` waits for it
        self.workers.append(ShopWorker(number, process, out))
        return self.workers[-1]

    def ready(self) -> list[ShopWorker]:
        """The workers that are alive and have joined the database.

        Raises:
            DemoStuck: one has ended by itself.
        """
        for worker in self.workers:
            if worker.process.poll() not in (None, -signal.SIGKILL):
                raise DemoStuck(f"worker {worker.number} has ended\n{self.errors()}")
        return [worker for worker in self.workers if worker.process.returncode is None and worker.ready_s() is not None]

    def until_ready(self, count: int) -> None:
        """Waits until so many workers are ready.

        Raises:
            DemoStuck: they are not ready in time, or one has ended.
        """
        ends_s = time.monotonic() + STORY_S_MAX
        while len(self.ready()) < count:
            if time.monotonic() > ends_s:
                raise DemoStuck(f"no worker was ready within {STORY_S_MAX:g} s\n{self.errors()}")
            time.sleep(TICK_S)

    def lines(self) -> list[dict[str, Any]]:
        """The requests of the steps; a kill can cut the last line short."""
        file = self.directory / "world.jsonl"
        return [json.loads(line) for line in file.read_bytes().splitlines() if line.endswith(b"}")] if file.exists() else []

    def errors(self) -> str:
        """Returns the text that the workers have written to standard error."""
        return "\n".join(text for worker in self.workers if (text := worker.out.with_suffix(".errors").read_text().rstrip()))

    def close(self) -> None:
        """Kills all workers and closes the database."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            _ = worker.process.wait()
        self.client.close()


def ordered(shop: DemoShop, id: str) -> Handle[str]:
    """Starts an order of 42.00."""
    return shop.client.start(shop.client.workflow("order").with_(id=id), id, 4200)
