"""Programs that are killed at a moment that the test chooses, and started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
WAIT_S = 60.0


class Program:
    """A program of `examples/ports`, run in a directory with the database of Perdure in it."""

    def __init__(self, name: str, arguments: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        self._command = [sys.executable, str(ROOT / "examples/ports" / name), *arguments]
        self._directory = directory
        self._environment = os.environ | {"PERDURE_DB": f"sqlite:///{directory}/perdure.db"} | dict(environment)

    def finish(self) -> "subprocess.CompletedProcess[str]":
        """Runs it to its end."""
        return subprocess.run(self._command, cwd=self._directory, env=self._environment, capture_output=True, text=True, timeout=WAIT_S, check=False)

    def kill_when(self, is_time: Callable[[], bool], what: str) -> None:
        """Runs it and kills it by SIGKILL as soon as it is time; the test fails if it ends before."""
        log = self._directory / "killed.log"
        with log.open("ab") as output, subprocess.Popen(self._command, cwd=self._directory, env=self._environment, stdout=output, stderr=output) as process:
            until_s = time.monotonic() + WAIT_S
            while not is_time():
                assert process.poll() is None and time.monotonic() < until_s, f"never: {what}\n{log.read_text()}"
                time.sleep(0.002)
            process.kill()
        assert process.returncode == -signal.SIGKILL
