"""Patching: a live execution of a definition goes on by another one, if what has begun fits it."""

import asyncio
from time import monotonic
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core import log_format, messages
from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import BadValue, PatchRefused
from perdure.core.paths import Key
from perdure.core.values import Blob
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.kinds import config_checks
from perdure.dialects import patched_definition
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service import execution_operations
from perdure.service.reruns import read_execution
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Post

AGENT_REASON = "agent "
"""How the reason of a patch begins that an agent has asked for."""

WITHDRAWN_WITHIN_S = 5.0
LOOK_MIN_S, LOOK_MAX_S = 0.01, 0.5


async def current_definition(access: StoreAccess, key: Key) -> tuple[Blob, bytes]:
    """The definition by which an execution goes on: its blob, and its canonical bytes.

    Raises:
        NotFound: there is no such execution.
        BadValue: it is one of code.
    """
    execution = await read_execution(access, key)
    if execution.definition is None:
        raise BadValue("execution", str(key), "one of a definition; it is code, or has not begun")
    return execution.definition, await BlobCache(access.store).get(execution.definition.sha256)


async def patch_message(access: StoreAccess, key: Key, change: Any, base: str = "", reason: str = "") -> messages.PatchMessage:
    """The message by which an execution goes on by its present definition with a patch, in any form that `patches` knows.

    Without `base`, the present definition is the base; without a `reason`, what the patch says of itself is.

    Raises:
        NotFound: there is no such execution.
        BadValue: it is one of code.
        BadDefinition: the patch can't be carried out, or what it makes is not valid.
    """
    blob, raw = await current_definition(access, key)
    after = config_checks.read_checked(patched_definition.apply_patch(msgspec.json.decode(raw), change))
    return messages.PatchMessage(definition_bytes(after.canonical), base or blob.sha256, reason or patched_definition.patch_description(change))


async def apply_patch(access: StoreAccess, key: Key, message: messages.PatchMessage, wait: bool = True) -> int | None:
    """Have an execution go on by another definition; return the number of the event from which on it does.

    With a base, only if that is still the SHA-256 of the one by which it goes on. An engine has to be there to judge it; without `wait`, it is kept until
    one does, and None returned.

    Raises:
        NotFound, HasEnded: there is nothing to patch.
        PatchRefused: what has begun does not fit it, and nothing was changed.
    """
    before = (await access.head(key)).version
    _ = await execution_operations.post_message(access, key, message, "patch", wait)
    return await await_patch(access, key, before) if wait else None


async def withdraw_patches(access: StoreAccess, key: Key) -> int:
    """Take back the patches of an execution that no engine has judged yet; return how many. Those of its agents, which wait for the answer, stay.

    Raises:
        NotFound: there is no such execution.
        PatchRefused: an engine has taken them up meanwhile.
    """
    head = await access.head(key)
    waiting = [mail.key for mail in await access.store.messages(key) if _is_human_patch(mail)]
    if not waiting or head.status in ENDED_STATUSES:
        return 0
    _ = await access.store.commit([Post(acks=tuple(Ack(key, one) for one in waiting))])
    wait_s, end_s = LOOK_MIN_S, monotonic() + WITHDRAWN_WITHIN_S
    while True:
        found = await access.store.read(key)
        if found is None:
            return len(waiting)
        events = log_format.decode_rows(found.payloads)
        if any(isinstance(event, e.PatchedEvent) for event in events[head.version :]):
            raise PatchRefused(key, ("an engine has judged the patch already, so it can't be withdrawn; perdure show tells by what it goes on",))
        if found.head.holder is None:  # who held it, with the patch in hand, would have judged it
            return len(waiting)
        if monotonic() >= end_s:
            raise PatchRefused(key, ("an engine is at work on it and may have taken the patch up; perdure show tells by what it goes on",))
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, LOOK_MAX_S)


def _is_human_patch(mail: QueuedMessage) -> bool:
    if not mail.key.startswith("patch:"):
        return False
    message = messages.decode_execution_message(mail.body)
    return isinstance(message, messages.PatchMessage) and not message.reason.startswith(AGENT_REASON)


async def await_patch(access: StoreAccess, key: Key, before: int) -> int:
    """What came of a patch that was asked for behind event `before`: the number of the event from which on the execution goes on by it.

    Raises:
        PatchRefused: it does not.
    """
    found = await access.store.read(key)
    answer = None
    for number, event in enumerate([] if found is None else log_format.decode_rows(found.payloads), 1):
        if isinstance(event, e.PatchedEvent) and number > before:
            answer = (number, event.refused)
    if answer is None:
        raise PatchRefused(key, ("it had ended before",))
    if answer[1]:
        raise PatchRefused(key, answer[1])
    return answer[0]
