"""Copies: what a fork takes over from the execution that it is made of. Data that travels in its start and stays in its log.

The memo: results that are known before they are asked for. An operation at such a path settles with its own at once, and does nothing.

They come of an earlier life of the execution, of the one that it was forked from, or of somebody who gave them.
"""

from collections.abc import Mapping

import msgspec

from perdure.core.mailbox import ReceivedMessage
from perdure.core.operation_state import PendingOperation, SettledOperation
from perdure.core.operations import CallOperation, KeepOperation, Operation, Outcome, SleepOperation, SpawnOperation, Success
from perdure.core.paths import UNDO, Key, Path
from perdure.core.undo_plan import lies_within


class RecalledResult(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, array_like=True):
    """A settled operation: its outcome or, of a receive, the messages that it took."""

    path: Path
    op: Operation
    outcome: Outcome | None
    letters: tuple[ReceivedMessage, ...] = ()


class ForkData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename={"origin": "o", "version": "v", "copies": "c", "trimmed": "t"}):
    """The results that are taken over from `origin`, as it was at `version`, and how far its loops had forgotten their turns."""

    origin: Key
    version: int
    copies: tuple[RecalledResult, ...]
    trimmed: tuple[tuple[Path, int], ...] = ()


class RecalledResults:
    """Results by path: `known` were reached before, `given` by somebody. Each is taken once."""

    __slots__ = ("given", "known")

    def __init__(self) -> None:
        self.known: dict[Path, SettledOperation] = {}
        self.given: dict[Path, Outcome] = {}

    def __bool__(self) -> bool:
        return bool(self.known)

    def recalls(self, path: Path, op: Operation) -> bool:
        """Whether the operation would settle with what is known."""
        if path in self.given and _may_be_preset(op):
            return True
        known = self.known.get(path)
        return known is not None and type(known.op) is type(op)

    def take(self, pending: PendingOperation) -> SettledOperation:
        """What an open operation settles with; from then on it is not known beforehand any more."""
        known, given = self.known.pop(pending.path, None), self.given.pop(pending.path, None)
        if given is not None or known is None:
            return SettledOperation(pending.op, given, (), 0.0, 0.0, 1, 1)
        return known

    def learn(self, settled: Mapping[Path, SettledOperation], before: Path) -> None:
        """Remember what is still done: with `before`, only what was opened earlier than the operation there."""
        self.known = {path: one for path, one in (self.known | results_still_valid(settled)).items() if not before or one.number < settled[before].number}

    def copy(self, fork: ForkData) -> None:
        """Know what the other execution had reached."""
        self.known = {one.path: SettledOperation(one.op, one.outcome, one.letters, 0.0, 0.0, 1, 1) for one in fork.copies}


def results_still_valid(settled: Mapping[Path, SettledOperation]) -> dict[Path, SettledOperation]:
    """What has succeeded and was not undone, by itself or with a block in which it lies, and so is not done again."""
    undone = {path[1:] for path, known in settled.items() if path[0] == UNDO and isinstance(known.outcome, Success)}
    succeeded = {path: known for path, known in settled.items() if known.outcome is None or isinstance(known.outcome, Success)}
    return {path: known for path, known in succeeded.items() if path not in undone and path[0] != UNDO and not lies_within(path, undone)}


def fork_results(known: Mapping[Path, SettledOperation], settled: Mapping[Path, SettledOperation], before: Path) -> tuple[RecalledResult, ...]:
    """What a fork takes over of what has settled and of what was `known` and not asked for again: with `before`, what was opened earlier than that.

    State, attributes and streams are told anew by the program, in the log of the fork.
    """
    recalled_results = RecalledResults()
    recalled_results.known = dict(known)
    recalled_results.learn(settled, before)
    return tuple(RecalledResult(path, one.op, one.outcome, one.letters) for path, one in recalled_results.known.items() if not _is_recorded_anew(one.op))


def _is_recorded_anew(op: Operation) -> bool:
    return isinstance(op, KeepOperation) and op.role in ("state", "stream", "attributes")


def _may_be_preset(op: Operation) -> bool:
    return isinstance(op, CallOperation | SleepOperation) or (isinstance(op, SpawnOperation) and op.awaited)
