"""Starts of workflows by people and programs that name a workflow and pass variables: of a definition of the catalog, or of code that an engine has."""

from uuid import uuid4

from perdure.code.declarations import checked_name
from perdure.core.errors import NotFound
from perdure.core.paths import Key
from perdure.service import catalog, definition_starts, queries
from perdure.service.definition_starts import DefinitionStart
from perdure.service.execution_operations import NOT_HOSTED, StartRequest, initiated_by
from perdure.service.store_access import StoreAccess


async def manual_start(
    access: StoreAccess, tenant: str, workflow: str, variables: bytes, request_id: str, initiator: str, *, deadline_s: float | None = None
) -> DefinitionStart:
    """The start of a workflow: the slug, id, or a reference of a definition in the catalog, or the name of a workflow of a living engine.

    With a `request_id`, its repetition by the same initiator is the same execution; without one, each is another.

    Raises:
        NotFound, Ambiguous: there is no such workflow, or the reference names several versions.
        BadDefinition: the definition calls something that is not there.
        BadName, BadValue: a name is not valid, or the definition does not take the variables.
        DefinitionDisabled: the definition is disabled.
    """
    reference = await _slug_or_name(access, tenant, workflow)
    id = f"manual:{reference}:{initiator}:{checked_name(request_id, 'client request id')}" if request_id else uuid4().hex
    request = initiated_by(StartRequest(key=Key(tenant, reference, checked_name(id, "id")), input=variables, deadline_s=deadline_s), initiator)
    try:
        return await definition_starts.catalog_start(access, request, reference)
    except NotFound:
        await expect_code(access, workflow)
        return DefinitionStart(request, NOT_HOSTED)


async def _slug_or_name(access: StoreAccess, tenant: str, workflow: str) -> str:
    try:
        return (await catalog.read_definition(access, tenant, workflow)).slug
    except NotFound:
        return workflow


async def expect_code(access: StoreAccess, workflow: str) -> None:
    """Checks that a living engine has code of a workflow that the catalog does not have.

    Raises:
        NotFound: none has.
    """
    if not any(one.alive and workflow in (name.partition("@")[0] for name in one.programs) for one in await queries.list_holders(access)):
        raise NotFound(workflow, f"there is no workflow {workflow}: no definition of the catalog has this slug, and no living engine knows code of this name")
