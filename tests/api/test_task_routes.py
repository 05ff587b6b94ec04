"""Claims about workers on the port of the API: the same protocol under two paths, with the keys of the API, limited to their queues and tenant."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import App, Context, Retry, step, workflow
from perdure.api.api_app import ApiApp
from perdure.core.errors import ExecutionFailed
from perdure.runtime.task_broker import TaskBroker
from perdure.service.callers import Caller
from tests.api.api_setup import Answer, Api


class NoPaper(Exception):
    """What a worker may say."""


@step(queue="images")
async def draw(what: str) -> str:
    """Performed by a worker elsewhere."""
    raise NotImplementedError


@workflow
async def drawing(ctx: Context, what: str) -> str:
    """One task."""
    return await ctx.step(draw.with_(retry=Retry(max=3, wait=0.01, fatal=(NoPaper,))), what)


WORKER = Caller("default", "key:w1", frozenset({"operator"}), queues=("images",))
ANY_QUEUE = Caller("default", "key:w2", frozenset({"operator"}))


class Served:
    """An API with workers' requests, and the application behind it."""

    def __init__(self, app: App, api: Api, broker: TaskBroker) -> None:
        self.app, self.api, self.broker = app, api, broker

    async def ask(self, path: str, body: Any, caller: Caller = WORKER) -> Answer:
        """Asks as a worker."""
        self.api.caller = caller
        return await self.api("POST", path, body)

    async def lease(self, path: str = "/api/tasks/lease", caller: Caller = WORKER, **more: Any) -> list[Any]:
        """The tasks that are leased."""
        answer = await self.ask(path, {"worker": "ada", "wait_s": 10, **more}, caller)
        assert answer.status == 200, answer
        tasks: list[Any] = answer.json["tasks"]
        return tasks


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with App([drawing], db=f"sqlite:///{tmp_path}/tasks.db") as app:
        access = app.client._access.on_store("a test")
        broker = TaskBroker(access.store, None)
        api = Api(ApiApp(access, lambda request: api.authenticate(request), broker=broker))
        try:
            yield Served(app, api, broker)
        finally:
            await api.app.aclose()


@pytest.mark.parametrize("prefix", ["/v1/tasks", "/api/tasks"])
async def test_a_task_is_leased_and_completed_under_both_paths(served: Served, prefix: str) -> None:
    handle = await served.app.start(drawing, "a cat")
    (task,) = await served.lease(f"{prefix}/lease")
    assert (task["queue"], task["args"]) == ("images", ["a cat"])
    assert (await served.ask(f"{prefix}/{task['lease']}/heartbeat", {})).json["wanted"] is True
    assert (await served.ask(f"{prefix}/{task['lease']}/complete", {"value": "drawn"})).status == 200
    assert await handle.result() == "drawn"


async def test_a_path_that_is_none_is_named_as_it_was_asked_for(served: Served) -> None:
    for path in ("/api/tasks/unknown", "/v1/nothing"):
        answer = await served.ask(path, {})
        assert (answer.status, answer.json["error"]["message"]) == (404, f"there is no {path} here")


async def test_a_key_leases_tasks_of_its_queues_and_tenant_alone(served: Served) -> None:
    _ = await served.app.start(drawing, "a cat")
    refused = await served.ask("/api/tasks/lease", {"worker": "ada", "queues": ["images", "mails"]})
    assert (refused.status, refused.json["error"]["type"]) == (403, "not_served") and "mails" in refused.json["error"]["message"]
    for queues in (["images", "mails"], ["mails"]):
        refused = await served.ask("/api/tasks/lease", {"worker": "ada", "queues": queues})
        assert refused.json["error"]["next"] == "ask for images"
    stranger = Caller("others", "key:s", frozenset({"operator"}))
    assert await served.lease(caller=stranger, queues=["images"], wait_s=0) == []
    (task,) = await served.lease(caller=ANY_QUEUE, queues=["images"])
    for what in ("heartbeat", "complete", "fail"):
        for other in (WORKER, stranger):
            body = {"type": "x", "message": "x"} if what == "fail" else {}
            assert (await served.ask(f"/api/tasks/{task['lease']}/{what}", body, other)).status == 409, "the lease is another key's"
    assert (await served.ask(f"/api/tasks/{task['lease']}/complete", {"value": ""}, ANY_QUEUE)).status == 200


async def test_a_request_without_queues_needs_a_key_that_has_some(served: Served) -> None:
    refused = await served.ask("/api/tasks/lease", {"worker": "ada"}, ANY_QUEUE)
    assert (refused.status, refused.json["error"]["type"]) == (400, "bad_request") and "queues" in refused.json["error"]["next"]
    assert await served.lease(wait_s=0) == []


async def test_a_worker_needs_the_role_and_no_store_is_joined_before(served: Served) -> None:
    refused = await served.ask("/v1/tasks/lease", {"worker": "ada", "queues": ["images"]}, Caller("default", "key:v", frozenset({"viewer"})))
    assert (refused.status, refused.json["error"]["type"]) == (403, "forbidden")
    assert not served.broker.joined.is_set()
    assert (await served.api("GET", "/v1/openapi.json")).status == 200


async def test_queues_that_workers_ask_for_count_as_served(served: Served) -> None:
    assert await served.lease(wait_s=0) == []
    assert served.broker.served == {"images"}


@pytest.mark.parametrize(("said", "attempts"), [("NoPaper", 1), ("Jam", 3)])
async def test_errors_that_a_call_does_not_retry_are_known_by_their_names(served: Served, said: str, attempts: int) -> None:
    handle = await served.app.start(drawing, "a cat")
    for _ in range(attempts):
        (task,) = await served.lease()
        answer = await served.ask(f"/api/tasks/{task['lease']}/fail", {"type": said, "message": "tray 2"})
        assert answer.status == 200
    with pytest.raises(ExecutionFailed, match=rf"{attempts} attempts?\): {said}"):
        await handle.result(timeout=10)


async def test_a_stop_refuses_new_leases_and_takes_answers_to_those_there_are(served: Served) -> None:
    handle = await served.app.start(drawing, "a cat")
    (task,) = await served.lease()
    waiting = asyncio.create_task(served.ask("/api/tasks/lease", {"worker": "ada", "wait_s": 20}))
    await asyncio.sleep(0)
    ended = served.api.app.begin_stop(10)
    assert (await waiting).status == 503
    assert (await served.ask("/api/tasks/lease", {"worker": "ada"})).status == 503
    assert (await served.ask(f"/api/tasks/{task['lease']}/complete", {"value": "drawn"})).status == 200
    assert ended is not None
    await asyncio.wait_for(ended, 10)
    assert await handle.result() == "drawn"
