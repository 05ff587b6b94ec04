"""The page of a signed link: it shows and never decides by itself, decides once for whom may, and leaves its token nowhere."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

import pytest

from perdure import App, Context, LinkRefused, workflow
from perdure.api import approval_link_page
from perdure.api.approval_form import form_fields, form_html, read_form
from perdure.api.approval_link_page import ROUTE
from perdure.api.service_api import ServiceApi, ServiceSettings
from perdure.core.errors import BadValue, StoreUnavailable
from perdure.observe.log_setup import ACCESS_LOGGER
from perdure.service.people.signed_links import ApprovalLink, decide_by_link, sign_link
from perdure.service.service_clock import ServiceClock
from perdure.stores.protocol import StoreTime
from perdure.sync_client import AsyncClient
from tests.api.api_setup import Answer
from tests.api.service_setup import Service

OLD, NEW = "the secret of last year", "the secret of this year"
PUBLIC = "https://flows.example.com/perdure"


@dataclass
class Shipping:
    carrier: Literal["dhl", "ups"]
    cents: int
    insured: bool = False
    note: str | None = None


@workflow
async def asks(ctx: Context, title: str, assignees: list[str], quorum: int = 1) -> list[Any]:
    details = {"order": "<b>17</b>", "cents": 4900}
    found = await ctx.approve(title, form=Shipping, details=details, assignees=assignees, quorum=quorum)
    value = found.value
    return [found.approved, [value.carrier, value.cents, value.insured, value.note] if found else None, found.by, found.comment, found.means]


class Links:
    """A service with links, and its client."""

    def __init__(self, service: Service, client: AsyncClient) -> None:
        self.service, self.client = service, client

    async def ask(self, id: str, assignees: list[str], quorum: int = 1, title: str = "Ship <it>?") -> Any:
        handle = await self.client.start(asks.with_(id=id), title, assignees, quorum)
        async with asyncio.timeout(10):
            while not [one for one in await self.client.approvals() if one.requested_by is not None and one.requested_by.id == id]:
                await asyncio.sleep(0.005)
        return handle

    async def link(self, id: str, by: str, approve: bool | None = None, secret: str = NEW, lifetime: Any = "1d") -> str:
        return "/approvals/link/" + await self.client.approval_link(id, by=by, approve=approve, secret=secret, lifetime=lifetime)

    async def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        return await self.service(method, path, **headers)

    async def send(self, path: str, form: Mapping[str, str], **headers: str) -> Answer:
        return await self.service("POST", path, raw=urlencode(form), content_type="application/x-www-form-urlencoded", **headers)

    async def decide(self, path: str, answer: str = "approve", **fields: str) -> Answer:
        return await self.send(path, {"nonce": nonce(await self.get(path)), "answer": answer, **fields})


def nonce(page: Answer) -> str:
    found = re.search(r'name="nonce" value="([^"]+)"', page.body.decode())
    assert found is not None, page
    return found[1]


@asynccontextmanager
async def served(directory: Path, secrets: str = f"{NEW}\n{OLD}", **settings: Any) -> AsyncIterator[Links]:
    async with App([asks], db=f"sqlite:///{directory}/links.db") as app:
        service = ServiceApi(app.client.access, ServiceSettings(secret=secrets.encode(), **settings))
        running = asyncio.create_task(service.run())
        try:
            async with AsyncClient(app.client.access.store) as client:
                yield Links(Service(service), client)
        finally:
            running.cancel()
            _ = await asyncio.gather(running, return_exceptions=True)


async def test_the_page_shows_the_question_and_reading_it_decides_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as links:
        handle = await links.ask("e", ["ada"])
        path = await links.link("e", "ada")
        for method in ("GET", "HEAD", "GET"):
            page = await links.get(path, method, purpose="prefetch")
            assert page.status == 200 and (method == "HEAD") == (page.body == b"")
        text = page.body.decode()
        assert "Ship &lt;it&gt;?" in text and "&lt;b&gt;17&lt;/b&gt;" in text and "<script" not in text and "<b>ada</b>" in text
        assert 'value="approve"' in text and 'value="reject"' in text and "carrier" in text
        named = {name: page.headers[name] for name in ("referrer-policy", "cache-control", "content-security-policy", "content-type")}
        assert named["referrer-policy"] == "no-referrer" and named["cache-control"] == "no-store" and named["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in named["content-security-policy"] and "frame-ancestors 'none'" in named["content-security-policy"]
        assert (await links.client.approval("e")).votes == () and (await handle.status()).status == "waiting_approval"


async def test_the_form_decides_once_in_the_name_of_its_person(tmp_path: Path) -> None:
    async with served(tmp_path) as links:
        handle = await links.ask("e", ["ada"])
        path = await links.link("e", "ada")
        done = await links.decide(path, f0="1", f1="700", f2="on", comment="by mail")
        assert done.status == 200 and b"Thank you" in done.body, done
        assert await handle.result() == [True, ["ups", 700, True, None], "ada", "by mail", "link"]
        for answer in (await links.get(path), await links.send(path, {"answer": "reject"})):
            assert answer.status == 410 and b"approved by ada" in answer.body


async def test_a_wrong_form_comes_back_with_what_was_sent_and_changes_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as links:
        handle = await links.ask("e", ["ada"])
        path = await links.link("e", "ada")
        fields = {"f0": "1", "f1": "700", "comment": "<i>mine</i>"}
        for wrong, place in (({"f1": "many"}, "cents"), ({"f1": ""}, "cents"), ({"f0": "7"}, "carrier"), ({"f0": "", "f1": "1"}, "carrier")):
            page = await links.decide(path, **{**fields, **wrong})
            assert page.status == 422 and place in page.body.decode() and "&lt;i&gt;mine&lt;/i&gt;" in page.body.decode(), (wrong, page)
        for forged in ("", "x.y", nonce(await links.get(await links.link("e", "ada", lifetime="2d")))):
            assert (await links.send(path, {**fields, "nonce": forged, "answer": "approve"})).status == 403
        assert (await links.decide(path, "perhaps", **fields)).status == 422
        assert (await links.service("POST", path, {"answer": "approve"})).status == 415
        assert (await links.service("POST", path, raw=b"\xff", content_type="application/x-www-form-urlencoded")).status == 400
        assert (await links.service("PUT", path)).status == 405
        assert (await links.client.approval("e")).votes == ()
        assert (await links.decide(path, "reject")).status == 200 and (await handle.result())[0] is False


async def test_a_form_that_was_open_for_too_long_by_the_time_of_the_store_is_to_be_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as links:
        await links.ask("e", ["ada"])
        path, time_of = await links.link("e", "ada"), links.service.store.store_time
        old = nonce(await links.get(path))

        async def later() -> StoreTime:
            found = await time_of()
            return StoreTime(found.now_s + 3_700, found.epoch)

        monkeypatch.setattr(links.service.store, "store_time", later)
        links.service.app.access.clock = ServiceClock(links.service.store)  # as in another process
        again = await links.send(path, {"nonce": old, "answer": "reject"})
        assert again.status == 403 and b"open for too long" in again.body
        assert (await links.send(path, {"nonce": nonce(again), "answer": "reject"})).status == 200


async def test_an_answer_is_said_to_be_recorded_only_if_the_store_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: Any) -> None:
        await asyncio.sleep(60)

    async def unconfirmed(*arguments: Any) -> None:
        await decide_by_link(*arguments)
        await asyncio.sleep(60)

    async def unavailable(*_: Any) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(approval_link_page, "ACCEPTED_S", 0.5)
    async with served(tmp_path) as links:
        await links.ask("e", ["ada", "bob"], quorum=2)
        path = await links.link("e", "ada")
        for decide in (lost, unavailable):
            monkeypatch.setattr(approval_link_page, "decide_by_link", decide)
            answer = await links.decide(path, "reject")
            assert answer.status == 503 and b"may not have arrived" in answer.body and b"Open the link again" in answer.body
        monkeypatch.setattr(approval_link_page, "decide_by_link", unconfirmed)
        answer = await links.decide(path, f0="1", f1="700")
        assert answer.status == 202 and b"Your answer is recorded" in answer.body
        assert (await links.get(path)).status == 410, "the link shows that its person has answered"


async def test_a_link_offers_the_answer_that_it_was_made_for(tmp_path: Path) -> None:
    async with served(tmp_path) as links:
        handle = await links.ask("e", ["ada"])
        path = await links.link("e", "ada", approve=False)
        page = await links.get(path)
        assert b'value="approve"' not in page.body and b"carrier" not in page.body
        assert (await links.decide(path, "approve", f0="1", f1="1")).status == 422
        with pytest.raises(LinkRefused, match="to reject alone"):
            await links.client.decide_by_link(path, approve=True, secret=NEW)
        assert (await links.decide(path, "reject", comment="no")).status == 200
        assert (await handle.result())[2:4] == ["ada", "no"]


async def test_who_may_not_decide_any_more_can_not_by_a_link_either(tmp_path: Path) -> None:
    async with served(tmp_path) as links:
        await links.ask("e", ["ada", "group:ops"], 2)
        one = await links.client.approval("e")
        ada, member, stranger = await links.link("e", "ada"), await links.link("e", "eve"), await links.link("e", "carl")
        begin = datetime.now(UTC) - timedelta(hours=1)
        await links.client.people.save_person("eve", out_from=begin, substitute="dora")
        assert (refused := await links.get(member)).status == 403 and b"out of office" in refused.body
        assert (await links.send(member, {"answer": "approve"})).status == 403
        await links.client.people.save_person("eve")
        assert (await links.get(member)).status == 200
        await links.client.people.delegate(one, "bob", by="ada")
        assert (refused := await links.get(ada)).status == 403 and b"delegated the decision to bob" in refused.body
        with pytest.raises(LinkRefused, match="delegated"):
            await links.client.decide_by_link(ada, approve=True, secret=NEW)
        assert (await links.decide(stranger, f0="0", f1="1")).status == 200, "who makes a link vouches for the groups of its person"
        assert (used := await links.get(stranger)).status == 410 and b"carl has decided already" in used.body


async def test_secrets_are_replaced_without_breaking_links(tmp_path: Path) -> None:
    async with served(tmp_path) as links:
        await links.ask("e", ["ada"])
        assert (await links.get(await links.link("e", "ada", secret=OLD))).status == 200
        assert (await links.get(await links.link("e", "ada", secret=NEW))).status == 200
        assert (await links.get(await links.link("e", "ada", secret="the secret of another deployment"))).status == 403
    (tmp_path / "other").mkdir()
    async with served(tmp_path / "other", secrets="") as links:
        await links.ask("e", ["ada"])
        assert (await links.get(await links.link("e", "ada"))).status == 403, "without a secret there are no links"


async def test_a_server_that_knows_its_address_makes_urls(tmp_path: Path) -> None:
    async with served(tmp_path, public_url=PUBLIC) as links:
        await links.ask("e", ["ada"])
        one, key = await links.client.approval("e"), await links.service.key("admin")
        from urllib.parse import quote

        made = await links.service.by(key, "POST", f"/api/approvals/{quote(one.id, safe='')}/links", {"by": "ada", "approve": None, "lifetimeSeconds": 60})
        url = made.json["value"]
        assert url.startswith(f"{PUBLIC}/approvals/link/")
        assert (await links.get(url.removeprefix(PUBLIC))).status == 200
        await links.client.decide_by_link(url, approve=False, secret=NEW)


@pytest.mark.parametrize("token", ["x", ".", "a.b", "é", "x" * 20_000, "%2e%2e%2fetc", "AAAA.AAAA"])
async def test_what_is_no_link_is_refused(tmp_path: Path, token: str) -> None:
    from urllib.parse import quote

    async with served(tmp_path) as links:
        path = f"/approvals/link/{quote(token, safe='%')}"
        for answer in (await links.get(path), await links.send(path, {"answer": "approve"})):
            assert answer.status == 403 and b"link" in answer.body


async def test_a_link_to_nothing_and_one_that_has_expired_say_so(tmp_path: Path) -> None:
    async with served(tmp_path) as links:
        await links.ask("e", ["ada"])
        one = await links.client.approval("e")
        gone = sign_link(NEW.encode(), ApprovalLink(one.key._replace(id="none"), "ada", True, 1e12, ()))
        assert (await links.get(f"/approvals/link/{gone}")).status == 410
        expired = sign_link(NEW.encode(), ApprovalLink(one.key, "ada", True, 1.0, ()))
        assert b"has expired" in (answer := await links.get(f"/approvals/link/{expired}")).body and answer.status == 403


async def test_the_token_is_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, ACCESS_LOGGER)
    async with served(tmp_path) as links:
        await links.ask("e", ["ada"])
        path = await links.link("e", "ada")
        _ = await links.get(path), await links.decide(path, "reject"), await links.get(path[:-3])
    token = path.rpartition("/")[2]
    assert any(getattr(record, "route", "") == ROUTE for record in caplog.records)
    assert not any(part in record.getMessage() + str(record.__dict__) for record in caplog.records for part in (token, token[:40]))


async def test_an_address_that_asks_too_often_has_to_wait(tmp_path: Path) -> None:
    async with served(tmp_path, rate_per_s=1.0) as links:
        answers = [(await links.get("/approvals/link/x")).status for _ in range(5)]
        assert answers[0] == 403 and answers[-1] == 429


# Forms


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": "as in <the> book"},
        "long": {"type": "string", "maxLength": 2_000},
        "day": {"type": "string", "format": "date"},
        "count": {"type": "integer", "default": 3},
        "share": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "sure": {"type": "boolean"},
        "way": {"enum": ["air", 7, None]},
        "of": {"$ref": "#/$defs/Place"},
        "list": {"type": "array"},
    },
    "required": ["name", "count"],
    "$defs": {"Place": {"type": "object"}},
}


def test_a_form_has_a_field_of_each_simple_type_and_json_for_the_others() -> None:
    kinds = {field.name: field.kind for field in form_fields(FORM)}
    assert kinds == {
        "name": "text",
        "long": "text",
        "day": "text",
        "count": "integer",
        "share": "number",
        "sure": "boolean",
        "way": "choice",
        "of": "json",
        "list": "json",
    }
    html = form_html(form_fields(FORM), {"f0": '"><script>'})
    assert "&quot;&gt;&lt;script&gt;" in html and "<script" not in html and "as in &lt;the&gt; book" in html and 'type="date"' in html and 'value="3"' in html


def test_what_a_browser_sends_is_read_as_the_form_means_it() -> None:
    sent = {"f0": "Ada", "f1": "a\r\nb", "f2": "2026-01-31", "f3": "12", "f4": "1.5", "f5": "on", "f6": "1", "f7": '{"a": 1}', "f8": "[1]"}
    read = read_form(form_fields(FORM), sent)
    assert read == {"name": "Ada", "long": "a\nb", "day": "2026-01-31", "count": 12, "share": 1.5, "sure": True, "way": 7, "of": {"a": 1}, "list": [1]}
    assert read_form(form_fields(FORM), {"f3": "1"}) == {"name": "", "count": 1, "sure": False}
    assert read_form(form_fields({"type": "integer"}), {"f0": "7"}) == 7 and read_form([], {"f0": "7"}) is None


@pytest.mark.parametrize(("number", "text"), [(3, "1.5"), (3, "x"), (4, "1e"), (6, "9"), (6, "-1000"), (7, "{"), (8, "[" * 100_000)])
def test_what_is_no_value_of_its_field_is_refused_with_its_place(number: int, text: str) -> None:
    fields = form_fields(FORM)
    with pytest.raises(BadValue) as refused:
        read_form(fields, {f"f{number}": text})
    assert refused.value.where == f"/value/{fields[number].name}"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({}, [("", "json")]),
        ({"type": "object"}, [("", "json")]),
        ({"properties": 3}, [("", "json")]),
        ({"$ref": "#/$defs/x"}, [("", "json")]),
        ({"type": "object", "properties": {"a": {"type": ["string"]}}}, [("a", "json")]),
    ],
)
def test_any_form_has_fields_on_the_page(form: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    fields = form_fields(form)
    assert [(one.name, one.kind) for one in fields] == expected
    assert 'name="f0"' in form_html(fields, {})


async def test_an_answer_over_http_says_where_in_the_form_the_mistake_is(tmp_path: Path) -> None:
    from urllib.parse import quote

    async with served(tmp_path) as links:
        await links.ask("e", ["ada"])
        one, key = await links.client.approval("e"), await links.service.key("approver")
        body = {"by": "ada", "approve": True, "value": {"carrier": "dhl", "cents": "many"}}
        answer = await links.service.by(key, "POST", f"/api/approvals/{quote(one.id, safe='')}/decide", body)
        assert answer.status == 422 and answer.json["where"] == "/value/cents", answer
        answer = await links.service.by(key, "POST", f"/api/approvals/{quote(one.id, safe='')}/decide", {**body, "value": {"carrier": "dhl"}})
        assert answer.status == 422 and answer.json["where"] == "/value", answer
