"""The catalog: creates, changes, deletes and rolls back definitions, moves their tags, and reads their versions and histories.

Each change is one post (see `perdure.service.catalog_changes`), so it happens entirely or not at all.
"""

import asyncio
import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal
from uuid import uuid4

import msgspec

from perdure.code.declarations import Step
from perdure.core.attribute_filter import attribute_conditions
from perdure.core.errors import AlreadyExists, BadDefinition, BadValue, NotFound
from perdure.core.program import CATALOG_PROGRAM
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.format.compiler import compile_definition
from perdure.definitions.format.definition_diff import DefinitionChange, definition_changes, render_changes
from perdure.definitions.format.definition_findings import DefinitionFinding, error_finding
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.shown_graph import ShownGraph, shown_graph
from perdure.definitions.kinds import config_checks
from perdure.definitions.kinds.config_checks import NO_TOOLS
from perdure.definitions.kinds.tool_argument_checks import argument_findings
from perdure.dialects.definition_reader import ReadDefinition
from perdure.service import catalog_changes as changes
from perdure.service.catalog_calls import CallingDefinition, find_calls
from perdure.service.catalog_changes import NO_FIELDS, CatalogChange, DefinitionFields, Edit, Moment, Publication
from perdure.service.catalog_records import (
    DEFINITIONS,
    DRAFTS,
    EVENTS,
    PUBLISHING,
    RELEASES,
    CatalogEvent,
    DefinitionRecord,
    DraftRecord,
    ReleaseRecord,
    VersionRecord,
    VersionSource,
    VersionTag,
    event_key,
    read_documents,
)
from perdure.service.catalog_references import TAG, ResolvedVersion, find_definition, find_version, is_hash, resolve_reference
from perdure.service.code_workflows import ListedCodeWorkflow, list_code_workflows
from perdure.service.record_kinds import PAGE, KeptValue
from perdure.service.slugs import checked_slug, slug_of_name
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.trigger_specs import declared_triggers
from perdure.service.version_numbers import VersionPart, is_version, raised
from perdure.service.wire_types import DocumentText, Version
from perdure.stores.records import PagePosition

DRAFT_BYTES_MAX = 512 * 1024
VERSION_TAGS_MAX = 100
SCANNED_MAX = 2_000
"""How many records one page of a search looks at. The page may then be short, and the next one goes on behind them."""


ListedKind = Literal["definition", "code"]
"""What a list has: definitions of the catalog, or workflows of code that engines declare."""


class CatalogDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A definition of the catalog. `revision` counts its changes: a change can be made on the condition that it is still the same.

    `version` and `hash` are of the current version, empty while there is only a draft. `version_tags` are the versions that tags name. `owner` is the watched
    file that has the document (empty: none), where it is changed. Times are seconds since 1970.
    """

    id: str
    slug: str
    name: str
    description: str
    tags: tuple[str, ...]
    enabled: bool
    version: str
    hash: str
    version_tags: dict[str, VersionTag]
    has_draft: bool
    revision: Version
    created_at_s: float
    created_by: str
    updated_at_s: float
    updated_by: str
    owner: str = ""
    kind: Literal["definition"] = "definition"


class DefinitionPage(msgspec.Struct, frozen=True):
    """A page of a list of definitions, and the slug behind which the next one begins (None: this was the last).

    The last page also has the workflows of `code` that running engines declare, if the list is of everything, or of what has a text.
    """

    items: list[CatalogDefinition]
    next: str | None = None
    code: list[ListedCodeWorkflow] = []


class EventPage(msgspec.Struct, frozen=True):
    """A page of a history, newest first, and the number of the entry before which the next one begins (None: this was the last)."""

    items: list[CatalogEvent]
    next: int | None = None


class VersionDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a definition with its documents: as it was received, as text, and its canonical form, as JSON.

    `source`, `by`, `note` and `at_s` are of the first publication of this content, under the number `first_version`. `input_schema` is the JSON Schema of the
    input, as an object of inputs by name.
    """

    slug: str
    version: str
    hash: str
    first_version: str
    source: VersionSource
    by: str
    at_s: float
    note: str
    dialect: str
    received: str
    canonical: bytes
    input_schema: dict[str, Any]


class DraftDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A document that is being edited. It need not be valid. `base` is the hash of the version that it began with (empty: none), and `revision` that of its
    definition, which a change can be made on the condition of.
    """

    document: DocumentText
    base: str
    at_s: float
    by: str
    revision: Version


class VersionDiff(msgspec.Struct, frozen=True):
    """The changes that lead from one version to another, as data and as text."""

    before: str
    after: str
    changes: list[DefinitionChange]
    text: str


class RolledBack(msgspec.Struct, frozen=True):
    """A definition after a rollback, and whether it was at that version already, so that nothing was changed."""

    definition: CatalogDefinition
    already_at_version: bool


class CheckedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a document would be in the catalog, and everything that was found in it. Without a `hash` it is not valid."""

    valid: bool
    findings: list[DefinitionFinding]
    slug: str = ""
    name: str = ""
    version: str = ""
    hash: str = ""
    dialect: str = ""


class DocumentPreview(CheckedDocument, frozen=True, kw_only=True):
    """A checked document with its `graph` (None: it is not valid), and the `changes` that lead to it from the current version of the definition, which is
    `before` (empty: there is none), as data and as text.
    """

    graph: ShownGraph | None = None
    before: str = ""
    changes: list[DefinitionChange] = []
    changes_text: str = ""


# Documents


def received_bytes(document: bytes) -> bytes:
    """A document as it was received: a text in JSON or YAML, or such a text as a string in JSON.

    Raises:
        BadValue: there is none.
    """
    text = document.strip()
    if text.startswith(b'"'):
        with suppress(msgspec.DecodeError):  # then it is YAML that begins with a quote
            document = msgspec.json.decode(text, type=str).encode()
    if not document.strip():
        raise BadValue("document", "", "a definition in YAML or JSON")
    return document


async def read_document(document: bytes, name: str = "", tools: Mapping[str, Step[Any, Any, Any]] = NO_TOOLS) -> ReadDefinition:
    """Reads and checks a document. `name` applies if it has none. Arguments for these `tools` are held against what they take.

    Raises:
        BadDefinition: it is not valid; the error has all findings.
    """
    more = partial(argument_findings, tools=tools, are_all=False)  # engines that do not run now may have others
    return await asyncio.to_thread(config_checks.read_checked, document, name, more=more)


async def read_with_slug(document: bytes, slug: str, name: str = "", tools: Mapping[str, Step[Any, Any, Any]] = NO_TOOLS) -> tuple[ReadDefinition, str]:
    """Reads and checks a document, and finds its slug: the given one, or else one that is made of its name. `name` applies if it has none.

    Raises:
        BadDefinition: it is not valid; the error has all findings.
        BadName: the slug is not valid, or none can be made of the name.
    """
    given = checked_slug(slug) if slug else ""
    read = await read_document(document, given or name, tools)
    return read, given or slug_of_name(str(read.canonical["name"]))


async def check_document(access: StoreAccess, tenant: str, document: bytes, slug: str = "") -> CheckedDocument:
    """Checks a document and stores nothing. Calls that name nothing at present are warnings, and so are calls that lead in a circle.

    Raises:
        BadName: the slug is not valid, or none can be made of the name.
        BadValue: there is no document, or it calls too much.
    """
    return (await _checked(access, tenant, document, slug))[0]


async def preview_document(access: StoreAccess, tenant: str, document: bytes, slug: str = "") -> DocumentPreview:
    """Checks a document, as `check_document` does, and draws its graph and what it changes in the current version. Nothing is stored.

    Raises:
        BadName: the slug is not valid, or none can be made of the name.
        BadValue: there is no document, or it calls too much.
    """
    checked, read = await _checked(access, tenant, document, slug)
    fields = msgspec.structs.asdict(checked)
    if not checked.valid or read is None:
        return DocumentPreview(**fields)
    graph = await asyncio.to_thread(lambda: shown_graph(compile_definition(read.canonical)))
    record = changes.living(await DEFINITIONS.read(access.store, tenant, checked.slug))
    if record is None or not record.hash:
        return DocumentPreview(**fields, graph=graph)
    current = f"{record.slug}@{record.version}"
    _, _, _, old = await load_version(access, tenant, current)
    found = await asyncio.to_thread(definition_changes, msgspec.json.decode(old), read.canonical)
    return DocumentPreview(**fields, graph=graph, before=current, changes=found, changes_text=render_changes(found))


def _tools_here(access: StoreAccess) -> Mapping[str, Step[Any, Any, Any]]:
    """The tools that definitions of the catalog have in the engine of this process, if it has one."""
    host = None if access.engine is None else access.engine.known.get(CATALOG_PROGRAM)
    return host.tools if isinstance(host, GraphWorkflow) else NO_TOOLS


def _planned(slug: str, canonical: dict[str, Any]) -> CallingDefinition:
    """Returns a definition whose calls are looked for, once its plan is among the cached ones: for a large definition, making it takes a while."""
    found = CallingDefinition(slug, "", definition_bytes(canonical))
    _ = found.ir
    return found


async def _checked(access: StoreAccess, tenant: str, document: bytes, slug: str) -> tuple[CheckedDocument, ReadDefinition | None]:
    """What was found in a document, and what it says; None if it can't be read."""
    try:
        read, found = await read_with_slug(received_bytes(document), slug, tools=_tools_here(access))
    except BadDefinition as error:
        return CheckedDocument(valid=False, findings=list(error.findings), slug=slug), None
    about = read.canonical
    try:
        _ = declared_triggers(about)
    except BadValue as error:
        refused = error_finding("bad_trigger", error.what.removeprefix("/document"), str(error))
        return CheckedDocument(valid=False, findings=[*read.findings, refused], slug=found), read
    try:
        name = changes.document_fields(about)["name"]
    except BadValue as error:
        refused = error_finding("bad_tags", "/tags", str(error))
        return CheckedDocument(valid=False, findings=[*read.findings, refused], slug=found), read
    version = str(about.get("version", "1.0.0"))
    calls = await find_calls(access, tenant, await asyncio.to_thread(_planned, found, about))
    findings = [*read.findings, *(msgspec.structs.replace(one, severity="warning") for one in calls.unresolved), *calls.circles]
    checked = CheckedDocument(valid=True, findings=findings, slug=found, name=name, version=version, hash=read.hash, dialect=read.dialect)
    return checked, read


# Changes


async def create_definition(
    access: StoreAccess, tenant: str, document: bytes, edit: Edit, slug: str = "", fields: DefinitionFields = NO_FIELDS, *, source: VersionSource = "update"
) -> CatalogDefinition:
    """Creates a definition with a first version. Without a `slug`, one is made of the name of the document.

    Raises:
        AlreadyExists: the slug is taken.
        BadDefinition: the document is not valid; the error has all findings.
        BadName, BadValue: the slug, the author or a field is not valid.
    """
    received = received_bytes(document)
    read, slug = await read_with_slug(received, slug)

    async def decide(moment: Moment) -> CatalogChange:
        before = await DEFINITIONS.read(access.store, tenant, slug)
        if changes.living(before) is not None:
            raise AlreadyExists(slug, f"the slug {slug!r} is taken. Give the new definition another one, or update the definition that has it")
        return await changes.publish(moment, slug, before, Publication(read, received, "create", source), fields, str(uuid4()))

    return shown_definition(await changes.carry_out(access.store, tenant, edit, decide))


async def update_definition(
    access: StoreAccess,
    tenant: str,
    which: str,
    edit: Edit,
    document: bytes | None = None,
    *,
    fields: DefinitionFields = NO_FIELDS,
    part: VersionPart | None = None,
    source: VersionSource = "update",
) -> CatalogDefinition:
    """Changes fields of a definition and, with a `document`, publishes that as its new version. `part` says which part of the version number rises.

    A document with the hash of the current version publishes nothing. A draft is removed when a new version is published.

    Raises:
        NotFound: there is no such definition.
        StaleRecord: it is not at the revision that the edit names.
        BadDefinition: the document is not valid; the error has all findings.
        BadName, BadValue: a field or the author is not valid, or the document declares a version that is not above the highest.
    """
    received = None if document is None else received_bytes(document)

    async def decide(moment: Moment) -> CatalogChange:
        before = await find_definition(access.store, tenant, which)
        if received is None:
            return changes.edit_fields(moment, before, fields)
        read = await read_document(received, before.key)
        change = await changes.publish(moment, before.key, before, Publication(read, received, "update", source, part), fields, "")
        draft = await DRAFTS.read(access.store, tenant, before.key) if before.value.has_draft and change.after.hash != before.value.hash else None
        return changes.without_draft(change, moment, draft)

    return shown_definition(await changes.carry_out(access.store, tenant, edit, decide))


async def delete_definition(access: StoreAccess, tenant: str, which: str, edit: Edit) -> None:
    """Deletes a definition and its draft. Its versions and its history are kept; executions go on.

    Raises:
        NotFound: there is no such definition.
        StaleRecord: it is not at the revision that the edit names.
    """

    async def decide(moment: Moment) -> CatalogChange:
        return await deletion(moment, await find_definition(access.store, tenant, which))

    _ = await changes.carry_out(access.store, tenant, edit, decide)


async def release_definition(access: StoreAccess, tenant: str, which: str, edit: Edit) -> CatalogDefinition:
    """Takes a definition from the watched file that owns it, so that it can be changed by other means. Changes nothing if no file does.

    Raises:
        NotFound: there is no such definition.
        StaleRecord: it is not at the revision that the edit names.
    """

    async def decide(moment: Moment) -> CatalogChange:
        before = await find_definition(access.store, tenant, which)
        if not before.value.owner:
            return changes.unchanged(before)
        return moment.change(before.key, before, moment.entry("edit", before, changed=("owner",)), owner="")

    return shown_definition(await changes.carry_out(access.store, tenant, edit, decide))


async def deletion(moment: Moment, before: KeptValue[DefinitionRecord]) -> CatalogChange:
    """Decides to delete a definition."""
    draft = await DRAFTS.read(moment.store, moment.tenant, before.key) if before.value.has_draft else None
    entry = moment.entry("delete", before, from_version=before.value.version, from_hash=before.value.hash)
    change = moment.change(before.key, before, entry, deleted_at_s=moment.now_s)
    return changes.without_draft(change, moment, draft)


async def roll_back(access: StoreAccess, tenant: str, which: str, target: str, edit: Edit) -> RolledBack:
    """Makes an earlier version current again, named by its hash or its number. It gets a number above the highest.

    Raises:
        NotFound, Ambiguous: there is no such definition or version, or several versions have a hash that begins so.
        StaleRecord: the definition is not at the revision that the edit names.
        BadDefinition: the version is not valid here any more, for instance because it has no steps.
        BadValue: its document has tags that are not valid.
    """

    async def decide(moment: Moment) -> CatalogChange:
        before = await find_definition(access.store, tenant, which)
        record = before.value
        hash = await _target_hash(access, tenant, record, target)
        if hash == record.hash:
            return changes.unchanged(before)
        version = await find_version(access.store, tenant, record, hash)
        received, canonical = await read_documents(access.store, tenant, record.slug, version)
        about = (await read_document(canonical)).canonical | await _editor_fields(received, record.slug)
        number = raised(record.highest, "minor")
        came_from = {"from_version": record.version, "from_hash": record.hash}
        entry = moment.entry("rollback", before, version=number, hash=hash, source="rollback", **came_from)
        more = [RELEASES.change(tenant, f"{record.slug}/{number}", 0, ReleaseRecord(hash, entry.number))]
        shown = changes.document_fields(about)
        change = moment.change(record.slug, before, entry, more, version=number, hash=hash, highest=number, declared=version.declared, **shown)
        return dataclasses.replace(change, declared=tuple(declared_triggers(about)))

    change = await changes.carry_out(access.store, tenant, edit, decide)
    return RolledBack(shown_definition(change), change.outcome == "unchanged")


async def _editor_fields(received: bytes, slug: str) -> dict[str, Any]:
    """The `ui` of a document as it was received, which its stored canonical form does not have; none if it can't be read any more."""
    with suppress(BadDefinition):
        return {"ui": (await read_document(received, slug)).canonical.get("ui", {})}
    return {}


async def _target_hash(access: StoreAccess, tenant: str, record: DefinitionRecord, target: str) -> str:
    if not is_version(target):
        if not is_hash(target):
            raise BadValue("target", target, "the number of a version, such as 1.2.0, or the hash of one")
        return (await find_version(access.store, tenant, record, target)).hash
    return (await resolve_reference(access.store, tenant, f"{record.slug}@{target}")).hash


async def move_tag(access: StoreAccess, tenant: str, which: str, tag: str, edit: Edit, version: str | None = "") -> CatalogDefinition:
    """Has a tag name a version, given by its number, a range or its hash (empty: the current one); None removes the tag.

    Raises:
        NotFound: there is no such definition, version or tag.
        StaleRecord: the definition is not at the revision that the edit names.
        BadValue: the tag is not valid, or there are too many.
    """
    if not TAG.fullmatch(tag):
        raise BadValue("tag", tag, "1 to 63 of the characters a-z, 0-9, _, . and -, beginning with a letter")

    async def decide(moment: Moment) -> CatalogChange:
        before = await find_definition(access.store, tenant, which)
        record = before.value
        was = record.version_tags.get(tag)
        came_from = {} if was is None else {"from_version": was.version, "from_hash": was.hash}
        if version is None:
            if was is None:
                raise NotFound(tag, f"{record.slug} has no tag {tag!r}. Its tags are: {', '.join(sorted(record.version_tags)) or 'none'}")
            left = {name: one for name, one in record.version_tags.items() if name != tag}
            return moment.change(record.slug, before, moment.entry("untag", before, tag=tag, **came_from), version_tags=left)
        found = await resolve_reference(access.store, tenant, f"{record.slug}@{version}" if version else record.slug)
        new = VersionTag(found.version, found.hash)
        if new == was:
            return changes.unchanged(before)
        tags = dict(sorted({**record.version_tags, tag: new}.items()))
        if len(tags) > VERSION_TAGS_MAX:
            raise BadValue("how many tags of versions", len(tags), f"at most {VERSION_TAGS_MAX}; remove some")
        entry = moment.entry("tag", before, tag=tag, version=new.version, hash=new.hash, **came_from)
        return moment.change(record.slug, before, entry, version_tags=tags)

    return shown_definition(await changes.carry_out(access.store, tenant, edit, decide))


async def save_draft(access: StoreAccess, tenant: str, slug: str, document: bytes, edit: Edit) -> CatalogDefinition:
    """Keeps a document that need not be valid beside the current version; without a definition of this slug, creates one that has only a draft.

    Raises:
        StaleRecord: the definition is not at the revision that the edit names.
        BadName, BadValue: the slug or the author is not valid, or the document is not in UTF-8, or larger than 512 KiB.
    """
    _ = checked_slug(slug)
    try:
        _ = document.decode()
    except UnicodeDecodeError as error:
        raise BadValue("draft", document[:40], f"text in UTF-8: byte {error.start} is not") from None
    if len(document) > DRAFT_BYTES_MAX:
        raise BadValue("draft", f"{len(document):,} bytes", f"at most {DRAFT_BYTES_MAX:,}; publish larger documents, or make it smaller")

    async def decide(moment: Moment) -> CatalogChange:
        before = await DEFINITIONS.read(access.store, tenant, slug)
        record = changes.living(before)
        kept = None if record is None or not record.has_draft else await DRAFTS.read(access.store, tenant, slug)
        draft = DraftRecord(document=document, base="" if record is None else record.hash, at_s=moment.now_s, by=edit.by)
        saved = DRAFTS.change(tenant, slug, 0 if kept is None else kept.version, draft)
        own: dict[str, Any] = {} if record is not None else {"name": slug, "highest": "" if before is None else before.value.highest}
        entry = moment.entry("edit", before, "" if record is not None else str(uuid4()), changed=("draft",))
        return moment.change(slug, before, entry, [saved], has_draft=True, **own)

    return shown_definition(await changes.carry_out(access.store, tenant, edit, decide))


async def discard_draft(access: StoreAccess, tenant: str, which: str, edit: Edit) -> CatalogDefinition:
    """Removes the draft of a definition.

    Raises:
        NotFound: there is no such definition, or it has no draft.
        StaleRecord: it is not at the revision that the edit names.
    """

    async def decide(moment: Moment) -> CatalogChange:
        before = await find_definition(access.store, tenant, which)
        draft = await _expected_draft(access, tenant, before.value)
        change = moment.change(before.key, before, moment.entry("edit", before, changed=("draft",)))
        return changes.without_draft(change, moment, draft)

    return shown_definition(await changes.carry_out(access.store, tenant, edit, decide))


async def read_draft(access: StoreAccess, tenant: str, which: str) -> DraftDetails:
    """The draft of a definition. It is published by `update_definition` with its document, which removes it.

    Raises:
        NotFound: there is no such definition, or it has no draft.
    """
    found = await find_definition(access.store, tenant, which)
    draft = (await _expected_draft(access, tenant, found.value)).value
    return DraftDetails(document=draft.document, base=draft.base, at_s=draft.at_s, by=draft.by, revision=found.version)


async def _expected_draft(access: StoreAccess, tenant: str, record: DefinitionRecord) -> KeptValue[DraftRecord]:
    draft = await DRAFTS.read(access.store, tenant, record.slug) if record.has_draft else None
    if draft is None:
        raise NotFound(record.slug, f"{record.slug} has no draft")
    return draft


# Reads


def shown_definition(change: CatalogChange) -> CatalogDefinition:
    """A definition after a change."""
    return _view(change.after, change.revision)


def _view(record: DefinitionRecord, revision: int) -> CatalogDefinition:
    fields: Mapping[str, Any] = msgspec.structs.asdict(record)
    return CatalogDefinition(revision=revision, **{name: fields[name] for name in CatalogDefinition.__struct_fields__ if name in fields})


async def read_definition(access: StoreAccess, tenant: str, which: str) -> CatalogDefinition:
    """A definition, by its slug or its id.

    Raises:
        NotFound: there is none.
    """
    found = await find_definition(access.store, tenant, which)
    return _view(found.value, found.version)


async def list_definitions(
    access: StoreAccess,
    tenant: str,
    text: str = "",
    tag: str = "",
    *,
    enabled: bool | None = None,
    has_draft: bool | None = None,
    kind: ListedKind | None = None,
    limit: int = 100,
    after: str = "",
) -> DefinitionPage:
    """Lists definitions in order of slug, behind `after`: those with `text` in their slug, name, description or tags, whatever its case, and with this tag.

    The workflows of code that running engines declare come with the last page, unless the list is of definitions with a property that code has not. A page
    with a `next` may have fewer than `limit` items, when few match.
    """
    page = DefinitionPage([])
    if kind != "code":
        page = await _page_of_definitions(access, tenant, (text, tag, enabled, has_draft), limit, after)
    if page.next is not None or kind == "definition" or tag or enabled is not None or has_draft is not None:
        return page
    return msgspec.structs.replace(page, code=await list_code_workflows(access, tenant, text))


async def _page_of_definitions(access: StoreAccess, tenant: str, which: tuple[str, str, bool | None, bool | None], limit: int, after: str) -> DefinitionPage:
    text, tag, enabled, has_draft = which
    where = {"listed": True} | ({"tag": tag} if tag else {}) | ({} if enabled is None else {"enabled": enabled})
    wanted, items, scanned = text.casefold(), list[CatalogDefinition](), 0
    while scanned < SCANNED_MAX:
        size = min(PAGE, SCANNED_MAX - scanned) if wanted or has_draft is not None else limit
        behind = PagePosition(DEFINITIONS.key(tenant, after)) if after else None
        found = await DEFINITIONS.page(access.store, tenant, where=attribute_conditions(where), after=behind, limit=size)
        for one in found:
            after = one.key
            if has_draft not in (None, one.value.has_draft):
                continue
            if wanted in "\n".join((one.value.slug, one.value.name, one.value.description, *one.value.tags)).casefold():
                items.append(_view(one.value, one.version))
                if len(items) == limit:
                    return DefinitionPage(items, after)
        scanned += size
        if len(found) < size:
            return DefinitionPage(items)
    return DefinitionPage(items, after)


async def read_history(access: StoreAccess, tenant: str, which: str, limit: int = 100, before: int | None = None, *, versions_only: bool = False) -> EventPage:
    """Lists what happened to a definition, newest first, before entry `before`; with `versions_only`, the publications of versions.

    The history stays after the definition was deleted. A page with a `next` may have fewer than `limit` items, when few are publications.

    Raises:
        NotFound: there is no definition of this slug, and never was.
    """
    slug = (await find_definition(access.store, tenant, which, deleted=True)).key
    items, scanned = list[CatalogEvent](), 0
    size = max(limit, PAGE) if versions_only else limit
    while scanned < SCANNED_MAX:
        behind = None if before is None else PagePosition(EVENTS.key(tenant, event_key(slug, before)))
        found = await EVENTS.page(access.store, tenant, f"{slug}/", after=behind, limit=size)
        for one in found:
            before = one.value.number
            if not versions_only or one.value.kind in PUBLISHING:
                items.append(one.value)
                if len(items) == limit:
                    return EventPage(items, before)
        scanned += size
        if len(found) < size:
            return EventPage(items)
    return EventPage(items, before)


async def read_version(access: StoreAccess, tenant: str, reference: str) -> VersionDetails:
    """The version that a reference names, with its documents. Versions of a definition that was deleted are found as well.

    Raises:
        BadValue: the text is no reference.
        NotFound, Ambiguous: it names no version, or several.
    """
    resolved, version, received, canonical = await load_version(access, tenant, reference)
    return VersionDetails(
        slug=resolved.definition.slug,
        version=resolved.version,
        hash=version.hash,
        first_version=version.version,
        source=version.source,
        by=version.by,
        at_s=version.at_s,
        note=version.note,
        dialect=version.dialect,
        received=received.decode(),
        canonical=canonical,
        input_schema=input_schema(msgspec.json.decode(canonical)),
    )


def input_schema(canonical: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of the input of a definition: an object of inputs by name, of which those without a default are required."""
    inputs: dict[str, Any] = canonical.get("input") or {}
    required = [name for name, about in inputs.items() if not (isinstance(about, Mapping) and "default" in about)]
    return {"type": "object", "properties": inputs, "required": required}


async def load_version(access: StoreAccess, tenant: str, reference: str) -> tuple[ResolvedVersion, VersionRecord, bytes, bytes]:
    """The version that a reference names, as it is stored, and its documents: as received, and canonical. See `read_version`."""
    resolved = await resolve_reference(access.store, tenant, reference, deleted=True)
    version = await find_version(access.store, tenant, resolved.definition, resolved.hash)
    return resolved, version, *await read_documents(access.store, tenant, resolved.definition.slug, version)


async def diff_versions(access: StoreAccess, tenant: str, before: str, after: str) -> VersionDiff:
    """The differences between the versions that two references name, by the ids of their steps. There are none exactly if their hashes are equal.

    Raises:
        BadValue: a text is no reference.
        NotFound, Ambiguous: one names no version, or several.
    """
    one, _, _, old = await load_version(access, tenant, before)
    other, _, _, new = await load_version(access, tenant, after)
    found = await asyncio.to_thread(definition_changes, msgspec.json.decode(old), msgspec.json.decode(new))
    names = [f"{side.definition.slug}@{side.version}" for side in (one, other)]
    return VersionDiff(names[0], names[1], found, render_changes(found))
