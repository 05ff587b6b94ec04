"""What it takes to cancel many executions that wait to begin: all by one command, and 1,000 of them one at a time. On a file with synchronous=FULL.

python -m bench.bulk [HOW MANY]
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perdure.sync_client import AsyncClient

QUEUED = 20_000
ONE_BY_ONE = 1_000
AT_ONCE = 500


async def queue(url: str, count: int) -> None:
    """Start so many, which no engine begins."""
    async with AsyncClient(url) as client:
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(*(client.start("job", number) for number in range(first, min(first + AT_ONCE, count))))


async def one_by_one(url: str) -> float:
    """The seconds that it takes to cancel some, each by its handle."""
    async with AsyncClient(url) as client:
        handles = [await client.get(one.key) for one in await client.list(limit=ONE_BY_ONE)]
        began_s = time.perf_counter()
        for handle in handles:
            await handle.cancel()
        return time.perf_counter() - began_s


def by_command(url: str) -> float:
    """The seconds that the command takes for all."""
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-m", "perdure.cli", "--db", url, "cancel", "--all", "--yes"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began_s


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else QUEUED
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        url = f"sqlite:///{place}/bench.db"
        asyncio.run(queue(url, count + ONE_BY_ONE))
        each_s = asyncio.run(one_by_one(url)) / ONE_BY_ONE
        all_s = by_command(url)
    print(f"{ONE_BY_ONE:,} executions cancelled one at a time, then {count:,} by perdure cancel --all; Python {sys.version.split()[0]}")
    print(f"  one at a time    {1 / each_s:8,.0f} executions/s")
    print(f"  by the command   {count / all_s:8,.0f} executions/s  {all_s:6.1f} s  {each_s * count / all_s:5.1f}× as fast")


if __name__ == "__main__":
    main()
