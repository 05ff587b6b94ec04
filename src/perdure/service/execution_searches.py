"""Narrows lists of executions by conditions that are not those of a store, and searches them for text."""

from collections.abc import Iterator

import msgspec

from perdure.core.attributes import attribute_values_of
from perdure.core.errors import NotFound
from perdure.service.catalog import read_definition
from perdure.service.queries import STATUSES, ExecutionFilter, ListedExecution, list_executions, position_behind
from perdure.service.seed_statuses import SeedStatus, statuses_of
from perdure.service.store_access import StoreAccess
from perdure.stores.records import PagePosition


class ExecutionSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a list beside those of its filter.

    `seed_status` selects by the six statuses of other systems, `workflow_id` by the id or slug of a definition in the catalog, or the name of code. `text`
    selects those whose workflow, id, attributes or type of error contain it, in any case.
    """

    seed_status: tuple[SeedStatus, ...] | None = None
    workflow_id: str = ""
    text: str = ""


async def narrowed_filter(access: StoreAccess, which: ExecutionFilter, search: ExecutionSearch) -> ExecutionFilter | None:
    """Returns a filter that also selects by status and definition as `search` says. None: it selects nothing.

    Raises:
        BadValue: a status is none of the six.
    """
    if search.seed_status is not None:
        wanted = statuses_of(search.seed_status, STATUSES if which.status is None else which.status)
        if not wanted:
            return None
        which = msgspec.structs.replace(which, status=tuple(sorted(wanted)))
    if not search.workflow_id:
        return which
    try:
        workflow = (await read_definition(access, which.tenant, search.workflow_id)).slug
    except NotFound:
        workflow = search.workflow_id
    return None if which.workflow not in (None, workflow) else msgspec.structs.replace(which, workflow=workflow)


SCANNED_MAX, SCANNED_AT_A_TIME = 10_000, 500
"""How many executions one search looks through, and how many it reads at once."""


async def search_executions(
    access: StoreAccess, which: ExecutionFilter, text: str, limit: int, after: PagePosition | None
) -> tuple[list[ListedExecution], int, PagePosition | None]:
    """Searches the executions of a list, in its order, for those that contain a text, in any case: in the name of their workflow, their id, an attribute or
    the type of their error. No index helps, so it looks through `SCANNED_MAX` executions at most.

    Returns up to `limit` of them, how many it has looked through, and the position to go on from; None at the end of the list.
    """
    wanted, found, scanned = text.casefold(), list[ListedExecution](), 0
    while scanned < SCANNED_MAX:
        asked = min(SCANNED_AT_A_TIME, SCANNED_MAX - scanned)
        page = await list_executions(access, which, asked, after)
        for one in page:
            scanned, after = scanned + 1, position_behind(one, which)
            if any(wanted in said.casefold() for said in _texts_of(one)):
                found.append(one)
                if len(found) == limit:
                    return found, scanned, after
        if len(page) < asked:
            return found, scanned, None
    return found, scanned, after


def _texts_of(one: ListedExecution) -> Iterator[str]:
    yield from (one.key.workflow, one.key.id, one.error_type)
    for value in one.attributes.values():
        yield from map(str, attribute_values_of(value))
