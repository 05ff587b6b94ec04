"""Perdure beside DBOS Transact and beside the bare disk: one run on one machine, medians and ratios, everything durable.

    python bench/compare.py [--quick] [--only 1,5] [--rounds N] [--patience SECONDS] [--json FILE]

The sides take turns within each measure, so that whatever else the machine does hits both. A ratio says how many times better than
DBOS, or how many times the limit's time. What is wanted stands beside it. `PERDURE_BENCH_PEER` names the Python that has DBOS (by
default that of `.venv-bench`); without one, the rest runs.
"""

import argparse
import json
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench._bench import Bench, peer_python
from bench._disk import ROW_BYTES, Calm, Disk, described
from bench._latency import latency
from bench._lines import Line, table
from bench._parked import parked
from bench._recovery import recovery
from bench._replay import replay
from bench._side import ROOT, SideFailed
from bench._throughput import branches, concurrent, sequential

MEASURES: dict[int, Callable[[Bench], Iterator[Line]]] = {
    1: sequential,
    2: concurrent,
    3: latency,
    4: branches,
    5: recovery,
    6: parked,
    7: replay,
}


def heading(bench: Bench) -> list[str]:
    """The machine, and how durable is durable on each side."""
    disk = Disk(bench.place())
    commit_us = median(disk.commits_s(500, ROW_BYTES)) * 1e6
    append_us = median(disk.appends_s(500, ROW_BYTES)) * 1e6
    said = [
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.machine()}, {described(bench.directory)}",
        f"disk: {ROW_BYTES} bytes committed in SQLite ({disk.journal_mode}, synchronous={disk.synchronous}) {commit_us:.0f} µs; fdatasync {append_us:.0f} µs",
    ]
    disk.close()
    place = bench.place()
    with bench.ours(place) as ours:
        ours.ask("open")
        said.append(f"Perdure: {ours.ask('about')}")
    if bench.peer is None:
        return [*said, "DBOS: not installed; PERDURE_BENCH_PEER names a Python that has it"]
    with bench.theirs(bench.place()) as theirs:
        theirs.ask("open")
        return [*said, f"DBOS: {theirs.ask('about')}"]


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less of everything, in under two minutes")
    parser.add_argument("--only", default="", help="the numbers of the measures to take, such as 1,5")
    parser.add_argument("--rounds", type=int, help="how often each side has its turn")
    parser.add_argument("--patience", type=float, default=0.0, metavar="SECONDS", help="how long to wait before each round for a machine that is calm")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value there as well")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    asked = options()
    chosen = [int(one) for one in asked.only.split(",") if one] or list(MEASURES)
    (ROOT / "build").mkdir(exist_ok=True)
    found: list[Line] = []
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as directory:
        rounds, few = (asked.rounds or (3 if asked.quick else 5)), 1 if asked.quick else 3
        bench = Bench(Path(directory), peer_python(), asked.quick, rounds, few, Calm(Path(directory), asked.patience))
        said = heading(bench)
        print("\n".join(said), end="\n\n", flush=True)
        for one in chosen:
            begun, lines = time.monotonic(), list[Line]()
            try:
                lines.extend(MEASURES[one](bench))
            except SideFailed as failed:
                print(f"measure {one} was not taken to its end: {failed}", file=sys.stderr)
            print(f"{table(lines)}\n\nmeasure {one}: {time.monotonic() - begun:.0f} s\n", flush=True)
            found += lines
            if asked.json:
                written: dict[str, Any] = {"heading": said, "lines": [line.data() for line in found]}
                asked.json.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
