"""Claims about the console as it is served, in a real browser: it loads without errors wherever it is mounted, an address of a view can be loaded anew, and
the sign-in leads into it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from playwright.async_api import Browser, Page, expect

import perdure.api
from perdure.api.api_server import listening_socket, url_of
from perdure.service.access_keys import KeyRequest, create_key
from perdure.stores.memory import MemoryStore
from tests.cli.serve_process import ServeProcess, new_key, serving
from tests.console.browsers import Watched, expect_built, open_with_token, opened_page, sign_in_by_key
from tests.console.conftest import Shop

pytestmark = pytest.mark.slow

HTML = {"accept": "text/html"}
SESSION = "__Host-perdure-session"


@asynccontextmanager
async def served(directory: Path, *options: str, page: Page | None = None) -> AsyncIterator[tuple[ServeProcess, str]]:
    """A `perdure serve` of its own process, and a key of an admin. A `page` that shows it is left first, since an open page notes that its server has gone."""
    expect_built()
    key = await asyncio.to_thread(new_key, directory)
    process = await asyncio.to_thread(ServeProcess, directory, "--listen", "127.0.0.1:0", *options)
    try:
        yield process, key
        if page is not None:
            await page.goto("about:blank")
    finally:
        await asyncio.to_thread(process.close)


async def shown(page: Page) -> None:
    """Waits until the console has drawn something in the place that its page has for it."""
    await expect(page.locator("#root")).not_to_be_empty()


@pytest.mark.parametrize("root", [pytest.param("", marks=pytest.mark.prove), "/flows"])
async def test_the_page_of_a_server_loads_at_every_address_without_errors(root: str, tmp_path: Path, watched: Watched) -> None:
    page = watched.page
    watched.allowed.append("401")  # the browser notes that the page asks who is signed in
    async with served(tmp_path, *(("--root-path", root) if root else ()), page=page) as (server, _):
        requested = list[str]()
        page.on("request", lambda request: requested.append(request.url))
        for path in ("/", "/executions/order/o-17?tab=graph&at=3", "/system"):
            await page.goto(server.url + path)
            await shown(page)
            assert await page.evaluate("document.baseURI") == f"{server.url}/"
            await page.reload()
            await shown(page)
        elsewhere = [one for one in requested if not one.startswith((f"{server.url}/", "data:"))]
        assert not elsewhere, "it asks for what is below its path, and of no other server"


async def test_a_key_signs_in_on_the_page_of_the_sign_in_which_leads_to_the_address_that_was_wanted(tmp_path: Path, watched: Watched) -> None:
    page = watched.page
    async with served(tmp_path, page=page) as (server, key):
        await sign_in_by_key(page, server.url, key, "/executions?status=failed")
        await page.wait_for_url(f"{server.url}/executions?status=failed**")
        await shown(page)
        cookies = {one["name"]: one for one in await page.context.cookies()}
        assert cookies[SESSION]["httpOnly"] and cookies[SESSION]["sameSite"] == "Lax"
        await page.goto(f"{server.url}/login")
        await page.get_by_role("link", name="Open the console").click()
        await page.wait_for_url(lambda url: "/login" not in url)
        await shown(page)
        await page.goto(f"{server.url}/login")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("Key")).to_be_visible()
        assert SESSION not in {one["name"] for one in await page.context.cookies()}


async def test_a_page_that_is_open_signs_in_again_by_a_request_and_learns_its_csrf_token(tmp_path: Path, watched: Watched) -> None:
    page = watched.page
    watched.allowed.append("401")
    async with served(tmp_path, page=page) as (server, key):
        await page.goto(f"{server.url}/executions")
        sent = """async ([path, body, csrf]) => {
            const headers = {'content-type': 'application/json', ...(csrf ? {'x-csrf-token': csrf} : {})};
            const answer = await fetch(path, {method: 'POST', headers, body: JSON.stringify(body)});
            return [answer.status, answer.status === 204 ? null : await answer.json()];
        }"""
        assert (await page.evaluate(sent, ["login", {"key": f"prd_AAAAAAAA_{'x' * 43}"}, ""]))[0] == 401
        status, opened = await page.evaluate(sent, ["login", {"key": key}, ""])
        assert status == 200 and opened["csrf"] and opened["roles"] == ["admin"]
        missing, _ = await page.evaluate(sent, ["api/executions", {"workflow": "greet", "id": "g"}, ""])
        assert missing in (401, 403), "what changes something needs the CSRF token"
        started, _ = await page.evaluate(sent, ["api/executions", {"workflow": "greet", "id": "g"}, opened["csrf"]])
        assert started == 201
        assert (await page.evaluate(sent, ["logout", {}, opened["csrf"]]))[0] == 204


async def test_the_token_behind_the_address_of_a_development_server_signs_in(shop: Shop, watched: Watched) -> None:
    page = watched.page
    await open_with_token(page, shop.url, shop.keys["eve"], "/executions")
    await shown(page)
    await page.wait_for_url(lambda url: "token=" not in url)
    assert shop.keys["eve"] not in await page.evaluate("location.href + document.cookie")


async def test_it_is_served_where_it_is_mounted_in_another_application(watched: Watched) -> None:
    expect_built()
    page, store = watched.page, MemoryStore()
    watched.allowed.append("401")
    key = (await create_key(store, "default", KeyRequest(name="a", roles=("viewer",)), "test")).text
    flows = perdure.api.app(store)
    web = FastAPI(lifespan=flows.lifespan)
    web.mount("/flows", flows)
    listening = listening_socket("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(web, log_config=None, ws="none", timeout_graceful_shutdown=1))
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        url = f"{url_of(listening)}/flows"
        await page.goto(f"{url}/executions")
        await shown(page)
        assert await page.evaluate("document.baseURI") == f"{url}/"
        await sign_in_by_key(page, url, key)
        await page.wait_for_url(f"{url}/**")
        assert await page.evaluate("fetch('api/whoami').then((answer) => answer.status)") == 200
        await page.goto("about:blank")  # an open page would note that the server has gone
    finally:
        server.should_exit = True
        await running
        listening.close()


async def test_its_files_are_compressed_and_kept_and_others_are_not_there(shop: Shop) -> None:
    async with httpx2.AsyncClient(base_url=shop.url) as http:
        page = await http.get("/executions", headers=HTML)
        assert page.status_code == 200 and page.headers["cache-control"] == "no-cache"
        (script,) = [one.split('"')[0] for one in page.text.split('src="./')[1:]]
        first = await http.get(f"/{script}")
        assert first.headers["content-encoding"] == "gzip" and "immutable" in first.headers["cache-control"]
        again = await http.get(f"/{script}", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await http.get("/assets/other.js")).json()["code"] == "not_found"
        assert "react" in (await http.get("/LICENSES.txt")).text


async def test_the_first_page_is_small(shop: Shop, browser: Browser) -> None:
    async with opened_page(browser) as watched:
        sizes = list[int]()

        async def note(url: str) -> None:
            async with httpx2.AsyncClient() as http, http.stream("GET", url, headers={"accept-encoding": "gzip"}) as answer:
                sizes.append(sum([len(part) async for part in answer.aiter_raw()]))

        requested = list[str]()
        watched.page.on("request", lambda request: requested.append(request.url) if "/assets/" in request.url else None)
        await open_with_token(watched.page, shop.url, shop.keys["eve"])
        await watched.page.get_by_role("link", name="/").first.wait_for()  # an execution; the stream of changes keeps the network busy, so it is never idle
        for url in dict.fromkeys(requested):
            await note(url)
        assert sizes and sum(sizes) <= 350_000, f"{sum(sizes):,} bytes in {len(sizes)} files"


async def test_a_server_without_a_console_has_no_page(tmp_path: Path) -> None:
    async with served(tmp_path, "--no-console") as (server, _):
        answer = await asyncio.to_thread(server.request, "GET", "/executions", headers={"Accept": "text/html"})
        assert answer.status == 404 and answer.json["code"] == "not_found"


def test_the_address_of_the_console_is_on_standard_error(tmp_path: Path) -> None:
    _ = new_key(tmp_path)
    with serving(tmp_path, "--root-path", "/flows") as server:
        assert server.url.endswith("/flows")
        while f"the console is at {server.url}/" not in server.log.read_text():
            assert server.process.poll() is None
