"""Engines and documents of tests of proposal agents."""

import asyncio
from typing import Any

from perdure import step
from perdure.definitions.kinds.models.model_messages import ChatRequest
from perdure.operations import on_proposals
from perdure.service import catalog
from perdure.service.callers import Caller, Role
from perdure.service.catalog import CatalogDefinition
from perdure.service.catalog_changes import Edit
from perdure.service.proposal_agent.proposal_progress import ProposalAgentState
from perdure.service.store_access import StoreAccess
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed
from tests.runtime.cluster import Cluster, ClusterProcess
from tests.service.hosts import host
from tests.service.proposals.proposed_documents import T

OPERATOR: frozenset[Role] = frozenset(("operator",))
AUTHOR: frozenset[Role] = frozenset(("author",))
ADA, BEN, OPA = Caller(T, "oidc:ada", AUTHOR), Caller(T, "oidc:ben", AUTHOR), Caller(T, "oidc:opa", OPERATOR)

PRESENT = """\
perdure: 1
name: invoice
allow: {self_edit: true}
order: listed
input: {cents: {type: integer}}
steps:
  # how much it is
  - {id: total, set: {eur: {expr: "input.cents / 100"}}}
output: "@total.eur"
"""

NEW = """\
perdure: 1
name: greeting
order: listed
input: {name: {type: string}}
steps:
  - {id: text, set: {hello: "Hello @{input.name}"}}
output: "@text.hello"
"""

WITH_TOOL = """\
perdure: 1
name: greeting
order: listed
steps:
  - {id: send, tool: TOOL, with: {to: ada}}
"""


@step(idempotent=True)
async def send_mail(to: str) -> str:
    """Sends a mail."""
    return to


async def engine(c: Cluster, script: Any) -> ClusterProcess:
    """An engine with a model and the tool `send_mail`."""
    return await c.engine(*host(send_mail, deployment=deployed(default=script)))


async def publish(c: Cluster, document: str = PRESENT) -> CatalogDefinition:
    """The definition that is changed."""
    return await catalog.create_definition(StoreAccess(c.store), T, document.encode(), Edit("ada"))


async def start(c: Cluster, words: str, definition: str = "", by: Caller = ADA, **options: Any) -> str:
    """Starts an agent, and returns its id."""
    found = await on_proposals.start_agent(StoreAccess(c.store), by, words, definition, **options)
    return found.key.id


async def ended(c: Cluster, id: str) -> ProposalAgentState:
    """The agent of an id when it has ended."""
    access = StoreAccess(c.store)
    async with asyncio.timeout(10_000):
        while not (found := await on_proposals.read_agent(access, T, id)).ended:
            await asyncio.sleep(1)  # in virtual time
    return found


async def worked(c: Cluster, script: ModelScript, words: str, definition: str = "", **options: Any) -> ProposalAgentState:
    """An agent that has ended, with a model that answers by the script."""
    _ = await engine(c, script)
    return await ended(c, await start(c, words, definition, **options))


def told(request: ChatRequest) -> str:
    """All that the model was told, apart from the instructions."""
    return "\n".join(message.text for message in request.messages)
