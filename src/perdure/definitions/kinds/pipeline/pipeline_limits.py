"""The limits of a pipeline (rows, bytes, groups, seconds) and its errors.

An error names the number and the name of the operation, what happened, and what to do.
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
    """A row is not valid input for the operation."""


class PipelineFailed(Fatal):
    """An operation of a pipeline failed for good: the same rows would fail it again. `number` counts operations from 0; -1 is the pipeline as a whole."""

    code = "pipeline_failed"

    def __init__(self, number: int, operation: str, what: str) -> None:
        super().__init__(f"pipeline[{number}] ({operation}): {what}" if number >= 0 else f"pipeline: {what}")
        self.number, self.operation, self.what = number, operation, what


class OperationFailed(Exception):
    """An operation failed outside of the pipeline; a retry may succeed."""

    code = "operation_failed"

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
    """The limits of a pipeline: rows of each table, bytes (as MessagePack) of the input and of the result, groups of a groupby, and seconds in all."""

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
        """Cancels the pipeline; its result is no longer wanted."""
        self.stopped = True

    def look(self) -> None:
        """Checks that there is time left and that the pipeline is not cancelled.

        Raises:
            OperationError: the time is over, or the pipeline is cancelled.
        """
        if self.stopped:
            raise OperationError("the result is no longer needed")
        if self.left_s < 0:
            raise OperationError(f"the pipeline takes more than {self.bounds.wall_s:g} s; filter earlier, or raise limits.wall")

    def each(self, rows: Iterable[T]) -> Iterator[T]:
        """The rows, with a look now and then."""
        left = iter(rows)
        while some := list(islice(left, ROWS_AT_A_TIME)):
            self.look()
            yield from some

    def count(self, rows: int, what: str = "rows") -> None:
        """Holds a number of rows against the bound, if possible before they are made.

        Raises:
            Wrong: there are too many.
        """
        if rows > self.bounds.rows:
            raise OperationError(f"there are {rows:,} {what}, and at most {self.bounds.rows:,} are allowed; filter earlier, or raise limits.rows")

    def checked(self, rows: Sequence[T]) -> Sequence[T]:
        """The same rows, if they are not too many."""
        self.count(len(rows))
        return rows
