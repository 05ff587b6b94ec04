"""Requests: messages that ask executions to do something, checked one by one and posted together.

A request is made from the head of its execution, and is refused where it could have no effect. Any number of requests are posted in one commit, each whole
or not at all, so that one execution and a hundred thousand follow the same rules.
"""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import msgspec

from perdure.core import events as e
from perdure.core import messages
from perdure.core.errors import BadValue, HasEnded, NeedsAttention
from perdure.core.mail import Send
from perdure.core.messages import Message
from perdure.core.paths import Path
from perdure.core.undo import not_undone
from perdure.runtime.endings import ENDED, last_turn
from perdure.service import pending
from perdure.service.access import Access
from perdure.service.repeating import place, read
from perdure.stores.base import Commit, Committed, Head, Post

HANDLED_MIN_S, HANDLED_MAX_S = 0.01, 0.5
"""The shortest and the longest wait before the mail is looked at again, for whether a message was handled."""


AT_A_TIME = 20
"""After so many requests the event loop gets its turn."""


class Request(msgspec.Struct, frozen=True):
    """A message to the execution of `head`, under a mail key that begins with its `verb`; the same `mail_key` sent twice arrives once."""

    head: Head
    verb: str
    message: Message
    mail_key: str = ""

    def __post_init__(self) -> None:
        if not self.mail_key:  # pause, resume and pause again are three, even while no engine reads them
            msgspec.structs.force_setattr(self, "mail_key", f"{self.verb}:{uuid4().hex}")

    @property
    def post(self) -> Post:
        """What the store is given."""
        return Post(sends=(Send(self.head.key, self.mail_key, messages.encode(self.message)),))


def to_cancel(head: Head, reason: str, undo: bool = True) -> Request | None:
    """Unwind, be undone unless that is not wanted, and end as cancelled; None if it was cancelled before.

    Raises:
        HasEnded: there is nothing to cancel.
    """
    return _to_end(head, messages.Cancel(reason, undo), "cancel")


def to_terminate(head: Head, reason: str) -> Request | None:
    """End as cancelled at once; None if it was cancelled before.

    Raises:
        HasEnded: there is nothing to terminate.
    """
    return _to_end(head, messages.Terminate(reason), "terminate")


def _to_end(head: Head, message: messages.Cancel | messages.Terminate, verb: str) -> Request | None:
    if head.status == "cancelled":
        return None
    if head.status in ENDED:
        raise HasEnded(head.key, head.status, verb)
    return Request(head, verb, message, verb)


def to_tell(head: Head, message: Message, verb: str) -> Request:
    """Do what the message says, if it has not ended.

    Raises:
        HasEnded: it would have no effect.
    """
    if head.status in ENDED and not (head.status == "failed" and isinstance(message, messages.Retry)):
        raise HasEnded(head.key, head.status, verb)
    return Request(head, verb, message)


async def to_retry(access: Access, head: Head, reason: str, step: str | None = None) -> Request:
    """Go on from what failed, or from a `step` on; what is parked, from where it stands.

    Raises:
        HasEnded, Removed: there is nothing to retry.
        BadValue: it has not come to that step, or is parked, and does not go back.
    """
    before: Path = ()
    execution = await read(access, head.key)
    if step is not None:
        before = place(execution, step)
        if execution.ended is None:
            raise BadValue("retry from a step", str(head.key), f"a failed execution; it is {execution.status}: fork it from that step")
    return to_tell(head, messages.Retry(reason, before), "retry")


async def to_undo(access: Access, head: Head, reason: str) -> Request:
    """Undo what was done, if it is completed; if it failed or was cancelled, what could not be undone then.

    Raises:
        HasEnded, Removed, BadValue: there is nothing to undo, or it has not ended, and is to be cancelled.
    """
    if head.status in ("failed", "cancelled") and not not_undone((await read(access, head.key)).settled):
        raise HasEnded(head.key, head.status, "undo")
    if head.status not in ("completed", "failed", "cancelled", "undoing"):
        raise BadValue("undo", f"{head.key}, which is {head.status},", "a completed execution; cancel one that has not ended, and it is undone")
    _ = await read(access, head.key)  # which must be there to be undone
    return Request(head, "undo", messages.Undo(reason))


def to_discard(head: Head, reason: str) -> Request:
    """Be cancelled as it stands, if it has failed or needs attention by then."""
    return Request(head, "discard", messages.Discard(reason))


async def post(access: Access, requests: Sequence[Request]) -> None:
    """Post them in one commit. Executions that are to end, have not begun and are in no engine's hands end with it; if an engine takes one meanwhile,
    that one is told in a second commit."""
    changes: list[Commit | Post] = []
    for number, request in enumerate(requests, 1):
        changes.append(await _change(access, request))
        if number % AT_A_TIME == 0:
            await asyncio.sleep(0)
    answers = await access.store.commit(changes)
    missed = [
        one.post for one, change, answer in zip(requests, changes, answers, strict=True) if isinstance(change, Commit) and not isinstance(answer, Committed)
    ]
    if missed:
        _ = await access.store.commit(missed)


async def _change(access: Access, request: Request) -> Commit | Post:
    match request.message:
        case messages.Cancel() | messages.Terminate() as message:
            return await pending.withdrawal(access, request.head, message) or request.post
        case _:
            return request.post


async def has_taken_effect(access: Access, request: Request) -> None:
    """Wait until what was asked for has happened: of what is to end, its end; of all else, that an engine has handled it.

    Raises:
        NeedsAttention: it went on and is parked again, or something could not be undone.
    """
    key, before = request.head.key, request.head.version
    match request.message:
        case messages.Cancel() | messages.Terminate():
            _ = await access.watch.until(key, lambda head: head is None or head.status in ENDED)
        case messages.Undo():
            await _handled(access, request)
            await _must_not_be_parked(access, await access.watch.until(key, lambda head: head is None or head.status in ENDED | {"needs_attention"}), before)
        case messages.Resume() | messages.Retry():
            await _handled(access, request)
            head = await access.head(key)
            await _must_not_be_parked(access, head if head.status == "needs_attention" else None, before)
        case _:
            await _handled(access, request)


async def _handled(access: Access, request: Request) -> None:
    wait_s = HANDLED_MIN_S
    while any(mail.key == request.mail_key for mail in await access.store.mail(request.head.key)):
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, HANDLED_MAX_S)


async def _must_not_be_parked(access: Access, head: Head | None, after: int) -> None:
    turn = None if head is None else await last_turn(access.store, head, after)
    if head is not None and isinstance(turn, e.Parked):
        raise NeedsAttention(head.key, turn.reason, "; ".join(turn.detail))
