"""Perdure: durable workflows. Every outcome is recorded, so an execution that is killed at any instant continues where it was.

Each public name is imported on first use, so that importing the package, as the command line does, is fast.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    raise ImportError("Perdure does not run on Windows: its files are guarded by locks that only Linux and macOS have. Use WSL (https://aka.ms/wsl)")

if TYPE_CHECKING:
    from perdure.agent import Agent, Budget
    from perdure.app import App, SyncApp
    from perdure.code.approval_requests import Notice
    from perdure.code.call_options import NamedWorkflow
    from perdure.code.carried_context import carry, carry_by
    from perdure.code.context import Context, Turn
    from perdure.code.declarations import Retry, Signal, Step, step
    from perdure.code.declared_queues import Queue, Rate
    from perdure.code.declared_schedules import Schedule
    from perdure.code.results import Attempt, Decision, Err, Message, Ok, Record, Vote, Won
    from perdure.code.step_environment import Resource, StepInfo, Transaction, step_info
    from perdure.code.sync_context import SyncContext, SyncTurn
    from perdure.core.attribute_filter import Is
    from perdure.core.errors import (
        AlreadyCompleted,
        AlreadyDecided,
        AlreadyExists,
        Ambiguous,
        BadAnswer,
        BadDefinition,
        BadExpression,
        ChildFailed,
        CompletionRefused,
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
        MessageRejected,
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
        TooManyActive,
        Unauthorized,
        WorkflowError,
        WrongVerb,
    )
    from perdure.core.paths import Key
    from perdure.definition_workflow import Definition
    from perdure.definitions.graph.policy import Policy
    from perdure.definitions.graph.step_kind import Capabilities, Kind, Limit
    from perdure.definitions.kinds.deployment import Allowed, Deployment
    from perdure.prompt_workflow import Prompt
    from perdure.service.notifications.app_channel import AppNotification
    from perdure.step_fields import StepFields
    from perdure.stores.encryption import Encrypted
    from perdure.stores.payload_codec import Compressed
    from perdure.sync_client import AsyncClient, AsyncHandle, Client, Handle
    from perdure.workflow_function import Workflow, workflow

__all__ = [
    "Agent",
    "Allowed",
    "AlreadyCompleted",
    "AlreadyDecided",
    "AlreadyExists",
    "Ambiguous",
    "App",
    "AppNotification",
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
    "CompletionRefused",
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
    "MessageRejected",
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
    "Prompt",
    "Queue",
    "RaceFailed",
    "Rate",
    "Record",
    "Resource",
    "Retry",
    "RetryAfter",
    "Rollback",
    "Schedule",
    "SealedPayload",
    "Signal",
    "Step",
    "StepFailed",
    "StepFields",
    "StepInfo",
    "StoreError",
    "SyncApp",
    "SyncContext",
    "SyncTurn",
    "Timeout",
    "TooDeep",
    "TooManyActive",
    "Transaction",
    "Turn",
    "Unauthorized",
    "Vote",
    "Won",
    "Workflow",
    "WorkflowError",
    "WrongVerb",
    "carry",
    "carry_by",
    "step",
    "step_info",
    "workflow",
]

_HOMES = {
    "perdure.agent": (
        "Agent",
        "Budget",
    ),
    "perdure.app": (
        "App",
        "SyncApp",
    ),
    "perdure.code.approval_requests": ("Notice",),
    "perdure.prompt_workflow": ("Prompt",),
    "perdure.service.notifications.app_channel": ("AppNotification",),
    "perdure.code.declared_schedules": ("Schedule",),
    "perdure.code.call_options": ("NamedWorkflow",),
    "perdure.code.carried_context": ("carry", "carry_by"),
    "perdure.code.context": (
        "Context",
        "Turn",
    ),
    "perdure.code.declarations": (
        "Retry",
        "Signal",
        "Step",
        "step",
    ),
    "perdure.code.declared_queues": (
        "Queue",
        "Rate",
    ),
    "perdure.code.results": (
        "Err",
        "Attempt",
        "Decision",
        "Message",
        "Ok",
        "Record",
        "Vote",
        "Won",
    ),
    "perdure.code.step_environment": (
        "Resource",
        "StepInfo",
        "Transaction",
        "step_info",
    ),
    "perdure.step_fields": ("StepFields",),
    "perdure.code.sync_context": (
        "SyncContext",
        "SyncTurn",
    ),
    "perdure.core.attribute_filter": ("Is",),
    "perdure.core.errors": (
        "AlreadyCompleted",
        "AlreadyDecided",
        "AlreadyExists",
        "Ambiguous",
        "BadAnswer",
        "BadDefinition",
        "BadExpression",
        "ChildFailed",
        "CompletionRefused",
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
        "MessageRejected",
        "NeedsAttention",
        "NoReply",
        "NotFound",
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
        "Timeout",
        "TooDeep",
        "TooManyActive",
        "Unauthorized",
        "WorkflowError",
        "WrongVerb",
    ),
    "perdure.core.paths": ("Key",),
    "perdure.definition_workflow": ("Definition",),
    "perdure.definitions.graph.policy": ("Policy",),
    "perdure.definitions.graph.step_kind": (
        "Capabilities",
        "Kind",
        "Limit",
    ),
    "perdure.definitions.kinds.deployment": (
        "Allowed",
        "Deployment",
    ),
    "perdure.stores.encryption": ("Encrypted",),
    "perdure.stores.payload_codec": ("Compressed",),
    "perdure.sync_client": (
        "AsyncClient",
        "AsyncHandle",
        "Client",
        "Handle",
    ),
    "perdure.workflow_function": (
        "Workflow",
        "workflow",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
