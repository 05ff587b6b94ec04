"""The page of graphs that `bench.console_graph` measures can be built, and draws what it is asked for."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from bench.console_graph import served
from tests.console.browsers import unable
from tools import build_console

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]


async def test_the_page_of_graphs_draws_as_many_steps_as_it_is_asked_for(page: Page, tmp_path: Path) -> None:
    """It is built outside of the console, so nothing else would say that it can't be built any more."""
    try:
        await asyncio.to_thread(build_console.build_samples, tmp_path)
    except build_console.UnavailableError as error:
        unable(str(error))
    with served(tmp_path) as url:
        _ = await page.goto(f"{url}/graph-samples.html?steps=60&changes=0")
        await expect(page.locator("[data-box]").first).to_be_visible()
        assert await page.locator("[data-box]").count() >= 20
