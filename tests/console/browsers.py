"""A real browser for tests: Chromium by Playwright, pages that note what goes wrong in them, and axe."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.async_api import Browser, ConsoleMessage, Error, Page, async_playwright

from perdure.api.console_pages import FOLDER, INDEX

VARIABLE = "PERDURE_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
AXE = Path(__file__).resolve().parents[2] / "console/node_modules/axe-core/axe.min.js"

WIDE, NARROW = (1280, 800), (360, 740)
"""The sizes of windows, in CSS pixels: that of a desk, and that of a telephone."""

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
"""The rules that axe checks."""


class Watched(NamedTuple):
    """A page, with what went wrong in it: errors in its console, violations of its policy, and exceptions that nothing has caught.

    A test adds to `allowed` a part of each message that it expects.
    """

    page: Page
    problems: list[str]
    allowed: list[str]

    @property
    def unexpected(self) -> list[str]:
        """The problems that no test has allowed."""
        return [one for one in self.problems if not any(part in one for part in self.allowed)]


def chromium() -> str:
    """The path of Chromium. Without one, the test is skipped; on a build server it fails."""
    named = os.environ.get(VARIABLE, "")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), "")
    if not found:
        unable(f"there is no Chromium: install it (on Debian: apt install chromium), or name one in {VARIABLE}")
    return found


def expect_built() -> None:
    """Skips the test if the console was not built; on a build server it fails."""
    if not (FOLDER / INDEX).is_file():
        unable("the console is not built: run make console")


def unable(reason: str) -> None:
    """Skips the test for a reason, where skipped tests are read; fails on a build server."""
    if os.environ.get("CI", "") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """A browser, until the end of the block."""
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=[*sandbox, *ARGUMENTS])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened_page(browser: Browser, *, size: tuple[int, int] = WIDE, dark: bool = False, still: bool = True) -> AsyncIterator[Watched]:
    """A page in a new profile, of a size, light or dark; `still` has nothing move in it."""
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce" if still else "no-preference",
        locale="en-GB",
        timezone_id="Europe/Berlin",
    )
    try:
        page = await context.new_page()
        watched = Watched(page, [], [])
        page.on("console", lambda message: _note_message(watched, message))
        page.on("pageerror", lambda error: _note_error(watched, error))
        await page.add_init_script(
            "addEventListener('securitypolicyviolation', (one) => console.error('policy: ' + one.violatedDirective + ' ' + one.blockedURI))"
        )
        yield watched
    finally:
        await context.close()


def _note_message(watched: Watched, message: ConsoleMessage) -> None:
    if message.type == "error":
        watched.problems.append(f"{message.text} ({message.location.get('url', '')})")


def _note_error(watched: Watched, error: Error) -> None:
    watched.problems.append(f"{error.name}: {error.message}\n{error.stack}")


async def axe_complaints(page: Page) -> list[str]:
    """What axe has to say about a page, a line for each element."""
    await page.evaluate(AXE.read_text(encoding="utf-8"))  # Playwright's own evaluation is not subject to the policy of the page
    options = {"runOnly": {"type": "tag", "values": list(RULES)}}
    found: dict[str, Any] = await page.evaluate("(options) => axe.run(document, options)", options)
    return [f"{one['id']}: {one['help']}: {node['html'][:200]}" for one in found["violations"] for node in one["nodes"]]


async def sign_in_by_key(page: Page, url: str, key: str, next: str = "/") -> None:
    """Signs in on the page of the sign-in, with the form that works without scripts."""
    await page.goto(f"{url}/login?next={next}")
    await page.get_by_label("Key").fill(key)
    await page.get_by_role("button", name="Sign in").click()


async def open_with_token(page: Page, url: str, token: str, path: str = "/") -> None:
    """Opens an address of the console as `perdure dev` prints it: with a token, or a key, in the fragment."""
    await page.goto(f"{url}{path}#token={token}")
