"""Claims about processes that have nothing to do: they cost next to nothing, alone and beside others."""

import os
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.runtime.flows import PRESS
from tests.runtime.processes import ProcessDirectory, RealProcess, record, status
from tests.runtime.statement_counter import counts

MEASURE_S = 4.0
SETTLE_S = 1.5
"""How long after its beginning a process may still be busy with itself."""

TRIES = 3
"""On a machine that is busy with others a process may settle later, and be woken for nothing; one that is not idle never keeps its budget."""

CLAIMS_A_SECOND = 1.1
"""An engine, and a worker, each ask once a second at most: it is the net under the rings. (And so that one more fits into the time of a test.)"""

STATEMENTS_A_CLAIM = 12
"""A claim that finds nothing is one reading: its begin and end, who lives, whether there is something, and when there will be."""

STATEMENTS_BESIDES = 25
"""For renewing a lease, every 5 s, and for sweeping and reloading members, in the time of a test."""

WAKE_UPS_A_SECOND = 3.0
"""Each member wakes up for its claim, and perhaps once more to wait for the interpreter."""

WAKE_UPS_BESIDES = 8
"""For renewing a lease, on a thread of its own that waits for the disk, in the time of a test."""

DESCRIPTORS_MAX = 30
"""The file, its log and shared memory, for a few connections; the life, the bell, the event loop; and a life of each peer."""

THREADS_MAX = 6
"""The loop; for each member a lease; the rings; the one that waits for the disk; and one for each peer, to hear of its death."""

MEMORY_KIB_MAX = 64 * 1024
"""What Python, its asyncio and sqlite3, msgspec and Perdure take on a usual machine is half of that."""

CPU_SHARE_MAX = 0.02
"""Of one processor."""


class Usage(NamedTuple):
    """What a process has used so far."""

    at_s: float
    statements: int
    claims: int
    wake_ups: int
    cpu_s: float


def usage(stage: ProcessDirectory, process: RealProcess) -> Usage:
    """What it has used so far."""
    tasks = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    counted = counts(stage.directory, process.pid)
    return Usage(time.monotonic(), counted.statements, counted.claims, sum(status(task, "voluntary_ctxt_switches") for task in tasks), cpu_s)


@pytest.mark.slow
@pytest.mark.parametrize(("peers", "members"), [pytest.param(0, 1, id="alone", marks=pytest.mark.prove), pytest.param(2, 2, id="with a worker, beside two")])
def test_an_idle_process_keeps_its_budget(tmp_path: Path, peers: int, members: int) -> None:
    with ProcessDirectory(tmp_path) as stage:
        queues = [PRESS] * (members - 1)
        processes = [stage.member("engine", counted=True, queues=queues) for _ in range(1 + peers)]
        for process in processes:
            process.until_said("ready")
        time.sleep(SETTLE_S)
        for _ in range(TRIES):
            before = [usage(stage, process) for process in processes]
            time.sleep(MEASURE_S)
            after = [usage(stage, process) for process in processes]
            excess = [what for one in zip(processes, before, after, strict=True) for what in over_budget(*one, members, peers)]
            if not excess:
                break
        assert not excess
        for process in processes:
            process.end()
            assert process.complained.count("\n") <= 2, process.complained


def over_budget(process: RealProcess, start: Usage, end: Usage, members: int, peers: int) -> list[str]:
    """Of what a process has used more from `start` to `end` than its budget allows."""
    passed_s = end.at_s - start.at_s
    claims, statements, wake_ups = end.claims - start.claims, end.statements - start.statements, end.wake_ups - start.wake_ups
    cpu, memory_kib, threads = (end.cpu_s - start.cpu_s) / passed_s, status(process.pid, "VmRSS"), status(process.pid, "Threads")
    descriptors = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
    record(
        f"idle, {members} member(s) beside {peers} processes: {claims / passed_s:.1f} claims, {statements / passed_s:.1f} statements, "
        f"{wake_ups / passed_s:.1f} wake-ups a second; {descriptors} descriptors, {threads} threads, {memory_kib / 1024:.0f} MiB, {cpu:.2%} of a processor"
    )
    budget = {
        "claims": (claims, CLAIMS_A_SECOND * members * passed_s + 1),
        "statements": (statements, claims * STATEMENTS_A_CLAIM + STATEMENTS_BESIDES * members),
        "wake-ups": (wake_ups, members * (WAKE_UPS_A_SECOND * passed_s + WAKE_UPS_BESIDES)),
        "descriptors": (descriptors, DESCRIPTORS_MAX),
        "threads": (threads, THREADS_MAX + members + peers),
        "KiB of memory": (memory_kib, MEMORY_KIB_MAX),
        "of a processor": (cpu, CPU_SHARE_MAX),
    }
    return [f"{used:.3g} {what}, {most:.3g} at most" for what, (used, most) in budget.items() if used > most]
