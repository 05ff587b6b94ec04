"""Claims about the addresses of the console: which answer with its page or its files, how these are kept and compressed, and what is said without a build."""

import gzip
import re
from pathlib import Path

import pytest

from perdure.api.api_app import ApiApp
from perdure.api.console_pages import VIEWS, ConsolePages, accepts_gzip
from perdure.api.http_requests import ApiRequest
from perdure.api.service_api import ServiceSettings
from perdure.service.callers import LOCAL, Caller
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from tests.api.api_setup import Answer, Api
from tests.api.service_setup import Browser, service_in_process

PAGE = '<!doctype html><html lang="en"><head><base href="/"><script type="module" src="./assets/page-1a2b.js"></script></head></html>'
SCRIPT = "console.log('of the console');\n" * 100
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def anybody(_: ApiRequest) -> Caller:
    """Everybody is the developer."""
    return LOCAL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A build of the console."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "assets/page-1a2b.js").write_text(SCRIPT)
    (tmp_path / "assets/letters-3c4d.woff2").write_bytes(b"\0" * 2_000)
    (tmp_path / "icon.svg").write_text("<svg/>")
    (tmp_path / "LICENSES.txt").write_text("Of others\n" * 500)
    return tmp_path


def api_with(console: ConsolePages | None, root_path: str = "") -> Api:
    """An API on an empty store, with this console."""
    return Api(ApiApp(StoreAccess(MemoryStore()), anybody, secret=b"a secret of the tests", console=console, root_path=root_path))


@pytest.fixture
async def api(folder: Path) -> Api:
    return api_with(ConsolePages(("key", "oidc"), folder))


async def opened(api: Api, path: str, method: str = "GET") -> Answer:
    """What a browser is answered that goes to a path."""
    return await api(method, path, accept=BROWSER)


async def test_each_view_is_answered_with_the_page_whatever_follows_in_its_address(api: Api) -> None:
    for view in VIEWS:
        for path in (f"/{view}", f"/{view}?status=failed&at=37", *((f"/{view}/", f"/{view}/order/o%2F17?tab=graph") if view else ())):
            answer = await opened(api, path)
            assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8"), path
            assert b"assets/page-1a2b.js" in answer.body
    head = await opened(api, "/executions", "HEAD")
    assert head.status == 200 and head.body == b"" and int(head.headers["content-length"]) > 100


async def test_the_policy_of_the_page_has_a_nonce_for_one_answer_that_the_page_is_told(api: Api) -> None:
    nonces = set[str]()
    for _ in range(3):
        answer = await opened(api, "/")
        (nonce,) = re.findall(r'<meta name="csp-nonce" content="([\w-]{20,})">', answer.body.decode())
        policy = answer.headers["content-security-policy"]
        assert f"style-src 'self' 'nonce-{nonce}';" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-cache" and "etag" not in answer.headers
        nonces.add(nonce)
    assert len(nonces) == 3


async def test_the_page_is_told_how_to_sign_in_and_below_which_path_it_is(folder: Path) -> None:
    for root, base in (("", "/"), ("/flows", "/flows/"), ('/a "b"', "/a%20%22b%22/")):
        text = (await opened(api_with(ConsolePages(("token",), folder), root), "/executions")).body.decode()
        assert f'<base href="{base}">' in text and text.count("<base") == 1 and '<meta name="sign-in" content="token">' in text


async def test_paths_below_the_root_path_are_answered_with_it_and_without_it(folder: Path) -> None:
    api = api_with(ConsolePages(folder=folder), "/flows")
    for path in ("/flows", "/flows/", "/flows/executions", "/executions", "/flows/assets/page-1a2b.js", "/assets/page-1a2b.js"):
        assert (await opened(api, path)).status == 200, path


async def test_what_does_not_accept_html_and_what_is_no_view_is_answered_as_by_an_api(api: Api) -> None:
    for path, accept in (("/executions", "*/*"), ("/", "application/json"), ("/nothing", BROWSER), ("/api/nothing", BROWSER), ("/api/workflows/x/y", BROWSER)):
        answer = await api("GET", path, accept=accept)
        assert (answer.status, answer.headers["content-type"], answer.json["code"]) == (404, "application/problem+json", "not_found"), path
    assert (await api("POST", "/executions", accept=BROWSER)).status == 404
    assert (await opened(api, "/api/executions")).json["items"] == []
    assert (await opened(api, "/openapi.json")).json["openapi"]
    assert "This link can" in (await opened(api, "/approvals/link/x")).body.decode(), "the page of a signed link is no view"


async def test_a_file_with_a_hash_in_its_name_is_kept_for_ever_and_others_are_asked_for(api: Api) -> None:
    script = await api("GET", "/assets/page-1a2b.js")
    assert script.body.decode() == SCRIPT and script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    for name, kind in (("icon.svg", "image/svg+xml"), ("LICENSES.txt", "text/plain; charset=utf-8")):
        answer = await api("GET", f"/{name}")
        assert (answer.status, answer.headers["content-type"], answer.headers["cache-control"]) == (200, kind, "no-cache")


async def test_a_file_that_the_browser_has_is_not_sent_again(api: Api) -> None:
    tags = set[str]()
    for coding in ("", "gzip"):
        tag = (await api("GET", "/assets/page-1a2b.js", accept_encoding=coding)).headers["etag"]
        again = await api("GET", "/assets/page-1a2b.js", accept_encoding=coding, if_none_match=f'"other", W/{tag}')
        assert (again.status, again.body, again.headers["etag"], again.headers["vary"]) == (304, b"", tag, "accept-encoding")
        assert (await api("GET", "/assets/page-1a2b.js", accept_encoding=coding, if_none_match='"other"')).status == 200
        tags.add(tag)
    assert len(tags) == 2, "what is compressed is another content"


async def test_text_is_compressed_for_those_who_take_it(api: Api) -> None:
    answer = await api("GET", "/assets/page-1a2b.js", accept_encoding="br, gzip;q=0.8")
    assert answer.headers["content-encoding"] == "gzip" and gzip.decompress(answer.body).decode() == SCRIPT
    assert int(answer.headers["content-length"]) == len(answer.body) < len(SCRIPT) / 5 and answer.headers["vary"] == "accept-encoding"
    for name in ("assets/letters-3c4d.woff2", "icon.svg"):
        assert "content-encoding" not in (await api("GET", f"/{name}", accept_encoding="gzip")).headers, "letters are compressed already; the icon is small"


@pytest.mark.parametrize(
    ("header", "takes"), [("", False), ("gzip", True), ("br;q=1, GZIP ;q=0.5", True), ("gzip;q=0", False), ("gzip; q=0.000", False), ("br, deflate", False)]
)
def test_a_client_takes_gzip_unless_it_says_otherwise(header: str, takes: bool) -> None:
    assert accepts_gzip(header) is takes


@pytest.mark.parametrize("path", ["/assets/other.js", "/assets/", "/index.html", "/assets/../index.html", "/..%2Findex.html", "/assets/%2e%2e/icon.svg"])
async def test_only_files_of_the_build_are_answered(api: Api, path: str) -> None:
    answer = await api("GET", path)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json"), answer


async def test_a_file_that_came_after_the_start_is_not_answered(api: Api, folder: Path) -> None:
    (folder / "assets/late.js").write_text("1")
    assert (await api("GET", "/assets/late.js")).status == 404


async def test_without_a_build_the_page_says_what_to_do_and_the_rest_works(tmp_path: Path) -> None:
    api = api_with(ConsolePages(folder=tmp_path / "none"), "/flows")
    answer = await opened(api, "/executions/order/o-17")
    text = answer.body.decode()
    assert answer.status == 404 and "<h1>The console is not built</h1>" in text and "make console" in text and 'href="/flows/openapi.json"' in text
    assert (await opened(api, "/api/executions")).status == 200
    assert (await opened(api, "/assets/page.js")).status == 404


async def test_without_a_console_there_are_no_pages_and_the_sign_in_leads_to_itself(tmp_path: Path) -> None:
    assert (await opened(api_with(None), "/executions")).status == 404
    async with service_in_process(tmp_path, ServiceSettings(console=False)) as service:
        assert (await opened(service, "/")).status == 404
        browser = Browser(service)
        answer = await browser("POST", "/login", form={"key": await service.key("viewer")})
        assert (answer.status, answer.headers["location"]) == (303, "/login")
        assert "console" not in (await browser("GET", "/login")).body.decode()


async def test_a_service_has_a_console_to_which_the_sign_in_leads(tmp_path: Path) -> None:
    async with service_in_process(tmp_path, ServiceSettings(root_path="/flows")) as service:
        browser = Browser(service)
        key = await service.key("viewer")
        assert (await browser("POST", "/login", form={"key": key})).headers["location"] == "/flows/"
        to = "/executions?status=failed"
        assert (await browser("POST", "/login", form={"key": key, "next": to})).headers["location"] == f"/flows{to}"
        assert '<a href="/flows/">Open the console</a>' in (await browser("GET", "/login")).body.decode()
        assert b"<html" in (await opened(service, "/flows/")).body
