"""Commands a second as steps, beside the same commands by `subprocess.run` without an engine: one after the other, and a hundred at once.

Ours are items of one step of an execution on the memory store: the engine, its log, a keeper for each command, and the end of all that it has started.
The peer forks from a Python of the same size, in threads where there are a hundred, and looks after nothing. Both run the same ``bash -lc`` in an
environment of the same size. Ratios are to be read, not times: a shell costs what its machine makes of ``/etc/profile``.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from perdure import Definition
from perdure.definitions.kinds.bash.bash_kind import SYSTEM_PATH
from perdure.definitions.kinds.deployment import Allowed, Deployment

COMMANDS, AT_ONCE, ROUNDS = 200, 100, 5
COMMAND = "echo done"
ENVIRONMENT = {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8"} | {f"VARIABLE_{number}": "x" * 20 for number in range(9)}


def ours(work: Path, at_once: int) -> Callable[[], int]:
    """So many commands of one execution, `at_once` of them at the same time; how many have succeeded."""
    each = {"in": "@input.items", "concurrency": at_once}
    document = {"perdure": 1, "name": "commands", "input": {"items": {"type": "array"}}, "steps": [{"id": "a", "each": each, "bash": COMMAND}]}
    it = Definition.of(document, deployment=Deployment(allowed=Allowed(bash=True), work=work))
    return lambda: sum(one["exit_code"] == 0 for one in it.with_(db="memory:").run(items=list(range(COMMANDS))))


def theirs(work: Path, at_once: int) -> Callable[[], int]:
    """The same commands without an engine."""
    shell = shutil.which("bash") or "bash"

    def one(_: int) -> bool:
        return subprocess.run([shell, "-lc", COMMAND], cwd=work, env=ENVIRONMENT, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0

    def run() -> int:
        if at_once == 1:
            return sum(map(one, range(COMMANDS)))
        with ThreadPoolExecutor(at_once) as threads:
            return sum(threads.map(one, range(COMMANDS)))

    return run


def rates(sides: list[Callable[[], int]]) -> list[float]:
    """The commands a second of each, the middle of some rounds in which they take turns."""
    found: list[list[float]] = [[] for _ in sides]
    for turn in range(ROUNDS + 1):
        for side, seen in zip(sides, found, strict=True):
            began_s = time.perf_counter()
            assert side() == COMMANDS
            if turn:  # the first is to warm up
                seen.append(COMMANDS / (time.perf_counter() - began_s))
    return [statistics.median(one) for one in found]


def main() -> None:
    """Measure, and print a line for each."""
    print(f"bash -lc '{COMMAND}', Python {sys.version.split()[0]}, {os.cpu_count()} cores; medians of {ROUNDS} rounds of {COMMANDS} commands")
    with tempfile.TemporaryDirectory() as directory:
        for at_once, name in ((1, "one after the other"), (AT_ONCE, f"{AT_ONCE} at once")):
            mine, other = rates([ours(Path(directory), at_once), theirs(Path(directory), at_once)])
            print(f"{name:20} perdure {mine:7.1f}/s   subprocess.run {other:7.1f}/s   ratio {mine / other:.2f}")


if __name__ == "__main__":
    main()
