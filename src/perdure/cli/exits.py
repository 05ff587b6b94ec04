"""Exit codes: what each means, and which error leads to it. The one table; help, guide and tests read it.

Errors are named and not imported, so that showing help costs nothing; a test holds the names to the classes they mean.
"""

from enum import IntEnum

import click


class Exit(IntEnum):
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


class Outcome(click.ClickException):
    """The command has done what it could, and ends with this code; `message` says why, on standard error."""

    def __init__(self, code: Exit, message: str = "") -> None:
        super().__init__(message)
        self.code = code


MEANINGS: dict[Exit, str] = {
    Exit.OK: "done",
    Exit.DEFECT: "a defect of Perdure: --debug shows where",
    Exit.INPUT: "bad input: an argument, a value, a target that is not there, a definition that is not valid",
    Exit.FINDINGS: "something was found: by lint what is wrong, by fmt --check what is untidy, by check or replay what does not fit, by verify what is damaged",
    Exit.FLAGS: "bad flags: an option or a command that does not exist, an argument too few",
    Exit.WAITS: "it has not ended: it waits, runs, is paused, or is yet to start",
    Exit.APPROVAL: "it waits for an approval",
    Exit.ATTENTION: "it needs attention",
    Exit.FAILED: "it failed",
    Exit.CANCELLED: "it was cancelled",
    Exit.TIMEOUT: "its deadline is over, or nobody answered in time",
    Exit.NOT_FOUND: "there is no such execution",
    Exit.EXISTS: "there is an execution of this id already",
    Exit.REFUSED: "the decision does not count: not by this person, not again, or not with this link",
    Exit.STORE: "the store can't be opened, or did not answer",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
    Exit.PIPE: "whoever read the output has gone",
}

OF_ERROR: dict[str, Exit] = {
    "ProgrammingError": Exit.INPUT,
    "NotFound": Exit.NOT_FOUND,
    "AlreadyThere": Exit.EXISTS,
    "DecisionRefused": Exit.REFUSED,
    "LinkRefused": Exit.REFUSED,
    "SandboxLost": Exit.FAILED,
    "StoreError": Exit.STORE,
    "WorkflowError": Exit.FAILED,
    "TooDeep": Exit.FAILED,
    "ExecutionCancelled": Exit.CANCELLED,
    "DeadlineExceeded": Exit.TIMEOUT,
    "Timeout": Exit.TIMEOUT,
    "NeedsAttention": Exit.ATTENTION,
}
"""By the name of its class, or of the nearest of its bases that is named here."""

OF_STATUS: dict[str, Exit] = {
    "completed": Exit.OK,
    "failed": Exit.FAILED,
    "cancelled": Exit.CANCELLED,
    "needs_attention": Exit.ATTENTION,
    "waiting_approval": Exit.APPROVAL,
}
"""Of an execution that is asked for its result; any other status means that it has not ended."""


def of_error(kind: type[BaseException]) -> Exit:
    """The exit code of an error of this class."""
    named = (OF_ERROR[base.__name__] for base in kind.__mro__ if base.__name__ in OF_ERROR and base.__module__.startswith("perdure."))
    return next(named, Exit.DEFECT)


def of_status(status: str) -> Exit:
    """The exit code of asking for the result of an execution with this status."""
    return OF_STATUS.get(status, Exit.WAITS)


def table() -> str:
    """The codes with their meanings, a line each."""
    return "\n".join(f"{code:>5}  {meaning}" for code, meaning in MEANINGS.items())
