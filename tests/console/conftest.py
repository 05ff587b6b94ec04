"""The browser of the tests of the console, and the sample database on which they look at it.

The tests are async functions on one event loop for the whole session, since the browser and the server of the sample live as long as that. The sample is filled
once for all processes of a run, and each works on a copy.

Those of `MAIN_PATHS` run in each `make test`; all run in `make real`.
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
from playwright.async_api import Browser, Page, expect

from perdure.api.api_server import listening_socket, url_of
from perdure.api.service_api import ServiceServer
from tests.console.browsers import Watched, expect_built, opened_page, running_browser
from tools.console_sample import PEOPLE, Sample, opened_sample

LOOP = pytest.mark.asyncio(loop_scope="session")


MAIN_PATHS = frozenset(
    (
        "test_the_page_of_a_server_loads_at_every_address_without_errors",
        "test_a_key_signs_in_on_the_page_of_the_sign_in_which_leads_to_the_address_that_was_wanted",
        "test_it_is_served_where_it_is_mounted_in_another_application",
        "test_its_files_are_compressed_and_kept_and_others_are_not_there",
        "test_the_first_page_is_small",
        "test_a_session_that_ends_loses_no_text_and_goes_on_in_the_page",
        "test_another_tenant_sees_nothing_of_this_one",
        "test_a_filter_is_typed_completed_and_removed_and_is_in_the_address",
        "test_a_command_for_all_of_a_filter_says_how_many_before_and_how_far_it_is_after",
        "test_each_view_has_a_key_and_an_address_that_survives_back_and_reload",
        "test_a_fork_from_a_step_takes_other_input_and_leads_to_the_new_execution",
        "test_a_past_state_moves_every_view_marks_what_changed_and_leads_back_to_now",
        "test_an_approval_is_answered_by_a_key_on_a_telephone",
        "test_a_group_shows_what_failed_and_one_of_it_is_requeued_with_other_input",
        "test_edits_in_each_view_are_in_the_text_which_keeps_its_comments",
        "test_a_start_takes_the_input_of_an_earlier_execution_and_shows_what_the_server_has_started",
        "test_a_workflow_that_is_described_is_written_step_by_step_and_leads_to_its_proposal",
        "test_a_schedule_has_its_times_as_a_sentence_and_its_next_runs_in_both_zones",
    )
)
"""The tests that guard the main paths of people."""

expect.set_options(timeout=15_000)  # a server of builds may be slow


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and isinstance(item, pytest.Function) and asyncio.iscoroutinefunction(item.function):
            item.add_marker(LOOP, append=False)
            if item.originalname not in MAIN_PATHS:
                item.add_marker(pytest.mark.real)


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
