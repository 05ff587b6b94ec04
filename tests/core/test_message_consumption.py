"""Claims about receipts: what uses up a message, and what goes back when a branch loses."""

import pytest

from perdure.core.mailbox import UnusedMessages, uses_messages
from perdure.core.operations import CallOperation, KeepOperation, Operation, ReceiveOperation, SendOperation, SleepOperation, SpawnOperation
from perdure.core.paths import Key, Path, parse_path

KEY = Key("t", "w", "1")


@pytest.mark.parametrize(
    ("op", "uses"),
    [
        (CallOperation("pay"), True),
        (SpawnOperation("order", "1"), True),
        (SpawnOperation("order", "1", awaited=False), True),
        (SendOperation(KEY, "m"), True),
        (KeepOperation(role="turn"), True),
        (SleepOperation(1.0), False),
        (ReceiveOperation(("m",)), False),
        (KeepOperation(), False),
        (KeepOperation(role="state"), False),
        (KeepOperation(role="stream"), False),
        (KeepOperation(role="branches"), False),
        (KeepOperation(role="reply"), False),
        (KeepOperation(role="version"), False),
        (KeepOperation(role="attributes"), False),
    ],
)
def test_what_does_something_uses_messages_and_what_waits_or_records_does_not(op: Operation, uses: bool) -> None:
    assert uses_messages(parse_path("race/a/x"), op) is uses


def test_a_call_of_perdures_own_is_no_step() -> None:
    assert not uses_messages(parse_path("race/a/~python"), CallOperation("perdure.python"))
    assert uses_messages(parse_path("each/~3"), CallOperation("pay")), "an item of a list is done at the path of the item"


def receipts(*branches: str) -> UnusedMessages:
    made = UnusedMessages()
    for branch in branches:
        made.begin(parse_path(branch))
    return made


def heard(made: UnusedMessages, path: str, number: int = 1, completable: bool = False) -> Path:
    made.receive(where := parse_path(path), [number], completable)
    return where


def test_what_the_execution_itself_receives_is_used_at_once() -> None:
    made = receipts()
    heard(made, "listen")
    assert made.give_back(()) == []


def test_a_branch_gives_back_all_that_it_has_not_used_once() -> None:
    made = receipts("race/a")
    paths = [heard(made, "race/a/listen"), heard(made, "race/a/l/~0/listen")]
    assert made.give_back(parse_path("race/a")) == paths
    assert made.give_back(parse_path("race/a")) == []


def test_a_step_uses_what_its_branch_and_those_around_it_have_received_before() -> None:
    made = receipts("race/a", "race/a/join/b", "race/a/join/c")
    heard(made, "race/a/listen")
    heard(made, "race/a/join/b/listen")
    other = heard(made, "race/a/join/c/listen")
    made.use(parse_path("race/a/join/b/pay"))
    later = heard(made, "race/a/join/b/listen#2")
    assert sorted(made.give_back(parse_path("race/a"))) == sorted([other, later])


def test_what_an_ended_branch_has_not_used_is_its_callers_as_soon_as_that_does_something() -> None:
    made = receipts("race/a", "race/a/join/b", "race/a/join/c")
    returned = heard(made, "race/a/join/b/listen")
    made.end(parse_path("race/a/join/b"))
    made.use(parse_path("race/a/join/c/pay"))
    assert returned in made._unused[parse_path("race/a/join/b")], "a sibling has not been handed it"
    made.end(parse_path("race/a/join/c"))
    made.use(parse_path("race/a/pay"))
    assert made.give_back(parse_path("race/a")) == []


def test_what_a_branch_in_a_branch_has_received_goes_back_with_the_outer_one() -> None:
    made = receipts("race/a", "race/a/join/b", "race/a/join/b/race/c")
    inner = heard(made, "race/a/join/b/race/c/listen")
    made.end(parse_path("race/a/join/b/race/c"))
    made.end(parse_path("race/a/join/b"))
    assert made.give_back(parse_path("race/a")) == [inner]


def test_a_completable_message_is_held_whatever_its_branch_does_until_it_is_completed() -> None:
    made = receipts("race/a")
    held, done = heard(made, "race/a/listen", 7, completable=True), heard(made, "race/a/listen#2", 8, completable=True)
    made.use(parse_path("race/a/pay"))
    made.complete(done, 8)
    assert made.holds(held, 7) and not made.holds(done, 8)
    assert made.give_back(parse_path("race/a")) == [held]
    assert not made.holds(held, 7)


def test_nothing_is_left_of_branches_that_have_ended() -> None:
    made = receipts("race/a", "race/b", "race/b/join/c")
    heard(made, "race/a/listen")
    made.end(parse_path("race/a"))
    made.give_back(parse_path("race/b"))
    made.forget(parse_path("race"))
    assert (made._branches, made._unused, made._ended, made._held) == ({}, {}, {}, {})
