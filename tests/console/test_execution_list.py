"""Claims about the list of executions in a real browser: filters, views and columns are in the address, rows change in their place, and a command for many says
beforehand on how many it acts.
"""

import re

import pytest
from playwright.async_api import Browser, Page, expect

from tests.console.browsers import NARROW, WIDE, axe_complaints, open_with_token, opened_page
from tests.console.conftest import Shop
from tools import sample_workflows as code

pytestmark = pytest.mark.slow


async def opened(page: Page, shop: Shop, path: str = "/executions", person: str = "root") -> None:
    await open_with_token(page, shop.url, shop.keys[person], path)
    await expect(page.get_by_role("heading", level=1)).to_be_visible()


async def test_a_filter_is_typed_completed_and_removed_and_is_in_the_address(page: Page, shop: Shop) -> None:
    await opened(page, shop)
    await expect(page.get_by_role("table", name="Executions").get_by_role("row").nth(1)).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("status=f")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")  # takes the completion
    await expect(page.get_by_label("Filter", exact=True)).to_have_value("status=failed")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/executions?status=failed")
    rows = page.get_by_role("table", name="Executions").get_by_role("row")
    await expect(rows.filter(has_text="completed")).to_have_count(0)
    await expect(rows.filter(has_text="failed").first).to_be_visible()
    await page.reload()
    await expect(page.get_by_label("Filter", exact=True)).to_have_value("status=failed")
    await page.get_by_role("button", name="Remove the filter failed").click()
    await page.wait_for_url(re.compile(r"/executions$"))
    await page.go_back()
    await expect(page.get_by_label("Filter", exact=True)).to_have_value("status=failed")


async def test_keys_walk_through_the_rows_and_open_one(page: Page, shop: Shop) -> None:
    await opened(page, shop, "/executions?workflow=order&id=o-1")
    first = page.get_by_role("table", name="Executions").get_by_role("row").nth(1)
    await expect(first).to_be_visible()
    name = await first.get_attribute("aria-label") or ""
    await page.keyboard.press("j")
    await expect(first).to_be_focused()
    await page.keyboard.press("x")
    await expect(page.get_by_role("button", name="With 1 chosen")).to_be_visible()
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/" + name.split(":")[0])


async def test_columns_and_a_saved_view_come_back(page: Page, shop: Shop) -> None:
    await opened(page, shop, "/executions?workflow=order")
    await page.get_by_role("button", name="Columns").click()
    await page.get_by_role("checkbox", name="version").check()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Columns")).to_be_focused()
    await expect(page.get_by_role("columnheader", name="Version")).to_be_visible()
    await page.get_by_role("button", name="Views").click()
    await page.get_by_role("menuitem", name="Save or remove views").click()
    await page.get_by_label("Save the present view as").fill("Orders <b>ünï</b>")
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.goto(f"{shop.url}/executions")
    await page.get_by_role("button", name="Views").click()
    await page.get_by_role("menuitem", name="Orders <b>ünï</b>").click()
    await expect(page.get_by_role("columnheader", name="Version")).to_be_visible()
    await expect(page.get_by_label("Filter", exact=True)).to_have_value("workflow=order")


async def test_an_execution_that_begins_elsewhere_is_announced_and_moves_nothing(page: Page, shop: Shop) -> None:
    await opened(page, shop, "/executions?workflow=reminder")
    await expect(page.get_by_role("button", name="live")).to_be_visible()
    rows = page.get_by_role("table", name="Executions").get_by_role("row")
    await expect(rows.nth(1)).to_be_visible()
    before = await rows.count()
    _ = await shop.sample.app.start(code.reminder.with_(id="reminder-new"), "new@example.org", "2d")
    await page.get_by_role("button", name="1 new; show it").click()
    await expect(rows).to_have_count(before + 1)


async def test_a_command_for_all_of_a_filter_says_how_many_before_and_how_far_it_is_after(page: Page, shop: Shop) -> None:
    started = [await shop.sample.app.start(code.reminder.with_(id=f"soon-{number}"), "soon@example.org", "1d") for number in range(5)]
    await opened(page, shop, "/executions?workflow=reminder&status=waiting")
    await page.get_by_role("button", name="With all of the filter").click()
    await page.get_by_role("menuitem", name="Pause").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("Such as the newest 3:")).to_be_visible()
    button = dialog.get_by_role("button", name=re.compile(r"^Pause \d+$"))
    count = int((await button.inner_text()).split()[1])
    assert count >= len(started)
    await button.click()
    await expect(dialog.get_by_text(f"{count} have the request")).to_be_visible(timeout=30_000)
    await expect(dialog.get_by_text("0 left.")).to_be_visible()


async def test_a_command_never_acts_on_more_than_what_a_text_has_found(page: Page, shop: Shop) -> None:
    await opened(page, shop, "/executions?workflow=order&text=o-17")
    row = page.get_by_role("row", name="order/o-17: failed")
    await expect(row).to_be_visible()
    await page.get_by_role("button", name="With all of the filter").click()
    retry = page.get_by_role("menuitem", name="Retry")
    await expect(retry).to_be_disabled()
    await expect(retry).to_contain_text("choose those that you mean")
    await page.keyboard.press("Escape")
    await row.get_by_role("checkbox").check()
    await page.get_by_role("button", name="With 1 chosen").click()
    await retry.click()
    await expect(page.get_by_role("dialog").get_by_role("button", name="Retry 1")).to_be_visible()


async def test_a_word_alone_that_fits_nothing_can_be_looked_for_as_text(page: Page, shop: Shop) -> None:
    await opened(page, shop, "/executions?workflow=order&q=o-17")
    await page.get_by_role("button", name="Look for the text “o-17”").click()
    await expect(page.get_by_role("row", name="order/o-17: failed")).to_be_visible()


async def test_a_start_from_the_list_asks_for_the_workflow_and_shows_the_form_of_its_input(page: Page, shop: Shop) -> None:
    await opened(page, shop, "/executions")
    await page.get_by_role("button", name="Start …").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("Name a workflow")).to_be_visible()
    await expect(dialog.get_by_label("Input, as JSON")).to_be_visible()
    await dialog.get_by_label("Workflow").press_sequentially("paid")
    invoice = dialog.get_by_label(re.compile("^invoice"))
    await expect(invoice).to_be_visible()
    await invoice.fill("i-from-the-list")
    await dialog.get_by_label("Id", exact=True).fill("from-the-list")
    await dialog.get_by_label("Workflow").fill("paidx")
    await expect(dialog.get_by_label("Input, as JSON")).to_be_visible()
    await dialog.get_by_label("Workflow").fill("paid")
    await expect(invoice).to_have_value("")
    await dialog.get_by_label("Begin with the input of an earlier execution").select_option(index=1)
    await expect(invoice).not_to_have_value("")
    await dialog.get_by_role("button", name="Start", exact=True).click()
    await page.get_by_role("dialog", name="Started").get_by_role("link", name="paid/from-the-list").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("paid/from-the-list")


async def test_who_may_only_read_is_told_why_a_command_is_not_for_them(page: Page, shop: Shop) -> None:
    await opened(page, shop, "/executions", "eve")
    start = page.get_by_role("button", name="Start …")
    await expect(start).to_have_attribute("title", re.compile("needs the role operator"))
    await start.click(force=True)  # Playwright itself would wait until it is enabled
    await expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("dark", [False, True])
async def test_the_list_is_accessible_on_a_telephone_and_on_a_desk(dark: bool, browser: Browser, shop: Shop) -> None:
    for size in (WIDE, NARROW):
        async with opened_page(browser, dark=dark, size=size) as watched:
            await opened(watched.page, shop)
            await expect(watched.page.get_by_role("table", name="Executions").get_by_role("row").nth(1)).to_be_visible()
            assert await axe_complaints(watched.page) == []
            assert await watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off at the side"
            assert not watched.unexpected
