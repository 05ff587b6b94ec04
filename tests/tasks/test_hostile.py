"""Whatever a worker in another language says: it is refused by name or recorded as its answer, and the next tasks are lent."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from perdure import ExecutionFailed
from perdure.core import limits
from tests.hostile_values import BIG, NAMES, nested
from tests.tasks.worker_setup import WorkerSetup, over_http, place, tasks

ONE = tasks({"id": "n", "task": "t", "retry": {"max": 1}})
DEEP = "[" * 100_000 + "]" * 100_000

VALUES: dict[str, str] = {
    "deep": DEEP,
    "half a surrogate": '"\\ud800"',
    "half a surrogate as a key": '{"\\ud800": 1}',
    "a huge int": "1" + "0" * 400,
    "a number that is infinite": "1e999",
    "NaN": "NaN",
    "as deep as may be": json.dumps(nested(90)),
    "text beyond the first plane": json.dumps("\U0001f600\u202e\x00"),
    "3 MB of text": json.dumps("x" * BIG),
    "bytes that are no text": "\udcff",
    "two of one name": '{"a": 1, "a": 2}',
    "nothing": "",
}


def bodies() -> Iterator[tuple[str, str, bytes]]:
    """A name, what is said of a task, and the body."""
    for name, value in VALUES.items():
        yield f"a value: {name}", "complete", f'{{"value": {value}}}'.encode("utf-8", "surrogateescape")
        yield f"an error's data: {name}", "fail", f'{{"message": "m", "data": {value}}}'.encode("utf-8", "surrogateescape")
        yield f"progress: {name}", "heartbeat", f'{{"progress": {value}}}'.encode("utf-8", "surrogateescape")
        yield f"a whole body: {name}", "complete", value.encode("utf-8", "surrogateescape")
    for name, text in NAMES.items():
        for field in ("message", "type"):
            yield f"a {field}: {name}", "fail", json.dumps({"message": "m", field: text}).encode()
        yield f"a port: {name}", "complete", json.dumps({"value": 1, "port": text}).encode()
        yield f"a worker: {name}", "complete", json.dumps({"value": 1, "worker": text}).encode()
    for after in ("-1", "1e300", "1e999", "null", '"soon"'):
        yield f"later: {after}", "fail", f'{{"message": "m", "after_s": {after}}}'.encode()


BODIES = list(bodies())


async def leased(it: WorkerSetup, client: httpx2.AsyncClient, number: int) -> str:
    await it.start(ONE, f"e{number}")
    (task,) = (await client.post("/v1/tasks/lease", json={"worker": "ada", "wait_s": 20})).json()["tasks"]
    lease: str = task["lease"]
    return lease


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.prove) for part in range(1, 4))])
async def test_whatever_a_worker_says_is_refused_by_name_or_is_its_answer(part: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"content-type": "application/json"}
    async with place(tmp_path, ONE, over_http) as it, httpx2.AsyncClient(base_url=it.member.address, timeout=30.0) as client:
        for number, (name, what, body) in enumerate(BODIES[part::4]):
            lease = await leased(it, client, number)
            said = await client.post(f"/v1/tasks/{lease}/{what}", content=body, headers=headers)
            assert said.status_code in (200, 400, 409, 413, 422), (name, said.status_code, said.text[:500])
            if said.status_code != 200:
                error = said.json()["error"]
                assert error["type"] and error["message"] and error["next"] and len(said.content) < 20_000, (name, said.text[:500])
            if said.status_code != 200 or what == "heartbeat":
                assert (await client.post(f"/v1/tasks/{lease}/complete", json={"value": 1, "worker": "ada"})).status_code == 200, name
            how: Any = (await asyncio.gather(it.result(f"e{number}"), return_exceptions=True))[0]
            if isinstance(how, BaseException):
                assert isinstance(how, ExecutionFailed) and how.error.type, (name, how)
                assert len(how.error.message) < 3 * limits.ERROR_MESSAGE_CHARACTERS_MAX, name
    assert not [record.getMessage() for record in caplog.records if "defect of Perdure" in record.getMessage() or "Exception in ASGI" in record.getMessage()]
