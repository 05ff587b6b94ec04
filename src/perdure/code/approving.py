"""Asking for an approval: the verb, as it is composed of a child that is called, and of messages that tell whom to remind."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from perdure.code.child_executions import child_id
from perdure.code.declarations import Step
from perdure.code.durations import Duration, duration_seconds, whole_number
from perdure.code.results import Decision
from perdure.core import values
from perdure.core.errors import BadValue, ChildFailed, ErrorInfo, Timeout, Undecodable
from perdure.core.operations import APPROVAL_WORKFLOW, CallOperation, Failure, ReceiveOperation, SpawnOperation, Success
from perdure.core.paths import Path, idempotency_key, path_text

if TYPE_CHECKING:
    from perdure.code.approval import ApprovalRequest, ApprovalVerdict, Notice
    from perdure.code.context import Context


class ApproveKeywords(TypedDict, total=False):
    """The options of `ctx.approve` beside the form and the name."""

    details: Any
    assignees: Sequence[str]
    quorum: int
    remind: Duration | None
    escalate: Duration | None
    escalate_to: Sequence[str]
    timeout: Duration | None
    on_timeout: Literal["fail", "approve", "reject"]
    notify: "Step[[Notice], Any, Any] | None"


class ApprovalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `ctx.approve` was given beside the title."""

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


def approval_options(options: dict[str, Any]) -> ApprovalOptions:
    """The options of `ctx.approve`.

    Raises:
        BadValue: there is no such option, or a list of names is a text.
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
        raise BadValue("approve", sorted(options), f"options that it has: {error}") from error


def approval_request(title: str, given: ApprovalOptions) -> "ApprovalRequest":
    """What is asked, as its program takes it.

    Raises:
        BadValue: an option means nothing.
    """
    from perdure.code.approval import ApprovalRequest  # here, as it is a workflow itself

    if not title.strip():
        raise BadValue("approve(title)", title, "a question that people understand")
    for what, names in (("assignees", given.assignees), ("escalate_to", given.escalate_to)):
        if not all(isinstance(name, str) and name for name in names):
            raise BadValue(f"approve({what})", names, 'names, or "group:name" for whoever is in a group')
    if given.on_timeout not in ("fail", "approve", "reject"):
        raise BadValue("approve(on_timeout)", given.on_timeout, "one of fail, approve, deny")
    whole_number(given.quorum, "approve(quorum)")
    single = not any(name.startswith("group:") for name in (*given.assignees, *given.escalate_to))
    if given.assignees and single and given.quorum > len({*given.assignees, *given.escalate_to}):
        raise BadValue("approve(quorum)", given.quorum, f"at most the number of assignees, {len(given.assignees)}")
    return ApprovalRequest(
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


def form_schema(form: Any) -> dict[str, Any]:
    """The JSON Schema of a form's type.

    Raises:
        BadValue: it is no type that has one.
    """
    try:
        found: dict[str, Any] = form.model_json_schema() if hasattr(form, "model_json_schema") else msgspec.json.schema(form)
    except (TypeError, ValueError) as error:
        raise BadValue("approve(form)", form, f"a type of plain data, such as a dataclass: {error}") from error
    return found


def _optional_seconds(duration: Duration | None, what: str) -> float | None:
    return None if duration is None else duration_seconds(duration, f"approve({what})")


async def decide_approval(context: "Context", path: Path, asked: "ApprovalRequest", given: ApprovalOptions) -> Decision[Any]:
    """Ask, and wait for the decision; ask again as long as what was filled in does not fit the form.

    Raises:
        Timeout: nobody decided in time, and that is no decision.
        ChildFailed: the approval was cancelled, or failed.
    """
    place, times = path, 1
    while True:
        approval = child_id(idempotency_key(context._instance.execution.key, place))
        verdict = await _wait_for_verdict(context, place, approval, asked, given)
        if verdict.expired and asked.on_timeout == "fail":
            raise Timeout(path_text(path), asked.timeout_s)
        try:
            return _decision(verdict, given.form)
        except Undecodable as unfit:
            times += 1
            place, asked = (*path, ("again", times)), msgspec.structs.replace(asked, refused=unfit.why)


def _decision(verdict: "ApprovalVerdict", form: Any) -> Decision[Any]:
    """The verdict, with the form filled in as its type.

    Raises:
        Undecodable: what was filled in does not fit.
    """
    found = verdict.decision()
    if not found.approved or found.expired or form is None:
        return found
    return msgspec.structs.replace(found, value=values.decode(values.encode(found.value, "the form"), form, "the form"))


async def _wait_for_verdict(context: "Context", path: Path, approval: str, asked: "ApprovalRequest", given: ApprovalOptions) -> "ApprovalVerdict":
    from perdure.code.approval import ApprovalVerdict

    instance = context._instance
    raw = values.encode(((asked,), {}), "what is asked", path)
    telling = None
    if given.notify is not None:
        telling = instance.loop.create_task(_send_notices(context, path, approval, given.notify), name="notify")
        instance.branches[telling] = context._scope
    try:
        outcome = (await context._settle(path, SpawnOperation(APPROVAL_WORKFLOW, approval, 1, raw))).outcome
    finally:
        if telling is not None:
            instance.branches.pop(telling, None)
            telling.cancel()
    if not isinstance(outcome, Success):
        failure = outcome if isinstance(outcome, Failure) else Failure("failed", 1, ErrorInfo("Unknown", "it is not remembered how it ended"))
        raise ChildFailed(path_text(path), failure.kind, failure.error)
    verdict: ApprovalVerdict = instance.decode(outcome.value, ApprovalVerdict, path)
    return verdict


async def _send_notices(context: "Context", path: Path, approval: str, step: Step[Any, Any, Any]) -> None:
    """Run the step with each notice, one after the other. One that fails for good is not tried again, and stops nothing."""
    from perdure.code.approval import Notice, notice_message_name

    number = 0
    while True:
        number += 1
        here = (*path, ("notice", number))
        (letter,) = (await context._settle(here, ReceiveOperation((notice_message_name(approval),)))).letters
        notice = context._instance.decode(letter.body, Notice, here)
        raw = step.codec.encode_args((notice,), {}, "the arguments of step", here)
        call = CallOperation(step.name, raw, step.queue, step.rule, step.timeout_s, step.may_repeat)
        await context._settle((*path, ("notify", number)), step.placed(call, context._instance.execution.key.tenant, (notice,), {}), step)
