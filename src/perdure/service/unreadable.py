"""Finds what engines and workers have set aside because it can't be read: logs of executions, and messages."""

from collections.abc import AsyncIterator

import msgspec

from perdure.core import log, messages
from perdure.core.errors import SealedPayload, StoreError
from perdure.core.paths import Key
from perdure.runtime.quarantine import UNREADABLE
from perdure.service.paging import pages
from perdure.stores.base import Filter, Head
from perdure.stores.looking import Looking

LOOKED_AT_MAX = 10_000
"""How many executions are read at most, the newest of those that may be concerned."""


class Unreadable(msgspec.Struct, frozen=True):
    """Something of an execution that can't be read here: its log, or with `message` the mail of this key; and why."""

    key: Key
    message: str
    why: str


async def unreadable(looking: Looking) -> AsyncIterator[Unreadable]:
    """What can't be read of the executions that need attention or have mail waiting, up to a bound."""
    left = LOOKED_AT_MAX
    async for page in pages(looking, Filter()):
        for head in page:
            if left and _is_concerned(head):
                left -= 1
                async for found in _of(looking, head):
                    yield found


def _is_concerned(head: Head) -> bool:
    return head.status == "needs_attention" or head.mail_at_s is not None


async def _of(looking: Looking, head: Head) -> AsyncIterator[Unreadable]:
    try:
        found = await looking.read(head.key)
        log.decode_all(() if found is None else found.rows)
    except UNREADABLE as error:
        yield Unreadable(head.key, "", str(error))
    try:
        mail = await looking.mail(head.key)
    except SealedPayload as error:
        yield Unreadable(head.key, "some", str(error))
        return
    for one in mail:
        try:
            messages.decode_message(one.body)
        except StoreError as error:
            yield Unreadable(head.key, one.key, str(error))
