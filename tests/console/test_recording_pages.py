"""Claims about the pages of recordings, in a real browser on the sample: calls, literals that become references, and the definition of them."""

import asyncio
import re
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, Route, expect

from tests.console.browsers import NARROW, Watched, axe_complaints
from tests.console.conftest import Shop
from tests.console.test_operations_pages import button, dialog, go
from tools.sample_recording import REFUND

pytestmark = pytest.mark.slow

TEXT = "The text of the definition"


async def test_what_is_accepted_stands_in_the_definition_and_in_the_address(page: Page, shop: Shop) -> None:
    await go(page, shop, "/recordings", "carl")
    await page.get_by_role("link", name="Refund a double charge").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Refund a double charge")
    calls = page.get_by_role("region", name="Calls").get_by_role("listitem")
    await expect(calls.filter(has_text="send_1")).to_contain_text("no such mailbox")
    await expect(calls.filter(has_text="confirm_1")).to_contain_text("result given, not called")
    await expect(page.get_by_label(TEXT)).to_contain_text("with: {order: o-5521, cents: 6490}")
    assert not await axe_complaints(page)
    await page.get_by_label(re.compile(r"refund_1, order: .o-5521. → @list_orders_1\.orders\[0\]\.id")).check()
    await expect(page.get_by_label(TEXT)).to_contain_text('with: {order: "@list_orders_1.orders[0].id", cents: 6490}')
    await page.reload()
    await expect(page.get_by_label(TEXT)).to_contain_text('order: "@list_orders_1.orders[0].id"')
    await button(page, "Accept the 5 likely ones").click()
    await expect(page.get_by_label(TEXT)).to_contain_text('text: "Refund @{refund_1.refund} for ticket @{input.ticket}"')
    await expect(page.get_by_label(TEXT)).not_to_contain_text("sent: true")
    await button(page, "Save as a definition …").click()
    await dialog(page).get_by_label("Name").fill("refund")
    await button(dialog(page), "Save as a draft").click()
    await expect(page).to_have_url(re.compile("/workflows/refund/edit"))
    await expect(page.locator(".cm-content").first).to_contain_text("bank.refund")


async def test_people_begin_a_recording_give_results_and_end_it(page: Page, shop: Shop) -> None:
    await go(page, shop, "/recordings", "carl")
    await button(page, "Record …").click()
    await dialog(page).get_by_label("Title").fill("By hand <b>ünïcode</b>")
    await dialog(page).get_by_label("Input").fill("[1]")
    await expect(dialog(page).get_by_text("This is no JSON object")).to_be_visible()
    await dialog(page).get_by_label("Input").fill('{"user": 12345678901234567890}')
    await button(dialog(page), "Begin").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("By hand <b>ünïcode</b>")
    await expect(page.get_by_role("region", name="Input")).to_contain_text("12345678901234567890")
    await expect(page.get_by_text("None yet.")).to_be_visible()
    await button(page, "Actions").click()
    await page.get_by_role("menuitem", name="Give the result of a call …").click()
    await dialog(page).get_by_label("Tool").fill("crm.find_customer")
    await dialog(page).get_by_label("Arguments").fill('{"user": "@input.user"}')
    await dialog(page).get_by_label("Result").fill('{"id": "c-1"}')
    await button(dialog(page), "Give it").click()
    await expect(page.get_by_role("region", name="Calls")).to_contain_text("find_customer_1")
    await expect(page.get_by_label(TEXT)).to_contain_text('with: {user: "@input.user"}')
    await expect(page.get_by_label(TEXT)).not_to_contain_text("c-1")
    await button(page, "Actions").click()
    await page.get_by_role("menuitem", name="End it …").click()
    await button(dialog(page), "End it").click()
    await expect(page.get_by_text("It has ended.")).to_be_visible()


async def test_a_definition_of_failed_calls_alone_is_made_when_somebody_asks_for_it(page: Page, shop: Shop) -> None:
    recordings = shop.sample.app.client.recordings
    _ = await recordings.start("unsent", title="Send a mail")
    _ = await recordings.call("unsent", "mail.send", {"to": "mara@example.org"})
    await go(page, shop, "/recordings/unsent", "carl")
    await expect(page.get_by_text("there is no definition without those that have failed")).to_be_visible()
    await expect(button(page, "Save as a definition …")).to_have_attribute("title", "No call has a result yet")
    await page.get_by_label("With the calls that have failed").check()
    await expect(page.get_by_label(TEXT)).to_contain_text("tool: mail.send")
    await button(page, "Save as a definition …").click()
    await dialog(page).get_by_label("Name").fill("unsent")
    await button(dialog(page), "Save as a draft").click()
    await expect(page).to_have_url(re.compile("/workflows/unsent/edit"))


async def test_a_dialog_closes_when_the_definition_shows_what_it_has_changed(page: Page, shop: Shop) -> None:
    recordings, may_answer = shop.sample.app.client.recordings, asyncio.Event()

    async def answer_later(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    _ = await recordings.start("restock", title="Restock")
    _ = await recordings.call("restock", "shop.list_orders", {"customer": "c-17"})
    await go(page, shop, "/recordings/restock", "carl")
    await expect(page.get_by_label(TEXT)).to_contain_text("list_orders")
    await page.route("**/api/recordings/restock/definition", answer_later)
    await button(page, "Actions").click()
    await page.get_by_role("menuitem", name="Give the result of a call …").click()
    await dialog(page).get_by_label("Tool").fill("shop.order_stock")
    await button(dialog(page), "Give it").click()
    await expect(page.get_by_text("order_stock_1")).to_be_attached()
    await expect(dialog(page)).to_be_visible()
    may_answer.set()
    await expect(dialog(page)).to_have_count(0)
    await expect(page.get_by_label(TEXT)).to_contain_text("order_stock")


async def test_a_recording_is_read_again_until_it_has_ended(page: Page, shop: Shop) -> None:
    read = list[str]()
    page.on("request", lambda request: read.append(urlsplit(request.url).path) if request.method == "GET" else None)
    await page.clock.install()
    await go(page, shop, "/recordings/empty", "eve")
    await expect(page.get_by_text("It waits for the next call")).to_be_visible()
    for id, again in (("empty", True), ("done", False)):
        await page.goto(f"{shop.url}/recordings/{id}")
        await expect(page.get_by_role("heading", name="Calls")).to_be_visible()
        read.clear()
        await page.clock.run_for(10_000)
        assert (f"/api/recordings/{id}" in read) == again, read


async def test_calls_of_a_long_recording_are_shown_page_by_page_and_all_of_them_count(page: Page, shop: Shop) -> None:
    recordings = shop.sample.app.client.recordings
    _ = await recordings.start("stock", title="Count the stock")
    for number in range(100):
        _ = await recordings.call("stock", "shop.nothing", {"number": number})
    await go(page, shop, "/recordings/stock", "eve")
    await expect(page.get_by_text("there is no definition without those that have failed")).to_be_visible()
    await expect(button(page, "Show more calls")).to_have_count(0)
    _ = await recordings.call("stock", "shop.list_orders", {"customer": "c-17"})
    call = asyncio.create_task(recordings.call("stock", "shop.count_stock", {"seconds": 3_600}, call_id="count"))
    await expect(page.get_by_text("A call runs.")).to_be_visible()
    await expect(page.get_by_label(TEXT)).to_contain_text("tool: shop.list_orders")
    calls = page.get_by_role("listitem", name=re.compile("_[0-9]+: "))
    await expect(calls).to_have_count(100)
    await expect(page.get_by_text("100 of 102 calls are shown.")).to_be_visible()
    await button(page, "Show more calls").click()
    await expect(calls).to_have_count(102)
    await expect(page.get_by_role("listitem", name="count_stock_1: running")).to_be_visible()
    await expect(button(page, "Show more calls")).to_have_count(0)
    await recordings.cancel_call("stock", "count")
    assert (await call).is_error
    await expect(page.get_by_role("listitem", name="count_stock_1: failed")).to_be_visible()
    await expect(page.get_by_text("It waits for the next call")).to_be_visible()


async def test_a_viewer_looks_and_changes_nothing_on_a_narrow_page(watched: Watched, shop: Shop) -> None:
    page = watched.page
    await page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    await go(page, shop, f"/recordings/{REFUND}", "eve")
    await expect(button(page, "Save as a definition …")).to_have_attribute("title", re.compile("needs the role author"))
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    watched.allowed.append("/api/recordings/nothing")
    await go(page, shop, "/recordings/nothing", "eve")
    await expect(page.get_by_role("alert")).to_contain_text("nothing")
