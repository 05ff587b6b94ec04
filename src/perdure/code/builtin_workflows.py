"""The workflows that every engine has: an approval, and a counter for the uses of a composite.

An approval ends when people decide or its timeout passes. A composite is a pipeline that agents have used; its id contains a hash of what the pipeline
does, so equal pipelines share one execution. That execution counts messages about uses up to `USES_MAX` and then ends. It remembers every sender, so no
use counts twice. Cancelling it removes the composite.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from perdure.code.approval_requests import (
    APPROVAL_STATE_KEY,
    VOTE_SIGNAL,
    ApprovalRequest,
    ApprovalState,
    ApprovalVerdict,
    Notice,
    NoticeKind,
    VoteReply,
    notice_message_name,
    verdict_of_votes,
    vote_refusal,
)
from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Signal
from perdure.code.results import Message, PortResult, Vote
from perdure.core.operations import APPROVAL_WORKFLOW, COMPOSITE_WORKFLOW

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

    def show(self, ctx: Context, **changes: Any) -> None:
        """Changes the state that people see."""
        self.shown = msgspec.structs.replace(self.shown, **changes)
        ctx.set(APPROVAL_STATE_KEY, self.shown)

    def notify(self, ctx: Context, kind: NoticeKind) -> None:
        """Sends a notice to the people who may decide."""
        notice = Notice(self.id, kind, self.request.title, self.shown.assignees, self.request.details)
        ctx.emit(notice)
        parent = ctx.execution.parent
        if self.request.notifies and parent is not None:
            _ = ctx.send(parent, notice_message_name(self.id), notice)

    async def collect_votes(self, ctx: Context) -> ApprovalVerdict:
        """Receives votes until they decide."""
        while True:
            message: Message[Vote] = await ctx.listen(VOTE_SIGNAL, completable=True)
            vote = msgspec.structs.replace(message.body, at_s=ctx.now().timestamp())
            if why := vote_refusal(self.shown, vote):
                message.complete(VoteReply(False, why))
                continue
            self.show(ctx, votes=(*self.shown.votes, vote))
            found = verdict_of_votes(self.request, self.shown.votes)
            message.complete(VoteReply(True, decided=found is not None))
            if found is not None:
                return found

    async def send_reminders(self, ctx: Context) -> None:
        """Sends a reminder at each interval, without end."""
        async for turn in ctx.loop("reminders", state=0, keep=1):
            await turn.sleep(self.request.remind_every_s or 0.0, name="wait")
            self.notify(turn, "reminder")

    async def escalate(self, ctx: Context) -> None:
        """After a delay, lets further people decide as well; then waits without end, because a branch of a race that returns wins it."""
        await ctx.sleep(self.request.escalate_after_s or 0.0, name="wait")
        self.show(ctx, assignees=(*self.shown.assignees, *self.request.escalate_to))
        self.notify(ctx, "escalated")
        await ctx.listen("nothing")

    async def time_out(self, ctx: Context) -> ApprovalVerdict:
        """Decides as `on_timeout` says when the timeout has passed."""
        await ctx.sleep(self.request.timeout_s or 0.0, name="wait")
        return ApprovalVerdict(self.request.on_timeout == "approve", True, self.shown.votes, ctx.now().timestamp())


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
    if request.returns_details:
        found = msgspec.structs.replace(found, details=request.details)
    port = "timeout" if found.expired and request.on_timeout == "fail" else "approved" if found.approved else "rejected"
    return PortResult(found, port)


APPROVAL_CODE = CodeWorkflow(_approval_workflow, APPROVAL_WORKFLOW)
"""The workflow of approvals."""
