"""Claims about the operations on recordings: what they take of the event loop, and of the store."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import pytest

from perdure.operations import on_recordings
from perdure.operations.on_recordings import RecordingDetails
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from tests.recording.recorder import recorder

BY_THE_CLOCK = 1_500
"""How many functions may be called more for what the loop does by the clock while an operation takes longer: the engine looks for work."""

WAITING = ("asyncio", "selectors", "threading", "concurrent")
"""The modules in which the loop waits, whose calls are not counted."""


async def work_on_the_loop(operation: Callable[[], Awaitable[Any]]) -> int:
    """How many functions the thread of the event loop calls until an operation is done."""
    count = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call") and not frame.f_globals.get("__name__", "").startswith(WAITING)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        _ = await operation()
    finally:
        sys.setprofile(before)
    return count


async def accepted_definition(access: StoreAccess, tenant: str, recording: str) -> Any:
    return await on_recordings.definition(access, tenant, recording, accept=["echo_1/text#1-4"])


@pytest.mark.slow
@pytest.mark.parametrize("operation", [on_recordings.read, on_recordings.suggestions, on_recordings.definition, accepted_definition])
async def test_the_event_loop_does_no_more_for_a_long_recording_than_for_a_short_one(operation: Callable[[StoreAccess, str, str], Awaitable[Any]]) -> None:
    async def work(calls: int) -> int:
        async with recorder() as one:
            _ = await one.call("get_user", user=7)
            for number in range(calls):
                _ = await one.call("echo", text="@ada has it", number=number, more=[{"to": "Ada"}] * 3)
            _ = await operation(one.access, "default", "s1")  # what is read of the log is folded on the loop, once
            return await work_on_the_loop(lambda: operation(one.access, "default", "s1"))

    assert await work(80) < await work(20) + BY_THE_CLOCK


class CountingStore(MemoryStore):
    """A store that counts the large values that are read."""

    reads = 0

    async def blob(self, sha256: str) -> bytes | None:
        self.reads += 1
        return await super().blob(sha256)


async def test_a_page_of_a_recording_reads_the_large_results_of_its_own_calls() -> None:
    store = CountingStore()
    async with recorder(store) as one:
        for number in range(20):
            _ = await one.call("echo", text=f"{number}" + "x" * 100_000)
        _ = await one.result("echo", text="small")
    access = StoreAccess(store)  # which has read nothing yet
    store.reads = 0
    page = await on_recordings.read(access, "default", "s1", after=20)
    assert [call.value for call in page.calls] == ["small"] and page.calls_in_all == 21 and page.calls_by_state == {"completed": 21}
    assert store.reads == 20, "each entry with large arguments is read once, since it says whose it is"
    page = await on_recordings.read(StoreAccess(store), "default", "s1", after=18, limit=2)
    assert [len(call.value) for call in page.calls] == [100_002, 100_002] and page.calls[1].sent == page.calls[1].arguments
    assert store.reads == 20 + 2 * 3, "the entries, arguments and results of the calls on the page"


async def test_pages_of_a_recording_are_the_whole_recording_in_parts() -> None:
    async with recorder() as one:
        for number in range(3):
            _ = await one.call("get_user", user=number)
        _ = await one.call("pay", cents=1)
        _ = await one.call("echo", text="@input.nothing")
        running = asyncio.create_task(one.call("wait", s=60, id="w"))
        while (whole := await one.read()).calls_by_state.get("running") != 1:
            await asyncio.sleep(0.01)
        pages: list[RecordingDetails] = [await on_recordings.read(one.access, "default", "s1", after, 2) for after in (0, 2, 4, 6)]
        await on_recordings.cancel_call(one.access, "default", "s1", "w")
        _ = await running
    assert [call for page in pages for call in page.calls] == whole.calls and [call.number for call in whole.calls] == [1, 2, 3, 4, 5, 6]
    states = [call.state for call in whole.calls]
    assert states == ["completed", "completed", "completed", "failed", "refused", "running"]
    assert all(page.calls_by_state == {state: states.count(state) for state in states} and page.calls_in_all == 6 for page in pages)
