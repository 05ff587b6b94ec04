"""The memo: results that are known before they are asked for. An operation at such a path settles with its own at once, and does nothing.

They come of an earlier life of the execution, of the one that it was forked from, or of somebody who gave them.
"""

from collections.abc import Mapping

from perdure.core.copies import Copy, Fork
from perdure.core.ops import Call, Keep, Ok, Op, Outcome, Sleep, Spawn
from perdure.core.paths import UNDO, Path
from perdure.core.promise import Promise, Settlement
from perdure.core.undo import lies_in


class Memo:
    """Results by path: `known` were reached before, `given` by somebody. Each is taken once."""

    __slots__ = ("given", "known")

    def __init__(self) -> None:
        self.known: dict[Path, Settlement] = {}
        self.given: dict[Path, Outcome] = {}

    def __bool__(self) -> bool:
        return bool(self.known)

    def recalls(self, path: Path, op: Op) -> bool:
        """Whether the operation would settle with what is known."""
        if path in self.given and _may_be_given(op):
            return True
        known = self.known.get(path)
        return known is not None and type(known.op) is type(op)

    def take(self, promise: Promise) -> Settlement:
        """What an open operation settles with; from then on it is not known beforehand any more."""
        known, given = self.known.pop(promise.path, None), self.given.pop(promise.path, None)
        if given is not None or known is None:
            return Settlement(promise.op, given, (), 0.0, 0.0, 1, 1)
        return known

    def learn(self, settled: Mapping[Path, Settlement], before: Path) -> None:
        """Remember what is still done: with `before`, only what was opened earlier than the operation there."""
        self.known = {path: one for path, one in (self.known | still_done(settled)).items() if not before or one.number < settled[before].number}

    def copy(self, fork: Fork) -> None:
        """Know what the other execution had reached."""
        self.known = {one.path: Settlement(one.op, one.outcome, one.letters, 0.0, 0.0, 1, 1) for one in fork.copies}


def still_done(settled: Mapping[Path, Settlement]) -> dict[Path, Settlement]:
    """What has succeeded and was not undone, by itself or with a block in which it lies, and so is not done again."""
    undone = {path[1:] for path, known in settled.items() if path[0] == UNDO and isinstance(known.outcome, Ok)}
    succeeded = {path: known for path, known in settled.items() if known.outcome is None or isinstance(known.outcome, Ok)}
    return {path: known for path, known in succeeded.items() if path not in undone and path[0] != UNDO and not lies_in(path, undone)}


def copies(known: Mapping[Path, Settlement], settled: Mapping[Path, Settlement], before: Path) -> tuple[Copy, ...]:
    """What a fork takes over of what has settled and of what was `known` and not asked for again: with `before`, what was opened earlier than that.

    State, attributes and streams are told anew by the program, in the log of the fork.
    """
    memo = Memo()
    memo.known = dict(known)
    memo.learn(settled, before)
    return tuple(Copy(path, one.op, one.outcome, one.letters) for path, one in memo.known.items() if not _is_told(one.op))


def _is_told(op: Op) -> bool:
    return isinstance(op, Keep) and op.role in ("state", "stream", "attributes")


def _may_be_given(op: Op) -> bool:
    return isinstance(op, Call | Sleep) or (isinstance(op, Spawn) and op.awaited)
