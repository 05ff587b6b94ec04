"""Claims about crashes at every write: the twelve canonical workflows come to the same end, whichever write their process dies at, and the next one's too."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from perdure import Context, Retry, step, workflow
from tests.corpus.workflows import CANONICAL, broken
from tests.proof.crash_search import CrashPoint, CrashSearchReport, Play, ScriptStage, crash_at_every_write, crashed
from tests.proof.disks import Disk, MemoryDisk, SqliteDisk

Disks = Callable[[], Disk]


class Repairing(ScriptStage):
    """A stage on which the world can be repaired. It records nothing."""

    async def halfway(self) -> None:
        pass

    def repair(self) -> None:
        broken["yes"] = False


SHOWN: dict[str, Callable[[Any], Any]] = {
    "sequential": lambda result: {**result, "tries": min(result["tries"], 3)},  # a try that was interrupted counts too
    "remembering": lambda result: [result[0], result[1] >= 90, *result[2:]],  # how much time has passed
}
"""What of a result must be the same, where that is not all of it."""


def play(name: str, always_suspend: bool = False) -> Play:
    """A canonical workflow, and what happens to it."""
    return Play(CANONICAL[name].workflows, lambda stage: CANONICAL[name].play(Repairing(stage.world)), SHOWN.get(name, lambda result: result), always_suspend)


def on_files(directory: Path) -> Disks:
    """A new file for each world."""
    numbers = count()
    return lambda: SqliteDisk(directory / str(next(numbers)))


def good(report: CrashSearchReport) -> CrashSearchReport:
    """A report without problems."""
    assert not report.problems, "\n".join(report.problems)
    return report


class Budget(NamedTuple):
    """How many worlds may be played: with one crash, and with two."""

    once: int | None = None
    again: int | None = 60


SAMPLE = Budget(10, 6)
"""In each run of the tests."""
SMALL = Budget()
BUDGETS = {
    "looped": Budget(30, 10),
    "nested": Budget(30, 10),
    "joined": Budget(None, 30),
    "sequential": Budget(None, 30),
    "parent": Budget(None, 20),
    "remembering": Budget(None, 20),
}
ON_FILES = Budget(6, 6)
IN_A_FILE = ("joined", "listening", "parent", "reopened")
"""Those that are killed on files in every run; the others are with the long proofs."""

LONG, LONG_AGAIN_WRITES = ("looped", "nested"), 12
"""Where a proof is not of all pairs of writes, but of each with the first of the recovery from it."""


@pytest.mark.slow
@pytest.mark.parametrize("thorough", [pytest.param(False, id="some"), pytest.param(True, id="all", marks=pytest.mark.prove)])
@pytest.mark.parametrize("name", CANONICAL)
def test_killed_at_a_write_and_again_in_the_recovery_a_workflow_ends_as_if_undisturbed(name: str, thorough: bool) -> None:
    budget = BUDGETS.get(name, SMALL) if thorough else SAMPLE
    report = good(crash_at_every_write(play(name), MemoryDisk, once_max=budget.once, again_max=budget.again))
    assert report.worlds >= report.moments or budget.once is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", [name if name in IN_A_FILE else pytest.param(name, marks=pytest.mark.prove) for name in CANONICAL])
def test_killed_at_a_write_and_again_in_the_recovery_a_workflow_in_a_file_ends_as_if_undisturbed(name: str, tmp_path: Path) -> None:
    good(crash_at_every_write(play(name), on_files(tmp_path), once_max=ON_FILES.once, again_max=ON_FILES.again))


@pytest.mark.prove
@pytest.mark.parametrize("name", CANONICAL)
def test_killed_at_every_write_and_again_at_those_of_the_recovery_a_workflow_ends_as_if_undisturbed(name: str) -> None:
    good(crash_at_every_write(play(name), MemoryDisk, again_writes=LONG_AGAIN_WRITES if name in LONG else None))


@pytest.mark.prove
@pytest.mark.parametrize("name", CANONICAL)
def test_killed_at_every_write_a_workflow_that_leaves_memory_at_every_commit_ends_as_if_undisturbed(name: str) -> None:
    good(crash_at_every_write(play(name, always_suspend=True), MemoryDisk, again_max=300))


@pytest.mark.prove
@pytest.mark.parametrize("name", CANONICAL)
def test_killed_at_every_write_a_workflow_in_a_file_ends_as_if_undisturbed(name: str, tmp_path: Path) -> None:
    good(crash_at_every_write(play(name), on_files(tmp_path), again_max=300))


# of what is found


ran: Counter[str] = Counter()


@step(retry=Retry(max=3, wait=1.0))
async def counted(name: str) -> int:
    """Not the same twice: it says how often it was run."""
    ran[name] += 1
    return ran[name]


@workflow
async def counting(ctx: Context) -> list[int]:
    return [await ctx.step("first", counted, "first"), await ctx.step("second", counted, "second")]


async def _counted(stage: ScriptStage) -> None:
    ran.clear()
    await stage.start(counting)


@pytest.mark.slow
def test_steps_that_run_again_are_named_and_what_comes_of_them_is_told_with_how_to_see_it_again() -> None:
    report = crash_at_every_write(Play([counting], _counted), MemoryDisk, again_max=0)
    assert report.repeated == {"default/counting/1:first", "default/counting/1:second"}
    assert report.problems
    moments = sorted({problem.partition(":")[0] for problem in report.problems})
    assert len(moments) == 2 and all(moment.startswith("killed before write ") for moment in moments)  # of the commits that have their results
    write = int(moments[0].rpartition(" ")[2])
    assert crashed(Play([counting], _counted), MemoryDisk, CrashPoint(write, after=False))
    assert not crashed(Play([counting], _counted), MemoryDisk, CrashPoint(write, after=True))


@workflow
async def fickle(ctx: Context) -> int:
    ran["asked"] += 1
    return await ctx.step(f"step {ran['asked']}", counted, "any")


def test_where_something_is_wrong_without_any_crash_nobody_is_killed() -> None:
    report = crash_at_every_write(Play([fickle], lambda stage: stage.start(fickle)), MemoryDisk)
    assert report.worlds == 0 and "replayed, it differs" in report.problems[0]


def test_what_must_not_be_the_same_may_be_left_out() -> None:
    assert good(crash_at_every_write(Play([counting], _counted, shown=len), MemoryDisk, again_max=0)).worlds > 6


@pytest.mark.slow
def test_a_workflow_of_two_steps_has_a_moment_before_and_after_each_of_its_writes(tmp_path: Path) -> None:
    in_memory = crash_at_every_write(Play([counting], _counted, shown=len), MemoryDisk, again_max=0)
    in_a_file = crash_at_every_write(Play([counting], _counted, shown=len), on_files(tmp_path), again_max=0)
    assert in_memory.worlds == in_a_file.worlds == in_memory.moments == in_a_file.moments == 2 * (1 + 3)
