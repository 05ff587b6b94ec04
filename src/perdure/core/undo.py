"""Undo: which of the settled operations are to be undone, and in which order.

A block that has something of its own that undoes it notes beside itself, at `UNDOABLE`, that it has completed. From then on it is undone as a whole, at its
own path, and what was done inside of it is not undone by itself.
"""

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from perdure.core.ops import Call, Err, Keep, Ok, Op, Outcome, Spawn
from perdure.core.paths import UNDO, Path, Segment
from perdure.core.promise import Settlement

UNDOABLE: Segment = ("undoable", 0)
UNDO_WITH: Segment = ("undo_with", 0)
"""Where it is noted, beside an operation, what its undoing is given: what that is made of may be forgotten by then."""


def undoable(settled: Mapping[Path, Settlement]) -> list[Path]:
    """What is to be undone of what has settled, given in its order: what was done last first. What has been undone is not undone again."""
    blocks = {path[:-1] for path, known in settled.items() if completes_block(known)}
    undone = {path[1:] for path, known in settled.items() if path[0] == UNDO and isinstance(known.outcome, Ok)}
    found = [path[:-1] if completes_block(known) else path for path, known in reversed(list(settled.items())) if _is_wanted(path, known)]
    return [path for path in found if path not in undone and not lies_in(path, blocks)] if blocks or undone else found


def not_undone(settled: Mapping[Path, Settlement]) -> list[Path]:
    """What could not be undone: its handler has failed for good."""
    return [path[1:] for path, known in settled.items() if path[0] == UNDO and isinstance(known.outcome, Err)]


def completes_block(known: Settlement) -> bool:
    """Whether it is the note that a block has completed, which is undone as a whole."""
    return isinstance(known.op, Keep) and known.op.role == "undoable"


def undoing(settled: Mapping[Path, Settlement], path: Path) -> Settlement:
    """What is undone at one of the paths of `undoable`: an operation, or the note that a block has completed, whose value is the block's result."""
    return settled.get((*path, UNDOABLE)) or settled[path]


def retained(forgotten: Mapping[Path, Settlement]) -> set[Path]:
    """What of a turn that is forgotten is kept, as it is to be undone: operations, notes that blocks have completed, and what their undoing is given."""
    wanted = set(undoable(forgotten))
    return {path for path, known in forgotten.items() if (path[:-1] if _is_note(known) else path) in wanted}


def is_commit(known: Settlement) -> bool:
    """Whether it is the note that nothing done before it is to be undone any more."""
    return isinstance(known.op, Keep) and known.op.role == "commit"


def committed(settled: dict[Path, Settlement], note: Path) -> Iterator[tuple[Path, Settlement]]:
    """What was to be undone up to the commit at `note`, the last first, back to the commit before; each as it is when it is not to be undone any more."""
    for path, known in reversed(settled.items()):
        if is_commit(known) and path != note:
            return
        if _is_wanted(path, known):
            yield path, replace(known, op=_kept(known.op))


def _kept(op: Op) -> Op:
    match op:
        case Call():
            return replace(op, undo="")
        case Spawn():
            return replace(op, undo=False)
        case Keep():
            return replace(op, role="value")
    return op


def _is_note(known: Settlement) -> bool:
    return isinstance(known.op, Keep) and known.op.role in ("undoable", "undo_with")


def lies_in(path: Path, blocks: Collection[Path]) -> bool:
    """Whether a path leads into one of these, and not to one itself."""
    return any(path[:depth] in blocks for depth in range(1, len(path)))


def _is_wanted(path: Path, known: Settlement) -> bool:
    match known.op:
        case Call(undo="in_doubt") if path[0] != UNDO:
            return not _was_never_begun(known.outcome)
        case Call(undo=undo) if path[0] != UNDO:
            return bool(undo) and isinstance(known.outcome, Ok)
        case Spawn(undo=True) if path[0] != UNDO:
            return isinstance(known.outcome, Ok)
    return completes_block(known)


def _was_never_begun(outcome: Outcome | None) -> bool:
    return isinstance(outcome, Err) and outcome.kind == "cancelled" and not outcome.attempts
