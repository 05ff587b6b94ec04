"""The program of an approval: a person decides, or several do, or time does. It is a workflow like any other, and an engine always knows it.

Who asks for an approval starts it as a child and waits for its end, at one place of its own, so nothing else is held up. What people are to
see stands in its state under `SHOWN`; what they say comes as messages that are answered, so that of two at once one counts and the other is told.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Signal
from perdure.code.results import Decision, Message, PortResult, Vote
from perdure.core.operations import APPROVAL_WORKFLOW

APPROVAL_STATE_KEY = "approval"
"""The state under which what people are to see is kept."""

OnTimeout = Literal["fail", "approve", "reject"]
NoticeKind = Literal["asked", "reminder", "escalated"]


class ApprovalRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is asked: a title and details, the JSON Schema of the form, who may decide and how many have to, and what time does of itself.

    `refused` says why the answer before was of no use; with `notifies`, who asked is sent a notice whenever people are to be told; with `returns_details`,
    the verdict has the details.
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


class ApprovalState(msgspec.Struct, frozen=True):
    """How an approval stands: what is asked, of whom by now, until when, and what was said."""

    request: ApprovalRequest
    assignees: tuple[str, ...]
    asked_at_s: float
    due_at_s: float | None
    votes: tuple[Vote, ...]


class Notice(msgspec.Struct, frozen=True):
    """That people are to be told: of which approval, why, and whom."""

    approval: str
    kind: NoticeKind
    title: str
    to: tuple[str, ...]
    details: Any = None


class ApprovalVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """How it ended, and when: `expired`, time decided; else the votes did. It is the record of the decision, whatever asked for it.

    `details` are those of the request, if that `returns_details`.
    """

    approved: bool
    expired: bool
    votes: tuple[Vote, ...]
    at_s: float
    details: Any = None

    def decision(self) -> Decision[Any]:
        """The record of the decision, as who asked is given it: how, by whom, when, by what means, the comment, and the form as it was filled in."""
        filled = next((vote.value for vote in reversed(self.votes) if vote.value is not None), None)
        if self.expired or not self.votes:
            return Decision(self.approved, filled, votes=self.votes, expired=self.expired, at_s=self.at_s, means="timeout")
        last = self.votes[-1]
        return Decision(self.approved, filled, last.by, last.comment, self.votes, at_s=self.at_s, means=last.means)


class VoteReply(msgspec.Struct, frozen=True):
    """What who votes is told: whether the vote counts, if not why, and whether all is decided with it."""

    taken: bool
    why: str = ""
    decided: bool = False


VOTE_SIGNAL = Signal("vote", Vote)


def notice_message_name(approval: str) -> str:
    """The name of the messages by which who asked is told of notices."""
    return f"notice of {approval}"


def vote_refusal(shown: ApprovalState, vote: Vote) -> str:
    """Why a vote doesn't count; empty if it does."""
    if not vote.by:
        return "it does not say by whom it is"
    if any(one.by == vote.by for one in shown.votes):
        return f"{vote.by} has decided already"
    if shown.assignees and vote.by not in shown.assignees and not any(f"group:{group}" in shown.assignees for group in vote.groups):
        return f"{vote.by} is not among those who may decide: {', '.join(shown.assignees)}"
    return ""


def verdict_of_votes(request: ApprovalRequest, votes: tuple[Vote, ...]) -> ApprovalVerdict | None:
    """What the votes come to, if that is clear: one against decides, and a quorum for it."""
    if any(not vote.approve for vote in votes):
        return ApprovalVerdict(False, False, votes, votes[-1].at_s)
    return ApprovalVerdict(True, False, votes, votes[-1].at_s) if len(votes) >= request.quorum else None


class _ApprovalRun:
    """An approval under way."""

    def __init__(self, ctx: Context, request: ApprovalRequest) -> None:
        self.request = request
        self.id = ctx.execution.id
        began_s = ctx.now().timestamp()
        due_at_s = None if request.timeout_s is None else began_s + request.timeout_s
        self.shown = ApprovalState(request, request.assignees, began_s, due_at_s, ())

    def show(self, ctx: Context, **changes: Any) -> None:
        """Let people see how it stands."""
        self.shown = msgspec.structs.replace(self.shown, **changes)
        ctx.set(APPROVAL_STATE_KEY, self.shown)

    def tell(self, ctx: Context, kind: NoticeKind) -> None:
        """Have people told."""
        notice = Notice(self.id, kind, self.request.title, self.shown.assignees, self.request.details)
        ctx.emit(notice)
        parent = ctx.execution.parent
        if self.request.notifies and parent is not None:
            _ = ctx.send(parent, notice_message_name(self.id), notice)

    async def votes(self, ctx: Context) -> ApprovalVerdict:
        """Take votes until they decide."""
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

    async def reminders(self, ctx: Context) -> None:
        """Remind, again and again."""
        async for turn in ctx.loop("reminders", state=0, keep=1):
            await turn.sleep(self.request.remind_every_s or 0.0, name="wait")
            self.tell(turn, "reminder")

    async def escalation(self, ctx: Context) -> None:
        """Let others decide as well, after a while; then wait for ever."""
        await ctx.sleep(self.request.escalate_after_s or 0.0, name="wait")
        self.show(ctx, assignees=(*self.shown.assignees, *self.request.escalate_to))
        self.tell(ctx, "escalated")
        await ctx.listen("nothing")

    async def late(self, ctx: Context) -> ApprovalVerdict:
        """Decide when the time is over."""
        await ctx.sleep(self.request.timeout_s or 0.0, name="wait")
        return ApprovalVerdict(self.request.on_timeout == "approve", True, self.shown.votes, ctx.now().timestamp())


async def _approval_workflow(ctx: Context, request: ApprovalRequest) -> PortResult:
    under_way = _ApprovalRun(ctx, request)
    under_way.show(ctx)
    under_way.tell(ctx, "asked")
    wanted: dict[str, Callable[[Context], Awaitable[Any]] | None] = {
        "votes": under_way.votes,
        "reminders": None if request.remind_every_s is None else under_way.reminders,
        "escalation": None if request.escalate_after_s is None else under_way.escalation,
        "late": None if request.timeout_s is None else under_way.late,
    }
    branches: dict[str, Any] = {name: branch for name, branch in wanted.items() if branch is not None}
    found: ApprovalVerdict = (await ctx.race(**branches)).value
    if request.returns_details:
        found = msgspec.structs.replace(found, details=request.details)
    port = "timeout" if found.expired and request.on_timeout == "fail" else "approved" if found.approved else "rejected"
    return PortResult(found, port)


APPROVAL_CODE = CodeWorkflow(_approval_workflow, APPROVAL_WORKFLOW)
"""What engines know beside what they are given."""
