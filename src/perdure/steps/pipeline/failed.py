"""How a pipeline fails: with the number and the name of the operation, what happened there, and what to do."""

from perdure.core.errors import Fatal


class Wrong(Exception):  # raised by an operation, which does not know its own number
    """An operation can't go on: its arguments, a row or a limit are in its way."""


class RowWrong(Exception):  # raised of one row, whose number only the loop knows
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
