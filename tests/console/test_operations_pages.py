"""Claims about the pages of workflows, of triggers and of the system, in a real browser on the sample."""

import re
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from perdure.service.access_keys import KeyRequest, create_key
from tests.console.browsers import NARROW, WIDE, Watched, axe_complaints, open_with_token, opened_page
from tests.console.conftest import Shop

pytestmark = pytest.mark.slow

PATHS = (
    "/workflows",
    "/workflows/payment",
    "/workflows/payment?tab=versions&version=1.1.0&compare=1.0.0",
    "/workflows/payment?tab=history",
    "/workflows/order",
    "/triggers",
    "/triggers/report:nightly",
    "/triggers/paid:stripe",
    "/triggers/billing:paid",
    *(
        f"/system?tab={tab}"
        for tab in ("health", "engines", "queues", "rates", "tools", "costs", "secrets", "keys", "sessions", "people", "notifications", "audit")
    ),
)


async def go(page: Page, shop: Shop, path: str, name: str = "root") -> None:
    """Opens a page as one of the people, and waits until it has read what it shows."""
    await open_with_token(page, shop.url, shop.keys[name], path)
    await settled(page)


async def settled(page: Page) -> None:
    """Waits until the page has its heading and reads nothing more."""
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await expect(page.get_by_text(re.compile("^Reading .* …$"))).to_have_count(0)


def button(page: Page | Locator, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


@pytest_asyncio.fixture(loop_scope="session")
async def second(browser: Browser) -> AsyncIterator[Watched]:
    """The page of somebody else."""
    async with opened_page(browser) as found:
        yield found


@pytest.mark.parametrize(("size", "dark"), [(WIDE, False), (NARROW, False), (WIDE, True)], ids=["wide", "narrow", "dark"])
async def test_axe_finds_nothing_in_any_page_and_each_fits_its_window(size: tuple[int, int], dark: bool, shop: Shop, browser: Browser) -> None:
    found = list[str]()
    async with opened_page(browser, size=size, dark=dark) as watched:
        watched.allowed.append("404")  # the page of code learns thereby that it is no definition
        for path in PATHS:
            await go(watched.page, shop, path)
            found += [f"{path}: {one}" for one in await axe_complaints(watched.page)]
            if not await watched.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"):
                found.append(f"{path}: it is wider than its window")
        found += watched.unexpected
    assert not found, "\n".join(found)


# Workflows


async def test_the_list_of_workflows_has_their_outcomes_in_words_and_its_filters_in_the_address(shop: Shop, page: Page) -> None:
    await go(page, shop, "/workflows")
    await expect(page.get_by_role("img", name=re.compile(r"started in 24 h: .*failed"))).not_to_have_count(0)
    await page.get_by_label("Search workflows").fill("pay")
    await expect(page).to_have_url(re.compile("q=pay"))
    await expect(page.get_by_role("link", name="payment")).to_be_visible()
    await expect(page.get_by_role("link", name="triage")).to_have_count(0)
    await page.reload()
    await expect(page.get_by_label("Search workflows")).to_have_value("pay")
    await page.get_by_label("Search workflows").fill("nothing has this name")
    await button(page, "Show all").click()
    await expect(page.get_by_role("link", name="triage")).to_be_visible()


async def test_a_workflow_is_opened_and_its_tabs_are_chosen_by_keys_alone(shop: Shop, page: Page) -> None:
    await go(page, shop, "/workflows")
    await page.keyboard.press("/")
    await page.keyboard.type("payment")
    await expect(page.get_by_role("row", name=re.compile("^payment:"))).to_be_visible()
    await expect(page.get_by_role("link", name="triage")).to_have_count(0)
    await page.get_by_label("Search workflows").blur()
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1, name="payment")).to_be_visible()
    await page.keyboard.press("2")
    await expect(page.get_by_role("tab", name="Versions")).to_have_attribute("aria-selected", "true")
    await button(page, "Compare version 1.1.0").focus()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("version=1.1.0&compare=1.0.0|compare=1.0.0.*version=1.1.0"))
    start = button(page, "Start…")
    await start.focus()
    await page.keyboard.press("Enter")
    await expect(dialog(page)).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(dialog(page)).to_have_count(0)
    await expect(start).to_be_focused()


async def test_a_start_takes_the_input_of_an_earlier_execution_and_shows_what_the_server_has_started(shop: Shop, page: Page) -> None:
    await go(page, shop, "/workflows/paid")
    await button(page, "Start…").click()
    earlier = dialog(page).get_by_label("Begin with the input of an earlier execution")
    await expect(earlier.locator("option")).not_to_have_count(1)
    await earlier.select_option(index=1)
    await expect(dialog(page).get_by_label(re.compile("^invoice"))).not_to_have_value("")
    id = f"by-form-{uuid4().hex[:6]}"
    await dialog(page).get_by_label("Id", exact=True).fill(id)
    await button(dialog(page), "Start").click()
    await dialog(page).get_by_role("link", name=f"paid/{id}").click()
    await expect(page).to_have_url(re.compile(f"/executions/paid/{id}"))


async def test_two_versions_are_compared_by_their_steps_and_by_their_text(shop: Shop, page: Page) -> None:
    await go(page, shop, "/workflows/payment?version=1.1.0&compare=1.0.0")
    await expect(page.get_by_text("step charge: repeat.max changed")).to_be_visible()
    await expect(page.get_by_label("payment@1.0.0", exact=True)).to_contain_text("perdure: 1")
    await expect(page.get_by_label("payment@1.1.0", exact=True)).to_contain_text("perdure: 1")
    await page.get_by_label("Compared with", exact=True).select_option("")
    await expect(page.get_by_label("Text of payment@1.1.0")).to_contain_text("perdure: 1")


async def test_a_definition_is_imported_changed_by_two_people_at_once_rolled_back_and_deleted(shop: Shop, page: Page, second: Watched) -> None:
    slug = f"imported-{uuid4().hex[:6]}"
    await go(page, shop, "/workflows")
    await button(page, "Import…").click()
    await dialog(page).get_by_label("Document").fill("perdure: 1\nname: x\nsteps:\n  - {id: a, slep: 1s}\n")
    await expect(dialog(page).get_by_text("✗ The document is not valid.")).to_be_visible()
    await dialog(page).get_by_label("Document").fill("perdure: 1\nname: x\nsteps:\n  - {id: a, sleep: 1s}\n")
    await expect(dialog(page).get_by_text("✓ The document is valid")).to_be_visible()
    await dialog(page).get_by_label("Slug").fill(slug)
    await button(dialog(page), "Import").click()
    await expect(page).to_have_url(re.compile(f"/workflows/{slug}"))
    await go(second.page, shop, f"/workflows/{slug}", "carl")
    for one in (page, second.page):
        await button(one, "More actions").click()
        await one.get_by_role("menuitem", name="Change details…").click()
    await dialog(second.page).get_by_label("Description").fill("said by carl")
    await button(dialog(second.page), "Save").click()
    await expect(dialog(second.page)).to_have_count(0)
    await dialog(page).get_by_label("Description").fill("said by root")
    await expect(page.get_by_text("said by carl")).to_be_visible(timeout=15_000)  # the page has read it meanwhile, and the dialog keeps what was typed
    await expect(dialog(page).get_by_label("Description")).to_have_value("said by root")
    await button(dialog(page), "Save").click()
    await expect(page.get_by_text("said by root").first).to_be_visible()
    await button(page, "Pause new starts…").click()
    await button(dialog(page), "Pause new starts").click()
    await expect(page.get_by_text("New starts are paused:")).to_be_visible()
    await expect(button(page, "Start…")).to_have_attribute("aria-disabled", "true")
    await button(page, "More actions").click()
    await page.get_by_role("menuitem", name="Delete…").click()
    await expect(button(dialog(page), "Delete")).to_have_attribute("aria-disabled", "true")
    await expect(dialog(page).get_by_text("What stays:")).to_be_visible()
    await dialog(page).get_by_label(f"Type {slug} to confirm").fill(slug)
    await button(dialog(page), "Delete").click()
    await expect(page).to_have_url(re.compile("/workflows$"))


async def test_a_roll_back_shows_beforehand_what_it_changes(shop: Shop, page: Page) -> None:
    await go(page, shop, "/workflows/payment?tab=versions")
    await button(page, "Roll back to version 1.0.0").click()
    await expect(dialog(page).get_by_text("step charge: repeat.max changed")).to_be_visible()
    await button(dialog(page), "Close").first.click()
    await expect(button(page, "Roll back to version 1.1.0")).to_have_attribute("title", "This is the current version")


# Triggers


async def test_a_schedule_has_its_times_as_a_sentence_and_its_next_runs_in_both_zones(shop: Shop, page: Page) -> None:
    await go(page, shop, "/triggers")
    await page.get_by_role("link", name="office hours").click()
    await expect(page.get_by_text("from Monday to Friday every hour from 09:00 to 17:00, Europe/London")).to_be_visible()
    runs = page.get_by_role("group", name="The next runs")
    await expect(runs.get_by_role("columnheader", name="Europe/London")).to_be_visible()
    await expect(runs.get_by_role("columnheader", name="Europe/Berlin (yours)")).to_be_visible()
    await expect(runs.get_by_role("row")).to_have_count(11)


async def test_a_jump_of_the_clock_is_marked_in_the_preview_of_a_new_schedule(shop: Shop, watched: Watched) -> None:
    page = watched.page
    watched.allowed.append("422")  # the preview of an expression that is none
    await go(page, shop, "/triggers")
    await button(page, "New trigger…").click()
    form = dialog(page)
    name = f"jump {uuid4().hex[:6]}"
    await form.get_by_label("Name", exact=True).fill(name)
    await form.get_by_label("Workflow", exact=True).fill("report")
    await form.get_by_label("Cron expression").fill("30 2 * * *")
    await form.get_by_label("Time zone").fill("Europe/Berlin")
    await form.get_by_label("Not before").fill("2036-03-29T12:00")
    await expect(form.get_by_text("the clock skips this time")).to_be_visible()
    await form.get_by_label("Cron expression").fill("30 25 * * *")
    await expect(form.get_by_text(re.compile("✗ .*cron", re.IGNORECASE))).to_be_visible()
    await form.get_by_label("Cron expression").fill("30 2 * * *")
    await button(form, "Create").click()
    await expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
    await button(page, "More actions").click()
    await page.get_by_role("menuitem", name="Delete…").click()
    await button(dialog(page), "Delete").click()
    await expect(page).to_have_url(re.compile("/triggers$"))


async def test_a_trigger_is_paused_with_a_reason_and_resumed(shop: Shop, page: Page) -> None:
    await go(page, shop, "/triggers/report:nightly", "carl")
    await expect(page.get_by_text("The definition report declares it")).to_be_visible()
    await button(page, "Pause…").click()
    await dialog(page).get_by_label("Reason").fill("the numbers are being mended")
    await button(dialog(page), "Pause").click()
    await expect(page.get_by_text("the numbers are being mended")).to_be_visible()
    await button(page, "Resume").click()
    await expect(page.get_by_text("the numbers are being mended")).to_have_count(0)


async def test_a_backfill_counts_first_and_starts_what_it_has_counted(shop: Shop, page: Page) -> None:
    await go(page, shop, "/triggers/report:nightly")
    await button(page, "Backfill…").click()
    await expect(button(dialog(page), "Start")).to_have_attribute("aria-disabled", "true")
    await dialog(page).get_by_label("From").fill("2026-01-01T00:00")
    await dialog(page).get_by_label("Up to, but not including").fill("2026-01-04T00:00")
    await button(dialog(page), "Count").click()
    await button(dialog(page), "Start 3").click()
    await expect(dialog(page).get_by_text("Started", exact=True)).to_be_visible()
    await button(dialog(page), "Close").first.click()
    await expect(page.get_by_role("list", name=re.compile("^The last 3 runs")).get_by_role("link")).to_have_count(3, timeout=15_000)


async def test_a_signed_test_delivery_opens_where_somebody_listens_for_the_next_one(shop: Shop, watched: Watched, second: Watched) -> None:
    page = watched.page
    watched.allowed.append("422")  # the first body is one that the workflow does not take
    await go(second.page, shop, "/triggers/paid:stripe")
    await button(second.page, "Listen for the next delivery").click()
    await go(page, shop, "/triggers/paid:stripe")
    await button(page, "Send").click()
    await expect(page.get_by_text("is not what it takes")).to_be_visible()
    event = f"evt_{uuid4().hex[:8]}"
    await page.get_by_label("Body").fill(f'{{"id": "{event}", "type": "invoice.paid", "data": {{"object": {{"id": "in_99", "amount_paid": 4242}}}}}}')
    await button(page, "Send").click()
    await expect(page.get_by_text("✓ accepted: it has started an execution")).to_be_visible()
    drawer = dialog(second.page)
    await expect(drawer.get_by_text("✓ signed with STRIPE_HOOK")).to_be_visible(timeout=15_000)
    await expect(drawer.get_by_text("4242").first).to_be_visible()
    await expect(second.page).to_have_url(re.compile("delivery="))
    await button(drawer, "Replay…").click()
    await button(dialog(second.page).last, "Replay").click()
    await expect(second.page.get_by_role("link", name=re.compile("^paid.replay:"))).to_be_visible()


# The system


async def test_a_key_is_shown_once_and_revoked(shop: Shop, page: Page) -> None:
    name = f"robot {uuid4().hex[:6]}"
    await go(page, shop, "/system?tab=keys")
    await button(page, "New key…").click()
    await dialog(page).get_by_label("Name").fill(name)
    await button(dialog(page), "Create").click()
    await expect(dialog(page).get_by_label("The key", exact=True)).to_contain_text("prd_")
    await page.keyboard.press("Escape")
    await expect(dialog(page)).to_be_visible()  # it closes only when the key is kept
    await dialog(page).get_by_label("I have kept it in a safe place").check()
    await button(dialog(page), "Close").last.click()
    await expect(page.get_by_text("prd_")).to_have_count(0)
    await button(page, f"Revoke {name}").click()
    await button(dialog(page), "Revoke").click()
    await expect(page.get_by_role("row", name=re.compile(name)).get_by_text("✗ revoked")).to_be_visible()


async def test_limits_of_a_queue_are_changed(shop: Shop, page: Page) -> None:
    await go(page, shop, "/system?tab=queues")
    row = page.get_by_role("row", name=re.compile("^mails"))
    await button(row, "Change the limits of mails").click()
    await dialog(page).get_by_label("At a time").fill("0")
    await expect(button(dialog(page), "Save")).to_have_attribute("aria-disabled", "true")
    await dialog(page).get_by_label("At a time").fill("9")
    await button(dialog(page), "Save").click()
    await expect(row.get_by_text("9 at a time")).to_be_visible()


async def test_the_audit_is_filtered_by_what_stands_in_it(shop: Shop, page: Page) -> None:
    await go(page, shop, "/system?tab=audit")
    await page.get_by_role("link", name="triggers.create").first.click()
    await expect(page).to_have_url(re.compile("operation=triggers.create"))
    await expect(page.get_by_role("link", name="people.save_person")).to_have_count(0)
    await button(page, "Show all").click()
    await expect(page.get_by_role("link", name="people.save_person").first).to_be_visible()


async def test_the_absence_of_a_person_is_saved(shop: Shop, page: Page) -> None:
    await go(page, shop, "/system?tab=people")
    await button(page, "Change ada").click()
    await dialog(page).get_by_label("Out of office from").fill("2036-08-01T00:00")
    await dialog(page).get_by_label("Until").fill("2036-08-20T00:00")
    await dialog(page).get_by_label("Who stands in").fill("carl")
    await button(dialog(page), "Save").click()
    await expect(page.get_by_role("row", name=re.compile("^ada")).get_by_text("planned")).to_be_visible()


# Who may what


async def test_tools_of_engines_and_costs_of_models_are_listed(shop: Shop, page: Page) -> None:
    await go(page, shop, "/system?tab=tools", "eve")
    tools = page.get_by_role("group", name="Tools")
    await expect(tools).to_contain_text("calculate_total")
    await page.get_by_label("Tools whose names contain").fill("CALC")
    await expect(tools.get_by_role("rowheader")).to_have_text(["calculate_total"])
    await page.get_by_label("Tools whose names contain").fill("nothing of this name")
    await expect(page.get_by_text("No tool has this in its name.")).to_be_visible()
    await go(page, shop, "/system?tab=costs", "eve")
    costs = page.get_by_role("group", name="Costs of models")
    await expect(costs).to_contain_text("triage")
    await page.get_by_label("Costs", exact=True).select_option(label="of the last day")
    await expect(page).to_have_url(re.compile("within=86400"))
    await expect(costs).to_contain_text("triage")


async def test_who_may_only_look_is_told_why_nothing_can_be_changed(shop: Shop, page: Page) -> None:
    await go(page, shop, "/workflows/payment", "eve")
    for name in ("Start…", "Pause new starts…"):
        await expect(button(page, name)).to_have_attribute("title", re.compile("This needs the role"))
    await button(page, "Start…").click(force=True)
    await expect(dialog(page)).to_have_count(0)
    await go(page, shop, "/triggers/report:nightly", "eve")
    for name in ("Run now…", "Pause…", "Disable", "Backfill…"):
        await expect(button(page, name)).to_have_attribute("title", re.compile("This needs the role operator"))
    for tab in ("secrets", "keys", "sessions", "notifications", "audit"):
        await go(page, shop, f"/system?tab={tab}", "eve")
        await expect(page.get_by_text("This needs the role admin")).to_be_visible()


async def test_another_tenant_sees_nothing_of_the_sample_and_not_what_concerns_all_tenants(shop: Shop, watched: Watched) -> None:
    page = watched.page
    watched.allowed.append("404")
    made = await create_key(shop.sample.app.client.access.store, "acme", KeyRequest(name="zoe", roles=("admin",)), "local")
    await open_with_token(page, shop.url, made.text, "/triggers")
    await expect(page.get_by_text("There is no trigger yet")).to_be_visible()
    await page.goto(f"{shop.url}/workflows/payment")
    await expect(page.get_by_text("There is no workflow payment")).to_be_visible()
    await page.goto(f"{shop.url}/triggers/paid:stripe")
    await expect(page.get_by_text("There is no trigger paid:stripe")).to_be_visible()
    for tab in ("engines", "queues"):
        await page.goto(f"{shop.url}/system?tab={tab}")
        await expect(page.get_by_text("is for callers of the tenant default; you are in acme")).to_be_visible()
