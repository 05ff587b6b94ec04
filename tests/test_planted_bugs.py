"""The suite notices when a guard is gone: each is removed from a copy of the package, and the tests that must fail are run on it."""

import re

import pytest

from tools import planted_bugs
from tools.mutations import AnchorMissing, Change, Instead, Returns, always, before, changed, never, without
from tools.planted_bugs import GUARDS, Guard


def _claim(guard: Guard) -> str:
    return guard.claim


@pytest.mark.slow
def test_every_guard_stands_where_its_row_says() -> None:
    missing = []
    for guard in GUARDS:
        try:
            guard.expect_in_place()
        except AnchorMissing as error:
            missing.append(str(error))
    assert not missing, "\n".join(missing)
    assert len({guard.claim for guard in GUARDS}) == len(GUARDS)


@pytest.mark.slow
@pytest.mark.parametrize("guard", [guard for guard in GUARDS if guard.quick], ids=_claim)
def test_the_suite_notices_that_a_guard_is_gone(guard: Guard) -> None:
    found = planted_bugs.hunt(guard, check_command=False)  # that the command passes with the guard is this very suite's claim
    assert found.found_a_failure, f"nothing failed without: {guard.claim}\n{found.printed}"


@pytest.mark.prove
@pytest.mark.parametrize("guard", [guard for guard in GUARDS if not guard.quick], ids=_claim)
def test_the_suite_notices_that_any_guard_is_gone(guard: Guard) -> None:
    found = planted_bugs.hunt(guard)
    assert found.found_a_failure, f"nothing failed without: {guard.claim}\n{found.printed}"


MODULE = """
class Store:
    # A comment, and a layout of its own.
    def commit(self, change,
               now_s):
        if change.epoch != self.epoch or change.version != self.version: return None
        def ring():
            self.rings += 1
        for send in change.messages:
            if send.key not in self.box:
                self.box.add(send.key)
        return sorted(change.messages)
"""


@pytest.mark.parametrize(
    ("change", "has", "has_not"),
    [
        (never("change.version"), "if change.epoch != self.epoch or False:", "change.version"),
        (always("send.key", "box"), "if True:", "not in"),
        (without("self.box.add"), "pass", "self.box.add"),
        (before("sorted", statement="self.ring()"), "self.ring()\n        return sorted(change.messages)", "True"),
        (Instead("sorted(change.messages)", "change.messages"), "return change.messages", "sorted"),
        (Returns("now_s"), "return now_s", "self.box"),
    ],
    ids=str,
)
def test_a_change_is_made_within_one_function_whatever_its_layout(change: Change, has: str, has_not: str) -> None:
    found = changed(MODULE, "Store.commit", change)
    assert has in found
    assert has_not not in found


def test_a_function_within_a_function_has_a_dotted_name() -> None:
    assert "return None" in changed(MODULE, "Store.commit.ring", Returns("None"))


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("Store.claim", never("change.version"), "the definition of Store.claim is there 0 times, not once"),
        ("Store.commit", never("change.holder"), "the condition that mentions change.holder is there 0 times, not once"),
        ("Store.commit", never("change"), "the condition that mentions change is there 2 times, not once"),
        ("Store.commit", Instead("change.messages", "()"), "the expression change.messages is there 2 times, not once"),
    ],
)
def test_a_change_that_has_no_place_or_several_is_refused(name: str, change: Change, why: str) -> None:
    with pytest.raises(AnchorMissing, match=re.escape(why)):
        changed(MODULE, name, change)
