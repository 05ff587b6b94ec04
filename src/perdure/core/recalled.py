"""Results that are known before their operation is opened: it settles with them at once and performs nothing.

They come from before the execution was reopened, from the execution that it was forked from, or from a preset.
"""

from collections.abc import Mapping

import msgspec

from perdure.core.mailbox import ReceivedMessage
from perdure.core.operation_state import PendingOperation, SettledOperation
from perdure.core.operations import CallOperation, KeepOperation, Operation, Outcome, SleepOperation, SpawnOperation, Success
from perdure.core.paths import UNDO, Key, Path
from perdure.core.undo_plan import lies_within


class RecalledResult(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, array_like=True):
    """A settled operation in a fork: its outcome or, for a receive, its messages."""

    path: Path
    op: Operation
    outcome: Outcome | None
    messages: tuple[ReceivedMessage, ...] = ()


class ForkData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename={"origin": "o", "version": "v", "results": "r", "trimmed": "t"}):
    """The results that a fork takes over from `origin` as of `version`, and the first iteration that each of its loops has kept."""

    origin: Key
    version: int
    results: tuple[RecalledResult, ...]
    trimmed: tuple[tuple[Path, int], ...] = ()


class RecalledResults:
    """Results by path: `known` from before, `given` by presets. Each is taken once."""

    __slots__ = ("given", "known")

    def __init__(self) -> None:
        self.known: dict[Path, SettledOperation] = {}
        self.given: dict[Path, Outcome] = {}

    def __bool__(self) -> bool:
        return bool(self.known)

    def recalls(self, path: Path, op: Operation) -> bool:
        """Whether the operation would settle with a recalled result."""
        if not self.known and not self.given:
            return False
        if path in self.given and _may_be_preset(op):
            return True
        known = self.known.get(path)
        return known is not None and type(known.op) is type(op)

    def take(self, pending: PendingOperation) -> SettledOperation:
        """Removes and returns the result that an open operation settles with."""
        known, given = self.known.pop(pending.path, None), self.given.pop(pending.path, None)
        if given is not None or known is None:
            return SettledOperation(pending.op, given, (), 0.0, 0.0, 1, 1)
        return known

    def learn(self, settled: Mapping[Path, SettledOperation], before: Path) -> None:
        """Adds the results that are still valid; with `before`, only those of operations that were opened earlier than the one there."""
        self.known = {path: one for path, one in (self.known | results_still_valid(settled)).items() if not before or one.number < settled[before].number}

    def copy(self, fork: ForkData) -> None:
        """Takes over the results of a fork."""
        self.known = {one.path: SettledOperation(one.op, one.outcome, one.messages, 0.0, 0.0, 1, 1) for one in fork.results}


def results_still_valid(settled: Mapping[Path, SettledOperation]) -> dict[Path, SettledOperation]:
    """Returns the successes that were not undone, by themselves or with a block around them, and so are not repeated."""
    undone = {path[1:] for path, known in settled.items() if path[0] == UNDO and isinstance(known.outcome, Success)}
    succeeded = {path: known for path, known in settled.items() if known.outcome is None or isinstance(known.outcome, Success)}
    return {path: known for path, known in succeeded.items() if path not in undone and path[0] != UNDO and not lies_within(path, undone)}


def fork_results(known: Mapping[Path, SettledOperation], settled: Mapping[Path, SettledOperation], before: Path) -> tuple[RecalledResult, ...]:
    """Returns the results that a fork takes over: of settled operations and of `known` ones that were not opened again, with `before` the earlier ones.

    State, attributes and streams are left out: the program records them anew in the log of the fork.
    """
    recalled_results = RecalledResults()
    recalled_results.known = dict(known)
    recalled_results.learn(settled, before)
    return tuple(RecalledResult(path, one.op, one.outcome, one.messages) for path, one in recalled_results.known.items() if not _is_recorded_anew(one.op))


def _is_recorded_anew(op: Operation) -> bool:
    return isinstance(op, KeepOperation) and op.role in ("state", "stream", "attributes")


def _may_be_preset(op: Operation) -> bool:
    return isinstance(op, CallOperation | SleepOperation) or (isinstance(op, SpawnOperation) and op.awaited)
