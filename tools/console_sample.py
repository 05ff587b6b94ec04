"""Serves the console on a sample database: a shop with executions in every status, approvals, dead letters, triggers, deliveries, proposals, people and keys.

    python -m tools.console_sample                        # fills a new database, serves it, and prints the URL that signs in
    python -m tools.console_sample --port 7799            # at this port
    python -m tools.console_sample --directory /tmp/shop  # keeps the database there; filled only if it is not there yet
    python -m tools.console_sample --busy 2               # and starts so many orders a second, for what changes live
    python -m tools.console_sample --rows 1000            # so many tasks in the largest execution

A page that is built while it serves is served from then on, so it need not be started again.
"""

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from examples import claim_tools, payment_tools, sales_tools, triage_tools
from perdure import App, AsyncClient, Deployment, Policy
from perdure.api.api_server import listening_socket, url_of
from perdure.api.console_pages import FOLDER, INDEX, ConsolePages, console_files
from perdure.api.http_requests import ApiAnswer, ApiRequest
from perdure.api.service_api import ServiceApi, ServiceServer, ServiceSettings
from perdure.definitions.kinds.deployment import Allowed
from perdure.fake_llm import Fake, Script, load, models, serving
from perdure.fake_llm.fake_script import parse_script
from perdure.service.access_keys import KeyRequest, create_key
from perdure.service.callers import Role
from perdure.service.notifications.notification_rules import NotificationRule
from perdure.service.triggers.trigger_records import ManualConfig, ScheduleConfig
from tools import sample_recording
from tools import sample_workflows as shop

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
DATABASE = "sample.db"
SECRET = b"a secret for the links of the sample"
STRIPE_SECRET = "whsec_of_the_sample"
REST_S = 60.0
"""How long the sample may take to come to rest."""

PEOPLE: Mapping[str, tuple[Role, ...]] = {
    "root": ("admin",),
    "ada": ("approver", "operator", "viewer"),
    "carl": ("author", "operator", "viewer"),
    "eve": ("viewer",),
}
"""Those who have keys, with their roles."""

DISCOUNTS = """
perdure: 1
name: discounts
description: What regular customers get
allow: {self_edit: true}
input: {cents: {type: integer}, orders: {type: integer, default: 0}}
order: ports
steps:
  - {id: regular, test: {ref: "@input.orders", gte: 10}, next: {"true": large, "false": none}}
  - {id: large, test: {ref: "@input.cents", gt: 50000}, next: {"true": ten, "false": five}}
  - {id: ten, return: {percent: 10}}
  - {id: five, return: {percent: 5}}
  - {id: none, return: {percent: 0}}
"""

REPORT = """
perdure: 1
name: report
description: The numbers of the day, each night
input: {tick: {type: string, default: ""}}
vars: {text: ""}
steps:
  - {id: note, set: {text: "the report of @{input.tick}"}}
output: "@note.text"
triggers:
  - name: nightly
    schedule: {cron: "30 2 * * *", timezone: Europe/Berlin, overlap: skip}
    with: {tick: "@trigger.about.tick"}
"""

PAID = """
perdure: 1
name: paid
description: Books what the bank says is paid
input: {invoice: {type: string}, cents: {type: integer}, kind: {type: string, default: ""}}
vars: {text: ""}
steps:
  - {id: note, set: {text: "@{input.invoice}: @{input.cents} cents"}}
output: "@note.text"
triggers:
  - name: stripe
    webhook:
      path: stripe/paid
      verify: {scheme: stripe, secret: "@secrets.STRIPE_HOOK"}
      map: {invoice: $.data.object.id, cents: $.data.object.amount_paid}
    with: {kind: "@trigger.about.event"}
"""

BILLING = """
perdure: 1
name: billing
description: Writes a bill for each order that is paid
input: {order: {type: string}, cents: {type: integer, default: 0}}
vars: {bill: ""}
steps:
  - {id: write, set: {bill: "@{input.order}: @{input.cents} cents"}}
output: "@vars.bill"
triggers:
  - name: paid
    event: {on: order.paid, of: order, map: {order: $.value.order, cents: $.value.cents}}
"""


WELCOME = """\
perdure: 1
name: welcome
description: Greets whoever signs up
order: listed
input: {name: {type: string}}
steps:
  - {id: text, set: {hello: "Hello @{input.name}"}}
output: "@text.hello"
"""


def writer_script() -> Script:
    """What the scripted model answers when it is to write a definition: a new one with a mistake at first, a change of `discounts`, and no to any fax."""

    def calls(name: str, args: Mapping[str, Any], **when: Any) -> dict[str, Any]:
        answer = {"calls": [{"name": name, "args": args}]}
        return {
            "when": {"system": "You write workflow definitions", **when},
            "answer": answer,
            "usage": {"input": 5200, "output": 180},
            "repeat": True,
            "delay": "1s",
        }

    more = {"find": "{percent: 10}", "with": "{percent: 15}"}
    return parse_script(
        [
            calls("write_definition", {"document": WELCOME.replace("welcome", "fax")}, contains="fax"),
            calls("give_up", {"reason": "There is no tool that sends a fax."}, tool_result="fax"),
            calls("write_definition", {"replace": [more]}, contains="Change the definition 'discounts'"),
            calls("try_definition", {}, tool_result="~ ten"),
            calls("write_definition", {"document": WELCOME.replace("set:", "sett:")}, contains="Write a new definition"),
            calls("write_definition", {"replace": [{"find": "sett:", "with": "set:"}]}, tool_result="sett"),
            calls("try_definition", {"input": {"name": "Ada"}}, tool_result="~ name: added"),
            calls("propose_definition", {"note": "As it was asked for."}, matches="^$"),
        ]
    )


STORY = """\
perdure: 1
name: story
description: Tells what became of an order, word by word
order: listed
input: {order: {type: string}}
steps:
  - {id: tell, agent: {prompt: "Tell the story of order @{input.order}", model: large, stream: true}}
output: "@tell"
"""

STORY_ANSWER = (
    "The order came in at night, when the hall was dark and only the printer was awake. It was for one kettle, two filters and four cups. In the morning "
    "somebody read the slip twice, because the street had no number, and then rang the customer, who laughed: the house is the only one in that street. "
    "So the parcel went out before noon, and the kettle has boiled every day since."
)


def story_script() -> Script:
    """What the scripted model answers to `STORY`, slowly enough to look at it while it comes."""
    return parse_script([{"when": {"contains": "Tell the story of order"}, "answer": STORY_ANSWER, "pace": "0.2s", "repeat": True}])


class Sample(NamedTuple):
    """A sample that is open: its directory, the App on its database, and the service with its API."""

    directory: Path
    app: App
    service: ServiceApi

    async def key(self, name: str) -> str:
        """A new key for one of the `PEOPLE`."""
        made = await create_key(self.app.client.access.store, "default", KeyRequest(name=name, roles=PEOPLE[name]), "local")
        return made.text


class FreshConsole:
    """The console, read again whenever it was built anew."""

    def __init__(self, sign_in: Iterable[str]) -> None:
        self._sign_in = tuple(sign_in)
        self._pages, self._built = ConsolePages(self._sign_in), self._built_at()

    @property
    def documented(self) -> Mapping[str, Any]:
        """No routes."""
        return {}

    async def __call__(self, request: ApiRequest) -> ApiAnswer | None:
        """Answers as the console does."""
        if (built := self._built_at()) != self._built:
            console_files.cache_clear()
            self._pages, self._built = ConsolePages(self._sign_in), built
        return await self._pages(request)

    @staticmethod
    def _built_at() -> float:
        with suppress(FileNotFoundError):
            return (FOLDER / INDEX).stat().st_mtime
        return 0.0


def refund(order: str = "", charge: str = "", cents: int = 0) -> str:
    """Gives back what was paid, as the definitions `triage` and `payment` ask for it."""
    return f"{order or charge}: {cents or 'all'}"


def tools() -> list[Callable[..., Any]]:
    """The tools of the definitions."""
    claim, payment, triage = claim_tools, payment_tools, triage_tools
    of_claims: list[Callable[..., Any]] = [claim.reserve, claim.release, claim.ask_bank, claim.pay]
    of_payments: list[Callable[..., Any]] = [payment.calculate_total, payment.charge, payment.send_mail, payment.tell_crm, payment.ship]
    of_tickets: list[Callable[..., Any]] = [
        triage.read_ticket,
        triage.find_customer,
        triage.find_orders,
        triage.search_articles,
        triage.file_bug,
        triage.answer,
    ]
    return [*of_claims, *of_payments, *of_tickets, sales_tools.read_table, refund]


def sample_app(directory: Path, model_url: str, *, yesterday: bool = False) -> App:
    """The App on the database of the sample, with the code of yesterday or that of today."""
    return App(
        [*(shop.BEFORE if yesterday else shop.NOW), sample_recording.RECORDING],
        tools=tools(),
        queues=[shop.bank, shop.mails],
        db=f"sqlite:///{directory}/{DATABASE}",
        deployment=Deployment(models=models(model_url), work=directory / "work", allowed=Allowed(bash=True)),
        policy=Policy(),
        secrets={"STRIPE_HOOK": STRIPE_SECRET},
        grace="1s",
    )


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Sets variables of the environment, and sets them back at the end."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@asynccontextmanager
async def opened_sample(directory: Path, settings: ServiceSettings | None = None, *, rows: int = 300) -> AsyncIterator[Sample]:
    """A sample in a directory, filled if it is not there yet, with its engine and its API, which is not on a port."""
    is_new = prepared(directory)
    with environment(CLAIM_DIRECTORY=str(directory), PERDURE_SECRET_STRIPE_HOOK=STRIPE_SECRET):
        async with serving(Fake((*writer_script(), *story_script(), *load(EXAMPLES / "triage_script.yaml")))) as model_url:
            if is_new:
                await fill_yesterday(sample_app(directory, model_url, yesterday=True))
            async with sample_app(directory, model_url) as app:
                service = ServiceApi(app.client.access, settings or ServiceSettings(secret=SECRET))
                keeping = asyncio.create_task(service.run())
                try:
                    sample = Sample(directory, app, service)
                    if is_new:
                        await fill(sample, rows)
                    yield sample
                finally:
                    service.app.begin_stop()
                    keeping.cancel()
                    _ = await asyncio.gather(keeping, return_exceptions=True)


def prepared(directory: Path) -> bool:
    """Makes the directory; returns whether its database has to be filled."""
    directory.mkdir(parents=True, exist_ok=True)
    return not (directory / DATABASE).exists()


async def fill_yesterday(app: App) -> None:
    """Starts what the code of today can't carry on."""
    async with app:
        for number in ("i-7", "i-8"):
            _ = await app.start(shop.invoice_before.with_(id=number), number)
        _ = await app.start(shop.retired.with_(id="old-1"), "old-1")
        await until_rest(app.client)


async def fill(sample: Sample, rows: int = 300) -> None:
    """Fills the database, and waits until everything is at rest."""
    app, client = sample.app, sample.app.client
    await _publish(client)
    await _start_code(app, rows)
    await _start_definitions(client)
    await until_rest(client)
    await _intervene(client)
    await _deliver(sample)
    await _describe_people(client)
    await sample_recording.record_refund(client)
    await until_rest(client)


async def _publish(client: AsyncClient) -> None:
    catalog = client.catalog
    for name, tags in (("payment", ("money",)), ("claim", ("money", "bank")), ("sales_pipeline", ("reports",)), ("triage", ("support", "agents"))):
        _ = await catalog.create((EXAMPLES / f"{name}.yaml").read_text(), tags=tags, note="from the examples")
    for text in (DISCOUNTS, REPORT, PAID, BILLING):
        _ = await catalog.create(text)
    payment = (EXAMPLES / "payment.yaml").read_text().replace("version: 1.0.0", "version: 1.1.0")
    _ = await catalog.update("payment", payment.replace("max: 5, delay: 50ms", "max: 6, delay: 80ms"), note="the bank has asked for more patience")
    _ = await catalog.save_draft("payment", payment.replace("gte: 100000", "gte: [100000"))
    _ = await catalog.save_draft("returns", "perdure: 1\nname: returns\nsteps:\n  - {id: look, approve: {title: Take it back?}}\n")
    triggers = client.triggers
    _ = await triggers.create("every ten minutes", ScheduleConfig(every_s=600), "report", input={"tick": "@trigger.about.tick"})
    _ = await triggers.create("office hours", ScheduleConfig(cron="0 9-17 * * 1-5", timezone="Europe/London", overlap="queue"), "report", enabled=False)
    paused = await triggers.create("restock", ScheduleConfig(cron="*/5 * * * *", timezone="America/New_York"), "restock", input={"article": "kettle K2"})
    _ = await triggers.pause(paused.id, "the supplier is on holiday")
    _ = await triggers.create("by hand", ManualConfig(), "reminder", input={"customer": "jon@example.net"})
    proposed = DISCOUNTS.replace("percent: 5", "percent: 6")
    _ = await client.proposals.create("discounts", proposed, note="five is what others give")
    second = await client.proposals.create("discounts", DISCOUNTS.replace("gt: 50000", "gt: 40000"), note="more customers reach ten percent")
    _ = await client.proposals.approve(second.id, "checked with sales")
    third = await client.proposals.create("discounts", DISCOUNTS.replace("percent: 10", "percent: 90"), note="a typo")
    _ = await client.proposals.reject(third.id, "ninety?")


async def _start_code(app: App, rows: int) -> None:
    lines = [shop.Line("kettle K2", 1, 6_490), shop.Line("filter F2", 2, 900), shop.Line("cup", 4, 350)]
    orders: list[tuple[str, str, str, int]] = [
        *((f"o-{number}", "good", "post", 1) for number in range(1, 13)),
        *((f"o-{number}", "slow", "post", 1) for number in (13, 14)),
        *((f"o-{number}", "expired", "post", 1) for number in (15, 16, 17)),
        *((f"o-{number}", "unreachable", "post", 1) for number in (18, 19)),
        ("o-20", "good", "none", 1),
        *((f"o-{number}", "good", "people", 1) for number in (21, 22, 23)),
        ("o-24", "good", "post", 20),
        ("o-25", "good", "post", 60),
        ("o-26", "slow", "post", 35),
    ]
    for id, card, carrier, times in orders:
        much = [shop.Line(one.article, one.quantity * times, one.cents) for one in lines]
        _ = await app.start(shop.order.with_(id=id), id, much, card, carrier)
    for article in ("kettle K2", "cup"):
        _ = await app.start(shop.restock.with_(id=f"restock-{article.split()[0]}"), article)
    _ = await app.start(shop.import_rows.with_(id="import-large"), rows)
    _ = await app.start(shop.import_rows.with_(id="import-small"), 12)
    for number, after in enumerate(("3h", "2d", "40m"), 1):
        _ = await app.start(shop.reminder.with_(id=f"reminder-{number}"), f"c{number}@example.org", after)
    _ = await app.start(shop.reminder.with_(id="reminder-later", delay="1h"), "late@example.org", "1m")
    for number in (1, 2):
        _ = await app.start(shop.booking.with_(id=f"seat-{number}"), f"12{'AB'[number - 1]}")


async def _start_definitions(client: AsyncClient) -> None:
    async def start(name: str, id: str, **inputs: Any) -> None:
        _ = await client.start(client.definition(name).with_(id=id), **inputs)

    for number in range(1001, 1007):
        await start("payment", f"p-{number}", order=str(number), cents=4_200 * (number - 1_000))
    await start("payment", "p-large", order="1100", cents=120_000)
    await start("payment", "p-declined", order="1101", cents=4_200, card="broken")
    await start("payment", "p-nobody-goes-there", order="x-1102", cents=4_200)
    await start("claim", "claim-1", number="C-1", cents=40_000)
    await start("claim", "claim-2", number="C-2", cents=250_000)
    await start("sales", "sales-1")
    await start("sales", "sales-none", sales="data/none.csv")
    for ticket in ("T-1041", "T-1042", "T-1043"):
        await start("triage", ticket, ticket=ticket)
    for number, orders in enumerate((0, 12, 40), 1):
        await start("discounts", f"discount-{number}", cents=30_000 * number, orders=orders)


async def _intervene(client: AsyncClient) -> None:
    """What people have done: a pause, a cancellation, a decision, a repetition; and a message, at which it shows that code has changed."""
    await (await client.get("i-7", "invoice")).send("paid", "by transfer")
    await (await client.get("reminder-2", "reminder")).pause("the customer has called", wait=True)
    await (await client.get("reminder-3", "reminder")).cancel("not needed any more", wait=True)
    await (await client.get("o-23", "order")).cancel("ordered by mistake", wait=True)
    await (await client.get("o-22", "order")).terminate("the shop has moved", wait=True)
    for one in await client.approvals():
        if one.key.id == "o-26":
            await client.approve(one, by="ada", value={"reason": "a known customer", "discount_percent": 3})
    _ = await (await client.get("o-20", "order")).rerun(id="o-20-again")


async def _deliver(sample: Sample) -> None:
    """Deliveries of the webhook: accepted, repeated, not signed, and not understood."""
    from perdure.service.triggers.trigger_records import Verification
    from perdure.service.triggers.webhook_signatures import Signing, signed_headers

    how = Verification(scheme="stripe", secrets=("STRIPE_HOOK",))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=sample.service.app), base_url="http://sample") as http:
        for id, body, secret in (
            ("evt_1", {"data": {"object": {"id": "in_7", "amount_paid": 950}}}, STRIPE_SECRET),
            ("evt_1", {"data": {"object": {"id": "in_7", "amount_paid": 950}}}, STRIPE_SECRET),
            ("evt_2", {"data": {"object": {"id": "in_8", "amount_paid": 12_000}}}, STRIPE_SECRET),
            ("evt_3", {"data": {"object": {"id": "in_9", "amount_paid": 1}}}, "whsec_of_somebody_else"),
            ("evt_4", {"data": {"object": {"id": "in_10", "amount_paid": "much"}}}, STRIPE_SECRET),
        ):
            content = json.dumps({"id": id, "type": "invoice.paid", **body}).encode()
            signed = signed_headers(how, secret, Signing(content, int(time.time()), id))
            _ = await http.post("/webhooks/stripe/paid", content=content, headers={"content-type": "application/json", **signed})


async def _describe_people(client: AsyncClient) -> None:
    _ = await client.people.save_person("ada", email="ada@example.org")
    now = datetime.now(UTC)
    _ = await client.people.save_person("carl", email="carl@example.org", out_from=now, out_until=now + timedelta(days=7), substitute="ada")
    rule = NotificationRule(
        kinds=("failure", "needs_attention"), channel="webhook", target="https://chat.example.org/hooks/shop", secret="STRIPE_HOOK", enabled=False
    )
    _ = await client.people.save_notification_rule("failures", rule)


async def until_rest(client: AsyncClient) -> None:
    """Waits until no execution works any more.

    Raises:
        TimeoutError: some do after `REST_S`.
    """
    ends_s = time.monotonic() + REST_S
    while busy := [f"{one.key} ({one.status})" for status in ("running", "ending", "undoing") for one in await client.list(status=status)]:
        if time.monotonic() > ends_s:
            raise TimeoutError(f"these executions do not come to rest: {', '.join(busy[:10])}")
        await asyncio.sleep(0.1)


async def keep_busy(app: App, per_s: float) -> None:
    """Starts orders for ever, each of which comes to something else."""
    chance = random.Random(0)
    while True:
        number = f"live-{time.time_ns() // 1_000_000}"
        card = chance.choices(["good", "slow", "expired", "unreachable"], [80, 10, 6, 4])[0]
        carrier = chance.choices(["post", "people", "none"], [90, 7, 3])[0]
        lines = [shop.Line(f"article {chance.randrange(50)}", chance.randrange(1, 9), chance.randrange(100, 9_999)) for _ in range(chance.randrange(1, 6))]
        _ = await app.start(shop.order.with_(id=number), number, lines, card, carrier)
        await asyncio.sleep(1 / per_s)


async def serve_sample(directory: Path, port: int, *, rows: int, busy: float) -> None:
    """Serves a sample until it is interrupted."""
    listening = listening_socket("127.0.0.1", port)
    async with opened_sample(directory, rows=rows) as sample:
        sample.service.app.console = FreshConsole(("key",))
        server = ServiceServer(sample.service, listening)
        running = asyncio.create_task(server.run())
        await server.ready()
        keys = {name: await sample.key(name) for name in PEOPLE}
        print(f"{url_of(listening)}/#token={keys['root']}", flush=True)
        for name, key in keys.items():
            print(f"  {name:<5} {key}  {', '.join(PEOPLE[name])}", flush=True)
        async with asyncio.TaskGroup() as tasks:
            if busy:
                _ = tasks.create_task(keep_busy(sample.app, busy))
            await running


def main() -> None:
    """Serves what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--port", type=int, default=0, help="the port on this machine (0: any that is free)")
    _ = parser.add_argument("--directory", type=Path, help="where the database is (default: a new temporary directory)")
    _ = parser.add_argument("--rows", type=int, default=300, help="the tasks of the largest execution")
    _ = parser.add_argument("--busy", type=float, default=0.0, metavar="N", help="start N orders a second")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perdure-sample-") as temporary, suppress(KeyboardInterrupt):
        asyncio.run(serve_sample(given.directory or Path(temporary), given.port, rows=given.rows, busy=given.busy))


if __name__ == "__main__":
    main()
