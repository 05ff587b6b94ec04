"""Under load: whatever is killed meanwhile, no process, descriptor or memory is left behind, and everybody is answered."""

import asyncio
import gc
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from perdure.core.errors import SandboxLimit, SourceFailed
from perdure.definitions.kinds.sandbox import sandbox_pool
from perdure.definitions.kinds.sandbox.sandbox_pool import SandboxLimits, run_job
from tests.open_descriptors import open_descriptors

pytestmark = [pytest.mark.prove, pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")]

CALLS, AT_ONCE = 2000, 100
LIMITS = SandboxLimits(wall_s=20.0, memory_bytes=32_000_000, output_bytes=1_000_000)
SHORT = LIMITS._replace(wall_s=0.05)
GROWTH_BYTES_MAX = 30_000_000


def children() -> set[int]:
    """The processes that this one has begun and that are left, zombies included."""
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def resident_bytes() -> int:
    """How much memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def one(number: int) -> str:
    """A call, which in one case of twenty is the end of its sandbox: by its time, its memory, its caller, or an answer that is too large."""
    match number % 100:
        case 7:
            return await ended("export default () => { while (true) {} }", SHORT)
        case 27:
            return await ended("export default () => { const a = []; while (true) a.push(new ArrayBuffer(1e6)) }", LIMITS)
        case 47:
            endless = asyncio.create_task(run_job("js", {"source": "export default () => { while (true) {} }", "input": None}, LIMITS))
            await asyncio.sleep(0.01)
            endless.cancel()
            with pytest.raises(asyncio.CancelledError):
                await endless
            return "cancelled"
        case 67:
            return await ended("export default () => 'x'.repeat(2_000_000)", LIMITS)
        case 87:
            with pytest.raises(SandboxLimit):
                await run_job("jq", {"program": "def f: f; f", "rows": [1]}, SHORT)
            return "OutOfTime"
        case 17 | 37:
            with pytest.raises(SourceFailed):
                await run_job("js", {"source": "export default () => { throw 1 }", "input": None}, LIMITS)
            return "SourceFailed"
    assert (await run_job("js", {"source": "export default (n: number) => n * 2", "input": number}, LIMITS))["value"] == number * 2
    return "answered"


async def ended(source: str, limits: SandboxLimits) -> str:
    """By which limit a call has ended."""
    with pytest.raises(SandboxLimit) as caught:
        await run_job("js", {"source": source, "input": None}, limits)
    return type(caught.value).__name__


async def round_of(calls: int) -> Counter[str]:
    """Calls, some at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def through(number: int) -> str:
        async with gate:
            return await one(number)

    return Counter(await asyncio.gather(*map(through, range(calls))))


async def test_two_thousand_calls_of_which_a_hundred_are_killed_leave_nothing_behind() -> None:
    sandbox_pool.close_pool()
    before, began = children(), open_descriptors()
    _ = await round_of(CALLS // 4)
    gc.collect()
    warm_bytes = resident_bytes()
    found = await round_of(CALLS)
    assert found == {"answered": 1860, "SourceFailed": 40, "OutOfTime": 40, "OutOfMemory": 20, "OutputTooLarge": 20, "cancelled": 20}
    gc.collect()
    assert resident_bytes() - warm_bytes < GROWTH_BYTES_MAX
    sandbox_pool.close_pool()
    assert children() == before and open_descriptors() <= began + 1
    print(f"{resident_bytes() - warm_bytes:,} bytes more than after the first {CALLS // 4}")  # noqa: T201  # a proof shows what it found
