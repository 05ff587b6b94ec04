"""A real message of each error, which the reference of errors shows: `RAISED` has errors that code raises here, `MADE` those that take a running engine,
a sandbox or another machine, constructed with arguments as their raisers pass them.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perdure import Definition, workflow
from perdure.code import function_codec
from perdure.code.declarations import checked_name
from perdure.code.durations import duration_seconds
from perdure.core import errors as e
from perdure.core import log_format, payload_header, values
from perdure.core.errors import ErrorInfo
from perdure.core.paths import Key
from perdure.core.secret_masks import find_no_secret
from perdure.runtime.call_secrets import with_secrets
from perdure.service import execution_bundles

ORDER = Key("default", "order", "o1")
DECLINED = ErrorInfo("Declined", "the card was refused")


@dataclass
class Card:
    number: str


@dataclass
class CreditCard(Card):
    limit: int = 0


GOLD = CreditCard("4711", 900)


@workflow
async def order(ctx: Any) -> None:
    """Used by the examples."""


RAISED: dict[str, Callable[[], Any]] = {
    "Unencodable": lambda: values.encode(threading.Lock(), "the result of step", (("connect", 1),)),
    "Undecodable": lambda: values.decode(values.encode("five", ""), int, "the result of step", (("count", 1),)),
    "TooLarge": lambda: values.encode(bytes(20_000_000), "the result of step", (("download", 1),)),
    "LossyValue": lambda: function_codec.refuse_lossy_value(GOLD, values.encode(GOLD, ""), Card, lambda: "the argument card of step pay"),
    "UnsupportedType": lambda: function_codec.refuse_unsupported("pay", [("card", Card | threading.Event)]),
    "BadName": lambda: checked_name("", "step"),
    "BadValue": lambda: duration_seconds("3 weeks ago", "sleep"),
    "WrongVerb": lambda: order(),
    "MissingSecret": lambda: with_secrets(values.encode(((), {"token": {"@secret": "TOKEN"}}), ""), ("/token",), find_no_secret),
    "ExportRefused": lambda: execution_bundles.decode_bundle(b"PK", b"0" * 32),
    "BadDefinition": lambda: Definition.of({"perdure": 1, "name": "order", "steps": [{"id": "pay", "tool": "charge", "wehn": True}]}),
    "LogDamaged": lambda: log_format.decode_row(b""),
    "LogVersionUnsupported": lambda: log_format.decode_row(bytes((9, 0, 0, 0, 0))),
    "SealedPayload": lambda: payload_header.reject_encoded(bytes((payload_header.ENCODED_MARKER, 0)) + payload_header.ENCRYPTED_MARKER + b"\x042026"),
}

MADE: dict[str, BaseException] = {
    "Unstorable": e.Unstorable("Expected `str`, got `int` - at `$[0].key`"),
    "DuplicateName": e.DuplicateName("charge", ""),
    "NotDeterministic": e.NotDeterministic("asyncio.open_connection()", "a step, which may use the network"),
    "NotAwaited": e.NotAwaited(["charge", "sleep:60s"]),
    "UnknownWorkflow": e.UnknownWorkflow("order", ["invoice", "refund"]),
    "MissingCapabilities": e.MissingCapabilities("default/order/o1", "tool charge"),
    "NotFound": e.NotFound(ORDER),
    "Ambiguous": e.Ambiguous("o", [ORDER, Key("default", "order", "o2")], more=True),
    "InputDiffers": e.InputDiffers(ORDER),
    "AlreadyExists": e.AlreadyExists(ORDER),
    "StaleRecord": e.StaleRecord("definition", "invoice", 3, 4),
    "IdempotencyKeyReused": e.IdempotencyKeyReused("5f0c"),
    "RequestUnderWay": e.RequestUnderWay("5f0c"),
    "AnswerUnknown": e.AnswerUnknown("5f0c", "its process ended before the answer was kept"),
    "DefinitionDisabled": e.DefinitionDisabled("invoice"),
    "DefinitionOwned": e.DefinitionOwned("invoice", "definitions/invoice.yaml"),
    "ProposalRefused": e.ProposalRefused("invoice", "nothing was changed: the proposal has expired. Make another proposal"),
    "StaleProposal": e.StaleProposal("invoice", "sha256:3f2a91c0d4…", "sha256:88d1e5b7a0…"),
    "NoPromptHandler": e.NoPromptHandler(),
    "TriggerOwned": e.TriggerOwned("invoice:nightly", "invoice", "definition"),
    "TooManyActive": e.TooManyActive(ORDER, "user", "ada", 5),
    "HasEnded": e.HasEnded(ORDER, "completed", "the message 'approved'"),
    "MessageRejected": e.MessageRejected("transfer", e.ErrorInfo("ValueError", "only 100 left")),
    "CompletionRefused": e.CompletionRefused(ORDER, "external:order_car/request", "it has timed out, or its branch was cancelled"),
    "AlreadyCompleted": e.AlreadyCompleted(ORDER, "external:order_car/request", "it was completed before, and the first completion counts"),
    "AlreadyDecided": e.AlreadyDecided(ORDER, "completed", ("Ship o1?", "ada", True, 1_790_000_000.0)),
    "Removed": e.Removed(ORDER, "it was removed at 2026-11-22 15:59:03 UTC"),
    "DecisionRefused": e.DecisionRefused(ORDER, "bob is none of those who may decide"),
    "LinkRefused": e.LinkRefused("it has expired; ask for another one"),
    "BadExpression": e.BadExpression("/steps/pay/when", "character 7: a value is missing after ==", "write one, such as 1 or 'text'", 7),
    "ExpressionFailed": e.ExpressionFailed("/steps/pay/with", "@order has no field totl", "did you mean total?"),
    "Unauthenticated": e.Unauthenticated("the key was revoked. Ask an admin of the tenant for another one"),
    "Forbidden": e.Forbidden("key:AbC123xy", "executions.cancel", "operator"),
    "IssuerUnavailable": e.IssuerUnavailable("https://id.example.com/jwks", "HTTP 503"),
    "MissingExtra": e.MissingExtra("CEL", "cel-expr-python", "definitions"),
    "SealedSecret": e.SealedSecret(
        "TOKEN", "is encrypted with the key '2025', and this process has no keys. Add that key, after any others, in PERDURE_SECRETS_KEY", "2025"
    ),
    "SourceFailed": e.SourceFailed("Python", "KeyError", "'total'", (3, 12)),
    "OutOfTime": e.OutOfTime("Python", 10.0),
    "OutOfMemory": e.OutOfMemory("TypeScript", 64_000_000),
    "OutputTooLarge": e.OutputTooLarge("Python", 16_777_216),
    "SandboxFailed": e.SandboxFailed("TypeScript", "exit code 134"),
    "NotAllowed": e.NotAllowed("bash", "a shell command has the rights of the engine's own user", "start the engine with --allow bash"),
    "CommandRefused": e.CommandRefused("there is no bash on this machine; install it, or put it into the PATH of the engine"),
    "PatchRefused": e.PatchRefused(ORDER, ["pay has begun, and can't be changed; add a step after it, or fork the execution from there"]),
    "Diverged": e.Diverged((("check", 1),), ["inserted: check (call check) is asked now, where reserve (call reserve) is remembered"]),
    "NotReplayable": e.NotReplayable(ORDER, 12, ["remembered pay, asked for ship"]),
    "KindFailed": e.KindFailed("ftp", "check", "TypeError: 'NoneType' object is not iterable"),
    "SandboxLost": e.SandboxLost("all sandboxes for Python were busy for 60 s"),
    "StepFailed": e.StepFailed("charge", "exhausted", 3, DECLINED),
    "ChildFailed": e.ChildFailed("call:invoice", "failed", DECLINED),
    "TooDeep": e.TooDeep("call:order", 100),
    "Timeout": e.Timeout("listen:approved", 60),
    "JoinFailed": e.JoinFailed("1 of 3 branches of join failed", {"pay": ValueError("no card")}, {"ship": None, "mail": None}),
    "RaceFailed": e.RaceFailed("all 2 branches of race failed", {"card": ValueError("no card"), "cash": ValueError("no cash")}),
    "ExecutionFailed": e.ExecutionFailed(ORDER, ErrorInfo("step_failed", str(e.StepFailed("charge", "exhausted", 3, DECLINED)))),
    "DeadlineExceeded": e.DeadlineExceeded(ORDER, ErrorInfo("deadline_exceeded", "the execution did not end within 3600 s of its start")),
    "ExecutionCancelled": e.ExecutionCancelled(ORDER, "the customer withdrew"),
    "NoReply": e.NoReply(ORDER, "price", "it has ended (completed)"),
    "NeedsAttention": e.NeedsAttention(ORDER, "interrupted", "charge was interrupted 3 times"),
    "CommandFailed": e.CommandFailed("make", 2, None, "make: *** No rule to make target"),
    "CommandLost": e.CommandLost("make"),
    "RetryAfter": e.RetryAfter(30.0),
    "Evicted": e.Evicted(),
}

WITHOUT = {
    *("PerdureError", "ProgrammingError", "SandboxLimit", "WorkflowError"),  # only classes below them are raised
    *(
        "StoreError",
        "StoreUnavailable",
        "StoreUnusable",
        "StoreDamaged",
        "StoreMoved",
        "MoveRefused",
        "BadAnswer",
        "Unauthorized",
    ),  # their messages are written where they are raised
    *("Fatal", "Rollback"),  # their messages are the user's
}
"""Errors without an example."""


def example(name: str) -> str:
    """The message of the error in its example; empty for one of `WITHOUT`."""
    if (made := MADE.get(name)) is not None:
        return str(made)
    if (trigger := RAISED.get(name)) is None:
        return ""
    kind: type[BaseException] = getattr(e, name)
    try:
        trigger()
    except kind as error:
        return str(error)
    raise AssertionError(f"the example of {name} raises nothing")
