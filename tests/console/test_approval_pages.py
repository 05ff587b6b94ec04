"""Claims about approvals in a real browser: an answer counts when the server has it, what was filled in stays after a refusal, and one of two decides."""

import asyncio

import pytest
from playwright.async_api import Browser, Page, expect

from tests.console.browsers import NARROW, Watched, axe_complaints, open_with_token, opened_page
from tests.console.conftest import Shop
from tools import sample_workflows as code

pytestmark = pytest.mark.slow


async def waiting(shop: Shop, execution: str) -> str:
    """Starts an order that waits for an approval, and returns the title of that."""
    handle = await shop.sample.app.start(code.order.with_(id=execution), execution, [code.Line("kettle K2", 20, 6_490)], "good", "post")
    while not (found := [one for one in await shop.sample.app.client.approvals() if one.requested_by == handle.key]):
        await asyncio.sleep(0.05)
    return found[0].title


async def opened(page: Page, shop: Shop, title: str, person: str = "ada") -> None:
    await open_with_token(page, shop.url, shop.keys[person], "/approvals?of=all")
    await page.get_by_role("row", name=title).click()
    await expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()


async def test_an_approval_is_answered_by_a_key_on_a_telephone(browser: Browser, shop: Shop) -> None:
    title = await waiting(shop, "o-telephone")
    async with opened_page(browser, size=NARROW) as watched:
        page = watched.page
        await opened(page, shop, title)
        assert await axe_complaints(page) == []
        await page.get_by_label("reason").fill("a known customer")
        await page.get_by_role("heading", level=1).click()
        await page.keyboard.press("a")
        await expect(page.get_by_text("Decided: approved by key:")).to_be_visible(timeout=15_000)
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        assert not watched.unexpected


async def test_of_two_people_the_second_is_told_that_it_was_decided(browser: Browser, shop: Shop, watched: Watched) -> None:
    title = await waiting(shop, "o-two-people")
    watched.allowed.append("409")
    async with opened_page(browser) as other:
        await opened(watched.page, shop, title)
        await watched.page.get_by_label("Comment (optional)").fill("fine by me")
        await watched.page.route("**/api/**", lambda route: route.abort() if route.request.method == "GET" else route.continue_())
        watched.allowed.append("ERR_FAILED")
        await opened(other.page, shop, title, "root")
        await other.page.get_by_role("button", name="Reject").click()
        await expect(other.page.get_by_text("Decided: rejected by")).to_be_visible(timeout=15_000)
        await watched.page.get_by_role("button", name="Reject").click()
        await expect(watched.page.get_by_role("alert").first).to_be_visible()
        assert await watched.page.get_by_label("Comment (optional)").input_value() == "fine by me"


async def test_who_may_not_decide_is_told_why(page: Page, shop: Shop) -> None:
    title = await waiting(shop, "o-eve")
    await opened(page, shop, title, "eve")
    await expect(page.get_by_role("button", name="Approve")).to_have_attribute("aria-disabled", "true")
