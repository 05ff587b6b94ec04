"""Asking for an approval: the verb, as it is composed of a child that is called, and of messages that tell whom to remind."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from perdure.core import values
from perdure.core.errors import BadValue, ChildFailed, ErrorInfo, Timeout, Undecodable
from perdure.core.ops import APPROVAL, Call, Err, Ok, Receive, Spawn
from perdure.core.paths import Path, idempotency_key, text
from perdure.programs.code.children import own_id
from perdure.programs.code.declare import Step
from perdure.programs.code.durations import Duration, seconds, whole
from perdure.programs.code.results import Decision

if TYPE_CHECKING:
    from perdure.programs.code.approval import Notice, Request, Verdict
    from perdure.programs.code.context import Context


class Approving(TypedDict, total=False):
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


class Asking(msgspec.Struct, frozen=True, kw_only=True):
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


def asking(options: dict[str, Any]) -> Asking:
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
        return Asking(**given)
    except TypeError as error:
        raise BadValue("approve", sorted(options), f"options that it has: {error}") from error


def request(title: str, given: Asking) -> "Request":
    """What is asked, as its program takes it.

    Raises:
        BadValue: an option means nothing.
    """
    from perdure.programs.code.approval import Request  # here, as it is a workflow itself

    if not title.strip():
        raise BadValue("approve(title)", title, "a question that people understand")
    for what, names in (("assignees", given.assignees), ("escalate_to", given.escalate_to)):
        if not all(isinstance(name, str) and name for name in names):
            raise BadValue(f"approve({what})", names, 'names, or "group:name" for whoever is in a group')
    if given.on_timeout not in ("fail", "approve", "reject"):
        raise BadValue("approve(on_timeout)", given.on_timeout, "one of fail, approve, deny")
    whole(given.quorum, "approve(quorum)")
    single = not any(name.startswith("group:") for name in (*given.assignees, *given.escalate_to))
    if given.assignees and single and given.quorum > len({*given.assignees, *given.escalate_to}):
        raise BadValue("approve(quorum)", given.quorum, f"at most the number of assignees, {len(given.assignees)}")
    return Request(
        title,
        given.details,
        None if given.form is None else schema(given.form),
        tuple(given.assignees),
        given.quorum,
        _seconds(given.remind, "remind"),
        _seconds(given.escalate, "escalate"),
        tuple(given.escalate_to),
        _seconds(given.timeout, "timeout"),
        given.on_timeout,  # type: ignore[arg-type]  # it is one of the three
        notifies=given.notify is not None,
    )


def schema(form: Any) -> dict[str, Any]:
    """The JSON Schema of a form's type.

    Raises:
        BadValue: it is no type that has one.
    """
    try:
        found: dict[str, Any] = form.model_json_schema() if hasattr(form, "model_json_schema") else msgspec.json.schema(form)
    except (TypeError, ValueError) as error:
        raise BadValue("approve(form)", form, f"a type of plain data, such as a dataclass: {error}") from error
    return found


def _seconds(duration: Duration | None, what: str) -> float | None:
    return None if duration is None else seconds(duration, f"approve({what})")


async def approved(context: "Context", path: Path, asked: "Request", given: Asking) -> Decision[Any]:
    """Ask, and wait for the decision; ask again as long as what was filled in does not fit the form.

    Raises:
        Timeout: nobody decided in time, and that is no decision.
        ChildFailed: the approval was cancelled, or failed.
    """
    place, times = path, 1
    while True:
        approval = own_id(idempotency_key(context._instance.execution.key, place))
        verdict = await _verdict(context, place, approval, asked, given)
        if verdict.expired and asked.on_timeout == "fail":
            raise Timeout(text(path), asked.timeout_s)
        try:
            return _decision(verdict, given.form)
        except Undecodable as unfit:
            times += 1
            place, asked = (*path, ("again", times)), msgspec.structs.replace(asked, refused=unfit.why)


def _decision(verdict: "Verdict", form: Any) -> Decision[Any]:
    """The verdict, with the form filled in as its type.

    Raises:
        Undecodable: what was filled in does not fit.
    """
    found = verdict.decision()
    if not found.approved or found.expired or form is None:
        return found
    return msgspec.structs.replace(found, value=values.decode(values.encode(found.value, "the form"), form, "the form"))


async def _verdict(context: "Context", path: Path, approval: str, asked: "Request", given: Asking) -> "Verdict":
    from perdure.programs.code.approval import Verdict

    instance = context._instance
    raw = values.encode(((asked,), {}), "what is asked", path)
    telling = None
    if given.notify is not None:
        telling = instance.loop.create_task(_notify(context, path, approval, given.notify), name="notify")
        instance.branches[telling] = context._scope
    try:
        outcome = (await context._settle(path, Spawn(APPROVAL, approval, 1, raw))).outcome
    finally:
        if telling is not None:
            instance.branches.pop(telling, None)
            telling.cancel()
    if not isinstance(outcome, Ok):
        failure = outcome if isinstance(outcome, Err) else Err("failed", 1, ErrorInfo("Unknown", "it is not remembered how it ended"))
        raise ChildFailed(text(path), failure.kind, failure.error)
    verdict: Verdict = instance.decode(outcome.value, Verdict, path)
    return verdict


async def _notify(context: "Context", path: Path, approval: str, step: Step[Any, Any, Any]) -> None:
    """Run the step with each notice, one after the other. One that fails for good is not tried again, and stops nothing."""
    from perdure.programs.code.approval import Notice, notices

    number = 0
    while True:
        number += 1
        here = (*path, ("notice", number))
        (letter,) = (await context._settle(here, Receive((notices(approval),)))).letters
        notice = context._instance.decode(letter.body, Notice, here)
        raw = step.codec.encode_args((notice,), {}, "the arguments of step", here)
        call = Call(step.name, raw, step.queue, step.rule, step.timeout_s, step.may_repeat)
        await context._settle((*path, ("notify", number)), step.placed(call, context._instance.execution.key.tenant, (notice,), {}), step)
