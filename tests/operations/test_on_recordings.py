"""Claims about the operations on recordings: what they take of the store."""

import asyncio

from perdure.operations import on_recordings
from perdure.operations.on_recordings import RecordingDetails
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from tests.recording.recorder import recorder


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
