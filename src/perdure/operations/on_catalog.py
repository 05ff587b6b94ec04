"""Operations on the catalog: definitions, their versions and tags, and starts of a version."""

from typing import Any

import msgspec

from perdure.code.declarations import checked_name
from perdure.core.errors import BadValue
from perdure.definitions.graph.shown_graph import ShownGraph
from perdure.operations.on_execution_changes import StartedExecution
from perdure.service import catalog, catalog_sync, definition_starts, execution_counts, execution_operations
from perdure.service.catalog import (
    CatalogDefinition,
    CheckedDocument,
    DefinitionPage,
    DocumentPreview,
    DraftDetails,
    EventPage,
    ListedKind,
    RolledBack,
    VersionDetails,
    VersionDiff,
)
from perdure.service.catalog_changes import NO_FIELDS, DefinitionFields, Edit
from perdure.service.catalog_references import is_hash, parse_reference, resolve_reference
from perdure.service.catalog_sync import SyncDocument, SyncedDefinition, SyncResult
from perdure.service.execution_counts import OutcomeCounts, RecentInput, WorkflowUse
from perdure.service.execution_graphs import read_plan
from perdure.service.execution_operations import StartRequest
from perdure.service.page_cursors import page_limit
from perdure.service.start_checks import checked_start
from perdure.service.store_access import StoreAccess
from perdure.service.version_numbers import VersionPart
from perdure.service.wire_types import DocumentText, JsonDocument


class NamedVersion(msgspec.Struct, frozen=True):
    """The version that a reference names."""

    slug: str
    version: str
    hash: str
    enabled: bool


# Read


async def page(
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
    """Lists definitions in order of slug, behind `after`: those with `text` in their slug, name, description or tags, whatever its case, and with this `tag`.

    The workflows of code that running engines declare come with the last page, unless the list is of definitions with a property that code has not. A page
    that has a `next` may have fewer than `limit` items, when few match.

    Raises:
        BadValue: the limit is invalid.
    """
    which: dict[str, Any] = {"enabled": enabled, "has_draft": has_draft, "kind": kind}
    return await catalog.list_definitions(access, tenant, text, tag, **which, limit=page_limit(limit), after=after)


async def read(access: StoreAccess, tenant: str, definition: str) -> CatalogDefinition:
    """A definition, by its slug or its id.

    Raises:
        NotFound: there is none.
    """
    return await catalog.read_definition(access, tenant, definition)


async def history(access: StoreAccess, tenant: str, definition: str, limit: int = 100, before: int | None = None, *, versions_only: bool = False) -> EventPage:
    """Lists what happened to a definition, newest first, before entry `before`; with `versions_only`, the versions that were published.

    The history stays when the definition is deleted.

    Raises:
        NotFound: there never was a definition of this slug.
        BadValue: the limit is invalid.
    """
    return await catalog.read_history(access, tenant, definition, page_limit(limit), before, versions_only=versions_only)


async def version(access: StoreAccess, tenant: str, reference: str) -> VersionDetails:
    """The version that a reference names, with its documents: ``invoice``, ``invoice@1.2.0``, ``invoice@^1``, ``invoice@sha256:…``, ``invoice:production``.

    Versions of a definition that was deleted are found as well.

    Raises:
        BadValue: the text is no reference.
        NotFound, Ambiguous: it names no version, or several.
    """
    return await catalog.read_version(access, tenant, reference)


async def resolve(access: StoreAccess, tenant: str, reference: str) -> NamedVersion:
    """The number and hash of the version that a reference names at present.

    Raises:
        BadValue: the text is no reference.
        NotFound, Ambiguous: it names no version, or several.
    """
    found = await resolve_reference(access.store, tenant, reference)
    return NamedVersion(found.definition.slug, found.version, found.hash, found.definition.enabled)


async def graph(access: StoreAccess, tenant: str, reference: str) -> ShownGraph:
    """The graph of the version that a reference names, as data: its plan, of which nothing has happened.

    Raises:
        BadValue: the text is no reference.
        NotFound, Ambiguous: it names no version, or several.
    """
    return await read_plan(access, tenant, reference)


async def diff(access: StoreAccess, tenant: str, before: str, after: str) -> VersionDiff:
    """The differences between the versions that two references name, by the ids of their steps.

    Raises:
        BadValue: a text is no reference.
        NotFound, Ambiguous: one names no version, or several.
    """
    return await catalog.diff_versions(access, tenant, before, after)


async def outcomes(access: StoreAccess, tenant: str, workflow: list[str], hours: int = 24) -> OutcomeCounts:
    """Counts the executions of up to 100 workflows, definitions or code, that were started within the last `hours`, by hour and by their present status.

    It looks at 20,000 executions at most, an equal share for each workflow, the newest first; each says from which time on its counts are complete.

    Raises:
        BadValue: there is no workflow or too many, or the number of hours is not from 1 to 168.
    """
    return await execution_counts.count_outcomes(access, tenant, workflow, hours)


async def versions_in_use(access: StoreAccess, tenant: str, workflow: str) -> WorkflowUse:
    """Counts the executions of a workflow, a definition or code, that have not ended, by the version with which they began. It looks at 20,000 at most.

    Raises:
        BadName: it is no name of a workflow.
    """
    return await execution_counts.count_versions_in_use(access, tenant, checked_name(workflow, "workflow"))


async def recent_inputs(access: StoreAccess, tenant: str, workflow: str, limit: int = 10) -> list[RecentInput]:
    """The inputs of the latest executions of a workflow, a definition or code, newest first: 50 at most.

    Raises:
        BadName, BadValue: it is no name of a workflow, or the limit is not from 1 to 50.
    """
    return await execution_counts.recent_inputs(access, tenant, checked_name(workflow, "workflow"), limit)


async def validate(access: StoreAccess, tenant: str, document: JsonDocument, slug: str = "") -> CheckedDocument:
    """Checks a document and returns everything that was found in it. Nothing is stored.

    Calls that name nothing in the catalog or in a running engine are warnings, since that may be published later. A start is then refused.

    Raises:
        BadName: the slug is not valid, or none can be made of the name.
        BadValue: there is no document, or it calls too much.
    """
    return await catalog.check_document(access, tenant, document, slug)


async def preview(access: StoreAccess, tenant: str, document: JsonDocument, slug: str = "") -> DocumentPreview:
    """Checks a document, as `validate` does, and returns with the findings its graph, and what it changes in the current version of the definition of the
    slug. Nothing is stored.

    Raises:
        BadName: the slug is not valid, or none can be made of the name.
        BadValue: there is no document, or it calls too much.
    """
    return await catalog.preview_document(access, tenant, document, slug)


# Change


async def create(
    access: StoreAccess, tenant: str, document: JsonDocument, author: str, slug: str = "", *, fields: DefinitionFields = NO_FIELDS, note: str = ""
) -> CatalogDefinition:
    """Creates a definition with a first version. Without a `slug`, one is made of the name of the document.

    Raises:
        AlreadyExists: the slug is taken.
        BadDefinition: the document is not valid; the error has all findings.
        BadName, BadValue: the slug, the author or a field is not valid.
    """
    return await catalog.create_definition(access, tenant, document, Edit(author, note), slug, fields)


async def update(
    access: StoreAccess,
    tenant: str,
    definition: str,
    author: str,
    document: JsonDocument | None = None,
    *,
    fields: DefinitionFields = NO_FIELDS,
    part: VersionPart | None = None,
    note: str = "",
    revision: int | None = None,
) -> CatalogDefinition:
    """Changes fields of a definition and, with a `document`, publishes that as its new version.

    The minor version rises, or the `part` that is given, unless the document declares a version of its own. With `revision`, this happens only while the
    definition is at it.

    Raises:
        NotFound: there is no such definition.
        StaleRecord: it is not at the revision.
        BadDefinition: the document is not valid; the error has all findings.
        DefinitionOwned: a watched file has the definition.
        BadName, BadValue: a field or the author is not valid, or the document declares a version that is not above the highest.
    """
    return await catalog.update_definition(access, tenant, definition, Edit(author, note, revision), document, fields=fields, part=part)


async def delete(access: StoreAccess, tenant: str, definition: str, author: str, note: str = "", *, revision: int | None = None) -> None:
    """Deletes a definition and its draft. Its versions and its history are kept, and executions go on.

    Raises:
        NotFound: there is no such definition.
        StaleRecord: it is not at the revision.
        DefinitionOwned: a watched file has the definition.
        BadName: the author is not valid.
    """
    await catalog.delete_definition(access, tenant, definition, Edit(author, note, revision))


async def release(access: StoreAccess, tenant: str, definition: str, author: str, note: str = "", *, revision: int | None = None) -> CatalogDefinition:
    """Takes a definition from the watched file that owns it, so that it can be changed by other means. If the file is still watched, it takes it back when
    it changes.

    Raises:
        NotFound: there is no such definition.
        StaleRecord: it is not at the revision.
        BadName: the author is not valid.
    """
    return await catalog.release_definition(access, tenant, definition, Edit(author, note, revision))


async def roll_back(
    access: StoreAccess, tenant: str, definition: str, author: str, target: str = "", *, workflow_hash: str = "", note: str = "", revision: int | None = None
) -> RolledBack:
    """Makes an earlier version current again, named by its hash or its number (`target`), or by its hash alone (`workflow_hash`).

    It gets a number above the highest.

    Raises:
        NotFound, Ambiguous: there is no such definition or version, or several versions have a hash that begins so.
        StaleRecord: the definition is not at the revision.
        BadDefinition: the version is not valid here any more.
        DefinitionOwned: a watched file has the definition.
        BadName, BadValue: the author or the target is not valid, or there is not one of `target` and `workflow_hash`.
    """
    if bool(target) == bool(workflow_hash):
        message = "/target: name one version, by its hash or number in target, or by its hash in workflowHash"
        raise BadValue("/target", target, "the only name of a version", message)
    if workflow_hash and not is_hash(workflow_hash):
        raise BadValue("workflow_hash", workflow_hash, "the hash of a version, such as sha256:3f2a91c0d4…")
    return await catalog.roll_back(access, tenant, definition, target or workflow_hash, Edit(author, note, revision))


async def move_tag(
    access: StoreAccess, tenant: str, definition: str, tag: str, author: str, version: str = "", *, note: str = "", revision: int | None = None
) -> CatalogDefinition:
    """Has a tag name a version, given by its number, a range or its hash (default: the current one).

    Raises:
        NotFound, Ambiguous: there is no such definition or version, or several versions have a hash that begins so.
        StaleRecord: the definition is not at the revision.
        BadName, BadValue: the author or the tag is not valid, or there are too many tags.
    """
    return await catalog.move_tag(access, tenant, definition, tag, Edit(author, note, revision), version)


async def remove_tag(
    access: StoreAccess, tenant: str, definition: str, tag: str, author: str, *, note: str = "", revision: int | None = None
) -> CatalogDefinition:
    """Removes a tag. The version that it named stays.

    Raises:
        NotFound: there is no such definition or tag.
        StaleRecord: the definition is not at the revision.
        BadName, BadValue: the author or the tag is not valid.
    """
    return await catalog.move_tag(access, tenant, definition, tag, Edit(author, note, revision), None)


# Drafts


async def draft(access: StoreAccess, tenant: str, definition: str) -> DraftDetails:
    """The document that is being edited. `update` with it publishes it, which removes the draft.

    Raises:
        NotFound: there is no such definition, or it has no draft.
    """
    return await catalog.read_draft(access, tenant, definition)


async def save_draft(
    access: StoreAccess, tenant: str, definition: str, document: DocumentText, author: str, *, revision: int | None = None
) -> CatalogDefinition:
    """Keeps a document that need not be valid beside the current version; without a definition of this slug, creates one that has only a draft.

    Raises:
        StaleRecord: the definition is not at the revision.
        DefinitionOwned: a watched file has the definition.
        BadName, BadValue: the slug or the author is not valid, or the document is not in UTF-8, or larger than 512 KiB.
    """
    return await catalog.save_draft(access, tenant, definition, document, Edit(author, revision=revision))


async def discard_draft(access: StoreAccess, tenant: str, definition: str, author: str, *, revision: int | None = None) -> CatalogDefinition:
    """Removes the draft of a definition.

    Raises:
        NotFound: there is no such definition, or it has no draft.
        StaleRecord: it is not at the revision.
        DefinitionOwned: a watched file has the definition.
        BadName: the author is not valid.
    """
    return await catalog.discard_draft(access, tenant, definition, Edit(author, revision=revision))


# Sync


async def sync(access: StoreAccess, tenant: str, document: JsonDocument, author: str, slug: str = "", *, note: str = "") -> SyncedDefinition:
    """Creates a definition from a document that is kept elsewhere, or makes it the current version. Repeating it changes nothing.

    Raises:
        BadDefinition: the document is not valid; the error has all findings.
        DefinitionOwned: a watched file has the definition.
        BadName, BadValue: the slug or the author is not valid, or the document declares a version that is not above the highest.
    """
    return await catalog_sync.sync_definition(access, tenant, document, Edit(author, note), slug)


async def sync_all(
    access: StoreAccess,
    tenant: str,
    documents: list[SyncDocument],
    author: str,
    *,
    delete: bool = False,
    expect: int | None = None,
    keep: bool = False,
    note: str = "",
) -> SyncResult:
    """Brings the catalog to the state of a set of documents: syncs each, and deletes all other definitions, or with `keep` none, in one change.

    Without `keep`, it is a dry run unless `delete` is true; then `expect` is the number of definitions that are to be deleted.

    Raises:
        BadDefinition: a document is not valid; the error has the findings of all.
        BadValue: another number of definitions would be deleted, two documents have one slug, or there are too many.
        BadName: a slug or the author is not valid.
        DefinitionOwned: a file has one of the definitions that would change.
    """
    return await catalog_sync.sync_all(access, tenant, documents, Edit(author, note), delete=delete, expect=expect, keep=keep)


# Start


async def start(access: StoreAccess, request: StartRequest, reference: str, author: str = "") -> StartedExecution:
    """Starts the version that a reference names, unless an execution of the id exists. The workflow of the execution is the slug.

    The execution keeps this version, and those of all definitions that it calls, whatever is published later.

    Raises:
        DefinitionDisabled: the definition is disabled.
        NotFound, Ambiguous: the reference names no version, or several.
        BadDefinition: it calls something that is neither in the catalog nor a workflow of an engine; the error has all findings.
        BadValue, BadName: the text is no reference, the definition does not take the input, it calls too much, or an option is not valid.
        InputDiffers: the start is strict, and an execution exists with another input or another definition.
        TooManyActive: none exists, and the admission does not allow another one now.
    """
    found = await definition_starts.catalog_start(access, execution_operations.initiated_by(request, author), reference)
    if (given := request.key.workflow) not in ("", parse_reference(reference).name, slug := found.request.key.workflow):
        raise BadValue("/workflow", given, "left out", f"/workflow: {given} is not {slug}, which {reference} starts. Leave workflow out")
    return StartedExecution(*await execution_operations.start_execution(access, checked_start(found.request), found.hosted))


async def start_document(access: StoreAccess, request: StartRequest, document: JsonDocument, author: str = "", until: str = "") -> StartedExecution:
    """Starts a document that is not in the catalog, unless an execution of the id exists. Without a workflow in the key, it is made of the name.

    With `until`, the id of a step, the execution performs what leads to that step, for real, and ends with its result. In a document that is ordered by
    references, steps that it does not need are left out; in others, what runs beside it ends when it is reached.

    Raises:
        BadDefinition: the document is not valid, or calls something that is not there; the error has all findings.
        BadName: no workflow can be made of its name.
        BadValue: the definition does not take the input or has no such step, it calls too much, or an option is not valid.
        InputDiffers: the start is strict, and an execution exists with another input or another definition.
        TooManyActive: none exists, and the admission does not allow another one now.
    """
    found = await definition_starts.inline_start(access, execution_operations.initiated_by(request, author), document, until)
    return StartedExecution(*await execution_operations.start_execution(access, checked_start(found.request), found.hosted))
