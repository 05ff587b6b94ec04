"""Starts executions of definitions: of the version that a reference to the catalog names, or of a document that is given with the start.

The execution pins the document, so that it goes on by it whatever happens to the catalog. Its attributes say what it began with.
"""

import dataclasses
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from perdure.core import values
from perdure.core.attributes import AttributeValue, checked_attribute_changes, merge_attributes
from perdure.core.errors import BadValue, DefinitionDisabled, Undecodable
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.graph.graph_workflow import WALK_VERSION, DefinitionRelease, GraphWorkflow
from perdure.definitions.graph.plan import plan_of_definition
from perdure.runtime.workflow_programs import encode_input
from perdure.service.catalog import read_document, received_bytes
from perdure.service.catalog_records import read_documents
from perdure.service.catalog_references import find_version, resolve_reference
from perdure.service.execution_operations import StartRequest
from perdure.service.slugs import slug_of_name
from perdure.service.store_access import StoreAccess

VERSION_ATTRIBUTE, HASH_ATTRIBUTE, INLINE_ATTRIBUTE = "definition_version", "definition_hash", "definition_inline"
"""The attributes of an execution: the number and the hash of the version that it began with; or that its definition was given with the start."""


async def catalog_start(access: StoreAccess, request: StartRequest, reference: str) -> StartRequest:
    """The request to start the version that `reference` names. The workflow in its key is the slug; the other options are those of `request`.

    Raises:
        DefinitionDisabled: the definition is disabled.
        NotFound, Ambiguous: the reference names no version, or several.
        BadValue: the text is no reference, or the definition does not take the input.
    """
    tenant = request.key.tenant
    found = await resolve_reference(access.store, tenant, reference)
    if not found.definition.enabled:
        raise DefinitionDisabled(found.definition.slug)
    slug = found.definition.slug
    version = await find_version(access.store, tenant, found.definition, found.hash)
    _, canonical = await read_documents(access.store, tenant, slug, version)
    began = {VERSION_ATTRIBUTE: found.version, HASH_ATTRIBUTE: found.hash}
    return _pinned(msgspec.structs.replace(request, key=request.key._replace(workflow=slug)), canonical, began)


async def inline_start(request: StartRequest, document: bytes) -> StartRequest:
    """The request to start a document that is not in the catalog. If the key of `request` has no workflow, it is made of the name of the document.

    Raises:
        BadDefinition: the document is not valid; the error has all findings.
        BadName: no workflow can be made of its name.
        BadValue: the definition does not take the input.
    """
    read = await read_document(received_bytes(document), request.key.workflow)
    workflow = request.key.workflow or slug_of_name(str(read.canonical["name"]))
    began: dict[str, AttributeValue] = {HASH_ATTRIBUTE: read.hash, INLINE_ATTRIBUTE: True}
    return _pinned(msgspec.structs.replace(request, key=request.key._replace(workflow=workflow)), definition_bytes(read.canonical), began)


def _pinned(request: StartRequest, canonical: bytes, began: Mapping[str, AttributeValue]) -> StartRequest:
    release = release_of(request.key.workflow, canonical)
    return msgspec.structs.replace(
        request,
        input=_checked_input(request, release),
        version=WALK_VERSION,
        definition=canonical,
        deadline_s=release.deadline_s if request.deadline_s is None else request.deadline_s,
        grace_s=release.grace_s if request.grace_s is None else request.grace_s,
        attributes=merge_attributes(request.attributes, checked_attribute_changes(request.attributes, began)),
    )


def release_of(name: str, canonical: bytes) -> DefinitionRelease:
    """A canonical definition in the form that engines take, under the name that its executions have as workflow."""
    digest = sha256(canonical).hexdigest()
    ir = plan_of_definition(digest, {digest: canonical}).ir
    return DefinitionRelease(name, ir.version, digest, canonical, ir.limits.deadline_s, ir.limits.grace_s)


def _checked_input(request: StartRequest, release: DefinitionRelease) -> bytes:
    """The input of a start, after comparing it with what the definition declares."""
    what = f"the input of {release.name}"
    try:
        args, kwargs = values.decode(request.input, tuple[list[Any], dict[str, Any]], what)
    except Undecodable as error:
        raise BadValue(what, "given", f"what a definition takes, values by name: {error.why}") from error
    return encode_input(GraphWorkflow(release.name, release), args, kwargs, "start")


def definition_host(slug: str, common: GraphWorkflow) -> GraphWorkflow:
    """The workflow by which an engine runs every version of a definition of the catalog, with the tools, kinds and permissions of `common`.

    An engine claims executions by the names of its workflows, so it has to have one for each slug; it need not know any document.
    """
    own = {f"definition:{name}" for name in common.family}
    capabilities = None if common.capabilities is None else common.capabilities - own
    return dataclasses.replace(common, name=slug, release=None, family={}, deadline_s=None, grace_s=None, capabilities=capabilities)
