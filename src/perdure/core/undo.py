"""Undo: which of the settled operations are to be undone, in which order, and which of them are still done."""

from collections.abc import Mapping

from perdure.core.ops import Call, Ok, Spawn
from perdure.core.paths import UNDO, Path
from perdure.core.promise import Settlement


def undoable(settled: Mapping[Path, Settlement]) -> list[Path]:
    """What is to be undone of what has settled, given in its order: what was done last first."""
    wanted = [(path, known.op.undo, known.outcome) for path, known in settled.items() if isinstance(known.op, Call | Spawn) and path[0] != UNDO]
    return [path for path, undo, outcome in reversed(wanted) if undo == "in_doubt" or (undo and isinstance(outcome, Ok))]


def still_done(settled: Mapping[Path, Settlement]) -> dict[Path, Settlement]:
    """What has succeeded and was not undone, and so is not done again when the execution is reopened."""
    undone = {path[1:] for path in settled if path[0] == UNDO}
    succeeded = {path: known for path, known in settled.items() if known.outcome is None or isinstance(known.outcome, Ok)}
    return {path: known for path, known in succeeded.items() if path not in undone and path[0] != UNDO}
