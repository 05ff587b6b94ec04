"""Claims about the state of the system: what a server says of itself, its database, and the rates of a tenant."""

import asyncio
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from perdure import App
from perdure.core.errors import ExecutionFailed
from perdure.service import system_status
from perdure.service.server_description import NO_SERVER
from perdure.service.system_status import execution_rates
from tests.api.api_setup import WORKFLOWS, calc, trip
from tests.api.service_setup import service_in_process


async def test_a_server_says_its_version_parts_settings_and_database_and_no_secret(tmp_path: Path) -> None:
    async with service_in_process(tmp_path) as service:
        answer = await service.by(await service.key("viewer"), "GET", "/api/system")
        assert answer.status == 200
        found = answer.json
        assert found["store"]["kind"] == "sqlite" and found["store"]["epoch"] >= 1 and found["store"]["latencySeconds"] >= 0
        assert abs(found["store"]["clockAheadSeconds"]) < 5 and found["store"]["nowAt"].endswith("Z")
        assert found["version"] and found["uptimeSeconds"] >= 0 and found["startedAt"]
        assert found["settings"]["signsLinks"] is False and found["settings"]["rateLimitPerSecond"] == 200.0


async def test_rates_count_starts_ends_and_failures_of_the_last_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with App(WORKFLOWS, db=f"sqlite:///{tmp_path}/rates.db") as app:
        for number in (1, 2, -1):
            handle = await app.client.start(calc, number)
            with suppress(ExecutionFailed):
                _ = await handle.result()
        rates = await execution_rates(app.client.access, "default")
        assert (rates.started, rates.ended, rates.failed, rates.is_partial) == (3, 3, 1, False)
        assert rates.duration_s is not None and rates.duration_s >= 0
        assert (await execution_rates(app.client.access, "acme")).started == 0
        _ = await app.client.start(trip, "Rome")
        async with asyncio.timeout(10):
            while not await app.client.approvals():
                await asyncio.sleep(0.01)
        assert (await execution_rates(app.client.access, "default")).started == 4, "the execution of an approval is not one of the user's"
        monkeypatch.setattr(system_status, "SCANNED_MAX", 2)
        assert (await execution_rates(app.client.access, "default")).is_partial


async def test_a_client_of_a_store_is_told_that_there_is_no_server(tmp_path: Path) -> None:
    async with App(WORKFLOWS, db=f"sqlite:///{tmp_path}/local.db") as app:
        found = await app.client.system()
        assert (found.uptime_s, found.started_at_s, found.roles) == (None, None, ())
        assert msgspec.json.encode(NO_SERVER)
