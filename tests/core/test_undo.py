"""Claims about what is undone, and in which order."""

from perdure.core.errors import ErrorInfo
from perdure.core.ops import Call, Err, Keep, Ok, Outcome
from perdure.core.paths import UNDO, Path
from perdure.core.promise import Settlement
from perdure.core.undo import UNDOABLE, undoable

BEFORE, BLOCK, AFTER = (("before", 1),), (("block", 1),), (("after", 1),)
INSIDE = (*BLOCK, ("inside", 1))
DONE = Call("do", undo="done")


def settled(*found: tuple[Path, Call | Keep, Outcome]) -> dict[Path, Settlement]:
    """Operations, in the order in which they have settled."""
    return {path: Settlement(op, outcome, (), 0.0, 0.0, 1, 1, number) for number, (path, op, outcome) in enumerate(found)}


def test_what_is_inside_a_block_that_has_completed_is_not_undone_by_itself() -> None:
    steps = [(BEFORE, DONE, Ok()), (INSIDE, DONE, Ok())]
    assert undoable(settled(*steps, (AFTER, DONE, Ok()))) == [AFTER, INSIDE, BEFORE]
    assert undoable(settled(*steps, ((*BLOCK, UNDOABLE), Keep(role="undoable"), Ok()), (AFTER, DONE, Ok()))) == [AFTER, BLOCK, BEFORE]


def test_what_was_undone_is_not_undone_again_and_what_could_not_be_is() -> None:
    steps = [(BEFORE, DONE, Ok()), (AFTER, DONE, Ok())]
    undone = (UNDO, *AFTER)
    assert undoable(settled(*steps, (undone, Call("undo"), Ok()))) == [BEFORE]
    assert undoable(settled(*steps, (undone, Call("undo"), Err("exhausted", 3, ErrorInfo("ValueError", "no"))))) == [AFTER, BEFORE]


def test_what_failed_is_undone_only_where_its_doubt_is_declared_and_it_was_begun() -> None:
    failed, dropped = Err("abandoned", 1, ErrorInfo("Abandoned", "")), Err("cancelled", 0, ErrorInfo("Cancelled", ""))
    doubtful = Call("do", undo="in_doubt")
    assert undoable(settled((BEFORE, DONE, failed), (INSIDE, doubtful, failed), (AFTER, doubtful, dropped))) == [INSIDE]
