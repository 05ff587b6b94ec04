"""The simulator: engines that crash, freeze and are cut off, on one store, in virtual time, by seed; and what must be true nevertheless.

    python -m tests.proof.simulator --seed 7

A world runs random programs to their end while its engines are killed between any two calls of the store and started again. Each
change is audited as it is written; at the end the results are those that the oracle predicts, and no effect happened once too often.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import get_args

import msgspec

from perdure.core import compaction, limits
from perdure.core.errors import StoreUnavailable
from perdure.testing.faults import Killed
from perdure.testing.virtual_time import VirtualLoop
from tests.proof.auditor import listening
from tests.proof.disks import Disk, MemoryDisk, PostgresDisk, SqliteDisk
from tests.proof.program_nodes import Program
from tests.proof.simulated_cases import CodeCase
from tests.proof.simulation import Simulation, SimulationCase
from tests.proof.world_options import Kind, Options, drawn
from tests.stores.servers import postgres

POSTGRES = "PERDURE_TEST_POSTGRES_URL"
"""The variable that names the server of worlds in Postgres; without it, each starts one."""

__all__ = ["Options", "SimulationReport", "drawn", "simulate"]


class SimulationReport(msgspec.Struct, frozen=True):
    """What came of a world: `problems` is empty if all was as it must be; `digest` is that of every row that was written.

    `form` is what kind of world it is, as it is given to the command.
    """

    seed: int
    options: Options
    problems: tuple[str, ...]
    digest: str
    counts: dict[str, int]
    virtual_s: float
    form: str = ""

    @property
    def command(self) -> str:
        """How to see it again."""
        flags = {
            "--always-suspend": self.options.always_suspend,
            "--no-faults": not self.options.troubled,
            f"--store {self.options.store}": self.options.store != "memory",
        }
        words = ["python -m tests.proof.simulator", *([self.form] if self.form else []), "--seed", str(self.seed)]
        return " ".join([*words, *(flag for flag, given in flags.items() if given)])


def simulate(programs: Program | Sequence[Program], seed: int, options: Options) -> SimulationReport:
    """Run `programs` to their end in a world drawn from `seed`; the same arguments give the same report, in every process."""
    several = [programs] if isinstance(programs, Program) else programs
    return run(lambda simulation: [CodeCase(simulation, number, program) for number, program in enumerate(several)], seed, options)


def run(made: Callable[[Simulation], Sequence[SimulationCase]], seed: int, options: Options) -> SimulationReport:
    """Run cases to their end in a world drawn from `seed`."""
    loop = VirtualLoop(Random(f"{seed}: order"), handles_max=400_000)
    began_s = loop.now_s
    with _disk(options) as disk:
        simulation = Simulation(made, seed, options, loop, disk)
        problems = simulation.auditor.problems
        with listening(problems), _tuned(options):
            try:
                loop.run_until_complete(simulation.run())
            except RuntimeError as error:
                problems.append(f"the world stopped: {error}")
            virtual_s = loop.now_s - began_s
            try:
                loop.close()
            except BaseExceptionGroup as others:
                problems += [f"nobody received {error!r}" for error in others.exceptions if not isinstance(error, Killed | StoreUnavailable)]
    return SimulationReport(seed, options, tuple(problems), simulation.auditor.digest.hexdigest(), _counted(simulation), virtual_s)


def _counted(simulation: Simulation) -> dict[str, int]:
    counts = simulation.counts + simulation.auditor.counts
    counts["kills"] = simulation.kills
    counts["effects"] = sum(sum(case.world.effects.values()) for case in simulation.cases)
    counts["interruptions"] = sum(simulation.auditor.interruptions.values()) - counts["given back"]
    handed = simulation.store.lines.handed
    counts["handed over"], counts["handed over again"] = len(handed), handed.total() - len(handed)
    counts["zombies"] = sum(simulation.auditor.zombies.values())
    return dict(sorted(counts.items()))


@contextmanager
def _disk(options: Options) -> Iterator[Disk]:
    """Where the store of the world is kept while it lasts."""
    with ExitStack() as left:
        if options.store == "memory":
            disk: Disk = MemoryDisk(options.reaches)
        elif options.store == "postgres":
            disk = PostgresDisk(os.environ.get(POSTGRES) or left.enter_context(postgres()).url)
        else:
            disk = SqliteDisk(Path(left.enter_context(TemporaryDirectory(prefix="perdure-simulator-"))))
        left.callback(disk.close)
        yield disk


@contextmanager
def _tuned(options: Options) -> Iterator[None]:
    """Have logs compacted when few of their events are dead, as small worlds have few; and where trouble is over at once, nobody waits after it."""
    before = compaction.DEAD_EVENTS_MIN, limits.INTERRUPTION_WAIT_S
    compaction.DEAD_EVENTS_MIN, limits.INTERRUPTION_WAIT_S = options.compact_from, 0.0 if options.at_once else limits.INTERRUPTION_WAIT_S
    try:
        yield
    finally:
        compaction.DEAD_EVENTS_MIN, limits.INTERRUPTION_WAIT_S = before


def _of(seed: int, given: argparse.Namespace) -> SimulationReport:
    """The report of a seed, in a world as it is asked for."""
    if given.definitions:
        from tests.proof.definitions.simulated_definitions import drawn_definitions, simulate_definitions  # here, as it needs what runs definitions

        plans, options = drawn_definitions(seed, faults=not given.no_faults, always_suspend=given.always_suspend, store=given.store)
        return simulate_definitions(plans, seed, options)
    programs, options = drawn(seed, faults=not given.no_faults, always_suspend=given.always_suspend, store=given.store)
    return simulate(programs, seed, options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the world of a seed, or worlds until one has a problem, and print what came of it; 1 if something was not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.simulator", description="Run a simulated world, and say what came of it.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--worlds", type=int, default=1, help="this seed and so many more")
    parser.add_argument("--definitions", action="store_true", help="random definitions, in place of random programs")
    parser.add_argument("--always-suspend", action="store_true", help="every commit evicts, and the next message replays")
    parser.add_argument("--no-faults", action="store_true", help="nothing bad happens")
    parser.add_argument("--store", choices=get_args(Kind), default="memory", help="what the world is kept in; only in memory does anything leave a reach")
    given = parser.parse_args(arguments)
    begun_s, counts = time.perf_counter(), Counter[str]()
    for seed in range(given.seed, given.seed + given.worlds):
        report = _of(seed, given)
        if given.worlds == 1 or report.problems:
            sys.stdout.write(f"{msgspec.json.format(msgspec.json.encode(report)).decode()}\n{report.command}\n")
        if report.problems:
            return 1
        counts.update(report.counts)
    took_s = time.perf_counter() - begun_s
    if given.worlds > 1:
        sys.stdout.write(f"{given.worlds} worlds from seed {given.seed} as predicted, in {took_s:.1f} s: {counts['kills']} crashes, ")
        sys.stdout.write(f"{counts['kills'] / took_s * 60:,.0f} a minute; {counts['commits']} commits, {counts['interruptions']} interruptions\n")
        if given.definitions:
            told = ", ".join(f"{counts[what]} {what}" for what in ("definitions", "zombies", "cancelled", "patched", "refused"))
            sys.stdout.write(f"{told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
