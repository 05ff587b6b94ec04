"""Measure 7: how fast a long history is replayed cold, and whether steps become dearer as it grows."""

from collections.abc import Iterator

from bench._bench import Bench
from bench._lines import Line, Wanted
from bench._side import Side

WINDOW = 100


def replay(bench: Bench) -> Iterator[Line]:
    """Grow a history, then read, fold and replay it."""
    steps = bench.size(10_000, 5_000)
    first, last, rates = list[float](), list[float](), list[float]()
    with bench.ours(bench.place()) as ours:
        ours.ask("open")
        for _ in bench.turns(bench.few):
            one, other = ours.ask("grow", steps=steps, window=WINDOW)
            first.append(one)
            last.append(other)
            rates += ours.ask("replay", times=3)
    theirs = [_theirs(bench, bench.size(2000, 200))] if bench.peer else []
    what = f"cold replay of {steps:,} steps"
    yield Line(7, what, "steps/s", rates, "DBOS", theirs, "theirs", Wanted(100_000, of="value", at="least"))
    yield Line(7, f"the last {WINDOW} of {steps:,} steps", "steps/s", last, f"the first {WINDOW}", first, wanted=Wanted(1.25))


def _theirs(bench: Bench, steps: int) -> float:
    place = bench.place()
    victim: Side = bench.theirs(place)
    victim.ask("open")
    victim.ask("hold", executions=1, steps=steps)
    victim.kill()
    with bench.theirs(place) as heir:
        heir.ask("open")
        return float(heir.ask("replayed", steps=steps))
