"""Claims about the limits of what people have in progress: each person, all together, however they start it; and who is not limited."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.api.api_app import ApiApp
from perdure.service.active_limits import ActiveLimits
from perdure.service.callers import Caller
from tests.api.api_setup import Answer, Api, api_in_process

ADA, BEN, EVE = [Caller("default", f"oidc:{name}@example.com", frozenset(("viewer", "operator", "author"))) for name in ("ada", "ben", "eve")]
PROGRAM = Caller("default", "key:AbC123xy", frozenset(("operator",)))


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """An API on which each person may have two executions in progress, and all together three."""
    async with api_in_process(tmp_path) as api:
        access = api.app.access
        api.app = ApiApp(access, lambda request: api.authenticate(request), active_limits=ActiveLimits(per_person=2, in_all=3))
        yield api


async def started(api: Api, caller: Caller, id: str) -> Answer:
    """The answer to a start of an execution that waits."""
    api.caller = caller
    return await api("POST", "/api/executions", {"workflow": "greet", "id": id})


async def ended(api: Api, *ids: str) -> None:
    for id in ids:
        assert (await api("POST", f"/api/executions/greet/{id}/cancel", {"wait": True})).status < 300


async def test_a_person_may_have_so_many_in_progress_and_is_told_what_is_in_the_way(api: Api) -> None:
    assert [(await started(api, ADA, id)).status for id in ("a1", "a2")] == [201, 201]
    refused = await started(api, ADA, "a3")
    assert (refused.status, refused.json["code"], refused.headers["retry-after"]) == (429, "too_many_active", "1")
    assert sorted(one["id"] for one in refused.json["inTheWay"]) == ["a1", "a2"]
    assert (await api("GET", "/api/executions/greet/a3")).status == 404
    assert (await started(api, ADA, "a1")).status == 200, "a repetition is none too many"
    await ended(api, "a1")
    assert (await started(api, ADA, "a3")).status == 201


async def test_all_people_together_may_have_so_many(api: Api) -> None:
    statuses = [(await started(api, caller, id)).status for caller, id in ((ADA, "a1"), (ADA, "a2"), (BEN, "b1"))]
    assert statuses == [201, 201, 201]
    refused = await started(api, EVE, "e1")
    assert (refused.status, len(refused.json["inTheWay"])) == (429, 3)
    assert (await started(api, BEN, "b1")).status == 200, "a repetition is none too many"


async def test_programs_are_not_limited(api: Api) -> None:
    assert {(await started(api, PROGRAM, f"p{number}")).status for number in range(6)} == {201}


async def test_what_programs_have_in_progress_takes_no_place_of_people(api: Api) -> None:
    assert {(await started(api, PROGRAM, f"p{number}")).status for number in range(4)} == {201}
    assert [(await started(api, caller, id)).status for caller, id in ((ADA, "a1"), (ADA, "a2"), (BEN, "ü1"), (EVE, "e1"))] == [201, 201, 201, 429]


async def test_the_limit_of_a_person_holds_for_starts_that_come_at_once(api: Api) -> None:
    api.caller = ADA
    answers = await asyncio.gather(*(started(api, ADA, f"a{number}") for number in range(10)))
    assert sorted(one.status for one in answers) == [201, 201, *[429] * 8]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/triggers/manual/run", {"workflowId": "greet"}),
        ("/api/executions/greet/a1/rerun", {"newId": "again"}),
        ("/api/inline-executions", {"document": {"perdure": 1, "name": "inline", "steps": [{"id": "go", "listen": "go"}]}}),
    ],
)
async def test_every_way_to_start_is_limited(api: Api, path: str, body: dict[str, Any]) -> None:
    assert [(await started(api, ADA, id)).status for id in ("a1", "a2")] == [201, 201]
    async with asyncio.timeout(10):
        while (await api("GET", "/api/executions/greet/a1/status")).json["status"] != "waiting":
            await asyncio.sleep(0.01)
    assert (await api("POST", path, body)).status == 429
