"""The suite notices when a guard is gone: bugs are planted in a copy of the package, and the part of the suite that must fail is run on it."""

import pytest

from tools import planted_bugs


@pytest.mark.parametrize("bug", [bug for bug in planted_bugs.BUGS if bug.quick], ids=lambda bug: bug.guard)
def test_a_planted_bug_is_noticed(bug: planted_bugs.Bug) -> None:
    found = planted_bugs.hunt(bug)
    assert found.caught, f"without it, not: {bug.protects}\n{found.words}"


@pytest.mark.prove
@pytest.mark.parametrize("bug", [bug for bug in planted_bugs.BUGS if not bug.quick], ids=lambda bug: bug.guard)
def test_every_planted_bug_is_noticed(bug: planted_bugs.Bug) -> None:
    found = planted_bugs.hunt(bug)
    assert found.caught, f"without it, not: {bug.protects}\n{found.words}"


def test_there_are_enough_of_them_and_each_fits_the_source() -> None:
    assert len(planted_bugs.BUGS) >= 20
    assert len({bug.guard for bug in planted_bugs.BUGS}) == len(planted_bugs.BUGS)
    for bug in planted_bugs.BUGS:
        source = (planted_bugs.ROOT / "src/perdure" / bug.file).read_text()
        assert source.count(bug.old) == 1, bug.guard
