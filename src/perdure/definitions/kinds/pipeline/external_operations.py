"""The operations that wait: requests over HTTP, and jq programs in a sandbox.

Requests are made by the kind `http` of the deployment, so its address guard, limits and retry rules apply. A jq program is compiled in a sandbox when a
definition is read, so that errors in it are found before anything runs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from perdure.code.step_environment import step_info
from perdure.core.errors import MissingExtra, OutOfMemory, OutOfTime, SandboxFailed, SandboxLost, SourceFailed
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.pipeline import pipeline_rows
from perdure.definitions.kinds.pipeline.operation_arguments import OPEN, ArgumentReader
from perdure.definitions.kinds.pipeline.pipeline_limits import LimitMeter, OperationError
from perdure.definitions.kinds.pipeline.pipeline_rows import Row, is_wide, packed_rows, table_rows
from perdure.definitions.kinds.pipeline.table_operations import Rows, Tables
from perdure.definitions.kinds.sandbox import sandbox_pool

JQ_COMPILE_LIMITS = sandbox_pool.SandboxLimits(wall_s=5.0, memory_bytes=256 * 1024 * 1024, output_bytes=1024)


def jq_problem(program: str) -> str:
    """Why a program can't be read, in a sentence; empty if it can, or if no sandbox is to be had here: then it is found when it runs."""
    try:
        return _jq_problem(program)
    except (MissingExtra, SandboxFailed, SandboxLost):
        return ""


@lru_cache(maxsize=512)
def _jq_problem(program: str) -> str:
    found = list[BaseException]()

    def compile_it() -> None:
        try:
            asyncio.run(sandbox_pool.run_job("jq", {"program": program, "rows": []}, JQ_COMPILE_LIMITS))
        except Exception as error:  # passed to the thread that waits for this one
            found.append(error)

    thread = threading.Thread(target=compile_it, name="perdure jq")  # as a loop may run in this one
    thread.start()
    thread.join()
    match found:
        case [SourceFailed() | OutOfTime() | OutOfMemory() as error]:
            return str(error)
        case [error]:
            raise error
    return ""


REPEATABLE = frozenset(("GET", "HEAD", "OPTIONS", "PUT", "DELETE"))
METHODS = (*sorted(REPEATABLE), "PATCH", "POST")
PASSED_ON = ("url", "method", "headers", "query", "body", "json", "form", "accept", "redirects", "max_bytes")
"""The fields of a request that the kind `http` is given as they stand."""

OWN_FIELDS = ("params", "rows", "into")
JQ_MEMORY_BYTES = 512 * 1024 * 1024
JQ_WALL_S = 60.0
JQ_CHARACTERS_MAX = 64 * 1024


class OperationContext(NamedTuple):
    """The context of an operation: its number in the pipeline, the limit meter, and the kind for requests."""

    number: int
    pace: LimitMeter
    http: Callable[[], Kind]


class OperationResult(NamedTuple):
    """The result of an operation that waits: rows, and the name of their table (empty: the main table)."""

    rows: Rows
    into: str = ""


ExternalOperation = Callable[[Rows, Tables, OperationContext], Awaitable[OperationResult]]
"""Computes the result of an operation that has to wait for a reply."""


def http_request(read: ArgumentReader) -> ExternalOperation:
    """``http_request``: the rows that an answer has, in place of those before; with `into`, they are a table of that name for a later join, and the rows go on.

    Besides the fields of a step ``http`` it takes `params`, another word for `query`, and `rows`: the path to the rows in the body, which is JSON. A URL
    without a scheme is https.
    """
    read.known((*PASSED_ON, *OWN_FIELDS))
    url, method = read.text("url", "where the request goes"), read.text("method", "GET, POST or another method", "GET")
    if isinstance(method, str) and method.upper() not in METHODS:
        read.wrong("method", f"a method is one of {', '.join(METHODS)}")
    if "query" in read.given and "params" in read.given:
        read.wrong("params", "it has 'params' and 'query', which are one; name one of them")
    params = read.take("params", "a mapping", lambda one: isinstance(one, dict), None)
    path, into = read.path("rows", None), read.text("into", "the name of a table", "")
    get = pipeline_rows.path_getter(path) if read.given.get("rows") is not None else None
    config = {name: read.given[name] for name in PASSED_ON if name in read.given}
    config |= {"query": params} if params not in (None, OPEN) else {}

    async def work(rows: Rows, tables: Tables, around: OperationContext) -> OperationResult:
        where = url if "://" in url else f"https://{url}"
        answer = await around.http().step.fn(config=_keyed({**config, "url": where, "as": "json"}, method, around.number), input=None)
        body = answer.get("body") if isinstance(answer, Mapping) else answer
        found = body if get is None else get(body) if isinstance(body, dict) else None
        _ = packed_rows(found, "the rows of the answer", around.pace)
        return OperationResult(around.pace.checked(table_rows(found, "the rows of the answer")), into)

    return work


def _keyed(config: dict[str, Any], method: str, number: int) -> dict[str, Any]:
    """A request with the idempotency key of the step and of the operation in it: two requests of one step are not one."""
    headers = config.get("headers") or {}
    if method.upper() in ("GET", "HEAD", "OPTIONS") or not isinstance(headers, Mapping) or any(name.lower() == "idempotency-key" for name in headers):
        return config
    try:
        key = step_info().key
    except LookupError:
        return config
    return {**config, "headers": {**headers, "Idempotency-Key": f"{key}:{number}"}}


def jq_transform(read: ArgumentReader) -> ExternalOperation:
    """``jq_transform``: what a program in jq makes of the rows: ``.`` is the list of all, or with ``each: true`` one row after the other. A single output that
    is a list are the rows; else each output is one. It sees neither environment nor files. To it all numbers are floats, so rows with an integer
    of more than 53 bits are refused.
    """
    read.known(("program", "each"))
    what = f"a program in jq of at most {JQ_CHARACTERS_MAX:,} characters, such as 'map(select(.price > 10))'"
    program = read.take("program", what, lambda value: isinstance(value, str) and 0 < len(value) <= JQ_CHARACTERS_MAX)
    each = read.flag("each")

    async def work(rows: Rows, tables: Tables, around: OperationContext) -> OperationResult:
        from perdure.definitions.kinds.sandbox import sandbox_pool  # here, as most pipelines have no jq

        pace = around.pace
        pace.look()
        if is_wide(rows, packed_rows(rows, "the rows", pace)):
            raise OperationError("a row has an integer of more than 53 bits, which jq would change; convert it to text first, or select other fields")
        limits = sandbox_pool.SandboxLimits(min(JQ_WALL_S, pace.left_s), JQ_MEMORY_BYTES, pace.bounds.bytes)
        outputs = await sandbox_pool.run_job("jq", {"program": program, "rows": list(rows) if each else [list(rows)]}, limits)
        if not isinstance(outputs, list):
            raise OperationError("jq returned something else than a list of outputs")
        single = not each and len(outputs) == 1 and isinstance(outputs[0], list | dict)
        made: list[Row] = table_rows(outputs[0] if single else outputs, "the outputs of jq")
        return OperationResult(pace.checked(made))

    return work
