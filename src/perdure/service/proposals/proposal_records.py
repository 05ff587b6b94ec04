"""The records of proposals: a *proposal* under the slug of its definition and its id, and the *proposal content* behind it.

The content is the document as it was received, its canonical form, and the diff as text, in pieces. A list of proposals reads none of it. A proposal is never
removed, and its content never changes.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from perdure.core.attribute_filter import AttributeOrder, attribute_conditions
from perdure.core.attributes import AttributeValue
from perdure.core.errors import LogDamaged, NotFound
from perdure.core.paths import Key
from perdure.definitions.format.document_rights import Right
from perdure.service.catalog_records import PIECE_BYTES, ContentRecord
from perdure.service.record_kinds import KeptValue, RecordKind
from perdure.service.slugs import is_id
from perdure.stores.protocol import ReadOnlyStore
from perdure.stores.records import RecordChange

ProposalStatus = Literal["pending", "approved", "rejected", "applied", "failed"]
"""A proposal is pending until it is approved or rejected. One that was approved is applied, or fails. That it has expired is no status."""

OPEN_STATUSES: frozenset[ProposalStatus] = frozenset(("pending", "approved"))
"""The statuses of proposals that may still change."""

NEWEST_FIRST = AttributeOrder("created", descending=True)


class ProposalReview(msgspec.Struct, frozen=True):
    """Who approved or rejected a proposal, when, and their notes."""

    by: str
    at_s: float
    notes: str = ""


class ProposalRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A proposal. `base` is the hash of the version that it is based on (empty: it proposes a new definition), `hash` that of the proposed document.

    `definition_id` is the id of the definition (empty: there was none). `on_behalf_of` are the subjects who have given `proposed_by` the right to propose:
    the maker of a key, or the initiator of the `execution` that proposes. `model` is the name of the model that has written the document (empty: none has).
    `failed` says why it could not be applied. `version` is the number that it was published under. The content has `received_bytes` of the document as
    received, `canonical_bytes` of its canonical form, and then the diff, in `pieces`.
    """

    id: str
    slug: str
    definition_id: str = ""
    base: str = ""
    hash: str
    status: ProposalStatus = "pending"
    proposed_by: str
    on_behalf_of: tuple[str, ...] = ()
    execution: Key | None = None
    model: str = ""
    note: str = ""
    widens_rights: tuple[Right, ...] = ()
    created_at_s: float
    expires_at_s: float
    review: ProposalReview | None = None
    version: str = ""
    applied_by: str = ""
    applied_at_s: float | None = None
    failed: str = ""
    received_bytes: int
    canonical_bytes: int
    pieces: int

    def has_expired(self, now_s: float) -> bool:
        """Whether it is open, and its time is over."""
        return self.status in OPEN_STATUSES and now_s >= self.expires_at_s


class ProposalContent(NamedTuple):
    """The document of a proposal as it was received, its canonical form, and the diff as text."""

    received: bytes
    canonical: bytes
    diff: bytes


PROPOSALS = RecordKind("proposal", ProposalRecord)
PROPOSAL_CONTENTS = RecordKind("proposal content", ContentRecord, audited=False)


def proposal_change(tenant: str, version: int, record: ProposalRecord) -> RecordChange:
    """The change of a proposal that is at record version `version`, with the attributes by which it is found."""
    attributes: dict[str, AttributeValue | Sequence[AttributeValue]] = {
        "created": record.created_at_s,
        "id": record.id,
        "open": record.status in OPEN_STATUSES,
        "slug": record.slug,
        "status": record.status,
    }
    return PROPOSALS.change(tenant, f"{record.slug}/{record.id}", version, record, attributes)


def new_proposal_changes(tenant: str, record: ProposalRecord, content: ProposalContent) -> list[RecordChange]:
    """The changes that write a new proposal with its content."""
    whole = b"".join(content)
    pieces = [whole[begin : begin + PIECE_BYTES] for begin in range(0, len(whole), PIECE_BYTES)]
    sizes = {"received_bytes": len(content.received), "canonical_bytes": len(content.canonical), "pieces": len(pieces)}
    first = proposal_change(tenant, 0, msgspec.structs.replace(record, **sizes))
    keys = (f"{record.slug}/{record.id}/{number:04}" for number in range(len(pieces)))
    return [first, *(PROPOSAL_CONTENTS.change(tenant, key, 0, ContentRecord(piece)) for key, piece in zip(keys, pieces, strict=True))]


async def read_content(store: ReadOnlyStore, tenant: str, record: ProposalRecord) -> ProposalContent:
    """The content of a proposal.

    Raises:
        LogDamaged: a piece is missing.
    """
    parts = [one.value.piece async for one in PROPOSAL_CONTENTS.all(store, tenant, f"{record.slug}/{record.id}/")]
    if len(parts) != record.pieces:
        raise LogDamaged(f"the proposal {record.id} has {len(parts)} of {record.pieces} pieces")
    whole, end = b"".join(parts), record.received_bytes + record.canonical_bytes
    return ProposalContent(whole[: record.received_bytes], whole[record.received_bytes : end], whole[end:])


async def find_proposal(store: ReadOnlyStore, tenant: str, id: str, slug: str = "") -> KeptValue[ProposalRecord]:
    """The proposal of an id; with a `slug`, only one of that definition.

    Raises:
        NotFound: there is none.
    """
    where = attribute_conditions({"id": id}) if is_id(id) else ()
    found = await PROPOSALS.page(store, tenant, where=where, order=NEWEST_FIRST, limit=1) if where else []
    if not found or slug not in ("", found[0].value.slug):
        of = f" of the definition {slug!r}" if slug else ""
        raise NotFound(id[:100], f"there is no proposal {id[:100]!r}{of}. perdure proposal ls lists those that there are")
    return found[0]
