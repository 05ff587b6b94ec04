"""Claims about receipts: what uses up a message, and what goes back when a branch loses."""

import pytest

from perdure.core.ops import Call, Keep, Op, Receive, Send, Sleep, Spawn
from perdure.core.paths import Key, Path, parse
from perdure.core.receipts import Receipts, uses_messages

KEY = Key("t", "w", "1")


@pytest.mark.parametrize(
    ("op", "uses"),
    [
        (Call("pay"), True),
        (Spawn("order", "1"), True),
        (Spawn("order", "1", awaited=False), True),
        (Send(KEY, "m"), True),
        (Keep(role="turn"), True),
        (Sleep(1.0), False),
        (Receive(("m",)), False),
        (Keep(), False),
        (Keep(role="state"), False),
        (Keep(role="stream"), False),
        (Keep(role="branches"), False),
        (Keep(role="reply"), False),
        (Keep(role="version"), False),
        (Keep(role="attributes"), False),
    ],
)
def test_what_does_something_uses_messages_and_what_waits_or_records_does_not(op: Op, uses: bool) -> None:
    assert uses_messages(parse("race/a/x"), op) is uses


def test_a_call_of_perdures_own_is_no_step() -> None:
    assert not uses_messages(parse("race/a/~python"), Call("perdure.python"))
    assert uses_messages(parse("each/~3"), Call("pay")), "an item of a list is done at the path of the item"


def receipts(*branches: str) -> Receipts:
    made = Receipts()
    for branch in branches:
        made.begin(parse(branch))
    return made


def heard(made: Receipts, path: str, number: int = 1, completable: bool = False) -> Path:
    made.receive(where := parse(path), [number], completable)
    return where


def test_what_the_execution_itself_receives_is_used_at_once() -> None:
    made = receipts()
    heard(made, "listen")
    assert made.give_back(()) == []


def test_a_branch_gives_back_all_that_it_has_not_used_once() -> None:
    made = receipts("race/a")
    paths = [heard(made, "race/a/listen"), heard(made, "race/a/l/~0/listen")]
    assert made.give_back(parse("race/a")) == paths
    assert made.give_back(parse("race/a")) == []


def test_a_step_uses_what_its_branch_and_those_around_it_have_received_before() -> None:
    made = receipts("race/a", "race/a/join/b", "race/a/join/c")
    heard(made, "race/a/listen")
    heard(made, "race/a/join/b/listen")
    other = heard(made, "race/a/join/c/listen")
    made.use(parse("race/a/join/b/pay"))
    later = heard(made, "race/a/join/b/listen#2")
    assert sorted(made.give_back(parse("race/a"))) == sorted([other, later])


def test_what_an_ended_branch_has_not_used_is_its_callers_as_soon_as_that_does_something() -> None:
    made = receipts("race/a", "race/a/join/b", "race/a/join/c")
    returned = heard(made, "race/a/join/b/listen")
    made.end(parse("race/a/join/b"))
    made.use(parse("race/a/join/c/pay"))
    assert returned in made._unused[parse("race/a/join/b")], "a sibling has not been handed it"
    made.end(parse("race/a/join/c"))
    made.use(parse("race/a/pay"))
    assert made.give_back(parse("race/a")) == []


def test_what_a_branch_in_a_branch_has_received_goes_back_with_the_outer_one() -> None:
    made = receipts("race/a", "race/a/join/b", "race/a/join/b/race/c")
    inner = heard(made, "race/a/join/b/race/c/listen")
    made.end(parse("race/a/join/b/race/c"))
    made.end(parse("race/a/join/b"))
    assert made.give_back(parse("race/a")) == [inner]


def test_a_completable_message_is_held_whatever_its_branch_does_until_it_is_completed() -> None:
    made = receipts("race/a")
    held, done = heard(made, "race/a/listen", 7, completable=True), heard(made, "race/a/listen#2", 8, completable=True)
    made.use(parse("race/a/pay"))
    made.complete(done, 8)
    assert made.holds(held, 7) and not made.holds(done, 8)
    assert made.give_back(parse("race/a")) == [held]
    assert not made.holds(held, 7)


def test_nothing_is_left_of_branches_that_have_ended() -> None:
    made = receipts("race/a", "race/b", "race/b/join/c")
    heard(made, "race/a/listen")
    made.end(parse("race/a"))
    made.give_back(parse("race/b"))
    made.forget(parse("race"))
    assert (made._branches, made._unused, made._ended, made._held) == ({}, {}, {}, {})
