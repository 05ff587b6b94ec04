"""Perdure: durable workflows. What ran is remembered; killed at any instant, an execution goes on where it stood."""

from perdure.core.errors import (
    ChildFailed,
    DeadlineExceeded,
    Diverged,
    ErrorInfo,
    ExecutionCancelled,
    ExecutionFailed,
    Fatal,
    JoinFailed,
    NeedsAttention,
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
from perdure.sdk import Workflow, workflow

__all__ = [
    "Attempt",
    "ChildFailed",
    "Context",
    "DeadlineExceeded",
    "Diverged",
    "Err",
    "ErrorInfo",
    "ExecutionCancelled",
    "ExecutionFailed",
    "Fatal",
    "JoinFailed",
    "Key",
    "Message",
    "NeedsAttention",
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
