"""Shortens the tracebacks of failed executions: the error describes the failure, so the engine's frames between it and the caller only distract."""

from types import TracebackType

from perdure.core.errors import WorkflowError


class ShortTraceback:
    """A block that removes its own frames from a `WorkflowError` that leaves it, so that the traceback begins at the caller. Other errors keep all frames."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, WorkflowError):
            error.with_traceback(None)


short_traceback = ShortTraceback()
