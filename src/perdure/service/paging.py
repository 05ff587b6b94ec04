"""Paging: all the heads that a filter means, however many there are, without keeping others from the store for long."""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from perdure.stores.base import Filter, Head
from perdure.stores.looking import Looking

PAGE = 500


async def pages(looking: Looking, which: Filter) -> AsyncIterator[list[Head]]:
    """What `which` means, newest first, in lists of up to `PAGE`; its own limit is none of these."""
    page = msgspec.structs.replace(which, limit=PAGE)
    while heads := await looking.heads(page):
        yield heads
        if len(heads) < PAGE:
            return
        page = msgspec.structs.replace(page, older_than=heads[-1].key)
        await asyncio.sleep(0)
