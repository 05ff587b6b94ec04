"""Makes, reviews and applies proposals. Each of these is one post.

A proposal is based on the current version of its definition, which has to allow it (``allow: {self_edit: true}``). It is checked when it is made, and again
when it is applied: then the new version, its entry in the history and the new status of the proposal are one post, so of two calls one publishes. An applied
proposal of which the definition has changed meanwhile fails, with the reason.

Whoever proposes does not review it: neither the subject itself, nor one who gave it its rights, nor a key that it has made. The developer at this machine is
the exception, since nobody else is there.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import msgspec

from perdure.core.attribute_filter import attribute_conditions
from perdure.core.errors import (
    AlreadyExists,
    BadDefinition,
    BadValue,
    DefinitionOwned,
    Forbidden,
    NotFound,
    ProposalRefused,
    StaleProposal,
    StaleRecord,
    StoreUnavailable,
)
from perdure.core.paths import Key
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.format.definition_diff import definition_changes, render_changes
from perdure.definitions.format.document_rights import widened_rights
from perdure.service import catalog_changes as changes
from perdure.service.access_records import KEYS
from perdure.service.callers import LOCAL, PROGRAM, Caller
from perdure.service.catalog import read_document, received_bytes
from perdure.service.catalog_changes import NO_FIELDS, CatalogChange, Edit, Moment, Publication
from perdure.service.catalog_records import DEFINITIONS, DefinitionRecord, read_documents
from perdure.service.catalog_references import find_definition, find_version
from perdure.service.proposals.proposal_records import (
    NEWEST_FIRST,
    PROPOSALS,
    ProposalContent,
    ProposalRecord,
    ProposalReview,
    find_proposal,
    new_proposal_changes,
    proposal_change,
    read_content,
)
from perdure.service.record_kinds import CHANGES_MAX, KeptValue, expect_revision, is_record_key, post_records
from perdure.service.slugs import SLUG, checked_slug
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import ReadOnlyStore
from perdure.stores.records import RecordChange

PROPOSAL_OPEN_S = 14 * 86_400.0
"""How long a proposal may be reviewed and applied."""

NOTE_CHARACTERS_MAX = 10_000

OPEN_MAX = 100
"""How many proposals for one definition may be open and not expired, so that an agent that proposes again and again is stopped."""

DELEGATIONS_MAX = 8
"""How many keys, each made by the one before, are followed to find who has given a right."""

ALLOW_IT = "To allow that, publish a version with allow: {self_edit: true}"


@dataclasses.dataclass(frozen=True)
class Proposer:
    """Who proposes: a subject, or an execution, on behalf of its initiator. `id` is that of the proposal, where it has to be the same in each attempt.

    `model` is the name of the model that has written the document.
    """

    subject: str
    execution: Key | None = None
    initiator: str = ""
    id: str = ""
    model: str = ""


# Making


async def propose(access: StoreAccess, tenant: str, which: str, document: bytes, base: str, by: Proposer, *, note: str = "") -> KeptValue[ProposalRecord]:
    """Makes a proposal: that `document` becomes the version after `base`, the hash of the current one, with or without ``sha256:``; without a base, the first
    version of a new definition.

    Raises:
        NotFound: there is no such definition.
        StaleProposal: the current version is another one, and nothing was stored.
        ProposalRefused: the definition allows no proposals, or has too many that are open.
        BadDefinition: the document is not valid; the error has all findings.
        BadValue, BadName: it says the same as the current version; the slug or the note is not valid.
        AlreadyExists: it declares a webhook whose path is that of another trigger.
        DefinitionOwned: a watched file has the definition.
    """
    _ = _checked_note(note)
    base = f"sha256:{base.removeprefix('sha256:')}" if base else ""
    if by.id and (made_before := await _made_before(access.store, tenant, by.id)) is not None:
        return made_before
    received = received_bytes(document)
    before = await _present(access.store, tenant, which, base)
    slug = checked_slug(which) if before is None else before.key
    _expect_base(slug, before, base)
    current = await _current_document(access.store, tenant, before)
    _expect_self_edit(slug, current)
    moment = Moment(access.store, tenant, Edit(by.subject, note), (await access.store.store_time()).now_s)
    await _expect_few_open(moment, slug)
    made = await _publication(received, slug, by.id or str(uuid4()))
    await _expect_applicable(moment, slug, before, made)
    after = made.read.canonical
    diff = await asyncio.to_thread(lambda: render_changes(definition_changes(current or {}, after)))
    record = ProposalRecord(
        id=made.proposal,
        slug=slug,
        definition_id="" if (living := changes.living(before)) is None else living.id,
        base=base,
        hash=made.read.hash,
        proposed_by=by.subject,
        on_behalf_of=await _delegators(access.store, tenant, by),
        execution=by.execution,
        model=by.model,
        note=note,
        widens_rights=widened_rights(current or {}, after),
        created_at_s=moment.now_s,
        expires_at_s=moment.now_s + PROPOSAL_OPEN_S,
        received_bytes=0,
        canonical_bytes=0,
        pieces=0,
    )
    with suppress(StaleRecord):  # another attempt of the same execution has made it meanwhile
        await post_records(access.store, new_proposal_changes(tenant, record, ProposalContent(received, definition_bytes(after), diff.encode())))
    return await find_proposal(access.store, tenant, record.id)


@dataclasses.dataclass(frozen=True)
class ProposalBase:
    """What a proposal would change: the slug, the hash of the current version, and its document as received (both empty: there is no such definition)."""

    slug: str
    hash: str = ""
    received: bytes = b""


async def proposal_base(access: StoreAccess, tenant: str, which: str) -> ProposalBase:
    """The present version of a definition that takes proposals.

    Raises:
        NotFound: there is no such definition.
        ProposalRefused: it allows no proposals.
        DefinitionOwned: a watched file has it.
    """
    before = await find_definition(access.store, tenant, which)
    record = before.value
    if record.owner:
        raise DefinitionOwned(record.slug, record.owner)
    if not record.hash:
        raise NotFound(record.slug, f"{record.slug!r} has a draft and no version, so there is nothing to change. Publish the draft first")
    _expect_self_edit(record.slug, await _current_document(access.store, tenant, before))
    received, _ = await read_documents(access.store, tenant, record.slug, await find_version(access.store, tenant, record, record.hash))
    return ProposalBase(record.slug, record.hash, received)


async def _made_before(store: ReadOnlyStore, tenant: str, id: str) -> KeptValue[ProposalRecord] | None:
    """The proposal that an earlier attempt has made, whatever has happened since."""
    try:
        return await find_proposal(store, tenant, id)
    except NotFound:
        return None


def _checked_note(note: str) -> str:
    if len(note) > NOTE_CHARACTERS_MAX:
        raise BadValue("note", f"{len(note):,} characters", f"at most {NOTE_CHARACTERS_MAX:,}")
    return note


async def _present(store: ReadOnlyStore, tenant: str, which: str, base: str) -> KeptValue[DefinitionRecord] | None:
    """The definition as it is; None, or a record that is marked as deleted, for a new one, which only a proposal without a base may name."""
    if base:
        return await find_definition(store, tenant, which)
    try:
        return await find_definition(store, tenant, which)
    except NotFound:
        return await DEFINITIONS.read(store, tenant, which) if SLUG.fullmatch(which) else None


def _expect_base(slug: str, before: KeptValue[DefinitionRecord] | None, base: str) -> None:
    record = changes.living(before)
    current = "" if record is None else record.hash
    if current != base:
        raise StaleProposal(slug, base, current)


async def _expect_few_open(moment: Moment, slug: str) -> None:
    where = attribute_conditions({"slug": slug, "open": True})
    found = await PROPOSALS.page(moment.store, moment.tenant, where=where, order=NEWEST_FIRST, limit=OPEN_MAX)
    if sum(not one.value.has_expired(moment.now_s) for one in found) >= OPEN_MAX:
        raise ProposalRefused(slug, f"nothing was proposed: {slug!r} has {OPEN_MAX} open proposals, which is the limit. Apply or reject some of them")


async def _expect_applicable(moment: Moment, slug: str, before: KeptValue[DefinitionRecord] | None, made: Publication) -> None:
    """Checks that a document changes something, and decides to publish it, so that what `apply` would refuse is refused when it is proposed."""
    if (record := changes.living(before)) is not None and made.read.hash == record.hash:
        raise BadValue("proposal", made.read.hash, f"a document that differs from the current version of {slug!r}")
    _ = await changes.decide_triggers(moment, [await changes.publish(moment, slug, before, made, NO_FIELDS, str(uuid4()))])


async def _current_document(store: ReadOnlyStore, tenant: str, before: KeptValue[DefinitionRecord] | None) -> dict[str, Any] | None:
    """The canonical form of the current version; None if there is none."""
    record = changes.living(before)
    if record is None or not record.hash:
        return None
    _, canonical = await read_documents(store, tenant, record.slug, await find_version(store, tenant, record, record.hash))
    found: dict[str, Any] = msgspec.json.decode(canonical)
    return found


def _expect_self_edit(slug: str, current: Mapping[str, Any] | None) -> None:
    if current is not None and not current.get("allow", {}).get("self_edit"):
        raise ProposalRefused(slug, f"nothing was changed: the current version of {slug!r} does not allow proposals. {ALLOW_IT}")


async def _publication(received: bytes, slug: str, proposal: str) -> Publication:
    """The publication that applies a proposal. Its number is the next patch, whatever the document declares."""
    return Publication(await read_document(received, slug), received, "update", "proposal", "patch", proposal)


# Who may review


async def _delegators(store: ReadOnlyStore, tenant: str, by: Proposer) -> tuple[str, ...]:
    """The subjects on whose behalf somebody proposes."""
    first = (by.initiator,) if by.initiator else ()
    return (*first, *await makers_of(store, tenant, by.initiator or by.subject))


async def makers_of(store: ReadOnlyStore, tenant: str, subject: str) -> tuple[str, ...]:
    """The subject that has made a key, the one that has made the key of that, and so on. Nobody has made a person."""
    found = list[str]()
    while subject.startswith(PROGRAM) and len(found) < DELEGATIONS_MAX:
        id = subject.removeprefix(PROGRAM)
        kept = await KEYS.read(store, tenant, id) if is_record_key(id) else None
        if kept is None or not kept.value.created_by or kept.value.created_by in found:
            break
        subject = kept.value.created_by
        found.append(subject)
    return tuple(found)


async def _expect_may_review(store: ReadOnlyStore, record: ProposalRecord, caller: Caller) -> None:
    if record.widens_rights and not caller.may("admin"):
        what = ", ".join(record.widens_rights)
        raise Forbidden(caller.subject, "proposals.review", "admin", f"the proposal changes {what}, which widens rights: an admin has to review it")
    if caller.subject == LOCAL.subject:
        return
    if caller.subject in (record.proposed_by, *record.on_behalf_of) or record.proposed_by in await makers_of(store, caller.tenant, caller.subject):
        why = f"{caller.subject} may not review this proposal: {record.proposed_by} proposed it. Somebody else has to review it"
        raise Forbidden(caller.subject, "proposals.review", "author", why)


# Reviewing


async def review(
    access: StoreAccess, caller: Caller, id: str, slug: str, *, approve: bool, notes: str = "", revision: int | None = None
) -> KeptValue[ProposalRecord]:
    """Approves or rejects a pending proposal.

    Raises:
        NotFound: there is no such proposal.
        ProposalRefused: it was reviewed before, or has expired.
        Forbidden: the caller has proposed it, or it widens rights and the caller is no admin.
        StaleRecord: it is not at the revision.
        BadValue: the notes are too long.
    """
    _ = _checked_note(notes)

    async def decide(kept: KeptValue[ProposalRecord], now_s: float) -> ProposalRecord:
        _expect_open(kept.value, "pending", now_s)
        await _expect_may_review(access.store, kept.value, caller)
        review = ProposalReview(caller.subject, now_s, notes)
        return msgspec.structs.replace(kept.value, status="approved" if approve else "rejected", review=review)

    return await _change_proposal(access, caller.tenant, id, slug, decide, revision)


def _expect_open(record: ProposalRecord, status: str, now_s: float) -> None:
    """Checks that a proposal has this status, and has not expired."""
    if record.status != status:
        first = {"pending": "Review it first", "approved": "It can be applied"}.get(record.status, "Make another proposal")
        only = "approved ones can be applied" if status == "approved" else "pending ones can be reviewed"
        raise ProposalRefused(record.slug, f"nothing was changed: the proposal is {record.status}, and only {only}. {first}")
    if record.has_expired(now_s):
        raise ProposalRefused(record.slug, "nothing was changed: the proposal has expired. Make another proposal")


Decide = Callable[[KeptValue[ProposalRecord], float], Awaitable[ProposalRecord]]


async def _change_proposal(access: StoreAccess, tenant: str, id: str, slug: str, decide: Decide, revision: int | None) -> KeptValue[ProposalRecord]:
    """Changes a proposal from what it is; decides again if another change came first, unless the caller has named the revision."""
    for _ in range(CHANGES_MAX):
        kept = await find_proposal(access.store, tenant, id, slug)
        expect_revision("proposal", id, revision, kept.version)
        record = await decide(kept, (await access.store.store_time()).now_s)
        try:
            await post_records(access.store, [proposal_change(tenant, kept.version, record)])
        except StaleRecord:
            if revision is not None:
                raise
        else:
            return msgspec.structs.replace(kept, version=kept.version + 1, value=record)
    raise StoreUnavailable(f"the proposal {id} was changed by others {CHANGES_MAX} times in a row; repeat the call")


# Applying


async def apply(access: StoreAccess, tenant: str, id: str, slug: str, author: str, *, revision: int | None = None) -> KeptValue[ProposalRecord]:
    """Publishes the document of an approved proposal as the current version, and marks the proposal as applied, in one post.

    Raises:
        NotFound: there is no such proposal.
        StaleProposal: the definition has another version by now, and the proposal has failed.
        ProposalRefused: it is not approved, or has expired; or the definition does not allow it any more, and the proposal has failed.
        BadDefinition, BadValue: the document is not valid here any more, and the proposal has failed.
        AlreadyExists: it declares a webhook whose path is that of another trigger by now, and the proposal has failed.
        DefinitionOwned: a watched file has the definition.
        StaleRecord: the proposal is not at the revision.
    """
    found = await find_proposal(access.store, tenant, id, slug)
    content = await read_content(access.store, tenant, found.value)
    approved = list[KeptValue[ProposalRecord]]()  # what was read last, while it can be applied

    async def decide(moment: Moment) -> CatalogChange:
        approved.clear()
        kept = await find_proposal(access.store, tenant, id, slug)
        expect_revision("proposal", id, revision, kept.version)
        _expect_open(kept.value, "approved", moment.now_s)
        approved.append(kept)
        return await _application(moment, kept.value, content.received)

    async def besides(change: CatalogChange) -> Sequence[RecordChange]:
        return (proposal_change(tenant, approved[0].version, _applied(approved[0].value, change, author)),)

    try:
        change = await changes.carry_out(access.store, tenant, Edit(author, found.value.note, besides=besides), decide)
    except (StaleProposal, ProposalRefused, BadDefinition, BadValue, AlreadyExists) as error:
        if not approved:
            raise
        failed = msgspec.structs.replace(approved[0].value, status="failed", failed=str(error))
        try:
            await post_records(access.store, [proposal_change(tenant, approved[0].version, failed)])
        except StaleRecord:  # another call has applied it, or let it fail, between the two reads
            return await apply(access, tenant, id, slug, author, revision=revision)
        raise
    return msgspec.structs.replace(approved[0], version=approved[0].version + 1, value=_applied(approved[0].value, change, author))


async def _application(moment: Moment, record: ProposalRecord, received: bytes) -> CatalogChange:
    """Decides to publish the document of a proposal, whose definition still has to be as it was."""
    before = await DEFINITIONS.read(moment.store, moment.tenant, record.slug)
    _expect_base(record.slug, before, record.base)
    _expect_self_edit(record.slug, await _current_document(moment.store, moment.tenant, before))
    made = await _publication(received, record.slug, record.id)
    if made.read.hash != record.hash:
        raise ProposalRefused(record.slug, f"nothing was changed: the document has the hash {made.read.hash} here, and {record.hash} was reviewed")
    if changes.living(before) is None:
        made = dataclasses.replace(made, kind="create")
    return await changes.publish(moment, record.slug, before, made, NO_FIELDS, str(uuid4()))


def _applied(record: ProposalRecord, change: CatalogChange, author: str) -> ProposalRecord:
    return msgspec.structs.replace(record, status="applied", version=change.after.version, applied_by=author, applied_at_s=change.after.updated_at_s)
