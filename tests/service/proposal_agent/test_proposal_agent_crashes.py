"""A process that is killed around any of its writes neither loses a proposal agent nor has it propose twice, and repeats no model call that has an answer."""

import asyncio
from collections import Counter

import pytest

from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest
from perdure.operations import on_proposals
from perdure.runtime.engine import Engine
from perdure.service.proposals.proposal_details import list_proposals
from perdure.service.store_access import StoreAccess
from perdure.sync_client import AsyncClient
from perdure.testing.crash_points import CrashPoint, around_writes
from perdure.testing.virtual_time import kill
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually
from tests.service.hosts import host
from tests.service.killed_stores import KilledAtWrite
from tests.service.proposal_agent.proposing_agents import ADA, NEW, ended, engine, send_mail
from tests.service.proposals.proposed_documents import T

LAST_WRITE = 12
CRASHES = around_writes(range(1, LAST_WRITE + 1))
BAD = NEW.replace("set:", "sett:")
ANSWERS = (
    [("write_definition", {"document": BAD})],
    [("write_definition", {"replace": [{"find": "sett:", "with": "set:"}]})],
    [("try_definition", {"input": {"name": "Ada"}}), ("look_up", {"query": "set"})],
    [("propose_definition", {"note": "as you said"})],
)


@pytest.mark.parametrize("crash", [pytest.param(one, marks=[] if one.write in (5, 8) else pytest.mark.prove, id=one.spec) for one in CRASHES])
def test_a_kill_around_any_write_neither_loses_nor_doubles_a_proposal(crash: CrashPoint) -> None:
    script, asked = ModelScript(*ANSWERS), Counter[int]()

    async def model(request: ChatRequest) -> ChatAnswer:
        asked[sum(message.role == "assistant" for message in request.messages)] += 1
        return await script(request)

    @virtually
    async def inside(c: Cluster, client: AsyncClient) -> None:
        setup = await engine(c, model)
        died = asyncio.Event()
        store = KilledAtWrite(c.store, crash, died)
        dying = Engine(store, [one.code for one in host(send_mail, deployment=deployed(default=model))])
        running = asyncio.create_task(dying.run())
        await dying.ready()
        await setup.stop()
        _ = await on_proposals.start_agent(StoreAccess(c.store), ADA, "Greet somebody", agent_id="one")
        await asyncio.sleep(60)
        assert died.is_set() or store.writes < crash.write, "the writes of one agent"
        await kill([running, *dying._tasks])
        _ = running.cancelled() or running.exception()  # it has died of the fault that killed it
        _ = await engine(c, model)
        found = await ended(c, "one")
        assert found.proposal, found.why
        proposals = (await list_proposals(StoreAccess(c.store), T)).items
        assert [(one.id, one.slug, one.proposed_by) for one in proposals] == [(found.proposal, "greeting", "oidc:ada")]
        assert [one.tool for one in found.steps] == ["write_definition", "write_definition", "try_definition", "look_up", "propose_definition"]
        assert asked.keys() == {0, 1, 2, 3} and sum(asked.values()) <= 5, "only the call that was in flight was made again"

    inside()
