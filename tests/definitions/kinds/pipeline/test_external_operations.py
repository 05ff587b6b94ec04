"""Outside: what a pipeline asks over HTTP, and what it leaves to jq."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import Definition
from perdure.code.step_environment import StepInfo, current_resources, current_step
from perdure.core.paths import Key
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.definitions.kinds.pipeline import OperationFailed, PipelineFailed, run
from perdure.definitions.kinds.pipeline.composites import search_composites
from perdure.definitions.kinds.pipeline.pipeline_limits import DEFAULT_LIMITS, PipelineLimits
from perdure.runtime.step_resources import OpenResources
from perdure.stores.configured_store import open_store
from perdure.stores.memory import MemoryStore
from tests.definitions.kinds.pipeline.sample_tables import piped, refused

ROWS = [{"a": 2, "b": {"c": "x"}}, {"a": 1, "b": {"c": "y"}}]


@pytest.mark.parametrize(
    ("program", "rows"),
    [
        ("map({c: .b.c, twice: (.a * 2)})", [{"c": "x", "twice": 4}, {"c": "y", "twice": 2}]),
        (".[] | select(.a > 1)", ROWS[:1]),
        ("map(.a) | add", [{"value": 3}]),
        ("{sum: (map(.a) | add)}", [{"sum": 3}]),
        (".[].a", [{"value": 2}, {"value": 1}]),
        ("empty", []),
        ("env | length", [{"value": 0}]),
    ],
)
def test_jq_makes_rows_of_rows(program: str, rows: Any) -> None:
    assert piped(ROWS, {"jq_transform": program}) == rows


def test_jq_takes_one_row_after_the_other_where_that_is_said() -> None:
    assert piped(ROWS, {"table_sort": "a"}, {"jq_transform": {"program": ".b", "each": True}}, {"top_k": 1}) == [{"c": "y"}]
    assert piped(ROWS, {"jq_transform": {"program": "[.a]", "each": True}}) == [{"value": [2]}, {"value": [1]}]


@pytest.mark.parametrize(("program", "why"), [(".[", "syntax error"), ("map(.a.b)", "Cannot index"), ("input", "break")])
def test_what_jq_refuses_names_its_operation(program: str, why: str) -> None:
    told = refused(ROWS, {"top_k": 2}, {"jq_transform": program})
    assert told.startswith("pipeline[1] (jq_transform): ") and why in told


def test_integers_that_jq_would_change_are_refused() -> None:
    assert piped([{"n": 2**53}], {"jq_transform": "."}) == [{"n": 2**53}]
    assert piped([{"n": "Óó", "m": 2**33}], {"jq_transform": "."}) == [{"n": "Óó", "m": 2**33}]
    assert "an integer of more than 53 bits, which jq would change" in refused([{"n": [{"x": 2**53 + 1}]}], {"jq_transform": "."})


@pytest.mark.slow
def test_jq_that_does_not_end_is_killed_within_the_time_of_the_pipeline() -> None:
    assert "pipeline[0] (jq_transform): " in refused(ROWS, {"jq_transform": "def f: f; f"}, bounds=PipelineLimits(wall_s=0.5))


class Api:
    """An API of a flight search, that notes how it was asked."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.body: Any = {"data": {"items": [{"price": 30, "to": "LAX"}, {"price": 10, "to": "SFO"}]}, "next": None}
        self.status = "200 OK"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for line in head[1:] if line for name, _, value in [line.partition(": ")]}
        _ = await reader.readexactly(int(headers.get("content-length", 0)))
        self.seen.append((head[0], headers))
        raw = msgspec.json.encode(self.body)
        writer.write(f"HTTP/1.1 {self.status}\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\nconnection: close\r\n\r\n".encode() + raw)
        await writer.drain()
        writer.close()


async def asked(api: Api, *ops: Any, rows: Any = None, bounds: PipelineLimits = DEFAULT_LIMITS, allowed: tuple[str, ...] = ("127.0.0.1",)) -> Any:
    """What a pipeline makes of an API that it reaches at PORT, in a step."""
    server = await asyncio.start_server(api.answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    resources = OpenResources(MemoryStore(time.time))
    tokens = current_resources.set(resources), current_step.set(StepInfo(Key("default", "flights", "1"), (("search", 1),), 1))
    ready = msgspec.json.decode(msgspec.json.encode(ops).replace(b"HOST", f"127.0.0.1:{port}".encode()))
    try:
        async with server:
            return await run(ready, rows, deployment=Deployment(Allowed(http=allowed)), bounds=bounds)
    finally:
        await resources.close()
        current_resources.reset(tokens[0])
        current_step.reset(tokens[1])


SEARCH = {"step": "http_request", "url": "http://HOST/search", "params": {"origin": "NYC", "dest": "LAX"}, "rows": "data.items"}


async def test_the_first_operation_may_ask_for_the_rows() -> None:
    api = Api()
    rows = await asked(api, SEARCH, {"step": "table_sort", "field": "price", "order": "asc"}, {"step": "top_k", "k": 1})
    assert rows == [{"price": 10, "to": "SFO"}]
    assert [line for line, _ in api.seen] == ["GET /search?origin=NYC&dest=LAX HTTP/1.1"] and "idempotency-key" not in api.seen[0][1]


async def test_an_answer_may_be_a_table_that_is_joined() -> None:
    joined = await asked(Api(), {**SEARCH, "into": "fares"}, {"join": {"with": "fares", "on": {"city": "to"}}}, rows=[{"city": "LAX"}, {"city": "JFK"}])
    assert joined == [{"city": "LAX", "price": 30}]


async def test_each_request_that_changes_something_has_a_key_of_its_own_that_is_the_same_in_every_try() -> None:
    api = Api()
    post = {**SEARCH, "method": "POST", "json": {"x": 1}}
    for _ in range(2):
        _ = await asked(api, post, post, {"http_request": {**{name: post[name] for name in ("url", "method")}, "headers": {"Idempotency-Key": "mine"}}})
    keys = [headers["idempotency-key"] for _, headers in api.seen]
    assert keys[:3] == keys[3:] and keys[2] == "mine" and keys[0].endswith(":0") and keys[1] == f"{keys[0][:-1]}1"


async def test_the_guard_of_the_kind_http_holds_and_its_failures_name_the_operation() -> None:
    with pytest.raises(PipelineFailed, match=r"pipeline\[0\] \(http_request\): .*127\.0\.0\.1"):
        _ = await asked(Api(), SEARCH, allowed=())
    gone = Api()
    gone.status = "404 Not Found"
    with pytest.raises(PipelineFailed, match=r"pipeline\[1\] \(http_request\): .*404"):
        _ = await asked(gone, {"top_k": 1}, SEARCH, rows=[])
    busy = Api()
    busy.status = "500 Internal Server Error"
    with pytest.raises(OperationFailed, match=r"pipeline\[0\] \(http_request\): status_transient: .*500"):
        _ = await asked(busy, SEARCH)


async def test_an_answer_without_rows_or_with_too_many_is_refused() -> None:
    with pytest.raises(PipelineFailed, match=r"the rows of the answer are null; rows are a list of mappings"):
        _ = await asked(Api(), {**SEARCH, "rows": "data.itms"})
    with pytest.raises(PipelineFailed, match=r"there are 2 rows, and at most 1 are allowed"):
        _ = await asked(Api(), SEARCH, bounds=PipelineLimits(rows=1))
    single = Api()
    single.body = [3, 4]
    assert await asked(single, {"http_request": "http://HOST/numbers"}) == [{"value": 3}, {"value": 4}]


def written(directory: Path) -> list[bytes]:
    """What the files of a directory have in them."""
    return [file.read_bytes() for file in directory.rglob("*") if file.is_file()]


@pytest.mark.slow
async def test_a_secret_in_a_header_goes_out_and_nowhere_else(tmp_path: Path) -> None:
    api, canary = Api(), "canary-of-the-pipeline"
    server = await asyncio.start_server(api.answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/search"
    ask = {"http_request": {"url": url, "headers": {"Authorization": "Bearer @{secrets.TOKEN}"}, "rows": "data.items"}}
    document = {"perdure": 1, "name": "it", "steps": [{"id": "a", "pipeline": [ask, {"table_sort": "price"}]}]}
    definition = Definition.of(document, deployment=Deployment(Allowed(http=("127.0.0.1",))), secrets={"TOKEN": canary})
    async with server:
        for _ in range(2):
            assert (await definition.with_(db=f"sqlite:///{tmp_path}/perdure.db").arun())[0] == {"price": 10, "to": "SFO"}
    assert [headers["authorization"] for _, headers in api.seen] == [f"Bearer {canary}"] * 2
    assert not any(canary.encode() in raw for raw in written(tmp_path))
    store = open_store(f"sqlite:///{tmp_path}/perdure.db")
    (composite,) = await search_composites(store, "sort")
    await store.close()
    assert composite.inputs == ("token",) and "Bearer @{input.token}" in repr(composite.pipeline)
