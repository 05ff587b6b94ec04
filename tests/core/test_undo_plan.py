"""Claims about what is undone, and in which order."""

from perdure.core.errors import ErrorInfo
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, KeepOperation, Outcome, Success
from perdure.core.paths import UNDO, Path
from perdure.core.undo_plan import UNDOABLE, operations_to_undo

BEFORE, BLOCK, AFTER = (("before", 1),), (("block", 1),), (("after", 1),)
INSIDE = (*BLOCK, ("inside", 1))
DONE = CallOperation("do", undo="done")


def settled(*found: tuple[Path, CallOperation | KeepOperation, Outcome]) -> dict[Path, SettledOperation]:
    """Operations, in the order in which they have settled."""
    return {path: SettledOperation(op, outcome, (), 0.0, 0.0, 1, 1, number) for number, (path, op, outcome) in enumerate(found)}


def test_what_is_inside_a_block_that_has_completed_is_not_undone_by_itself() -> None:
    steps = [(BEFORE, DONE, Success()), (INSIDE, DONE, Success())]
    assert operations_to_undo(settled(*steps, (AFTER, DONE, Success()))) == [AFTER, INSIDE, BEFORE]
    assert operations_to_undo(settled(*steps, ((*BLOCK, UNDOABLE), KeepOperation(role="undoable"), Success()), (AFTER, DONE, Success()))) == [
        AFTER,
        BLOCK,
        BEFORE,
    ]


def test_what_was_undone_is_not_undone_again_and_what_could_not_be_is() -> None:
    steps = [(BEFORE, DONE, Success()), (AFTER, DONE, Success())]
    undone = (UNDO, *AFTER)
    assert operations_to_undo(settled(*steps, (undone, CallOperation("undo"), Success()))) == [BEFORE]
    assert operations_to_undo(settled(*steps, (undone, CallOperation("undo"), Failure("exhausted", 3, ErrorInfo("ValueError", "no"))))) == [AFTER, BEFORE]


def test_what_failed_is_undone_only_where_its_doubt_is_declared_and_it_was_begun() -> None:
    failed, dropped = Failure("abandoned", 1, ErrorInfo("abandoned", "")), Failure("cancelled", 0, ErrorInfo("cancelled", ""))
    doubtful = CallOperation("do", undo="in_doubt")
    assert operations_to_undo(settled((BEFORE, DONE, failed), (INSIDE, doubtful, failed), (AFTER, doubtful, dropped))) == [INSIDE]
