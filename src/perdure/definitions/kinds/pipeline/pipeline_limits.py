"""How a pipeline fails: with the number and the name of the operation, what happened there, and what to do.

Bounds: how many rows, bytes, groups and seconds a pipeline may take, and the pace at which its operations look at that.
"""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from perdure.core.errors import Fatal


class OperationError(Exception):  # raised by an operation, which does not know its own number
    """An operation can't go on: its arguments, a row or a limit are in its way."""


class RowError(Exception):  # raised of one row, whose number only the loop knows
    """One row is not what the operation takes."""


class PipelineFailed(Fatal):
    """An operation of a pipeline failed for good: the same rows would fail it again. `number` counts operations from 0; -1 is the pipeline as a whole."""

    def __init__(self, number: int, operation: str, what: str) -> None:
        super().__init__(f"pipeline[{number}] ({operation}): {what}" if number >= 0 else f"pipeline: {what}")
        self.number, self.operation, self.what = number, operation, what


class OperationFailed(Exception):
    """What an operation asked of the world failed, and may succeed another time."""

    def __init__(self, number: int, operation: str, what: str) -> None:
        super().__init__(f"pipeline[{number}] ({operation}): {what}")
        self.number, self.operation, self.what = number, operation, what


T = TypeVar("T")

OPERATIONS_MAX = 100
"""Operations that a pipeline may have."""

ROWS_AT_A_TIME = 4096
"""After so many rows an operation looks whether it is still wanted, and in time."""


@dataclasses.dataclass(frozen=True)
class PipelineLimits:
    """What a pipeline may take: rows in any table, bytes (as MessagePack) of what comes in and of the result, groups of a groupby, seconds in all."""

    rows: int = 1_000_000
    bytes: int = 64 * 1024 * 1024
    groups: int = 100_000
    wall_s: float = 60.0


DEFAULT_LIMITS = PipelineLimits()
MAXIMUM_LIMITS = PipelineLimits(10_000_000, 1024 * 1024 * 1024, 1_000_000, 3600.0)
"""How far a pipeline may raise its own bounds."""


class LimitMeter:
    """The bounds of a pipeline under way. Its rows may be gone through in a thread; `stop` ends that within `ROWS_AT_A_TIME` rows."""

    __slots__ = ("_ends_s", "bounds", "stopped")

    def __init__(self, bounds: PipelineLimits) -> None:
        self.bounds = bounds
        self.stopped = False
        self._ends_s = time.monotonic() + bounds.wall_s

    @property
    def left_s(self) -> float:
        """The seconds that are left."""
        return self._ends_s - time.monotonic()

    def stop(self) -> None:
        """Nobody waits for the result any more."""
        self.stopped = True

    def look(self) -> None:
        """Go on, if there is time, and somebody who waits.

        Raises:
            Wrong: there is none.
        """
        if self.stopped:
            raise OperationError("nobody waits for it any more")
        if self.left_s < 0:
            raise OperationError(f"the pipeline takes more than {self.bounds.wall_s:g} s; filter earlier, or raise limits.wall")

    def each(self, rows: Iterable[T]) -> Iterator[T]:
        """The rows, with a look now and then."""
        left = iter(rows)
        while some := list(islice(left, ROWS_AT_A_TIME)):
            self.look()
            yield from some

    def count(self, rows: int, what: str = "rows") -> None:
        """Hold a number of rows against the bound, if possible before they are made.

        Raises:
            Wrong: there are too many.
        """
        if rows > self.bounds.rows:
            raise OperationError(f"there are {rows:,} {what}, and {self.bounds.rows:,} are the most; filter earlier, or raise limits.rows")

    def checked(self, rows: Sequence[T]) -> Sequence[T]:
        """The same rows, if they are not too many."""
        self.count(len(rows))
        return rows
