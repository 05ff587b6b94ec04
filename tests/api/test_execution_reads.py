"""Claims about reading one execution over HTTP: now and at any event, with its attempts, its graph, and what its fields say."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from perdure.service.callers import Caller
from tests.api.api_setup import Api, api_in_process
from tests.api.service_setup import service_in_process


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with api_in_process(tmp_path) as api:
        yield api


async def ended(api: Api, place: str) -> Any:
    answer = await api("GET", f"{place}/result?waitSeconds=10")
    assert answer.status in (200, 409), answer.body
    return (await api("GET", place)).json


async def test_an_execution_says_what_was_done_and_who_began_it(api: Api) -> None:
    api.caller = Caller("default", "key:ada", frozenset(("admin",)))
    await api("POST", "/api/executions", {"workflow": "calc", "id": "o", "input": {"a": 3, "b": 4}})
    found = await ended(api, "/api/executions/calc/o")
    assert (found["status"], found["seedStatus"], found["variables"], found["outputs"]) == ("completed", "completed", {"a": 3, "b": 4}, 7)
    assert (found["initiatorType"], found["initiatorUserId"], found["triggerId"], found["triggerType"]) == ("manual", "key:ada", None, "manual")
    assert found["attributes"] == {"initiator": "key:ada"} and found["idempotencyKey"] == "o" and found["error"] is None
    assert found["startedAt"] <= found["completedAt"] and found["attemptCount"] == 1
    assert found["runtimeState"]["executor"] | {"firstEnqueuedAt": 0, "lastEnqueuedAt": 0, "workerOrigin": 0} == {
        "dispatchCount": 1,
        "firstEnqueuedAt": 0,
        "lastEnqueuedAt": 0,
        "triggerType": "manual",
        "workerOrigin": 0,
        "lastError": None,
        "sessionId": None,
    }
    assert (await api("GET", "/api/executions/calc/o/input")).json == {"input": {"a": 3, "b": 4}}
    listed = (await api("GET", "/api/executions?where=initiator%3Dkey:ada")).json["items"]
    assert [one["id"] for one in listed] == ["o"]


async def test_it_can_be_looked_at_as_it_was_after_any_event(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "calc", "id": "o", "input": [3]})
    last = (await ended(api, "/api/executions/calc/o"))["version"]
    statuses = [(await api("GET", f"/api/executions/calc/o?at={number}")).json["status"] for number in range(1, last + 1)]
    assert statuses[0] == "running" and statuses[-1] == "completed"
    pages = [(await api("GET", f"/api/executions/calc/o/steps?at={number}")).json["items"] for number in range(1, last + 1)]
    assert (pages[0][2]["state"], pages[-1][2]["state"], pages[-1][2]["output"]) == ("performing", "completed", 4)
    graphs = [(await api("GET", f"/api/executions/calc/o/graph?at={number}")).json["nodes"] for number in range(1, last + 1)]
    assert [[one["state"] for one in graph] for graph in graphs] == [[one["state"] for one in page] for page in pages]
    for wrong in (0, last + 1, -1):
        for place in ("", "/steps", "/graph"):
            answer = await api("GET", f"/api/executions/calc/o{place}?at={wrong}")
            assert (answer.status, answer.json["where"].strip("/")) == (422, "at") and (wrong < 1 or f"1 to {last}" in answer.json["detail"])


async def test_a_step_has_all_its_attempts_with_input_and_output(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "shaky", "id": "s", "input": [2]})
    found = await ended(api, "/api/executions/shaky/s")
    assert found["runtimeState"]["executor"]["dispatchCount"] == 3 and found["runtimeState"]["executor"]["lastError"] == "OSError: failed 2"
    (step,) = (await api("GET", "/api/executions/shaky/s/steps")).json["items"]
    assert (step["number"], step["stepId"], step["state"], step["seedStatus"], step["attempt"]) == (1, "unsteady", "completed", "completed", 3)
    assert (step["input"], step["output"]) == ([2], 3)
    assert [(one["number"], one["state"], one["error"] and one["error"]["message"]) for one in step["attempts"]] == [
        (1, "failed", "failed 1"),
        (2, "failed", "failed 2"),
        (3, "completed", None),
    ]
    assert all(one["startedAt"] <= one["completedAt"] for one in step["attempts"])


async def test_steps_come_in_pages(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "calc", "id": "o", "input": [3]})
    await ended(api, "/api/executions/calc/o")
    first = (await api("GET", "/api/executions/calc/o/steps?limit=2")).json
    rest = (await api("GET", f"/api/executions/calc/o/steps?limit=2&after={first['next']}")).json
    assert [one["number"] for one in first["items"] + rest["items"]] == [1, 2, 3] and rest["next"] is None


async def test_a_failure_says_where_and_has_a_fingerprint(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "calc", "id": "n", "input": [-1]})
    found = await ended(api, "/api/executions/calc/n")
    assert (found["seedStatus"], found["error"]["code"], found["error"]["message"]) == ("failed", "ValueError", "negative")
    assert len(found["error"]["fingerprint"]) == 10


async def test_a_definition_that_the_engine_has_from_a_file_is_started_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "claim.yaml").write_text("perdure: 1\nname: claim\ninput: {cents: {type: integer}}\nsteps:\n  - {id: wait, sleep: 0s}\n")
    async with service_in_process(tmp_path, definitions=tmp_path / "claim.yaml") as service:
        by = await service.key("viewer", "operator")
        answer = await service.by(by, "POST", "/api/executions", {"workflow": "claim", "id": "c1", "input": {"cents": 5}})
        assert answer.status == 201, answer
        assert (await service.by(by, "GET", "/api/executions/claim/c1/result?waitSeconds=10")).status == 200
        assert (await service.by(by, "POST", "/api/executions", {"workflow": "claim", "id": "c2", "input": {"euros": 5}})).status == 201
        answer = await service.by(by, "GET", "/api/executions/claim/c2/result?waitSeconds=10")
        assert answer.status == 409 and "the input lacks cents" in answer.json["detail"]


async def test_lists_select_by_error_and_by_text(api: Api) -> None:
    for id, given in (("a", {"a": -1, "b": 1}), ("b", {"a": 1, "b": 1}), ("c", {"a": -2, "b": 1})):
        await api("POST", "/api/executions", {"workflow": "calc", "id": id, "input": given, "attributes": {"customer": f"Ünal {id}"}})
        await ended(api, f"/api/executions/calc/{id}")
    failed = (await api("GET", "/api/executions?errorType=ValueError")).json
    assert [one["id"] for one in failed["items"]] == ["c", "a"] and failed["scanned"] is None
    (known,) = {one["fingerprint"] for one in failed["items"]}
    assert (await api("GET", f"/api/executions?fingerprint={known}&limit=1")).json["items"][0] | {"id": "c", "errorType": "ValueError"} == failed["items"][0]
    found = (await api("GET", "/api/executions?text=%C3%BCNAL%20b")).json
    assert ([one["id"] for one in found["items"]], found["scanned"], found["next"]) == (["b"], 3, "")


async def test_an_error_names_no_argument_as_python_has_it(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "calc", "id": "o", "input": [3]})
    for answer in (
        await api("GET", "/api/executions?descending=true"),
        await api("POST", "/api/executions", {"workflow": "calc", "id": "o", "input": [4], "strict": True}),
    ):
        assert answer.status in (409, 422) and "order_by" not in answer.json["detail"] and "=" not in answer.json["detail"]


async def test_executions_to_watch_travel_in_the_query_with_slashes_commas_and_unicode(api: Api) -> None:
    ids = {"2026/11,a": "2026%252F11%252Ca", "ä b": "%25C3%25A4%2520b", "plain": "plain"}
    for id in ids:
        await api("POST", "/api/executions", {"workflow": "calc", "id": id, "input": [3]})
        await ended(api, f"/api/executions/calc/{quote(id, safe='')}")
    asked = "&".join(f"watch=calc/{text}" for text in ids.values())
    found = (await api("GET", f"/api/events/stream?follow=false&{asked}")).json["items"]
    assert {(one["execution"]["id"], one["type"]) for one in found} >= {(id, "changed") for id in ids}
    assert len({one["number"] for one in found if one["type"] == "changed"}) == 1
    refused = await api("GET", "/api/events/stream?follow=false&watch=calc")
    assert (refused.status, refused.json["where"].strip("/")) == (422, "watch") and "order/o-17" in refused.json["detail"]


async def test_a_graph_that_has_not_changed_is_not_sent_again(api: Api) -> None:
    await api("POST", "/api/executions", {"workflow": "greet", "id": "g", "input": {}})
    while (first := await api("GET", "/api/executions/greet/g/graph")).status != 200:
        assert first.status == 422, "it has not begun"
    tag = first.headers["etag"]
    assert tag == f'"{first.json["at"]}"'
    again = await api("GET", "/api/executions/greet/g/graph", if_none_match=tag)
    assert (again.status, again.headers["etag"]) == (304, tag)
    await api("POST", "/api/executions/greet/g/messages", {"name": "named", "body": "ada"})
    await ended(api, "/api/executions/greet/g")
    changed = await api("GET", "/api/executions/greet/g/graph", if_none_match=tag)
    assert changed.status == 200 and changed.json["at"] > first.json["at"]
