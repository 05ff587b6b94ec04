"""Approvals: the request, how votes decide it, and the verb `ctx.approve`.

An approval is a child execution (see `perdure.code.builtin_workflows`), so a wait for people holds up nothing else. Its state under `APPROVAL_STATE_KEY`
is what people see. Votes are messages with replies, so of two votes at the same time one counts and the other is refused.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from perdure.code.approval_attributes import NO_SUBJECT, PRIORITIES, ApprovalSubject, Priority, approval_attributes, is_indexed
from perdure.code.child_executions import child_id
from perdure.code.code_program import CodeProgram
from perdure.code.declarations import Signal, Step
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.code.operation_paths import NameScope
from perdure.code.results import Decision, Vote
from perdure.core import error_codes, values
from perdure.core.errors import BadValue, ChildFailed, ErrorInfo, Timeout, Undecodable
from perdure.core.operations import APPROVAL_WORKFLOW, CallOperation, Failure, ReceiveOperation, SpawnOperation, Success
from perdure.core.paths import Key, Path, idempotency_key, path_text

APPROVAL_STATE_KEY = "approval"
"""The key under which an approval shows its state."""

OnTimeout = Literal["fail", "approve", "reject"]
NoticeKind = Literal["asked", "reminder", "escalated"]


class ApprovalRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question to people: title and details, the JSON Schema of the form, the people who may decide, the quorum, and the reminders and timeouts.

    `refused` is the reason why the form of the previous answer did not fit. With `notifies`, the parent receives a notice each time people should be
    informed; with `returns_details`, the verdict holds the details.
    """

    title: str
    details: Any = None
    form: dict[str, Any] | None = None
    assignees: tuple[str, ...] = ()
    quorum: int = 1
    remind_every_s: float | None = None
    escalate_after_s: float | None = None
    escalate_to: tuple[str, ...] = ()
    timeout_s: float | None = None
    on_timeout: OnTimeout = "fail"
    refused: str = ""
    notifies: bool = False
    returns_details: bool = False
    subject: ApprovalSubject | None = None


class Delegation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A person passes their decision on: who, a member of `groups`, to whom, with which note, and when.

    With `is_absent`, they are out of office, and `to` stands in for them.
    """

    by: str
    to: str
    note: str = ""
    groups: tuple[str, ...] = ()
    at_s: float = 0.0
    is_absent: bool = False


class ApprovalState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of an approval: the request, the people who may decide at present, when it times out, the votes so far, and who has delegated to whom."""

    request: ApprovalRequest
    assignees: tuple[str, ...]
    asked_at_s: float
    due_at_s: float | None
    votes: tuple[Vote, ...]
    delegations: tuple[Delegation, ...] = ()


class Notice(msgspec.Struct, frozen=True):
    """A notice to people about an approval: the approval, the reason, and the people."""

    approval: str
    kind: NoticeKind
    title: str
    to: tuple[str, ...]
    details: Any = None


class ApprovalVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of a decision, and when it was made. If it is `expired`, the timeout decided; otherwise the votes did.

    `details` are those of the request, if that `returns_details`.
    """

    approved: bool
    expired: bool
    votes: tuple[Vote, ...]
    at_s: float
    details: Any = None

    def decision(self) -> Decision[Any]:
        """Returns what the workflow that asked receives: the decision, who made it, when and by what means, the comment, and the filled-in form."""
        filled = next((vote.value for vote in reversed(self.votes) if vote.value is not None), None)
        if self.expired or not self.votes:
            return Decision(self.approved, filled, votes=self.votes, expired=self.expired, at_s=self.at_s, means="timeout")
        last = self.votes[-1]
        return Decision(self.approved, filled, last.by, last.comment, self.votes, at_s=self.at_s, means=last.means)


class VoteReply(msgspec.Struct, frozen=True):
    """The reply to a vote: whether it counts, why not, and whether it decides the approval."""

    taken: bool
    why: str = ""
    decided: bool = False


VOTE_SIGNAL = Signal("vote", Vote)
DELEGATION_SIGNAL = Signal("delegate", Delegation)

DELEGATIONS_MAX = 50
"""How often an approval can be delegated."""


def notice_message_name(approval: str) -> str:
    """Returns the name of the messages that carry notices to the parent."""
    return f"notice of {approval}"


def vote_refusal(shown: ApprovalState, vote: Vote) -> str:
    """Returns the reason why a vote does not count; empty if it counts."""
    if not vote.by:
        return "the vote does not say whose it is"
    if any(one.by == vote.by for one in shown.votes):
        return f"{vote.by} has decided already"
    if shown.assignees and vote.by not in shown.assignees and not any(f"group:{group}" in shown.assignees for group in vote.groups):
        passed_on = next((one for one in reversed(shown.delegations) if one.by == vote.by), None)
        if passed_on is not None:
            return f"{vote.by} has delegated the decision to {passed_on.to}"
        return f"{vote.by} is not among those who may decide: {', '.join(shown.assignees)}"
    return _decided_for(shown, decides_for(shown, vote.by, vote.groups), vote.by)


def decides_for(shown: ApprovalState, by: str, groups: Sequence[str] = ()) -> str:
    """Returns the person whose decision a vote is: the one who delegated it first, or the voter themselves, as a member of an assigned group always is."""
    if any(f"group:{group}" in shown.assignees for group in groups):
        return by
    for one in reversed(shown.delegations):
        if one.to == by:
            by = one.by
    return by


def _decided_for(shown: ApprovalState, person: str, by: str) -> str:
    """Says who has made the decision of a person already, which `by` would make; empty if nobody has."""
    vote = next((one for one in shown.votes if decides_for(shown, one.by, one.groups) == person), None)
    if vote is None:
        return ""
    said = f"{vote.by} has decided already" if vote.by == person else f"{vote.by} has decided already in the place of {person}"
    return said if by == person else f"{said}, and {by} would decide in the place of {person} as well"


def delegation_refusal(shown: ApprovalState, delegation: Delegation) -> str:
    """Returns the reason why an approval can't be delegated so; empty if it can."""
    by, to = delegation.by, delegation.to
    if not shown.assignees:
        return "anybody may decide, so there is nothing to delegate"
    if by not in shown.assignees and not any(f"group:{group}" in shown.assignees for group in delegation.groups):
        return f"{by} is not among those who may decide: {', '.join(shown.assignees)}"
    if to in shown.assignees:
        return f"{to} may decide already"
    for name in (by, to):
        if any(one.by == name for one in shown.votes):
            return f"{name} has decided already"
    if why := _decided_for(shown, decides_for(shown, by, delegation.groups), by):
        return why
    return f"it was delegated {DELEGATIONS_MAX} times" if len(shown.delegations) >= DELEGATIONS_MAX else ""


def after_delegation(shown: ApprovalState, delegation: Delegation) -> ApprovalState:
    """Returns the state in which the delegate may decide in the place of the one who delegates: a member of an assigned group goes on being one."""
    is_assignee = delegation.by in shown.assignees
    assignees = tuple(delegation.to if name == delegation.by else name for name in shown.assignees) + (() if is_assignee else (delegation.to,))
    return msgspec.structs.replace(shown, assignees=assignees, delegations=(*shown.delegations, delegation))


def verdict_of_votes(request: ApprovalRequest, votes: tuple[Vote, ...]) -> ApprovalVerdict | None:
    """Returns the verdict once the votes decide: one vote against rejects, a quorum of votes in favour approves."""
    if any(not vote.approve for vote in votes):
        return ApprovalVerdict(False, False, votes, votes[-1].at_s)
    return ApprovalVerdict(True, False, votes, votes[-1].at_s) if len(votes) >= request.quorum else None


class ApproveKeywords(TypedDict, total=False):
    """The options of `ctx.approve` except the form and the name."""

    details: Any
    assignees: Sequence[str]
    quorum: int
    remind: Duration | None
    escalate: Duration | None
    escalate_to: Sequence[str]
    timeout: Duration | None
    on_timeout: Literal["fail", "approve", "reject"]
    notify: Step[[Notice], Any, Any] | None
    priority: Priority
    due: Duration | datetime | None
    resource: tuple[str, str] | None
    route_hint: str
    deep_link: str


class ApprovalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The checked options of `ctx.approve`."""

    details: Any = None
    form: Any = None
    assignees: tuple[Any, ...] = ()
    quorum: int = 1
    remind: Duration | None = None
    escalate: Duration | None = None
    escalate_to: tuple[Any, ...] = ()
    timeout: Duration | None = None
    on_timeout: str = "fail"
    notify: Any = None
    priority: Any = "normal"
    due: Duration | datetime | None = None
    resource: Any = None
    route_hint: Any = ""
    deep_link: Any = ""


def approval_options(options: dict[str, Any]) -> ApprovalOptions:
    """Reads the options of `ctx.approve`.

    Raises:
        BadValue: an option is unknown, or a text was given in place of a list of names.
    """
    given = dict(options)
    for which in ("assignees", "escalate_to"):
        names = given.get(which, ())
        if isinstance(names, str):
            raise BadValue(f"approve({which})", names, f"a list of names, such as [{names!r}]")
        given[which] = tuple(names)
    try:
        return ApprovalOptions(**given)
    except TypeError as error:
        raise BadValue("approve", sorted(options), f"a valid set of options: {error}") from error


def approval_request(title: str, given: ApprovalOptions, now_s: float) -> ApprovalRequest:
    """Returns the request that the approval execution is started with, if it is made now.

    Raises:
        BadValue: an option has a value that is not accepted.
    """
    if not title.strip():
        raise BadValue("approve(title)", title, "text with a question for people")
    for what, names in (("assignees", given.assignees), ("escalate_to", given.escalate_to)):
        if not all(isinstance(name, str) and name for name in names):
            raise BadValue(f"approve({what})", names, 'a list of names, or of "group:name" for the members of a group')
    if given.on_timeout not in ("fail", "approve", "reject"):
        raise BadValue("approve(on_timeout)", given.on_timeout, "one of fail, approve, reject")
    whole_number(given.quorum, "approve(quorum)")
    single = not any(name.startswith("group:") for name in (*given.assignees, *given.escalate_to))
    if given.assignees and single and given.quorum > len({*given.assignees, *given.escalate_to}):
        raise BadValue("approve(quorum)", given.quorum, f"at most the number of assignees, {len(given.assignees)}")
    asked = ApprovalRequest(
        title,
        given.details,
        None if given.form is None else form_schema(given.form),
        tuple(given.assignees),
        given.quorum,
        _optional_seconds(given.remind, "remind"),
        _optional_seconds(given.escalate, "escalate"),
        tuple(given.escalate_to),
        _optional_seconds(given.timeout, "timeout"),
        given.on_timeout,  # type: ignore[arg-type]  # it is one of the three
        notifies=given.notify is not None,
    )
    return with_subject(asked, given.priority, due_at(given.due, now_s), given.resource, given.route_hint, given.deep_link)


def due_at(due: Duration | datetime | None, now_s: float) -> float | None:
    """Returns a due time that is given as a time, or as a duration from now on.

    Raises:
        BadValue: it is neither, or a time without a zone.
    """
    if isinstance(due, datetime):
        if due.tzinfo is None:
            raise BadValue("approve(due)", due, 'a time with its zone, or a duration such as "2d"')
        return due.timestamp()
    return None if due is None else now_s + duration_seconds(due, "approve(due)")


LINK_TEXT = re.compile(r"(?:https?://[^/\s]|/(?![/\\]))\S*", re.IGNORECASE)
"""What a link to a page of an application looks like. Links that run scripts do not."""


def with_subject(asked: ApprovalRequest, priority: Any, due_at_s: float | None, resource: Any, route_hint: Any, deep_link: Any) -> ApprovalRequest:
    """Returns a request with its priority, its due time, what it is about, and where people find that.

    Raises:
        BadValue: one of them is not valid.
    """
    if priority not in PRIORITIES:
        raise BadValue("approve(priority)", priority, f"one of {', '.join(PRIORITIES)}")
    pair = ("", "") if resource is None else resource
    is_pair = isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(one, str) and is_indexed(one) for one in pair)
    if not is_pair or (resource is not None and not all(pair)):
        raise BadValue("approve(resource)", resource, 'the type and the id of what the question is about, two texts of up to 1,024 bytes: ("invoice", "17")')
    if not isinstance(route_hint, str):
        raise BadValue("approve(route_hint)", route_hint, "text")
    if not isinstance(deep_link, str) or (deep_link and LINK_TEXT.fullmatch(deep_link) is None):
        raise BadValue("approve(deep_link)", deep_link, "an address that begins with http:// or https://, or a path that begins with /")
    subject = ApprovalSubject(priority, due_at_s, pair[0], pair[1], route_hint, deep_link)
    return asked if subject == NO_SUBJECT else msgspec.structs.replace(asked, subject=subject)


def approval_operation(asked: ApprovalRequest, approval: str, asks: Key, now_s: float, path: Path) -> SpawnOperation:
    """Returns the operation that starts an approval, which the execution `asks` asks for now."""
    raw = values.encode(((asked,), {}), "what is asked", path)
    return SpawnOperation(APPROVAL_WORKFLOW, approval, 1, raw, attributes=approval_attributes(asked.subject, asked.assignees, asked.timeout_s, asks, now_s))


def form_schema(form: Any) -> dict[str, Any]:
    """Returns the JSON Schema of a form's type.

    Raises:
        BadValue: the type has no JSON Schema.
    """
    try:
        found: dict[str, Any] = form.model_json_schema() if hasattr(form, "model_json_schema") else msgspec.json.schema(form)
    except (TypeError, ValueError) as error:
        raise BadValue("approve(form)", form, f"a type of plain data, such as a dataclass: {error}") from error
    return found


def _optional_seconds(duration: Duration | None, what: str) -> float | None:
    return None if duration is None else duration_seconds(duration, f"approve({what})")


async def decide_approval(program: CodeProgram, scope: NameScope, path: Path, asked: ApprovalRequest, given: ApprovalOptions) -> Decision[Any]:
    """Asks people and waits for the decision; asks again as long as the filled-in form does not fit its type.

    Raises:
        Timeout: no decision was made in time, and `on_timeout` is fail.
        ChildFailed: the approval was cancelled, or failed.
    """
    place, times = path, 1
    while True:
        approval = child_id(idempotency_key(program.execution.key, place))
        verdict = await _wait_for_verdict(program, scope, place, approval, asked, given)
        if verdict.expired and asked.on_timeout == "fail":
            raise Timeout(path_text(path), asked.timeout_s)
        try:
            return _decision(verdict, given.form)
        except Undecodable as unfit:
            times += 1
            place, asked = (*path, ("again", times)), msgspec.structs.replace(asked, refused=unfit.why)


def _decision(verdict: ApprovalVerdict, form: Any) -> Decision[Any]:
    """Returns the decision, with the filled-in form as a value of its type.

    Raises:
        Undecodable: the filled-in form does not fit its type.
    """
    found = verdict.decision()
    if not found.approved or found.expired or form is None:
        return found
    return msgspec.structs.replace(found, value=values.decode(values.encode(found.value, "the form"), form, "the form"))


async def _wait_for_verdict(
    program: CodeProgram, scope: NameScope, path: Path, approval: str, asked: ApprovalRequest, given: ApprovalOptions
) -> ApprovalVerdict:
    telling = None
    if given.notify is not None:
        telling = program.loop.create_task(_send_notices(program, path, approval, given.notify), name="notify")
        program.branches[telling] = scope
    try:
        op = approval_operation(asked, approval, program.execution.key, program.execution.now_s, path)
        outcome = (await program.settle(path, op)).outcome
    finally:
        if telling is not None:
            program.branches.pop(telling, None)
            telling.cancel()
    if not isinstance(outcome, Success):
        failure = outcome if isinstance(outcome, Failure) else Failure("failed", 1, ErrorInfo(error_codes.OUTCOME_UNKNOWN, "the log no longer holds its end"))
        raise ChildFailed(path_text(path), failure.kind, failure.error)
    verdict: ApprovalVerdict = program.decode(outcome.value, ApprovalVerdict, path)
    return verdict


async def _send_notices(program: CodeProgram, path: Path, approval: str, step: Step[Any, Any, Any]) -> None:
    """Runs the step with each notice, one after the other. A notice whose step fails for good is skipped."""
    number = 0
    while True:
        number += 1
        here = (*path, ("notice", number))
        (message,) = (await program.settle(here, ReceiveOperation((notice_message_name(approval),)))).messages
        notice = program.decode(message.body, Notice, here)
        raw = step.codec.encode_args((notice,), {}, "the arguments of step", here)
        call = CallOperation(step.name, raw, step.queue, step.rule, step.timeout_s, step.may_repeat)
        await program.settle((*path, ("notify", number)), step.placed(call, program.execution.key.tenant, (notice,), {}), step)
