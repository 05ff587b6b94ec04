"""Claims about the views of an execution in a browser: walking through a list by keys, follow and expand, a part of the timeline, downloads."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Request, Route, expect

from tests.console.browsers import Watched, open_with_token, opened_page
from tests.console.conftest import Shop

pytestmark = pytest.mark.slow


async def opened(page: Page, shop: Shop, path: str) -> None:
    await open_with_token(page, shop.url, shop.keys["root"], path)


async def test_keys_go_to_the_neighbours_in_the_list_also_after_views_were_changed_and_the_page_was_loaded_again(shop: Shop, page: Page) -> None:
    await opened(page, shop, "/executions?workflow=order")
    rows = page.get_by_role("table", name="Executions").get_by_role("row")
    await expect(rows.nth(3)).to_be_visible()
    links = [await rows.nth(number).get_by_role("link").first.get_attribute("title") for number in (1, 2, 3)]
    first, second, third = [link or "" for link in links]
    await rows.nth(2).get_by_role("link").first.click()
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_have_text(second)
    await page.keyboard.press("2")
    await expect(page).to_have_url(re.compile("tab=timeline"))
    await page.keyboard.press("]")
    await expect(heading).to_have_text(third)
    await expect(page).to_have_url(re.compile("tab=timeline"))
    _ = await page.reload()
    await expect(heading).to_have_text(third)
    await page.keyboard.press("[")
    await expect(heading).to_have_text(second)
    await page.keyboard.press("[")
    await expect(heading).to_have_text(first)


async def test_enter_on_a_row_opens_it_once_so_that_back_leads_to_the_list(shop: Shop, page: Page) -> None:
    await opened(page, shop, "/executions?workflow=order")
    await expect(page.get_by_role("table", name="Executions")).to_be_visible()
    await page.keyboard.press("j")
    await expect(page.get_by_role("row").nth(1)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/executions/order/"))
    _ = await page.go_back()
    await expect(page).to_have_url(re.compile(r"/executions\?workflow=order"))


async def test_f_follows_and_e_makes_room_and_both_are_in_the_address(shop: Shop, page: Page) -> None:
    await opened(page, shop, "/executions/order/o-20?tab=graph")
    await expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "false")
    await page.keyboard.press("f")
    await expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "true")
    await page.keyboard.press("e")
    await expect(page.get_by_role("button", name="Copy id")).to_have_count(0)
    await expect(page).to_have_url(re.compile("follow=1.*wide=1"))
    _ = await page.reload()
    await expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "true")
    await expect(page.get_by_role("button", name="Expand")).to_have_attribute("aria-pressed", "true")
    await page.keyboard.press("f")
    await page.keyboard.press("e")
    await expect(page.get_by_role("button", name="Copy id")).to_be_visible()
    await expect(page).not_to_have_url(re.compile("follow=|wide="))


async def drawn_over(page: Page, *, end: bool = True) -> None:
    box = await page.get_by_title("Draw over a part to zoom to it").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    await page.mouse.move(box["x"] + box["width"] * 0.2, middle)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=5)
    if end:
        await page.mouse.up()


async def test_a_part_of_the_timeline_is_drawn_over_kept_in_the_address_and_left_by_escape_or_a_double_click(shop: Shop, page: Page) -> None:
    await opened(page, shop, "/executions/order/o-20?tab=timeline")
    whole = page.get_by_role("button", name="Whole")
    await expect(whole).to_have_attribute("aria-disabled", "true")
    await drawn_over(page)
    await expect(page).to_have_url(re.compile(r"zoom=\d+-\d+"))
    shown = page.url
    _ = await page.reload()
    await expect(whole).not_to_have_attribute("aria-disabled", "true")
    assert page.url == shown
    await page.keyboard.press("Escape")
    await expect(page).not_to_have_url(re.compile("zoom="))
    await drawn_over(page)
    await expect(page).to_have_url(re.compile("zoom="))
    await page.get_by_title("Draw over a part to zoom to it").dblclick()
    await expect(page).not_to_have_url(re.compile("zoom="))
    await drawn_over(page, end=False)
    await page.keyboard.press("Escape")
    await page.mouse.up()
    await expect(whole).to_have_attribute("aria-disabled", "true")
    await expect(page).not_to_have_url(re.compile("zoom="))


async def test_the_head_of_a_long_table_stays_in_sight_and_covers_no_row_that_keys_walk_to(shop: Shop, page: Page) -> None:
    await page.set_viewport_size({"width": 1280, "height": 320})
    await opened(page, shop, "/executions/order/o-20?tab=timeline")
    rows = page.get_by_role("table", name="Timeline of the steps").get_by_role("row")
    await expect(rows.nth(5)).to_be_attached()
    for _ in range(6):
        await page.keyboard.press("j")
    await expect(page.get_by_title("Draw over a part to zoom to it")).to_be_in_viewport()
    for _ in range(4):
        await page.keyboard.press("k")
    box, head = await page.locator(":focus").bounding_box(), await rows.nth(0).bounding_box()
    assert box is not None and head is not None
    assert box["y"] >= head["y"] + head["height"] - 2


async def test_the_log_and_the_definition_are_downloaded(shop: Shop, page: Page, tmp_path: Path) -> None:
    await opened(page, shop, "/executions?q=definition_version")
    names = page.get_by_role("table", name="Executions").get_by_role("row")
    await expect(names.nth(1)).to_be_visible()
    await names.nth(1).get_by_role("link").first.click()
    for button, ending in (("Download log", ".perdure"), ("Download definition", ".definition.json")):
        async with page.expect_download() as started:
            await page.get_by_role("button", name=button).click()
        download = await started.value
        assert download.suggested_filename.endswith(ending)
        path = tmp_path / download.suggested_filename
        await download.save_as(path)
        content = await asyncio.to_thread(path.read_bytes)
        assert content
        if ending.endswith(".json"):
            assert isinstance(json.loads(content), dict)


def note_streams(page: Page, name: str, found: list[str]) -> None:
    page.on("request", lambda request: found.append(name) if "/events/stream" in request.url else None)


async def test_when_the_tab_that_reads_the_stream_is_closed_another_one_goes_on_and_misses_nothing(shop: Shop, page: Page) -> None:
    other = await page.context.new_page()
    streams = list[str]()
    for one, name in ((page, "first"), (other, "second")):
        note_streams(one, name, streams)
        await opened(one, shop, "/executions?workflow=reminder")
        await expect(one.get_by_role("button", name="live")).to_be_visible()
    assert set(streams) == {"first"}, "one tab reads for both"
    await page.close()
    body = {"workflow": "reminder", "id": "after-the-tab", "input": {"customer": "c-1"}}
    answer = await other.request.post(f"{shop.url}/api/executions", data=body, headers={"authorization": f"Bearer {shop.keys['root']}"})
    assert answer.ok
    row, news = other.get_by_role("row", name=re.compile("after-the-tab")), other.get_by_role("button", name="1 new; show it")
    await expect(row.or_(news)).to_be_visible()  # the list is read again where the stream can't go on behind an event
    if await news.is_visible():
        await news.click()
    await expect(row).to_be_visible()
    assert "second" in streams


async def test_a_list_whose_next_page_fails_is_not_asked_for_without_end(shop: Shop, browser: Browser) -> None:
    async with opened_page(browser) as watched:
        watched.allowed.append("500")
        await _failing_pages(watched, shop)


async def _failing_pages(watched: Watched, shop: Shop) -> None:
    page, asked = watched.page, list[str]()

    async def first_alone(route: Route, request: Request) -> None:
        if "after=" not in request.url:
            response = await route.fetch()
            body = await response.json()
            await route.fulfill(response=response, json={**body, "next": "further"})
            return
        asked.append(request.url)
        await route.fulfill(
            status=500,
            content_type="application/problem+json",
            body='{"detail": "It is broken.", "code": "broken", "status": 500, "title": "broken", "type": "about:blank"}',
        )

    await page.route(re.compile(r"/api/executions\?"), first_alone)
    await opened(page, shop, "/executions")
    await expect(page.get_by_text("50 shown, more below")).to_be_visible()
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await expect(page.get_by_role("alert").first).to_contain_text("It is broken.")
    await page.wait_for_timeout(2_000)
    assert len(asked) == 1
    assert not watched.unexpected
