"""Measure 3: from the start of a one-step workflow to its result, in this process and from a client in another."""

from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median, quantiles

from bench._bench import Bench
from bench._disk import Disk
from bench._lines import Line, Wanted
from bench._side import Side

TURN = 25
"""How many are measured before the other side has its turn."""

SYNC_STEP_MS = 0.1
"""What a thread may cost beyond the commits."""


Rounds = list[list[float]]


def latency(bench: Bench) -> Iterator[Line]:
    """Start to result in one process with an engine that runs."""
    with bench.sides() as (ours, peer, disk):
        for name, kind, allowed_ms in (("count", "async", 0.0), ("count_in_threads", "sync", SYNC_STEP_MS)):
            mine, limit, theirs = _by_turns(bench, ours, peer, disk, name)
            middle = [median(part) for part in mine]
            commit = [median(part) for part in limit]
            less = "" if not allowed_ms else f" less {allowed_ms} ms for the thread"
            what = f"start to result, 1 {kind} step"
            yield Line(3, f"{what}, p50", "ms", middle, "DBOS", [median(part) for part in theirs])
            yield Line(3, f"{what}, p50{less}", "ms", [value - allowed_ms for value in middle], "one commit", commit, "theirs", Wanted(4.0))
            yield Line(3, f"{what}, p99", "ms", [_p99(part) for part in mine], "DBOS", [_p99(part) for part in theirs])
            yield Line(3, f"{what}, p99", "ms", [_p99(part) for part in mine], "one commit, p99", [_p99(part) for part in limit], "theirs")
    yield from _from_clients(bench)


def _by_turns(bench: Bench, ours: Side, peer: Side | None, disk: Disk, name: str) -> tuple[Rounds, Rounds, Rounds]:
    """The milliseconds of each side, round by round."""
    _ = _asked_ms(ours, "one_by_one", TURN, name=name)
    row_bytes = ours.ask("row_bytes")
    mine, limit, theirs = Rounds(), Rounds(), Rounds()
    for _ in bench.turns(bench.rounds):
        one, other, third = list[float](), list[float](), list[float]()
        for _ in range(bench.size(16, 8)):
            one += _asked_ms(ours, "one_by_one", TURN, name=name)
            other += [commit_s * 1000 for commit_s in disk.commits_s(TURN, row_bytes)]
            third += _asked_ms(peer, "one_by_one", TURN, name=name) if peer is not None else []
        mine.append(one)
        limit.append(other)
        theirs += [third] if third else []
    return mine, limit, theirs


def _from_clients(bench: Bench) -> Iterator[Line]:
    """The same from a client in a process of its own, with one worker that is idle otherwise, and by turns with two on one file."""
    its_place, theirs = bench.place(), Rounds()
    mine, of_two = Rounds(), Rounds()
    with ExitStack() as stack:
        clients = [_client_of(bench, stack, workers) for workers in (1, 2)]
        for _ in bench.turns(bench.rounds):
            for client, found in zip(clients, (mine, of_two), strict=True):
                found.append(_asked_ms(client, "from_client", bench.size(200, 50)))
    if bench.peer is not None:
        with bench.theirs(its_place) as engine, bench.theirs(its_place) as client:
            engine.ask("open", clients=True)
            for _ in bench.turns(bench.rounds):
                theirs.append(_asked_ms(client, "from_client", bench.size(100, 30)))
    what = "start to result from another process, 1 async step"
    yield Line(3, f"{what}, p50", "ms", [median(part) for part in mine], "DBOS", [median(part) for part in theirs])
    yield Line(3, f"{what}, p99", "ms", [_p99(part) for part in mine], "DBOS", [_p99(part) for part in theirs])
    yield Line(3, f"{what}, two workers on one file, p50", "ms", [median(part) for part in of_two], "with one", [median(part) for part in mine], "theirs")
    yield Line(3, f"{what}, two workers on one file, p99", "ms", [_p99(part) for part in of_two], "with one", [_p99(part) for part in mine], "theirs")


def _client_of(bench: Bench, stack: ExitStack, workers: int) -> Side:
    """A client of so many workers on a file of their own."""
    place = bench.place()
    for _ in range(workers):
        stack.enter_context(bench.ours(place)).ask("open")
    client = stack.enter_context(bench.ours(place))
    _ = _asked_ms(client, "from_client", TURN)
    return client


def _asked_ms(side: Side, do: str, times: int, **how: str) -> list[float]:
    """The milliseconds that each of so many executions of one step took."""
    return [value_s * 1000 for value_s in side.ask(do, argument=1, times=times, **how)]


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100)[98]
