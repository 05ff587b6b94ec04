"""Keeps the definition that is made of a recording in the catalog: as a version, or as a draft that is edited further."""

import asyncio

import msgspec

from perdure.core.errors import NotFound
from perdure.definitions.format.formatter import document_as_yaml
from perdure.recording.recorded_definition import NO_OPTIONS, DefinitionOptions, recorded_definition
from perdure.recording.recording_requests import read_recording, recording_key
from perdure.recording.recording_view import RecordingView
from perdure.service import catalog
from perdure.service.catalog import CatalogDefinition, DocumentPreview
from perdure.service.catalog_changes import Edit
from perdure.service.store_access import StoreAccess


async def preview_definition(access: StoreAccess, tenant: str, recording: str, name: str, options: DefinitionOptions = NO_OPTIONS) -> "RecordedDocument":
    """Returns the definition of a recording under a name, and what was found in it. Nothing is stored.

    Raises:
        NotFound: there is no such recording.
        BadValue: no call is left, or one can't stand in a definition.
        BadName: no slug can be made of the name.
    """
    view = await read_recording(access, recording_key(tenant, recording))
    raw, text = await asyncio.to_thread(_written, view, name, options)
    return RecordedDocument(raw, text, await catalog.preview_document(access, tenant, raw))


def _written(view: RecordingView, name: str, options: DefinitionOptions) -> tuple[bytes, str]:
    """Returns the definition of a recording as JSON and as YAML."""
    document = recorded_definition(view, name, options)
    return msgspec.json.encode(document), document_as_yaml(document)


class RecordedDocument(msgspec.Struct, frozen=True):
    """A definition that was made of a recording: as JSON, and as YAML for people, with what was found in it."""

    document: bytes
    text: str
    preview: DocumentPreview


async def save_definition(
    access: StoreAccess, tenant: str, recording: str, slug: str, edit: Edit, options: DefinitionOptions = NO_OPTIONS, *, is_draft: bool = False
) -> CatalogDefinition:
    """Publishes the definition of a recording under a slug, as its first version or the next one; or keeps it as a draft.

    Raises:
        NotFound: there is no such recording.
        BadValue: no call is left, or one can't stand in a definition.
        BadDefinition: the document is not valid; the error has all findings.
        StaleRecord, DefinitionOwned, BadName: see `perdure.service.catalog`.
    """
    view = await read_recording(access, recording_key(tenant, recording))
    raw, text = await asyncio.to_thread(_written, view, slug, options)
    if is_draft:
        return await catalog.save_draft(access, tenant, slug, text.encode(), edit)
    try:
        _ = await catalog.read_definition(access, tenant, slug)
    except NotFound:
        return await catalog.create_definition(access, tenant, raw, edit, slug, source="record")
    return await catalog.update_definition(access, tenant, slug, edit, raw, source="record")
