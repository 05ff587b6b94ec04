"""Claims about what is to be undone of turns that are forgotten: it stays, in its place, through compaction, reopening and forks."""

import pytest

from perdure.core import events as e
from perdure.core import log_format
from perdure.core.compaction import compact_log
from perdure.core.errors import ErrorInfo
from perdure.core.execution import Execution, execution_facts
from perdure.core.operations import CallOperation, Failure, KeepOperation, Operation, Outcome, SleepOperation, SpawnOperation, Success
from perdure.core.paths import UNDO, Key, Path, parse_path, path_text
from perdure.core.recalled import ForkData, fork_results
from perdure.core.replay import fold_events
from perdure.core.undo_plan import operations_to_undo

KEY = Key("t", "w", "1")
LOOP = parse_path("l")


def turn(number: int) -> list[e.Event]:
    """The beginning of a turn."""
    return [e.OpenedEvent((*LOOP, number), KeepOperation(b"\x01", "turn"))]


def done(path: str, op: Operation, outcome: Outcome) -> list[e.Event]:
    """An operation that is opened and settles."""
    where = parse_path(path)
    return [e.OpenedEvent(where, op, "me"), e.SettledEvent(where, outcome, 1.0)]


FAILED = Failure("exhausted", 3, ErrorInfo("ValueError", "no"))
EVENTS: list[e.Event] = [
    e.StartedEvent(1, 1.0),
    *done("before", CallOperation("pay", undo="done"), Success(b"\x01")),
    *turn(0),
    *done("l/~0/pay", CallOperation("pay", b"\x90", undo="done"), Success(b"\x02")),
    *done("l/~0/plain", CallOperation("plain"), Success(b"\x03")),
    *done("l/~0/fails", CallOperation("pay", undo="done"), FAILED),
    *done("l/~0/doubt", CallOperation("pay", undo="in_doubt"), FAILED),
    *done("l/~0/child", SpawnOperation("order", "1", undo=True), Success(b"\x04")),
    *done("l/~0/block/pay", CallOperation("pay", undo="done"), Success(b"\x05")),
    e.OpenedEvent(parse_path("l/~0/block/~undoable"), KeepOperation(b"\x06", "undoable")),
    e.OpenedEvent(parse_path("l/~0/block/~undo_input"), KeepOperation(b"\x07", "undo_input")),
    e.OpenedEvent(parse_path("l/~0/plain/~undo_input"), KeepOperation(b"\x08", "undo_input")),
    *turn(1),
    *done("l/~1/pay", CallOperation("pay", undo="done"), Success(b"\x09")),
    *turn(2),
]
KEPT = ["l/~0/pay", "l/~0/doubt", "l/~0/child", "l/~0/block"]
ALL = ["before", *KEPT, "l/~1/pay"]


def forgotten(*more: e.Event) -> list[e.Event]:
    """The log, the first turn of which is forgotten."""
    return [*EVENTS, e.TrimmedEvent(LOOP, 1), *more]


def to_undo(execution: Execution) -> list[str]:
    """What is to be undone, the first first."""
    return [path_text(path) for path in reversed(operations_to_undo(execution.settled))]


def test_a_forgotten_turn_leaves_what_is_to_be_undone_in_its_place_and_nothing_else() -> None:
    execution = fold_events(KEY, forgotten())
    assert to_undo(execution) == to_undo(fold_events(KEY, EVENTS)) == ALL
    assert [path_text(path) for path in execution.retained] == [*KEPT[:3], "l/~0/block/~undoable", "l/~0/block/~undo_input"]
    assert parse_path("l/~0/plain") not in execution.settled and parse_path("l/~0/block/pay") not in execution.settled


def compacted(events: list[e.Event]) -> list[e.Event]:
    found = compact_log(KEY, [log_format.encode_row(events)], archive=False)
    assert found is not None
    return list(found.events)


@pytest.mark.parametrize("times", [1, 2])
def test_a_compacted_log_says_the_same_each_operation_once(times: int) -> None:
    events = forgotten(*done("l/~2/pay", CallOperation("pay", undo="done"), Success(b"\x0a")), *turn(3), e.TrimmedEvent(LOOP, 2))
    whole = fold_events(KEY, events)
    for _ in range(times):
        events = compacted(events)
    again = fold_events(KEY, events)
    assert execution_facts(again) | {"archive": None} == execution_facts(whole) | {"archive": None}
    assert to_undo(again) == to_undo(whole) == [*ALL, "l/~2/pay"]
    assert [path_text(event.path) for event in events if isinstance(event, e.RetainedEvent)] == [path_text(path) for path in whole.retained]


def test_turns_so_far_back_are_undone_no_longer() -> None:
    execution = fold_events(KEY, [*EVENTS, e.TrimmedEvent(LOOP, 1, 1)])
    assert to_undo(execution) == ["before", "l/~1/pay"] and not execution.retained


def test_a_commit_holds_though_its_turn_is_forgotten_and_the_log_compacted() -> None:
    commit = e.OpenedEvent(parse_path("l/~2/commit"), KeepOperation(role="commit"))
    events = forgotten(commit, *turn(3), *done("l/~3/pay", CallOperation("pay", undo="done"), Success(b"\x0b")), e.TrimmedEvent(LOOP, 3))
    for found in (fold_events(KEY, events), fold_events(KEY, compacted(events))):
        assert to_undo(found) == ["l/~3/pay"] and [path_text(path) for path in found.retained] == ["l/~2/commit"]


def test_a_reopened_execution_keeps_what_was_not_undone() -> None:
    ended = e.EndedEvent("failed", FAILED, 2.0)
    undone: Path = (UNDO, *parse_path("l/~0/pay"))
    events = forgotten(e.OpenedEvent(undone, CallOperation("undo:pay")), e.SettledEvent(undone, Success(), 2.0), ended, e.ReopenedEvent(3.0))
    assert to_undo(fold_events(KEY, events)) == KEPT[1:]


def test_a_fork_is_undone_as_what_it_was_made_of_would_be() -> None:
    origin = fold_events(KEY, forgotten())
    fork = ForkData(KEY, origin.version, fork_results(origin.recalled_results.known, origin.settled, ()), tuple(origin.trimmed.items()))
    execution = fold_events(Key("t", "w", "2"), [e.ForkedEvent(fork, 4.0), e.StartedEvent(1, 4.0), e.OpenedEvent(parse_path("nap"), SleepOperation(1.0))])
    assert to_undo(execution) == [path for path in KEPT if path != "l/~0/doubt"], "what failed is not taken over by forks"
