"""The first minute of a new user: from `pip install` in an empty environment to the first durable result.

    python bench/first_result.py [--json FILE]

The wheel is built and an empty virtual environment made before the clock starts. Then pip installs the wheel with the extra `cli`, whose packages come from
the configured index; `perdure init` writes a project; its program runs an order, which is killed with SIGKILL in its pause (it sleeps for 3 s) and continued by
the same command. With a total of `TOTAL_S_MAX` or more, or without an index, the exit code is 1.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOTAL_S_MAX = 60.0
ORDER = ("orders.py", "o1", "4900")
RESULT = "shipping the goods of o1\no1 is on its way\n"


class Clock:
    """The parts, each with its seconds."""

    def __init__(self) -> None:
        self.parts_s: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measures the block."""
        began_s = time.perf_counter()
        yield
        self.parts_s[name] = time.perf_counter() - began_s
        print(f"{name:44} {self.parts_s[name]:6.1f} s", flush=True)


def environment() -> dict[str, str]:
    """The variables of a user: without those of this checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PERDURE", "VIRTUAL_ENV"))}


def run(command: list[str | Path], directory: Path) -> str:
    """What a command prints.

    Raises:
        SystemExit: it failed.
    """
    done = subprocess.run(command, cwd=directory, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def killed_in_its_pause(python: Path, project: Path) -> None:
    """Begins the order, and kills its process after the second step."""
    with subprocess.Popen([python, *ORDER], cwd=project, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(2)]
        if not said[1].startswith("charging"):
            sys.exit(f"the order did not come to its payment: {said}")
        time.sleep(0.2)  # the outcome of the payment is recorded, and the pause has begun
        process.send_signal(signal.SIGKILL)


def measure(directory: Path) -> dict[str, float]:
    """Measures all parts in a directory; returns their seconds."""
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory, ROOT], ROOT)
    (wheel,) = directory.glob("*.whl")
    clock, python, project = Clock(), directory / "env/bin/python", directory / "shop"
    run([sys.executable, "-m", "venv", directory / "env"], directory)
    with clock.part("pip install perdure[cli]"):
        run([python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", f"{wheel}[cli]"], directory)
    with clock.part("perdure init shop"):
        run([directory / "env/bin/perdure", "init", "shop"], directory)
    with clock.part("python orders.py o1 4900, killed in its pause"):
        killed_in_its_pause(python, project)
    with clock.part("the same again, which continues it"):
        if (said := run([python, *ORDER], project)) != RESULT:
            sys.exit(f"the order was to continue with its shipping, and printed: {said}")
    return clock.parts_s


def main() -> int:
    """0 if the first result was there in time, otherwise 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the seconds of each part, and their total, to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perdure-first-result-") as directory:
        parts_s = measure(Path(directory))
    total_s = sum(parts_s.values())
    print(f"{'total':44} {total_s:6.1f} s (at most {TOTAL_S_MAX:g} s)")
    if given.json is not None:
        given.json.write_text(json.dumps({"parts_s": parts_s, "total_s": total_s}, indent=2) + "\n")
    return 0 if total_s < TOTAL_S_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
