"""Narrows lists of executions by conditions that are not those of a store."""

from collections.abc import Sequence

import msgspec

from perdure.core.errors import NotFound
from perdure.service.catalog import read_definition
from perdure.service.queries import STATUSES, ExecutionFilter
from perdure.service.seed_statuses import statuses_of
from perdure.service.store_access import StoreAccess


async def narrowed_filter(access: StoreAccess, which: ExecutionFilter, seed_status: Sequence[str] | None, workflow_id: str) -> ExecutionFilter | None:
    """Returns a filter that also selects by some of the six statuses, and by the id or slug of a definition or the name of code. None: it selects nothing.

    Raises:
        BadValue: a status is none of the six.
    """
    if seed_status is not None:
        wanted = statuses_of(seed_status, STATUSES if which.status is None else which.status)
        if not wanted:
            return None
        which = msgspec.structs.replace(which, status=tuple(sorted(wanted)))
    if not workflow_id:
        return which
    try:
        workflow = (await read_definition(access, which.tenant, workflow_id)).slug
    except NotFound:
        workflow = workflow_id
    return None if which.workflow not in (None, workflow) else msgspec.structs.replace(which, workflow=workflow)
