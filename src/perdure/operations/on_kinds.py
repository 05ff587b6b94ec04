"""The operation on kinds of steps."""

import asyncio

from perdure.service import kind_list
from perdure.service.kind_list import KindList
from perdure.service.store_access import StoreAccess


async def kinds(access: StoreAccess) -> KindList:
    """The kinds of steps that definitions may use, each with the JSON Schemas of its config, input and output, its ports, a form and an example."""
    return await asyncio.to_thread(kind_list.list_kinds)
