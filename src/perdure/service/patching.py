"""Patching: a live execution of a definition goes on by another one, if what has begun fits it."""

from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core import log, messages
from perdure.core.errors import BadValue, PatchRefused
from perdure.core.paths import Key
from perdure.core.values import Blob
from perdure.programs.format import patches
from perdure.programs.format.canonical import bytes_of
from perdure.runtime.payloads import Payloads
from perdure.service import operations
from perdure.service.access import Access
from perdure.service.repeating import read
from perdure.steps import checking


async def definition(access: Access, key: Key) -> tuple[Blob, bytes]:
    """The definition by which an execution goes on: its blob, and its canonical bytes.

    Raises:
        NotFound: there is no such execution.
        BadValue: it is one of code.
    """
    execution = await read(access, key)
    if execution.definition is None:
        raise BadValue("execution", str(key), "one of a definition; it is code, or has not begun")
    return execution.definition, await Payloads(access.store).get(execution.definition.sha256)


async def changed(access: Access, key: Key, change: Any, base: str = "", reason: str = "") -> messages.Patch:
    """The message by which an execution goes on by its present definition with a patch, in any form that `patches` knows.

    Without `base`, the present definition is the base; without a `reason`, what the patch says of itself is.

    Raises:
        NotFound: there is no such execution.
        BadValue: it is one of code.
        BadDefinition: the patch can't be carried out, or what it makes is not valid.
    """
    blob, raw = await definition(access, key)
    after = checking.read(patches.changed(msgspec.json.decode(raw), change))
    return messages.Patch(bytes_of(after.canonical), base or blob.sha256, reason or patches.description(change))


async def patch(access: Access, key: Key, message: messages.Patch) -> int:
    """Have an execution go on by another definition; return the number of the event from which on it does.

    With a base, only if that is still the SHA-256 of the one by which it goes on. An engine has to be there to judge it.

    Raises:
        NotFound, HasEnded: there is nothing to patch.
        PatchRefused: what has begun does not fit it, and nothing was changed.
    """
    before = (await access.head(key)).version
    _ = await operations.tell(access, key, message, "patch", wait=True)
    return await answered(access, key, before)


async def answered(access: Access, key: Key, before: int) -> int:
    """What came of a patch that was asked for behind event `before`: the number of the event from which on the execution goes on by it.

    Raises:
        PatchRefused: it does not.
    """
    found = await access.store.read(key)
    answer = None
    for number, event in enumerate([] if found is None else log.decode_all(found.rows), 1):
        if isinstance(event, e.Patched) and number > before:
            answer = (number, event.refused)
    if answer is None:
        raise PatchRefused(key, ("it had ended before",))
    if answer[1]:
        raise PatchRefused(key, answer[1])
    return answer[0]
