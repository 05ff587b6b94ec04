"""Worlds of definitions, by seed: several random ones beside each other, on engines that die before and after calls of the store.

In every other world trouble takes no time, so that any definition comes to what is predicted of it, whatever hangs on times; in the others it takes what it
takes, and only definitions run there that come to the same however late all is. Where trouble takes no time, all that was asked for and all that came of it
is also what it is where there is none, but for steps whose process dies in their grace.
"""

from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from perdure.testing.faults import Faults
from tests.proof.definitions.cases import DefinitionCase, made
from tests.proof.definitions.comparison import differs_from_undisturbed
from tests.proof.definitions.plans import CasePlan, drawn_plan
from tests.proof.simulation import Simulation, SimulationCase
from tests.proof.simulator import SimulationReport, run
from tests.proof.world_options import Kind, Options, drawn

DAY_S = 86_400.0
AT_ONCE_S, LATE_S = 0.02, 300.0
"""How much later than predicted anything may be, where trouble takes no time and where it takes time."""

MOMENT_S = 0.0002
"""How long anything takes where trouble takes no time."""

SIZES = (3, 5, 8, 12)


def drawn_definitions(seed: int, *, faults: bool = True, always_suspend: bool = False, store: Kind = "memory") -> tuple[list[CasePlan], Options]:
    """The definitions and the world that a seed stands for."""
    random = Random(f"{seed}: definitions")
    at_once = random.random() < 0.5
    plans = [drawn_plan(random, random.choice(SIZES), AT_ONCE_S if at_once else LATE_S) for _ in range(random.randint(1, 4))]
    if at_once:
        options = Options(engines=random.choice((2, 2, 3)), store=store, always_suspend=always_suspend, at_once=True, lease_s=10 * DAY_S, poll_s=DAY_S)
        return plans, _troubled(options, random) if faults else options
    _, options = drawn(seed, faults=faults, always_suspend=always_suspend, store=store)
    return plans, replace(options, cancel_after_s=None, deploys_at_s=(), lines=(), workers=0)


def _troubled(calm: Options, random: Random) -> Options:
    kills = random.choice((0.0, 0.02, 0.05, 0.1))

    def now_and_then(*every_s: float) -> float:
        return random.choice((0.0, *every_s))

    return replace(
        calm,
        faults=Faults(
            delay=random.choice((0.0, 0.1, 0.5)),
            delay_max_s=MOMENT_S,
            resend=random.choice((0.0, 0.1, 0.5)),
            kill_before=kills,
            kill_after=kills,
            freeze=random.choice((0.0, 0.01, 0.05)),
            freeze_min_s=MOMENT_S / 2,
            freeze_max_s=MOMENT_S,
        ),
        kills_max=random.choice((20, 40, 80)),
        trouble_s=DAY_S,
        kill_every_s=now_and_then(3.0, 20.0),
        stop_every_s=now_and_then(10.0, 60.0),
        stray_every_s=now_and_then(1.0, 10.0),
        pause_every_s=now_and_then(3.0, 20.0),
        evict_every_s=now_and_then(1.0, 10.0),
        down_max_s=MOMENT_S,
        pause_max_s=MOMENT_S,
    )


def simulate_definitions(plans: Sequence[CasePlan], seed: int, options: Options) -> SimulationReport:
    """Run definitions to their end in a world drawn from `seed`; where trouble takes no time, run them where there is none too, and compare."""
    cases, report = _run(plans, seed, options)
    counts = report.counts | {"definitions": len(plans)}
    report = replace(report, counts=counts, form="--definitions")
    if report.problems or not options.at_once or not options.troubled:
        return report
    calm = Options(engines=1, at_once=True, lease_s=options.lease_s, poll_s=options.poll_s, compact_from=options.compact_from)
    others, undisturbed = _run([plan._replace(patches=(), cancel_s=None) for plan in plans], seed, calm)
    problems = list(undisturbed.problems)
    for case, other in zip(cases, others, strict=True):
        if not (case.taken or case.is_cancelled or case.is_discarded):
            problems += [f"{case.key}: {one}" for one in differs_from_undisturbed(case.events, other.events)]
    return replace(report, problems=tuple(problems))


def _run(plans: Sequence[CasePlan], seed: int, options: Options) -> tuple[list[DefinitionCase], SimulationReport]:
    cases: list[DefinitionCase] = []

    def make(simulation: Simulation) -> Sequence[SimulationCase]:
        cases.extend(made(simulation, plans))
        return cases

    return cases, run(make, seed, options)
