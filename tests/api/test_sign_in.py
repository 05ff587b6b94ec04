"""Claims about the sign-in of browsers: by a key and by an issuer, what their cookies are, going on in another tenant, and signing out."""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest

from perdure.api.service_api import ServiceSettings, read_oidc_settings
from perdure.api.sign_in import ATTEMPT_COOKIE
from perdure.core.errors import BadValue
from perdure.service import oidc_sign_in
from perdure.service.audit import AuditFilter, list_entries
from perdure.service.oidc import GroupGrant, OidcSettings
from perdure.service.sessions import COOKIE
from tests.api.service_setup import HOST, Browser, Service, service_in_process
from tests.service.loopback_issuer import CLIENT_ID, CLIENT_SECRET, LoopbackIssuer, loopback_issuer


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with service_in_process(tmp_path, ServiceSettings(root_path="/flows")) as service:
        yield service


async def test_a_person_signs_in_with_a_key_by_the_form_and_out_again(service: Service) -> None:
    browser = Browser(service)
    page = await browser("GET", "/login?next=/api/executions")
    assert page.status == 200 and '<form method="post" action="/flows/login">' in page.body.decode() and 'value="/api/executions"' in page.body.decode()
    assert "style-src 'sha256-" in page.headers["content-security-policy"] and "form-action 'self'" in page.headers["content-security-policy"]
    key = await service.key("operator", "viewer")
    answer = await browser("POST", "/login", form={"key": f" {key}\n", "next": "/api/executions"})
    assert (answer.status, answer.headers["location"]) == (303, "/flows/api/executions")
    (cookie,) = answer.cookies
    assert cookie.startswith(f"{COOKIE}=prs_") and cookie.endswith("; HttpOnly; Secure; SameSite=Lax") and "Path=/;" in cookie
    assert (await browser("GET", "/api/executions")).status == 200
    shown = (await browser("GET", "/login")).body.decode()
    assert f"<b>key:{key[4:12]}</b>" in shown and "operator, viewer" in shown
    csrf = shown.partition('name="csrf" value="')[2].partition('"')[0]
    token = browser.cookies[COOKIE]
    assert (await browser("POST", "/logout", form={"csrf": "wrong"})).status == 401
    ended = await browser("POST", "/logout", form={"csrf": csrf})
    assert (ended.status, ended.headers["location"]) == (303, "/flows/login") and not browser.cookies
    browser.cookies[COOKIE] = token
    assert (await browser("GET", "/api/executions")).status == 401
    assert "<form" in (await browser("GET", "/login")).body.decode(), "who has an ended session may sign in again"
    operations = [one.entry.operation for one in (await list_entries(service.store, "default", AuditFilter(subject=f"key:{key[4:12]}"))).items]
    assert operations == ["session.end", "session.open"]


async def test_a_program_signs_in_and_out_with_json(service: Service) -> None:
    browser = Browser(service)
    key = await service.key("viewer", tenant="acme", valid_s=3600)
    answer = await browser("POST", "/login", {"key": key})
    assert answer.status == 200 and answer.json == (await browser("GET", "/api/session")).json
    said = answer.json
    assert (said["subject"], said["tenant"], said["roles"], said["tenants"]) == (f"key:{key[4:12]}", "acme", ["viewer"], ["acme"])
    assert said["expiresAt"].endswith("Z") and browser.cookies[COOKIE] not in answer.body.decode()
    assert (await browser("POST", "/logout", x_csrf_token=said["csrf"])).status == 204 and not browser.cookies
    assert (await browser("GET", "/api/session")).status == 401


@pytest.mark.parametrize("form", [True, False])
async def test_a_wrong_key_opens_nothing(service: Service, form: bool) -> None:
    browser, wrong = Browser(service), f"prd_AAAAAAAA_{'x' * 43}"
    answer = await browser("POST", "/login", form={"key": wrong}) if form else await browser("POST", "/login", {"key": wrong})
    assert answer.status == 401 and COOKIE not in browser.cookies and "not known here" in answer.body.decode()
    assert wrong not in answer.body.decode()


@pytest.mark.parametrize("page", ["https://evil.example", "null", "http://["])
async def test_a_page_of_another_origin_signs_nobody_in(service: Service, page: str) -> None:
    answer = await Browser(service, page)("POST", "/login", form={"key": await service.key("admin")})
    assert (answer.status, answer.json["code"]) == (403, "wrong_origin")


@pytest.mark.parametrize("next", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/a\r\nset-cookie: x=1", ""])
async def test_after_the_sign_in_a_browser_stays_here(service: Service, next: str) -> None:
    answer = await Browser(service)("POST", "/login", form={"key": await service.key("viewer"), "next": next})
    assert (answer.status, answer.headers["location"]) == (303, "/flows/")


@pytest.mark.parametrize(
    ("next", "location"),
    [("/executions/größe ab?q=%C3%A9&x=ü#é", "/executions/gr%C3%B6%C3%9Fe%20ab?q=%C3%A9&x=%C3%BC#%C3%A9"), ("/a%2Fb?c=1,2", "/a%2Fb?c=1,2")],
)
async def test_a_location_has_what_no_url_may_have_in_percent(service: Service, next: str, location: str) -> None:
    raw = urlencode({"key": await service.key("viewer"), "next": next})
    answer = await service("POST", "/login", raw=raw, content_type="application/x-www-form-urlencoded")
    assert (answer.status, answer.headers["location"]) == (303, f"/flows{location}")


async def test_text_of_others_is_escaped_in_pages(service: Service) -> None:
    shown = (await Browser(service)("GET", "/login?next=/%22%3E%3Cscript%3E")).body.decode()
    assert "<script>" not in shown and "/&quot;&gt;&lt;script&gt;" in shown


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/login"), ("GET", "/logout"), ("POST", "/api/session"), ("GET", "/api/session/tenant")])
async def test_other_methods_are_refused(service: Service, method: str, path: str) -> None:
    answer = await service(method, path)
    assert answer.status == 405 and answer.headers["allow"]


async def test_the_document_has_the_routes_of_the_sign_in_and_what_they_answer(service: Service, joined: Service) -> None:
    alone, with_issuer = [(await one("GET", "/openapi.json")).json for one in (service, joined)]
    routes = {"/login": {"get", "post"}, "/logout": {"post"}, "/api/session": {"get"}, "/api/session/tenant": {"post"}}
    to_issuer = {"/login/oidc": {"get"}, "/login/callback": {"get"}}
    documented = [{path: set(methods) for path, methods in one["paths"].items() if path in {**routes, **to_issuer}} for one in (alone, with_issuer)]
    assert documented == [routes, {**routes, **to_issuer}]
    browser = Browser(service)
    opened = await browser("POST", "/login", {"key": await service.key("viewer")})
    shown = await browser("GET", "/api/session")
    for answer, described in ((opened, alone["paths"]["/login"]["post"]), (shown, alone["paths"]["/api/session"]["get"])):
        schema = described["responses"]["200"]["content"]["application/json"]["schema"]
        assert answer.json.keys() == schema["properties"].keys() == set(schema["required"])
    assert alone["components"]["securitySchemes"]["session"]["name"] == COOKIE and alone["paths"]["/login"]["post"]["security"] == []
    assert (
        str((await browser("POST", "/api/session/tenant", {"tenant": "none"}, x_csrf_token=shown.json["csrf"])).status)
        in (alone["paths"]["/api/session/tenant"]["post"]["responses"])
    )


async def test_without_an_issuer_there_is_no_way_to_one(service: Service) -> None:
    assert (await service("GET", "/login/oidc")).status == 404
    assert "/login/oidc" not in (await service("GET", "/login")).body.decode()


# By an issuer


@pytest.fixture
def issuer() -> Iterator[LoopbackIssuer]:
    with loopback_issuer() as issuer:
        issuer.redirect_uri = f"https://{HOST}/login/callback"
        issuer.identity |= {"iat": time.time(), "exp": time.time() + 300}
        yield issuer


@pytest.fixture
async def joined(issuer: LoopbackIssuer, tmp_path: Path) -> AsyncIterator[Service]:
    grants = (GroupGrant("ops", ("operator", "viewer")), GroupGrant("ops", ("viewer",), "acme"), GroupGrant("none", ("admin",), "other"))
    settings = OidcSettings(issuer=issuer.url, audiences=(CLIENT_ID,), client_id=CLIENT_ID, grants=grants)
    async with service_in_process(tmp_path, ServiceSettings(oidc=settings, client_secret=CLIENT_SECRET)) as service:
        yield service


async def sent_to(url: str) -> str:
    """Where the issuer sends a browser that comes with this URL."""
    async with httpx2.AsyncClient() as client:
        return str((await client.get(url)).headers["location"])


async def signed_in(browser: Browser, next: str = "") -> None:
    """Signs in at the issuer, and comes back."""
    begun = await browser("GET", f"/login/oidc{next and f'?next={next}'}")
    assert begun.status == 303 and ATTEMPT_COOKIE in browser.cookies
    back = urlsplit(await sent_to(begun.headers["location"]))
    ended = await browser("GET", f"{back.path}?{back.query}")
    assert (ended.status, ended.headers["location"]) == (303, next or "/"), ended.body
    assert ATTEMPT_COOKIE not in browser.cookies and COOKIE in browser.cookies


@pytest.mark.slow
async def test_a_person_signs_in_at_the_issuer_and_goes_on_in_another_tenant(joined: Service) -> None:
    browser = Browser(joined)
    assert 'href="/login/oidc?next=%2F"' in (await browser("GET", "/login")).body.decode()
    await signed_in(browser, "/api/whoami")
    first = (await browser("GET", "/api/session")).json
    assert (first["subject"], first["tenant"], first["roles"], first["groups"]) == ("oidc:ada@example.com", "default", ["operator", "viewer"], ["ops"])
    assert first["tenants"] == ["acme", "default"]
    token = browser.cookies[COOKIE]
    assert (await browser("POST", "/api/session/tenant", {"tenant": "acme"})).status == 401, "it needs the CSRF token"
    assert (await browser("POST", "/api/session/tenant", {"tenant": "other"}, x_csrf_token=first["csrf"])).status == 403
    second = (await browser("POST", "/api/session/tenant", {"tenant": "acme"}, x_csrf_token=first["csrf"])).json
    assert (second["tenant"], second["roles"], second["tenants"]) == ("acme", ["viewer"], ["acme", "default"]) and second["csrf"] != first["csrf"]
    assert (await browser("GET", "/api/whoami")).json["tenantName"] == "acme"
    browser.cookies[COOKIE] = token
    assert (await browser("GET", "/api/whoami")).status == 401, "the former session has ended"


@pytest.mark.slow
@pytest.mark.parametrize("filters", ["x" * 6_000, "%C3%BC" * 1_000, "x" * 1_900])
async def test_a_browser_signs_in_from_a_page_with_a_long_address(joined: Service, filters: str) -> None:
    begun = await Browser(joined)("GET", f"/login/oidc?next=/executions?where={filters}")
    assert len(begun.cookies[0]) <= 4_096, "browsers drop a longer cookie"
    is_kept = oidc_sign_in.parse_attempt(cookie_value(begun.cookies[0])).return_to != "/"
    assert is_kept == (len(filters) < 2_000)


def cookie_value(header: str) -> str:
    """The value in a header Set-Cookie."""
    return header.partition("=")[2].partition(";")[0]


@pytest.mark.slow
async def test_a_program_sends_a_token_of_the_issuer_and_may_name_a_tenant(joined: Service, issuer: LoopbackIssuer) -> None:
    token = issuer.token()
    assert (await joined.by(token, "GET", "/api/whoami")).json["tenantName"] == "default"
    assert (await joined.by(token, "GET", "/api/whoami", x_perdure_tenant="acme")).json["roles"] == ["viewer"]
    assert (await joined.by(token, "GET", "/api/whoami", x_perdure_tenant="other")).status == 403
    assert (await joined.by(issuer.token(aud="another"), "GET", "/api/whoami")).status == 401
    assert (await joined.by(await joined.key("viewer"), "GET", "/api/whoami")).status == 200, "keys are for programs all the same"


async def test_an_issuer_of_this_machine_is_asked_without_the_proxy_of_the_environment(
    issuer: LoopbackIssuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    settings = OidcSettings(issuer=issuer.url, audiences=(CLIENT_ID,), client_id=CLIENT_ID, grants=(GroupGrant("ops", ("viewer",)),))
    async with service_in_process(tmp_path, ServiceSettings(oidc=settings)) as service:
        assert (await service.by(issuer.token(), "GET", "/api/whoami")).status == 200


@pytest.mark.slow
async def test_a_sign_in_that_fails_shows_why_and_opens_nothing(joined: Service, issuer: LoopbackIssuer) -> None:
    browser = Browser(joined)
    without = await browser("GET", "/login/callback?code=c&state=s")
    assert without.status == 401 and "has not begun to sign in" in without.body.decode()
    begun = await browser("GET", "/login/oidc")
    query = dict(parse_qsl(urlsplit(await sent_to(begun.headers["location"])).query))
    attempt = browser.cookies[ATTEMPT_COOKIE]
    for changed, status, why in (
        ({"state": "x"}, 401, "another page"),
        ({"error": "access_denied"}, 401, "access_denied"),
        ({"code": "x"}, 401, "the code is not"),
    ):
        browser.cookies[ATTEMPT_COOKIE] = attempt
        answer = await browser("GET", f"/login/callback?{'&'.join(f'{name}={value}' for name, value in {**query, **changed}.items())}")
        assert answer.status == status and why in answer.body.decode() and COOKIE not in browser.cookies
    issuer.identity["groups"] = ["others"]
    begun = await browser("GET", "/login/oidc")
    back = urlsplit(await sent_to(begun.headers["location"]))
    answer = await browser("GET", f"{back.path}?{back.query}")
    assert answer.status == 403 and "needs the role" in answer.body.decode() and COOKIE not in browser.cookies


@pytest.mark.slow
async def test_while_the_issuer_does_not_answer_the_page_says_so(joined: Service, issuer: LoopbackIssuer) -> None:
    issuer.status = 500
    answer = await Browser(joined)("GET", "/login/oidc")
    assert answer.status == 503 and "HTTP 500" in answer.body.decode() and "<form" in answer.body.decode()


# Settings


def test_settings_of_an_issuer_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "oidc.toml"
    file.write_text('issuer = "https://login.example.com"\naudiences = ["perdure"]\n[[grants]]\ngroup = "ops"\nroles = ["operator"]\ntenant = "acme"\n')
    assert read_oidc_settings(file).grants == (GroupGrant("ops", ("operator",), "acme"),)
    for text, why in (
        ("issuer = ", "TOML"),
        ('issuer = "https://a"', "audiences"),
        (file.read_text() + 'more = "x"', "more"),
        (file.read_text().replace("operator", "root"), "root"),
    ):
        file.write_text(text)
        with pytest.raises(BadValue, match=why):
            read_oidc_settings(file)
    with pytest.raises(BadValue, match="No such file"):
        read_oidc_settings(tmp_path / "none.toml")
