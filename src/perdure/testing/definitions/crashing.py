"""Every write: a definition runs undisturbed, and then again and again in worlds of its own, the process killed at another of its durable writes each time.

What is due at a crash goes on at the same moment in another process, so the same is predicted of each.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from perdure.testing.definitions.comparing import differs
from perdure.testing.definitions.endless import unbounded
from perdure.testing.definitions.generator import Case, random_case
from perdure.testing.definitions.running import DoesNotEnd, WorldRunner
from perdure.testing.definitions.steady import steady
from perdure.testing.moments import around
from perdure.testing.verdicts import Verdict

LATE_S = 0.02
"""How much it may change the time of anything that somebody took over."""


class Crashed(NamedTuple):
    """How many writes there were undisturbed, in how many worlds a process was killed at one, and the `problems`."""

    writes: int
    worlds: int
    problems: tuple[str, ...]


def steady_case(seed: int, size: int, late_s: float = LATE_S, order: str = "") -> Case:
    """The first case of this seed of which the same is predicted if all takes up to `late_s` longer."""
    random = Random(f"{seed}: steady")
    while True:
        case = random_case(random, size, order)
        if random.random() < 0.5:
            case = unbounded(case) or case
        if steady(case.definition, case.script, case.prediction, random, late_s):
            return case


def crashed_everywhere(case: Case, *, always_suspend: bool = False, twice: bool = False) -> Crashed:
    """Run it undisturbed, then once for each of its writes, killed before it, and once killed after it."""
    undisturbed = WorldRunner(always_suspend=always_suspend, twice=twice)
    problems = list(_problems(case, undisturbed, "undisturbed"))
    if problems:
        return Crashed(0, 0, tuple(problems))
    worlds = 0
    for crash in around(undisturbed.writes):
        runner = WorldRunner(always_suspend=always_suspend, twice=twice, crash=crash)
        problems += _problems(case, runner, f"killed {crash}")
        worlds += 1
        if not runner.reached:
            problems.append(f"killed {crash}: that was not reached, of {len(undisturbed.writes)} writes")
    return Crashed(len(undisturbed.writes), worlds, tuple(problems))


def _problems(case: Case, runner: WorldRunner, how: str) -> Iterator[str]:
    try:
        facts = runner.run(case.definition, case.script)
    except (DoesNotEnd, Verdict) as error:
        yield f"{how}: {error}"
        return
    yield from (f"{how}: {difference}" for difference in differs(case.prediction, facts))
