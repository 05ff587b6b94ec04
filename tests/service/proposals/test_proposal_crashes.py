"""A process that is killed around any of its writes while an execution proposes has made one proposal, with one entry in the audit log."""

import asyncio
from typing import Any

import pytest

from perdure.core import values
from perdure.core.paths import Key
from perdure.definition_host import definition_host
from perdure.runtime.engine import Engine
from perdure.service import catalog
from perdure.service.audit import AuditFilter, list_entries
from perdure.service.catalog_changes import Edit
from perdure.service.definition_starts import catalog_start
from perdure.service.execution_operations import StartRequest, start_execution
from perdure.service.proposals.proposal_details import list_proposals
from perdure.service.proposals.proposal_workflow import PROPOSAL_CODE
from perdure.service.store_access import StoreAccess
from perdure.sync_client import AsyncClient
from perdure.testing.crash_points import CrashPoint, around_writes
from perdure.testing.virtual_time import kill
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually
from tests.service.killed_stores import KilledAtWrite
from tests.service.proposals.proposed_documents import T

PROPOSES = b"""
perdure: 1
name: it
allow: {self_edit: true}
steps:
  - id: suggest
    call: perdure.proposal
    with: {document: {perdure: 1, name: it, steps: [{id: rest, sleep: 1s}]}, note: simpler}
output: "@suggest.id"
"""
LAST_WRITE = 5
CRASHES = around_writes(range(1, LAST_WRITE + 2))


def engine_on(store: Any) -> Engine:
    return Engine(store, [*definition_host(()), PROPOSAL_CODE])


@pytest.mark.parametrize("crash", CRASHES, ids=lambda one: one.spec)
def test_a_kill_around_any_write_of_an_execution_neither_loses_nor_doubles_its_proposal(crash: CrashPoint) -> None:
    @virtually
    async def inside(c: Cluster, client: AsyncClient) -> None:
        access = StoreAccess(c.store)
        made = await catalog.create_definition(access, T, PROPOSES, Edit("ada"))
        request = StartRequest(key=Key(T, "", "e1"), input=values.encode(((), {}), "the input"))
        key, _ = await start_execution(access, *await catalog_start(access, request, made.slug))
        died = asyncio.Event()
        store = KilledAtWrite(c.store, crash, died)
        dying = engine_on(store)
        running = asyncio.create_task(dying.run())
        await asyncio.sleep(60)
        assert died.is_set() == (crash.write <= LAST_WRITE), f"there were {store.writes} writes"
        await kill([running, *dying._tasks])
        _ = running.cancelled() or running.exception()  # it has died of the fault that killed it
        after = engine_on(c.store)
        going = asyncio.create_task(after.run())
        await asyncio.sleep(120)
        (found,) = (await list_proposals(access, T)).items
        assert (found.execution, found.note, found.status) == (key, "simpler", "pending")
        assert values.decode(await access.result(key), Any, "the result") == found.id
        assert len((await list_entries(access.store, T, AuditFilter(operation="proposals.create"))).items) == 1
        after.stop()
        await going

    inside()
