"""Operations: what people have an execution do. Each is one post of mail with a key, so that it arrives once and whole.

An answer means that the message is durable; what it makes happen is an engine's business.
"""

import inspect
import secrets
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import msgspec

from perdure.core import events as e
from perdure.core import log, messages, tombstone, values
from perdure.core.attributes import Attributes, indexed
from perdure.core.errors import BadValue, HasEnded, InputDiffers, NotFound, Undecodable
from perdure.core.mail import Opening, Send
from perdure.core.messages import Message
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.core.values import Value
from perdure.programs.code.declare import Signal, checked_name
from perdure.programs.workflows import Workflow
from perdure.runtime.endings import ENDED
from perdure.service import pending, requests
from perdure.service.access import Access
from perdure.service.repeating import SEED_BITS
from perdure.service.requests import Request
from perdure.stores.base import Commit, Committed, Filter, Head, Post


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be started: an encoded input, the version to pin (0: the engine's), a delay of the start and a deadline from it on.

    `place` is a queue, the lane and the priority there; after `ttl_s` it does not begin any more. With `debounce_s` or `singleton`, `key` is that
    of a row (see `pending`): a start that has not begun is replaced by the next, or none is begun while one goes on. Without a `seed`, one is drawn.
    """

    key: Key
    input: bytes
    version: int = 0
    delay_s: float = 0.0
    deadline_s: float | None = None
    grace_s: float | None = None
    strict: bool = False
    place: tuple[str, str, int] = ("", "", 0)
    ttl_s: float | None = None
    debounce_s: float | None = None
    singleton: bool = False
    attributes: Attributes = ()
    definition: bytes | None = None
    seed: int | None = None


def positions(workflow: Workflow) -> list[str]:
    """What the arguments of a workflow are called that may be given by position, in their order."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in inspect.signature(workflow.fn).parameters.values() if one.kind in kinds][1:]


async def start(access: Access, wanted: Start) -> tuple[Key, bool]:
    """Start an execution unless there is one of this key; return its key, and whether it was created.

    Raises:
        InputDiffers: there is one, of another input, and the start is a strict one.
    """
    if wanted.debounce_s is None and not wanted.singleton:
        return wanted.key, await _start(access, wanted)
    row = await pending.row(access, wanted.key)
    if wanted.singleton and row and row[0].status not in ENDED:
        return row[0].key, False
    next_key = pending.following(wanted.key, row)
    delay_s = wanted.delay_s + (wanted.debounce_s or 0.0)
    replaced = [] if wanted.debounce_s is None else await pending.superseded(access, row, next_key)
    created = await _start(access, msgspec.structs.replace(wanted, key=next_key, delay_s=delay_s), replaced)
    if wanted.debounce_s is None or created:
        return next_key, created
    return await start(access, wanted)  # somebody else has taken the number at the same time


async def _start(access: Access, wanted: Start, besides: Sequence[Commit] = ()) -> bool:
    key, blobs = wanted.key, dict[str, bytes]()
    given = values.offload(wanted.input, blobs)
    definition = None if wanted.definition is None else values.kept(wanted.definition, blobs)
    created = False
    if not await access.store.heads(Filter(keys=(key,), limit=1)):
        now_s = (await access.store.moment()).now_s if wanted.delay_s or wanted.ttl_s is not None else 0.0
        due_at_s = now_s + wanted.delay_s if wanted.delay_s else 0.0
        expires_at_s = None if wanted.ttl_s is None else now_s + wanted.delay_s + wanted.ttl_s
        seed = secrets.randbits(SEED_BITS) if wanted.seed is None else wanted.seed
        begin = messages.Start(wanted.version, given, seed, None, wanted.deadline_s, expires_at_s=expires_at_s, attributes=wanted.attributes)
        begin = msgspec.structs.replace(begin, definition=definition, grace_s=wanted.grace_s)
        opens = Opening(program_name(key.workflow, wanted.version), key, *wanted.place, indexed(wanted.attributes))
        send = Send(key, "start", messages.encode(begin), due_at_s, opens)
        answer, *_ = await access.store.commit([Post(sends=(send,), blobs=tuple(blobs.items())), *besides])
        created = isinstance(answer, Committed) and key in answer.created
    if wanted.strict and not created and not await _was_started_with(access, key, given):
        raise InputDiffers(key)
    return created


async def _was_started_with(access: Access, key: Key, given: Value) -> bool:
    """Whether an execution was started with this input, or will be. One that has ended without having begun is like any other."""
    found = await access.store.read(key)
    events = [] if found is None else log.decode_all(found.rows)
    for event in reversed(events):  # that it was removed is said last
        if isinstance(event, e.Removed):
            return event.input in (b"", tombstone.digest(given))
        if isinstance(event, e.Started):
            return event.input == given
    begins = (messages.decode(mail.body) for mail in await access.store.mail(key))
    return next((begin.input == given for begin in begins if isinstance(begin, messages.Start)), True)


async def send(access: Access, key: Key, signal: messages.Signal, may_come: bool = False) -> Head | None:
    """Send a signal, which carries a key; return the head as it was before (None: there is none yet, and it `may_come`).

    Raises:
        NotFound, HasEnded: nobody would read it.
    """
    head = await _present(access, key, may_come)
    if head is not None and head.status in ENDED:
        raise HasEnded(key, head.status, f"the message {signal.name!r}")
    blobs: dict[str, bytes] = {}
    light = msgspec.structs.replace(signal, body=values.offload(signal.body, blobs))
    post = Post(sends=(Send(key, f"message:{signal.key}", messages.encode(light)),), blobs=tuple(blobs.items()))
    _ = await access.store.commit([post])
    return head


def signal(to: Signal[Any] | str, body: Any, key: str | None = None) -> messages.Signal:
    """A signal from outside, under a key of its own if none is given.

    Raises:
        BadName: its name or its key is none.
        BadValue: the body is not of the signal's type.
        Unencodable, TooLarge: the body can't be kept.
    """
    name, kind = (to.name, to.body) if isinstance(to, Signal) else (checked_name(to, "signal"), Any)
    raw = values.encode(body, f"the body of {name}")
    try:
        _ = values.decode(raw, kind, name)
    except Undecodable as error:
        raise BadValue(f"the body of {name}", body, f"what the signal takes: {error.why}") from error
    return messages.Signal(name, raw, uuid4().hex if key is None else checked_name(key, "key"))


async def cancel(access: Access, key: Key, reason: str, wait: bool, undo: bool = True) -> None:
    """Have an execution unwind, be undone unless that is not wanted, and end as cancelled; one that was cancelled before is left as it is.

    Raises:
        NotFound, HasEnded: there is nothing to cancel.
    """
    await ask(access, requests.to_cancel(await access.head(key), reason, undo), wait)


async def terminate(access: Access, key: Key, reason: str, wait: bool) -> None:
    """End an execution as cancelled at once; one that was cancelled before is left as it is.

    Raises:
        NotFound, HasEnded: there is nothing to terminate.
    """
    await ask(access, requests.to_terminate(await access.head(key), reason), wait)


async def discard(access: Access, key: Key, reason: str, wait: bool) -> None:
    """Cancel what has failed or needs attention, as it stands; what does neither any more is left as it is.

    Raises:
        NotFound: there is no such execution.
    """
    await ask(access, requests.to_discard(await access.head(key), reason), wait)


async def pause(access: Access, key: Key, reason: str, wait: bool) -> None:
    """Have an execution begin nothing more until it is resumed; what is parked already is left as it is.

    Raises:
        NotFound, HasEnded: there is nothing to pause.
    """
    _ = await tell(access, key, messages.Pause(reason), "pause", wait)


async def evict(access: Access, key: Key, reason: str, wait: bool) -> None:
    """Have an execution leave the engine that has it, and go on from its log; one that no engine has is left as it is.

    Raises:
        NotFound, HasEnded: there is nothing to evict.
    """
    _ = await tell(access, key, messages.Evict(reason), "evict", wait)


async def resume(access: Access, key: Key, reason: str, wait: bool) -> int:
    """Have what is paused or parked go on; what is neither is left as it is. Return the version behind which to watch it.

    Raises:
        NotFound, HasEnded: there is nothing to resume.
        NeedsAttention: with `wait`, it was resumed and is parked again.
    """
    head = await access.head(key)
    await ask(access, requests.to_tell(head, messages.Resume(reason), "resume"), wait)
    return head.version


async def retry(access: Access, key: Key, reason: str, wait: bool, step: str | None = None) -> int:
    """Have what has failed go on from what failed, or from a `step` on; what is parked, from where it stands. Return the version behind which to watch it.

    Raises:
        NotFound, HasEnded: there is nothing to retry.
        BadValue: it has not come to that step, or is parked, and does not go back.
        NeedsAttention: with `wait`, it went on and is parked again.
    """
    head = await access.head(key)
    await ask(access, await requests.to_retry(access, head, reason, step), wait)
    return head.version


async def undo(access: Access, key: Key, reason: str, wait: bool) -> None:
    """Undo what a completed execution has done, once; it is completed afterwards as before. Of one that failed or was cancelled, undo what could not be
    undone then.

    Raises:
        NotFound, HasEnded, BadValue: there is nothing to undo, or it has not ended, and is to be cancelled.
        NeedsAttention: with `wait`, something could not be undone.
    """
    await ask(access, await requests.to_undo(access, await access.head(key), reason), wait)


async def tell(access: Access, key: Key, message: Message, what: str, wait: bool) -> Head:
    """Post a message; with `wait`, return once it was handled, with the head as it is then.

    Raises:
        NotFound, HasEnded: it would have no effect.
    """
    head = await access.head(key)
    await ask(access, requests.to_tell(head, message, what), wait)
    return await access.head(key) if wait else head


async def ask(access: Access, request: Request | None, wait: bool) -> None:
    """Post a request, if there is one; with `wait`, return once it has taken effect."""
    if request is not None:
        await requests.post(access, [request])
        if wait:
            await requests.has_taken_effect(access, request)


async def _present(access: Access, key: Key, may_come: bool) -> Head | None:
    try:
        return await access.head(key)
    except NotFound:
        if may_come:
            return None
        raise
