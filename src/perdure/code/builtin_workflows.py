"""The workflows that every engine has: an approval, and a counter for the uses of a composite.

An approval ends when people decide or its timeout passes. A composite is a pipeline that agents have used; its id contains a hash of what the pipeline
does, so equal pipelines share one execution. That execution counts messages about uses up to `USES_MAX` and then ends. It remembers every sender, so no
use counts twice. Cancelling it removes the composite.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from perdure.code.approval_attributes import ASKED, ASSIGNEE, NOTICE, NOTICED, assignees_indexed
from perdure.code.approval_requests import (
    APPROVAL_STATE_KEY,
    DELEGATION_SIGNAL,
    VOTE_SIGNAL,
    ApprovalRequest,
    ApprovalState,
    ApprovalVerdict,
    Delegation,
    Notice,
    NoticeKind,
    VoteReply,
    after_delegation,
    delegation_refusal,
    notice_message_name,
    verdict_of_votes,
    vote_refusal,
)
from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Signal
from perdure.code.results import Message, PortResult, Vote
from perdure.core.operations import APPROVAL_WORKFLOW, COMPOSITE_WORKFLOW

T = TypeVar("T")

USED_SIGNAL = Signal("used")
"""The message that reports one use of a composite."""

USES, DESCRIPTION = "uses", "about"
"""The attributes by which a composite is found: the number of its uses, and its description. The number is also shown as state under that name."""

USES_AT_A_TIME = 1000
GATHER_S = 1.0
"""How long further uses are gathered after the first, to be counted together. A search meanwhile counts the messages itself."""

USES_MAX = 10_000
"""The most uses that are counted."""


class CompositeDefinition(msgspec.Struct, frozen=True):
    """A composite: its description, its operations, in which ``@input.NAME`` marks what differs between uses, and the names of its inputs."""

    name: str
    description: str
    pipeline: list[Any]
    inputs: tuple[str, ...]
    tables: tuple[str, ...] = ()


async def _composite_workflow(ctx: Context, shape: CompositeDefinition) -> int:
    uses = 0
    async for turn in ctx.loop("count", state=0, keep=1):
        _ = await turn.listen(USED_SIGNAL)
        uses = turn.state + 1
        turn.set(USES, uses)
        if uses < USES_MAX:
            uses += len(await turn.listen_many(USED_SIGNAL, limit=min(USES_AT_A_TIME, USES_MAX - uses), timeout=GATHER_S))
        turn.set(USES, uses)
        turn.set_attributes({USES: uses})
        turn.state = uses
        if uses >= USES_MAX:
            break
    return uses


COMPOSITE_CODE = CodeWorkflow(_composite_workflow, COMPOSITE_WORKFLOW)
"""The workflow of composites."""


class _ApprovalRun:
    """A pending approval."""

    def __init__(self, ctx: Context, request: ApprovalRequest) -> None:
        self.request = request
        self.id = ctx.execution.id
        began_s = ctx.now().timestamp()
        due_at_s = None if request.timeout_s is None else began_s + request.timeout_s
        self.shown = ApprovalState(request, request.assignees, began_s, due_at_s, ())
        # An approval that began with an earlier version has no attributes, and its log has none of what needs them.
        self.is_indexed = ASKED in ctx.execution.attributes

    def show(self, ctx: Context, **changes: Any) -> None:
        """Changes the state that people see."""
        self.shown = msgspec.structs.replace(self.shown, **changes)
        ctx.set(APPROVAL_STATE_KEY, self.shown)

    def notify(self, ctx: Context, kind: NoticeKind, to: tuple[str, ...] | None = None) -> None:
        """Sends a notice to people: to all who may decide, unless `to` says whom."""
        notice = Notice(self.id, kind, self.request.title, self.shown.assignees if to is None else to, self.request.details)
        ctx.emit(notice)
        if self.is_indexed and (kind != "asked" or to is not None):  # it is started with the attributes of the first notice
            ctx.set_attributes({NOTICED: ctx.now(), NOTICE: kind})
        parent = ctx.execution.parent
        if self.request.notifies and parent is not None:
            _ = ctx.send(parent, notice_message_name(self.id), notice)

    async def collect_votes(self, ctx: Context) -> ApprovalVerdict:
        """Receives votes, and delegations between them, until the votes decide."""
        while True:
            message: Message[Any]
            if self.is_indexed:
                message = await ctx.listen(VOTE_SIGNAL.name, DELEGATION_SIGNAL.name, completable=True)
                if message.name == DELEGATION_SIGNAL.name:
                    self.delegate(ctx, message)
                    continue
            else:
                message = await ctx.listen(VOTE_SIGNAL, completable=True)
            found = self.count_vote(ctx, message)
            if found is not None:
                return found

    def count_vote(self, ctx: Context, message: Message[Any]) -> ApprovalVerdict | None:
        """Counts a vote, or says in the reply why it does not count; returns the verdict once the votes decide."""
        vote = _body(message, Vote)
        if vote is None:
            return None
        vote = msgspec.structs.replace(vote, at_s=ctx.now().timestamp())
        if why := vote_refusal(self.shown, vote):
            message.complete(VoteReply(False, why))
            return None
        self.show(ctx, votes=(*self.shown.votes, vote))
        self.index_assignees(ctx)
        found = verdict_of_votes(self.request, self.shown.votes)
        message.complete(VoteReply(True, decided=found is not None))
        return found

    def delegate(self, ctx: Context, message: Message[Any]) -> None:
        """Lets the delegate decide in the place of who delegates, or says in the reply why not."""
        delegation = _body(message, Delegation)
        if delegation is None:
            return
        if why := delegation_refusal(self.shown, delegation):
            message.complete(VoteReply(False, why))
            return
        self.shown = after_delegation(self.shown, msgspec.structs.replace(delegation, at_s=ctx.now().timestamp()))
        self.show(ctx)
        self.index_assignees(ctx)
        message.complete(VoteReply(True))
        self.notify(ctx, "asked", (delegation.to,))

    def index_assignees(self, ctx: Context) -> None:
        """Makes the inbox find the approval by those who may still decide."""
        if self.is_indexed:
            decided = {name for name in self.shown.assignees if vote_refusal(self.shown, Vote(name, approve=True))}
            ctx.set_attributes({ASSIGNEE: assignees_indexed(self.shown.assignees, decided)})

    async def send_reminders(self, ctx: Context) -> None:
        """Sends a reminder at each interval, without end."""
        async for turn in ctx.loop("reminders", state=0, keep=1):
            await turn.sleep(self.request.remind_every_s or 0.0, name="wait")
            self.notify(turn, "reminder")

    async def escalate(self, ctx: Context) -> None:
        """After a delay, lets further people decide as well; then waits without end, because a branch of a race that returns wins it."""
        await ctx.sleep(self.request.escalate_after_s or 0.0, name="wait")
        self.show(ctx, assignees=(*self.shown.assignees, *self.request.escalate_to))
        self.index_assignees(ctx)
        self.notify(ctx, "escalated")
        await ctx.listen("nothing")

    async def time_out(self, ctx: Context) -> ApprovalVerdict:
        """Decides as `on_timeout` says when the timeout has passed."""
        await ctx.sleep(self.request.timeout_s or 0.0, name="wait")
        return ApprovalVerdict(self.request.on_timeout == "approve", True, self.shown.votes, ctx.now().timestamp())


def _body(message: Message[Any], kind: type[T]) -> T | None:
    """Returns the body of a message as a value of its type; if it is none, says so in the reply and returns None."""
    if isinstance(message.body, kind):
        return message.body
    try:
        return msgspec.convert(message.body, kind)
    except msgspec.ValidationError as error:
        message.complete(VoteReply(False, f"the message is not valid: {error}"))
        return None


async def _approval_workflow(ctx: Context, request: ApprovalRequest) -> PortResult:
    run = _ApprovalRun(ctx, request)
    run.show(ctx)
    run.notify(ctx, "asked")
    wanted: dict[str, Callable[[Context], Awaitable[Any]] | None] = {
        "votes": run.collect_votes,
        "reminders": None if request.remind_every_s is None else run.send_reminders,
        "escalation": None if request.escalate_after_s is None else run.escalate,
        "late": None if request.timeout_s is None else run.time_out,
    }
    branches: dict[str, Any] = {name: branch for name, branch in wanted.items() if branch is not None}
    found: ApprovalVerdict = (await ctx.race(**branches)).value
    if run.is_indexed:
        ctx.set_attributes({ASSIGNEE: None})
    if request.returns_details:
        found = msgspec.structs.replace(found, details=request.details)
    port = "timeout" if found.expired and request.on_timeout == "fail" else "approved" if found.approved else "rejected"
    return PortResult(found, port)


APPROVAL_CODE = CodeWorkflow(_approval_workflow, APPROVAL_WORKFLOW)
"""The workflow of approvals."""
