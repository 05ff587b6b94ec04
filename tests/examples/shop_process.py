"""Programs of the shop of `examples/web/flows.py`, as subprocesses in a directory of their own."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0


class ShopProgram:
    """A program that is begun, killed and begun again. `lines` is what it has printed since it was last begun."""

    def __init__(self, directory: Path, module: str, *arguments: str) -> None:
        self.directory = directory
        self._command = [sys.executable, "-m", module, *arguments]
        self._environment = os.environ | {"SHOP_DIRECTORY": str(directory / "shop"), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        self._output = directory / "output.txt"

    def begin(self) -> None:
        """Starts the program."""
        with self._output.open("w") as output:
            self._process = subprocess.Popen(self._command, cwd=self.directory, env=self._environment, stdout=output, stderr=output)

    @property
    def lines(self) -> list[str]:
        """What it has printed."""
        return self._output.read_text().splitlines()

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Sends a signal, and returns the exit code."""
        self._process.send_signal(number)
        return self._process.wait(WAIT_S)

    def wait(self) -> int:
        """Waits for the end, and returns the exit code."""
        return self._process.wait(WAIT_S)

    def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        """Waits for something that happens soon."""
        until_s = time.monotonic() + WAIT_S
        while not is_true():
            assert time.monotonic() < until_s and self._process.poll() is None, f"not in time: {what}\n{self._output.read_text()[-3000:]}"
            time.sleep(0.01)

    def rows(self, statement: str) -> list[Any]:
        """Rows of the shop's database."""
        with closing(sqlite3.connect(self.directory / "shop" / "shop.db", timeout=WAIT_S)) as connection:
            return connection.execute(statement).fetchall()
