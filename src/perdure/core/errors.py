"""Every error that Perdure raises, as one tree.

    PerdureError
    ├── ProgrammingError        a mistake of the caller: the code, the call or the data is wrong, and nothing was changed
    │   ├── Unencodable, Undecodable, UnsupportedType, LossyValue, TooLarge, Unstorable, BadName, BadValue, DuplicateName
    │   ├── WrongVerb           a workflow did what replay could not repeat; the message says what to use instead
    │   │   └── NotDeterministic  the same, with clocks, threads or the network
    │   ├── NotAwaited          a verb was called and never awaited
    │   ├── Diverged            the program asked for one operation where its execution remembers another
    │   ├── NotReplayable       the log of an execution does not replay over its own definition
    │   ├── UnknownWorkflow, MissingCapabilities, NotFound, AlreadyExists, TooManyActive
    │   ├── StaleRecord         a record was changed by another writer since it was read
    │   ├── IdempotencyKeyReused, RequestUnderWay, AnswerUnknown    of a request that repeats the key of another one
    │   ├── DefinitionDisabled  a definition of the catalog that may not be started
    │   ├── DefinitionOwned     a definition of the catalog that is changed in its file
    │   ├── ProposalRefused     a proposal that can't be made, reviewed or applied
    │   │   └── StaleProposal   its definition has another version by now
    │   ├── NoPromptHandler     no living engine takes the prompts of schedules
    │   ├── TriggerOwned        a trigger that is changed in the definition or the code that declares it
    │   ├── Ambiguous, InputDiffers, Removed, HasEnded
    │   │   └── AlreadyDecided
    │   ├── BadExpression       a reference, template or condition that does not compile
    │   ├── ExpressionFailed    one that compiles and has no value
    │   ├── MissingExtra        an optional library that is not installed
    │   ├── MissingSecret, SealedSecret
    │   ├── SourceFailed        source text in a sandbox that can't be parsed, raised an error, or returned no JSON
    │   ├── SandboxLimit        source text in a sandbox that exceeded a limit
    │   │   └── OutOfTime, OutOfMemory, OutputTooLarge
    │   ├── SandboxFailed       the sandbox itself failed while it ran source text, and would again
    │   ├── KindFailed          a function of a kind failed
    │   ├── NotAllowed          a step does what its deployment does not allow
    │   ├── CommandRefused      a shell command can't be run here
    │   ├── BadDefinition       a definition is not valid; the error has all findings
    │   ├── MessageRejected     a validator has rejected a message
    │   ├── CompletionRefused   a token can't complete its step any more
    │   │   └── AlreadyCompleted
    │   ├── Unauthenticated, Forbidden
    │   └── DecisionRefused, LinkRefused, ExportRefused, PatchRefused, MoveRefused
    ├── SandboxLost             no sandbox was available, or it died; the step is attempted again
    ├── IssuerUnavailable       the issuer of tokens did not answer, so that a caller could not be checked; the request can be repeated
    ├── StoreError              the store failed; what it acknowledged is safe, and the call can be repeated
    │   ├── StoreUnavailable
    │   ├── StoreUnusable       no call succeeds before a person has acted: engines and workers stop
    │   │   └── StoreDamaged, StoreMoved
    │   └── LogVersionUnsupported, LogDamaged, SealedPayload
    └── WorkflowError           an outcome of the code or the definitions of the user
        ├── ChildFailed, TooDeep
        ├── StepFailed, Timeout (a cancelled task raises asyncio.CancelledError)
        ├── JoinFailed, RaceFailed
        ├── NoReply
        ├── BadAnswer, Unauthorized     of an agent: its model gave a useless answer, or asked for what it may not use
        ├── CommandFailed, CommandLost
        └── ExecutionFailed, ExecutionCancelled, DeadlineExceeded, NeedsAttention

`Fatal`, `Rollback` and `RetryAfter` are raised by users in a step. `Evicted` is not an error: it unwinds a program that leaves memory, and must not be caught.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from perdure.core.error_text import SHOWN_CHARACTERS_MAX, as_sentence, shorten_text, shown_value, valid_utf8

if TYPE_CHECKING:
    from perdure.core.paths import Path


class ErrorInfo(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An error as data: its code if it is Perdure's own, else the name of its class; its message; its traceback.

    `data` holds its encoded arguments if the exception can be rebuilt.
    """

    type: str
    message: str
    traceback: str = ""
    data: bytes | None = None

    def __post_init__(self) -> None:
        """Replaces what UTF-8 can't hold in the texts."""
        for name in ("type", "message", "traceback"):
            text = getattr(self, name)
            if not text.isascii() and (sound := valid_utf8(text)) is not text:
                msgspec.structs.force_setattr(self, name, sound)

    @property
    def line(self) -> str:
        """The type and the message, or the type alone if there is no message."""
        return f"{self.type}: {self.message}" if self.message else self.type


class PerdureError(Exception):
    """The base of all errors that Perdure raises."""

    code: ClassVar[str] = "perdure_error"


class ProgrammingError(PerdureError):
    """A mistake of the caller; nothing was changed."""

    code = "programming_error"


class Unencodable(ProgrammingError):
    """A value contains something that has no encoding."""

    code = "unencodable"

    def __init__(self, where: str, kind: str, why: str) -> None:
        super().__init__(f"{where}: a value of type {kind} can't be stored: {why}. Pass plain data, a dataclass, a msgspec Struct or a pydantic model")
        self.where, self.kind, self.why = where, kind, why


class LossyValue(ProgrammingError):
    """A value would lose data on its way through the log. `field` is the place in it; empty for the whole value."""

    code = "lossy_value"

    def __init__(self, where: str, field: str, why: str) -> None:
        place = f"{where}, field {field}" if field else where
        super().__init__(f"{place} would lose data: {why}")
        self.where, self.field, self.why = where, field, why


class UnsupportedType(ProgrammingError):
    """A parameter or the result of a function has a type whose values can't be read back from the log."""

    code = "unsupported_type"

    def __init__(self, function: str, parameter: str, kind: str, why: str) -> None:
        what = "the result" if parameter == "return" else f"the parameter {parameter}"
        super().__init__(
            f"{function}: the type hint of {what} is {kind}, which can't be decoded: {why}. Use a type that can, such as a tagged msgspec Struct, or Any"
        )
        self.function, self.parameter, self.kind, self.why = function, parameter, kind, why


class Undecodable(ProgrammingError):
    """Bytes from the log do not fit the type that the code now hints at."""

    code = "undecodable"

    def __init__(self, where: str, kind: str, why: str) -> None:
        super().__init__(f"{where}: the stored value does not fit {kind}: {why}. Make the type accept it, or remove the type hint")
        self.where, self.kind, self.why = where, kind, why


class TooLarge(ProgrammingError):
    """A value is larger than the limit."""

    code = "too_large"

    def __init__(self, where: str, size_bytes: int, max_bytes: int) -> None:
        super().__init__(f"{where}: the value takes {size_bytes:,} bytes, the limit is {max_bytes:,}. Keep it in a file or a bucket, and pass its name")
        self.where, self.size_bytes, self.max_bytes = where, size_bytes, max_bytes


class Unstorable(ProgrammingError):
    """A program asked for an operation that the log can't hold, such as a message to a key that is not text."""

    code = "unstorable"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the workflow asked for an operation that the log can't hold: {why}. Nothing new was run. "
            "Correct the type of the name, id or option in the code, and resume the execution"
        )
        self.why = why


class BadName(ProgrammingError):
    """A name is not text, or is longer than 1 KB."""

    code = "bad_name"

    def __init__(self, what: str, name: object, why: str) -> None:
        super().__init__(f"the {what} {str(name)[:60]!r} can't be used: {why}")
        self.what, self.name, self.why = what, name, why


class BadValue(ProgrammingError, ValueError):
    """An argument has a value that is not accepted. `message` replaces the default message; `where` is the place in a request, as a JSON pointer."""

    code = "bad_value"

    def __init__(self, what: str, value: object, expected: str, message: str = "", where: str = "") -> None:
        super().__init__(message or f"{what}: {shown_value(value)} is not {expected}")
        self.what, self.value, self.expected, self.where = what, value, expected, where


class DuplicateName(ProgrammingError):
    """The same explicit name was given twice in one scope."""

    code = "duplicate_name"

    def __init__(self, name: str, scope: str) -> None:
        super().__init__(
            f"the name {name!r} is used twice in {scope or 'the workflow'}. "
            "Give each operation its own name, or leave the names out: Perdure then numbers the operations"
        )
        self.name, self.scope = name, scope


class WrongVerb(ProgrammingError):
    """A workflow did something that replay could not repeat."""

    code = "wrong_verb"

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what}. {as_sentence(instead)}")
        self.what, self.instead = what, instead


class NotDeterministic(WrongVerb):
    """Workflow code asked asyncio for something that its log could not repeat."""

    code = "not_deterministic"

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(what, instead)
        self.args = (f"a workflow cannot use {what}, because replay could not repeat it. Use {instead}",)


class NotAwaited(ProgrammingError):
    """Verbs were called and never awaited, so they did nothing."""

    code = "not_awaited"

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(
            f"verbs were called and never awaited, so they did nothing: {', '.join(paths)}. Write 'await' before each, or pass them to asyncio.gather"
        )
        self.paths = tuple(paths)


class UnknownWorkflow(ProgrammingError):
    """No engine in this process knows a workflow of this name and version."""

    code = "unknown_workflow"

    def __init__(self, program: str, known: Sequence[str]) -> None:
        super().__init__(f"no engine here knows {program}; known are: {', '.join(sorted(known)) or 'none'}. Start an engine with the code of the workflow")
        self.program, self.known = program, tuple(known)


class MissingCapabilities(ProgrammingError):
    """A definition needs a tool, a kind, a connection or a called definition that is missing here."""

    code = "missing_capabilities"

    def __init__(self, execution: str, lacking: str) -> None:
        super().__init__(
            f"{execution} was not started: the engine has no {lacking}. Give the definition what is missing (tools=, calls=, kinds=, connections=)"
        )
        self.execution, self.lacking = execution, lacking


class NotFound(ProgrammingError):
    """There is no such execution, or nothing in it that was asked for; `message` says which."""

    code = "not_found"

    def __init__(self, key: object, message: str = "") -> None:
        super().__init__(message or f"there is no execution {shorten_text(str(key), SHOWN_CHARACTERS_MAX)}. Check its workflow, id and tenant")
        self.key = key


class Ambiguous(ProgrammingError):
    """A text that should name one thing matches several; `candidates` are the newest of them. `what` they are: executions, unless it says otherwise."""

    code = "ambiguous"

    def __init__(
        self, text: str, candidates: Sequence[object], more: bool, what: str = "executions", hint: str = "Name one by its workflow and its whole id"
    ) -> None:
        shown = ", ".join(str(one) for one in candidates)
        super().__init__(f"{shown_value(text)} matches several {what}: {shown}{' and more' if more else ''}. {hint}")
        self.text, self.candidates = text, tuple(candidates)


class InputDiffers(ProgrammingError):
    """A strict start of an execution that exists with another input, or with `other`: another definition, or another order."""

    code = "input_differs"

    def __init__(self, key: object, other: str = "input", remedy: str = "Use a new id, or leave strict out to get the existing execution") -> None:
        super().__init__(f"the execution {key} was started with another {other}. {remedy}")
        self.key = key


class AlreadyExists(ProgrammingError):
    """A new execution was given the key of an existing one; or, as `message` then says, something else was given a name that is taken."""

    code = "already_exists"

    def __init__(self, key: object, message: str = "") -> None:
        super().__init__(message or f"the execution {key} exists already. Give the new one another id, or none")
        self.key = key


class StaleRecord(ProgrammingError):
    """A record was not at the version that a change expected, and nothing was changed. `version` is the present one (0: there is no such record)."""

    code = "stale"

    def __init__(self, what: str, name: str, expected: int, version: int) -> None:
        now = f"is at version {version} now" if version else "is not there any more" if expected else "does not exist"
        was = f"the change expected version {expected}" if expected else "the change expected that there is none"
        super().__init__(f"the {what} {name!r} {now}, and {was}: another change came first, and nothing was changed. Read it again, and repeat the change")
        self.what, self.name, self.expected, self.version = what, name, expected, version


class IdempotencyKeyReused(ProgrammingError):
    """A request has the idempotency key of another one, and was not performed."""

    code = "idempotency_key_reused"

    def __init__(self, key: str) -> None:
        super().__init__(f"nothing was done: the idempotency key {key!r} was used for a request that says something else. Use a new key for a new request")
        self.key = key


class RequestUnderWay(ProgrammingError):
    """A request with the same idempotency key is not answered yet, and this one was not performed."""

    code = "request_under_way"

    def __init__(self, key: str) -> None:
        super().__init__(f"a request with the idempotency key {key!r} is under way. Send this one again in a second; it is then given the answer of the first")
        self.key = key


class AnswerUnknown(ProgrammingError):
    """The first request with an idempotency key took effect, but its answer was not kept. This one was not performed."""

    code = "answer_unknown"

    def __init__(self, key: str, why: str) -> None:
        super().__init__(
            f"the first request with the idempotency key {key!r} took effect, and {why}. Read what it was to change; to do it again, use a new key"
        )
        self.key, self.why = key, why


class DefinitionDisabled(ProgrammingError):
    """A definition of the catalog is disabled, so no execution of it was started."""

    code = "definition_disabled"

    def __init__(self, slug: str) -> None:
        super().__init__(f"nothing was started: the definition {slug!r} is disabled. Enable it, and start it again")
        self.slug = slug


class DefinitionOwned(ProgrammingError):
    """A definition of the catalog is kept in a `file` that is watched, so it is changed there, and nothing was changed here."""

    code = "definition_owned"

    def __init__(self, slug: str, file: str) -> None:
        super().__init__(f"nothing was changed: the definition {slug!r} is owned by {file}. Change that file, or release the definition from it")
        self.slug, self.file = slug, file


class ProposalRefused(ProgrammingError):
    """A proposal was not made, reviewed or applied, because its definition or its state does not allow it."""

    code = "proposal_refused"

    def __init__(self, slug: str, why: str) -> None:
        super().__init__(why)
        self.slug = slug


class StaleProposal(ProposalRefused):
    """A proposal is based on the version with the hash `base`, and the current version is another one (empty: there is none)."""

    code = "stale_proposal"

    def __init__(self, slug: str, base: str, current: str) -> None:
        now = f"its current version is {current}" if current else "it has no version"
        was = f"the proposal is based on {base}" if base else "the proposal is of a new definition"
        super().__init__(slug, f"nothing was changed: {now}, and {was} of {slug!r}. Read the current version, and make a proposal for that")
        self.base, self.current = base, current


class NoPromptHandler(ProgrammingError):
    """A trigger hands a prompt to the application, and no living engine has a handler for prompts."""

    code = "no_prompt_handler"

    def __init__(self) -> None:
        super().__init__("no living engine has a handler for prompts: register one with @app.on_prompt and run the App, or have the trigger start a workflow")


class TriggerOwned(ProgrammingError):
    """A trigger is declared by the definition or the code `declared_by`, so it is changed there, and nothing was changed here."""

    code = "trigger_owned"

    def __init__(self, id: str, declared_by: str, owner: str) -> None:
        super().__init__(
            f"nothing was changed: the trigger {id!r} is declared by the {owner} {declared_by}. "
            "Change it there. Here it can be enabled, disabled, paused and resumed"
        )
        self.id, self.declared_by, self.owner = id, declared_by, owner


class TooManyActive(ProgrammingError):
    """An execution was not started, because as many as its admission allows have not ended yet. `present` are some of those in the way."""

    code = "too_many_active"

    def __init__(self, key: object, attribute: str, value: object, max_active: int, present: tuple[object, ...] = ()) -> None:
        named = f"In the way: {', '.join(map(str, present))}. " if present else ""
        super().__init__(
            f"{key} was not started: {max_active} executions with {attribute}={value} have not ended, and no more are allowed at a time. "
            f"{named}Start it again when one of them has ended, or cancel one"
        )
        self.key, self.attribute, self.value, self.max_active, self.present = key, attribute, value, max_active, present


class HasEnded(ProgrammingError):
    """A request to an execution that has ended; `status` says how."""

    code = "has_ended"

    def __init__(self, key: object, status: str, what: str) -> None:
        super().__init__(f"the execution {key} has ended ({status}), so {what} would have no effect. Start another one")
        self.key, self.status, self.what = key, status, what


class AlreadyDecided(HasEnded):
    """An approval was decided before: by `by`, as `approved` says, at `at_s`."""

    code = "already_decided"

    def __init__(self, key: object, status: str, decision: tuple[str, str, bool, float]) -> None:
        title, self.by, self.approved, self.at_s = decision
        super().__init__(key, status, "a decision")
        when = f"{datetime.fromtimestamp(self.at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
        self.args = (
            f"the approval {title!r} was decided already: {'approved' if self.approved else 'rejected'} by {self.by} at {when}. A later decision has no effect",
        )


class MessageRejected(ProgrammingError):
    """A validator has rejected a message, so the workflow does not receive it. `error` is what the validator has raised, as data."""

    code = "message_rejected"

    def __init__(self, signal: str, error: ErrorInfo) -> None:
        super().__init__(f"the message {signal!r} was rejected: {error.type}: {error.message}. Nothing was changed; send another one")
        self.signal, self.error = signal, error


class CompletionRefused(ProgrammingError):
    """A completion from outside has no effect, because the attempt that its token names is not wanted any more. `path` is that of the attempt."""

    code = "completion_refused"

    def __init__(self, key: object, path: str, why: str) -> None:
        super().__init__(f"{path} of the execution {key} can't be completed: {why}. Nothing was changed; stop the work, or undo it")
        self.key, self.path, self.why = key, path, why


class AlreadyCompleted(CompletionRefused):
    """An attempt was completed before, with this or another result."""

    code = "already_completed"


class Removed(ProgrammingError):
    """The log of an execution was removed long after its end: only its id, its status and its times are kept."""

    code = "removed"

    def __init__(self, key: object, why: str) -> None:
        super().__init__(f"the log of the execution {key} is no longer stored: {why}. Start another execution, or import its archive under another id")
        self.key, self.why = key, why


class DecisionRefused(ProgrammingError):
    """A person's decision on an approval does not count; nothing was changed."""

    code = "decision_refused"

    def __init__(self, key: object, why: str) -> None:
        super().__init__(f"the decision on {key} does not count: {why}")
        self.key, self.why = key, why


class LinkRefused(ProgrammingError):
    """A signed link is not valid, or no longer."""

    code = "link_refused"

    def __init__(self, why: str) -> None:
        super().__init__(f"the link is not valid: {why}")
        self.why = why


class ExportRefused(ProgrammingError):
    """A file is not an export, is damaged, or was not signed with the shared secret."""

    code = "export_refused"

    def __init__(self, why: str) -> None:
        super().__init__(f"the file can't be imported: {why}")
        self.why = why


class BadDefinition(ProgrammingError):
    """A definition, or a change of one, is not valid: `findings` lists every problem. Nothing was changed. `where` is the first wrong one of several."""

    code = "bad_definition"

    def __init__(self, findings: Sequence[Any], where: str = "") -> None:
        super().__init__("\n".join(str(finding) for finding in findings))
        self.findings, self.where = tuple(findings), where


class BadExpression(ProgrammingError):
    """An expression does not compile. `where` is a JSON pointer to it; `at` is the position of the character, from 1, or 0 for the whole."""

    code = "bad_expression"

    def __init__(self, where: str, what: str, hint: str, at: int = 0) -> None:
        super().__init__(f"{where}: {what}. {as_sentence(hint)}" if where else f"{what}. {as_sentence(hint)}")
        self.where, self.what, self.hint, self.at = where, what, hint, at


class ExpressionFailed(ProgrammingError):
    """An expression has no value: something is missing or of an unexpected type. `where` is a JSON pointer to it."""

    code = "expression_failed"

    def __init__(self, where: str, what: str, hint: str) -> None:
        super().__init__(f"{where}: {what}. {as_sentence(hint)}" if where else f"{what}. {as_sentence(hint)}")
        self.where, self.what, self.hint = where, what, hint


class Unauthenticated(ProgrammingError):
    """A request has no proof of who sends it, or one that is not valid; the message says what to send."""

    code = "unauthenticated"


class Forbidden(ProgrammingError):
    """The caller may not do this; `role` is the one that they need."""

    code = "forbidden"

    def __init__(self, subject: str, what: str, role: str, message: str = "") -> None:
        super().__init__(message or f"{subject} may not call {what}: it needs the role {role}. An admin of the tenant grants roles")
        self.subject, self.what, self.role = subject, what, role


class MissingExtra(ProgrammingError):
    """An optional library is not installed; the extra `extra` contains it."""

    code = "missing_extra"

    def __init__(self, what: str, library: str, extra: str) -> None:
        super().__init__(f'{what} needs {library}, which is not installed. Install it: pip install "perdure[{extra}]"')
        self.what, self.library, self.extra = what, library, extra


class MissingSecret(ProgrammingError):
    """A call needs a secret that is not set in the process that performs it. Set it and retry the execution."""

    code = "missing_secret"

    def __init__(self, name: str) -> None:
        super().__init__(f"the secret {name} is not set in this process. Set it (perdure secret set {name}, or PERDURE_SECRET_{name}), and retry the execution")
        self.name = name


class SealedSecret(ProgrammingError):
    """A stored secret can't be read here: its key is missing, or it was changed. `key_id` names the key that it is encrypted with, if that is known."""

    code = "sealed_secret"

    def __init__(self, name: str, why: str, key_id: str | None = None) -> None:
        super().__init__(f"the secret {name} can't be read: it {why}")
        self.name, self.why, self.key_id = name, why, key_id


class SourceFailed(ProgrammingError):
    """Source text in a sandbox can't be parsed, raised an error, or returned something other than JSON; it would fail again.

    `language` is that of the source; `type` and `text` are those of its own error, `line` and `column` its position, from 1 (0: not known); `console` is
    the output.
    """

    code = "source_failed"

    def __init__(self, language: str, type: str, text: str, place: tuple[int, int] = (0, 0), console: str = "") -> None:
        line, column = place
        where = f" at line {line}, column {column}" if column else f" at line {line}" if line else ""
        said = f"{type}: {text}" if type and text else type or text or "without a message"
        super().__init__(f"the {language} has failed{where}: {said}{_console_tail(console)}")
        self.language, self.type, self.text, self.line, self.column, self.console = language, type, text, line, column, console


class SandboxLimit(ProgrammingError):
    """Source text in a sandbox exceeded a limit, and would again. `console` is its output, where that is known."""

    code = "sandbox_limit"

    def __init__(self, what: str, instead: str, console: str = "") -> None:
        super().__init__(f"{what}. {as_sentence(instead)}{_console_tail(console)}")
        self.what, self.instead, self.console = what, instead, console


class OutOfTime(SandboxLimit):
    """The source text exceeded its time."""

    code = "out_of_time"

    def __init__(self, language: str, wall_s: float, console: str = "") -> None:
        super().__init__(f"the {language} did not end within {wall_s:g} s", "have it do less, or give its step a longer timeout (60 s at most)", console)
        self.language, self.wall_s = language, wall_s


class OutOfMemory(SandboxLimit):
    """The source text exceeded its memory."""

    code = "out_of_memory"

    def __init__(self, language: str, memory_bytes: int, console: str = "") -> None:
        super().__init__(f"the {language} took more than {memory_bytes // 1_000_000:,} MB of memory", "give it less at a time, as with each and batch", console)
        self.language, self.memory_bytes = language, memory_bytes


class OutputTooLarge(SandboxLimit):
    """The result of the source text is too large."""

    code = "output_too_large"

    def __init__(self, language: str, output_bytes: int, console: str = "") -> None:
        super().__init__(f"the {language} returned more than {output_bytes:,} bytes", "return less, or store it elsewhere and return where it is", console)
        self.language, self.output_bytes = language, output_bytes


CONSOLE_TAIL_CHARACTERS = 1000
"""How much of the output of source text is in the message of its error."""


def _console_tail(console: str) -> str:
    tail = console.strip()[-CONSOLE_TAIL_CHARACTERS:]
    return f". Its last output:\n{tail}" if tail else ""


class SandboxFailed(ProgrammingError):
    """The sandbox itself failed while it ran source text, and would again. `why` is the cause, `said` the end of its standard error or its traceback."""

    code = "sandbox_failed"

    def __init__(self, language: str, why: str, said: str = "") -> None:
        tail = said.strip()[-CONSOLE_TAIL_CHARACTERS:]
        super().__init__(
            f"the sandbox of the {language} failed: {why}. The same source would fail again, so the step is not retried. "
            f"Change the source, and report this as a bug of Perdure or of the interpreter{f':{chr(10)}{tail}' if tail else ''}"
        )
        self.language, self.why, self.said = language, why, said


class NotAllowed(ProgrammingError):
    """A step asks for something that the deployment does not allow; it was not performed. `what` is the permission that it needs."""

    code = "not_allowed"

    def __init__(self, what: str, why: str, how: str) -> None:
        super().__init__(f"{what} is not allowed here: {why}. To allow it, {how}")
        self.what, self.why, self.how = what, why, how


class CommandRefused(ProgrammingError):
    """A shell command can't run here and was not started."""

    code = "command_refused"

    def __init__(self, why: str) -> None:
        super().__init__(f"the command was not run: {why}")
        self.why = why


class PatchRefused(ProgrammingError):
    """An execution can't continue with the new definition, for the reasons `why`; it continues with its present one."""

    code = "patch_refused"

    def __init__(self, key: object, why: Sequence[str]) -> None:
        super().__init__(f"{key} was not patched, and continues with its present definition: {'; '.join(why)}")
        self.key, self.why = key, tuple(why)


class MoveRefused(ProgrammingError):
    """A database can't be moved, or not to this one: its move was completed already, or the other one is in use."""

    code = "move_refused"


class Diverged(ProgrammingError):
    """The program asked for one operation where the log of its execution has another."""

    code = "diverged"

    def __init__(self, path: Path, diff: Sequence[str]) -> None:
        shown = "; ".join(diff)
        super().__init__(
            f"the code no longer matches the log of this execution: {shown}. Nothing new was run. Restore the code, "
            "or name the changed step as before; then resume the execution, or run it again with its id"
        )
        self.path, self.diff = path, tuple(diff)


class NotReplayable(ProgrammingError):
    """The log of an execution does not replay over its own definition, so that the states of its steps are not known."""

    code = "not_replayable"

    def __init__(self, key: Any, number: int, diff: Sequence[str]) -> None:
        super().__init__(
            f"the nodes of {key} can't be shown as they were after event {number}: its log does not replay over its definition: {'; '.join(diff)}. "
            "perdure events shows the log itself. Report this as a bug of Perdure, with the file that perdure export makes"
        )
        self.key, self.number, self.diff = key, number, tuple(diff)


class KindFailed(ProgrammingError):
    """A function of a kind, such as its `idempotent` or `check`, raised an error or returned a value of another type."""

    code = "kind_failed"

    def __init__(self, kind: str, function: str, why: str) -> None:
        super().__init__(f"{function} of the kind {kind} failed: {why}. Correct the kind, and retry the execution")
        self.kind, self.function, self.why = kind, function, why


class SandboxLost(PerdureError):
    """No sandbox was available, or one died of another cause than the source text; the step can be attempted again."""

    code = "sandbox_lost"

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}. The step is attempted again as its retry policy says")
        self.why = why


class IssuerUnavailable(PerdureError):
    """The OIDC issuer did not answer, or not as its protocol says, so that nobody knows who sent the request."""

    code = "issuer_unavailable"

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"the caller can't be checked, because the issuer of tokens did not answer as expected: {url}: {why}. Repeat the request later")
        self.url, self.why = url, why


class StoreError(PerdureError):
    """The store failed; what it acknowledged is safe."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store did not answer, or could not carry out the request; a change may have happened or not."""

    code = "store_unavailable"


class StoreUnusable(StoreError):
    """No call of the store will succeed before a person has acted. Engines and workers stop; they do not repeat the call."""

    code = "store_unusable"


class StoreDamaged(StoreUnusable):
    """The file of the store is malformed or mixed with another. Perdure does not read or write it until a person has repaired it."""

    code = "store_damaged"


class StoreMoved(StoreUnusable):
    """The store is being moved, or was moved, to another database, or is a copy that is not in use yet. It can be read, and refuses changes."""

    code = "store_moved"


class LogVersionUnsupported(StoreError):
    """A stored format is unknown to this version of Perdure, or an execution was started under unknown rules."""

    code = "log_version_unsupported"

    def __init__(self, found: int, oldest: int, newest: int, *, are_rules: bool = False) -> None:
        reads = f"format {newest}" if oldest == newest else f"formats {oldest} to {newest}"
        if are_rules:
            message = (
                f"the execution was started under rules {found}, and this Perdure knows rules up to {newest}. Use a Perdure as new as the one that started it"
            )
        elif found > newest:
            message = f"the data is stored in format {found}, and this Perdure reads {reads}. Use a Perdure as new as the one that wrote it"
        else:
            message = (
                f"the data is stored in format {found} of a development version of Perdure, and this Perdure reads {reads}. "
                "Start with a new database, or export what you need with the version that wrote it"
            )
        super().__init__(message)
        self.found, self.oldest, self.newest = found, oldest, newest


class LogDamaged(StoreError):
    """A log row, a message or a blob can't be read: it was changed since it was written, or is missing."""

    code = "log_damaged"

    def __init__(self, why: str) -> None:
        super().__init__(f"stored data can't be read: {why}. Restore the database from a backup")
        self.why = why


class SealedPayload(StoreError):
    """The codec of this process can't decode or encode a payload; what is stored stays as it is. `key_id` names its key, if it was encrypted."""

    code = "sealed_payload"

    def __init__(self, what: str, why: str, key_id: str | None = None) -> None:
        super().__init__(f"{what} {why}")
        self.what, self.why, self.key_id = what, why, key_id


UNREADABLE = (LogDamaged, LogVersionUnsupported, SealedPayload)
"""The errors of stored data that this process can't read, while the store itself works."""


class WorkflowError(PerdureError):
    """An outcome of the code or the definitions of the user."""

    code = "workflow_error"


class StepFailed(WorkflowError):
    """A step failed for good: its attempts are used up, or it said that another one is useless.

    `kind` is exhausted, timeout, fatal or interrupted; `attempts` counts its attempts; `error` is its last error as data.
    """

    code = "step_failed"

    def __init__(self, name: str, kind: str, attempts: int, error: ErrorInfo) -> None:
        super().__init__(f"step {name} failed ({kind}, {attempts} {'attempt' if attempts == 1 else 'attempts'}): {error.type}: {error.message}")
        self.name, self.kind, self.attempts, self.error = name, kind, attempts, error


class ChildFailed(WorkflowError):
    """A child execution failed or was cancelled."""

    code = "child_failed"

    def __init__(self, name: str, kind: str, error: ErrorInfo) -> None:
        ended = "was cancelled" if kind == "cancelled" else "failed"
        super().__init__(f"child {name} {ended}: {error.type}: {error.message}")
        self.name, self.kind, self.error = name, kind, error


class TooDeep(WorkflowError):
    """A child would have too many ancestors."""

    code = "too_deep"

    def __init__(self, name: str, depth_max: int) -> None:
        super().__init__(f"child {name} was not started: it would have more than {depth_max} ancestors. End the recursion, or use a loop")
        self.name, self.depth_max = name, depth_max


class Timeout(WorkflowError, TimeoutError):
    """A verb exceeded its timeout."""

    code = "timeout"

    def __init__(self, where: str, timeout_s: float | None, why: str = "") -> None:
        over = f"{where}: timed out after {timeout_s:g} s" if timeout_s is not None else f"{where}: timed out"
        super().__init__(f"{over}: {why}" if why else over)
        self.where, self.timeout_s, self.why = where, timeout_s, why


class JoinFailed(WorkflowError, ExceptionGroup[Exception]):
    """Branches of a join or map failed; all have ended. `errors` has the error of each by its name, `outputs` what the others returned."""

    code = "join_failed"

    errors: Mapping[str, Exception]
    outputs: Mapping[str, Any]

    def __new__(cls, message: str, errors: Mapping[str, Exception], outputs: Mapping[str, Any]) -> Self:
        group = super().__new__(cls, message, list(errors.values()))
        group.errors, group.outputs = errors, outputs
        return group

    def derive(self, excs: Sequence[Exception]) -> ExceptionGroup[Exception]:  # type: ignore[override]  # typeshed wants a generic method
        """Returns a part of the group, for `except*`."""
        return ExceptionGroup(self.message, excs)


class RaceFailed(WorkflowError, ExceptionGroup[Exception]):
    """Every branch of a race failed. `errors` has the error of each by its name."""

    code = "race_failed"

    errors: Mapping[str, Exception]

    def __new__(cls, message: str, errors: Mapping[str, Exception]) -> Self:
        group = super().__new__(cls, message, list(errors.values()))
        group.errors = errors
        return group

    def derive(self, excs: Sequence[Exception]) -> ExceptionGroup[Exception]:  # type: ignore[override]  # typeshed wants a generic method
        """Returns a part of the group, for `except*`."""
        return ExceptionGroup(self.message, excs)


class ExecutionFailed(WorkflowError):
    """The execution whose result was requested has failed. `error` is its error as data."""

    code = "execution_failed"

    def __init__(self, key: object, error: ErrorInfo) -> None:
        trace = f"\n{error.traceback}" if error.traceback else ""
        super().__init__(f"execution {key} failed: {error.type}: {error.message}{trace}")
        self.key, self.error = key, error


class DeadlineExceeded(ExecutionFailed):
    """The execution did not end before its deadline."""

    code = "deadline_exceeded"


class ExecutionCancelled(WorkflowError):
    """The execution whose result was requested was cancelled."""

    code = "execution_cancelled"

    def __init__(self, key: object, reason: str) -> None:
        super().__init__(f"execution {key} was cancelled" + (f": {reason}" if reason else ""))
        self.key, self.reason = key, reason


class NoReply(WorkflowError):
    """A message that expects a reply will never receive one."""

    code = "no_reply"

    def __init__(self, key: object, signal: str, why: str) -> None:
        super().__init__(f"execution {key} gave no reply to {signal!r}: {why}")
        self.key, self.signal, self.why = key, signal, why


class NeedsAttention(WorkflowError):
    """The execution is parked until a person acts on it."""

    code = "needs_attention"

    def __init__(self, key: object, reason: str, detail: str) -> None:
        match reason:
            case "paused":
                message = f"execution {key} is paused: {detail}. Resume it"
            case "diverged":
                message = f"execution {key} needs attention (diverged): {detail}. Correct the code, then resume the execution, or run it again with its id"
            case _:
                message = (
                    f"execution {key} needs attention ({reason}): {detail}. Correct the cause, then retry the execution; running it again does not unpark it"
                )
        super().__init__(message)
        self.key, self.reason, self.detail = key, reason, detail


class BadAnswer(WorkflowError):
    """The answers of a model stayed unusable after it was told what was wrong."""

    code = "bad_answer"


class Unauthorized(WorkflowError):
    """An agent asked for a tool or a step that it may not use. The message names it, and what is allowed."""

    code = "unauthorized"


class CommandFailed(WorkflowError):
    """A shell command ended with an exit code other than 0. `signal` names the signal that ended it, if one did."""

    code = "command_failed"

    def __init__(self, command: str, exit_code: int, signal: str | None, last_line: str) -> None:
        how = f"was ended by {signal}" if signal else f"ended with exit code {exit_code}"
        super().__init__(
            f"the command {command!r} {how}{f': {last_line}' if last_line else ''}. With check: false, the step returns the exit code instead of failing"
        )
        self.command, self.exit_code, self.signal, self.last_line = command, exit_code, signal, last_line


class CommandLost(WorkflowError):
    """The supervisor of a shell command was killed, and the command with it; how far it came is not known."""

    code = "command_lost"

    def __init__(self, command: str) -> None:
        super().__init__(
            f"the command {command!r} was killed with its supervisor, by another process or for lack of memory. "
            "Look for the cause in the log of the system, and check what the command had done"
        )
        self.command = command


RETRY_AFTER_MAX_S = 10 * 365 * 86_400
"""The longest wait that a step may ask for: ten years."""


class RetryAfter(Exception):
    """Raise it in a step to fail this attempt and set the wait before the next one, for example from the ``Retry-After`` of a server.

    The attempt counts as any other failed one.
    """

    code = "retry_after"

    def __init__(self, after_s: float, message: str = "") -> None:
        if not 0 <= after_s < RETRY_AFTER_MAX_S:
            raise BadValue("RetryAfter", after_s, "a number of seconds from 0 to ten years")
        super().__init__(message or f"the step asked for another attempt after {after_s:g} s")
        self.after_s = float(after_s)

    @property
    def wanted_s(self) -> float | None:
        """Returns the seconds; None where a subclass sets none, or no number that can be waited for."""
        found = getattr(self, "after_s", None)
        return float(found) if isinstance(found, int | float) and 0 <= found < RETRY_AFTER_MAX_S else None


class Fatal(Exception):
    """Raise it in a step to fail at once, when another attempt would be useless."""

    code = "fatal"


class Rollback(Exception):
    """Raise it in a workflow or a step to fail the execution and undo what it has done."""

    code = "rollback"


class Evicted(BaseException):
    """Unwinds the coroutines of a workflow that leaves memory. It must not be caught."""

    code = "evicted"

    def __init__(self) -> None:
        super().__init__(
            "the execution was evicted from memory and continues from its log: nothing more can be awaited or started here. Do not catch this exception"
        )
