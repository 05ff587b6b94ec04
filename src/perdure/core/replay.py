"""Rebuilds an execution from its log: folds the events, and feeds them to a fresh program until it is in the same state.

Nothing is performed and nothing decided. The commands of the program follow the external event that caused them, and the program must issue the same
ones again in their places; the first difference ends the replay before anything new runs.
"""

from collections.abc import Generator, Iterable, Sequence

import msgspec

from perdure.core import events as e
from perdure.core.errors import Diverged
from perdure.core.execution import Execution
from perdure.core.operations import KeepOperation, Success
from perdure.core.paths import UNDO, Key, Path, path_text
from perdure.core.program import Program
from perdure.core.replay_cursor import ReplayCursor
from perdure.core.undo_plan import UNDO_INPUT, operations_to_undo, undo_subject
from perdure.core.values import Blob, Value


def fold_events(key: Key, events: Iterable[e.Event], root: Key | None = None) -> Execution:
    """Folds events into an execution."""
    execution = Execution(key, root)
    every = tuple(events)
    execution.apply_all(every, 0, len(every))
    return execution


class LoadBlob(msgspec.Struct, frozen=True):
    """A request of a decision or a replay to its caller: the payload of this blob."""

    blob: Blob


def replay_program(
    execution: Execution, events: Sequence[e.Event], program: Program, awake: bool = False, until: int | None = None
) -> Generator[LoadBlob, bytes, Diverged | None]:
    """Folds the first `until` of `events` into a fresh `execution` and replay `program` over them.

    The program of an execution that has ended is not fed, unless `awake` (it is about to be undone). Returns how the program diverged, if it did; the
    execution is folded to the end in any case.
    """
    if not events:
        return None
    whole, events = events, events[:until]
    all_kinds = [type(event) for event in whole]
    kinds = all_kinds[:until]
    life = max((index for index, kind in enumerate(kinds) if kind is e.ReopenedEvent), default=0) if e.ReopenedEvent in kinds else 0
    resumes = _resumed_iterations(whole[life:]) if e.IterationResumedEvent in all_kinds else {}
    undoing = max((index for index, kind in enumerate(kinds) if kind is e.UndoingEvent), default=life) if e.UndoingEvent in kinds else life
    asleep = not awake and e.EndedEvent in kinds[max(life, undoing) :]
    diverged: Diverged | None = None
    cursor = ReplayCursor(execution, events)
    while (event := cursor.advance()) is not None:
        position = cursor.position
        if position == life:
            execution.resumes = resumes
        if position >= life and not asleep and diverged is None and kinds[position] not in e.COMMAND_EVENTS and not _is_resumed_in_vain(events, position):
            try:
                yield from _replay_event(execution, event, cursor, program)
            except Diverged as error:
                diverged = error
                program.refuse(error)
    return diverged


STARTS_ANEW: frozenset[type] = frozenset((e.ReopenedEvent, e.SnapshotEvent, e.IterationResumedEvent, e.RemovedEvent))
"""The events behind which a replay can't be continued, because they change what the program is fed of the whole log."""


def continue_replay(execution: Execution, events: Sequence[e.Event], program: Program) -> Generator[LoadBlob, bytes, Diverged | None]:
    """Folds more events, which none of `STARTS_ANEW` is among, and feeds them to a program that was replayed over everything before them.

    They have to be whole commits. Returns how the program diverged, if it did.
    """
    cursor = ReplayCursor(execution, events)
    diverged: Diverged | None = None
    while (event := cursor.advance()) is not None:
        if diverged is None and type(event) not in e.COMMAND_EVENTS and not _is_resumed_in_vain(events, cursor.position):
            try:
                yield from _replay_event(execution, event, cursor, program)
            except Diverged as error:
                diverged = error
                program.refuse(error)
    return diverged


def _resumed_iterations(events: Sequence[e.Event]) -> dict[Path, int]:
    """Returns the iteration from which each loop of a compacted log continues, up to the next reopening."""
    found: dict[Path, int] = {}
    for position, event in enumerate(events):
        if isinstance(event, e.ReopenedEvent) and position:
            break
        if isinstance(event, e.IterationResumedEvent):
            found[event.path] = event.turn
    return found


def _is_resumed_in_vain(events: Sequence[e.Event], position: int) -> bool:
    """Whether the execution was resumed here while its program still diverged, so that nothing was fed."""
    if type(events[position]) is not e.ResumedEvent:
        return False
    following = events[position + 1] if position + 1 < len(events) else None
    return isinstance(following, e.ParkedEvent) and following.reason == "diverged"


def _replay_event(execution: Execution, event: e.Event, cursor: ReplayCursor, program: Program) -> Generator[LoadBlob, bytes, None]:
    fed = events_fed(execution, event)
    for number, one in enumerate(fed, 1):
        values = {}
        for blob in blobs_read(execution, one, cursor.group):
            values[blob.sha256] = yield LoadBlob(blob)
        cursor.may_settle_ahead = number == len(fed)
        program.feed(execution, one, cursor, values)
    for asked in cursor.left() if fed else ():
        if isinstance(asked, e.OpenedEvent | e.DroppedEvent):
            raise Diverged(asked.path, (f"{path_text(asked.path) or 'the workflow'} is remembered here, and the code no longer asks for it",))


def events_fed(execution: Execution, event: e.Event) -> Sequence[e.Event]:
    """Returns the events that the program is fed because of this one: none while parked, and the backlog when resumed."""
    if execution.parked is not None or type(event) not in e.PROGRAM_EVENTS:
        return ()
    return [*execution.backlog, event] if type(event) is e.ResumedEvent else (event,)


def blobs_read(execution: Execution, event: e.Event, group: Sequence[e.Event] = ()) -> Sequence[Blob]:
    """Returns the blobs that the program will read because of this event."""
    if type(event) is e.SettledEvent and not group and event.path[0] != UNDO:  # by far the most frequent event
        return (event.outcome.value,) if type(event.outcome) is Success and type(event.outcome.value) is Blob else ()
    kept = [asked.op.value for asked in group if type(asked) is e.OpenedEvent and type(asked.op) is KeepOperation]
    return [value for value in (*_values_read(execution, event), *kept) if type(value) is Blob]


def _values_read(execution: Execution, event: e.Event) -> Iterable[Value]:
    match event:
        case e.SettledEvent() | e.ReceivedEvent() | e.RecalledEvent():
            settlement = execution.settled.get(event.path)
            if settlement is not None and isinstance(settlement.outcome, Success):
                return (settlement.outcome.value, *(_values_of_next_undo(execution, event.path) if event.path[0] == UNDO else ()))
            return () if settlement is None else (message.body for message in settlement.messages)
        case e.StartedEvent():
            return (event.input, *_definition(execution), *_recalled_values(execution))
        case e.IterationResumedEvent():
            return (event.value,)
        case e.PatchedEvent():
            return (event.definition,)
        case e.ReopenedEvent() if execution.started is not None:
            return (execution.started.input, *_definition(execution), *_recalled_values(execution))
    return ()


def _values_of_next_undo(execution: Execution, path: Path) -> Iterable[Value]:
    """Returns the values that a definition needs for its next undo, once the operation at `path`, which undoes or begins to undo, has settled."""
    if execution.definition is None:
        return ()
    order = operations_to_undo(execution.settled)
    following = order[order.index(path[1:]) + 1 :] if path[1:] in order else order
    found = [execution.settled.get((*following[0], UNDO_INPUT)), undo_subject(execution.settled, following[0])] if following else []
    kept = [known.op.value for known in found if known is not None and isinstance(known.op, KeepOperation)]
    return (*kept, *(known.outcome.value for known in found if known is not None and isinstance(known.outcome, Success)))


def _definition(execution: Execution) -> Iterable[Value]:
    return () if execution.definition is None else (execution.definition,)


def _recalled_values(execution: Execution) -> Iterable[Value]:
    """Returns the recalled values that the program may keep again at any later event."""
    return (known.op.value for known in execution.recalled_results.known.values() if isinstance(known.op, KeepOperation))
