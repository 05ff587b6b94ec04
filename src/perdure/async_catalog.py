"""The asyncio interface of a client to the catalog: definitions, their versions, tags and drafts, and whole sets of documents.

It holds no rules, but gives `perdure.operations.on_catalog` its typed interface. `perdure.sync_catalog` is generated from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from perdure.code.call_options import DEFAULT_TENANT
from perdure.code.declarations import checked_name
from perdure.code.durations import whole_number
from perdure.definition_workflow import Definition
from perdure.definitions.format.reference_scope import ScopedReference
from perdure.definitions.graph.shown_graph import ShownGraph
from perdure.operations import on_catalog, on_kinds
from perdure.operations.local_service import LocalService
from perdure.operations.on_catalog import NamedVersion
from perdure.service.catalog import CatalogDefinition, CheckedDocument, DocumentPreview, DraftDetails, ListedKind, RolledBack, VersionDetails, VersionDiff
from perdure.service.catalog_changes import DefinitionFields
from perdure.service.catalog_records import CatalogEvent
from perdure.service.catalog_sync import SyncDocument, SyncedDefinition, SyncResult
from perdure.service.code_workflows import ListedCodeWorkflow
from perdure.service.execution_counts import OutcomeCounts, RecentInput, WorkflowUse
from perdure.service.page_cursors import PAGE_MAX
from perdure.service.service_access import ServiceAccess
from perdure.service.version_numbers import VersionPart

Document = str | bytes | Mapping[str, Any] | Definition
"""A definition: as text in YAML or JSON, as data, or as the object that an App takes."""

Listed = list[CatalogDefinition | ListedCodeWorkflow]
Events = list[CatalogEvent]
RecentInputs = list[RecentInput]
References = list[ScopedReference]


def document_bytes(document: Document) -> bytes:
    """A document as operations take it."""
    match document:
        case bytes():
            return document
        case str():
            return document.encode()
        case Definition():
            return document.graph.definition or b""
    return msgspec.json.encode(document)


class AsyncCatalog:
    """The definitions in the catalog of a client's store. It is the client's `catalog`.

    A `definition` is named by its slug or its id, a version by a reference: ``invoice``, ``invoice@1.2.0``, ``invoice@^1``, ``invoice@sha256:…``,
    ``invoice:production``. A `document` is text in YAML or JSON, data, or a `Definition`. With a `revision`, a change happens only while the definition is at
    it. A `note` is kept in the history. To start a definition, see `AsyncClient.definition`.
    """

    def __init__(self, access: ServiceAccess) -> None:
        self._access = access

    def _service(self, tenant: str) -> LocalService:
        return LocalService(self._access, checked_name(tenant, "tenant"))

    async def list(
        self,
        text: str = "",
        *,
        tag: str = "",
        enabled: bool | None = None,
        has_draft: bool | None = None,
        kind: ListedKind | None = None,
        limit: int = 1_000,
        tenant: str = DEFAULT_TENANT,
    ) -> Listed:
        """Lists up to `limit` definitions in order of slug: those with `text` in their slug, name, description or tags, and with this `tag`.

        Behind the last one come the workflows of code that running engines declare, unless the list is of definitions with a property that code has not.
        """
        found: Listed = []
        which: dict[str, Any] = {"enabled": enabled, "has_draft": has_draft, "kind": kind}
        call, after, left = self._service(tenant), "", whole_number(limit, "limit")
        while len(found) < left:
            page = await call(on_catalog.page, tenant, text, tag, **which, limit=min(left - len(found), PAGE_MAX), after=after)
            found += page.items
            if page.next is None:
                found += page.code
                break
            after = page.next
        return found[:left]

    async def get(self, definition: str, *, tenant: str = DEFAULT_TENANT) -> CatalogDefinition:
        """A definition.

        Raises:
            NotFound: there is none.
        """
        return await self._service(tenant)(on_catalog.read, tenant, definition)

    async def version(self, reference: str, *, tenant: str = DEFAULT_TENANT) -> VersionDetails:
        """The version that a reference names, with its documents; also one of a definition that was deleted.

        Raises:
            BadValue: the text is no reference.
            NotFound, Ambiguous: it names no version, or several.
        """
        return await self._service(tenant)(on_catalog.version, tenant, reference)

    async def resolve(self, reference: str, *, tenant: str = DEFAULT_TENANT) -> NamedVersion:
        """The number and the hash of the version that a reference names at present.

        Raises:
            BadValue: the text is no reference.
            NotFound, Ambiguous: it names no version, or several.
        """
        return await self._service(tenant)(on_catalog.resolve, tenant, reference)

    async def graph(self, reference: str, *, tenant: str = DEFAULT_TENANT) -> ShownGraph:
        """The graph of the version that a reference names, as data: its plan. `AsyncHandle.graph` is that of an execution.

        Raises:
            BadValue: the text is no reference.
            NotFound, Ambiguous: it names no version, or several.
        """
        return await self._service(tenant)(on_catalog.graph, tenant, reference)

    async def history(self, definition: str, *, versions_only: bool = False, limit: int = 100, tenant: str = DEFAULT_TENANT) -> Events:
        """Lists what happened to a definition, newest first; with `versions_only`, the versions that were published. It survives a deletion.

        Raises:
            NotFound: there never was a definition of this slug.
        """
        found: Events = []
        call, before, left = self._service(tenant), None, whole_number(limit, "limit")
        while len(found) < left:
            page = await call(on_catalog.history, tenant, definition, min(left - len(found), PAGE_MAX), before, versions_only=versions_only)
            found += page.items
            if (before := page.next) is None:
                break
        return found

    async def diff(self, before: str, after: str, *, tenant: str = DEFAULT_TENANT) -> VersionDiff:
        """The differences between the versions that two references name, by the ids of their steps.

        Raises:
            BadValue: a text is no reference.
            NotFound, Ambiguous: one names no version, or several.
        """
        return await self._service(tenant)(on_catalog.diff, tenant, before, after)

    async def outcomes(self, workflows: Iterable[str], hours: int = 24, *, tenant: str = DEFAULT_TENANT) -> OutcomeCounts:
        """Counts the executions of up to 100 workflows, definitions or code, that were started within the last hours, by hour and by their present status.

        Raises:
            BadValue: there is no workflow or too many, or the number of hours is not from 1 to 168.
        """
        return await self._service(tenant)(on_catalog.outcomes, tenant, list(workflows), hours)

    async def versions_in_use(self, workflow: str, *, tenant: str = DEFAULT_TENANT) -> WorkflowUse:
        """Counts the executions of a workflow, a definition or code, that have not ended, by the version with which they began."""
        return await self._service(tenant)(on_catalog.versions_in_use, tenant, workflow)

    async def recent_inputs(self, workflow: str, limit: int = 10, *, tenant: str = DEFAULT_TENANT) -> RecentInputs:
        """The inputs of the latest executions of a workflow, a definition or code, newest first, as they are encoded: 50 at most.

        Raises:
            BadValue: the limit is not from 1 to 50.
        """
        return await self._service(tenant)(on_catalog.recent_inputs, tenant, workflow, limit)

    async def references(self, document: Document, step: str, field: str = "with", *, tenant: str = DEFAULT_TENANT) -> References:
        """The references that a field of a step of a document may use, each with the JSON Schema of its value as far as that is known.

        Raises:
            BadDefinition: the text can't be parsed.
            NotFound: it has no step of this id.
        """
        return await self._service(tenant)(on_kinds.references, document_bytes(document), step, field)

    async def validate(self, document: Document, slug: str = "", *, tenant: str = DEFAULT_TENANT) -> CheckedDocument:
        """Checks a document and returns everything that was found in it. Nothing is stored.

        Raises:
            BadName: the slug is not valid, or none can be made of the name.
            BadValue: there is no document, or it calls too much.
        """
        return await self._service(tenant)(on_catalog.validate, tenant, document_bytes(document), slug)

    async def preview(self, document: Document, slug: str = "", *, tenant: str = DEFAULT_TENANT) -> DocumentPreview:
        """Checks a document, and returns with the findings its graph, and what it changes in the current version of the definition. Nothing is stored.

        Raises:
            BadName: the slug is not valid, or none can be made of the name.
            BadValue: there is no document, or it calls too much.
        """
        return await self._service(tenant)(on_catalog.preview, tenant, document_bytes(document), slug)

    async def create(
        self,
        document: Document,
        slug: str = "",
        *,
        name: str | None = None,
        description: str | None = None,
        tags: Iterable[str] | None = None,
        enabled: bool | None = None,
        note: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> CatalogDefinition:
        """Creates a definition with a first version. Without a `slug`, one is made of the name of the document.

        Raises:
            AlreadyExists: the slug is taken.
            BadDefinition: the document is not valid; the error has all findings.
            BadName, BadValue: the slug or a field is not valid.
        """
        call = self._service(tenant)
        fields = _fields(name, description, tags, enabled)
        return await call(on_catalog.create, tenant, document_bytes(document), call.author, slug, fields=fields, note=note)

    async def update(
        self,
        definition: str,
        document: Document | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        tags: Iterable[str] | None = None,
        enabled: bool | None = None,
        part: VersionPart | None = None,
        note: str = "",
        revision: int | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> CatalogDefinition:
        """Changes the fields of a definition that are given and, with a `document`, publishes that as its new version.

        The minor version rises, or the `part` that is given, unless the document declares a version of its own.

        Raises:
            NotFound: there is no such definition.
            StaleRecord: it is not at the revision.
            BadDefinition: the document is not valid; the error has all findings.
            DefinitionOwned: a watched file has the definition.
            BadName, BadValue: a field is not valid, or the document declares a version that is not above the highest.
        """
        call, raw = self._service(tenant), None if document is None else document_bytes(document)
        fields = _fields(name, description, tags, enabled)
        return await call(on_catalog.update, tenant, definition, call.author, raw, fields=fields, part=part, note=note, revision=revision)

    async def delete(self, definition: str, *, note: str = "", revision: int | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """Deletes a definition and its draft. Its versions and its history are kept, and executions go on.

        Raises:
            NotFound: there is no such definition.
            StaleRecord: it is not at the revision.
            DefinitionOwned: a watched file has the definition.
        """
        call = self._service(tenant)
        await call(on_catalog.delete, tenant, definition, call.author, note, revision=revision)

    async def release(self, definition: str, *, note: str = "", revision: int | None = None, tenant: str = DEFAULT_TENANT) -> CatalogDefinition:
        """Takes a definition from the watched file that owns it, so that it can be changed by other means.

        Raises:
            NotFound: there is no such definition.
            StaleRecord: it is not at the revision.
        """
        call = self._service(tenant)
        return await call(on_catalog.release, tenant, definition, call.author, note, revision=revision)

    async def roll_back(self, definition: str, version: str, *, note: str = "", revision: int | None = None, tenant: str = DEFAULT_TENANT) -> RolledBack:
        """Makes an earlier version current again, named by its hash or its number. It gets a number above the highest.

        Raises:
            NotFound, Ambiguous: there is no such definition or version, or several versions have a hash that begins so.
            StaleRecord: the definition is not at the revision.
            BadDefinition: the version is not valid here any more.
            DefinitionOwned: a watched file has the definition.
        """
        call = self._service(tenant)
        return await call(on_catalog.roll_back, tenant, definition, call.author, version, note=note, revision=revision)

    async def move_tag(
        self, definition: str, tag: str, version: str = "", *, note: str = "", revision: int | None = None, tenant: str = DEFAULT_TENANT
    ) -> CatalogDefinition:
        """Has a tag name a version, given by its number, a range or its hash (default: the current one).

        Raises:
            NotFound, Ambiguous: there is no such definition or version, or several versions have a hash that begins so.
            StaleRecord: the definition is not at the revision.
            BadValue: the tag is not valid, or there are too many tags.
        """
        call = self._service(tenant)
        return await call(on_catalog.move_tag, tenant, definition, tag, call.author, version, note=note, revision=revision)

    async def remove_tag(self, definition: str, tag: str, *, note: str = "", revision: int | None = None, tenant: str = DEFAULT_TENANT) -> CatalogDefinition:
        """Removes a tag. The version that it named stays.

        Raises:
            NotFound: there is no such definition or tag.
            StaleRecord: the definition is not at the revision.
        """
        call = self._service(tenant)
        return await call(on_catalog.remove_tag, tenant, definition, tag, call.author, note=note, revision=revision)

    async def draft(self, definition: str, *, tenant: str = DEFAULT_TENANT) -> DraftDetails:
        """The draft of a definition. `update` with its document publishes it, which removes the draft.

        Raises:
            NotFound: there is no such definition, or it has no draft.
        """
        return await self._service(tenant)(on_catalog.draft, tenant, definition)

    async def save_draft(self, definition: str, document: Document, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> CatalogDefinition:
        """Keeps a document that need not be valid as the draft; without a definition of this slug, creates one that has only a draft.

        Raises:
            StaleRecord: the definition is not at the revision.
            DefinitionOwned: a watched file has the definition.
            BadName, BadValue: the slug is not valid, or the document is not in UTF-8, or larger than 512 KiB.
        """
        call = self._service(tenant)
        return await call(on_catalog.save_draft, tenant, definition, document_bytes(document), call.author, revision=revision)

    async def discard_draft(self, definition: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> CatalogDefinition:
        """Removes the draft of a definition.

        Raises:
            NotFound: there is no such definition, or it has no draft.
            StaleRecord: it is not at the revision.
            DefinitionOwned: a watched file has the definition.
        """
        call = self._service(tenant)
        return await call(on_catalog.discard_draft, tenant, definition, call.author, revision=revision)

    async def sync(self, document: Document, slug: str = "", *, note: str = "", tenant: str = DEFAULT_TENANT) -> SyncedDefinition:
        """Creates a definition from a document that is kept elsewhere, or makes it the current version. Repeating it changes nothing.

        Raises:
            BadDefinition: the document is not valid; the error has all findings.
            DefinitionOwned: a watched file has the definition.
            BadName, BadValue: the slug is not valid, or the document declares a version that is not above the highest.
        """
        call = self._service(tenant)
        return await call(on_catalog.sync, tenant, document_bytes(document), call.author, slug, note=note)

    async def sync_all(
        self,
        documents: Mapping[str, Document],
        *,
        delete: bool = False,
        expect: int | None = None,
        keep: bool = False,
        note: str = "",
        tenant: str = DEFAULT_TENANT,
    ) -> SyncResult:
        """Brings the catalog to the state of a set of documents by slug: syncs each, and deletes all other definitions, or with `keep` none, in one change.

        Without `keep`, it is a dry run unless `delete` is true; then `expect` is the number of definitions that are to be deleted.

        Raises:
            BadDefinition: a document is not valid; the error has the findings of all.
            BadValue: another number of definitions would be deleted, or there are too many.
            BadName: a slug is not valid.
            DefinitionOwned: a file has one of the definitions that would change.
        """
        call, wanted = self._service(tenant), [SyncDocument(document_bytes(one), slug) for slug, one in documents.items()]
        return await call(on_catalog.sync_all, tenant, wanted, call.author, delete=delete, expect=expect, keep=keep, note=note)


def _fields(name: str | None, description: str | None, tags: Iterable[str] | None, enabled: bool | None) -> DefinitionFields:
    given = {"name": name, "description": description, "tags": None if tags is None else tuple(tags), "enabled": enabled}
    return DefinitionFields(**{field: value for field, value in given.items() if value is not None})  # type: ignore[arg-type]  # of the type of each field
