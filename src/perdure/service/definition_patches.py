"""Patches the pinned definition of an execution in progress, if the new definition fits what has already begun."""

import asyncio
from time import monotonic
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core import log_format, messages
from perdure.core.envelopes import Ack, QueuedMessage
from perdure.core.errors import BadDefinition, BadValue, PatchRefused
from perdure.core.paths import Key
from perdure.core.program import is_hosted
from perdure.core.values import Blob
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.kinds import config_checks
from perdure.dialects import patched_definition
from perdure.dialects.definition_reader import read_definition
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.service import execution_operations, execution_requests
from perdure.service.catalog_calls import CallingDefinition, find_calls
from perdure.service.reruns import read_execution
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Post

AGENT_REASON = "agent "
"""The prefix of the reason of a patch that an agent has requested."""

WITHDRAWN_WITHIN_S = 5.0
LOOK_MIN_S, LOOK_MAX_S = 0.01, 0.5


async def current_definition(access: StoreAccess, key: Key) -> tuple[Blob, bytes]:
    """The present definition of an execution: its blob and its canonical bytes.

    Raises:
        NotFound: there is no such execution.
        BadValue: the execution runs code.
    """
    execution = await read_execution(access, key)
    if execution.definition is None:
        raise BadValue("execution", str(key), "one of a definition; it is code, or has not begun")
    return execution.definition, await BlobCache(access.store).get(execution.definition.sha256)


async def patch_message(access: StoreAccess, key: Key, change: Any, base: str = "", reason: str = "") -> messages.PatchMessage:
    """Builds the message that patches the present definition of an execution. `change` has any form that `apply_patch` of `patched_definition` accepts.

    `base` defaults to the present definition, `reason` to the description that the patch gives of itself.

    Raises:
        NotFound: there is no such execution.
        BadValue: the execution runs code.
        BadDefinition: the patch does not apply, or its result is not valid.
    """
    blob, raw = await current_definition(access, key)
    after = config_checks.read_checked(patched_definition.apply_patch(msgspec.json.decode(raw), change))
    return messages.PatchMessage(definition_bytes(after.canonical), base or blob.sha256, reason or patched_definition.patch_description(change))


def replacement_message(definition: bytes, base: str = "", reason: str = "") -> messages.PatchMessage:
    """Builds the message that puts another definition, which may be in any form, in place of the present one of an execution.

    Raises:
        BadDefinition: it is not valid.
    """
    after = read_definition(definition)
    return messages.PatchMessage(definition_bytes(after.canonical), base, reason)


async def wanted_patch(access: StoreAccess, key: Key, change: Any, definition: bytes | None, base: str = "", reason: str = "") -> messages.PatchMessage:
    """Builds the message that replaces the definition of an execution by `definition` or, without one, changes it as `patch_message` does.

    Raises:
        NotFound: there is no such execution.
        BadValue: the execution runs code.
        BadDefinition: the patch does not apply, or its result is not valid.
    """
    sha256 = base.removeprefix("sha256:")
    if definition is None:
        return await patch_message(access, key, change, sha256, reason)
    return replacement_message(definition, sha256, reason)


async def apply_patch(access: StoreAccess, key: Key, message: messages.PatchMessage, wait: bool = True) -> int | None:
    """Posts a patch; returns the number of the event from which the new definition applies.

    If the message has a base, the patch applies only while that is the SHA-256 of the present definition. An engine decides. Without `wait`, the message is
    stored until one does, and None is returned. What the new definition calls for the first time is pinned as it is in the catalog now.

    Raises:
        NotFound, HasEnded: there is nothing to patch.
        BadDefinition: the definition calls something that is not there.
        PatchRefused: the new definition does not fit what has begun, and nothing was changed.
    """
    before = await access.head(key)
    request = execution_requests.message_request(before, message, "patch")
    if is_hosted(before.program):
        execution = await read_execution(access, key)
        found = await find_calls(access, key.tenant, CallingDefinition(key.workflow, "", message.definition))
        known = {one.target for one in execution.calls}
        if found.unresolved:
            raise BadDefinition(found.unresolved)
        new = tuple(one for one in found.calls if one.target not in known)
        pinned = msgspec.structs.replace(message, calls=new)
        request = msgspec.structs.replace(request, message=pinned, blobs={one.definition.sha256: found.blobs[one.definition.sha256] for one in new})
    await execution_operations.post_request(access, request, wait)
    return await await_patch(access, key, before.version) if wait else None


async def withdraw_patches(access: StoreAccess, key: Key) -> int:
    """Removes the patches that no engine has decided on yet; returns how many. Patches of agents, which wait for the answer, are left.

    Raises:
        NotFound: there is no such execution.
        PatchRefused: an engine has received them in the meantime.
    """
    head = await access.head(key)
    waiting = [queued.key for queued in await access.store.messages(key) if _is_human_patch(queued)]
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
            raise PatchRefused(key, ("an engine has decided on the patch already, so it can't be withdrawn; perdure show prints the present definition",))
        if found.head.holder is None:  # a holder that had received the patch would have decided on it before letting go
            return len(waiting)
        if monotonic() >= end_s:
            raise PatchRefused(key, ("an engine holds it and may have received the patch; perdure show prints the present definition",))
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, LOOK_MAX_S)


def _is_human_patch(queued: QueuedMessage) -> bool:
    if not queued.key.startswith("patch:"):
        return False
    message = messages.decode_execution_message(queued.body)
    return isinstance(message, messages.PatchMessage) and not message.reason.startswith(AGENT_REASON)


async def await_patch(access: StoreAccess, key: Key, before: int) -> int:
    """Reads the outcome of a patch that was posted after event `before`: the number of the event from which the new definition applies.

    Raises:
        PatchRefused: the patch was refused, or the execution ended first.
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
