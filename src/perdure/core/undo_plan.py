"""Undo: which of the settled operations are to be undone, and in which order.

A block that has something of its own that undoes it notes beside itself, at `UNDOABLE`, that it has completed. From then on it is undone as a whole, at its
own path, and what was done inside of it is not undone by itself.
"""

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, KeepOperation, Operation, Outcome, SpawnOperation, Success
from perdure.core.paths import UNDO, Path, Segment

UNDOABLE: Segment = ("undoable", 0)
UNDO_WITH: Segment = ("undo_with", 0)
"""Where it is noted, beside an operation, what its undoing is given: what that is made of may be forgotten by then."""


def operations_to_undo(settled: Mapping[Path, SettledOperation]) -> list[Path]:
    """What is to be undone of what has settled, given in its order: what was done last first. What has been undone is not undone again."""
    blocks = {path[:-1] for path, known in settled.items() if completes_block(known)}
    undone = {path[1:] for path, known in settled.items() if path[0] == UNDO and isinstance(known.outcome, Success)}
    found = [path[:-1] if completes_block(known) else path for path, known in reversed(list(settled.items())) if _is_to_be_undone(path, known)]
    return [path for path in found if path not in undone and not lies_within(path, blocks)] if blocks or undone else found


def failed_undos(settled: Mapping[Path, SettledOperation]) -> list[Path]:
    """What could not be undone: its handler has failed for good."""
    return [path[1:] for path, known in settled.items() if path[0] == UNDO and isinstance(known.outcome, Failure)]


def completes_block(known: SettledOperation) -> bool:
    """Whether it is the note that a block has completed, which is undone as a whole."""
    return isinstance(known.op, KeepOperation) and known.op.role == "undoable"


def undo_subject(settled: Mapping[Path, SettledOperation], path: Path) -> SettledOperation:
    """What is undone at one of the paths of `undoable`: an operation, or the note that a block has completed, whose value is the block's result."""
    return settled.get((*path, UNDOABLE)) or settled[path]


def retained_for_undo(forgotten: Mapping[Path, SettledOperation]) -> set[Path]:
    """What of a turn that is forgotten is kept, as it is to be undone: operations, notes that blocks have completed, and what their undoing is given."""
    wanted = set(operations_to_undo(forgotten))
    return {path for path, known in forgotten.items() if (path[:-1] if _is_undo_note(known) else path) in wanted}


def is_commit_note(known: SettledOperation) -> bool:
    """Whether it is the note that nothing done before it is to be undone any more."""
    return isinstance(known.op, KeepOperation) and known.op.role == "commit"


def released_by_commit(settled: dict[Path, SettledOperation], note: Path) -> Iterator[tuple[Path, SettledOperation]]:
    """What was to be undone up to the commit at `note`, the last first, back to the commit before; each as it is when it is not to be undone any more."""
    for path, known in reversed(settled.items()):
        if is_commit_note(known) and path != note:
            return
        if _is_to_be_undone(path, known):
            yield path, replace(known, op=_without_undo(known.op))


def _without_undo(op: Operation) -> Operation:
    match op:
        case CallOperation():
            return replace(op, undo="")
        case SpawnOperation():
            return replace(op, undo=False)
        case KeepOperation():
            return replace(op, role="value")
    return op


def _is_undo_note(known: SettledOperation) -> bool:
    return isinstance(known.op, KeepOperation) and known.op.role in ("undoable", "undo_with")


def lies_within(path: Path, blocks: Collection[Path]) -> bool:
    """Whether a path leads into one of these, and not to one itself."""
    return any(path[:depth] in blocks for depth in range(1, len(path)))


def _is_to_be_undone(path: Path, known: SettledOperation) -> bool:
    match known.op:
        case CallOperation(undo="in_doubt") if path[0] != UNDO:
            return not _was_never_begun(known.outcome)
        case CallOperation(undo=undo) if path[0] != UNDO:
            return bool(undo) and isinstance(known.outcome, Success)
        case SpawnOperation(undo=True) if path[0] != UNDO:
            return isinstance(known.outcome, Success)
    return completes_block(known)


def _was_never_begun(outcome: Outcome | None) -> bool:
    return isinstance(outcome, Failure) and outcome.kind == "cancelled" and not outcome.attempts
