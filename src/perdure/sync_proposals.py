"""The proposals of a client of sync programs.

Made from `perdure.async_proposals` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.async_catalog import Document
from perdure.async_proposals import AsyncProposals, Proposed
from perdure.code.call_options import DEFAULT_TENANT
from perdure.loop_thread import LoopThread
from perdure.operations.on_proposals import StartedProposalAgent
from perdure.service.proposal_agent.proposal_order import TURNS
from perdure.service.proposal_agent.proposal_progress import ProposalAgentState
from perdure.service.proposals.proposal_details import ProposalDetails
from perdure.service.proposals.proposal_records import ProposalStatus
from perdure.service.proposals.proposal_trials import TrialReport


class Proposals:
    """The proposals of a client's store. See `AsyncProposals`."""

    def __init__(self, thread: LoopThread, inner: AsyncProposals) -> None:
        self._thread = thread
        self._inner = inner

    def list(
        self,
        definition: str = "",
        *,
        status: ProposalStatus | None = None,
        open: bool | None = None,
        limit: int = 100,
        tenant: str = DEFAULT_TENANT,
    ) -> Proposed:
        """Lists up to `limit` proposals, newest first: for one definition, of a status, and those that are `open` (pending or approved), or are not.

        Raises:
            NotFound: there is no such definition, and no proposal of one.
        """
        return self._thread.call(self._inner.list(definition, status=status, open=open, limit=limit, tenant=tenant))

    def get(self, proposal: str, *, tenant: str = DEFAULT_TENANT) -> ProposalDetails:
        """A proposal with its document and its diff.

        Raises:
            NotFound: there is none.
        """
        return self._thread.call(self._inner.get(proposal, tenant=tenant))

    def create(self, definition: str, document: Document, *, base: str | None = None, note: str = "", tenant: str = DEFAULT_TENANT) -> ProposalDetails:
        """Proposes a document as the next version of a definition, which has to allow that: ``allow: {self_edit: true}``.

        `base` is the hash of the version that the document was made from: if it is not the current one, the proposal is refused. Without it, that is the
        current version. `create_new` proposes a new definition.

        Raises:
            NotFound: there is no such definition.
            StaleProposal: the current version is not `base`, and nothing was stored.
            ProposalRefused: the definition allows no proposals, or has too many that are open.
            BadDefinition: the document is not valid; the error has all findings.
            BadValue: it says the same as the current version, or the note is too long.
            DefinitionOwned: a watched file has the definition.
        """
        return self._thread.call(self._inner.create(definition, document, base=base, note=note, tenant=tenant))

    def create_new(self, slug: str, document: Document, *, note: str = "", tenant: str = DEFAULT_TENANT) -> ProposalDetails:
        """Proposes a document as the first version of a new definition. On a server, this needs the role author.

        Raises:
            StaleProposal: there is such a definition.
            BadDefinition: the document is not valid; the error has all findings.
            BadName, BadValue: the slug or the note is not valid.
            Forbidden: the client is no author.
        """
        return self._thread.call(self._inner.create_new(slug, document, note=note, tenant=tenant))

    def approve(self, proposal: str, notes: str = "", *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> ProposalDetails:
        """Approves a pending proposal, which can be applied then.

        Raises:
            NotFound: there is no such proposal.
            ProposalRefused: it was reviewed before, or has expired.
            Forbidden: the client has proposed it, or it widens rights and the client is no admin.
            StaleRecord: it is not at the revision.
        """
        return self._thread.call(self._inner.approve(proposal, notes, revision=revision, tenant=tenant))

    def reject(self, proposal: str, notes: str = "", *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> ProposalDetails:
        """Rejects a pending proposal.

        Raises:
            NotFound: there is no such proposal.
            ProposalRefused: it was reviewed before, or has expired.
            Forbidden: the client has proposed it, or it widens rights and the client is no admin.
            StaleRecord: it is not at the revision.
        """
        return self._thread.call(self._inner.reject(proposal, notes, revision=revision, tenant=tenant))

    def apply(self, proposal: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> ProposalDetails:
        """Publishes the document of an approved proposal as the current version, under the next patch number.

        Raises:
            NotFound: there is no such proposal.
            StaleProposal: the definition has another version by now, and the proposal has failed.
            ProposalRefused: it is not approved, or has expired; or the definition does not allow it any more, and the proposal has failed.
            BadDefinition: the document is not valid here any more, and the proposal has failed.
            DefinitionOwned: a watched file has the definition.
            StaleRecord: the proposal is not at the revision.
        """
        return self._thread.call(self._inner.apply(proposal, revision=revision, tenant=tenant))

    def try_proposal(
        self,
        proposal: str,
        *,
        last: int = 10,
        mocks: Mapping[str, Any] | None = None,
        executions: Sequence[str] | None = None,
        until: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> TrialReport:
        """Runs a trial of the document of a proposal on what the `last` executions that have ended have recorded. No step is performed, and nothing is stored.

        A step with the same id and the same input has the result that was recorded. At a step without one the outcome is unknown, unless `mocks` has a value
        for it, by its id. With `executions`, it runs on those of these ids. With `until`, each trial says what it has found when this step had a result.

        Raises:
            NotFound: there is no such proposal, or no execution of one of the ids that has ended.
            BadDefinition: its document is not valid here any more.
            BadValue: `last` is not from 1 to 100, there are too many ids, or a mock or the step to stop at is not in the document.
        """
        return self._thread.call(self._inner.try_proposal(proposal, last=last, mocks=mocks, executions=executions, until=until, tenant=tenant))

    def try_document(
        self,
        definition: str,
        document: Document,
        *,
        last: int = 10,
        mocks: Mapping[str, Any] | None = None,
        executions: Sequence[str] | None = None,
        until: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> TrialReport:
        """Runs a trial of a document, which nobody has to have proposed, on what executions of a definition have recorded. See `try_proposal`.

        Raises:
            NotFound: there is no such definition, or no execution of one of the ids that has ended.
            BadDefinition: the document is not valid; the error has all findings.
            BadValue: `last` is not from 1 to 100, there are too many ids, or a mock or the step to stop at is not in the document.
        """
        return self._thread.call(self._inner.try_document(definition, document, last=last, mocks=mocks, executions=executions, until=until, tenant=tenant))

    def start_agent(
        self,
        words: str,
        definition: str = "",
        *,
        new: bool = False,
        model: str = "",
        max_turns: int = TURNS,
        max_cost_usd: float | None = None,
        instructions: str = "",
        id: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> StartedProposalAgent:
        """Starts an agent that changes a definition, or writes a new one, as the words say, until it is valid and tried, and files it as a proposal.

        It applies nothing. An engine that has models runs it, as an execution of ``perdure.propose``. Without a `definition`, or with `new`, a new one is
        written. `model` is one of the names of the engine, `max_turns` limits its calls, `instructions` replace the prompt. An agent of the `id` is found if
        there is one.

        Raises:
            NotFound: there is no such definition.
            AlreadyExists: a new one is asked for, and there is one of this slug.
            ProposalRefused: the definition allows no proposals, or no running engine has models.
            DefinitionOwned: a watched file has the definition.
            BadValue, BadName: there are no words, or too many; the slug, a limit or the id is not valid.
            Forbidden: a new definition is asked for, and the client is no author.
        """
        return self._thread.call(
            self._inner.start_agent(
                words, definition, new=new, model=model, max_turns=max_turns, max_cost_usd=max_cost_usd, instructions=instructions, id=id, tenant=tenant
            )
        )

    def get_agent(self, agent: str, *, tenant: str = DEFAULT_TENANT) -> ProposalAgentState:
        """A proposal agent by its id: what it has done, how it has ended, and the document that is nearest to be proposed, with its findings.

        Raises:
            NotFound: there is none.
        """
        return self._thread.call(self._inner.get_agent(agent, tenant=tenant))
