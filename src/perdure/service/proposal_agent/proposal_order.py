"""What is asked of a proposal agent, and the start of it."""

import asyncio
import math

import msgspec

from perdure.code.declarations import checked_name
from perdure.core import values
from perdure.core.errors import AlreadyExists, BadValue, NotFound, ProposalRefused
from perdure.core.operations import PROPOSAL_AGENT_WORKFLOW
from perdure.core.paths import Key
from perdure.service import queries
from perdure.service.catalog_references import find_definition
from perdure.service.execution_operations import StartRequest, initiated_by
from perdure.service.proposal_agent.proposal_prompt import checked_instructions
from perdure.service.proposals.proposal_changes import proposal_base
from perdure.service.slugs import checked_slug
from perdure.service.store_access import StoreAccess

WORDS_CHARACTERS_MAX = 20_000
TURNS = 20
"""How many model calls an agent may make unless another number is given."""

TURNS_MAX = 200
TOKENS_MAX = 2_000_000
"""How many tokens an agent may read and write in all."""

WAIT_S, LOOK_S = 2.0, 0.2
"""How long an engine with models is waited for before an agent is refused, and the time between two looks."""

NO_MODEL = (
    "nothing was started: no running engine has a model that could write a definition. Name models in a file (docs/guides/models.md), and give --models FILE "
    "to the engine or to perdure propose, or set PERDURE_MODELS"
)


class ProposalOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent is asked to propose: a change of the definition `slug`, or, if it `is_new`, a new one (of this slug, or of one that is made of its name).

    `model` is a name of the deployment (empty: the default one). `instructions` replace the prompt that comes with Perdure.
    """

    words: str
    slug: str = ""
    is_new: bool = False
    model: str = ""
    max_turns: int = TURNS
    max_cost_usd: float | None = None
    instructions: str = ""


async def checked_order(access: StoreAccess, tenant: str, order: ProposalOrder) -> ProposalOrder:
    """Returns an order that an agent can carry out, with the slug of its definition.

    Raises:
        NotFound: there is no such definition.
        AlreadyExists: a new one is asked for, and there is one of this slug.
        ProposalRefused: the definition allows no proposals, or no running engine has models.
        DefinitionOwned: a watched file has the definition.
        BadValue, BadName: there are no words, or too many; the slug or a limit is not valid.
    """
    check_limits(order)
    slug = await new_slug(access, tenant, order.slug) if order.is_new else (await proposal_base(access, tenant, order.slug)).slug
    await _expect_models(access, tenant, slug)
    return msgspec.structs.replace(order, slug=slug)


def check_limits(order: ProposalOrder) -> None:
    """Checks the words, the limits and the instructions of an order.

    Raises:
        BadValue: there are no words, or too many; or a limit is not valid.
    """
    if not order.words.strip():
        raise BadValue("words", order.words, "what the workflow should do, in words")
    if len(order.words) > WORDS_CHARACTERS_MAX:
        raise BadValue("words", f"{len(order.words):,} characters", f"at most {WORDS_CHARACTERS_MAX:,}")
    if not 1 <= order.max_turns <= TURNS_MAX:
        raise BadValue("max_turns", order.max_turns, f"a whole number from 1 to {TURNS_MAX}")
    if order.max_cost_usd is not None and not (math.isfinite(order.max_cost_usd) and order.max_cost_usd > 0):
        raise BadValue("max_cost_usd", order.max_cost_usd, "a number of US dollars, more than 0")
    _ = checked_instructions(order.instructions)


async def new_slug(access: StoreAccess, tenant: str, slug: str) -> str:
    """The slug of a new definition; empty if it is to be made of the name of that.

    Raises:
        AlreadyExists: there is a definition of this slug.
        BadName: it is no slug.
    """
    if not slug:
        return ""
    try:
        _ = await find_definition(access.store, tenant, checked_slug(slug))
    except NotFound:
        return slug
    raise AlreadyExists(slug, f"there is a definition {slug!r} already. To change it, do not ask for a new one")


async def _expect_models(access: StoreAccess, tenant: str, slug: str) -> None:
    """Checks that a running engine has models, and with them the workflow of these agents. One that has just begun, or is late, is waited for."""
    now_s = asyncio.get_running_loop().time
    until_s = now_s() + WAIT_S
    while True:
        for one in await queries.list_holders(access):
            serves = one.tenants is None or tenant in one.tenants
            if one.alive and serves and any(program.partition("@")[0] == PROPOSAL_AGENT_WORKFLOW for program in one.programs):
                return
        if now_s() >= until_s:
            raise ProposalRefused(slug, NO_MODEL)
        await asyncio.sleep(LOOK_S)


def proposal_agent_start(tenant: str, id: str, order: ProposalOrder, initiator: str) -> StartRequest:
    """The start of an agent, on behalf of the subject that has asked for it."""
    key = Key(tenant, PROPOSAL_AGENT_WORKFLOW, checked_name(id, "id"))
    return initiated_by(StartRequest(key=key, input=values.encode(((order,), {}), "the order")), initiator)
