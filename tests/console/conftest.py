"""The browser of the tests of the console, and the sample database on which they look at it.

The tests are async functions on one event loop for the whole session, since the browser and the server of the sample live as long as that. The sample is filled
once for all processes of a run, and each works on a copy.
"""

import asyncio
import fcntl
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from perdure.api.api_server import listening_socket, url_of
from perdure.api.service_api import ServiceServer
from tests.console.browsers import Watched, expect_built, opened_page, running_browser
from tools.console_sample import PEOPLE, Sample, opened_sample

LOOP = pytest.mark.asyncio(loop_scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and isinstance(item, pytest.Function) and asyncio.iscoroutinefunction(item.function):
            item.add_marker(LOOP, append=False)


class Shop(NamedTuple):
    """The sample that is served in this process: its URL, and the key of each of the people."""

    url: str
    keys: dict[str, str]
    sample: Sample


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    expect_built()
    own = tmp_path_factory.mktemp("shop") / "sample"
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "console-sample"
    with await asyncio.to_thread(_locked, shared):
        if not (shared / "filled").exists():
            async with opened_sample(shared / "sample"):
                pass
            (shared / "filled").touch()
        _ = await asyncio.to_thread(shutil.copytree, shared / "sample", own)
    listening = listening_socket("127.0.0.1", 0)
    async with opened_sample(own) as sample:
        server = ServiceServer(sample.service, listening)
        running = asyncio.create_task(server.run())
        await server.ready()
        try:
            yield Shop(url_of(listening), {name: await sample.key(name) for name in PEOPLE}, sample)
        finally:
            server.stop()
            await running


def _locked(shared: Path) -> IO[str]:
    """Waits until no other process fills the sample; what is returned holds the lock until it is closed."""
    shared.mkdir(exist_ok=True)
    lock = (shared / "lock").open("a")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@pytest_asyncio.fixture(loop_scope="session")
async def watched(browser: Browser) -> AsyncIterator[Watched]:
    """A page that fails the test if something unexpected went wrong in it."""
    async with opened_page(browser) as found:
        yield found
        assert not found.unexpected, "\n".join(found.unexpected)


@pytest.fixture
def page(watched: Watched) -> Page:
    """The same page, for tests that expect nothing to go wrong."""
    return watched.page
