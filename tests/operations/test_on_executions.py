"""Claims about the operations that read executions: pages have a bound, and a result that is not there says what is missing."""

from collections.abc import AsyncIterator

import pytest

from perdure import AsyncClient
from perdure.core import values
from perdure.core.paths import Key
from perdure.operations import on_execution_changes, on_executions
from perdure.service.execution_operations import StartRequest
from perdure.service.execution_searches import ExecutionSearch
from perdure.service.missing_parts import START_ENGINE
from perdure.service.page_cursors import PAGE_MAX
from perdure.service.queries import ExecutionFilter
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore

INPUT = values.encode(((), {}), "the input")


@pytest.fixture
async def access() -> AsyncIterator[StoreAccess]:
    access = StoreAccess(MemoryStore())
    yield access
    await access.aclose()


async def started(access: StoreAccess, count: int) -> list[Key]:
    """Executions that no engine has begun, the newest first."""
    keys = [Key("default", "order", f"o{number:04}") for number in range(count)]
    for key in keys:
        await on_execution_changes.start(access, StartRequest(key=key, input=INPUT))
    return keys[::-1]


async def test_a_page_has_a_bound_and_a_list_goes_over_pages(access: StoreAccess) -> None:
    keys = await started(access, PAGE_MAX + 200)
    which = ExecutionFilter(tenant="default")
    first = await on_executions.page(access, which, ExecutionSearch(), 5_000)
    second = await on_executions.page(access, which, ExecutionSearch(), 5_000, first.next)
    assert [one.key for one in (*first.items, *second.items)] == keys
    assert (len(first.items), len(second.items), second.next) == (PAGE_MAX, 200, "")
    async with AsyncClient(access.store) as client:
        assert [one.key for one in await client.list(limit=5_000)] == keys
        assert [one.key for one in await client.list(limit=PAGE_MAX + 1)] == keys[: PAGE_MAX + 1]
        assert [one.key for one in await client.list(limit=3)] == keys[:3]


async def test_a_result_that_is_not_there_says_what_is_missing(access: StoreAccess) -> None:
    (key,) = await started(access, 1)
    found = await on_executions.result(access, key)
    assert (found.is_there, found.missing) == (False, f"no engine is running. {START_ENGINE}")
    await on_execution_changes.start(access, StartRequest(key=key._replace(id="later"), input=INPUT, delay_s=60))
    later = await on_executions.result(access, key._replace(id="later"))
    assert later.why.startswith("it starts at ") and later.missing == ""
