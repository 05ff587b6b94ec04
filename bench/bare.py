"""Perdure as a share of the limit: the least that makes steps durable on this machine, beside Perdure's public API, DBOS and Restate.

    python bench/bare.py [--rounds N] [--only NAME,...] [--sides NAME,...] [--patience SECONDS] [--json FILE]

The limit is `bench/_bare.py`: one table of SQLite, one asyncio loop, group commit. In each round each side has its turn, in fresh
processes on a fresh file, so that whatever else the machine does hits all. A share is the median over the rounds of Perdure's rate
by that of the limit, or of the limit's time by Perdure's: 1 would be as fast as nothing but the disk, asyncio and SQLite allow.
Peers that are not installed are left out; `make bench` installs them.
"""

import argparse
import json
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench._bench import peer_python
from bench._disk import Calm, described
from bench._side import ROOT, Side, SideFailed

EXECUTIONS, SHORT, STEPS, BRANCHES, LONG = 1000, 10, 100, 100, 10_000
LATENCIES = 300
LEFT = 5
"""How many steps each execution has left when its process is killed."""
WARMING = 12
"""After so many executions of 100 steps a write-ahead log has its full size, and is written over again: see `Bench.sides`."""


@dataclass(frozen=True)
class Contender:
    """One of those that are compared, in the workloads of which it is `able`.

    `flow` is its workflow of sequential steps, `executions` how many of it run at once. One that `notices_deaths` takes over by itself.
    """

    name: str
    python: Path
    program: str
    durability: str
    able: frozenset[str]
    flow: str = "count"
    executions: int = EXECUTIONS
    notices_deaths: bool = True

    def begin(self, place: Path) -> Side:
        """A new process on the database at `place`."""
        return Side(str(self.python), self.program, [str(place)])


@dataclass(frozen=True)
class Workload:
    """What is measured: `take` returns a value for each of `figures`, each with its unit. More of a rate is better, less of a time."""

    figures: tuple[tuple[str, str], ...]
    take: Callable[[Contender, Path], Sequence[float]]


def at_once(contender: Contender, place: Path, flow: str = "") -> list[float]:
    """Many short executions."""
    with contender.begin(place) as side:
        side.ask("open")
        side.ask("together", name=flow or contender.flow, argument=SHORT, executions=100)
        took_s = side.ask("together", name=flow or contender.flow, argument=SHORT, executions=contender.executions)
    return [contender.executions * SHORT / took_s]


def sequential_on_new_file(contender: Contender, place: Path) -> list[float]:
    """The first execution of a file, by a process that has run others."""
    with contender.begin(place) as side:
        side.ask("open")
        side.ask("one_by_one", name=contender.flow, argument=STEPS, times=3)
        side.ask("move", path=str(place.with_suffix(".new.db")))
        (took_s,) = side.ask("one_by_one", name=contender.flow, argument=STEPS, times=1)
    return [STEPS / took_s]


def sequential_on_warm_file(contender: Contender, place: Path) -> list[float]:
    """Executions of a file that has seen many."""
    with contender.begin(place) as side:
        side.ask("open")
        side.ask("one_by_one", name=contender.flow, argument=STEPS, times=WARMING)
        return [STEPS / median(side.ask("one_by_one", name=contender.flow, argument=STEPS, times=5))]


def latency(contender: Contender, place: Path) -> list[float]:
    """Executions of one step, one after the other."""
    with contender.begin(place) as side:
        side.ask("open")
        side.ask("one_by_one", name=contender.flow, argument=1, times=LATENCIES)
        return p50_and_p99_ms(side.ask("one_by_one", name=contender.flow, argument=1, times=LATENCIES))


def latency_from_client(contender: Contender, place: Path) -> list[float]:
    """The same, started in another process than the one that runs them."""
    with contender.begin(place) as engine, contender.begin(place) as client:
        engine.ask("open", clients=True)
        client.ask("from_client", argument=1, times=50)
        return p50_and_p99_ms(client.ask("from_client", argument=1, times=LATENCIES))


def fan_out(contender: Contender, place: Path) -> list[float]:
    """One execution with many steps beside each other."""
    flow = "mapped" if contender.name == "DBOS" else "joined"
    with contender.begin(place) as side:
        side.ask("open")
        side.ask("one_by_one", name=flow, argument=BRANCHES, times=5)
        return [median(side.ask("one_by_one", name=flow, argument=BRANCHES, times=5)) * 1000]


def takeover_by_running(contender: Contender, place: Path) -> list[float]:
    """A process with many executions in flight is killed; the time until another one that runs already has ended them all. The limit is told of the death."""
    with contender.begin(place) as heir:
        heir.ask("open")
        with held_up(contender, place) as victim:
            if contender.notices_deaths:
                heir.tell("recovered", executions=EXECUTIONS)
            time.sleep(1.0)
            killed_s = victim.kill()
        if not contender.notices_deaths:
            heir.tell("recovered", executions=EXECUTIONS)
        _, ended_s = heir.answer()
    return [float(ended_s) - killed_s]


def takeover_by_new(contender: Contender, place: Path) -> list[float]:
    """The same by a process that is started after the kill."""
    with held_up(contender, place) as victim:
        killed_s = victim.kill()
    with contender.begin(place) as heir:
        heir.ask("open")
        _, ended_s = heir.ask("recovered", executions=EXECUTIONS)
    return [float(ended_s) - killed_s]


@contextmanager
def held_up(contender: Contender, place: Path) -> Iterator[Side]:
    """A process in which each execution waits in a step for ever; it is killed in any case."""
    victim = contender.begin(place)
    try:
        victim.ask("open")
        victim.ask("hold", executions=EXECUTIONS, steps=LEFT - 1)
        yield victim
    finally:
        victim.kill()


def reading_back(contender: Contender, place: Path) -> list[float]:
    """Read what one execution has recorded; Perdure replays its code over it."""
    with contender.begin(place) as side:
        side.ask("open")
        side.ask("grow", steps=LONG)
        return [median(side.ask("reread") for _ in range(3))]


def nodes(contender: Contender, place: Path) -> list[float]:
    """The same as `at_once` with a record for each node of a definition."""
    return at_once(contender, place, "nodes")


def p50_and_p99_ms(values_s: Sequence[float]) -> list[float]:
    """Both, in milliseconds."""
    return [median(values_s) * 1000, quantiles(values_s, n=100)[98] * 1000]


WORKLOADS = {
    "at-once": Workload(((f"{EXECUTIONS:,} executions × {SHORT} steps, at once", "steps/s"),), at_once),
    "sequential-new": Workload(((f"1 execution × {STEPS} steps, new file", "steps/s"),), sequential_on_new_file),
    "sequential": Workload(((f"1 execution × {STEPS} steps, warm write-ahead log", "steps/s"),), sequential_on_warm_file),
    "latency": Workload((("start to result of 1 step, p50", "ms"), ("start to result of 1 step, p99", "ms")), latency),
    "client": Workload((("the same from another process, p50", "ms"), ("the same from another process, p99", "ms")), latency_from_client),
    "fan-out": Workload(((f"fan-out of {BRANCHES} steps", "ms"),), fan_out),
    "takeover": Workload(((f"kill -9, {EXECUTIONS:,} executions with {LEFT} steps left; ended by a running process", "s"),), takeover_by_running),
    "takeover-new": Workload(((f"kill -9, {EXECUTIONS:,} executions with {LEFT} steps left; ended by a new process", "s"),), takeover_by_new),
    "reading": Workload(((f"read back {LONG:,} steps", "s"),), reading_back),
    "nodes": Workload(((f"{EXECUTIONS:,} executions × {SHORT} nodes, at once", "nodes/s"),), nodes),
}

PYTHON = Path(sys.executable)
SQLITE = "SQLite, WAL, synchronous=FULL"
OF_SYNC = frozenset({"at-once", "sequential-new", "sequential", "latency"})
OF_PEERS = frozenset({"at-once", "sequential", "latency", "client"})
BARE = Contender("bare", PYTHON, "_bare.py", SQLITE, frozenset(WORKLOADS), notices_deaths=False)
PERDURE = Contender("Perdure", PYTHON, "_public.py", SQLITE, frozenset(WORKLOADS))
SYNC = Contender("Perdure, sync steps", PYTHON, "_public.py", SQLITE, OF_SYNC, flow="count_in_threads")


def peers() -> list[Contender]:
    """Those that are installed; says which are not."""
    found = []
    dbos, restate = peer_python(), ROOT / ".venv-restate"
    if dbos is None:
        print("DBOS is left out: it is not installed. Run `make .venv-bench/.peers`, or name a Python that has it in PERDURE_BENCH_PEER.", file=sys.stderr)
    else:
        found.append(Contender("DBOS", Path(dbos), "_peer.py", SQLITE, OF_PEERS | {"fan-out", "takeover-new"}, executions=100))
    if not (restate / ".peer").exists():
        print("Restate is left out: it is not installed. Run `make .venv-restate/.peer`, which needs pip and npm.", file=sys.stderr)
    else:
        found.append(Contender("Restate", restate / "bin" / "python", "_restate.py", "RocksDB, fsync of each batch of the log", OF_PEERS))
    return found


Values = dict[str, list[list[float]]]
"""By contender, the values of each round."""


def measure(workload: str, contenders: Sequence[Contender], directory: Path, rounds: int, calm: Calm) -> Values:
    """Take turns. A side that fails is left out of the rest, so that every side that is left has as many rounds as the limit."""
    found: Values = {one.name: [] for one in contenders if workload in one.able}
    for each in range(rounds):
        calm.wait()
        for contender in contenders:
            if contender.name not in found:
                continue
            with tempfile.TemporaryDirectory(dir=directory) as place:
                try:
                    found[contender.name].append(list(WORKLOADS[workload].take(contender, Path(place) / "bench.db")))
                except SideFailed as failed:
                    print(f"{workload}: {contender.name} failed in round {each + 1}: {failed}", file=sys.stderr)
                    del found[contender.name]
    return found


def shares(unit: str, values: Sequence[float], limit: Sequence[float]) -> list[float]:
    """What of the limit was reached, round by round."""
    return [mine / its if unit.endswith("/s") else its / mine for mine, its in zip(values, limit, strict=True)]


def lines(workload: str, found: Values) -> list[dict[str, Any]]:
    """A line for each figure and side, as a program reads it."""
    made: list[dict[str, Any]] = []
    for index, (what, unit) in enumerate(WORKLOADS[workload].figures):
        by_side = {name: [values[index] for values in rounds] for name, rounds in found.items()}
        limit = by_side.get(BARE.name)
        for name, values in by_side.items():
            share = shares(unit, values, limit) if limit is not None and name != BARE.name else []
            made.append({"workload": workload, "what": what, "unit": unit, "side": name, "values": values, "shares": share})
    return made


def table(found: Sequence[dict[str, Any]], sides: Sequence[str]) -> str:
    """A row for each figure, a column for each side; behind Perdure's values, what they are of the limit."""
    rows = [["workload", *sides]]
    for what in dict.fromkeys(line["what"] for line in found):
        cells = {line["side"]: cell(line) for line in found if line["what"] == what}
        unit = next(line["unit"] for line in found if line["what"] == what)
        rows.append([f"{what} ({unit})", *(cells.get(side, "") for side in sides)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    written = ["| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in rows]
    written.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(written)


def cell(line: dict[str, Any]) -> str:
    """The median of a side, and its share of the limit: median, least and greatest."""
    value, share = number(median(line["values"])), line["shares"]
    return f"{value} = {median(share):.3f} ({min(share):.3f}–{max(share):.3f})" if share else value


def number(value: float) -> str:
    """Three digits that count, or all in front of the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def heading(directory: Path, contenders: Sequence[Contender]) -> list[str]:
    """The machine, and what durable means on each side."""
    system = f"{platform.system()} {platform.machine()}, {described(directory)}"
    return [
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {system}",
        *(f"{one.name}: {one.durability}" for one in contenders),
        "Behind a value: its share of the limit (least to greatest of the rounds).",
    ]


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each side has its turn (default: 5)")
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"the workloads to take, of {', '.join(WORKLOADS)}")
    parser.add_argument("--sides", default="", metavar="NAME,...", help="the sides to compare with the limit, of perdure, sync, dbos, restate (default: all)")
    parser.add_argument("--patience", type=float, default=0.0, metavar="SECONDS", help="how long to wait before each round for a machine that is calm")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value there as well")
    asked = parser.parse_args()
    for unknown in (one for one in asked.only.split(",") if one and one not in WORKLOADS):
        parser.error(f"argument --only: there is no workload {unknown!r}; choose from {', '.join(WORKLOADS)}")
    for unknown in (one for one in asked.sides.split(",") if one and one not in ("perdure", "sync", "dbos", "restate")):
        parser.error(f"argument --sides: there is no side {unknown!r}; choose from perdure, sync, dbos, restate")
    return asked


def chosen_sides(names: str) -> list[Contender]:
    """The limit, and those that were asked for."""
    wanted = names.split(",") if names else ["perdure", "sync", "dbos", "restate"]
    mine = [one for name, one in (("perdure", PERDURE), ("sync", SYNC)) if name in wanted]
    others = peers() if {"dbos", "restate"} & set(wanted) else []
    return [BARE, *mine, *(one for one in others if one.name.lower() in wanted)]


def main() -> None:
    """Measure and print."""
    asked = options()
    contenders = chosen_sides(asked.sides)
    (ROOT / "build").mkdir(exist_ok=True)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as directory:
        calm = Calm(Path(directory), asked.patience)
        said = heading(Path(directory), contenders)
        print("\n".join(said), flush=True)
        for workload in [one for one in asked.only.split(",") if one] or list(WORKLOADS):
            begun_s = time.monotonic()
            found += lines(workload, measure(workload, contenders, Path(directory), asked.rounds, calm))
            print(f"{workload}: {time.monotonic() - begun_s:.0f} s", file=sys.stderr, flush=True)
            if asked.json:
                asked.json.write_text(json.dumps({"heading": said, "lines": found}, indent=1) + "\n")
    print(f"\n{table(found, [one.name for one in contenders])}")


if __name__ == "__main__":
    main()
