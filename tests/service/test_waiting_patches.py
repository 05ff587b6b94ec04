"""Patches that wait for an engine: kept, carried out by the next one, or withdrawn, and never both."""

import asyncio
from typing import Any

import pytest

from perdure import AsyncClient, Definition
from perdure.async_handle import AsyncHandle
from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import NotFound, PatchRefused
from perdure.core.paths import Address, Key
from perdure.service import definition_patches
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually

NAPS = """
perdure: 1
name: naps
order: listed
steps:
  - {id: nap, sleep: 1h}
  - {id: note, set: {n: 1}}
output: "@vars.n"
vars: {n: 0}
"""
CHANGE = [{"op": "set", "id": "note", "path": "/set/n", "value": 2}]


async def begun(c: Cluster, client: AsyncClient) -> tuple[Definition, AsyncHandle[Any]]:
    """The definition, with an execution of it that an engine has begun and that sleeps now, held by nobody."""
    naps = Definition.of(NAPS)
    engine = await c.engine(naps)
    _ = await client.start(naps.with_(id="1"))
    await asyncio.sleep(10)
    await engine.kill()
    await asyncio.sleep(60)
    return naps, await client.get("1", "naps")


@pytest.mark.slow
@virtually
async def test_a_patch_is_kept_for_the_next_engine_unless_it_is_withdrawn(c: Cluster, client: AsyncClient) -> None:
    naps, handle = await begun(c, client)
    assert await handle.patch(CHANGE, wait=False) is None
    assert (await handle.withdraw_patches(), await handle.withdraw_patches()) == (1, 0)
    assert await handle.patch([{"op": "set", "id": "note", "path": "/set/n", "value": 3}], wait=False) is None
    _ = await c.engine(naps)
    assert await handle.result() == 3
    assert await handle.withdraw_patches() == 0
    with pytest.raises(NotFound):
        await definition_patches.withdraw_patches(client._access.on_store("a test"), Key("default", "naps", "none"))


@pytest.mark.slow
@virtually
async def test_a_patch_that_an_engine_has_taken_up_is_not_withdrawn(c: Cluster, client: AsyncClient) -> None:
    naps, handle = await begun(c, client)
    _ = await handle.patch(CHANGE, wait=False)
    mail = c.store.messages

    async def taken_up(to: Address) -> list[QueuedMessage]:
        """The mail as it was before an engine takes it up."""
        found = await mail(to)
        _ = await c.engine(naps)
        await asyncio.sleep(60)
        return found

    c.store.messages = taken_up  # type: ignore[method-assign]  # what happens between looking and withdrawing
    with pytest.raises(PatchRefused, match="decided on the patch already"):
        await handle.withdraw_patches()
    c.store.messages = mail  # type: ignore[method-assign]  # as before
    assert await handle.result() == 2
