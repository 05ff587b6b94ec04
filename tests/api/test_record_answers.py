"""Claims about reads of executions again and again: none of the log while nothing changes, and never an answer that is not right any more."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import App
from perdure.api import record_answers
from perdure.api.api_app import ApiApp
from perdure.api.http_requests import ApiAnswer
from perdure.api.record_answers import RecordAnswers
from perdure.core.paths import Key
from perdure.service.callers import Caller
from perdure.service.execution_records import read_record
from perdure.stores.protocol import HolderStatus, StoredLog
from tests.api.api_setup import Api, add, api_in_process, calc

HERE = "/api/executions/calc/o"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with api_in_process(tmp_path) as api:
        yield api


class Reads:
    """The logs that an API reads."""

    def __init__(self, app: ApiApp, patched: pytest.MonkeyPatch) -> None:
        self.keys, self._read = list[Key](), app.access.store.read
        patched.setattr(app.access.store, "read", self.counted)

    async def counted(self, key: Key, after: int = 0) -> StoredLog | None:
        self.keys.append(key)
        return await self._read(key, after)


async def begun(api: Api, given: list[Any], id: str = "o", name: str = "calc") -> None:
    answer = await api("POST", "/api/executions", {"workflow": name, "id": id, "input": given})
    assert answer.status in (200, 201), answer


async def settled(api: Api, place: str = HERE) -> Any:
    """The record once the engine has given the execution back, read twice, so that the second answer is a kept one if there is one."""
    _ = await api("GET", f"{place}/result?waitSeconds=10")
    async with asyncio.timeout(10):
        while (await api("GET", place)).json["runtimeState"]["executor"]["workerOrigin"] is not None:
            await asyncio.sleep(0.01)
    return (await api("GET", place)).json


async def test_an_execution_that_has_ended_is_read_again_from_its_head_alone(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(api, [3, 4])
    first = await settled(api)
    reads = Reads(api.app, monkeypatch)
    answers = [await api("GET", HERE) for _ in range(3)]
    assert [one.json for one in answers] == [first] * 3 and first["outputs"] == 7 and reads.keys == []
    assert answers[0].headers["etag"] == f'"{first["version"]}"'
    assert (await api("GET", HERE, if_none_match=answers[0].headers["etag"])).status == 304
    assert (await api("HEAD", HERE)).headers["content-length"] == answers[0].headers["content-length"]
    assert (await api("GET", f"{HERE}?at=1")).json["status"] == "running"
    api.caller = Caller("other", "key:eve", frozenset(("admin",)))
    assert (await api("GET", HERE)).status == 404


GREETING = "/api/executions/greet/g"


async def until_reason(api: Api, place: str, code: str) -> Any:
    """The record once its reason has a code and no engine holds the execution, read four times, so that the last answer is a kept one if there is one."""
    async with asyncio.timeout(10):
        while (found := (await api("GET", place)).json)["reason"]["code"] != code or found["runtimeState"]["executor"]["workerOrigin"] is not None:
            await asyncio.sleep(0.01)
    return [(await api("GET", place)).json for _ in range(3)][-1]


async def test_an_execution_that_waits_is_read_again_without_its_log_until_it_goes_on(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(api, [], "g", "greet")
    first = await until_reason(api, GREETING, "message")
    with monkeypatch.context() as patched:
        reads = Reads(api.app, patched)
        assert [(await api("GET", GREETING)).json for _ in range(3)] == [first] * 3 and reads.keys == []
    assert first["awaits"][0]["schemas"] and (await api("GET", f"{GREETING}?at=2")).json["awaits"][0]["schemas"] == {}
    assert (await api("POST", f"{GREETING}/messages", {"name": "named", "body": "Ada"})).status == 204
    ended = await settled(api, GREETING)
    assert (ended["status"], ended["outputs"]) == ("completed", "Hello Ada")


async def test_the_answer_follows_the_engines_that_live(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(api, [], "g", "greet")
    first = await until_reason(api, GREETING, "message")
    monkeypatch.setattr(record_answers, "PROCESSES_KNOWN_S", 0)
    await asyncio.sleep(0.2)
    store, leases = api.app.access.store, api.app.access.store.leases

    async def no_leases() -> list[HolderStatus]:
        return []

    monkeypatch.setattr(store, "leases", no_leases)
    for _ in range(2):
        alone = (await api("GET", GREETING)).json
        assert (alone["reason"]["code"], alone["awaits"][0]["schemas"]) == ("engine", {})
    monkeypatch.setattr(store, "leases", leases)
    for _ in range(2):
        assert (await api("GET", GREETING)).json == first


async def test_the_living_processes_are_read_again_after_a_moment(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(api, [], "g", "greet")
    first, leases, asked = await until_reason(api, GREETING, "message"), api.app.access.store.leases, list[int]()

    async def counted() -> list[HolderStatus]:
        asked.append(1)
        return await leases()

    monkeypatch.setattr(record_answers, "PROCESSES_KNOWN_S", 3600)
    await asyncio.sleep(0.2)
    monkeypatch.setattr(api.app.access.store, "leases", counted)
    assert [(await api("GET", GREETING)).json for _ in range(3)] == [first] * 3 and asked == [1]
    api.app._records._known_until_s = 0
    assert (await api("GET", GREETING)).json == first and asked == [1, 1]


async def test_no_answer_is_kept_if_an_engine_comes_or_goes_while_it_is_made(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(api, [], "g", "greet")
    _ = await until_reason(api, GREETING, "message")
    api.app._records._kept.clear()
    leases, asked = api.app.access.store.leases, list[int]()

    async def gone_at_first() -> list[HolderStatus]:
        asked.append(1)
        return await leases() if len(asked) > 1 else []

    monkeypatch.setattr(api.app.access.store, "leases", gone_at_first)
    assert (await api("GET", GREETING)).status == 200
    assert not api.app._records._kept and len(asked) > 1
    assert (await api("GET", GREETING)).status == 200 and api.app._records._kept


async def test_an_execution_that_goes_on_between_two_reads_costs_nothing_more(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(api, [], "g", "greet")
    record = await until_reason(api, GREETING, "message")
    answers, store = RecordAnswers(), api.app.access.store
    shown = await read_record(api.app.access, Key("default", "greet", "g"), None, b"")

    def no_read(*_: object) -> None:
        raise AssertionError("the store was read")

    with monkeypatch.context() as patched:
        patched.setattr(store, "leases", no_read)
        patched.setattr(store, "heads", no_read)
        for version in range(record["version"], record["version"] + 5):
            assert await answers.begin(api.app.access, shown.key) is None
            await answers.keep(api.app.access, None, msgspec.structs.replace(shown, version=version), ApiAnswer(200, b"{}"))
    assert not answers._kept


async def test_what_waits_for_people_or_its_time_is_read_each_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(api, ["Rome"], "t", "trip")
    assert (await api("POST", "/api/executions", {"workflow": "greet", "id": "l", "input": [], "delaySeconds": 3600})).status in (200, 201)
    _ = await until_reason(api, "/api/executions/trip/t", "approval")
    _ = await until_reason(api, "/api/executions/greet/l", "not_started")
    reads = Reads(api.app, monkeypatch)
    for place in ("trip/t", "greet/l"):
        _ = await api("GET", f"/api/executions/{place}")
    assert {key.workflow for key in reads.keys} >= {"trip", "greet"} and not api.app._records._kept


async def test_an_execution_that_is_retried_or_pruned_or_begun_anew_is_shown_as_it_is(api: Api) -> None:
    await begun(api, [-1])
    first = await settled(api)
    assert first["status"] == "failed"
    assert (await api("POST", f"{HERE}/retry", {})).status in (200, 204)
    async with asyncio.timeout(10):
        while (again := (await api("GET", HERE)).json)["version"] == first["version"]:
            await asyncio.sleep(0.01)
    again = await settled(api)
    assert again["version"] > first["version"] and again["completedAt"] > first["completedAt"]
    assert (await api("POST", "/api/upkeep/prune", {"olderThanSeconds": 0, "status": ["failed"]})).status == 200
    removed = (await api("GET", HERE)).json
    assert (removed["variables"], again["variables"]) == (None, [-1]), removed
    assert (await api("POST", "/api/upkeep/prune", {"olderThanSeconds": 0, "status": ["failed"], "forgetIds": True})).status == 200
    assert (await api("GET", HERE)).status == 404
    await begun(api, [5, 6])
    assert (await settled(api))["outputs"] == 11


async def test_the_name_of_the_definition_is_that_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = "perdure: 1\nname: Claim\nsteps:\n  - {id: note, set: {n: 1}}\nvars: {n: 0}\n"
    async with App([calc], tools=[add], db=f"sqlite:///{tmp_path}/api.db") as app:
        served = Api(ApiApp(app.client._access.on_store("a test"), lambda request: served.authenticate(request)))
        slug = (await served("POST", "/api/workflows", {"document": document})).json["slug"]
        assert (await served("POST", f"/api/workflow-versions/{slug}@^1/executions", {"id": "c"})).status == 201
        here = f"/api/executions/{slug}/c"
        await settled(served, here)
        with monkeypatch.context() as patched:
            reads = Reads(served.app, patched)
            assert (await served("GET", here)).json["workflowName"] == "Claim" and reads.keys == []
        assert (await served("PUT", f"/api/workflows/{slug}", {"fields": {"name": "Claims"}})).status == 200
        assert (await served("GET", here)).json["workflowName"] == "Claims"
        assert (await served("DELETE", f"/api/workflows/{slug}")).status in (200, 204)
        assert (await served("GET", here)).json["workflowId"] is None


async def test_few_answers_are_kept_and_no_large_ones(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(api, [3, 4])
    _ = await settled(api)
    kept = api.app._records
    monkeypatch.setattr(record_answers, "ANSWERS_MAX", 2)
    for number in range(4):
        await begun(api, [number], f"n{number}")
        _ = await api("GET", f"/api/executions/calc/n{number}/result?waitSeconds=10")
        _ = await api("GET", f"/api/executions/calc/n{number}")
    assert len(kept._kept) == 2
    kept._kept.clear()
    monkeypatch.setattr(record_answers, "ANSWER_BYTES_MAX", 100)
    _ = await settled(api)
    assert not kept._kept


@pytest.mark.parametrize("code", ["message", "queue", "queue_full"])
async def test_an_answer_that_follows_from_a_queue_is_not_kept(api: Api, code: str) -> None:
    await begun(api, [], "g", "greet")
    _ = await until_reason(api, GREETING, "message")
    access, answers = api.app.access, RecordAnswers()
    record = await read_record(access, Key("default", "greet", "g"), None, b"")
    record = msgspec.structs.replace(record, reason=msgspec.structs.replace(record.reason, code=code))
    for _ in range(3):
        await answers.keep(access, await answers.begin(access, record.key), record, ApiAnswer(200, b"{}"))
    assert (await answers.answer(access, record.key) is not None) == (code == "message")
