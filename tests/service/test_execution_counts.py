"""Claims about counts of executions: by workflow, hour and outcome, by version, and the latest inputs."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perdure import App, Context, workflow
from perdure.core import values
from perdure.core.errors import BadValue, ExecutionFailed
from perdure.core.paths import Key
from perdure.operations import on_catalog
from perdure.service import execution_counts
from perdure.service.execution_counts import HOUR_S, count_outcomes, count_versions_in_use, recent_inputs
from perdure.service.execution_operations import StartRequest
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from tests.service.catalog_documents import document


@workflow
async def halve(ctx: Context, number: int) -> int:
    """Fails for odd numbers."""
    if number % 2:
        raise ValueError("odd")
    return number // 2


@workflow
async def waits(ctx: Context) -> None:
    """Waits for a day."""
    await ctx.sleep("1d")


async def begun(app: App, *numbers: int) -> StoreAccess:
    for number in numbers:
        handle = await app.client.start(halve, number)
        with suppress(ExecutionFailed):
            _ = await handle.result()
    return app.client.access.on_store("a test")


async def test_outcomes_are_counted_by_hour_and_status_in_the_order_of_the_request(tmp_path: Path) -> None:
    async with App([halve], db=f"sqlite:///{tmp_path}/counts.db") as app:
        access = await begun(app, 2, 3, 4)
        found = await count_outcomes(access, "default", ["none", "halve"], 24)
        assert [one.workflow for one in found.items] == ["none", "halve"]
        none, halves = found.items
        assert (none.hours, none.is_partial, none.counted_from_at_s) == ([], False, found.from_at_s)
        counts: dict[str, int] = {}
        for hour in halves.hours:
            assert hour.hour_at_s % HOUR_S == 0
            counts = {status: counts.get(status, 0) + many for status, many in hour.statuses.items()}
        assert counts == {"completed": 2, "failed": 1}
        assert 23 * HOUR_S <= found.until_at_s - found.from_at_s <= 24 * HOUR_S
        assert (await count_outcomes(access, "acme", ["halve"], 24)).items[0].hours == []


async def test_a_count_that_stops_says_from_when_on_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with App([halve], db=f"sqlite:///{tmp_path}/counts.db") as app:
        access = await begun(app, 2, 4, 6)
        monkeypatch.setattr(execution_counts, "SCANNED_MAX", 2)
        (found,) = (await count_outcomes(access, "default", ["halve"], 1)).items
        assert found.is_partial and sum(sum(hour.statuses.values()) for hour in found.hours) == 2
        assert found.counted_from_at_s > found.hours[0].hour_at_s


@pytest.mark.parametrize(("workflows", "hours"), [([], 24), (["a"], 169), (["a"], 0), ([str(one) for one in range(101)], 24)])
async def test_a_range_that_is_not_valid_is_refused(tmp_path: Path, workflows: list[str], hours: int) -> None:
    async with App([halve], db=f"sqlite:///{tmp_path}/counts.db") as app:
        with pytest.raises(BadValue):
            await count_outcomes(await begun(app), "default", workflows, hours)


async def test_open_executions_of_a_definition_are_counted_by_version_and_hash() -> None:
    access = StoreAccess(MemoryStore())
    first = await on_catalog.create(access, "default", document(1), "ada")
    second = await on_catalog.update(access, "default", "invoice", "ada", document(2))
    for number, reference in enumerate(("invoice@1.0.0", "invoice@1.0.0", "invoice")):
        request = StartRequest(key=Key("default", "", str(number)), input=values.encode(((), {}), "the input"))
        _ = await on_catalog.start(access, request, reference)
    use = await count_versions_in_use(access, "default", "invoice")
    assert [(one.version, one.hash, one.count) for one in use.versions] == [("1.0.0", first.hash, 2), (second.version, second.hash, 1)]
    assert (use.total, use.is_partial) == (3, False)


async def test_open_executions_of_code_are_counted_by_version_and_those_that_ended_are_not(tmp_path: Path) -> None:
    async with App([waits, halve], db=f"sqlite:///{tmp_path}/counts.db") as app:
        access = await begun(app, 2)
        handle = await app.client.start(waits)
        async with asyncio.timeout(10):
            while (await handle.summary()).workflow_version == 0:
                await asyncio.sleep(0.01)
        (use,) = (await count_versions_in_use(access, "default", "waits")).versions
        assert (use.version, use.hash, use.count) == ("1", "", 1)
        assert (await count_versions_in_use(access, "default", "halve")).versions == []


async def test_the_latest_inputs_come_newest_first(tmp_path: Path) -> None:
    async with App([halve], db=f"sqlite:///{tmp_path}/counts.db") as app:
        access = await begun(app, 2, 4, 6)
        found = await recent_inputs(access, "default", "halve", 2)
        assert [values.decode(one.input or b"", Any, "an input")[0] for one in found] == [[6], [4]]
        assert [one.status for one in found] == ["completed", "completed"]
        with pytest.raises(BadValue):
            await recent_inputs(access, "default", "halve", 51)
