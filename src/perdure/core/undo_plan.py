"""Decides which settled operations are undone, and in which order.

A block with an undo handler of its own keeps a note beside itself, at `UNDOABLE`, when it completes. From then on it is undone as a whole, at its own path,
and the operations inside of it are not undone one by one.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, KeepOperation, Operation, Outcome, SpawnOperation, Success
from perdure.core.paths import UNDO, Path, Segment, path_text
from perdure.core.values import Value

UNDO_PLAN: Path = (UNDO,)
"""The path of the note with which undoing begins: how the execution will end."""

UNDO_BEGIN: Path = (UNDO, ("begin", 0))
"""The path of the wait after which everything that the execution dropped at its end is recorded."""

UNDOABLE: Segment = ("undoable", 0)
UNDO_INPUT: Segment = ("undo_input", 0)
"""The segment, beside an operation, that keeps the input of its undo handler, because its sources may be forgotten by then."""


class UndoArguments(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The arguments of an undo handler: the result and the arguments of the step that it undoes, as they were recorded."""

    result: Value
    args: Value


def not_undone_line(path: Path, outcome: Failure) -> str:
    """Returns the warning that is logged when the undo of the step at `path` has failed for good."""
    return f"{path_text(path)} could not be undone: {outcome.error.type}: {outcome.error.message}. Correct the cause, then undo the rest with perdure undo"


def operations_to_undo(settled: Mapping[Path, SettledOperation]) -> list[Path]:
    """Returns the paths to undo, the last first, given the settled operations in their order. What was undone is left out."""
    blocks = {path[:-1] for path, known in settled.items() if completes_block(known)}
    undone = {path[1:] for path, known in settled.items() if path[0] == UNDO and isinstance(known.outcome, Success)}
    found = [path[:-1] if completes_block(known) else path for path, known in reversed(list(settled.items())) if _is_to_be_undone(path, known)]
    return [path for path in found if path not in undone and not lies_within(path, blocks)] if blocks or undone else found


def failed_undos(settled: Mapping[Path, SettledOperation]) -> list[Path]:
    """Returns the paths whose undo handler has failed for good."""
    return [path[1:] for path, known in settled.items() if path[0] == UNDO and isinstance(known.outcome, Failure)]


def completes_block(known: SettledOperation) -> bool:
    """Whether this is the note that a block has completed."""
    return isinstance(known.op, KeepOperation) and known.op.role == "undoable"


def undo_subject(settled: Mapping[Path, SettledOperation], path: Path) -> SettledOperation:
    """Returns what is undone at `path`: an operation, or the note that a block has completed, whose value is the result of the block."""
    return settled.get((*path, UNDOABLE)) or settled[path]


def retained_for_undo(forgotten: Mapping[Path, SettledOperation]) -> set[Path]:
    """Returns the paths in a forgotten iteration that are kept for undoing: operations, notes of completed blocks, and inputs of undo handlers."""
    wanted = set(operations_to_undo(forgotten))
    return {path for path, known in forgotten.items() if (path[:-1] if _is_undo_note(known) else path) in wanted}


def is_commit_note(known: SettledOperation) -> bool:
    """Whether this is the note after which nothing done before is undone any more."""
    return isinstance(known.op, KeepOperation) and known.op.role == "commit"


def released_by_commit(settled: dict[Path, SettledOperation], note: Path) -> Iterator[tuple[Path, SettledOperation]]:
    """Yields the operations that the commit at `note` releases, the last first, back to the commit before, each without its undo."""
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
    return isinstance(known.op, KeepOperation) and known.op.role in ("undoable", "undo_input")


def lies_within(path: Path, blocks: Collection[Path]) -> bool:
    """Whether a path lies strictly inside one of `blocks`."""
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
