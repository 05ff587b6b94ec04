"""Operations on proposals: changes of definitions that somebody proposes, somebody else reviews, and that are then applied."""

from typing import Any, Literal
from uuid import uuid4

import msgspec

from perdure.core.paths import Key
from perdure.service import catalog, execution_operations
from perdure.service.callers import Caller
from perdure.service.page_cursors import page_limit
from perdure.service.proposal_agent import proposal_order, proposal_progress
from perdure.service.proposal_agent.proposal_order import TURNS, ProposalOrder
from perdure.service.proposal_agent.proposal_progress import ProposalAgentState
from perdure.service.proposals import proposal_changes, proposal_details, proposal_trials
from perdure.service.proposals.proposal_changes import Proposer
from perdure.service.proposals.proposal_details import ProposalDetails, ProposalPage
from perdure.service.proposals.proposal_records import ProposalStatus
from perdure.service.proposals.proposal_trials import TrialReport, TrialWish
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import JsonDocument

ReviewDecision = Literal["approve", "reject"]


async def page(
    access: StoreAccess,
    tenant: str,
    definition: str = "",
    status: ProposalStatus | None = None,
    *,
    open: bool | None = None,
    limit: int = 100,
    after: str = "",
) -> ProposalPage:
    """Lists proposals, newest first, behind the one with the id `after`: for one definition, of a status, and those that are `open`, or are not.

    An open proposal is pending or approved, and may have expired.

    Raises:
        NotFound: there is no such definition, and no proposal of one.
        BadValue: the limit or `after` is invalid.
    """
    return await proposal_details.list_proposals(access, tenant, definition, status, open=open, limit=page_limit(limit), after=after)


async def read(access: StoreAccess, tenant: str, proposal: str, definition: str = "") -> ProposalDetails:
    """A proposal with its document and its diff. With a `definition`, only one for that is found.

    Raises:
        NotFound: there is none.
    """
    return await proposal_details.read_proposal(access, tenant, proposal, await _slug(access, tenant, definition))


async def create(
    access: StoreAccess, caller: Caller, definition: str, proposal_json: JsonDocument, base_workflow_hash: str | None = None, *, note: str = ""
) -> ProposalDetails:
    """Proposes a document as the next version of a definition, which has to allow that: ``allow: {self_edit: true}``. It stays open for 14 days.

    `base_workflow_hash` is the hash of the current version. Without it, the document is proposed as the first version of a new definition of this slug, which
    needs the role author.

    Raises:
        NotFound: there is no such definition.
        StaleProposal: the current version is another one, and nothing was stored.
        ProposalRefused: the definition allows no proposals, or has too many that are open.
        BadDefinition: the document is not valid; the error has all findings.
        BadName, BadValue: it says the same as the current version, or the slug or the note is not valid.
        AlreadyExists: it declares a webhook whose path is that of another trigger.
        DefinitionOwned: a watched file has the definition.
        Forbidden: the caller proposes a new definition, and is no author.
    """
    if not base_workflow_hash:
        caller.expect("author", "proposals.create without a base")
    kept = await proposal_changes.propose(access, caller.tenant, definition, proposal_json, base_workflow_hash or "", Proposer(caller.subject), note=note)
    return await proposal_details.proposal_details(access, caller.tenant, kept)


async def review(
    access: StoreAccess,
    caller: Caller,
    proposal: str,
    decision: ReviewDecision,
    review_notes: str = "",
    definition: str = "",
    *,
    revision: int | None = None,
) -> ProposalDetails:
    """Approves or rejects a pending proposal. Whoever has proposed it may not, and one that widens rights needs an admin. It is applied by another call.

    Raises:
        NotFound: there is no such proposal.
        ProposalRefused: it was reviewed before, or has expired.
        Forbidden: the caller has proposed it, or it widens rights and the caller is no admin.
        StaleRecord: it is not at the revision.
        BadValue: the notes are too long.
    """
    slug = await _slug(access, caller.tenant, definition)
    kept = await proposal_changes.review(access, caller, proposal, slug, approve=decision == "approve", notes=review_notes, revision=revision)
    return await proposal_details.proposal_details(access, caller.tenant, kept)


async def apply(access: StoreAccess, tenant: str, proposal: str, author: str, definition: str = "", *, revision: int | None = None) -> ProposalDetails:
    """Publishes the document of an approved proposal as the current version, under the next patch number.

    It is checked again: if the definition has another version by now, does not allow proposals any more, or a trigger that it declares can't be set up, the
    proposal fails.

    Raises:
        NotFound: there is no such proposal.
        StaleProposal: the definition has another version by now, and the proposal has failed.
        ProposalRefused: it is not approved, or has expired; or the definition does not allow it any more, and the proposal has failed.
        BadDefinition: the document is not valid here any more, and the proposal has failed.
        AlreadyExists: it declares a webhook whose path is that of another trigger by now, and the proposal has failed.
        DefinitionOwned: a watched file has the definition.
        StaleRecord: the proposal is not at the revision.
    """
    kept = await proposal_changes.apply(access, tenant, proposal, await _slug(access, tenant, definition), author, revision=revision)
    return await proposal_details.proposal_details(access, tenant, kept)


async def try_(
    access: StoreAccess,
    tenant: str,
    proposal: str,
    definition: str = "",
    *,
    last: int = 10,
    mocks: dict[str, Any] | None = None,
    executions: list[str] | None = None,
    until: str = "",
) -> TrialReport:
    """Runs a trial of the document of a proposal on what the `last` executions of the workflow that have ended have recorded, in virtual time.

    No step is performed, and nothing is sent or stored. A step with the same id and the same input has the result that was recorded; approvals and messages are
    those of then. At a step without a recorded result the outcome is unknown, unless `mocks` has a value for it, by its id. With `executions`, it runs on those
    of these ids. With `until`, each trial says what it has found when this step had a result.

    Raises:
        NotFound: there is no such proposal, or no execution of one of the ids that has ended.
        BadDefinition: its document is not valid here any more.
        BadValue: `last` is not from 1 to 100, there are too many ids, or a mock or the step to stop at is not in the document.
    """
    found = await proposal_details.read_proposal(access, tenant, proposal, await _slug(access, tenant, definition))
    return await proposal_trials.try_document(access, tenant, found.slug, found.received.encode(), TrialWish(last, mocks, executions or (), until))


async def try_document(
    access: StoreAccess,
    tenant: str,
    definition: str,
    document: JsonDocument,
    *,
    last: int = 10,
    mocks: dict[str, Any] | None = None,
    executions: list[str] | None = None,
    until: str = "",
) -> TrialReport:
    """Runs a trial of a document, which nobody has to have proposed, on what executions of a definition have recorded, as a proposal is tried.

    Raises:
        NotFound: there is no such definition, or no execution of one of the ids that has ended.
        BadDefinition: the document is not valid; the error has all findings.
        BadValue: `last` is not from 1 to 100, there are too many ids, or a mock or the step to stop at is not in the document.
    """
    slug = (await catalog.read_definition(access, tenant, definition)).slug
    return await proposal_trials.try_document(access, tenant, slug, document, TrialWish(last, mocks, executions or (), until))


class StartedProposalAgent(msgspec.Struct, frozen=True):
    """The proposal agent that was started, or found."""

    key: Key
    created: bool


async def start_agent(
    access: StoreAccess,
    caller: Caller,
    words: str,
    definition: str = "",
    *,
    new: bool = False,
    model: str = "",
    max_turns: int = TURNS,
    max_cost_usd: float | None = None,
    instructions: str = "",
    agent_id: str | None = None,
) -> StartedProposalAgent:
    """Starts an agent that changes a definition, or writes a `new` one, as the words say, and files it as a proposal of the caller.

    A model writes the document until it is valid, and runs trials of it. It applies nothing. Without a definition, a new one is written, which needs the role
    author. An engine that has models runs it: an execution of ``perdure.propose``, which can be cancelled, or retried with another budget. `model` is one of
    the names of the engine (default: the one called ``default``, or the only one), `max_turns` limits the model calls, and `instructions` replace the prompt.
    An agent with the id `agent_id` that exists is found.

    Raises:
        NotFound: there is no such definition.
        AlreadyExists: a new one is asked for, and there is one of this slug.
        ProposalRefused: the definition allows no proposals, or no running engine has models.
        DefinitionOwned: a watched file has the definition.
        BadValue, BadName: there are no words, or too many; the slug, a limit or the id is not valid.
        Forbidden: a new definition is asked for, and the caller is no author.
    """
    is_new = new or not definition
    if is_new:
        caller.expect("author", "proposals.start_agent of a new definition")
    limits: dict[str, Any] = {"max_turns": max_turns, "max_cost_usd": max_cost_usd}
    order = ProposalOrder(words=words, slug=definition, is_new=is_new, model=model, instructions=instructions, **limits)
    order = await proposal_order.checked_order(access, caller.tenant, order)
    request = proposal_order.proposal_agent_start(caller.tenant, agent_id or uuid4().hex, order, caller.subject)
    return StartedProposalAgent(*await execution_operations.start_execution(access, request))


async def read_agent(access: StoreAccess, tenant: str, agent: str) -> ProposalAgentState:
    """A proposal agent by its id: what it does and has done, how it has ended, and the document that is nearest to be proposed, with its findings.

    Raises:
        NotFound: there is none.
    """
    return await proposal_progress.read_proposal_agent(access, tenant, agent)


async def _slug(access: StoreAccess, tenant: str, definition: str) -> str:
    return await proposal_details.proposal_slug(access, tenant, definition) if definition else ""
