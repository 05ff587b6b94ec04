"""Brings the catalog to the state of documents that are kept elsewhere, such as the files of a plugin: one document, or a whole set.

Of a whole set, all changes are one post. As it deletes what is not in the set, it is a dry run unless the caller allows that and says how many deletions it
expects, which the dry run has shown.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath
from uuid import uuid4

import msgspec

from perdure.core.attribute_filter import attribute_conditions
from perdure.core.errors import BadDefinition, BadValue
from perdure.definitions.format.definition_findings import DefinitionFinding
from perdure.service import catalog_changes as changes
from perdure.service.catalog import CatalogDefinition, deletion, read_with_slug, received_bytes, shown_definition
from perdure.service.catalog_changes import NO_FIELDS, CatalogChange, ChangeOutcome, Edit, Moment, Publication
from perdure.service.catalog_records import DEFINITIONS
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import JsonDocument

DOCUMENTS_MAX = 1_000
SET_BYTES_MAX = 64 * 1024 * 1024
NAMED_MAX = 20


class SyncedDefinition(msgspec.Struct, frozen=True):
    """A definition after its document was synced, and what that has changed."""

    definition: CatalogDefinition
    outcome: ChangeOutcome


class SyncDocument(msgspec.Struct, frozen=True):
    """A document of a set. Without a `slug`, one is made of its name. `file` is where it is kept: messages name it, and it names a document without a name."""

    document: JsonDocument
    slug: str = ""
    file: str = ""

    @property
    def default_name(self) -> str:
        """The name that it has if it says none."""
        return PurePosixPath(self.file).stem


class SyncItem(msgspec.Struct, frozen=True):
    """What syncing a set does to one definition. `from_version` is the version before (empty: none)."""

    slug: str
    outcome: ChangeOutcome
    version: str
    hash: str
    from_version: str = ""


class SyncResult(msgspec.Struct, frozen=True):
    """What syncing a set has done or, unless it was `applied`, would do: to each definition of the set, and which others are deleted."""

    applied: bool
    items: list[SyncItem]
    deleted: list[str]


class _ReadDocument(msgspec.Struct, frozen=True):
    slug: str
    publication: Publication


async def sync_definition(access: StoreAccess, tenant: str, document: bytes, edit: Edit, slug: str = "", file: str = "") -> SyncedDefinition:
    """Creates a definition from a document, or makes it the current version. Without a `slug`, one is made of its name, or of that of the `file`.

    Raises:
        BadDefinition: the document is not valid; the error has all findings.
        BadName, BadValue: the slug or the author is not valid, or the document declares a version that is not above the highest.
        DefinitionOwned: a watched file has the definition, and the edit comes from elsewhere.
    """
    one = await _read(SyncDocument(document, slug, file))
    change = await changes.carry_out(access.store, tenant, edit, lambda moment: _change(moment, one))
    return SyncedDefinition(shown_definition(change), change.outcome)


async def sync_all(
    access: StoreAccess, tenant: str, documents: Sequence[SyncDocument], edit: Edit, *, delete: bool = False, expect: int | None = None, keep: bool = False
) -> SyncResult:
    """Brings the catalog to the state of a set of documents: syncs each, and deletes all other definitions, or with `keep` none, in one change.

    Without `keep`, it is a dry run unless `delete` is true; then `expect` is the number of definitions that are to be deleted.

    Raises:
        BadDefinition: a document is not valid; the error has the findings of all, each with a pointer into the set.
        BadValue: another number of definitions would be deleted, two documents have one slug, or there are too many.
        BadName: a slug or the author is not valid.
        DefinitionOwned: a file has one of the definitions that would change.
    """
    read = await _read_all(documents)
    if edit.revision is not None:
        raise BadValue("revision", edit.revision, "given for one definition; leave it out for a whole set")

    if keep and (delete or expect is not None):
        raise BadValue("keep", keep, "given without delete and expect: with it, nothing is deleted")

    async def decide(moment: Moment) -> list[CatalogChange]:
        found = [await _change(moment, one) for one in read.values()]
        if keep:
            return found
        others = [one async for one in DEFINITIONS.all(access.store, tenant, where=attribute_conditions({"listed": True})) if one.key not in read]
        if delete and expect != len(others):
            named = ", ".join(one.key for one in others[:NAMED_MAX])
            raise BadValue("expect", expect, f"{len(others)}, the number of definitions that would be deleted: {named or 'none'}. Look at the dry run")
        return found + [await deletion(moment, one) for one in others]

    if delete or keep:
        found = await changes.carry_out_all(access.store, tenant, edit, decide)
    else:
        found = await decide(Moment(access.store, tenant, edit, (await access.store.store_time()).now_s))
    items = [_item(change) for change in found if change.after.deleted_at_s is None]
    return SyncResult(delete or keep, items, [change.after.slug for change in found if change.after.deleted_at_s is not None])


def _item(change: CatalogChange) -> SyncItem:
    before, after = changes.living(change.before), change.after
    return SyncItem(after.slug, change.outcome, after.version, after.hash, "" if before is None else before.version)


async def _change(moment: Moment, one: _ReadDocument) -> CatalogChange:
    before = await DEFINITIONS.read(moment.store, moment.tenant, one.slug)
    return await changes.publish(moment, one.slug, before, one.publication, NO_FIELDS, str(uuid4()))


async def _read(one: SyncDocument) -> _ReadDocument:
    received = received_bytes(one.document)
    read, slug = await read_with_slug(received, one.slug, one.default_name)
    return _ReadDocument(slug, Publication(read, received, "sync", "sync"))


async def _read_all(documents: Sequence[SyncDocument]) -> dict[str, _ReadDocument]:
    if len(documents) > DOCUMENTS_MAX or sum(len(one.document) for one in documents) > SET_BYTES_MAX:
        raise BadValue("documents", f"{len(documents):,} documents", f"at most {DOCUMENTS_MAX:,}, of {SET_BYTES_MAX // 1024**2} MiB together")
    found, names = dict[str, _ReadDocument](), dict[str, str]()
    findings, wrong = list[DefinitionFinding](), list[str]()
    for number, one in enumerate(documents, 1):
        try:
            read = await _read(one)
        except BadDefinition as error:
            who = one.file or f"document {number}{f' ({one.slug})' if one.slug else ''}"
            wrong.append(where := f"/documents/{number - 1}/document")
            findings += [msgspec.structs.replace(its, message=f"{who}: {its.message}", pointer=where + its.pointer) for its in error.findings]
            continue
        name = one.file or f"document {number}"
        if found.setdefault(read.slug, read) is not read:
            raise BadValue("documents", read.slug, f"the slug of one document: {names[read.slug]} and {name} have it, so give one of them another name or slug")
        names[read.slug] = name
    if findings:
        raise BadDefinition(findings, wrong[0])
    return found
