"""The records of the catalog, which keeps the definitions of a tenant.

The record *definition* is the present state of one, under its slug. Everything else under the slug is written once and never changed: a *definition version* is
a content, named by its hash; a *definition release* gives a content a version number; a *definition event* is an entry of the history. Each change of a
definition changes its record and adds an entry, in one post, so changes of one definition are in one order. The record of a deleted definition stays, marked
as deleted, because numbers of entries and versions go on from there if the slug is used again.

Documents are kept in records and not in blobs, since the collection of blobs finds references in logs and messages only. What is too large for one record
continues in records *definition content*.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from perdure.core.attributes import AttributeValue
from perdure.core.errors import LogDamaged
from perdure.service.record_kinds import RecordKind
from perdure.stores.protocol import ReadOnlyStore
from perdure.stores.records import RecordChange

VersionSource = Literal["sync", "update", "proposal", "rollback", "record", "system"]
"""Where a version comes from: `record` is a recording of tool calls, `system` Perdure itself."""

CatalogEventKind = Literal["create", "update", "sync", "rollback", "edit", "enable", "disable", "tag", "untag", "delete"]
"""What happened to a definition. `edit` is a change of its name, description or tags; a `tag` was moved or an `untag` removed it."""

PUBLISHING: frozenset[CatalogEventKind] = frozenset(("create", "update", "sync", "rollback"))
"""The entries of the history that give a content a version number."""


class VersionTag(msgspec.Struct, frozen=True):
    """The version that a tag such as ``production`` names at present."""

    version: str
    hash: str


class DefinitionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A definition as it is now. `version` and `hash` are of the current version; both are empty while there is only a draft.

    `highest` is the highest version number that the slug ever had, `declared` the version that the current document declares (empty: none). `events` is the
    number of the last entry of the history. `tags` are words to find the definition by; `version_tags` name versions of it. `owner` is the watched file that
    has the document (empty: none).
    """

    id: str
    slug: str
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    enabled: bool = True
    version: str = ""
    hash: str = ""
    highest: str = ""
    declared: str = ""
    version_tags: dict[str, VersionTag] = {}
    events: int = 0
    has_draft: bool = False
    created_at_s: float
    created_by: str
    updated_at_s: float
    updated_by: str
    deleted_at_s: float | None = None
    owner: str = ""


class VersionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A content of a definition: the document as it was received, and its canonical form, whose SHA-256 is the `hash`.

    `version`, `source`, `by`, `note` and `at_s` are of its first publication. `dialect` is empty for the format's own. The records behind it have
    `more` pieces of the two documents, `received_bytes` and then the canonical form.
    """

    hash: str
    version: str
    source: VersionSource
    by: str
    at_s: float
    note: str = ""
    dialect: str = ""
    declared: str = ""
    received_bytes: int
    documents: bytes
    more: int = 0


class ContentRecord(msgspec.Struct, frozen=True):
    """A further piece of the documents of a version."""

    piece: bytes


class ReleaseRecord(msgspec.Struct, frozen=True):
    """The content that a version number names. The key has the number."""

    hash: str
    event: int


class CatalogEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of the history of a definition. `version` and `hash` are of the version that became current, or that a tag was moved to.

    `from_version` and `from_hash` are those before it, if there were any. `id` is that of the definition, which another of the same slug does not have.
    `changed` names the fields that an `edit` has changed. `source_proposal_id` is the proposal whose document became the version.
    """

    number: int
    kind: CatalogEventKind
    id: str
    at_s: float
    by: str
    note: str = ""
    version: str = ""
    hash: str = ""
    from_version: str = ""
    from_hash: str = ""
    source: VersionSource | None = None
    tag: str = ""
    changed: tuple[str, ...] = ()
    source_proposal_id: str = ""


class DraftRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A document that is being edited. It need not be valid. `base` is the hash of the version that it began with (empty: none)."""

    document: bytes
    base: str
    at_s: float
    by: str


DEFINITIONS = RecordKind("definition", DefinitionRecord)
VERSIONS = RecordKind("definition version", VersionRecord)
CONTENTS = RecordKind("definition content", ContentRecord, audited=False)
RELEASES = RecordKind("definition release", ReleaseRecord, audited=False)
EVENTS = RecordKind("definition event", CatalogEvent, audited=False)
DRAFTS = RecordKind("definition draft", DraftRecord)

PIECE_BYTES = 512 * 1024
"""How much of a document is in one record. An encrypted record is somewhat larger than what it has."""

EVENTS_MAX = 10**9
"""The bound of the numbers of entries in a history."""


def event_key(slug: str, number: int) -> str:
    """The key of an entry of a history. The newest comes first in a list."""
    return f"{slug}/{EVENTS_MAX - number:010}"


def version_key(slug: str, hash: str) -> str:
    """The key of a version."""
    return f"{slug}/{hash.removeprefix('sha256:')}"


def definition_attributes(record: DefinitionRecord) -> dict[str, AttributeValue | Sequence[AttributeValue]]:
    """The attributes by which a definition is found. One that was deleted has none, so no list has it."""
    return {} if record.deleted_at_s is not None else {"listed": True, "id": record.id, "enabled": record.enabled, "tag": list(record.tags)}


def definition_change(tenant: str, version: int, record: DefinitionRecord) -> RecordChange:
    """The change of a definition that is at record version `version`."""
    return DEFINITIONS.change(tenant, record.slug, version, record, definition_attributes(record))


def version_changes(tenant: str, slug: str, version: VersionRecord, received: bytes, canonical: bytes) -> list[RecordChange]:
    """The changes that write a version with its documents, none of whose records is there."""
    whole = received + canonical
    pieces = [whole[begin : begin + PIECE_BYTES] for begin in range(0, len(whole), PIECE_BYTES)]
    first = msgspec.structs.replace(version, received_bytes=len(received), documents=pieces[0], more=len(pieces) - 1)
    key = version_key(slug, version.hash)
    rest = (CONTENTS.change(tenant, f"{key}/{number:04}", 0, ContentRecord(piece)) for number, piece in enumerate(pieces[1:], 1))
    return [VERSIONS.change(tenant, key, 0, first), *rest]


async def read_documents(store: ReadOnlyStore, tenant: str, slug: str, version: VersionRecord) -> tuple[bytes, bytes]:
    """The document of a version as it was received, and its canonical form.

    Raises:
        LogDamaged: a piece is missing or was changed.
    """
    parts = [version.documents]
    if version.more:
        parts += [one.value.piece async for one in CONTENTS.all(store, tenant, f"{version_key(slug, version.hash)}/")]
    if len(parts) != version.more + 1:
        raise LogDamaged(f"version {version.hash} of the definition {slug!r} has {len(parts)} of {version.more + 1} pieces")
    whole = b"".join(parts)
    return whole[: version.received_bytes], whole[version.received_bytes :]
