"""Starts executions of definitions: of the version that a reference to the catalog names, or of a document that is given with the start.

The execution pins the document, and those of all definitions that it may call, so that it goes on by them whatever happens to the catalog. Its attributes say
what it began with. Its workflow is the slug, and engines claim it by the name of their host: see `perdure.definition_host`.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from perdure.core import values
from perdure.core.attributes import ShownAttributes, checked_attribute_changes, indexed_attribute_values, merge_attributes
from perdure.core.errors import BadDefinition, BadValue, DefinitionDisabled, Undecodable
from perdure.core.paths import Key
from perdure.core.program import CATALOG_PROGRAM
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.format.partial_definition import ending_after
from perdure.definitions.graph.graph_workflow import (
    HASH_ATTRIBUTE,
    VERSION_ATTRIBUTE,
    WALK_VERSION,
    DefinitionRelease,
    GraphWorkflow,
    version_attributes,
)
from perdure.definitions.graph.plan import plan_of_definition
from perdure.definitions.graph.version_ranges import is_in_range, version_order
from perdure.runtime.workflow_programs import encode_input
from perdure.service.catalog import read_document, received_bytes
from perdure.service.catalog_calls import CallingDefinition, find_calls
from perdure.service.catalog_records import read_documents
from perdure.service.catalog_references import ResolvedVersion, find_version, parse_reference, resolve_reference
from perdure.service.execution_operations import HostedStart, StartRequest
from perdure.service.slugs import slug_of_name
from perdure.service.store_access import StoreAccess
from perdure.service.version_numbers import is_version
from perdure.stores.protocol import HeadFilter


class DefinitionStart(NamedTuple):
    """A start of a definition, as `start_execution` takes it."""

    request: StartRequest
    hosted: HostedStart


async def catalog_start(access: StoreAccess, request: StartRequest, reference: str) -> DefinitionStart:
    """The start of the version that `reference` names. The workflow in its key is the slug; the other options are those of `request`.

    Raises:
        DefinitionDisabled: the definition is disabled.
        NotFound, Ambiguous: the reference names no version, or several.
        BadDefinition: it calls something that is neither in the catalog nor a workflow of an engine.
        BadValue: the text is no reference, the definition does not take the input, or it calls too much.
    """
    tenant = request.key.tenant
    found = await resolve_reference(access.store, tenant, reference)
    if not found.definition.enabled:
        raise DefinitionDisabled(found.definition.slug)
    slug = found.definition.slug
    wanted, may_mean = msgspec.structs.replace(request, key=request.key._replace(workflow=slug)), _meaning_of(reference, found)
    if not wanted.is_new:
        found = await _same_as_before(access, wanted.key, found, may_mean)
    version = await find_version(access.store, tenant, found.definition, found.hash)
    _, canonical = await read_documents(access.store, tenant, slug, version)
    return await _pinned(access, wanted, CallingDefinition(slug, found.version, canonical), may_mean)


async def inline_start(access: StoreAccess, request: StartRequest, document: bytes, until: str = "") -> DefinitionStart:
    """The start of a document that is not in the catalog. If the key of `request` has no workflow, it is made of the name of the document.

    With `until`, the execution ends with the result of that step: see `perdure.definitions.format.partial_definition`.

    Raises:
        BadDefinition: the document is not valid, or calls something that is not there; the error has all findings.
        BadName: no workflow can be made of its name.
        BadValue: the definition does not take the input, or has no such step.
    """
    read = await read_document(received_bytes(document), request.key.workflow)
    if until:
        read = await read_document(definition_bytes(ending_after(read.canonical, until)), request.key.workflow)
    workflow = request.key.workflow or slug_of_name(str(read.canonical["name"]))
    own = CallingDefinition(workflow, "", definition_bytes(read.canonical))
    return await _pinned(access, msgspec.structs.replace(request, key=request.key._replace(workflow=workflow)), own, _has_hash(f"sha256:{own.sha256}"))


_MayMean = Callable[[ShownAttributes], bool]
"""Whether a request may mean the definition with which an execution began, which has these attributes."""


def _meaning_of(reference: str, found: ResolvedVersion) -> _MayMean:
    """Tests for what a reference may mean. A slug, a range and a tag may have named another version when the execution began than they do now."""
    wanted = parse_reference(reference).wanted
    if wanted.startswith("sha256:") or is_version(wanted):
        return _has_hash(found.hash)
    if not wanted:
        return lambda _: True
    is_in = is_in_range(wanted)

    def has_version_in_range(began: ShownAttributes) -> bool:
        version = began.get(VERSION_ATTRIBUTE)
        return isinstance(version, str) and is_in(version_order(version)[:3])

    return has_version_in_range


def _has_hash(hash: str) -> _MayMean:
    return lambda began: began.get(HASH_ATTRIBUTE) == hash


async def _same_as_before(access: StoreAccess, key: Key, found: ResolvedVersion, may_mean: _MayMean) -> ResolvedVersion:
    """Returns the version with which an execution of this key began, if the reference may mean it, so that a repeated start is checked as the first one was."""
    heads = await access.store.heads(HeadFilter(keys=(key,), limit=1))
    began = indexed_attribute_values(heads[0].attributes) if heads else {}
    version, hash = began.get(VERSION_ATTRIBUTE), began.get(HASH_ATTRIBUTE)
    if not isinstance(version, str) or not isinstance(hash, str) or not may_mean(began):
        return found
    return msgspec.structs.replace(found, version=version, hash=hash)


async def _pinned(access: StoreAccess, request: StartRequest, own: CallingDefinition, may_mean: _MayMean) -> DefinitionStart:
    release = release_of(own.slug, own.canonical)
    input = _checked_input(request, release)
    found = await find_calls(access, request.key.tenant, own)
    if found.unresolved:
        raise BadDefinition(found.unresolved)
    began = version_attributes(own.version, own.sha256)
    started = msgspec.structs.replace(
        request,
        input=input,
        version=WALK_VERSION,
        definition=own.canonical,
        deadline_s=release.deadline_s if request.deadline_s is None else request.deadline_s,
        grace_s=release.grace_s if request.grace_s is None else request.grace_s,
        attributes=merge_attributes(request.attributes, checked_attribute_changes(request.attributes, began)),
    )
    return DefinitionStart(started, HostedStart(CATALOG_PROGRAM, found.calls, found.blobs, may_mean))


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
