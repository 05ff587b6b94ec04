"""Takes pictures of each page of the console on the sample: light, dark, and at 360 px.

    python -m tools.console_pictures /tmp/pictures                   # all pages
    python -m tools.console_pictures /tmp/pictures workflow graph    # those whose names contain one of the words
    python -m tools.console_pictures /tmp/pictures --url http://127.0.0.1:7799 --key prd_…   # of a sample that is served already

Beside the pictures it prints what went wrong in a page, what axe has to say of it, and whether it is wider than its window.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from perdure.api.api_server import listening_socket, url_of
from perdure.api.service_api import ServiceServer
from tests.console.browsers import NARROW, WIDE, axe_complaints, open_with_token, opened_page, running_browser
from tools.console_sample import opened_sample

PAGES = {
    "executions": "/executions",
    "executions-failed": "/executions?status=failed",
    "execution-completed": "/executions/order/o-1",
    "execution-failed": "/executions/order/o-15",
    "execution-waiting-approval": "/executions/order/o-25",
    "execution-cancelled": "/executions/order/o-23",
    "execution-needs-attention": "/executions/invoice/i-7",
    "execution-unknown-workflow": "/executions/retired/old-1",
    "execution-graph": "/executions/payment/p-1001?tab=graph",
    "execution-graph-of-code": "/executions/restock/restock-kettle?tab=graph",
    "execution-graph-large": "/executions/import_rows/import-large?tab=graph",
    "execution-timeline": "/executions/order/o-13?tab=timeline",
    "execution-events": "/executions/order/o-13?tab=events",
    "execution-logs": "/executions/order/o-13?tab=logs",
    "execution-data": "/executions/order/o-13?tab=data",
    "execution-step": "/executions/payment/p-1001?tab=graph&step=charge",
    "execution-in-the-past": "/executions/order/o-13?tab=graph&at=9",
    "execution-agent": "/executions/triage/T-1041",
    "execution-not-there": "/executions/order/none",
    "workflows": "/workflows",
    "workflow": "/workflows/payment",
    "workflow-of-code": "/workflows/order",
    "editor": "/workflows/payment/edit",
    "editor-draft": "/workflows/returns/edit",
    "approvals": "/approvals",
    "triggers": "/triggers",
    "trigger-schedule": "/triggers/report:nightly",
    "trigger-webhook": "/triggers/paid:stripe",
    "dead-letters": "/dead-letters",
    "proposals": "/proposals",
    "recordings": "/recordings?of=all",
    "recording": "/recordings/refund-5521",
    "recording-accepted": "/recordings/refund-5521?accept=bank_refund_1%2Forder&accept=refund_1%2Forder",
    "recording-empty": "/recordings/empty",
    "people": "/system?tab=people",
    "tools": "/system?tab=tools",
    "costs": "/system?tab=costs",
    "system": "/system",
    "nothing": "/executions/order/o-1/nothing",
}
"""The pages, by the names of their pictures. What is not known beforehand, such as the id of an approval, is opened by hand."""


class Look(NamedTuple):
    """How a page is looked at."""

    name: str
    size: tuple[int, int]
    dark: bool


LOOKS = (Look("light", WIDE, False), Look("dark", WIDE, True), Look("narrow", NARROW, False))


@asynccontextmanager
async def served_sample() -> AsyncIterator[tuple[str, str]]:
    """The URL of a new sample, and the key of its admin."""
    with tempfile.TemporaryDirectory(prefix="perdure-sample-") as directory:
        listening = listening_socket("127.0.0.1", 0)
        async with opened_sample(Path(directory)) as sample:
            server = ServiceServer(sample.service, listening)
            running = asyncio.create_task(server.run())
            await server.ready()
            try:
                yield url_of(listening), await sample.key("root")
            finally:
                server.stop()
                await running


async def take(url: str, key: str, pages: dict[str, str], folder: Path) -> int:
    """Takes the pictures; returns how many pages have something wrong."""
    wrong = 0
    async with running_browser() as browser:
        for look in LOOKS:
            async with opened_page(browser, size=look.size, dark=look.dark) as watched:
                await open_with_token(watched.page, url, key)
                await watched.page.wait_for_url(lambda found: "token=" not in found)
                for name, path in pages.items():
                    watched.problems.clear()
                    await watched.page.goto(url + path)
                    await watched.page.wait_for_selector("h1")
                    await watched.page.wait_for_timeout(1_500)  # streams keep the network busy, so it is never idle
                    await watched.page.screenshot(path=folder / f"{name}-{look.name}.png")
                    said = [*watched.problems, *one_of_each(await axe_complaints(watched.page))]
                    width = await watched.page.evaluate("document.documentElement.scrollWidth")
                    said += [f"it is {width} px wide"] if width > look.size[0] else []
                    wrong += bool(said)
                    print("\n".join([f"{name}-{look.name}: {'' if said else 'ok'}", *(f"  {one}" for one in said)]), flush=True)
    return wrong


def one_of_each(complaints: list[str]) -> list[str]:
    """The first complaint of each rule, with how many there are."""
    by_rule: dict[str, list[str]] = {}
    for one in complaints:
        by_rule.setdefault(one.partition(":")[0], []).append(one)
    return [f"{len(found)} x {found[0]}" for found in by_rule.values()]


async def main(folder: Path, words: Sequence[str], url: str, key: str) -> int:
    """Takes the pictures of a sample that is served already, or of a new one."""
    pages = {name: path for name, path in PAGES.items() if not words or any(word in name for word in words)}
    if url:
        return await take(url, key, pages, folder)
    async with served_sample() as (url, key):
        return await take(url, key, pages, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("folder", type=Path, help="where the pictures go")
    _ = parser.add_argument("words", nargs="*", help="parts of the names of pages (default: all)")
    _ = parser.add_argument("--url", default="", help="the server of a sample")
    _ = parser.add_argument("--key", default="", help="a key for it")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    wrong = asyncio.run(main(given.folder, given.words, given.url.rstrip("/"), given.key))
    sys.exit(f"{wrong} pages have something wrong" if wrong else 0)
