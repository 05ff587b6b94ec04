"""The workflow by which an execution proposes a change of the definition that it runs, for future executions.

The execution that starts it is the one that proposes: an agent's tool does, or a step ``call: perdure.proposal``. Nobody else can say that they are that
execution, since a start by a client has no origin. The id of the proposal follows from that of this execution, so it is made once.
"""

from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, step
from perdure.code.step_environment import current_resources, step_info
from perdure.core.attributes import indexed_attribute_values
from perdure.core.errors import Fatal, PerdureError, StoreError
from perdure.core.operations import PROPOSAL_WORKFLOW
from perdure.core.paths import Key
from perdure.service.audit import AuditedBy, audited_access, execution_text
from perdure.service.callers import Caller
from perdure.service.execution_operations import INITIATOR_ATTRIBUTE
from perdure.service.proposals.proposal_changes import Proposer, propose
from perdure.service.proposals.proposal_details import proposal_details
from perdure.service.reruns import read_execution
from perdure.service.store_access import StoreAccess

EXECUTION = "execution:"
"""How the subject of a proposal begins that an execution makes, before its workflow and id."""


class FiledProposal(msgspec.Struct, frozen=True):
    """A proposal that an execution has made: its id, its definition, what it changes, in lines, and the rights that it widens."""

    id: str
    slug: str
    changes: list[str]
    widens_rights: list[str]
    expires_at_s: float


class ProposedChange(msgspec.Struct, frozen=True):
    """What an execution proposes: a document, why, and the hash of the version that it is based on (empty: the one that the execution runs by)."""

    document: Any
    note: str = ""
    base: str = ""


@step(name="propose_definition", idempotent=True)
async def _propose(wanted: ProposedChange) -> FiledProposal:
    own, access = step_info().execution, StoreAccess(current_resources.get().store)
    started = (await read_execution(access, own)).started
    if started is None or started.origin is None:
        raise Fatal(f"{own} was not started by an execution; make a proposal by client.proposals or POST /api/workflows/{{slug}}/proposals")
    proposing = await read_execution(access, started.origin)
    if proposing.definition is None:
        raise Fatal(f"{started.origin} runs code, which is not changed by proposals")
    by = Proposer(
        f"{EXECUTION}{execution_text(started.origin)}", started.origin, await initiator_of(access, started.origin), str(uuid5(NAMESPACE_OID, "\0".join(own)))
    )
    document = wanted.document.encode() if isinstance(wanted.document, str) else msgspec.json.encode(wanted.document)
    base = wanted.base or f"sha256:{proposing.definition.sha256}"
    audited = audited_access(access, AuditedBy(Caller(own.tenant, by.subject, frozenset()), "proposals.create"))
    try:
        kept = await propose(audited, own.tenant, started.origin.workflow, document, base, by, note=wanted.note)
    except StoreError:
        raise
    except PerdureError as error:
        raise Fatal(str(error)) from error
    shown = await proposal_details(access, own.tenant, kept)
    return FiledProposal(shown.id, shown.slug, shown.diff_text.splitlines(), list(shown.widens_rights), shown.expires_at_s)


async def initiator_of(access: StoreAccess, key: Key) -> str:
    """Who has started the family of an execution; empty if that is not known."""
    root = await access.head((await access.head(key)).root)
    return str(indexed_attribute_values(root.attributes).get(INITIATOR_ATTRIBUTE, ""))


async def _proposal_workflow(ctx: Context, document: Any, note: str = "", base: str = "") -> FiledProposal:
    return await ctx.step(_propose, ProposedChange(document, note, base))


PROPOSAL_CODE = CodeWorkflow(_proposal_workflow, PROPOSAL_WORKFLOW)
"""The workflow of proposals that executions make."""
