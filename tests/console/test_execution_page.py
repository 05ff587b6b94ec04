"""Claims about the page of an execution in a real browser: it says why the execution stands where it stands, shows it as of any event, and each command shows
beforehand what it would do.
"""

import asyncio
import re
import signal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from playwright.async_api import Browser, Page, expect

from tests.cli.serve_process import ServeProcess, free_port, new_key
from tests.console.browsers import NARROW, Watched, axe_complaints, expect_built, open_with_token, opened_page
from tests.console.conftest import Shop
from tools.console_sample import STORY, STORY_ANSWER

pytestmark = pytest.mark.slow

WAIT_S = 30.0
expect.set_options(timeout=20_000)


def address(workflow: str, id: str, query: str = "") -> str:
    return f"/executions/{quote(workflow, safe='')}/{quote(id, safe='')}{query}"


async def opened(page: Page, shop: Shop, path: str, who: str = "root") -> None:
    """Opens an address as one of the people, and waits until the execution is there."""
    await open_with_token(page, shop.url, shop.keys[who], path)
    await expect(page.get_by_role("tablist", name="Views of the execution")).to_be_visible()


async def asked(shop: Shop, method: str, path: str, body: Any = None) -> Any:
    """An answer of the API, as the admin gets it."""
    async with httpx2.AsyncClient() as client:
        answer = await client.request(method, f"{shop.url}/api{path}", json=body, headers={"authorization": f"Bearer {shop.keys['root']}"})
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None


async def started(shop: Shop, workflow: str, id: str, input: Any) -> str:
    """The address of a new execution that waits."""
    await asked(shop, "POST", "/executions", {"workflow": workflow, "id": id, "input": input})
    return await reached(shop, workflow, id, "waiting", "waiting_approval", "failed", "completed", "needs_attention")


async def reached(shop: Shop, workflow: str, id: str, *statuses: str) -> str:
    """Waits until an execution has one of the statuses; returns its address."""
    path = address(workflow, id)
    async with asyncio.timeout(WAIT_S):
        while (await asked(shop, "GET", path))["status"] not in statuses:
            await asyncio.sleep(0.1)
    return path


async def act(page: Page, action: str) -> None:
    """Chooses an action in the menu."""
    await page.get_by_role("button", name="Actions").click()
    await page.get_by_role("menuitem", name=action).click()


async def confirm(page: Page, button: str) -> None:
    """Confirms a dialog once the server has said what would happen, and waits until it has answered."""
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name=button, exact=True)).not_to_have_attribute("aria-disabled", "true")
    await dialog.get_by_role("button", name=button, exact=True).click()
    await expect(dialog).to_be_hidden()


def state(page: Page, word: str) -> Any:
    return expect(page.locator("header").get_by_text(word, exact=True).first)


async def test_it_says_why_an_execution_failed_and_what_to_do(shop: Shop, page: Page) -> None:
    await opened(page, shop, address("order", "o-20"))
    await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("order.*o-20"))
    await state(page, "failed").to_be_visible()
    await expect(page.get_by_text("LookupError: no carrier goes to the address of o-20").first).to_be_visible()
    await expect(page.get_by_text(re.compile("Retry it once the cause is mended"))).to_be_visible()
    await page.get_by_role("navigation", name="Family").get_by_role("link", name="parcel/").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("parcel.*o-20"))


async def test_an_id_that_is_not_there_is_explained(shop: Shop, watched: Watched) -> None:
    watched.allowed.append("404")
    await open_with_token(watched.page, shop.url, shop.keys["root"], address("order", "o-nowhere"))
    await expect(watched.page.get_by_role("heading", name="There is no such execution")).to_be_visible()
    await expect(watched.page.get_by_role("link", name="Executions of order")).to_be_visible()


async def test_each_view_has_a_key_and_an_address_that_survives_back_and_reload(shop: Shop, page: Page) -> None:
    await opened(page, shop, address("order", "o-20"))
    for key, name in (("2", "Timeline"), ("3", "Events"), ("4", "Data"), ("1", "Graph")):
        await page.keyboard.press(key)
        await expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
        assert f"tab={name.lower()}" in page.url
    await page.go_back()
    await expect(page.get_by_role("tab", name="Data")).to_have_attribute("aria-selected", "true")
    await page.reload()
    await expect(page.get_by_role("tab", name="Data")).to_have_attribute("aria-selected", "true")
    await expect(page.get_by_role("region", name="Input")).to_contain_text("o-20")


async def test_a_step_opens_by_keys_alone_and_gives_the_focus_back(shop: Shop, page: Page) -> None:
    await opened(page, shop, address("order", "o-20", "?tab=timeline"))
    await expect(page.get_by_role("row", name=re.compile("set:phase: completed"))).to_be_visible()
    for key in ("j", "j", "k", "Enter"):
        await page.keyboard.press(key)
    drawer = page.get_by_role("complementary", name=re.compile("Step "))
    await expect(drawer.get_by_role("heading", level=2)).to_be_focused()
    assert "step=" in page.url
    await page.keyboard.press("Escape")
    await expect(drawer).to_be_hidden()
    assert await page.evaluate("document.activeElement.getAttribute('role')") == "row"


async def test_a_retry_shows_beforehand_what_it_reuses_and_is_told_when_it_is_done(shop: Shop, page: Page) -> None:
    before = (await asked(shop, "GET", address("order", "o-15")))["version"]
    await opened(page, shop, address("order", "o-15"))
    await page.get_by_role("button", name="Retry", exact=True).click()
    await expect(page.get_by_role("region", name="What would happen")).to_contain_text(re.compile(r"reuses \d+ results?.*undoes nothing"))
    assert (await asked(shop, "GET", address("order", "o-15")))["version"] == before, "a plan changes nothing"
    await confirm(page, "Retry")
    await expect(page.get_by_text("order/o-15 is retried.")).to_be_visible()
    await reached(shop, "order", "o-15", "failed", "completed")
    assert (await asked(shop, "GET", address("order", "o-15")))["version"] > before


async def test_a_fork_from_a_step_takes_other_input_and_leads_to_the_new_execution(shop: Shop, page: Page) -> None:
    await opened(page, shop, address("booking", "seat-1", "?tab=timeline&step=reserve_stock"))
    await page.get_by_role("complementary").get_by_role("button", name="Fork from here").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label(re.compile("^Input")).fill("[")
    await expect(dialog.get_by_text("is no JSON").first).to_be_visible()
    await dialog.get_by_label(re.compile("^Input")).fill('{"seat": "12 A"}')
    await dialog.get_by_label(re.compile("^New id")).fill("seat-forked")
    await expect(dialog.get_by_role("region", name="What would happen")).to_contain_text("starts a new execution")
    await confirm(page, "Fork")
    await page.wait_for_url(f"**{address('booking', 'seat-forked')}**")
    assert (await asked(shop, "GET", address("booking", "seat-forked")))["variables"] == {"seat": "12 A"}


async def test_a_rerun_whose_id_is_taken_says_so_and_keeps_what_was_typed(shop: Shop, watched: Watched) -> None:
    watched.allowed.append("409")
    page = watched.page
    await opened(page, shop, address("booking", "seat-2"))
    await act(page, "Rerun")
    field = page.get_by_role("dialog").get_by_label(re.compile("^New id"))
    await field.fill("seat-1")
    button = page.get_by_role("dialog").get_by_role("button", name="Rerun", exact=True)
    await expect(button).not_to_have_attribute("aria-disabled", "true")
    await button.click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    await expect(field).to_have_value("seat-1")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Actions")).to_be_focused()


async def test_an_execution_is_paused_resumed_and_cancelled(shop: Shop, page: Page) -> None:
    await opened(page, shop, await started(shop, "reminder", "reminder-acted", {"customer": "c-1"}))
    await page.get_by_role("button", name="Pause", exact=True).click()
    await page.get_by_role("dialog").get_by_label(re.compile("^Reason")).fill("stock is counted")
    await confirm(page, "Pause")
    await state(page, "paused").to_be_visible()
    await page.get_by_role("button", name="Resume", exact=True).click()
    await confirm(page, "Resume")
    await state(page, "waiting").to_be_visible()
    await page.get_by_role("button", name="Cancel", exact=True).click()
    await expect(page.get_by_role("region", name="What would happen")).to_contain_text("stops 1 open step")
    await confirm(page, "Cancel the execution")
    await state(page, "cancelled").to_be_visible()


async def test_an_execution_is_terminated_from_a_telephone_whose_menu_scrolls(shop: Shop, page: Page) -> None:
    await page.set_viewport_size({"width": NARROW[0], "height": NARROW[1] - 200})
    await opened(page, shop, await started(shop, "reminder", "reminder-terminated", {"customer": "c-1"}))
    await act(page, "Terminate")
    await confirm(page, "Terminate")
    await state(page, "cancelled").to_be_visible()


async def test_a_message_is_sent_to_what_waits_for_it(shop: Shop, page: Page) -> None:
    await opened(page, shop, await started(shop, "invoice", "i-sent", {"number": "i-sent"}))
    await act(page, "Send message")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Name")).to_have_value("paid")
    await dialog.get_by_label(re.compile("^Body")).fill('"by card"')
    await confirm(page, "Send")
    await state(page, "completed").to_be_visible()
    await page.keyboard.press("4")
    await expect(page.get_by_role("region", name="Output")).to_contain_text("by card")


async def test_a_message_to_code_has_the_form_of_its_type_and_json_is_the_other_way(shop: Shop, page: Page) -> None:
    await opened(page, shop, await started(shop, "parcel", "p-form", {"order": "o-form", "carrier": "people"}))
    await act(page, "Send message")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Name")).to_have_value("packed")
    await dialog.get_by_label("Enter the body as").select_option("json")
    await expect(dialog.get_by_label(re.compile("^Body"))).to_have_value("")
    await dialog.get_by_label("Enter the body as").select_option("form")
    await dialog.get_by_label(re.compile("^Body")).fill("a red label")
    await confirm(page, "Send")
    await state(page, "completed").to_be_visible()
    await page.goto(f"{shop.url}{address('parcel', 'p-form', '?tab=data')}")
    await expect(page.get_by_role("region", name="Output")).to_contain_text("a red label, by people")


async def test_a_preset_gives_a_step_that_is_to_come_its_result(shop: Shop, page: Page) -> None:
    await opened(page, shop, await started(shop, "reminder", "reminder-preset", {"customer": "c-1"}))
    await act(page, "Preset")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label(re.compile("^Step")).fill("send_mail")
    await dialog.get_by_label(re.compile("^Result")).fill("null")
    await expect(dialog.get_by_role("region", name="What would happen")).to_contain_text("result of send_mail")
    await confirm(page, "Preset")
    await expect(page.get_by_text("The result is given to reminder/reminder-preset.")).to_be_visible()


async def test_what_has_completed_is_undone(shop: Shop, page: Page) -> None:
    await opened(page, shop, address("order", "o-1"))
    await act(page, "Undo")
    await expect(page.get_by_role("region", name="What would happen")).to_contain_text(re.compile(r"undoes \d+ steps?"))
    await confirm(page, "Undo")
    await expect(page.get_by_text("order/o-1 is being undone.")).to_be_visible()


async def test_a_patch_shows_its_changes_and_applies(shop: Shop, page: Page) -> None:
    steps = (await asked(shop, "GET", address("claim", "claim-2") + "/definition"))["document"]["steps"]
    (position,) = [number for number, one in enumerate(steps) if one["id"] == "refuse"]
    await opened(page, shop, address("claim", "claim-2"), who="carl")
    await act(page, "Patch")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label(re.compile("^Change")).fill(f'[{{"op": "replace", "path": "/steps/{position}/fail", "value": "the claim was refused"}}]')
    await expect(dialog.get_by_role("region", name="What would happen")).to_contain_text("changes to the definition")
    await confirm(page, "Patch")
    await expect(page.get_by_text("The patch of claim/claim-2 applies.")).to_be_visible()


async def test_who_may_only_look_is_told_why_nothing_can_be_done(shop: Shop, page: Page) -> None:
    await opened(page, shop, address("order", "o-17"), who="eve")
    retry = page.get_by_role("button", name="Retry", exact=True)
    await expect(retry).to_have_attribute("aria-disabled", "true")
    await expect(retry).to_have_attribute("title", re.compile("needs the role operator"))
    await retry.click(force=True)
    await expect(page.get_by_role("dialog")).to_be_hidden()


async def test_the_conditions_of_a_step_have_the_values_that_were_compared(shop: Shop, page: Page) -> None:
    await opened(page, shop, address("payment", "p-large", "?step=charge"))
    conditions = page.get_by_role("region", name="Conditions")
    await expect(conditions.get_by_role("listitem")).to_have_count(3)
    await expect(conditions.get_by_role("listitem").filter(has_text="Rule 1")).to_contain_text("taken")
    large = conditions.get_by_role("row", name=re.compile("@self.cents"))
    await expect(large).to_contain_text("142800 ≥ 100000")
    await expect(large.get_by_role("img", name="holds", exact=True)).to_be_visible()
    await page.goto(f"{shop.url}{address('payment', 'p-1001', '?step=charge')}")
    await expect(large).to_contain_text("4998 ≥ 100000")
    await expect(large.get_by_role("img", name="does not hold")).to_be_visible()


async def test_a_past_state_moves_every_view_marks_what_changed_and_leads_back_to_now(shop: Shop, page: Page) -> None:
    await opened(page, shop, address("order", "o-20", "?tab=timeline"))
    slider = page.get_by_role("slider", name="Event of the log")
    await slider.focus()
    await page.keyboard.press("ArrowLeft")
    await page.wait_for_url("**at=31**")
    await page.goto(f"{shop.url}{address('order', 'o-20', '?tab=timeline&at=14')}")
    await expect(page.get_by_text("As of event 14")).to_be_visible()
    await state(page, "waiting").to_be_visible()
    await expect(page.get_by_role("row", name=re.compile("^charge_card"))).to_contain_text("changed here")
    await expect(page.get_by_role("button", name="Retry", exact=True)).to_have_attribute("title", re.compile("past state"))
    await page.get_by_role("button", name="Back to now").click()
    await state(page, "failed").to_be_visible()
    assert "at=" not in page.url


async def test_a_link_to_an_event_shows_the_data_and_the_family_of_its_time_on_each_tab(shop: Shop, page: Page) -> None:
    log = (await asked(shop, "GET", f"{address('order', 'o-1')}/log?after=0&limit=1000"))["items"]
    begun, *_, ended = (one for one in log if "parcel" in one["path"])
    await opened(page, shop, address("order", "o-1", f"?tab=data&at={begun['number']}"))
    await expect(page.get_by_role("region", name="State")).to_contain_text("delivering")
    await expect(page.get_by_role("region", name="Output")).to_contain_text("There is none yet")
    family = page.get_by_role("navigation", name="Family")
    await expect(family).to_contain_text("Had started by then")
    await opened(page, shop, address("order", "o-1", f"?tab=data&at={ended['number']}"))
    await expect(family.get_by_role("link", name=re.compile("^parcel"))).to_have_attribute("href", re.compile("at=[0-9]+"))
    await expect(family).to_contain_text("completed")
    await opened(page, shop, address("order", "o-1", f"?tab=data&at={begun['cause'] - 1}"))
    await expect(page.get_by_role("region", name="State")).to_be_visible()
    await expect(family).to_be_hidden()


async def test_an_event_that_the_log_does_not_have_is_explained(shop: Shop, watched: Watched) -> None:
    watched.allowed.append("422")
    await opened_past(watched.page, shop, address("order", "o-20", "?at=9999"))
    await expect(watched.page.get_by_role("alert")).to_contain_text("1 to 32")
    await watched.page.get_by_role("button", name="Back to now").click()
    await expect(watched.page.get_by_role("tablist", name="Views of the execution")).to_be_visible()


async def opened_past(page: Page, shop: Shop, path: str) -> None:
    await open_with_token(page, shop.url, shop.keys["root"], path)
    await expect(page.get_by_role("region", name="Time travel")).to_be_visible()


async def test_the_transcript_of_an_agent_has_its_calls_and_its_choice(shop: Shop, page: Page) -> None:
    await opened(page, shop, address("perdure.definition.agent", "default/triage/T-1042:look", "?tab=agent"))
    await expect(page.get_by_text(re.compile(r"3 model calls, 2 tool calls; [\d,]+ tokens in"))).to_be_visible()
    await expect(page.get_by_role("article", name="Turn 2")).to_contain_text("which is not allowed")
    await expect(page.get_by_role("article", name="Turn 3")).to_contain_text("Chose engineering: A defect of the app.")
    await opened(page, shop, address("perdure.definition.agent", "default/triage/T-1042:look", "?tab=agent&at=1"))
    await expect(page.get_by_role("tab", name="Agent")).to_have_attribute("aria-selected", "true")
    await expect(page.get_by_role("article", name="Turn 2")).to_be_hidden()


async def test_the_answer_of_a_running_turn_grows_in_the_transcript_until_the_log_has_it(shop: Shop, page: Page) -> None:
    client = shop.sample.app.client
    _ = await client.catalog.create(STORY)
    story = await client.start(client.definition("story").with_(id="story-1"), order="o-1")
    await opened(page, shop, address("perdure.definition.agent", "default/story/story-1:tell", "?tab=agent"))
    turn = page.get_by_role("article", name="Turn 1")
    await expect(turn).to_contain_text("model, so far")
    await expect(turn).to_contain_text("It is not durable yet")
    await expect(turn).to_contain_text("The order came in at night")
    assert "boiled every day" not in await turn.inner_text()
    assert not await axe_complaints(page)
    await expect(turn).to_contain_text("the printer was awake. It was for one kettle")
    assert "boiled every day" not in await turn.inner_text()
    await expect(turn).to_contain_text(STORY_ANSWER)
    await expect(turn).not_to_contain_text("It is not durable yet")
    assert (await turn.inner_text()).count("The order came in at night") == 1
    assert await story.result("10s") == STORY_ANSWER


async def test_of_two_people_the_second_is_told_that_the_execution_has_changed(shop: Shop, browser: Browser) -> None:
    path = await started(shop, "reminder", "reminder-shared", {"customer": "c-1"})
    await asked(shop, "POST", f"{path}/pause", {"wait": True})
    async with opened_page(browser) as first, opened_page(browser) as second:
        for one in (first, second):
            await opened(one.page, shop, path, who="carl")
            await one.page.get_by_role("button", name="Resume", exact=True).click()
            await expect(one.page.get_by_role("region", name="What would happen")).to_contain_text("goes on")
        await confirm(first.page, "Resume")
        await expect(second.page.get_by_role("dialog").get_by_role("alert")).to_contain_text(re.compile("has changed since|not paused|no effect"))
        await expect(second.page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True)).to_have_attribute("aria-disabled", "true")


async def test_a_server_that_is_killed_is_told_and_the_page_recovers(tmp_path: Path, watched: Watched) -> None:
    watched.allowed.extend(("ERR_", "500", "502"))
    page, port = watched.page, free_port()
    expect_built()
    key = await asyncio.to_thread(new_key, tmp_path)
    served = await asyncio.to_thread(ServeProcess, tmp_path, "--listen", f"127.0.0.1:{port}")
    try:
        assert served.request("POST", "/api/executions", {"workflow": "greet", "id": "g"}, key).status == 201
        await open_with_token(page, served.url, key, address("greet", "g"))
        await state(page, "waiting").to_be_visible()
        served.signal(signal.SIGKILL)
        await expect(page.get_by_text("The connection to the server is lost")).to_be_visible(timeout=20_000)
        await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("greet.*g"))
        await asyncio.to_thread(served.close)
        served = await asyncio.to_thread(ServeProcess, tmp_path, "--listen", f"127.0.0.1:{port}")
        await expect(page.get_by_text("The connection to the server is lost")).to_be_hidden(timeout=30_000)
        assert served.request("POST", "/api/executions/greet/g/messages", {"name": "named", "body": "Ada"}, key).status == 204
        await state(page, "completed").to_be_visible(timeout=30_000)
    finally:
        await asyncio.to_thread(served.close)


PLACES = (
    ("order", "o-20", "?tab=graph"),
    ("order", "o-20", "?tab=timeline&step=join/branch/call:parcel"),
    ("order", "o-20", "?tab=events&at=14"),
    ("order", "o-20", "?tab=data"),
    ("perdure.definition.agent", "default/triage/T-1042:look", "?tab=agent"),
)


@pytest.mark.parametrize("dark", [False, True])
async def test_axe_finds_nothing(dark: bool, shop: Shop, browser: Browser) -> None:
    async with opened_page(browser, dark=dark) as watched:
        for workflow, id, query in PLACES:
            await opened(watched.page, shop, address(workflow, id, query))
            await watched.page.wait_for_timeout(500)
            assert not await axe_complaints(watched.page), (query, dark)
        await opened(watched.page, shop, address("order", "o-16"))
        await watched.page.get_by_role("button", name="Retry", exact=True).click()
        await expect(watched.page.get_by_role("region", name="What would happen")).to_contain_text("reuses")
        assert not await axe_complaints(watched.page), "the dialog"


async def test_it_fits_a_telephone(shop: Shop, browser: Browser) -> None:
    async with opened_page(browser, size=NARROW) as watched:
        for workflow, id, query in PLACES:
            await opened(watched.page, shop, address(workflow, id, query))
            assert not await watched.page.evaluate("document.documentElement.scrollWidth > innerWidth"), query
            assert not await axe_complaints(watched.page), query
