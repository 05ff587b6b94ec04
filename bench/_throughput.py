"""Measures 1, 2 and 4: steps one after the other, many executions at once, and many branches in one."""

from collections.abc import Iterator
from statistics import median

from bench._bench import Bench
from bench._disk import Disk
from bench._lines import Line, Wanted
from bench._side import Side

STEPS = 100
EXECUTIONS, SHORT = 1000, 10
TURNS = 5
"""How often the sides take turns within a round, so that the noise of a second hits both."""


def sequential(bench: Bench) -> Iterator[Line]:
    """One execution of 100 trivial steps: nothing to share a commit with, so the disk is the limit."""
    with bench.sides() as (ours, peer, disk):
        for name, kind in (("count", "async"), ("count_in_threads", "sync")):
            rounds = [_sequential_round(ours, peer, disk, name) for _ in bench.turns(bench.rounds)]
            mine, limit, theirs = [one[0] for one in rounds], [one[1] for one in rounds], [one[2] for one in rounds if one[2]]
            wanted = Wanted(2.0, 1.5) if kind == "async" else None
            what = f"1 execution × {STEPS} {kind} steps"
            yield Line(1, what, "steps/s", mine, "disk, one commit after the other", limit, wanted=wanted)
            yield Line(1, what, "steps/s", mine, "DBOS", theirs, per="theirs")


def _sequential_round(ours: Side, peer: Side | None, disk: Disk, name: str) -> tuple[float, float, float]:
    mine, limit, theirs = list[float](), list[float](), list[float]()
    row_bytes = ours.ask("row_bytes")
    for _ in range(TURNS):
        mine += ours.ask("one_by_one", name=name, argument=STEPS, times=3)
        limit.append(sum(disk.commits_s(STEPS, row_bytes)))
        if peer is not None:
            theirs += peer.ask("one_by_one", name=name, argument=STEPS, times=1)
    return STEPS / median(mine), STEPS / median(limit), STEPS / median(theirs) if theirs else 0.0


def concurrent(bench: Bench) -> Iterator[Line]:
    """1,000 executions of 10 steps at once: what is durable together is committed together."""
    for name, kind, floor in (("count", "async", 8000), ("count_in_threads", "sync", 5000)):
        mine, theirs = list[float](), list[float]()
        with bench.sides() as (ours, peer, _):
            _ = _rate(ours, name, 100)
            for _ in bench.turns(bench.few):
                mine += [_rate(ours, name, EXECUTIONS) for _ in range(3)]
                if peer is not None:
                    theirs.append(_rate(peer, name, bench.size(EXECUTIONS, 100)))
        what = f"{EXECUTIONS:,} executions × {SHORT} {kind} steps"
        yield Line(2, what, "steps/s", mine, wanted=Wanted(floor, 15_000, "value", "least"))
        yield Line(2, what, "steps/s", mine, bench.fewer(EXECUTIONS, 100), theirs, "theirs", Wanted(10, at="least"))


def _rate(side: Side, name: str, executions: int) -> float:
    """The steps per second of so many executions at once."""
    return executions * SHORT / float(side.ask("together", name=name, argument=SHORT, executions=executions))


def branches(bench: Bench) -> Iterator[Line]:
    """Map and join of 100 and 1,000 branches of a step: the cost of a branch must not grow with their number."""
    with bench.sides() as (ours, peer, _):
        for name in ("mapped", "joined"):
            few, many = list[float](), list[float]()
            theirs = {100: list[float](), 1000: list[float]()}
            for _ in bench.turns(bench.rounds):
                few.append(100 / median(ours.ask("one_by_one", name=name, argument=100, times=5)))
                many.append(1000 / median(ours.ask("one_by_one", name=name, argument=1000, times=3)))
                if peer is not None and name == "mapped":
                    for count, rates in theirs.items():
                        rates.append(count / peer.ask("together", name=name, argument=count, executions=1))
            verb = "map" if name == "mapped" else "join"
            for count, mine in ((100, few), (1000, many)):
                yield Line(4, f"{verb} of {count:,} branches of 1 step", "steps/s", mine, "DBOS" if theirs[count] else "", theirs[count], "theirs")
            yield Line(4, f"{verb}: a branch of 1,000, in branches of 100", "steps/s", many, f"{verb} of 100", few, "ours", Wanted(1.5))
