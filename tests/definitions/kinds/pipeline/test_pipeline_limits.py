"""Running: what bounds a pipeline, and that it holds up nobody else."""

import asyncio
import math
import threading
import time
from typing import Any

import pytest

from perdure.definitions.kinds.pipeline import PipelineFailed, run
from perdure.definitions.kinds.pipeline.pipeline_limits import PipelineLimits
from tests.definitions.kinds.pipeline.sample_tables import piped, refused

MANY = [{"n": number * 7919 % 200_003, "t": f"text {number % 1000}"} for number in range(200_000)]


def test_rows_are_mappings_what_is_none_becomes_a_value_and_a_mapping_is_one_row() -> None:
    assert piped([3, {"value": 1}, "x"], {"top_k": 2}) == [{"value": 3}, {"value": 1}]
    assert piped({"a": 1}, {"top_k": 2}) == [{"a": 1}]
    assert "the rows are the text 'abc'; rows are a list of mappings" in refused("abc", {"top_k": 1})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [{"x": math.nan}], 2**64, object()])
def test_what_is_no_json_is_refused(value: Any) -> None:
    told = refused([{"a": 1}, {"a": value}], {"top_k": 1})
    assert told.startswith("pipeline: the rows contain ")


def test_what_looks_like_nan_in_bytes_and_is_none_is_taken() -> None:
    rows = [{"a": int.from_bytes(b"\x01\xcb\x7f\xf8\x00\x00\x00\x00"), "b": "Ë\x7f"}]
    assert piped(rows, {"top_k": 1}) == rows


def test_limits_name_the_operation_and_what_to_do() -> None:
    rows = [{"n": number} for number in range(10)]
    assert (
        refused(rows, {"top_k": 1}, bounds=PipelineLimits(rows=9))
        == "pipeline: there are 10 rows, and at most 9 are allowed; filter earlier, or raise limits.rows"
    )
    assert refused(rows, {"top_k": 1}, bounds=PipelineLimits(bytes=20)) == (
        "pipeline: the rows take 41 bytes, and at most 20 are allowed; select fewer fields, or raise limits.bytes"
    )
    grown = {"groupby": {"by": [], "aggregates": {"all": {"list": "n"}, "again": {"list": "n"}, "once_more": {"list": "n"}, "last": {"list": "n"}}}}
    assert refused(rows, {"top_k": 9}, grown, bounds=PipelineLimits(bytes=60)).startswith("pipeline[1] (groupby): the rows that come of it take ")
    assert refused([], {"top_k": 1}, *[{"top_k": 1}] * 100).startswith("pipeline: a pipeline is a list of 1 to 100 operations")
    assert "it has no rows (there are other)" in refused(None, {"top_k": 1}, other=[])


@pytest.mark.slow
def test_a_pipeline_that_takes_too_long_fails_at_the_operation_under_way() -> None:
    slow = [{"table_sort": ["n", "-t"]}] * 50
    began = time.monotonic()
    told = refused(MANY, *slow, bounds=PipelineLimits(wall_s=0.3))
    assert told.startswith("pipeline[") and "(table_sort): the pipeline takes more than 0.3 s" in told
    assert time.monotonic() - began < 10


@pytest.mark.slow
async def test_what_has_much_to_compute_leaves_the_event_loop_to_others_and_ends_when_nobody_wants_it() -> None:
    before = threading.active_count()
    ticks = 0
    work = asyncio.create_task(run([{"table_sort": ["t", "n"]}, {"table_filter": {"expr": "n > 10"}}], MANY))
    while not work.done() and ticks < 5:
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks == 5 and not work.done()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        _ = await work
    deadline = time.monotonic() + 10
    while _pipelining() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert not _pipelining() and threading.active_count() <= before + 2


def _pipelining() -> bool:
    """Whether a thread is within a pipeline."""
    import sys

    for frame in sys._current_frames().values():
        at = frame
        while at is not None:
            if at.f_code.co_name == "_worked":
                return True
            at = at.f_back  # type: ignore[assignment]  # it ends with None
    return False


def test_an_error_knows_the_number_and_the_name_of_its_operation() -> None:
    with pytest.raises(PipelineFailed) as failed:
        _ = piped([], {"top_k": 1}, {"top_k": "x"})
    assert (failed.value.number, failed.value.operation) == (1, "top_k")
