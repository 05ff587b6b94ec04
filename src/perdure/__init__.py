"""Perdure: durable workflows. What ran is remembered; killed at any instant, an execution goes on where it stood.

Each name is imported when it is first asked for, so that whoever needs one, such as the command line, does not wait for all.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.agent import Agent, Budget
    from perdure.client import AsyncClient, AsyncHandle, Client, Handle
    from perdure.core.errors import (
        AlreadyDecided,
        AlreadyThere,
        Ambiguous,
        BadAnswer,
        BadDefinition,
        BadExpression,
        ChildFailed,
        DeadlineExceeded,
        DecisionRefused,
        Diverged,
        ErrorInfo,
        ExecutionCancelled,
        ExecutionFailed,
        ExportRefused,
        ExpressionFailed,
        Fatal,
        HasEnded,
        InputDiffers,
        JoinFailed,
        LinkRefused,
        NeedsAttention,
        NoReply,
        NotFound,
        NotReplayable,
        PatchRefused,
        PerdureError,
        ProgrammingError,
        RaceFailed,
        RetryAfter,
        Rollback,
        SealedPayload,
        StepFailed,
        StoreError,
        Timeout,
        TooDeep,
        Unauthorized,
        WorkflowError,
        WrongVerb,
    )
    from perdure.core.ops import Err
    from perdure.core.paths import Key
    from perdure.core.where import Is
    from perdure.definition import Definition
    from perdure.programs.code.approval import Notice
    from perdure.programs.code.context import Context, Turn
    from perdure.programs.code.declare import Retry, Signal, Step, step
    from perdure.programs.code.info import StepInfo, step_info
    from perdure.programs.code.options import NamedWorkflow
    from perdure.programs.code.queues import Queue, Rate
    from perdure.programs.code.resources import Resource
    from perdure.programs.code.results import Attempt, Decision, Message, Ok, Record, Vote, Won
    from perdure.programs.code.sync import SyncContext, SyncTurn
    from perdure.programs.code.transaction import Transaction
    from perdure.programs.graph.kind import Capabilities, Kind, Limit
    from perdure.programs.graph.policy import Policy
    from perdure.sdk import Workflow, workflow
    from perdure.steps.deployment import Allowed, Deployment
    from perdure.stores.codecs import Compressed
    from perdure.stores.encryption import Encrypted

__all__ = [
    "Agent",
    "Allowed",
    "AlreadyDecided",
    "AlreadyThere",
    "Ambiguous",
    "AsyncClient",
    "AsyncHandle",
    "Attempt",
    "BadAnswer",
    "BadDefinition",
    "BadExpression",
    "Budget",
    "Capabilities",
    "ChildFailed",
    "Client",
    "Compressed",
    "Context",
    "DeadlineExceeded",
    "Decision",
    "DecisionRefused",
    "Definition",
    "Deployment",
    "Diverged",
    "Encrypted",
    "Err",
    "ErrorInfo",
    "ExecutionCancelled",
    "ExecutionFailed",
    "ExportRefused",
    "ExpressionFailed",
    "Fatal",
    "Handle",
    "HasEnded",
    "InputDiffers",
    "Is",
    "JoinFailed",
    "Key",
    "Kind",
    "Limit",
    "LinkRefused",
    "Message",
    "NamedWorkflow",
    "NeedsAttention",
    "NoReply",
    "NotFound",
    "NotReplayable",
    "Notice",
    "Ok",
    "PatchRefused",
    "PerdureError",
    "Policy",
    "ProgrammingError",
    "Queue",
    "RaceFailed",
    "Rate",
    "Record",
    "Resource",
    "Retry",
    "RetryAfter",
    "Rollback",
    "SealedPayload",
    "Signal",
    "Step",
    "StepFailed",
    "StepInfo",
    "StoreError",
    "SyncContext",
    "SyncTurn",
    "Timeout",
    "TooDeep",
    "Transaction",
    "Turn",
    "Unauthorized",
    "Vote",
    "Won",
    "Workflow",
    "WorkflowError",
    "WrongVerb",
    "step",
    "step_info",
    "workflow",
]

_HOMES = {
    "perdure.agent": ("Agent", "Budget"),
    "perdure.programs.graph.kind": ("Capabilities", "Kind", "Limit"),
    "perdure.programs.graph.policy": ("Policy",),
    "perdure.steps.deployment": ("Allowed", "Deployment"),
    "perdure.client": ("AsyncClient", "AsyncHandle", "Client", "Handle"),
    "perdure.core.errors": (
        "AlreadyDecided",
        "AlreadyThere",
        "Ambiguous",
        "BadAnswer",
        "BadDefinition",
        "BadExpression",
        "ChildFailed",
        "DeadlineExceeded",
        "DecisionRefused",
        "Diverged",
        "ErrorInfo",
        "ExecutionCancelled",
        "ExecutionFailed",
        "ExportRefused",
        "ExpressionFailed",
        "Fatal",
        "HasEnded",
        "InputDiffers",
        "JoinFailed",
        "LinkRefused",
        "NeedsAttention",
        "NoReply",
        "NotFound",
        "NotReplayable",
        "NotReplayable",
        "PatchRefused",
        "PerdureError",
        "ProgrammingError",
        "RaceFailed",
        "RetryAfter",
        "Rollback",
        "SealedPayload",
        "StepFailed",
        "StoreError",
        "TooDeep",
        "Timeout",
        "Unauthorized",
        "WorkflowError",
        "WrongVerb",
    ),
    "perdure.core.ops": ("Err",),
    "perdure.core.paths": ("Key",),
    "perdure.core.where": ("Is",),
    "perdure.definition": ("Definition",),
    "perdure.programs.code.approval": ("Notice",),
    "perdure.programs.code.context": ("Context", "Turn"),
    "perdure.programs.code.declare": ("Retry", "Signal", "Step", "step"),
    "perdure.programs.code.info": ("StepInfo", "step_info"),
    "perdure.programs.code.options": ("NamedWorkflow",),
    "perdure.programs.code.queues": ("Queue", "Rate"),
    "perdure.programs.code.resources": ("Resource",),
    "perdure.programs.code.results": ("Attempt", "Decision", "Message", "Ok", "Record", "Vote", "Won"),
    "perdure.programs.code.sync": ("SyncContext", "SyncTurn"),
    "perdure.programs.code.transaction": ("Transaction",),
    "perdure.sdk": ("Workflow", "workflow"),
    "perdure.stores.codecs": ("Compressed",),
    "perdure.stores.encryption": ("Encrypted",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
