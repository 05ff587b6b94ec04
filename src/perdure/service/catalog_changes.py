"""Decides on changes of a definition in the catalog, and carries each out by one post.

A change is decided on from the present record and yields the records to change, among them an entry of the history. The post expects the record to be as it
was, so a change that was decided on from an older state is not carried out. It is then decided on again, or, if the caller has named the revision that it has
seen, refused with `StaleRecord`.
"""

import dataclasses
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec

from perdure.code.declarations import checked_name
from perdure.core.errors import BadValue, DefinitionOwned, StaleRecord
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.dialects.definition_reader import ReadDefinition
from perdure.service.catalog_records import (
    DRAFTS,
    EVENTS,
    RELEASES,
    VERSIONS,
    CatalogEvent,
    CatalogEventKind,
    DefinitionRecord,
    DraftRecord,
    ReleaseRecord,
    VersionRecord,
    VersionSource,
    definition_change,
    event_key,
    version_changes,
    version_key,
)
from perdure.service.record_kinds import KeptValue, expect_revision, post_records
from perdure.service.triggers.trigger_changes import Declaration, TriggerChanges, TriggerEdit, change_triggers, declared_edits
from perdure.service.triggers.trigger_specs import DeclaredTrigger, declared_triggers
from perdure.service.version_numbers import VERSION_CHARACTERS_MAX, VersionPart, is_above, next_version
from perdure.stores.protocol import ReadOnlyStore, Store
from perdure.stores.records import RecordChange

ATTEMPTS_MAX = 20
"""How often a change is decided on again because another one came first."""

TAGS_MAX = 32
TAG_CHARACTERS_MAX = 64

OWNED_FIELDS = ("name", "description", "hash", "has_draft", "deleted_at_s")
"""The fields of a definition that only its file changes, if it has one. Tags, and whether it is enabled, are changed by people in any case."""

ChangeOutcome = Literal["created", "updated", "unchanged"]


class DefinitionFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of a definition besides its document. One that is unset is that of the document when a version becomes current, and else stays as it is."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET
    tags: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    enabled: bool | msgspec.UnsetType = msgspec.UNSET

    def given(self) -> dict[str, Any]:
        """The fields that are set, checked.

        Raises:
            BadValue: one is not valid.
        """
        if self.name is not msgspec.UNSET and not self.name.strip():
            raise BadValue("name", self.name, "a text")
        if self.tags is not msgspec.UNSET:
            if len(set(self.tags)) > TAGS_MAX:
                raise BadValue("tags", len(self.tags), f"at most {TAGS_MAX}")
            if wrong := [one for one in self.tags if not one.strip() or len(one) > TAG_CHARACTERS_MAX]:
                raise BadValue("tags", wrong[0], f"a text of 1 to {TAG_CHARACTERS_MAX} characters")
        found = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not msgspec.UNSET}
        return found | ({"tags": tuple(dict.fromkeys(self.tags))} if self.tags is not msgspec.UNSET else {})


NO_FIELDS = DefinitionFields()


def document_fields(about: dict[str, Any], given: DefinitionFields = NO_FIELDS) -> dict[str, Any]:
    """Fields of a definition as its canonical document has them, except for the `given` ones. A document without tags leaves them as they are.

    Raises:
        BadValue: one is not valid, such as a tag that is too long.
    """
    tags = tuple(about.get("tags", ())) or msgspec.UNSET
    own = DefinitionFields(name=display_name(about) or str(about["name"]), description=str(about.get("description", "")), tags=tags)
    set_fields = {name: value for name in given.__struct_fields__ if (value := getattr(given, name)) is not msgspec.UNSET}
    return msgspec.structs.replace(own, **set_fields).given()


def display_name(about: dict[str, Any]) -> str:
    """The name for people in the `ui` of a canonical document, which its hash does not cover; empty if it has none."""
    ui = about.get("ui")
    name = ui.get("name") if isinstance(ui, dict) else None
    return name if isinstance(name, str) and name.strip() else ""


@dataclasses.dataclass(frozen=True)
class CatalogChange:
    """A change of one definition that was decided on: the record `after` it, and all `records` to change (none: there is nothing to do).

    With `declared`, another version becomes current, which declares these triggers.
    """

    before: KeptValue[DefinitionRecord] | None
    after: DefinitionRecord
    records: tuple[RecordChange, ...]
    outcome: ChangeOutcome
    declared: tuple[DeclaredTrigger, ...] | None = None

    @property
    def deletes(self) -> bool:
        """Whether the definition is deleted by it."""
        return bool(self.records) and self.after.deleted_at_s is not None

    @property
    def revision(self) -> int:
        """The version of the record after the change."""
        return (0 if self.before is None else self.before.version) + bool(self.records)


async def nothing_besides(_: CatalogChange) -> Sequence[RecordChange]:
    """Adds nothing to a change."""
    return ()


@dataclasses.dataclass(frozen=True)
class Edit:
    """Who changes a definition, and why. With a `revision`, the change is made only while the definition is at it.

    `file` is the watched file that the edit comes from. It owns the definition from then on, and takes it from the files in `gone`, which are there no more.
    `besides` returns the records that change together with the definition, in the same post, such as an entry of the audit log.
    """

    by: str
    note: str = ""
    revision: int | None = None
    file: str = ""
    gone: frozenset[str] = frozenset()
    besides: Callable[[CatalogChange], Awaitable[Sequence[RecordChange]]] = nothing_besides


@dataclasses.dataclass(frozen=True)
class Moment:
    """The store, the tenant, the author and the time of a change that is being decided on."""

    store: ReadOnlyStore
    tenant: str
    edit: Edit
    now_s: float

    def change(
        self, slug: str, before: KeptValue[DefinitionRecord] | None, entry: CatalogEvent, more: Sequence[RecordChange] = (), **fields: Any
    ) -> CatalogChange:
        """The change of a definition to these `fields`, with an entry of the history. One that was deleted begins anew."""
        updated = fields | {"events": entry.number, "updated_at_s": self.now_s, "updated_by": self.edit.by}
        record = living(before)
        if self.edit.file:
            updated["owner"] = self.edit.file
        if record is None:
            after = DefinitionRecord(id=entry.id, slug=slug, created_at_s=self.now_s, created_by=self.edit.by, **updated)
        else:
            after = msgspec.structs.replace(record, **updated)
        records = (
            definition_change(self.tenant, 0 if before is None else before.version, after),
            EVENTS.change(self.tenant, event_key(slug, entry.number), 0, entry),
            *more,
        )
        if record is not None:
            self._expect_owner(record, after)
        return CatalogChange(before, after, records, "created" if record is None else "updated")

    def _expect_owner(self, record: DefinitionRecord, after: DefinitionRecord) -> None:
        """Checks that a definition which a watched file owns is changed by that file alone, as far as the file says what it is."""
        owned = record.owner and record.owner not in (self.edit.file, *self.edit.gone)
        if owned and (self.edit.file or any(getattr(record, name) != getattr(after, name) for name in OWNED_FIELDS)):
            raise DefinitionOwned(record.slug, record.owner)

    def entry(self, kind: CatalogEventKind, before: KeptValue[DefinitionRecord] | None, id: str = "", **fields: Any) -> CatalogEvent:
        """The next entry of the history of a definition; `id` is that of a new one."""
        record = None if before is None else before.value
        number = 1 if record is None else record.events + 1
        return CatalogEvent(number=number, kind=kind, id=id or (record.id if record else ""), at_s=self.now_s, by=self.edit.by, note=self.edit.note, **fields)


@dataclasses.dataclass(frozen=True)
class Publication:
    """A document that becomes the current version of a definition: as it was received, and as it was read. `proposal` is the id of the one that it is of."""

    read: ReadDefinition
    received: bytes
    kind: CatalogEventKind
    source: VersionSource
    part: VersionPart | None = None
    proposal: str = ""

    @property
    def declared(self) -> str:
        """The version in the document; empty if it has none."""
        return str(self.read.document.get("version", ""))


async def publish(
    moment: Moment, slug: str, before: KeptValue[DefinitionRecord] | None, made: Publication, fields: DefinitionFields, new_id: str
) -> CatalogChange:
    """Decides to make a document the current version of a definition, which is created under `new_id` if it is not there.

    A document with the hash of the current version changes nothing but `fields` and the name that it has for people.

    Raises:
        BadValue: a field, or the version that the document declares, is not valid.
    """
    record = living(before)
    hash, about = made.read.hash, made.read.canonical
    if before is not None and record is not None and record.hash == hash:
        named = fields.name is msgspec.UNSET and display_name(about)
        return edit_fields(moment, before, msgspec.structs.replace(fields, name=named) if named else fields)
    known = await VERSIONS.read(moment.store, moment.tenant, version_key(slug, hash))
    version = _version_of(before, made, known is not None)
    came_from = {} if record is None else {"from_version": record.version, "from_hash": record.hash}
    about_entry = {"version": version, "hash": hash, "source": made.source, "source_proposal_id": made.proposal}
    entry = moment.entry(made.kind, before, new_id if record is None else "", **about_entry, **came_from)
    more = [RELEASES.change(moment.tenant, f"{slug}/{version}", 0, ReleaseRecord(hash, entry.number))]
    if known is None:
        more += version_changes(moment.tenant, slug, _version_record(moment, made, version), made.received, definition_bytes(about))
    shown = document_fields(about, fields)
    change = moment.change(slug, before, entry, more, version=version, hash=hash, highest=version, declared=made.declared, **shown)
    return dataclasses.replace(change, declared=tuple(declared_triggers(about)))


def _version_of(before: KeptValue[DefinitionRecord] | None, made: Publication, is_known: bool) -> str:
    """The number of a new version. A content that was there before, or a definition that was deleted, returns under a number above all others."""
    if before is None or len(made.declared) > VERSION_CHARACTERS_MAX:
        return next_version("", made.declared, "")
    record, declared = before.value, made.declared
    returns = is_known or record.deleted_at_s is not None
    if returns and declared and record.highest and not is_above(declared, record.highest):
        declared = ""
    return next_version(record.highest, declared, "" if record.deleted_at_s is not None else record.declared, made.part)


def _version_record(moment: Moment, made: Publication, version: str) -> VersionRecord:
    return VersionRecord(
        hash=made.read.hash,
        version=version,
        source=made.source,
        by=moment.edit.by,
        at_s=moment.now_s,
        note=moment.edit.note,
        dialect=made.read.dialect,
        declared=made.declared,
        received_bytes=0,
        documents=b"",
    )


def living(before: KeptValue[DefinitionRecord] | None) -> DefinitionRecord | None:
    """The record of a definition, unless it was deleted."""
    return None if before is None or before.value.deleted_at_s is not None else before.value


def unchanged(before: KeptValue[DefinitionRecord]) -> CatalogChange:
    """Decides to change nothing."""
    return CatalogChange(before, before.value, (), "unchanged")


def edit_fields(moment: Moment, before: KeptValue[DefinitionRecord], fields: DefinitionFields) -> CatalogChange:
    """Decides to change fields of a definition, if they have other values now.

    Raises:
        BadValue: a field is not valid.
    """
    given = fields.given() | ({"owner": moment.edit.file} if moment.edit.file else {})
    new = {name: value for name, value in given.items() if value != getattr(before.value, name)}
    if not new:
        return unchanged(before)
    if new.keys() == {"enabled"}:
        return moment.change(before.key, before, moment.entry("enable" if new["enabled"] else "disable", before), **new)
    return moment.change(before.key, before, moment.entry("edit", before, changed=tuple(new)), **new)


def without_draft(change: CatalogChange, moment: Moment, draft: KeptValue[DraftRecord] | None) -> CatalogChange:
    """The change, and with it the removal of the draft, which the definition then no longer has."""
    if draft is None or change.before is None:
        return change
    after = msgspec.structs.replace(change.after, has_draft=False)
    first = definition_change(moment.tenant, change.before.version, after)
    removal = DRAFTS.change(moment.tenant, after.slug, draft.version, None)
    return dataclasses.replace(change, after=after, records=(first, *change.records[1:], removal))


Decide = Callable[[Moment], Awaitable[CatalogChange]]
"""Reads the definition as it is, and decides on a change of it."""


async def carry_out(store: Store, tenant: str, edit: Edit, decide: Decide) -> CatalogChange:
    """Decides on a change and carries it out by one post; if another change came first, decides again.

    Raises:
        StaleRecord: the definition is not at the revision that the edit names, and nothing was changed.
        BadName: the author is not valid.
        AlreadyExists, BadValue: a trigger that the definition declares can't be set up.
    """
    (change,) = await carry_out_all(store, tenant, edit, lambda moment: _one(decide, moment))
    return change


async def _one(decide: Decide, moment: Moment) -> Sequence[CatalogChange]:
    return (await decide(moment),)


async def carry_out_all(store: Store, tenant: str, edit: Edit, decide: Callable[[Moment], Awaitable[Sequence[CatalogChange]]]) -> Sequence[CatalogChange]:
    """Decides on changes of several definitions and carries all of them out by one post, or none. See `carry_out`."""
    _ = checked_name(edit.by, "by")
    for number in itertools.count(1):
        moment = Moment(store, tenant, edit, (await store.store_time()).now_s)
        found = await decide(moment)
        records = list[RecordChange]()
        for change in found:
            expect_revision("definition", change.after.slug, edit.revision, 0 if change.before is None else change.before.version)
            records += (*change.records, *(await edit.besides(change) if change.records else ()))
        triggers = await decide_triggers(moment, found)
        try:
            if records:
                await post_records(store, [*records, *triggers.records], triggers.messages)
            return found
        except StaleRecord:
            if edit.revision is not None or number == ATTEMPTS_MAX:
                raise
    raise AssertionError  # the loop has no other end, which mypy does not know


async def decide_triggers(moment: Moment, found: Sequence[CatalogChange]) -> TriggerChanges:
    """Decides what becomes of the triggers of definitions together with changes of these.

    Raises:
        AlreadyExists: the path of a webhook is that of another trigger.
        BadValue: a trigger can't be set up.
    """
    edits = [edit for change in found for edit in await _trigger_edits(moment, change)]
    return await change_triggers(moment.store, moment.tenant, edits, moment.now_s)


async def _trigger_edits(moment: Moment, change: CatalogChange) -> list[TriggerEdit]:
    """What becomes of the triggers of a definition together with it."""
    if change.declared is None and not change.deletes:
        return []
    return await declared_edits(moment.store, moment.tenant, Declaration(change.after.slug, change.declared, moment.now_s, moment.edit.by))
