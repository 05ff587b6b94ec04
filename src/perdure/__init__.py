"""Perdure: durable workflows. What ran is remembered; killed at any instant, an execution goes on where it stood."""

from typing import TYPE_CHECKING, Any

from perdure.core.errors import (
    Ambiguous,
    ChildFailed,
    DeadlineExceeded,
    Diverged,
    ErrorInfo,
    ExecutionCancelled,
    ExecutionFailed,
    Fatal,
    HasEnded,
    InputDiffers,
    JoinFailed,
    NeedsAttention,
    NoReply,
    NotFound,
    PerdureError,
    ProgrammingError,
    RaceFailed,
    StepFailed,
    StoreError,
    Timeout,
    WorkflowError,
    WrongVerb,
)
from perdure.core.ops import Err
from perdure.core.paths import Key
from perdure.programs.code.context import Context, Turn
from perdure.programs.code.declare import Retry, Signal, Step, step
from perdure.programs.code.info import StepInfo, step_info
from perdure.programs.code.results import Attempt, Message, Ok, Record, Won
from perdure.programs.code.sync import SyncContext, SyncTurn
from perdure.sdk import Workflow, workflow

if TYPE_CHECKING:
    from perdure.client import AsyncClient, AsyncHandle, Client, Handle

__all__ = [
    "Ambiguous",
    "AsyncClient",
    "AsyncHandle",
    "Attempt",
    "ChildFailed",
    "Client",
    "Context",
    "DeadlineExceeded",
    "Diverged",
    "Err",
    "ErrorInfo",
    "ExecutionCancelled",
    "ExecutionFailed",
    "Fatal",
    "Handle",
    "HasEnded",
    "InputDiffers",
    "JoinFailed",
    "Key",
    "Message",
    "NeedsAttention",
    "NoReply",
    "NotFound",
    "Ok",
    "PerdureError",
    "ProgrammingError",
    "RaceFailed",
    "Record",
    "Retry",
    "Signal",
    "Step",
    "StepFailed",
    "StepInfo",
    "StoreError",
    "SyncContext",
    "SyncTurn",
    "Timeout",
    "Turn",
    "Won",
    "Workflow",
    "WorkflowError",
    "WrongVerb",
    "step",
    "step_info",
    "workflow",
]

_OF_CLIENT = ("AsyncClient", "AsyncHandle", "Client", "Handle")


def __getattr__(name: str) -> Any:
    """The client brings the stores along, so it is imported when it is first asked for."""
    if name in _OF_CLIENT:
        from perdure import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_CLIENT})
