"""Measure 6: what a parked execution costs, in the store and in memory, and what 100,000 of them cost the others."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench._bench import Bench
from bench._lines import Line, Wanted

CLAIMS = 20


def parked(bench: Bench) -> Iterator[Line]:
    """Park very many; measure with them and with none."""
    executions = bench.size(100_000, 10_000)
    place, empty = bench.place(), bench.place()
    with bench.ours(empty) as side:
        side.ask("open")
    with bench.ours(place) as side:
        side.ask("open")
        parking_s = side.ask("park", executions=executions)
    yield Line(6, f"park {executions:,} executions", "executions/s", [executions / parking_s])
    theirs = list(_theirs(bench))
    size_bytes = (_size_bytes(place) - _size_bytes(empty)) / executions
    yield Line(6, "a parked execution: store", "bytes", [size_bytes], "DBOS", theirs[:1], wanted=Wanted(2048, of="value"))
    starts, without, memories, memories_without = list[float](), list[float](), list[float](), list[float]()
    for _ in bench.turns(bench.rounds):
        for where, started, memory in ((place, starts, memories), (empty, without, memories_without)):
            with bench.ours(where) as side:
                started.append(side.ask("open") * 1000)
                memory.append(float(side.ask("memory_when_quiet")))
    each = [(one - other) / executions for one, other in zip(memories, memories_without, strict=True)]
    yield Line(6, f"a parked execution: memory of an engine ({executions:,}, less none)", "bytes", each, "DBOS", theirs[1:], wanted=Wanted(20, of="value"))
    yield Line(6, f"engine ready, {executions:,} parked", "ms", starts, "with none", without, "theirs")
    yield from _waking(bench, place, executions)


def _waking(bench: Bench, place: Path, executions: int) -> Iterator[Line]:
    with bench.ours(place) as side:
        claims = [value * 1000 for value in side.ask("claim", ids=list(range(1, 1 + CLAIMS)))]
    yield Line(6, f"claim one that becomes due, among {executions:,}", "ms", claims, wanted=Wanted(1.0, of="value"))
    with bench.ours(place) as side:
        side.ask("open")
        released = [value * 1000 for value in side.ask("release", ids=list(range(executions - CLAIMS, executions)))]
    yield Line(6, f"message to one that is parked to its step, among {executions:,}", "ms", released)


def _theirs(bench: Bench) -> Iterator[float]:
    """The bytes of store and of memory of each, of fewer."""
    if bench.peer is None:
        return
    executions, place = bench.size(1000, 200), bench.place()
    side = bench.theirs(place)
    side.ask("open")
    before, before_bytes = side.ask("memory"), _size_bytes(place)
    side.ask("park", executions=executions)
    memory_bytes = (side.ask("memory") - before) / executions
    side.kill()
    yield (_size_bytes(place) - before_bytes) / executions
    yield memory_bytes


def _size_bytes(place: Path) -> int:
    """The size of a database, with nothing left in its write-ahead log."""
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return place.stat().st_size
