"""Claims about the dialog in which a model writes or changes a definition, in a real browser on the sample, whose model answers by a script."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.console.browsers import Watched, axe_complaints
from tests.console.conftest import Shop
from tests.console.test_operations_pages import button, dialog, go

pytestmark = pytest.mark.slow


async def test_a_workflow_that_is_described_is_written_step_by_step_and_leads_to_its_proposal(page: Page, shop: Shop) -> None:
    await go(page, shop, "/workflows", "carl")
    await button(page, "Describe a workflow…").click()
    await expect(dialog(page).get_by_text("Say in words what it should do")).to_be_visible()
    assert not await axe_complaints(page)
    await dialog(page).get_by_label("What should it do?").fill("Greet whoever signs up")
    await button(dialog(page), "Write a proposal").click()
    done = dialog(page).get_by_role("list", name="What the model has done")
    await expect(dialog(page).get_by_text("The model works …")).to_be_visible()
    await expect(done).to_contain_text("writes the definition: 1 error ! to be corrected")
    await expect(dialog(page).get_by_text("It has written a proposal for welcome.")).to_be_visible()
    steps = ["writes the definition: 1 error ! to be corrected", "writes the definition: no findings", "runs a trial: it would have completed"]
    await expect(done.get_by_role("listitem")).to_have_text([*steps, "files the proposal"])
    assert not await axe_complaints(page)
    await dialog(page).get_by_role("link", name="Look at the proposal").click()
    await expect(page).to_have_url(re.compile(r"/proposals/[0-9a-f-]{36}"))
    await expect(page.get_by_role("heading", level=1)).to_have_text("A change of welcome")
    await expect(page.get_by_text("Written by the model")).to_be_visible()
    refused = page.get_by_role("button", name="Approve …")
    await expect(refused).to_have_attribute("title", re.compile("somebody else has to review it"))


async def test_a_definition_is_changed_with_words_by_an_operator(page: Page, shop: Shop) -> None:
    await go(page, shop, "/workflows", "ada")
    await expect(button(page, "Describe a workflow…")).to_have_attribute("aria-disabled", "true")
    await go(page, shop, "/workflows/discounts", "ada")
    await button(page, "More actions").click()
    await page.get_by_role("menuitem", name="Change with words…").click()
    await dialog(page).get_by_label("What should be different?").fill("Large orders get 15 percent")
    await button(dialog(page), "Write a proposal").click()
    await expect(dialog(page).get_by_text("It has written a proposal for discounts.")).to_be_visible()
    await dialog(page).get_by_role("link", name="Look at the proposal").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("A change of discounts")


async def test_a_model_that_gives_up_leaves_what_it_has_written(page: Page, shop: Shop) -> None:
    await go(page, shop, "/workflows")
    await button(page, "Describe a workflow…").click()
    await dialog(page).get_by_label("What should it do?").fill("Send a fax to whoever signs up")
    await button(dialog(page), "Write a proposal").click()
    await expect(dialog(page).get_by_text("Nothing was proposed: There is no tool that sends a fax.")).to_be_visible()
    await expect(dialog(page).get_by_label("The document that was nearest")).to_have_value(re.compile("name: fax"))


async def test_what_is_refused_is_said_and_the_words_stay(watched: Watched, shop: Shop) -> None:
    page = watched.page
    watched.allowed.append("409")
    await go(page, shop, "/workflows/report")
    await button(page, "More actions").click()
    await page.get_by_role("menuitem", name="Change with words…").click()
    await dialog(page).get_by_label("What should be different?").fill("Twice a day")
    await button(dialog(page), "Write a proposal").click()
    await expect(dialog(page).get_by_text("does not allow proposals")).to_be_visible()
    await expect(dialog(page).get_by_label("What should be different?")).to_have_value("Twice a day")


async def test_the_editor_offers_words_for_what_is_published_alone(page: Page, shop: Shop) -> None:
    await go(page, shop, "/workflows/discounts/edit")
    await button(page, "More actions").click()
    await page.get_by_role("menuitem", name="Change with words…").click()
    await expect(dialog(page).get_by_role("heading", name="Change discounts with words")).to_be_visible()
