"""The simulator: engines that crash, freeze and are cut off, on one store, in virtual time, by seed; and what must be true nevertheless.

    python -m perdure.testing.simulator --seed 7

A world runs random programs to their end while its engines are killed between any two calls of the store and started again. Each
change is audited as it is written; at the end the results are those that the oracle predicts, and no effect happened once too often.
"""

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

import msgspec

from perdure.core import compact
from perdure.core.errors import StoreUnavailable
from perdure.testing.faults import Faults, Killed
from perdure.testing.nodes import Program
from perdure.testing.programs import generate
from perdure.testing.simulation import Options, Simulation
from perdure.testing.virtual import VirtualLoop

__all__ = ["Options", "Report", "drawn", "simulate"]


class Report(msgspec.Struct, frozen=True):
    """What came of a world: `problems` is empty if all was as it must be; `digest` is that of every row that was written."""

    seed: int
    options: Options
    problems: tuple[str, ...]
    digest: str
    counts: dict[str, int]
    virtual_s: float

    @property
    def command(self) -> str:
        """How to see it again."""
        flags = f"{' --always-suspend' if self.options.always_suspend else ''}{'' if self.options.troubled else ' --no-faults'}"
        return f"python -m perdure.testing.simulator --seed {self.seed}{flags}"


def simulate(programs: Program | Sequence[Program], seed: int, options: Options) -> Report:
    """Run `programs` to their end in a world drawn from `seed`; the same arguments give the same report, in every process."""
    loop = VirtualLoop(Random(f"{seed}: order"), handles_max=400_000)
    began_s = loop.now_s
    simulation = Simulation([programs] if isinstance(programs, Program) else programs, seed, options, loop)
    problems = simulation.auditor.problems
    with _listening(problems), _compacting(options.compact_from):
        try:
            loop.run_until_complete(simulation.run())
        except RuntimeError as error:
            problems.append(f"the world stopped: {error}")
        virtual_s = loop.now_s - began_s
        try:
            loop.close()
        except BaseExceptionGroup as others:
            problems += [f"nobody received {error!r}" for error in others.exceptions if not isinstance(error, Killed | StoreUnavailable)]
    counts = simulation.counts + simulation.auditor.counts
    counts["kills"] = simulation.kills
    counts["effects"] = sum(sum(case.world.effects.values()) for case in simulation.cases)
    counts["interruptions"] = sum(simulation.auditor.interruptions.values())
    counts["zombies"] = sum(simulation.auditor.zombies.values())
    return Report(seed, options, tuple(problems), simulation.auditor.digest.hexdigest(), dict(sorted(counts.items())), virtual_s)


def drawn(seed: int, *, faults: bool = True, always_suspend: bool = False) -> tuple[list[Program], Options]:
    """The programs and the world that a seed stands for."""
    rng = Random(f"{seed}: world")
    programs = [generate(rng, rng.choice((3, 6, 10, 20))) for _ in range(rng.choice((1, 1, 2)))]
    engines, reaches = rng.choice((2, 2, 3)), rng.choice((1, 1, 3))
    if not faults:
        return programs, Options(engines=engines, reaches=reaches, always_suspend=always_suspend)
    rate = rng.choice((0.0, 0.01, 0.05))
    kills = rng.choice((0.0, 0.02, 0.05, 0.15))

    def now_and_then(*every_s: float) -> float:
        return rng.choice((0.0, *every_s))

    return programs, Options(
        engines=engines,
        reaches=reaches,
        always_suspend=always_suspend,
        faults=Faults(
            fail_before=rate,
            fail_after=rate,
            failing=frozenset(rng.choice(((), (), ("commit",), ("commit", "read", "blob"), ("claim",), ("renew",)))),
            delay=rng.choice((0.0, 0.1, 0.5)),
            resend=rng.choice((0.0, 0.1, 0.5)),
            lose_ring=rng.choice((0.0, 0.3)),
            kill_before=kills,
            kill_after=kills,
            freeze=rng.choice((0.0, 0.0, 0.01)),
        ),
        kills_max=rng.choice((10, 30, 60)),
        kill_every_s=now_and_then(0.3, 2.0, 10.0),
        stop_every_s=now_and_then(5.0, 30.0),
        blackouts_at_s=rng.choice(((), (), (), (rng.uniform(0.0, 30.0),))),
        epoch_every_s=now_and_then(0.0, 20.0),
        stray_every_s=now_and_then(0.5, 3.0),
        cancel_after_s=rng.choice((None, None, None, None, None, None, None, rng.uniform(0.0, 20.0))),
    )


@contextmanager
def _listening(problems: list[str]) -> Iterator[None]:
    """Take what engines report as defects for problems, and the rest of what they log for noise."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            if not isinstance(error, Killed) and len(problems) < 20:
                problems.append(f"{record.getMessage()}: {error!r}")

    logger, listener = logging.getLogger("perdure"), Listener(logging.ERROR)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
        logger.propagate = propagate


@contextmanager
def _compacting(dead_events: int) -> Iterator[None]:
    """Have logs compacted when few of their events are dead; small worlds have few."""
    before = compact.DEAD_EVENTS_MIN
    compact.DEAD_EVENTS_MIN = dead_events
    try:
        yield
    finally:
        compact.DEAD_EVENTS_MIN = before


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the world of a seed, or worlds until one has a problem, and print what came of it; 1 if something was not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.simulator", description="Run a simulated world, and say what came of it.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--worlds", type=int, default=1, help="this seed and so many more")
    parser.add_argument("--always-suspend", action="store_true", help="every commit evicts, and the next message replays")
    parser.add_argument("--no-faults", action="store_true", help="nothing bad happens")
    given = parser.parse_args(arguments)
    begun_s, counts = time.perf_counter(), Counter[str]()
    for seed in range(given.seed, given.seed + given.worlds):
        programs, options = drawn(seed, faults=not given.no_faults, always_suspend=given.always_suspend)
        report = simulate(programs, seed, options)
        if given.worlds == 1 or report.problems:
            sys.stdout.write(f"{msgspec.json.format(msgspec.json.encode(report)).decode()}\n{report.command}\n")
        if report.problems:
            return 1
        counts.update(report.counts)
    took_s = time.perf_counter() - begun_s
    if given.worlds > 1:
        sys.stdout.write(f"{given.worlds} worlds from seed {given.seed} as predicted, in {took_s:.1f} s: {counts['kills']} crashes, ")
        sys.stdout.write(f"{counts['kills'] / took_s * 60:,.0f} a minute; {counts['commits']} commits, {counts['interruptions']} interruptions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
