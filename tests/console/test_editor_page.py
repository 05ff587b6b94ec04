"""Claims about the editor of definitions in a real browser: edits in each view keep the comments of the text, and what two people save is brought together."""

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.console.browsers import NARROW, Watched, axe_complaints, open_with_token, opened_page
from tests.console.conftest import Shop

pytestmark = pytest.mark.slow

TEXT = """\
# Greets somebody, with care.
perdure: 1
name: {slug}
order: listed # from top to bottom
input: {{who: {{type: string, default: Ada}}}}
steps:
  # says hello
  - id: hello # the first step
    set: {{said: "Hello @{{input.who}}"}}
  - {{id: gate, if: {{ref: "@input.who", neq: ""}}, then: [{{id: inner, set: {{ok: true}}}}], else: []}} # a gate
output: "@vars.said"
"""
COMMENTS = ("# Greets somebody, with care.", "# from top to bottom", "# says hello", "# the first step", "# a gate")


async def saved(shop: Shop, slug: str, **more: Any) -> str:
    """Saves a draft of a new definition, and returns its text."""
    text = TEXT.format(slug=slug)
    _ = await shop.sample.app.client.catalog.save_draft(slug, text, **more)
    return text


async def draft(shop: Shop, slug: str) -> str:
    """The text of the draft of a definition."""
    return (await shop.sample.app.client.catalog.draft(slug)).document.decode()


async def opened(page: Page, shop: Shop, slug: str, search: str = "", person: str = "carl") -> None:
    await open_with_token(page, shop.url, shop.keys[person], f"/workflows/{slug}/edit{search}")
    await expect(page.get_by_role("heading", level=1, name=f"Edit {slug}")).to_be_visible(timeout=20_000)


async def save(page: Page) -> None:
    await page.keyboard.press("Control+s")
    await expect(page.get_by_text("is saved", exact=False).first).to_be_visible(timeout=20_000)


async def test_edits_in_each_view_are_in_the_text_which_keeps_its_comments(page: Page, shop: Shop) -> None:
    before = await saved(shop, "each-view")
    await opened(page, shop, "each-view", "?view=canvas&beside=form")
    await page.locator('[data-box="hello"]').click()
    name = page.get_by_label("id", exact=True)
    await name.fill("greeting")
    await name.press("Enter")
    await expect(page.locator('[data-box="greeting"]')).to_be_visible()
    await page.get_by_role("button", name="Add a step").click()
    await page.get_by_label("Search kinds of steps").fill("sleep")
    await page.get_by_label("Search kinds of steps").press("Enter")
    await expect(page.locator('[data-box="sleep"]')).to_be_visible()
    await page.get_by_role("group", name="View beside it").get_by_role("button", name="Text").click()
    await page.locator(".cm-content").click()
    await page.keyboard.press("Control+End")
    await page.keyboard.type("# the end")
    await save(page)
    text = await draft(shop, "each-view")
    inserted = before.replace("id: hello", "id: greeting").replace("  - {id: gate,", "  - id: sleep\n    sleep: 1h\n  - {id: gate,")
    assert text == f"{inserted}# the end"
    assert all(comment in text for comment in COMMENTS)
    await page.reload()
    await expect(page.locator('[data-box="sleep"]')).to_be_visible(timeout=20_000)
    await expect(page.get_by_text("not saved")).to_have_count(0)


async def test_undo_to_the_start_gives_the_first_text_back(page: Page, shop: Shop) -> None:
    before = await saved(shop, "undone")
    await opened(page, shop, "undone", "?step=gate")
    await expect(page.locator(".cm-content")).to_be_visible(timeout=20_000)
    await page.locator('[data-box="gate"]').focus()
    await page.keyboard.press("Alt+ArrowUp")
    await page.locator('[data-box="gate"]').focus()
    await page.keyboard.press("Delete")
    await expect(page.locator('[data-box="gate"]')).to_have_count(0)
    undo = page.get_by_role("button", name="Undo")
    await undo.click()
    await undo.click()
    await expect(undo).to_have_attribute("aria-disabled", "true")
    await expect(page.get_by_text("not saved")).to_have_count(0)
    assert await draft(shop, "undone") == before


async def test_a_text_that_can_not_be_read_leaves_the_last_graph_and_says_where_it_is_wrong(page: Page, shop: Shop) -> None:
    _ = await saved(shop, "unreadable")
    await opened(page, shop, "unreadable")
    await page.locator(".cm-content").click()
    await page.keyboard.press("Control+End")
    await page.keyboard.type("x: @y")
    await expect(page.get_by_text("Line 12, column 4")).to_be_visible()
    await expect(page.locator('[data-box="hello"]')).to_be_visible()
    await expect(page.get_by_role("button", name="Remove", exact=True)).to_have_attribute("aria-disabled", "true")
    await page.get_by_role("button", name="Go to line 12").click()
    await page.keyboard.type('"')
    await page.keyboard.press("Control+End")
    await page.keyboard.type('"')


async def test_what_two_people_have_saved_is_brought_together(browser: Browser, shop: Shop, watched: Watched) -> None:
    before = await saved(shop, "two-people")
    watched.allowed.append("409")
    async with opened_page(browser) as other:
        for page, person in ((watched.page, "carl"), (other.page, "root")):
            await opened(page, shop, "two-people", "?view=text", person)
            await page.locator(".cm-content").click()
        await other.page.keyboard.press("Control+Home")
        await other.page.keyboard.type("# by root\n")
        await save(other.page)
        assert not other.unexpected
    await watched.page.locator(".cm-content").click()
    await watched.page.keyboard.press("Control+End")
    await watched.page.keyboard.type("# by carl\n")
    await watched.page.keyboard.press("Control+s")
    dialog = watched.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("has saved this definition meanwhile", timeout=20_000)
    await dialog.get_by_role("button", name="Take both changes").click()
    await dialog.get_by_role("button", name="Save the text on the right").click()
    await expect(watched.page.get_by_text("is saved", exact=False).first).to_be_visible(timeout=20_000)
    assert await draft(shop, "two-people") == f"# by root\n{before}# by carl\n"


async def test_publication_shows_the_changes_and_the_hash_before(page: Page, shop: Shop) -> None:
    text = await saved(shop, "published")
    first = await shop.sample.app.client.catalog.update("published", text)
    await opened(page, shop, "published", "?view=form&step=hello")
    name = page.get_by_label("id", exact=True)
    await name.fill("greeting")
    await name.press("Enter")
    await page.get_by_role("button", name="Publish …").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(first.hash[:19], timeout=20_000)
    await expect(dialog).to_contain_text("greeting renamed")
    assert await axe_complaints(page) == []
    await dialog.get_by_role("button", name="Publish", exact=True).click()
    await expect(page.get_by_text("published 1.1.0 is published")).to_be_visible(timeout=20_000)
    version = await shop.sample.app.client.catalog.version("published")
    assert version.received == text.replace("id: hello", "id: greeting")


async def test_a_draft_runs_up_to_a_step_with_the_input_of_an_earlier_execution_virtually_and_for_real(page: Page, shop: Shop) -> None:
    client = shop.sample.app.client
    _ = await client.catalog.create(TEXT.format(slug="tried"))
    ended = await client.start(client.definition("tried").with_(id="t-1"), who="Eve")
    _ = await ended.result(timeout="20s")
    await opened(page, shop, "tried", "?view=canvas&step=hello")
    await page.get_by_role("button", name="Try up to here").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Try in virtual time").click()
    await expect(dialog.get_by_text("hello was reached.")).to_be_visible()
    await expect(dialog.get_by_text("Hello Eve")).to_be_visible()
    await dialog.get_by_role("button", name="Run up to it for real").click()
    started = dialog.get_by_role("link", name=re.compile("^tried"))
    await expect(started).to_be_visible()
    id = (await started.inner_text()).removeprefix("tried/")
    handle = await client.get(id, "tried")
    assert await handle.result(timeout="20s") == {"said": "Hello Eve"}
    assert [one.path for one in await handle.steps()] == ["hello", "end_here"]


async def test_text_that_was_not_saved_is_offered_again_after_a_reload(page: Page, shop: Shop) -> None:
    _ = await saved(shop, "reloaded")
    await opened(page, shop, "reloaded", "?view=text")
    await page.locator(".cm-content").click()
    await page.keyboard.press("Control+Home")
    await page.keyboard.type("# not saved yet\n")
    while not await page.evaluate("Object.keys(sessionStorage).some((name) => name.includes('reloaded'))"):
        await asyncio.sleep(0.05)
    page.on("dialog", lambda dialog: dialog.accept())
    await page.reload()
    await page.get_by_role("button", name="Take it").click(timeout=20_000)
    await expect(page.locator(".cm-content")).to_contain_text("# not saved yet")
    await page.get_by_role("link", name="Triggers").click()
    await expect(page.get_by_role("dialog")).to_contain_text("Leave without saving?")
    await page.get_by_role("button", name="Save the draft and leave").click()
    await expect(page).to_have_url(re.compile("/triggers"), timeout=20_000)
    assert (await draft(shop, "reloaded")).startswith("# not saved yet\n")


async def test_who_may_not_write_is_told_why(page: Page, shop: Shop) -> None:
    _ = await saved(shop, "read-only")
    await opened(page, shop, "read-only", person="eve")
    await expect(page.get_by_text("Read only: This needs the role author")).to_be_visible()
    await expect(page.get_by_role("button", name="Save draft")).to_have_attribute("aria-disabled", "true")
    await page.locator(".cm-content").click()
    await page.keyboard.type("x")
    await expect(page.get_by_text("not saved")).to_have_count(0)


@pytest.mark.parametrize("view", ["canvas", "form", "text"])
async def test_each_view_is_usable_on_a_telephone(browser: Browser, shop: Shop, view: str) -> None:
    _ = await saved(shop, f"narrow-{view}")
    async with opened_page(browser, size=NARROW) as watched:
        await opened(watched.page, shop, f"narrow-{view}", f"?view={view}&step=hello")
        shown = {"canvas": '[data-box="hello"]', "form": "select", "text": ".cm-content"}[view]
        await expect(watched.page.locator(shown).first).to_be_visible(timeout=20_000)
        assert await watched.page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
        assert await axe_complaints(watched.page) == []
        assert not watched.unexpected


async def test_references_are_offered_as_the_server_knows_them_and_by_the_text_alone_while_it_can_not_be_read(page: Page, shop: Shop) -> None:
    _ = await saved(shop, "offers")
    await opened(page, shop, "offers", "?view=text")
    text = page.locator(".cm-content").first
    offers = page.locator(".cm-tooltip-autocomplete")
    await text.get_by_text("Hello @{input.who}").click()
    await page.keyboard.press("End")
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.type(" @{")
    await expect(offers.get_by_text("input.who")).to_be_visible()
    await expect(offers.get_by_text("an input", exact=True)).to_be_visible()
    assert "gate" not in await offers.inner_text(), "a step that comes later has no result yet"
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+End")
    await page.keyboard.press("Enter")
    await page.keyboard.type("[broken: @")
    await expect(offers.get_by_text("result of if")).to_be_visible()
