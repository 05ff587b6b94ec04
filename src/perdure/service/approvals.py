"""Reads approvals and delivers people's decisions on them. Lists of them are in `perdure.service.people.inbox`.

A decision is a message to the approval's own execution, which replies to it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from perdure.code.approval_attributes import NO_SUBJECT, OPEN_STATUSES, Priority, due_time
from perdure.code.approval_requests import (
    APPROVAL_STATE_KEY,
    DELEGATION_SIGNAL,
    VOTE_SIGNAL,
    ApprovalRequest,
    ApprovalState,
    Delegation,
    VoteReply,
    after_delegation,
    delegation_refusal,
    vote_refusal,
)
from perdure.code.results import Vote
from perdure.core import messages, values
from perdure.core.errors import AlreadyDecided, Ambiguous, BadValue, DecisionRefused, HasEnded, MissingExtra, NoReply, NotFound
from perdure.core.execution import Execution
from perdure.core.operation_state import PendingOperation, SettledOperation
from perdure.core.operations import APPROVAL_WORKFLOW, SpawnOperation
from perdure.core.paths import Key, Path, path_text
from perdure.definitions.expr.json_schema import find_problems
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service import execution_operations, queries
from perdure.service.execution_operations import await_reply
from perdure.service.people.substitutes import stood_in_for
from perdure.service.reruns import read_execution
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import HeadFilter


class Approval(msgspec.Struct, frozen=True):
    """An approval as people see it: its question, the execution that asks it, the people who may decide, when it is due, and the votes so far.

    `id` is the argument of `approve` and `reject`; `form` is the JSON Schema of the value that an approver fills in. Without a due time of its own, it is due
    when it times out. The resource is what it is about; `route_hint` and `deeplink` say where in an application people find that.
    """

    id: str
    key: Key
    requested_by: Key | None
    path: str
    title: str
    details: Any
    form: dict[str, Any] | None
    assignees: tuple[str, ...]
    quorum: int
    requested_at_s: float
    due_at_s: float | None
    votes: tuple[Vote, ...]
    refused: str = ""
    times_out_at_s: float | None = None
    priority: Priority = "normal"
    resource_type: str = ""
    resource_id: str = ""
    route_hint: str = ""
    deeplink: str = ""
    delegations: tuple[Delegation, ...] = ()


async def read_approval(access: StoreAccess, key: Key) -> Approval | None:
    """Returns the present state of an approval; None if it has not begun.

    Raises:
        NotFound: no approval has this key.
    """
    return await _approval_of(access, await read_execution(access, key))


async def _approval_of(access: StoreAccess, execution: Execution) -> Approval | None:
    """An approval as it is in the state of its execution; None if it has not begun."""
    key, raw = execution.key, execution.state.get(APPROVAL_STATE_KEY)
    if raw is None or execution.started is None:
        return None
    shown: ApprovalState = values.decode(await access.payload(raw), ApprovalState, "an approval")
    parent = execution.started.parent
    asked, about = shown.request, shown.request.subject or NO_SUBJECT
    return Approval(
        key.id,
        key,
        execution.started.origin,
        "" if parent is None else path_text(parent.path),
        asked.title,
        asked.details,
        asked.form,
        shown.assignees,
        asked.quorum,
        shown.asked_at_s,
        due_time(about, asked.timeout_s, shown.asked_at_s),
        shown.votes,
        asked.refused,
        shown.due_at_s,
        about.priority,
        about.resource_type,
        about.resource_id,
        about.route_hint,
        about.deeplink,
        shown.delegations,
    )


def why_refused(one: Approval, vote: Vote) -> str:
    """Returns the reason why a vote would not count on an approval as it is shown; empty if it would."""
    return vote_refusal(ApprovalState(ApprovalRequest(one.title), one.assignees, one.requested_at_s, None, one.votes, one.delegations), vote)


async def find_approval(access: StoreAccess, which: str, tenant: str, path: str | None = None) -> Key:
    """Finds an approval by its own id, or by the execution that asks for it. If that execution asks for several, `path` selects one.

    The execution is named by its id, a prefix of its id, or any text that `find_execution` accepts.

    Raises:
        NotFound, Ambiguous: the text names no approval, or several.
    """
    own = Key(tenant, APPROVAL_WORKFLOW, which)
    if await access.store.heads(HeadFilter(keys=(own,), limit=1)):
        return own
    exact, begun = await queries.keys_of_id(access, tenant, which)
    if not exact and len(begun) > queries.CANDIDATES_MAX:
        raise Ambiguous(which, begun[: queries.CANDIDATES_MAX], more=True)
    asked: list[Key] = []
    keys = exact or begun or [await queries.find_execution(access, which, tenant)]
    for key in keys:
        asked += [key] if key.workflow == APPROVAL_WORKFLOW else open_approvals(await read_execution(access, key), path)
    if len(asked) > 1:  # an approval that has been decided in the meantime is not a candidate
        waiting = {head.key for head in await access.store.heads(HeadFilter(keys=tuple(asked), statuses=OPEN_STATUSES, limit=len(asked)))}
        asked = sorted(waiting or set(asked))
    if len(asked) > 1:
        raise Ambiguous(which, asked, more=False)
    if asked:
        return asked[0]
    for key in reversed(keys):
        if decided := decided_approvals(await read_execution(access, key), path):
            return decided[-1]
    raise NotFound(which, f"no approval of {which} waits for a decision. Check the id: perdure approvals shows those that wait")


def open_approvals(execution: Execution, path: str | None = None) -> list[Key]:
    """Lists the approvals that an execution waits for; with `path`, only those of the operation whose path ends with it."""
    return _approvals(execution, execution.open.items(), path)


def decided_approvals(execution: Execution, path: str | None = None) -> list[Key]:
    """Lists the decided approvals of an execution in the order in which they were decided; with `path`, only those of the operation whose path ends with it."""
    return _approvals(execution, sorted(execution.settled.items(), key=lambda one: one[1].number), path)


def _approvals(execution: Execution, known: Iterable[tuple[Path, PendingOperation | SettledOperation]], path: str | None) -> list[Key]:
    children = [(path, one.op) for path, one in known if isinstance(one.op, SpawnOperation) and one.op.workflow == APPROVAL_WORKFLOW]
    return [
        Key(execution.key.tenant, APPROVAL_WORKFLOW, child.id) for asked_at, child in children if path is None or f"/{path_text(asked_at)}".endswith(f"/{path}")
    ]


async def decide_approval(access: StoreAccess, key: Key, vote: Vote) -> VoteReply:
    """Sends a vote and waits until the approval has accepted or refused it. Of two concurrent votes that would both decide, one is accepted.

    Raises:
        NotFound: there is no such approval.
        HasEnded: it was decided before.
        DecisionRefused: the vote does not count, and nothing was changed.
        BadValue: the value does not fit the form.
    """
    *behind, signal = await vote_messages(access, key, vote)
    return await _accepted(access, key, signal, behind)


async def _accepted(access: StoreAccess, key: Key, signal: messages.SignalMessage, behind: Sequence[messages.SignalMessage] = ()) -> VoteReply:
    try:
        reply = await await_reply(access, key, signal, behind)
    except NoReply as ended:
        raise await already_decided(access, key) or ended from ended
    answer: VoteReply = values.decode(await access.payload(reply), VoteReply, "the answer to a vote")
    if not answer.taken:
        raise DecisionRefused(key, answer.why)
    return answer


async def vote(access: StoreAccess, key: Key, vote: Vote, wait: bool) -> bool:
    """Sends a vote, and with `wait` returns only when it was accepted: whether it has decided. See `decide_approval` and `post_vote`."""
    if wait:
        return (await decide_approval(access, key, vote)).decided
    await post_vote(access, key, vote)
    return False


async def post_vote(access: StoreAccess, key: Key, vote: Vote) -> None:
    """Sends a vote and returns at once: the vote is durable, and takes effect when an engine runs.

    Raises:
        NotFound, HasEnded, DecisionRefused, BadValue: in the present state of the approval, the vote would not count.
    """
    *behind, signal = await vote_messages(access, key, vote)
    _ = await execution_operations.send_signal(access, key, signal, behind=behind)


async def vote_message(access: StoreAccess, key: Key, vote: Vote, message_key: str | None = None) -> messages.SignalMessage:
    """Returns the message that carries a vote of somebody who may decide themselves. Its idempotency key is `message_key`, or a fresh one.

    Raises:
        NotFound, HasEnded, DecisionRefused, BadValue: in the present state of the approval, the vote would not count.
    """
    shown = await _open_state(access, key)
    if shown is not None:
        _expect_counts(key, shown, vote)
    return execution_operations.signal_message(VOTE_SIGNAL, vote, message_key)


async def vote_messages(access: StoreAccess, key: Key, vote: Vote) -> list[messages.SignalMessage]:
    """Returns the messages that carry a vote, which is the last of them. Before the vote of a substitute, the decision is delegated to them.

    Raises:
        NotFound, HasEnded, DecisionRefused, BadValue: in the present state of the approval, the vote would not count.
    """
    shown, behind = await _open_state(access, key), list[messages.SignalMessage]()
    if shown is not None:
        delegation = await stand_in(access, key, shown, vote)
        if delegation is not None:
            behind.append(execution_operations.signal_message(DELEGATION_SIGNAL, delegation))
            shown = after_delegation(shown, delegation)
        _expect_counts(key, shown, vote)
    return [*behind, execution_operations.signal_message(VOTE_SIGNAL, vote)]


async def _open_state(access: StoreAccess, key: Key) -> ApprovalState | None:
    """The state of an approval after all that was sent to it; None if it has not begun.

    Raises:
        HasEnded, DecisionRefused: it is decided.
    """
    if (decided := await already_decided(access, key)) is not None:
        raise decided
    found = await queries.approval_after_votes(access, key)
    if found is None:
        return None
    shown, decided_by = found
    if decided_by is not None:
        said = f"it is {'approved' if decided_by.approved else 'rejected'} by {shown.votes[-1].by} already"
        raise DecisionRefused(key, f"{said}, which is recorded and takes effect when an engine runs")
    return shown


def _expect_counts(key: Key, shown: ApprovalState, vote: Vote) -> None:
    if why := vote_refusal(shown, vote):
        raise DecisionRefused(key, why)
    if vote.approve and shown.request.form is not None:
        check_form(shown.request.form, vote.value)


async def stand_in(access: StoreAccess, key: Key, shown: ApprovalState, vote: Vote) -> Delegation | None:
    """Returns the delegation to a voter who may not decide themselves, but stands in for an assignee who is out of office; None if they do not."""
    if not shown.assignees or not vote_refusal(shown, vote):
        return None
    names = await stood_in_for(access.store, key.tenant, vote.by, (await access.store.store_time()).now_s)
    offered = [Delegation(name, vote.by, f"{name} is out of office", is_absent=True) for name in names]
    found = next((one for one in offered if not delegation_refusal(shown, one)), None)
    return found if found is not None and await can_delegate(access, key) else None


# Delegation


async def delegate_approval(access: StoreAccess, key: Key, delegation: Delegation, wait: bool) -> None:
    """Lets somebody else decide; with `wait`, returns when an engine has accepted it.

    Raises:
        NotFound: there is no such approval.
        HasEnded: it was decided before.
        DecisionRefused: the one who delegates may not decide, the delegate may already, or one of them has.
    """
    shown = await _open_state(access, key)
    if shown is not None and (why := delegation_refusal(shown, delegation)):
        raise DecisionRefused(key, why)
    if not await can_delegate(access, key):
        raise DecisionRefused(key, "it was asked for with an earlier version of Perdure, and such an approval can't be delegated. Who may decide on it does")
    signal = execution_operations.signal_message(DELEGATION_SIGNAL, delegation)
    if wait:
        _ = await _accepted(access, key, signal)
    else:
        _ = await execution_operations.send_signal(access, key, signal)


async def can_delegate(access: StoreAccess, key: Key) -> bool:
    """Whether an approval receives delegations: those of earlier versions, which have no attributes, do not."""
    return bool((await access.head(key)).attributes)


FILLED_IN = "what was filled in"


def check_form(form: dict[str, Any], filled: Any) -> None:
    """Checks a value against the form, if `jsonschema-rs` is installed. If it is not, the workflow checks it, and asks again if it does not fit.

    Raises:
        BadValue: the value does not fit. It names the place of the first problem as a JSON pointer.
    """
    plain = values.decode(values.encode(filled, FILLED_IN), Any, FILLED_IN)
    try:
        found = find_problems(form, plain)
    except MissingExtra:
        return
    if found:
        raise BadValue(FILLED_IN, filled, f"what the form asks for: {'; '.join(one.text for one in found)}", where=f"/value{found[0].place}")


async def already_decided(access: StoreAccess, key: Key) -> HasEnded | None:
    """Returns the error for a decision on an approval that has ended; None if it is still open."""
    head = await access.head(key)
    if head.status not in ENDED_STATUSES:
        return None
    execution = await read_execution(access, key)
    ended, one = execution.ended, await _approval_of(access, execution)
    if head.status != "completed" or one is None or not one.votes or ended is None:
        return HasEnded(key, head.status, "a decision")
    vote = one.votes[-1]
    return AlreadyDecided(key, head.status, (one.title, vote.by, vote.approve, ended.at_s))
