"""Runs a test once undisturbed, and then in fresh worlds whose process is killed at one durable write each.

Each run has its own fixtures. The undisturbed run is reported, unless another one fails: then the first failure is, with the number of failures, what was
being written when the process died, and how to reproduce it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import pytest
from _pytest.runner import runtestprotocol

from perdure.core import error_codes
from perdure.testing.crash_points import CrashPoint, around_writes, evenly_spread, parse_crash_points
from perdure.testing.plugin_settings import CRASH_PLAN, WORLD, CrashPlan, settings_of
from perdure.testing.world import Undisturbed, World

NOT_WATCHED = "its effects are not known: let its test double call world.effect"

LISTED_MAX = 20
"""How many failing crash points are listed."""


class CrashRun(NamedTuple):
    """A run with a crash: the crash point, whether it was reached, the reports of its phases, and for each step that ran again how often, and how often
    usually.
    """

    crash: CrashPoint
    reached: bool
    reports: Sequence[pytest.TestReport]
    again: dict[str, tuple[int, int]]

    @property
    def failure(self) -> pytest.TestReport | None:
        """The report of the phase that failed, if one did."""
        return next((report for report in self.reports if report.failed), None)


def run_all_crashes(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[pytest.TestReport]:
    """Runs a test at all crash points, and yields the reports that stand for the test."""
    item.stash[CRASH_PLAN] = None
    reports = _run(item)
    runs: list[CrashRun] = []
    if all(report.passed and not hasattr(report, "wasxfail") for report in reports) and (world := item.stash.get(WORLD, None)) is not None:
        undisturbed, watched = world.undisturbed, {effect.path for effect in world.effects}
        runs = [_disturbed(item, crash, undisturbed) for crash in _moments(item, undisturbed)]
        yield from _merged(reports, runs, undisturbed, watched)
    else:
        yield from reports
    item.stash[CRASH_PLAN] = None
    rest = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), "teardown", (KeyboardInterrupt, pytest.exit.Exception))
    if rest.excinfo is not None:  # a fixture shared with earlier tests, but not with the next one, failed in its teardown
        yield pytest.TestReport.from_item_and_call(item, rest)


def crash_note(world: World, crash: CrashPoint, nodeid: str) -> str:
    """The note that the failure of a run with a crash gets."""
    written = world.machine.crashed_at
    if written is None:
        return f"the process was to be killed {crash}, which was not reached"
    seed = "" if world.seed is None else f" --perdure-seed={world.seed}"
    lines = [
        f"Undisturbed, this test passes. Here the process was killed {'after' if crash.after else 'before'} {written}.",
        *(f"Ran again because of it: step {step}, {times} times in place of {before}." for step, (times, before) in world.ran_again.items()),
        *(f"Was in flight, and may not run again, as it is not declared idempotent: step {step}." for step in _interrupted(world)),
        f'See it again: pytest "{nodeid}" --perdure-crash-at={crash.spec}{seed}',
    ]
    return "\n".join(lines)


def _interrupted(world: World) -> list[str]:
    return [f"{step.path} of {run.key}" for run in world.runs for step in run.steps() if step.error is not None and step.error.type == error_codes.INTERRUPTED]


def _moments(item: pytest.Item, undisturbed: Undisturbed) -> list[CrashPoint]:
    settings = settings_of(item)
    wanted = parse_crash_points(settings.crash_at)
    return evenly_spread(around_writes([write.number for write in undisturbed.writes]), settings.crashes_max) if wanted is None else list(wanted)


def _disturbed(item: pytest.Item, crash: CrashPoint, undisturbed: Undisturbed) -> CrashRun:
    item.stash[CRASH_PLAN] = CrashPlan(crash, undisturbed, parse_crash_points(settings_of(item).crash_at) is not None)
    reports = _run(item)
    world = item.stash.get(WORLD, None)
    return CrashRun(crash, world is not None and world.machine.crashed_at is not None, reports, {} if world is None else world.ran_again)


def _run(item: pytest.Item) -> list[pytest.TestReport]:
    """One run of the test with its own fixtures. Fixtures that it shares with other tests are kept."""
    if WORLD in item.stash:
        del item.stash[WORLD]
    return runtestprotocol(item, log=False, nextitem=cast(Any, item.parent))


def _merged(reports: Sequence[pytest.TestReport], runs: Sequence[CrashRun], undisturbed: Undisturbed, watched: set[str]) -> Iterator[pytest.TestReport]:
    """The reports of one test, merged from those of all its runs."""
    failed = [run for run in runs if run.failure is not None]
    for report in reports:
        if report.when == "call":
            failure = failed[0].failure if failed else None
            report = failure or report
            report.duration = sum(each.duration for run in runs for each in run.reports) + report.duration
            report.sections.append(("perdure crashes", _summary(runs, failed, undisturbed, watched)))
        yield report


def _summary(runs: Sequence[CrashRun], failed: Sequence[CrashRun], undisturbed: Undisturbed, watched: set[str]) -> str:
    reached = [run for run in runs if run.reached]
    lines = [f"killed at {len(reached)} moments, around {len(undisturbed.writes)} durable writes; failed at {len(failed)}"]
    if len(reached) < len(runs):
        lines.append(f"{len(runs) - len(reached)} more were not reached: the test does not make the same writes each time")
    lines += [f"  {run.crash.spec}: {_first_line(run)}" for run in failed[:LISTED_MAX]]
    lines += [f"  and {len(failed) - LISTED_MAX} more"] * (len(failed) > LISTED_MAX)
    for step in dict.fromkeys(step for run in runs for step in run.again):
        is_watched = step.partition(" of ")[0] in watched
        lines.append(f"ran again: step {step}; {'its effects happened once' if is_watched and not failed else NOT_WATCHED if not is_watched else 'see above'}")
    return "\n".join(lines)


def _first_line(run: CrashRun) -> str:
    crash = getattr(getattr(run.failure, "longrepr", None), "reprcrash", None)
    return str(getattr(crash, "message", "failed")).partition("\n")[0]
