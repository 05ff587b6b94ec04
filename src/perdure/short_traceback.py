"""Tracebacks of failed executions: how an execution ended is said by its error, and the frames of the engine between it and the caller say nothing."""

from types import TracebackType

from perdure.core.errors import WorkflowError


class ShortTraceback:
    """A block that an outcome of the user's work leaves without the frames inside it: those of the caller come first. Other errors keep all frames."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, WorkflowError):
            error.with_traceback(None)


short_traceback = ShortTraceback()
