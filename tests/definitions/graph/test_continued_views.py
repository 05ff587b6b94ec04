"""Claims about views that are continued: after each commit of a log they are what a view of the whole log to that event is."""

from collections.abc import Iterator, Sequence

import pytest

from perdure.core import events as e
from perdure.core.replay import STARTS_ANEW, fold_events
from perdure.definitions.graph.execution_view import ViewReplay, view_at_event
from perdure.testing.replay_check import run_generator
from tests.test_corpus import EXECUTIONS, CorpusExecution

OF_DEFINITIONS = [one for one in EXECUTIONS if fold_events(one.record.key, one.events).definition is not None]


def groups(events: Sequence[e.Event]) -> Iterator[tuple[int, int]]:
    """The positions at which external events begin with their commands, and end."""
    begins = [number for number, event in enumerate(events) if type(event) not in e.COMMAND_EVENTS]
    yield from zip(begins, [*begins[1:], len(events)], strict=True)


@pytest.mark.parametrize("one", OF_DEFINITIONS, ids=[f"{one.case}-{number}" for number, one in enumerate(OF_DEFINITIONS)])
def test_a_view_that_is_continued_is_that_of_the_whole_log(one: CorpusExecution) -> None:
    key, events = one.record.key, one.events

    def payload(value: object) -> bytes:
        return one.blobs[value.sha256]  # type: ignore[attr-defined]  # it is a blob

    replay = ViewReplay(key)
    is_begun = False
    for begin, end in groups(events):
        added = events[begin:end]
        if not is_begun or not STARTS_ANEW.isdisjoint(map(type, added)):
            replay, is_begun = ViewReplay(key), True
            run_generator(replay.begin(events[:end], end), payload)
        else:
            run_generator(replay.go_on(added), payload)
        assert replay.view(begin + 1) == run_generator(view_at_event(key, events, begin + 1), payload)
