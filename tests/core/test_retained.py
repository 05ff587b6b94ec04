"""Claims about what is to be undone of turns that are forgotten: it stays, in its place, through compaction, reopening and forks."""

import pytest

from perdure.core import events as e
from perdure.core import log
from perdure.core.compact import compact
from perdure.core.copies import Fork
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution
from perdure.core.facts import facts
from perdure.core.folding import fold
from perdure.core.memo import copies
from perdure.core.ops import Call, Err, Keep, Ok, Op, Outcome, Sleep, Spawn
from perdure.core.paths import UNDO, Key, Path, parse, text
from perdure.core.undo import undoable

KEY = Key("t", "w", "1")
LOOP = parse("l")


def turn(number: int) -> list[e.Event]:
    """The beginning of a turn."""
    return [e.Opened((*LOOP, number), Keep(b"\x01", "turn"))]


def done(path: str, op: Op, outcome: Outcome) -> list[e.Event]:
    """An operation that is opened and settles."""
    where = parse(path)
    return [e.Opened(where, op, "me"), e.Settled(where, outcome, 1.0)]


FAILED = Err("exhausted", 3, ErrorInfo("ValueError", "no"))
EVENTS: list[e.Event] = [
    e.Started(1, 1.0),
    *done("before", Call("pay", undo="done"), Ok(b"\x01")),
    *turn(0),
    *done("l/~0/pay", Call("pay", b"\x90", undo="done"), Ok(b"\x02")),
    *done("l/~0/plain", Call("plain"), Ok(b"\x03")),
    *done("l/~0/fails", Call("pay", undo="done"), FAILED),
    *done("l/~0/doubt", Call("pay", undo="in_doubt"), FAILED),
    *done("l/~0/child", Spawn("order", "1", undo=True), Ok(b"\x04")),
    *done("l/~0/block/pay", Call("pay", undo="done"), Ok(b"\x05")),
    e.Opened(parse("l/~0/block/~undoable"), Keep(b"\x06", "undoable")),
    e.Opened(parse("l/~0/block/~undo_with"), Keep(b"\x07", "undo_with")),
    e.Opened(parse("l/~0/plain/~undo_with"), Keep(b"\x08", "undo_with")),
    *turn(1),
    *done("l/~1/pay", Call("pay", undo="done"), Ok(b"\x09")),
    *turn(2),
]
KEPT = ["l/~0/pay", "l/~0/doubt", "l/~0/child", "l/~0/block"]
ALL = ["before", *KEPT, "l/~1/pay"]


def forgotten(*more: e.Event) -> list[e.Event]:
    """The log, the first turn of which is forgotten."""
    return [*EVENTS, e.Trimmed(LOOP, 1), *more]


def to_undo(execution: Execution) -> list[str]:
    """What is to be undone, the first first."""
    return [text(path) for path in reversed(undoable(execution.settled))]


def test_a_forgotten_turn_leaves_what_is_to_be_undone_in_its_place_and_nothing_else() -> None:
    execution = fold(KEY, forgotten())
    assert to_undo(execution) == to_undo(fold(KEY, EVENTS)) == ALL
    assert [text(path) for path in execution.retained] == [*KEPT[:3], "l/~0/block/~undoable", "l/~0/block/~undo_with"]
    assert parse("l/~0/plain") not in execution.settled and parse("l/~0/block/pay") not in execution.settled


def compacted(events: list[e.Event]) -> list[e.Event]:
    found = compact(KEY, [log.encode(events)], archive=False)
    assert found is not None
    return list(found.events)


@pytest.mark.parametrize("times", [1, 2])
def test_a_compacted_log_says_the_same_each_operation_once(times: int) -> None:
    events = forgotten(*done("l/~2/pay", Call("pay", undo="done"), Ok(b"\x0a")), *turn(3), e.Trimmed(LOOP, 2))
    whole = fold(KEY, events)
    for _ in range(times):
        events = compacted(events)
    again = fold(KEY, events)
    assert facts(again) | {"archive": None} == facts(whole) | {"archive": None}
    assert to_undo(again) == to_undo(whole) == [*ALL, "l/~2/pay"]
    assert [text(event.path) for event in events if isinstance(event, e.Retained)] == [text(path) for path in whole.retained]


def test_turns_so_far_back_are_undone_no_longer() -> None:
    execution = fold(KEY, [*EVENTS, e.Trimmed(LOOP, 1, 1)])
    assert to_undo(execution) == ["before", "l/~1/pay"] and not execution.retained


def test_a_commit_holds_though_its_turn_is_forgotten_and_the_log_compacted() -> None:
    commit = e.Opened(parse("l/~2/commit"), Keep(role="commit"))
    events = forgotten(commit, *turn(3), *done("l/~3/pay", Call("pay", undo="done"), Ok(b"\x0b")), e.Trimmed(LOOP, 3))
    for found in (fold(KEY, events), fold(KEY, compacted(events))):
        assert to_undo(found) == ["l/~3/pay"] and [text(path) for path in found.retained] == ["l/~2/commit"]


def test_a_reopened_execution_keeps_what_was_not_undone() -> None:
    ended = e.Ended("failed", FAILED, 2.0)
    undone: Path = (UNDO, *parse("l/~0/pay"))
    events = forgotten(e.Opened(undone, Call("undo:pay")), e.Settled(undone, Ok(), 2.0), ended, e.Reopened(3.0))
    assert to_undo(fold(KEY, events)) == KEPT[1:]


def test_a_fork_is_undone_as_what_it_was_made_of_would_be() -> None:
    origin = fold(KEY, forgotten())
    fork = Fork(KEY, origin.version, copies(origin.memo.known, origin.settled, ()), tuple(origin.trimmed.items()))
    execution = fold(Key("t", "w", "2"), [e.Forked(fork, 4.0), e.Started(1, 4.0), e.Opened(parse("nap"), Sleep(1.0))])
    assert to_undo(execution) == [path for path in KEPT if path != "l/~0/doubt"], "what failed is not taken over by forks"
