"""Measure 5: a process with 1,000 executions in flight is killed with -9, and another takes over. Times count from the kill."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench._bench import Bench
from bench._lines import Line, Wanted
from bench._side import Side

STEPS = 2
"""How many steps each execution has before and after the one that is interrupted."""

FIRST_S, ALL_S = Wanted(1.0, of="value"), Wanted(3.0, of="value")

EXECUTIONS = 1000
Begin = Callable[[Path], Side]
Times = tuple[float, float]


def recovery(bench: Bench) -> Iterator[Line]:
    """By a process that was already running, and by one that is started after the kill."""
    fresh = [_killed(bench.ours, bench.place(), EXECUTIONS, running=False) for _ in bench.turns(bench.few)]
    theirs = [_killed(bench.theirs, bench.place(), bench.size(EXECUTIONS, 100), running=False)] if bench.peer else []
    yield from _lines("another process, started then", fresh, bench.fewer(EXECUTIONS, 100), theirs)
    yield from _lines("another process, already running", [_killed(bench.ours, bench.place(), EXECUTIONS, running=True) for _ in bench.turns(bench.few)])


def _lines(what: str, mine: list[Times], against: str = "", theirs: Sequence[Times] = ()) -> Iterator[Line]:
    for part, (until, wanted) in enumerate((("first step", FIRST_S), ("all have ended", ALL_S))):
        said = f"kill -9, {EXECUTIONS:,} in flight; {what}: {until}"
        yield Line(5, said, "s", [one[part] for one in mine], against, [one[part] for one in theirs], wanted=wanted)


def _killed(begin: Begin, place: Path, executions: int, running: bool) -> Times:
    """Kill, and have it taken over; the seconds from the kill to the first of the steps that were interrupted, and to the end of all."""
    victim = begin(place)
    try:
        victim.ask("open")
        heir = begin(place) if running else None
        if heir is not None:
            heir.ask("open")
        victim.ask("hold", executions=executions, steps=STEPS)
        if heir is not None:
            heir.tell("recovered", executions=executions)
            time.sleep(1.0)
    finally:
        killed_s = victim.kill()
    with heir or begin(place) as taker:
        if heir is None:
            taker.ask("open")
            taker.tell("recovered", executions=executions)
        first_s, done_s = taker.answer()
    return first_s - killed_s, done_s - killed_s
