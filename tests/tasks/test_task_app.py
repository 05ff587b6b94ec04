"""Claims about the protocol over HTTP: who may ask, what is answered, and that its description is true."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from hashlib import sha256
from math import inf, nan
from typing import Any

import msgspec
import pytest

from perdure import Context, ExecutionFailed, Retry, step, workflow
from perdure.core import events as e
from perdure.core import limits, messages
from perdure.core.paths import QueueAddress
from perdure.runtime.task_broker import TASK_LEASE_MAX_S, TASK_LEASE_S, TASK_WAIT_MAX_S, TASKS_PER_REQUEST_MAX
from perdure.tasks.http_endpoint import BODY_BYTES_MAX, BODY_S, LEASE_END_ERRORS, TaskApp, token_authorization
from perdure.tasks.worker_protocol import CompleteBody, FailBody, HeartbeatBody, LeaseBody, LeasedTask
from perdure.tasks.worker_tokens import FULL_GRANT, TokenGrant, WorkerAccess
from perdure.testing.virtual_time import run
from tests.runtime.cluster import Cluster, ClusterProcess, cluster, now_s, settle
from tests.tasks.app_requests import DESCRIPTION, HERE, JSON, AppResponse, ask, is_valid, told, valid

EVERYBODY = WorkerAccess({})
TOKEN = "correct horse battery staple".replace(" ", "-")
BEARER = (b"authorization", f"Bearer {TOKEN}".encode())


def digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


@step(queue="gpu", retry=Retry(max=2, wait="10s", jitter=0))
async def draw(*args: Any, **more: Any) -> Any: ...


@workflow
async def drawing(ctx: Context, what: Any) -> Any:
    return await ctx.step(draw, what, size=3)


class AppWithBroker:
    """An engine and a lender, and the app in front of it."""

    def __init__(self, c: Cluster, engine: ClusterProcess, process: ClusterProcess) -> None:
        self.c, self.engine, self.process = c, engine, process
        self.app = TaskApp(process.broker, token_authorization(EVERYBODY))

    async def ask(self, path: str, body: Any = None, **how: Any) -> AppResponse:
        return await told(self.app, path, body, **how)

    async def start(self, what: Any = "a cat", id: str = "e") -> None:
        assert await self.c.start(self.engine, drawing, what, id=id)

    async def task(self, **how: Any) -> Any:
        """The one task that is lent."""
        answered = await self.ask("/v1/tasks/lease", {"worker": "ada", "wait_s": 30, **how})
        assert answered.status == 200, answered
        (task,) = answered.body["tasks"]
        return task

    async def say(self, task: Any, what: str, body: Any, **how: Any) -> AppResponse:
        return await self.ask(f"/v1/tasks/{task['lease']}/{what}", body, **how)

    async def result(self, id: str = "e") -> Any:
        return await self.c.result(self.engine, drawing, id)


def app_with_broker(test: Callable[[AppWithBroker], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test at a desk, in virtual time."""

    @wraps(test)
    async def inside() -> None:
        async with cluster() as c:
            await test(AppWithBroker(c, await c.engine(drawing), await c.broker()))

    def virtual() -> None:
        run(inside, handles_max=200_000)

    virtual.__name__, virtual.__doc__ = test.__name__, test.__doc__
    return virtual


# What is said.


@app_with_broker
async def test_a_task_is_leased_and_completed(served: AppWithBroker) -> None:
    await served.start({"text": "café"})
    task = await served.task(lease_s=120)
    lease = task.pop("lease")
    assert task == {
        "task": "draw",
        "queue": "gpu",
        "attempt": 1,
        "key": "default/drawing/e:draw",
        "execution": {"tenant": "default", "workflow": "drawing", "id": "e"},
        "path": "draw",
        "args": [{"text": "café"}],
        "input": {"size": 3},
        "progress": None,
        "lease_s": 120.0,
        "timeout_s": None,
        "deadline": None,
    }
    answered = await served.ask(f"/v1/tasks/{lease}/complete", {"value": {"lines": 12, "none": None}})
    assert (answered.status, answered.body) == (200, {"accepted": True})
    assert await served.result() == {"lines": 12, "none": None}
    again = await served.ask(f"/v1/tasks/{lease}/complete", {"value": {"lines": 12, "none": None}})
    other = await served.ask(f"/v1/tasks/{lease}/complete", {"value": 13})
    assert (again.status, other.status, other.error) == (200, 409, "already_answered")


@app_with_broker
async def test_heartbeats_tell_how_far_it_is_and_whether_it_is_wanted(served: AppWithBroker) -> None:
    await served.start()
    task = await served.task()
    assert (await served.say(task, "heartbeat", {"progress": {"line": 1}})).body == {"wanted": True, "lease_s": TASK_LEASE_S}
    assert (await served.say(task, "heartbeat", None)).status == 200
    await served.c.tell(drawing.key("e"), messages.CancelMessage())
    await asyncio.sleep(2)
    heard = await served.say(task, "heartbeat", {})
    assert heard.status == 200 and heard.body["wanted"] is False
    await asyncio.sleep(30)  # the grace in which it may be answered all the same
    late = await served.say(task, "complete", {"value": 1})
    assert (late.status, late.error) == (409, "not_wanted")


@app_with_broker
async def test_a_failure_is_tried_again_or_not_as_the_worker_says(served: AppWithBroker) -> None:
    await served.start()
    assert (await served.say(await served.task(), "fail", {"type": "Busy", "message": "no ink", "after_s": 20})).status == 200
    began_s = now_s()
    task = await served.task()
    assert task["attempt"] == 2 and now_s() - began_s == pytest.approx(20, abs=0.1)
    assert (await served.say(task, "fail", {"type": "NoPaper", "message": "out of paper", "retry": False, "data": ["A4"]})).status == 200
    with pytest.raises(ExecutionFailed, match=r"step draw failed \(fatal, 2 attempts\): NoPaper: out of paper"):
        await served.result()


@app_with_broker
async def test_a_lease_that_has_run_out_is_told_from_one_that_there_never_was(served: AppWithBroker) -> None:
    await served.start()
    task = await served.task(lease_s=5)
    await asyncio.sleep(6)
    for what, body in (("heartbeat", {}), ("complete", {"value": 1}), ("fail", {"message": "late"})):
        late = await served.say(task, what, body)
        assert (late.status, late.error) == (409, "lease_expired") and "lease another" in late.body["error"]["next"]
        never = await served.ask(f"/v1/tasks/{'x' * 32}/{what}", body)
        assert (never.status, never.error) == (409, "lease_lost")
    assert (await served.task())["attempt"] == 2


@app_with_broker
async def test_who_waits_is_answered_when_there_is_something_or_the_time_is_over(served: AppWithBroker) -> None:
    began_s = now_s()
    assert (await served.ask("/v1/tasks/lease", {"worker": "ada", "wait_s": 12.5})).body == {"tasks": []}
    assert now_s() - began_s == pytest.approx(12.5, abs=0.01)
    waiting = asyncio.create_task(served.task())
    await asyncio.sleep(20)
    await served.start()
    began_s = now_s()
    await waiting
    assert now_s() - began_s < 0.01


@app_with_broker
async def test_a_worker_that_hangs_up_while_waiting_leases_nothing(served: AppWithBroker) -> None:
    assert await ask(served.app, "/v1/tasks/lease", {"worker": "ada", "wait_s": 30}, leaves_s=5.0) is None
    await served.start()
    assert (await served.task())["attempt"] == 1 and now_s() < 1_000_000_006


@app_with_broker
async def test_who_hangs_up_as_a_task_comes_has_not_interrupted_it(served: AppWithBroker) -> None:
    async def gone() -> AppResponse | None:
        return await ask(served.app, "/v1/tasks/lease", {"worker": "ada", "wait_s": 30}, leaves_s=5.0)

    waiting = asyncio.create_task(gone())
    await asyncio.sleep(5.0)
    await served.start()
    await waiting
    task = await served.task()
    events = await served.c.events(drawing.key("e"))
    assert all(event.given_back for event in events if isinstance(event, e.InterruptedEvent))
    assert (await served.say(task, "complete", {})).status == 200 and await served.result() is None


# Who may ask.


@app_with_broker
async def test_with_tokens_nobody_is_let_in_without_one(served: AppWithBroker) -> None:
    served.app = TaskApp(served.process.broker, token_authorization(WorkerAccess({digest(TOKEN): FULL_GRANT})))
    for headers in (
        (),
        (BEARER[0], b"Bearer wrong"),
        (BEARER[0], BEARER[1].replace(b"Bearer", b"Basic")),
        (BEARER[0], b"Bearer "),
        (BEARER[0], TOKEN.encode()),
    ):
        given = (JSON, (b"host", b"tasks.example"), *([headers] if headers else []))
        for path in ("/v1/tasks/lease", "/v1/tasks/x/complete"):
            refused = await served.ask(path, {"worker": "ada"}, headers=given)
            assert (refused.status, refused.error, refused.headers["www-authenticate"]) == (401, "unauthorized", "Bearer")
            assert TOKEN not in str(refused)
    assert (await served.ask("/v1/tasks/lease", {"worker": "ada"}, headers=(JSON, BEARER))).status == 200
    assert (await served.ask("/v1/health", method="GET", headers=())).status == 200


@app_with_broker
async def test_a_token_opens_its_queues_and_tenants_alone(served: AppWithBroker) -> None:
    process = await served.c.broker(queues=["gpu", "cpu"])
    grants = {digest(TOKEN): TokenGrant(frozenset({"cpu", "other"}), frozenset({"acme"})), digest("b" * 20): FULL_GRANT}
    app = TaskApp(process.broker, token_authorization(WorkerAccess(grants)))
    for queue in (["gpu"], ["cpu", "gpu"], ["other"]):
        refused = await told(app, "/v1/tasks/lease", {"worker": "ada", "queues": queue}, headers=(JSON, BEARER))
        assert (refused.status, refused.error) == (403, "not_served")
    for tenant in ("acme", "default"):
        work = messages.TaskMessage(drawing.key("e")._replace(tenant=tenant), (("draw", 1),), 1, "draw", tenant, msgspec.msgpack.encode(((), {})))
        await served.c.store.commit([served.c.posted(QueueAddress(tenant, "cpu"), tenant, messages.encode_message(work))])
    mine = await told(app, "/v1/tasks/lease", {"worker": "ada", "limit": 10}, headers=(JSON, BEARER))
    assert [task["execution"]["tenant"] for task in mine.body["tasks"]] == ["acme"]
    other = (JSON, (b"authorization", b"bearer " + b"b" * 20))
    lease = mine.body["tasks"][0]["lease"]
    assert (await told(app, f"/v1/tasks/{lease}/complete", {}, headers=other)).error == "lease_lost"
    assert (await told(app, f"/v1/tasks/{lease}/complete", {"worker": "bob"}, headers=(JSON, BEARER))).error == "lease_lost"
    assert (await told(app, f"/v1/tasks/{lease}/complete", {"worker": "ada"}, headers=(JSON, BEARER))).status == 200


@app_with_broker
async def test_without_tokens_only_who_calls_by_a_name_of_this_machine_is_answered(served: AppWithBroker) -> None:
    for host in (b"127.0.0.1:7800", b"localhost", b"[::1]:7800", b"127.1.2.3"):
        assert (await served.ask("/v1/tasks/lease", {"worker": "ada"}, headers=(JSON, (b"host", host)))).status == 200
    for host in (b"evil.example:7800", b"127.0.0.1.evil.example", b"192.168.0.7", b"", b"[", b"localhost.evil.example"):
        refused = await served.ask("/v1/tasks/lease", {"worker": "ada"}, headers=(JSON, (b"host", host)))
        assert (refused.status, refused.error) == (403, "wrong_host")


@app_with_broker
async def test_no_form_of_a_page_is_taken_for_a_request(served: AppWithBroker) -> None:
    for kind in (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x", b""):
        refused = await served.ask("/v1/tasks/lease", {"worker": "ada"}, headers=(HERE, (b"content-type", kind)))
        assert (refused.status, refused.error) == (415, "not_json")


@app_with_broker
async def test_a_body_is_json_in_utf_8(served: AppWithBroker) -> None:
    cases = (
        (b"Application/JSON; charset=utf-8", 200),
        (b'application/json; CHARSET="UTF8"', 200),
        (b"application/json; a=b", 200),
        (b"application/json;", 200),
    )
    for kind, status in (*cases, (b"application/json; charset=latin-1", 415), (b'application/json; a=b; Charset="utf-16"', 415)):
        answered = await served.ask("/v1/tasks/lease", {"worker": "ada"}, headers=(HERE, (b"content-type", kind)))
        assert answered.status == status and (status == 200 or answered.error == "not_json")


@app_with_broker
async def test_a_compressed_body_is_refused_and_one_with_a_plain_length_is_read(served: AppWithBroker) -> None:
    for encoding, status in ((b"gzip", 415), (b"br, gzip", 415), (b"identity", 200), (b"", 200)):
        answered = await served.ask("/v1/tasks/lease", {"worker": "ada"}, headers=(HERE, JSON, (b"content-encoding", encoding)))
        assert answered.status == status and (status == 200 or answered.error == "encoded")
    for length in ("00000000000000000018", "18\t"):
        assert (await served.ask("/v1/tasks/lease", b'{"worker": "ada" }', length=length)).status == 200


# What is no request.


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"worker": 7}',
        b'{"worker": ""}',
        b'{"worker": "a", "limit": 0}',
        b'{"worker": "a", "limit": 101}',
        b'{"worker": "a", "wait_s": 31}',
        b'{"worker": "a", "wait_s": -1}',
        b'{"worker": "a", "lease_s": 0.5}',
        b'{"worker": "a", "lease_s": 3601}',
        b'{"worker": "a", "x": 1}',
        b'{"worker": "a", "queues": []}',
        b'{"worker": "a", "queues": [""]}',
        b'{"worker": "a", "wait_s": NaN}',
        b'{"worker": "a", "limit": "1"}',
        b'{"worker": "\\ud800"}',
        b'{"worker": "a", "queues": ["x"], "queues": ["y"]}',
        b'{"worker": "a", "w\\u006frker": "a"}',
    ],
)
def test_what_is_no_request_is_refused_and_told_what_is(body: bytes) -> None:
    @app_with_broker
    async def refused(served: AppWithBroker) -> None:
        answered = await served.ask("/v1/tasks/lease", body)
        assert (answered.status, answered.error) == (400, "bad_request") and len(answered.body["error"]["message"]) < 1000

    refused()


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"value": 2**70}, 422, "unencodable"),
        ({"value": 1, "port": "error"}, 422, "bad_value"),
        ({"value": 1, "port": "skipped"}, 422, "bad_value"),
        ({"value": 1, "port": "é" * 900}, 422, "bad_value"),
        ({"value": 1, "port": ""}, 400, "bad_request"),
        ({"result": 1}, 400, "bad_request"),
        (b"nonsense", 400, "bad_request"),
        (b'{"value": 1, "value": 2}', 400, "bad_request"),
        (b'{"value": [{"a": ":", "a": 2}]}', 400, "bad_request"),
        (b'{"value": "' + b":" * 300_000 + b'", "port": "a", "port": "b"}', 400, "bad_request"),
    ],
)
def test_an_answer_that_can_not_be_kept_leaves_the_task_to_be_answered(body: Any, status: int, error: str) -> None:
    @app_with_broker
    async def refused(served: AppWithBroker) -> None:
        await served.start()
        task = await served.task()
        answered = await served.say(task, "complete", body)
        assert (answered.status, answered.error) == (status, error)
        assert (await served.say(task, "complete", {"value": "kept"})).status == 200 and await served.result() == "kept"

    refused()


@pytest.mark.slow
@app_with_broker
async def test_what_is_too_large_is_refused_before_it_is_read(served: AppWithBroker) -> None:
    await served.start()
    task = await served.task()
    for how in ({"length": BODY_BYTES_MAX + 1}, {"parts": [b" " * 2**20] * 18, "length": 10}, {"length": "many"}):
        refused = await served.say(task, "complete", None, **how)
        assert (refused.status, refused.error) == (413, "too_large")
    large = await served.say(task, "complete", {"value": "x" * limits.VALUE_BYTES_MAX})
    assert (large.status, large.error) == (413, "too_large")
    assert (await served.say(task, "heartbeat", {"progress": "x" * limits.BLOB_BYTES_MIN})).error == "too_large"
    assert (await served.say(task, "complete", {"value": "x" * (limits.VALUE_BYTES_MAX - 16)})).status == 200


@app_with_broker
async def test_a_body_that_comes_in_pieces_is_one_and_one_that_comes_too_slowly_is_none(served: AppWithBroker) -> None:
    await served.start()
    task = await served.task()
    raw = b'{"value": {"pieces": [1, 2, 3]}}'
    slow = await served.say(task, "complete", None, parts=[raw[:5], raw[5:]], pause_s=BODY_S)
    assert (slow.status, slow.error) == (408, "too_slow")
    assert (await served.say(task, "complete", None, parts=[raw[at : at + 1] for at in range(len(raw))], pause_s=0.01)).status == 200
    assert await served.result() == {"pieces": [1, 2, 3]}


@app_with_broker
async def test_other_paths_and_methods_are_told_what_there_is(served: AppWithBroker) -> None:
    for path in ("/", "/v1", "/v2/tasks/lease", "/v1/tasks", "/v1/tasks/x", "/v1/tasks/x/delete", "/v1/tasks/a/b/complete"):
        assert (await served.ask(path, {"worker": "ada"})).status == 404
    for path, method in (("/v1/tasks/lease", "GET"), ("/v1/tasks/x/complete", "PUT"), ("/v1/health", "POST"), ("/v1/openapi.json", "DELETE")):
        refused = await served.ask(path, {}, method=method)
        assert refused.status == 405 and refused.headers["allow"]
    assert (await served.ask("/v1/openapi.json", method="GET")).body == DESCRIPTION
    assert (await served.ask("/v1/health", method="HEAD")).body is None


@app_with_broker
async def test_when_it_stops_who_waits_is_told_at_once_and_when_to_come_again(served: AppWithBroker) -> None:
    await served.start()
    task = await served.task()
    waiting = asyncio.create_task(served.ask("/v1/tasks/lease", {"worker": "bob", "wait_s": 30}))
    await settle()
    began_s = now_s()
    served.process.broker.stop(20.0)
    for answered in (await waiting, await served.ask("/v1/tasks/lease", {"worker": "bob", "wait_s": 30})):
        assert (answered.status, answered.error, answered.headers["retry-after"]) == (503, "stopping", "5")
    assert (await served.ask("/v1/health", method="GET")).status == 503
    assert now_s() == began_s
    assert (await served.say(task, "heartbeat", {})).body["wanted"] is True
    assert (await served.say(task, "complete", {"value": 1})).status == 200


@pytest.mark.parametrize("value", [nan, inf, {"deep": [1, {"x": -inf}]}])
def test_a_task_that_no_json_can_say_fails_and_says_so(value: Any) -> None:
    @app_with_broker
    async def failing(served: AppWithBroker) -> None:
        await served.start(value)
        assert (await served.ask("/v1/tasks/lease", {"worker": "ada", "wait_s": 5})).body == {"tasks": []}
        with pytest.raises(ExecutionFailed, match=r"JSON can.t express"):
            await served.result()

    failing()


@pytest.mark.slow
@app_with_broker
async def test_tasks_that_are_too_much_for_one_answer_come_in_several(served: AppWithBroker) -> None:
    for number in range(3):
        await served.start("x" * (limits.VALUE_BYTES_MAX * 4 // 5), id=str(number))
    first = await served.ask("/v1/tasks/lease", {"worker": "ada", "limit": 10, "wait_s": 5})
    assert len(first.body["tasks"]) == 2
    second = await served.ask("/v1/tasks/lease", {"worker": "ada", "limit": 10, "wait_s": 5})
    assert len(second.body["tasks"]) == 1


# What is said of it.


def test_the_description_has_the_limits_that_there_are() -> None:
    schemas = DESCRIPTION["components"]["schemas"]
    lease = schemas["Lease"]["properties"]
    assert lease["limit"]["maximum"] == TASKS_PER_REQUEST_MAX and lease["wait_s"]["maximum"] == TASK_WAIT_MAX_S
    assert (lease["lease_s"]["maximum"], lease["lease_s"]["default"]) == (TASK_LEASE_MAX_S, TASK_LEASE_S)
    described: dict[str, type[msgspec.Struct]] = {
        "Lease": LeaseBody,
        "Heartbeat": HeartbeatBody,
        "Complete": CompleteBody,
        "Fail": FailBody,
        "Task": LeasedTask,
    }
    for name, kind in described.items():
        fields = [field.name for field in msgspec.structs.fields(kind)]
        assert sorted(schemas[name]["properties"]) == sorted(fields)
        required = [field.name for field in msgspec.structs.fields(kind) if field.required]
        assert sorted(schemas[name].get("required", [])) == sorted(required)


def test_all_examples_of_the_description_are_valid_and_no_field_may_be_misspelt() -> None:
    count = 0
    for path in DESCRIPTION["paths"].values():
        for operation in path.values():
            for part in (operation.get("requestBody"), *operation["responses"].values()):
                content = (part or {}).get("content", {}).get("application/json", {})
                for example in content.get("examples", {}).values():
                    valid(content["schema"], example["value"])
                    assert not is_valid(content["schema"], {**example["value"], "misspelt": 1})
                    count += 1
    assert count > 50


def test_the_description_knows_each_error_of_a_lease_that_is_none_any_more() -> None:
    answer = DESCRIPTION["paths"]["/v1/tasks/{lease}/complete"]["post"]["responses"]["409"]
    assert set(answer["content"]["application/json"]["examples"]) == {type for type, _ in LEASE_END_ERRORS.values()}
