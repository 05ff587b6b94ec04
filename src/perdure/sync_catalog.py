"""The catalog of a client of sync programs.

Made from `perdure.async_catalog` by ``python -m tools.make_sync``, but for what that leaves alone: change the async methods, and run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure.async_catalog import AsyncCatalog, Document, Events, Listed, RecentInputs, References
from perdure.code.call_options import DEFAULT_TENANT
from perdure.definitions.graph.shown_graph import ShownGraph
from perdure.loop_thread import LoopThread
from perdure.operations.on_catalog import NamedVersion
from perdure.service.catalog import CatalogDefinition, CheckedDocument, DocumentPreview, DraftDetails, ListedKind, RolledBack, VersionDetails, VersionDiff
from perdure.service.catalog_sync import SyncedDefinition, SyncResult
from perdure.service.execution_counts import OutcomeCounts, WorkflowUse
from perdure.service.version_numbers import VersionPart


class Catalog:
    """The definitions in the catalog of a client's store. See `AsyncCatalog`."""

    def __init__(self, thread: LoopThread, inner: AsyncCatalog) -> None:
        self._thread = thread
        self._inner = inner

    def list(
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
        return self._thread.call(self._inner.list(text, tag=tag, enabled=enabled, has_draft=has_draft, kind=kind, limit=limit, tenant=tenant))

    def get(self, definition: str, *, tenant: str = DEFAULT_TENANT) -> CatalogDefinition:
        """A definition.

        Raises:
            NotFound: there is none.
        """
        return self._thread.call(self._inner.get(definition, tenant=tenant))

    def version(self, reference: str, *, tenant: str = DEFAULT_TENANT) -> VersionDetails:
        """The version that a reference names, with its documents; also one of a definition that was deleted.

        Raises:
            BadValue: the text is no reference.
            NotFound, Ambiguous: it names no version, or several.
        """
        return self._thread.call(self._inner.version(reference, tenant=tenant))

    def resolve(self, reference: str, *, tenant: str = DEFAULT_TENANT) -> NamedVersion:
        """The number and the hash of the version that a reference names at present.

        Raises:
            BadValue: the text is no reference.
            NotFound, Ambiguous: it names no version, or several.
        """
        return self._thread.call(self._inner.resolve(reference, tenant=tenant))

    def graph(self, reference: str, *, tenant: str = DEFAULT_TENANT) -> ShownGraph:
        """The graph of the version that a reference names, as data: its plan. `Handle.graph` is that of an execution.

        Raises:
            BadValue: the text is no reference.
            NotFound, Ambiguous: it names no version, or several.
        """
        return self._thread.call(self._inner.graph(reference, tenant=tenant))

    def history(self, definition: str, *, versions_only: bool = False, limit: int = 100, tenant: str = DEFAULT_TENANT) -> Events:
        """Lists what happened to a definition, newest first; with `versions_only`, the versions that were published. It survives a deletion.

        Raises:
            NotFound: there never was a definition of this slug.
        """
        return self._thread.call(self._inner.history(definition, versions_only=versions_only, limit=limit, tenant=tenant))

    def diff(self, before: str, after: str, *, tenant: str = DEFAULT_TENANT) -> VersionDiff:
        """The differences between the versions that two references name, by the ids of their steps.

        Raises:
            BadValue: a text is no reference.
            NotFound, Ambiguous: one names no version, or several.
        """
        return self._thread.call(self._inner.diff(before, after, tenant=tenant))

    def outcomes(self, workflows: Iterable[str], hours: int = 24, *, tenant: str = DEFAULT_TENANT) -> OutcomeCounts:
        """Counts the executions of up to 100 workflows, definitions or code, that were started within the last hours, by hour and by their present status.

        Raises:
            BadValue: there is no workflow or too many, or the number of hours is not from 1 to 168.
        """
        return self._thread.call(self._inner.outcomes(workflows, hours, tenant=tenant))

    def versions_in_use(self, workflow: str, *, tenant: str = DEFAULT_TENANT) -> WorkflowUse:
        """Counts the executions of a workflow, a definition or code, that have not ended, by the version with which they began."""
        return self._thread.call(self._inner.versions_in_use(workflow, tenant=tenant))

    def recent_inputs(self, workflow: str, limit: int = 10, *, tenant: str = DEFAULT_TENANT) -> RecentInputs:
        """The inputs of the latest executions of a workflow, a definition or code, newest first, as they are encoded: 50 at most.

        Raises:
            BadValue: the limit is not from 1 to 50.
        """
        return self._thread.call(self._inner.recent_inputs(workflow, limit, tenant=tenant))

    def references(self, document: Document, step: str, field: str = "with", *, tenant: str = DEFAULT_TENANT) -> References:
        """The references that a field of a step of a document may use, each with the JSON Schema of its value as far as that is known.

        Raises:
            BadDefinition: the text can't be parsed.
            NotFound: it has no step of this id.
        """
        return self._thread.call(self._inner.references(document, step, field, tenant=tenant))

    def validate(self, document: Document, slug: str = "", *, tenant: str = DEFAULT_TENANT) -> CheckedDocument:
        """Checks a document and returns everything that was found in it. Nothing is stored.

        Raises:
            BadName: the slug is not valid, or none can be made of the name.
            BadValue: there is no document, or it calls too much.
        """
        return self._thread.call(self._inner.validate(document, slug, tenant=tenant))

    def preview(self, document: Document, slug: str = "", *, tenant: str = DEFAULT_TENANT) -> DocumentPreview:
        """Checks a document, and returns with the findings its graph, and what it changes in the current version of the definition. Nothing is stored.

        Raises:
            BadName: the slug is not valid, or none can be made of the name.
            BadValue: there is no document, or it calls too much.
        """
        return self._thread.call(self._inner.preview(document, slug, tenant=tenant))

    def create(
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
        return self._thread.call(self._inner.create(document, slug, name=name, description=description, tags=tags, enabled=enabled, note=note, tenant=tenant))

    def update(
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
        return self._thread.call(
            self._inner.update(
                definition, document, name=name, description=description, tags=tags, enabled=enabled, part=part, note=note, revision=revision, tenant=tenant
            )
        )

    def delete(self, definition: str, *, note: str = "", revision: int | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """Deletes a definition and its draft. Its versions and its history are kept, and executions go on.

        Raises:
            NotFound: there is no such definition.
            StaleRecord: it is not at the revision.
            DefinitionOwned: a watched file has the definition.
        """
        self._thread.call(self._inner.delete(definition, note=note, revision=revision, tenant=tenant))

    def release(self, definition: str, *, note: str = "", revision: int | None = None, tenant: str = DEFAULT_TENANT) -> CatalogDefinition:
        """Takes a definition from the watched file that owns it, so that it can be changed by other means.

        Raises:
            NotFound: there is no such definition.
            StaleRecord: it is not at the revision.
        """
        return self._thread.call(self._inner.release(definition, note=note, revision=revision, tenant=tenant))

    def roll_back(self, definition: str, version: str, *, note: str = "", revision: int | None = None, tenant: str = DEFAULT_TENANT) -> RolledBack:
        """Makes an earlier version current again, named by its hash or its number. It gets a number above the highest.

        Raises:
            NotFound, Ambiguous: there is no such definition or version, or several versions have a hash that begins so.
            StaleRecord: the definition is not at the revision.
            BadDefinition: the version is not valid here any more.
            DefinitionOwned: a watched file has the definition.
        """
        return self._thread.call(self._inner.roll_back(definition, version, note=note, revision=revision, tenant=tenant))

    def move_tag(
        self, definition: str, tag: str, version: str = "", *, note: str = "", revision: int | None = None, tenant: str = DEFAULT_TENANT
    ) -> CatalogDefinition:
        """Has a tag name a version, given by its number, a range or its hash (default: the current one).

        Raises:
            NotFound, Ambiguous: there is no such definition or version, or several versions have a hash that begins so.
            StaleRecord: the definition is not at the revision.
            BadValue: the tag is not valid, or there are too many tags.
        """
        return self._thread.call(self._inner.move_tag(definition, tag, version, note=note, revision=revision, tenant=tenant))

    def remove_tag(self, definition: str, tag: str, *, note: str = "", revision: int | None = None, tenant: str = DEFAULT_TENANT) -> CatalogDefinition:
        """Removes a tag. The version that it named stays.

        Raises:
            NotFound: there is no such definition or tag.
            StaleRecord: the definition is not at the revision.
        """
        return self._thread.call(self._inner.remove_tag(definition, tag, note=note, revision=revision, tenant=tenant))

    def draft(self, definition: str, *, tenant: str = DEFAULT_TENANT) -> DraftDetails:
        """The draft of a definition. `update` with its document publishes it, which removes the draft.

        Raises:
            NotFound: there is no such definition, or it has no draft.
        """
        return self._thread.call(self._inner.draft(definition, tenant=tenant))

    def save_draft(self, definition: str, document: Document, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> CatalogDefinition:
        """Keeps a document that need not be valid as the draft; without a definition of this slug, creates one that has only a draft.

        Raises:
            StaleRecord: the definition is not at the revision.
            DefinitionOwned: a watched file has the definition.
            BadName, BadValue: the slug is not valid, or the document is not in UTF-8, or larger than 512 KiB.
        """
        return self._thread.call(self._inner.save_draft(definition, document, revision=revision, tenant=tenant))

    def discard_draft(self, definition: str, *, revision: int | None = None, tenant: str = DEFAULT_TENANT) -> CatalogDefinition:
        """Removes the draft of a definition.

        Raises:
            NotFound: there is no such definition, or it has no draft.
            StaleRecord: it is not at the revision.
            DefinitionOwned: a watched file has the definition.
        """
        return self._thread.call(self._inner.discard_draft(definition, revision=revision, tenant=tenant))

    def sync(self, document: Document, slug: str = "", *, note: str = "", tenant: str = DEFAULT_TENANT) -> SyncedDefinition:
        """Creates a definition from a document that is kept elsewhere, or makes it the current version. Repeating it changes nothing.

        Raises:
            BadDefinition: the document is not valid; the error has all findings.
            DefinitionOwned: a watched file has the definition.
            BadName, BadValue: the slug is not valid, or the document declares a version that is not above the highest.
        """
        return self._thread.call(self._inner.sync(document, slug, note=note, tenant=tenant))

    def sync_all(
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
        return self._thread.call(self._inner.sync_all(documents, delete=delete, expect=expect, keep=keep, note=note, tenant=tenant))
