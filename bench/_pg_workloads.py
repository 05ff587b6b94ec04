"""What `bench/postgres.py` measures, and of whom: the measures of docs/benchmarks.md (W1 to W7), each on a new database."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Literal

from bench._bench import peer_python
from bench._pg_server import CLIENT_PROCESSOR, SERVER_PROCESSOR, BenchServer, processors
from bench._side import ROOT, Side

EXECUTIONS, SHORT, STEPS, BRANCHES = 1000, 10, 100, 100
LEFT = 5
"""How many steps each execution has left when its process is killed."""


@dataclass(frozen=True)
class Contender:
    """One of those that are compared, in the workloads of which it is `able`.

    `slow` says that it would take minutes for 1,000 executions, and gets 100 instead. `fan_out` is its workflow with steps beside each other.
    """

    name: str
    python: str
    program: str
    able: frozenset[str]
    fan_out: str = "joined"
    slow: bool = False

    def begin(self, url: str) -> Side:
        """A new process on the database at `url`."""
        return Side(self.python, self.program, [url])


@dataclass(frozen=True)
class Turn:
    """What a workload is given: the server, a new database in it, and how much to do."""

    server: BenchServer
    url: str
    quick: bool

    def size(self, full: int, quick: int) -> int:
        """How much to do."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Floor:
    """What Perdure has to hold, and a goal: of the value compared with the server's limit, or of the value itself. `at` says to which side."""

    bound: float
    at: Literal["least", "most"]
    of: Literal["limit", "value"] = "limit"
    goal: str = ""


@dataclass(frozen=True)
class Figure:
    """One value that a workload returns, a rate or a time. `limit` names that of the server with which it is compared."""

    what: str
    unit: str
    limit: str = ""
    floor: Floor | None = None

    def compared(self, value: float, limit: float) -> float:
        """What of the server's rate was reached, or how many of its commits the time would suffice for."""
        return value / 1000 * limit if self.unit == "ms" else value / limit


@dataclass(frozen=True)
class Workload:
    """`take` returns a value for each of `figures`. More of a rate is better, less of a time."""

    figures: tuple[Figure, ...]
    take: Callable[[Contender, Turn], Sequence[float]]
    is_long: bool = False


def sequential(contender: Contender, turn: Turn) -> list[float]:
    """One execution after the other: the milliseconds of a step."""
    with contender.begin(turn.url) as side:
        side.ask("open")
        side.ask("one_by_one", name="count", argument=STEPS, times=1)
        return [median(side.ask("one_by_one", name="count", argument=STEPS, times=turn.size(5, 3))) * 1000 / STEPS]


def at_once(contender: Contender, turn: Turn) -> list[float]:
    """Many short executions, by one engine."""
    executions = EXECUTIONS // 10 if contender.slow or (turn.quick and contender is not PERDURE) else EXECUTIONS
    with contender.begin(turn.url) as side:
        side.ask("open")
        side.ask("together", name="count", argument=SHORT, executions=executions // 10)
        taken_s = side.ask("together", name="count", argument=SHORT, executions=executions)
    return [executions * SHORT / taken_s]


def at_once_by_two(contender: Contender, turn: Turn) -> list[float]:
    """The same by two engines, each of which starts half of them; both may run any. They may use the processor of the server too."""
    both = {SERVER_PROCESSOR, CLIENT_PROCESSOR} if turn.server.is_pinned else None
    with ExitStack() as stack:
        with processors(both):
            sides = [stack.enter_context(contender.begin(turn.url)) for _ in range(2)]
        for side in sides:
            side.ask("open")
        for executions in (EXECUTIONS // 10, EXECUTIONS):
            begun_s = time.monotonic()
            for side in sides:
                side.tell("together", name="count", argument=SHORT, executions=executions // 2)
            for side in sides:
                side.answer()
            taken_s = time.monotonic() - begun_s
    return [EXECUTIONS * SHORT / taken_s]


def latency(contender: Contender, turn: Turn) -> list[float]:
    """Executions of one step, one after the other."""
    with contender.begin(turn.url) as side:
        side.ask("open")
        side.ask("one_by_one", name="count", argument=1, times=20)
        return p50_and_p99_ms(side.ask("one_by_one", name="count", argument=1, times=turn.size(200, 50)))


def latency_from_client(contender: Contender, turn: Turn) -> list[float]:
    """The same, started in another process than the one that runs them."""
    with contender.begin(turn.url) as engine, contender.begin(turn.url) as client:
        engine.ask("open", clients=True)
        client.ask("from_client", argument=1, times=20)
        return p50_and_p99_ms(client.ask("from_client", argument=1, times=turn.size(200, 50)))


def fan_out(contender: Contender, turn: Turn) -> list[float]:
    """One execution with many steps beside each other."""
    with contender.begin(turn.url) as side:
        side.ask("open")
        side.ask("one_by_one", name=contender.fan_out, argument=BRANCHES, times=2)
        return [median(side.ask("one_by_one", name=contender.fan_out, argument=BRANCHES, times=5)) * 1000]


def takeover_by_running(contender: Contender, turn: Turn) -> list[float]:
    """A process with many executions in flight is killed; the time until another one that runs already has ended them all."""
    with contender.begin(turn.url) as heir:
        heir.ask("open")
        with held_up(contender, turn) as victim:
            heir.tell("recovered", executions=turn.size(EXECUTIONS, 200))
            time.sleep(1.0)
            killed_s = victim.kill()
        _, ended_s = heir.answer()
    return [float(ended_s) - killed_s]


def takeover_by_new(contender: Contender, turn: Turn) -> list[float]:
    """The same by a process that is started after the kill."""
    with held_up(contender, turn) as victim:
        killed_s = victim.kill()
    with contender.begin(turn.url) as heir:
        heir.ask("open")
        _, ended_s = heir.ask("recovered", executions=turn.size(EXECUTIONS, 200))
    return [float(ended_s) - killed_s]


@contextmanager
def held_up(contender: Contender, turn: Turn) -> Iterator[Side]:
    """A process in which each execution waits in a step for ever; it is killed in any case."""
    victim = contender.begin(turn.url)
    try:
        victim.ask("open")
        victim.ask("hold", executions=turn.size(EXECUTIONS, 200), steps=LEFT - 1)
        yield victim
    finally:
        victim.kill()


def parked(contender: Contender, turn: Turn) -> list[float]:
    """The processor time of engine and server with very many parked executions, above that with none, and how fast they were parked."""
    seconds = turn.size(20, 10)
    without = _idle_cpu_percent(contender, turn, seconds)
    executions = turn.size(100_000, 5_000)
    with contender.begin(turn.url) as side:
        side.ask("open")
        parking_s = side.ask("park", executions=executions)
    database = turn.url.rpartition("/")[2]
    turn.server.server.sql("VACUUM ANALYZE", database)
    turn.server.server.sql("CHECKPOINT")
    with_them = _idle_cpu_percent(contender, turn, seconds)
    return [with_them, without, max(with_them - without, 0.0), executions / parking_s]


def _idle_cpu_percent(contender: Contender, turn: Turn, seconds: int) -> float:
    """What an engine without work, and the server, use of a processor."""
    with contender.begin(turn.url) as side:
        side.ask("open")
        time.sleep(2.0)
        begun_s, server_s, side_s = time.monotonic(), turn.server.cpu_s(), side.ask("cpu_s")
        time.sleep(seconds)
        used_s = turn.server.cpu_s() - server_s + side.ask("cpu_s") - side_s
        return float(used_s / (time.monotonic() - begun_s) * 100)


def reading(contender: Contender, turn: Turn) -> list[float]:
    """Replay the code of a long execution over what it has recorded."""
    steps = turn.size(10_000, 500)
    with contender.begin(turn.url) as side:
        side.ask("open")
        side.ask("grow", steps=steps)
        return [steps / median(side.ask("reread") for _ in range(3))]


def p50_and_p99_ms(values_s: Sequence[float]) -> list[float]:
    """Both, in milliseconds."""
    return [median(values_s) * 1000, quantiles(values_s, n=100)[98] * 1000]


WORKLOADS = {
    "sequential": Workload((Figure(f"W1 1 execution × {STEPS} steps, a step", "ms", "one", Floor(2.0, "most", goal="1.4")),), sequential),
    "at-once": Workload((Figure(f"W2 {EXECUTIONS:,} executions × {SHORT} steps, 1 engine", "steps/s", "sixteen", Floor(0.3, "least")),), at_once),
    "two-engines": Workload(
        (Figure(f"W2 {EXECUTIONS:,} executions × {SHORT} steps, 2 engines", "steps/s", "sixteen", Floor(0.5, "least", goal="15,000/s")),), at_once_by_two
    ),
    "latency": Workload((Figure("W3 start to result of 1 step, p50", "ms", "one"), Figure("W3 start to result of 1 step, p99", "ms")), latency),
    "client": Workload((Figure("W3 from another process, p50", "ms", "one"), Figure("W3 from another process, p99", "ms")), latency_from_client),
    "fan-out": Workload((Figure(f"W4 fan-out of {BRANCHES} steps", "ms"),), fan_out),
    "takeover": Workload((Figure(f"W5 kill -9 in flight, {LEFT} steps left; ended by a running process", "s"),), takeover_by_running, is_long=True),
    "takeover-new": Workload((Figure(f"W5 kill -9 in flight, {LEFT} steps left; ended by a new process", "s"),), takeover_by_new, is_long=True),
    "parked": Workload(
        (
            Figure("W6 an idle engine and the server, very many parked", "% CPU"),
            Figure("W6 the same, none parked", "% CPU"),
            Figure("W6 what the parked cost", "% CPU", floor=Floor(0.5, "most", "value")),
            Figure("W6 executions parked", "per s", "sixteen"),
        ),
        parked,
        is_long=True,
    ),
    "reading": Workload((Figure("W7 replay of a long execution", "steps/s"),), reading, is_long=True),
}

PERDURE = Contender("Perdure", sys.executable, "_public.py", frozenset(WORKLOADS))
OF_PEERS = {
    "DBOS": ("dbos", "_peer.py", frozenset({"sequential", "at-once", "latency", "client", "fan-out", "takeover-new"})),
    "Absurd": ("absurd_sdk", "_pg_absurd.py", frozenset({"sequential", "at-once", "latency", "client"})),
    "Procrastinate": ("procrastinate", "_pg_procrastinate.py", frozenset({"sequential", "at-once", "latency"})),
    "Sayiir": ("sayiir", "_pg_sayiir.py", frozenset({"sequential", "at-once", "latency", "client"})),
}
"""The package of each peer, its program, and the workloads that it has."""


def peers(version: str) -> list[Contender]:
    """Those that are installed and run on this server; says which do not."""
    python, found = peer_python(), []
    if python is None:
        print(f"{', '.join(OF_PEERS)} are left out: run `make .venv-bench/.peers`, or name a Python that has them in PERDURE_BENCH_PEER.", file=sys.stderr)
        return []
    packages = next(Path(python).parent.parent.glob("lib/python*/site-packages"), ROOT)
    for name, (package, program, able) in OF_PEERS.items():
        if not (packages / package).exists():
            print(f"{name} is left out: {package} is not in {packages}; run `rm -f .venv-bench/.peers; make .venv-bench/.peers`.", file=sys.stderr)
        elif name == "Sayiir" and version != "15":
            print("Sayiir is left out: it needs the extension pgcrypto, which the server of the wheel lacks. --server 15 has it.", file=sys.stderr)
        else:
            found.append(Contender(name, python, program, able, fan_out="mapped", slow=name in ("DBOS", "Procrastinate")))
    return found
