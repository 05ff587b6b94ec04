"""Claims about proposals that executions make: by the tool of an agent, or by a step, each once, for the definition that they run."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perdure import App, step
from perdure.core import values
from perdure.core.errors import Forbidden
from perdure.core.paths import Key
from perdure.service import access_keys, catalog
from perdure.service.access_keys import KeyRequest
from perdure.service.audit import AuditFilter, list_entries
from perdure.service.callers import Caller
from perdure.service.catalog_changes import Edit
from perdure.service.definition_starts import catalog_start
from perdure.service.execution_operations import StartRequest, initiated_by, start_execution
from perdure.service.proposals.proposal_details import ProposalSummary, list_proposals
from perdure.service.proposals.proposal_workflow import PROPOSAL_CODE
from perdure.service.store_access import StoreAccess
from perdure.sync_client import AsyncClient
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually
from tests.service.hosts import host
from tests.service.proposals.proposed_documents import BEN, EVE, T, approve

PROPOSALS: Any = SimpleNamespace(code=PROPOSAL_CODE)
MAIL: list[dict[str, Any]] = [{"op": "add_step", "step": {"id": "mail", "tool": "mail"}}, {"op": "connect", "from": "done", "to": "mail"}]
AGENT = """
perdure: 1
name: it
order: ports
allow: {self_edit: true}
steps:
  - {id: think, agent: {prompt: Improve, tools: [patch_workflow]}, next: done}
  - {id: done, tool: done}
"""


@step(idempotent=True)
async def done() -> str:
    return "done"


async def engine(c: Cluster, script: ModelScript | None = None) -> None:
    """An engine that runs definitions of the catalog, and makes proposals."""
    options: dict[str, Any] = {} if script is None else {"deployment": deployed(default=script)}
    _ = await c.engine(*host(done, **options), PROPOSALS)


async def ran(c: Cluster, document: str, initiator: str = "oidc:ada") -> tuple[StoreAccess, Key]:
    """An execution of a definition that has ended."""
    access = StoreAccess(c.store)
    made = await catalog.create_definition(access, T, document.encode(), Edit("ada"))
    request = initiated_by(StartRequest(key=Key(T, "", "e1"), input=values.encode(((), {}), "the input")), initiator)
    key, _ = await start_execution(access, *await catalog_start(access, request, made.slug))
    async with asyncio.timeout(1_000):
        while (await access.head(key)).status not in ("completed", "failed"):
            await asyncio.sleep(1)  # in virtual time
    return access, key


async def proposals(access: StoreAccess) -> list[ProposalSummary]:
    return (await list_proposals(access, T)).items


@virtually
async def test_an_agent_proposes_a_change_of_the_definition_for_future_executions(c: Cluster, client: AsyncClient) -> None:
    script = ModelScript([("patch_workflow", {"operations": MAIL, "scope": "definition", "description": "Tell them"})], "Improved")
    await engine(c, script)
    access, key = await ran(c, AGENT)
    (found,) = await proposals(access)
    assert (found.slug, found.status, found.note, found.execution) == ("it", "pending", "Tell them", key)
    assert (found.proposed_by, found.on_behalf_of) == ("execution:it/e1", ("oidc:ada",))
    assert found.base_workflow_hash == (await catalog.read_definition(access, T, "it")).hash
    said, is_error = script.results[0]
    assert found.id in said and not is_error
    (entry,) = (await list_entries(access.store, T, AuditFilter(operation="proposals.create"))).items
    assert entry.entry.subject == "execution:it/e1"
    assert await client.list(tenant=T, workflow="perdure.proposal") != []
    assert {one.key.workflow for one in await client.list(tenant=T)}.isdisjoint({"perdure.proposal"})


@virtually
async def test_whoever_has_started_the_execution_does_not_review_what_it_proposes(c: Cluster, client: AsyncClient) -> None:
    script = ModelScript([("patch_workflow", {"operations": MAIL, "scope": "definition"})], "Improved")
    await engine(c, script)
    access = StoreAccess(c.store)
    key = (await access_keys.create_key(access.store, T, KeyRequest(name="bot", roles=("operator",)), "oidc:ada")).key.id
    _ = await ran(c, AGENT, f"key:{key}")
    (found,) = await proposals(access)
    assert found.on_behalf_of == (f"key:{key}", "oidc:ada")
    for caller in (Caller(T, "oidc:ada", EVE.roles), Caller(T, f"key:{key}", EVE.roles)):
        with pytest.raises(Forbidden, match="execution:it/e1 proposed it"):
            await approve(access, found.id, caller)
    assert (await approve(access, found.id, BEN)).value.status == "approved"


@virtually
async def test_a_definition_that_does_not_allow_it_is_not_proposed_and_the_agent_is_told(c: Cluster, client: AsyncClient) -> None:
    script = ModelScript([("patch_workflow", {"operations": MAIL, "scope": "definition"})], "no")
    await engine(c, script)
    access, _ = await ran(c, AGENT.replace("allow: {self_edit: true}\n", ""))
    assert await proposals(access) == []
    assert script.results[0][1] and "allow: {self_edit: true}" in script.results[0][0]


@virtually
async def test_an_agent_whose_definition_has_another_version_by_now_is_told_that_its_proposal_is_stale(c: Cluster, client: AsyncClient) -> None:
    script = ModelScript([("patch_workflow", {"operations": MAIL, "scope": "definition"})], "no")
    access = StoreAccess(c.store)
    made = await catalog.create_definition(access, T, AGENT.encode(), Edit("ada"))
    request = StartRequest(key=Key(T, "", "e1"), input=values.encode(((), {}), "the input"))
    key, _ = await start_execution(access, *await catalog_start(access, request, made.slug))
    _ = await catalog.update_definition(access, T, "it", Edit("ada"), AGENT.replace("Improve", "Do").encode())
    await engine(c, script)
    async with asyncio.timeout(1_000):
        while (await access.head(key)).status != "completed":
            await asyncio.sleep(1)
    assert await proposals(access) == []
    assert script.results[0][1] and "nothing was proposed" in script.results[0][0] and "its current version is" in script.results[0][0]


STEP = """
perdure: 1
name: it
allow: {self_edit: true}
steps:
  - id: suggest
    call: perdure.proposal
    with: {document: {perdure: 1, name: it, steps: [{id: done, tool: done}]}, note: simpler}
output: "@suggest.id"
"""


@virtually
async def test_a_step_proposes_by_calling_the_workflow_of_proposals(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    access, key = await ran(c, STEP)
    (found,) = await proposals(access)
    assert (found.execution, found.note, found.widens_rights) == (key, "simpler", ("allow",))
    assert values.decode(await access.result(key), Any, "the result") == found.id


async def test_the_engine_of_an_app_makes_the_proposals_of_its_executions(tmp_path: Path) -> None:
    async with App([], tools=[done], db=f"sqlite:///{tmp_path}/app.db") as app:
        _ = await app.client.catalog.create(STEP)
        handle = await app.client.start(app.client.definition("it"))
        id = await handle.result(timeout=30)
        (found,) = await app.client.proposals.list("it")
    assert (found.id, found.execution, found.slug) == (id, handle.key, "it")


@virtually
async def test_nobody_proposes_in_the_name_of_an_execution_by_starting_the_workflow_of_proposals(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    access = StoreAccess(c.store)
    _ = await catalog.create_definition(access, T, AGENT.encode(), Edit("ada"))
    forged = StartRequest(key=Key(T, "perdure.proposal", "forged"), input=values.encode(((), {"document": {}, "base": "x"}), "the input"))
    key, _ = await start_execution(access, forged)
    async with asyncio.timeout(1_000):
        while (head := await access.head(key)).status not in ("completed", "failed"):
            await asyncio.sleep(1)
    assert head.status == "failed"
    assert await proposals(access) == []


@virtually
async def test_a_proposal_that_is_made_again_under_its_id_is_the_first_one(c: Cluster, client: AsyncClient) -> None:
    from perdure.service.proposals.proposal_changes import Proposer, propose

    access = StoreAccess(c.store)
    made = await catalog.create_definition(access, T, AGENT.encode(), Edit("ada"))
    by = Proposer("execution:it/e1", id="5f3c2a10-0000-4000-8000-000000000001")
    changed = AGENT.replace("Improve", "Do").encode()
    first = await propose(access, T, "it", changed, made.hash, by)
    _ = await catalog.update_definition(access, T, "it", Edit("ada"), AGENT.replace("Improve", "Think").encode())
    assert await propose(access, T, "it", changed, made.hash, by) == first, "the attempt after a crash finds it, although the base has changed"
    assert len(await proposals(access)) == 1
