"""Perdure on Postgres beside DBOS, Absurd, Procrastinate and Sayiir on the same server, each beside the server's own limit in the same run.

    python bench/postgres.py [--quick] [--rounds N] [--only NAME,...] [--sides NAME,...] [--server 15|16|18] [--no-pin] [--json FILE]

In each round the server's own rate is measured first, by pgbench with prepared statements: one-row commits on one or on 16 connections. Then each side has
its turn, in fresh processes on a new database of the same server, so that whatever else the machine does hits all. A share is the median over the rounds of
Perdure's rate by the server's, or of the time of a step by that of a commit; a ratio is how many times better Perdure is. The exit code is 1 if a floor is not
met.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench._pg_server import LIMITS, BenchServer, bench_server
from bench._pg_workloads import OF_PEERS, PERDURE, WORKLOADS, Contender, Floor, Turn, peers
from bench._side import SideFailed
from tests.stores.servers import VERSION, VERSIONS

SERVER = "server"


@dataclass
class Measured:
    """The values of a workload, by contender and round; beside them, by name, the limits of the server in each round."""

    workload: str
    values: dict[str, list[Sequence[float]]] = field(default_factory=dict)
    limits: dict[str, list[float]] = field(default_factory=dict)

    def of(self, contender: str, figure: int) -> list[float]:
        """The values of one figure, round by round."""
        return [values[figure] for values in self.values.get(contender, ())]


def measure(workload: str, server: BenchServer, contenders: Sequence[Contender], rounds: int, quick: bool) -> Measured:
    """Take turns. A side that fails is left out of the rest, so that every side that is left has as many rounds as the limit."""
    found = Measured(workload, {one.name: [] for one in contenders if workload in one.able})
    limits = {figure.limit for figure in WORKLOADS[workload].figures if figure.limit}
    for each in range(rounds):
        for name in limits:
            found.limits.setdefault(name, []).append(server.limit(name, 2 if quick else 4))
        for contender in contenders:
            if contender.name in found.values:
                try:
                    with server.database() as url:
                        found.values[contender.name].append(WORKLOADS[workload].take(contender, Turn(server, url, quick)))
                except SideFailed as failed:
                    print(f"{workload}: {contender.name} failed in round {each + 1}: {failed}", file=sys.stderr)
                    del found.values[contender.name]
    return found


def lines(measured: Measured) -> list[dict[str, Any]]:
    """A line for each figure, as a program reads it."""
    made = []
    for index, figure in enumerate(WORKLOADS[measured.workload].figures):
        mine = measured.of(PERDURE.name, index)
        limit = measured.limits.get(figure.limit, [])
        shares = [figure.compared(value, its) for value, its in zip(mine, limit, strict=False)]
        made.append(
            {
                "workload": measured.workload,
                "what": figure.what,
                "unit": figure.unit,
                "limit": {"of": LIMITS[figure.limit].what, "values": limit} if figure.limit else None,
                "perdure": mine,
                "shares": shares,
                "peers": {name: measured.of(name, index) for name in measured.values if name != PERDURE.name},
                "wanted": wanted(figure.floor),
                "verdict": verdict(figure.floor, mine, shares),
            }
        )
    return made


def wanted(floor: Floor | None) -> str:
    """The floor and the goal, for people to read."""
    if floor is None:
        return ""
    bound = f"{'≥' if floor.at == 'least' else '≤'} {floor.bound:g}"
    return bound + (f", goal {floor.goal}" if floor.goal else "")


def verdict(floor: Floor | None, values: Sequence[float], shares: Sequence[float]) -> str:
    """Whether the floor is met; what was not measured is not."""
    if floor is None:
        return ""
    measured = shares if floor.of == "limit" else values
    if not measured:
        return "NOT MET (not measured)"
    value = median(measured)
    return "met" if (value >= floor.bound if floor.at == "least" else value <= floor.bound) else "NOT MET"


def table(found: Sequence[dict[str, Any]], contenders: Sequence[Contender]) -> str:
    """A row for each figure: the server, Perdure and its share, each peer and how many times better Perdure is, the floor, and whether it is met."""
    names = [one.name for one in contenders if one.name != PERDURE.name]
    rows = [["workload", SERVER, PERDURE.name, "of the server", *names, "wanted", ""]]
    for line in found:
        limit = f"{number(median(line['limit']['values']))}/s" if line["limit"] and line["limit"]["values"] else ""
        mine = number(median(line["perdure"])) if line["perdure"] else ""
        unit = "×" if line["unit"] == "ms" else ""
        share = f"{median(line['shares']):.2f}{unit} ({min(line['shares']):.2f}–{max(line['shares']):.2f})" if line["shares"] else ""
        theirs = [peer_cell(line, name) for name in names]
        rows.append([f"{line['what']} ({line['unit']})", limit, mine, share, *theirs, line["wanted"], line["verdict"]])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    written = ["| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in rows]
    written.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(written)


def peer_cell(line: dict[str, Any], name: str) -> str:
    """The median of a peer, and the median over the rounds of how many times better Perdure is."""
    theirs: list[float] = line["peers"].get(name, [])
    if not theirs:
        return ""
    is_rate = line["unit"].endswith("/s")
    ratios = [mine / its if is_rate else its / mine for mine, its in zip(line["perdure"], theirs, strict=False)]
    return f"{number(median(theirs))}" + (f" = {number(median(ratios))}×" if ratios else "")


def number(value: float) -> str:
    """Three digits that count, or all in front of the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def server_limits(server: BenchServer, rounds: int, quick: bool) -> list[str]:
    """All limits of the server, for the heading."""
    found = {name: [server.limit(name, 2 if quick else 4) for _ in range(rounds)] for name in LIMITS}
    return [
        f"the server alone, {LIMITS[name].what}: {number(median(values))}/s ({number(min(values))} to {number(max(values))})" for name, values in found.items()
    ]


def options() -> argparse.Namespace:
    """What was asked for."""
    sides = [name.lower() for name in OF_PEERS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less of everything, two rounds, one where a turn takes long")
    parser.add_argument("--rounds", type=int, help="how often each side has its turn (default: 5)")
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"the workloads to take, of {', '.join(WORKLOADS)}")
    parser.add_argument("--sides", default=",".join(sides), metavar="NAME,...", help=f"the peers, of {', '.join(sides)}; empty for none")
    parser.add_argument("--server", default=VERSION, choices=VERSIONS, help=f"the version of the server (default: {VERSION})")
    parser.add_argument("--no-pin", action="store_true", help="let all processes use all processors")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value there as well")
    asked = parser.parse_args()
    for unknown in (one for one in asked.only.split(",") if one and one not in WORKLOADS):
        parser.error(f"argument --only: there is no workload {unknown!r}; choose from {', '.join(WORKLOADS)}")
    for unknown in (one for one in asked.sides.split(",") if one and one not in sides):
        parser.error(f"argument --sides: there is no side {unknown!r}; choose from {', '.join(sides)}")
    return asked


def run(asked: argparse.Namespace, server: BenchServer) -> list[dict[str, Any]]:
    """Measure and print."""
    contenders = [PERDURE, *(one for one in peers(asked.server) if one.name.lower() in asked.sides.split(","))]
    rounds = asked.rounds or (2 if asked.quick else 5)
    said = [f"Python {platform.python_version()}, {platform.system()} {platform.machine()}", *server.heading(), *server_limits(server, 1, asked.quick)]
    print("\n".join(said), flush=True)
    found: list[dict[str, Any]] = []
    for workload in [one for one in asked.only.split(",") if one] or list(WORKLOADS):
        begun_s = time.monotonic()
        its_rounds = min(rounds, 1 if asked.quick else 3) if WORKLOADS[workload].is_long else rounds
        found += lines(measure(workload, server, contenders, its_rounds, asked.quick))
        print(f"{workload}: {its_rounds} rounds, {time.monotonic() - begun_s:.0f} s", file=sys.stderr, flush=True)
        if asked.json:
            asked.json.write_text(json.dumps({"heading": said, "lines": found}, indent=1) + "\n")
    print(f"\n{table(found, contenders)}")
    return found


def main() -> None:
    """Measure; end with 1 if a floor is not met."""
    asked = options()
    try:
        with bench_server(asked.server, pin=not asked.no_pin) as server:
            found = run(asked, server)
    except pytest.skip.Exception as missing:
        sys.exit(f"{missing}")
    missed = [line["what"] for line in found if line["verdict"].startswith("NOT MET")]
    if missed:
        sys.exit(f"floors that are not met: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
