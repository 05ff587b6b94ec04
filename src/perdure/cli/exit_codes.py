"""The exit codes: their meanings, and the errors that lead to them. Help, guide and tests read this table.

Errors are named and not imported, so that printing help is fast; a test checks the names against the classes.
"""

from enum import IntEnum

import click


class ExitCode(IntEnum):
    """How the command ended, for scripts."""

    OK = 0
    DEFECT = 1
    INPUT = 10
    FINDINGS = 11
    FLAGS = 20
    WAITS = 30
    APPROVAL = 31
    ATTENTION = 32
    FAILED = 40
    CANCELLED = 41
    TIMEOUT = 43
    NOT_FOUND = 44
    EXISTS = 45
    REFUSED = 46
    STORE = 50
    INTERRUPTED = 130
    PIPE = 141


class CommandExit(click.ClickException):
    """Ends the command with a code; `message` is printed on standard error."""

    def __init__(self, code: ExitCode, message: str = "") -> None:
        super().__init__(message)
        self.code = code


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "success",
    ExitCode.DEFECT: "a defect of Perdure: --debug shows where",
    ExitCode.INPUT: "invalid input: an argument, a value, a target that does not exist, a definition that is not valid",
    ExitCode.FINDINGS: "findings: problems by lint, unformatted files by fmt --check, executions that do not fit by check or replay, damage by verify",
    ExitCode.FLAGS: "wrong usage: an option or a command that does not exist, or a missing argument",
    ExitCode.WAITS: "it has not ended: it waits, runs, is paused, or is yet to start",
    ExitCode.APPROVAL: "it waits for an approval",
    ExitCode.ATTENTION: "it needs attention",
    ExitCode.FAILED: "it failed",
    ExitCode.CANCELLED: "it was cancelled",
    ExitCode.TIMEOUT: "its deadline has passed, or a wait timed out",
    ExitCode.NOT_FOUND: "there is no such execution",
    ExitCode.EXISTS: "there is an execution of this id already",
    ExitCode.REFUSED: "the decision, completion or message does not count: not by this person, not again, not any more, or not with this link or content",
    ExitCode.STORE: "the store can't be opened, or did not answer",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.PIPE: "the reader of the output has gone",
}

EXIT_CODE_OF_ERROR: dict[str, ExitCode] = {
    "ProgrammingError": ExitCode.INPUT,
    "NotFound": ExitCode.NOT_FOUND,
    "AlreadyExists": ExitCode.EXISTS,
    "DecisionRefused": ExitCode.REFUSED,
    "CompletionRefused": ExitCode.REFUSED,
    "MessageRejected": ExitCode.REFUSED,
    "LinkRefused": ExitCode.REFUSED,
    "Unauthenticated": ExitCode.REFUSED,
    "Forbidden": ExitCode.REFUSED,
    "SandboxLost": ExitCode.FAILED,
    "IssuerUnavailable": ExitCode.REFUSED,
    "StoreError": ExitCode.STORE,
    "WorkflowError": ExitCode.FAILED,
    "TooDeep": ExitCode.FAILED,
    "ExecutionCancelled": ExitCode.CANCELLED,
    "DeadlineExceeded": ExitCode.TIMEOUT,
    "Timeout": ExitCode.TIMEOUT,
    "NeedsAttention": ExitCode.ATTENTION,
}
"""Exit codes by the name of an error class, or of the nearest of its bases that is named here."""

EXIT_CODE_OF_STATUS: dict[str, ExitCode] = {
    "completed": ExitCode.OK,
    "failed": ExitCode.FAILED,
    "cancelled": ExitCode.CANCELLED,
    "needs_attention": ExitCode.ATTENTION,
    "waiting_approval": ExitCode.APPROVAL,
}
"""Exit codes of commands that ask for a result, by status; any other status means that the execution has not ended."""


def exit_code_of_error(kind: type[BaseException]) -> ExitCode:
    """The exit code of an error of this class."""
    named = (EXIT_CODE_OF_ERROR[base.__name__] for base in kind.__mro__ if base.__name__ in EXIT_CODE_OF_ERROR and base.__module__.startswith("perdure."))
    return next(named, ExitCode.DEFECT)


def exit_code_of_status(status: str) -> ExitCode:
    """The exit code of asking for the result of an execution with this status."""
    return EXIT_CODE_OF_STATUS.get(status, ExitCode.WAITS)


def exit_code_table() -> str:
    """The codes with their meanings, a line each."""
    return "\n".join(f"{code:>5}  {meaning}" for code, meaning in MEANINGS.items())
