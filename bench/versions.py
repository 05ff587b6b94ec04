"""What a step, an execution, a node and a replayed step cost in this version of Perdure, beside another version, by turns.

    python -m bench.versions OTHER_PYTHON [--pairs 15] [--only WORDS]

`OTHER_PYTHON` is the Python of an environment in which the other version is installed; without one, there is nothing to measure.
Each version works in one process, and the two take turns of a second or less, so that whatever else the machine does hits both; a ratio is the median
of those of the pairs. The processor's time is what to compare: the wall's has the disk and the neighbours in it.
"""

import argparse
import statistics
import sys
from typing import NamedTuple

from bench._side import Side


class Unit(NamedTuple):
    """What is counted, the method of `_version.Version` that does it, and how often in a turn."""

    name: str
    method: str
    times: int


UNITS = (
    Unit("a step, one execution", "one_by_one", 500),
    Unit("a step, many executions", "together", 1000),
    Unit("an execution of one step", "executions", 300),
    Unit("a node of a definition", "nodes", 600),
    Unit("a step that is replayed", "replayed", 1000),
)


def pairs(other: Side, mine: Side, unit: Unit, count: int) -> tuple[list[list[float]], list[list[float]]]:
    """What each turn of both took, wall and processor, in seconds a unit."""
    theirs, ours = list[list[float]](), list[list[float]]()
    for number in range(count + 1):
        turns = [(other, theirs), (mine, ours)]
        for side, found in turns if number % 2 else reversed(turns):
            found.append(side.ask(unit.method, times=unit.times))
    return theirs[1:], ours[1:]  # the first pair was to warm up


def shown(unit: Unit, theirs: list[list[float]], ours: list[list[float]]) -> str:
    """A line of the table."""
    parts = [f"{unit.name:26}"]
    for which in (0, 1):
        other_us, mine_us = (statistics.median(one[which] for one in found) * 1e6 for found in (theirs, ours))
        ratios = sorted(mine[which] / other[which] for mine, other in zip(ours, theirs, strict=True))
        quarter = len(ratios) // 4
        spread = f"({ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f})"
        parts.append(f"{other_us:8.1f} {mine_us:8.1f}   {statistics.median(ratios):.3f} {spread}")
    return "   ".join(parts)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", help="the Python that has the other version")
    parser.add_argument("--pairs", type=int, default=15, help="how many turns each has")
    parser.add_argument("--only", default="", help="only units whose names have this in them")
    options = parser.parse_args()
    if options.other is None:
        print("versions: no other version is given, so nothing is measured; name its Python: python -m bench.versions OTHER_PYTHON")
        return
    print(f"microseconds a unit, medians of {options.pairs} pairs; a ratio is the median of those of the pairs, with its middle half")
    print(f"{'':26}   {'wall: other':>11} {'this':>5}   {'ratio':24}   {'CPU: other':>10} {'this':>6}   ratio")
    with Side(options.other, "_version.py", []) as other, Side(sys.executable, "_version.py", []) as mine:
        for unit in (unit for unit in UNITS if options.only in unit.name):
            print(shown(unit, *pairs(other, mine, unit, options.pairs)), flush=True)


if __name__ == "__main__":
    main()
