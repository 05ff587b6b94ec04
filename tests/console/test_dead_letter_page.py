"""Claims about dead letters in a real browser: those that failed alike are a group, one is run again with other input, and a group is closed with a reason."""

import pytest
from playwright.async_api import Page, expect

from tests.console.browsers import axe_complaints, open_with_token
from tests.console.conftest import Shop

pytestmark = pytest.mark.slow


async def test_a_group_shows_what_failed_and_one_of_it_is_requeued_with_other_input(page: Page, shop: Shop) -> None:
    await open_with_token(page, shop.url, shop.keys["root"], "/dead-letters")
    group = page.get_by_role("listitem").filter(has_text="order at").first
    await expect(group).to_be_visible()
    assert await axe_complaints(page) == []
    await group.get_by_text("The executions").click()
    await group.get_by_role("button", name="Requeue … o-").first.click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("It reuses").or_(dialog.get_by_text("It runs"))).to_be_visible()
    await dialog.get_by_role("button", name="Change the input").click()
    text = await dialog.get_by_label("Input, as JSON").input_value()
    await dialog.get_by_label("Input, as JSON").fill("{")
    await dialog.get_by_role("button", name="Requeue", exact=True).click()
    await expect(dialog.get_by_role("alert")).to_be_visible()
    assert await dialog.get_by_label("Input, as JSON").input_value() == "{", "what was typed stays"
    await dialog.get_by_label("Input, as JSON").fill(text)
    await dialog.get_by_role("button", name="Requeue", exact=True).click()
    await expect(dialog.get_by_text("It goes on as")).to_be_visible()


async def test_a_group_is_discarded_after_its_number_was_shown(page: Page, shop: Shop) -> None:
    await open_with_token(page, shop.url, shop.keys["root"], "/dead-letters?workflow=invoice")
    groups = page.get_by_role("button", name="Discard the group")
    await expect(groups).to_have_count(1)
    await groups.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("paid by hand")
    await dialog.get_by_role("button", name="Discard 1").click()
    await expect(dialog.get_by_text("0 left.")).to_be_visible(timeout=30_000)
    await dialog.get_by_role("button", name="Close").last.click()
    await expect(page.get_by_text("No dead letter fits this filter")).to_be_visible(timeout=20_000)
