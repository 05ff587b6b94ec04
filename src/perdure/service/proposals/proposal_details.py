"""Proposals as clients see them: one with its document and its diff, and lists, newest first."""

import asyncio
from typing import Any

import msgspec

from perdure.core.attribute_filter import attribute_conditions
from perdure.core.errors import BadValue, NotFound
from perdure.core.paths import Key
from perdure.definitions.format.definition_diff import DefinitionChange, definition_changes
from perdure.definitions.format.document_rights import Right
from perdure.service.catalog_records import read_documents
from perdure.service.catalog_references import find_definition, find_version
from perdure.service.proposals.proposal_records import NEWEST_FIRST, OPEN_STATUSES, PROPOSALS, ProposalRecord, ProposalStatus, find_proposal, read_content
from perdure.service.record_kinds import KeptValue
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import JsonDocument, Version


class ProposalSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal. `slug` and `workflow_id` name its definition (`workflow_id` is None if it proposes a new one).

    `base_workflow_hash` is the hash of the version that it is based on (None: it proposes a new definition), `workflow_hash` that of the proposed document.
    `expired` is true of one that may not be reviewed or applied any more, because nobody has done so until `expires_at_s`. `on_behalf_of` are the subjects
    who have given `proposed_by` the right to propose, and `execution` is the one that proposes (None: none does). `model` is the name of the model that has
    written the document (empty: none has). `widens_rights` are the rights that the document changes; then an admin has to review it. `applied_version` is the
    number that it was published under. `failure` says why it could not be applied. `revision` counts the changes of the proposal.
    """

    id: str
    slug: str
    workflow_id: str | None
    status: ProposalStatus
    expired: bool
    base_workflow_hash: str | None
    workflow_hash: str
    note: str
    widens_rights: tuple[Right, ...]
    proposed_by: str
    on_behalf_of: tuple[str, ...]
    execution: Key | None
    execution_id: str | None
    model: str
    created_at_s: float
    expires_at_s: float
    reviewed_by: str | None
    reviewed_at_s: float | None
    review_notes: str
    applied_by: str | None
    applied_at_s: float | None
    applied_version: str | None
    failure: str | None
    revision: Version


class ProposalDetails(ProposalSummary, frozen=True, kw_only=True):
    """A proposal with its document: `proposal_json` is the canonical form, `received` the text as it was proposed. `diff_text` is what it changes, in lines,
    and `changes` the same as data.

    `base_received` is the text of the version that it is based on (None: it proposes a new definition). `current_workflow_hash` is the hash of the current
    version (None: there is none). An open proposal is `stale` if that is another one than its base; then it can't be applied.
    """

    diff_text: str
    changes: list[DefinitionChange]
    proposal_json: JsonDocument
    received: str
    base_received: str | None
    current_workflow_hash: str | None
    stale: bool


class ProposalPage(msgspec.Struct, frozen=True):
    """A page of proposals, newest first, and the id of the one behind which the next page begins (None: this was the last)."""

    items: list[ProposalSummary]
    next: str | None = None


def _summary_fields(kept: KeptValue[ProposalRecord], now_s: float) -> dict[str, Any]:
    record = kept.value
    review = record.review
    return {
        "id": record.id,
        "slug": record.slug,
        "workflow_id": record.definition_id or None,
        "status": record.status,
        "expired": record.has_expired(now_s),
        "base_workflow_hash": record.base or None,
        "workflow_hash": record.hash,
        "note": record.note,
        "widens_rights": record.widens_rights,
        "proposed_by": record.proposed_by,
        "on_behalf_of": record.on_behalf_of,
        "execution": record.execution,
        "execution_id": None if record.execution is None else record.execution.id,
        "model": record.model,
        "created_at_s": record.created_at_s,
        "expires_at_s": record.expires_at_s,
        "reviewed_by": None if review is None else review.by,
        "reviewed_at_s": None if review is None else review.at_s,
        "review_notes": "" if review is None else review.notes,
        "applied_by": record.applied_by or None,
        "applied_at_s": record.applied_at_s,
        "applied_version": record.version or None,
        "failure": record.failed or None,
        "revision": kept.version,
    }


async def proposal_details(access: StoreAccess, tenant: str, kept: KeptValue[ProposalRecord]) -> ProposalDetails:
    """A proposal as it is, with its document."""
    record = kept.value
    content = await read_content(access.store, tenant, record)
    received, canonical = await _base_documents(access, tenant, record)
    try:
        current = (await find_definition(access.store, tenant, record.slug)).value.hash
    except NotFound:
        current = ""
    changes = await asyncio.to_thread(definition_changes, msgspec.json.decode(canonical), msgspec.json.decode(content.canonical))
    return ProposalDetails(
        diff_text=content.diff.decode(),
        changes=changes,
        proposal_json=content.canonical,
        received=content.received.decode(),
        base_received=received,
        current_workflow_hash=current or None,
        stale=record.status in OPEN_STATUSES and current != record.base,
        **_summary_fields(kept, (await access.store.store_time()).now_s),
    )


async def _base_documents(access: StoreAccess, tenant: str, record: ProposalRecord) -> tuple[str | None, bytes]:
    """The version that a proposal is based on, as it was received, and its canonical form; None and an empty document if it proposes a new definition."""
    if not record.base:
        return None, b"{}"
    definition = (await find_definition(access.store, tenant, record.slug, deleted=True)).value
    version = await find_version(access.store, tenant, definition, record.base)
    received, canonical = await read_documents(access.store, tenant, record.slug, version)
    return received.decode(), canonical


async def read_proposal(access: StoreAccess, tenant: str, id: str, slug: str = "") -> ProposalDetails:
    """A proposal; with a `slug`, only one of that definition.

    Raises:
        NotFound: there is none.
    """
    return await proposal_details(access, tenant, await find_proposal(access.store, tenant, id, slug))


async def list_proposals(
    access: StoreAccess, tenant: str, which: str = "", status: ProposalStatus | None = None, *, open: bool | None = None, limit: int = 100, after: str = ""
) -> ProposalPage:
    """Lists proposals, newest first, behind the one with the id `after`: of one definition, of a status, and those that are `open`, or are not.

    Raises:
        NotFound: there never was such a definition.
        BadValue: `after` is not the `next` of a page.
    """
    where: dict[str, Any] = {} if not which else {"slug": await proposal_slug(access, tenant, which)}
    where |= ({} if status is None else {"status": status}) | ({} if open is None else {"open": open})
    behind = None
    if after:
        try:
            behind = (await find_proposal(access.store, tenant, after)).position
        except NotFound:
            raise BadValue("after", after, "the `next` of the page before, or empty for the first page") from None
    found = await PROPOSALS.page(access.store, tenant, where=attribute_conditions(where), order=NEWEST_FIRST, after=behind, limit=limit)
    now_s = (await access.store.store_time()).now_s
    return ProposalPage([ProposalSummary(**_summary_fields(one, now_s)) for one in found], found[-1].value.id if len(found) == limit else None)


async def proposal_slug(access: StoreAccess, tenant: str, which: str) -> str:
    """The slug under which the proposals for a definition are, named by its slug or id: also of one that was deleted, or is only proposed.

    Raises:
        NotFound: there is no such definition, and no proposal of one.
    """
    try:
        return (await find_definition(access.store, tenant, which, deleted=True)).key
    except NotFound:
        if await PROPOSALS.page(access.store, tenant, where=attribute_conditions({"slug": which[:200]}), limit=1):
            return which
        raise
