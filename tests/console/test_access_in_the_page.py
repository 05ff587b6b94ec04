"""Claims about who uses the console: a session that ends loses no text, another tenant sees nothing, and the data of a view is not kept for the next person."""

import asyncio
import time
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from perdure import App
from perdure.api.api_server import listening_socket, url_of
from perdure.api.service_api import ServiceApi, ServiceServer, ServiceSettings
from perdure.service.access_keys import KeyRequest, create_key
from perdure.service.oidc import GroupGrant, OidcSettings
from tests.console.browsers import Watched, open_with_token, sign_in_by_key
from tests.console.conftest import Shop
from tests.service.loopback_issuer import CLIENT_ID, CLIENT_SECRET, loopback_issuer

pytestmark = pytest.mark.slow


async def test_a_session_that_ends_loses_no_text_and_goes_on_in_the_page(watched: Watched, shop: Shop) -> None:
    page = watched.page
    watched.allowed.append("401")
    await sign_in_by_key(page, shop.url, shop.keys["carl"], "/workflows/sales/edit?view=text")
    text = page.locator(".cm-content").first
    await expect(text).to_be_visible()
    await text.click()
    await page.keyboard.press("Control+Home")
    await page.keyboard.type("# mine, and not saved yet")
    await page.keyboard.press("Enter")
    await page.context.clear_cookies()  # the browser has no session any more
    await page.keyboard.press("Control+s")
    dialog = page.get_by_role("dialog", name="Sign in to go on")
    await expect(dialog).to_be_visible()
    await dialog.get_by_label("Key").fill("prd_wrong")
    await dialog.get_by_role("button", name="Sign in").click()
    await expect(dialog.get_by_role("alert")).to_be_visible()
    await dialog.get_by_label("Key").fill(shop.keys["carl"])
    await dialog.get_by_role("button", name="Sign in").click()
    await expect(dialog).to_have_count(0)
    await expect(text).to_contain_text("# mine, and not saved yet")
    await text.click()
    await page.keyboard.press("Control+s")
    while not (await shop.sample.app.client.catalog.draft("sales")).document.decode().startswith("# mine"):
        await page.wait_for_timeout(100)


async def test_another_tenant_sees_nothing_of_this_one(page: Page, watched: Watched, shop: Shop) -> None:
    watched.allowed.append("404")
    made = await create_key(shop.sample.app.client.access.store, "acme", KeyRequest(name="acme", roles=("admin",)), "local")
    await open_with_token(page, shop.url, made.text, "/executions")
    await expect(page.get_by_text("There are no executions yet")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Numbers").get_by_text("0 running")).to_be_visible()
    await page.goto(f"{shop.url}/executions/order/o-1")
    await expect(page.get_by_role("alert").first).to_contain_text("o-1")
    for path in ("/approvals?of=all", "/dead-letters", "/proposals?of=all"):
        await page.goto(f"{shop.url}{path}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_role("row")).to_have_count(0)


async def test_somebody_signs_in_at_the_issuer_and_goes_on_in_another_tenant(tmp_path: Path, watched: Watched) -> None:
    page = watched.page
    watched.allowed.append("401")
    listening = listening_socket("127.0.0.1", 0)
    with loopback_issuer() as issuer:
        issuer.redirect_uri = f"{url_of(listening)}/login/callback"
        issuer.identity |= {"iat": time.time(), "exp": time.time() + 300}
        grants = (GroupGrant("ops", ("operator", "viewer")), GroupGrant("ops", ("viewer",), "acme"))
        settings = OidcSettings(issuer=issuer.url, audiences=(CLIENT_ID,), client_id=CLIENT_ID, grants=grants)
        async with App([], db=f"sqlite:///{tmp_path}/service.db") as app:
            server = ServiceServer(ServiceApi(app.client.access, ServiceSettings(oidc=settings, client_secret=CLIENT_SECRET)), listening)
            running = asyncio.create_task(server.run())
            await server.ready()
            await page.goto(f"{url_of(listening)}/system?tab=people")
            await page.get_by_role("link", name="Sign in with your organization").click()
            await expect(page.get_by_role("region", name="You").get_by_text("ada@example.com", exact=True)).to_be_visible()
            await page.get_by_role("button", name="you and your settings").click()
            await page.get_by_role("menuitem", name="Go on in the tenant acme").click()
            await expect(page.get_by_role("button", name="oidc:ada@example.com · acme")).to_be_visible()
            await expect(page.get_by_text("There are no executions yet")).to_be_visible()
            await page.goto("about:blank")  # its stream ends
            server.stop()
            await running
