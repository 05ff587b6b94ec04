"""Runs a part of the suite on a copy of the package in which one module is different."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PYTEST = ("-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider")


class Run(NamedTuple):
    """How a command ended: its exit code (None: not within its time), its seconds, and the end of what it printed."""

    code: int | None
    seconds: float
    printed: str

    @property
    def found_a_failure(self) -> bool:
        """Whether tests ran and one failed, or the simulator found a problem; an error in the command itself is neither."""
        return self.code == 1 and (" failed" in self.printed or '"problems": [' in self.printed)


def source_of(module: str) -> Path:
    """The file of a module of the package, such as `core.decide`."""
    return ROOT / "src" / "perdure" / f"{module.replace('.', '/')}.py"


def run_on_copy(module: str, source: str, command: tuple[str, ...], limit_s: float) -> Run:
    """Run Python with these arguments on a copy of the package in which a module has this source."""
    with tempfile.TemporaryDirectory() as directory:
        # With their times and their bytecode, so that one module is compiled and not all of them.
        shutil.copytree(ROOT / "src" / "perdure", f"{directory}/perdure")
        Path(directory, source_of(module).relative_to(ROOT / "src")).write_text(source)
        return run_on(Path(directory), command, limit_s)


def run_on(package: Path, command: tuple[str, ...], limit_s: float) -> Run:
    """Run Python with these arguments on the package in a directory."""
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    begun_s = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        printed, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # what it has started ends with it
        process.communicate()
        return Run(None, time.monotonic() - begun_s, f"it did not end within {limit_s:g} s")
    return Run(process.returncode, time.monotonic() - begun_s, printed[-4000:])
