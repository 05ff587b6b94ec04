"""The commands `webhook …`: send test deliveries, look at what was received, and replay it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.service_calls import with_service
from perdure.cli.shared_options import F, GlobalOptions, format_option, json_option, refuse_options

if TYPE_CHECKING:
    import httpx2

    from perdure.operations.local_service import LocalService
    from perdure.service.triggers.delivery_log import DeliveryDetails, DeliveryPage, ReplayedDeliveries
    from perdure.service.triggers.trigger_directory import TriggerDetails, TriggeredRun
    from perdure.service.triggers.trigger_records import Verification, VerificationScheme

SCHEMES = ("github", "stripe", "slack", "standard_webhooks", "generic", "bearer", "none")  # not imported, so that printing help is fast; a test compares them
SENT_S = 90.0
"""How long an answer may take: longer than a webhook with `respond: result` waits."""

trigger_argument = click.argument("trigger", metavar="TRIGGER")


@click.group("webhook", cls=CliGroup)
def webhook() -> None:
    """Webhooks: send test deliveries, look at what was received, and replay it."""


class _Target(NamedTuple):
    """Where a delivery is sent, by which method, how it is signed, and where the trigger reads the id of a delivery."""

    url: str
    method: str
    verify: Verification
    id_header: str = ""


@click.command("send", cls=CliCommand)
@click.argument("target", metavar="URL|TRIGGER")
@click.option("--to", "base", metavar="URL", help="The server, where TRIGGER is the id of a trigger; else --server.")
@click.option("--scheme", type=click.Choice(SCHEMES), help="How it is signed, where a URL is given; default: none.")
@click.option(
    "--secret-name", metavar="NAME", help="The secret that signs: of the environment, of PERDURE_SECRETS_PATH or of the database. Default: that of the trigger."
)
@click.option("--secret-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help="A file with the secret that signs.")
@click.option("--file", "-f", "file", metavar="FILE", help="The body; - reads it from standard input. Without it, {}.")
@click.option("--content-type", default="application/json", show_default=True, metavar="TYPE", help="The type of the body.")
@click.option("--event", default="", metavar="NAME", help="What has happened; with github the header X-GitHub-Event, else X-Event-Type.")
@click.option("--id", "id", metavar="ID", help="The id of the delivery; sent twice, it starts one execution. Default: a new one.")
@click.option("--method", metavar="METHOD", help="Default: that of the trigger, else POST.")
@click.option("--header", "headers", metavar="'NAME: VALUE'", multiple=True, help="A further header. Several are possible.")
@json_option
@click.pass_obj
def send(settings: GlobalOptions, /, *, target: str, **given: Any) -> None:
    """Send a signed delivery to a webhook, as its sender would, and print the answer."""
    from perdure.cli import definition_files

    body = b"{}" if given["file"] is None else definition_files.read_source(given["file"])
    is_url = target.lower().startswith(("http://", "https://"))
    to = _target_of_url(target, given) if is_url else _target_of_trigger(settings, target, given)
    answer = _sent(to, _secret(settings, to.verify, given), body, given)
    _print_answer(answer, given["as_json"])


def _target_of_url(url: str, given: dict[str, Any]) -> _Target:
    from perdure.service.triggers.trigger_records import Verification

    if given["base"]:
        raise click.UsageError("--to is for the id of a trigger; a URL names the server itself")
    scheme: VerificationScheme = given["scheme"] or "none"
    if scheme == "none" and (given["secret_name"] or given["secret_file"]):
        raise click.UsageError("a secret signs by a scheme; name it with --scheme, such as --scheme github")
    header = "X-Signature" if scheme == "generic" else ""
    return _Target(url, given["method"] or "POST", Verification(scheme=scheme, secrets=(given["secret_name"],) if given["secret_name"] else (), header=header))


def _target_of_trigger(settings: GlobalOptions, id: str, given: dict[str, Any]) -> _Target:
    from perdure.cli.shared_options import server_and_token
    from perdure.operations import on_triggers
    from perdure.service.triggers.trigger_records import Verification, WebhookConfig

    async def read(call: LocalService) -> TriggerDetails:
        return await call(on_triggers.read, settings.tenant, id)

    if given["scheme"]:
        raise click.UsageError("--scheme is for a URL; the trigger has its own")
    config = with_service(settings, read).config
    if not isinstance(config, WebhookConfig):
        raise CommandExit(ExitCode.INPUT, f"{id} is not a webhook\nperdure trigger ls lists the triggers")
    server = given["base"] or settings.server_url()
    if server is None:
        raise CommandExit(ExitCode.INPUT, "where to send it is not known: a database has no address\nname the server: --to http://127.0.0.1:8080")
    base = given["base"] or server_and_token(server)[0]
    from perdure.service.triggers.trigger_directory import webhook_url

    url = f"{base.rstrip('/')}{webhook_url(settings.tenant, config.path)}"
    return _Target(url, given["method"] or config.method, config.verify or Verification(scheme="none"), config.delivery_header)


def _secret(settings: GlobalOptions, how: Verification, given: dict[str, Any]) -> str:
    """The value of the secret that signs; empty if none does."""
    if how.scheme == "none":
        if given["secret_name"] or given["secret_file"]:
            raise click.UsageError("the trigger has the scheme none, so no secret signs a delivery; leave out --secret-name and --secret-file")
        return ""
    if (file := given["secret_file"]) is not None:
        return str(file.read_text(encoding="utf-8").strip())
    name = given["secret_name"] or next(iter(how.secrets), "")
    if not name:
        raise click.UsageError(f"a delivery is signed by the scheme {how.scheme} with a secret: pass --secret-name or --secret-file")
    found = _found_secret(settings, name)
    if found is None:
        said = f"there is no secret {name} here\nset PERDURE_SECRET_{name}, pass --secret-file, or store it: perdure secret set {name}"
        raise CommandExit(ExitCode.INPUT, said)
    return found


def _found_secret(settings: GlobalOptions, name: str) -> str | None:
    """A secret of this machine; of the database only if the command is for one, since no server tells a secret."""
    import asyncio

    from perdure.service.secrets.secret_resolver import secret_resolver_for
    from perdure.service.secrets.secret_sources import secret_from_environment

    if (found := secret_from_environment(name)) is not None or settings.server_url() is not None:
        return found

    async def find() -> str | None:
        async with settings.look() as store:
            return await asyncio.to_thread(secret_resolver_for(store).of(settings.tenant), name)

    return asyncio.run(find())


def _sent(to: _Target, secret: str, body: bytes, given: dict[str, Any]) -> httpx2.Response:
    import asyncio

    from perdure.core.errors import MissingExtra
    from perdure.definitions.kinds.http.http_client import http_client
    from perdure.service.triggers.webhook_sender import OutgoingDelivery, delivery_headers

    try:
        import httpx2
    except ImportError as missing:
        raise MissingExtra("sending a webhook", missing.name or "httpx2", "serve") from missing
    one = OutgoingDelivery(body, given["content_type"], given["id"] or str(uuid4()), given["event"], int(time.time()), to.id_header)
    headers = delivery_headers(to.verify, secret, one)
    for line in given["headers"]:
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or not (line.isascii() and line.isprintable()):
            raise click.UsageError(f"--header {line!r} is no header; write it as 'NAME: VALUE', in ASCII")
        headers[name.strip()] = value.strip()

    async def send() -> httpx2.Response:
        async with http_client(to.url, timeout=SENT_S) as client:
            return await client.request(to.method, to.url, content=body, headers=headers)

    try:
        return asyncio.run(send())
    except (httpx2.TransportError, httpx2.InvalidURL) as error:
        raise CommandExit(ExitCode.STORE, f"{to.url} did not answer: {error}\nsee that the server runs, and that this is its address") from error


def _print_answer(answer: httpx2.Response, as_json: bool) -> None:
    from perdure.cli import output, terminal_text

    if as_json:
        is_json = "json" in answer.headers.get("content-type", "")
        click.echo(output.indented_json({"status": answer.status_code, "body": answer.json() if is_json else answer.text}))
    else:
        click.echo(f"{answer.status_code} {answer.reason_phrase}\n{terminal_text.clean(answer.text)}".rstrip())
    if not answer.is_success:
        raise CommandExit(ExitCode.REFUSED)


# What was received


LIST_OPTIONS = ("since", "until", "event", "status", "limit", "after", "expect")
"""What chooses deliveries of a list, and means nothing where one is named."""


def _filter_options(command: F) -> F:
    command = click.option("--status", default="", metavar="STATUS", help="Only those whose execution has this status.")(command)
    command = click.option("--event", default="", metavar="NAME", help="Only those of this event.")(command)
    command = click.option("--until", metavar="TIME", help="Only those that came more than 30s, 1h, 2d ago.")(command)
    return click.option("--since", metavar="TIME", help="Only those that came in the last 30s, 1h, 2d.")(command)


@click.command("deliveries", cls=CliCommand)
@trigger_argument
@click.argument("delivery", default="", metavar="[DELIVERY]")
@_filter_options
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1_000), metavar="N", help="How many, newest first.")
@click.option("--after", default="", metavar="ID", help="Only those behind this one.")
@json_option
@format_option()
@click.pass_obj
def deliveries(settings: GlobalOptions, /, *, trigger: str, delivery: str, as_json: bool, format: str, **which: Any) -> None:
    """List what a webhook has received, newest first, or show one delivery with its body. With a server, what that has rejected is listed beside."""
    from perdure.async_triggers import AsyncTriggers
    from perdure.cli import output, webhook_views
    from perdure.cli.terminal import screen

    async def shown(call: LocalService) -> DeliveryDetails:
        return await AsyncTriggers(call.access).delivery(trigger, delivery, tenant=settings.tenant)

    async def listed(call: LocalService) -> DeliveryPage:
        return await AsyncTriggers(call.access).deliveries(trigger, **which, tenant=settings.tenant)

    if delivery:
        refuse_options(LIST_OPTIONS, "a DELIVERY is one")
        one = with_service(settings, shown)
        if as_json or format.startswith("json"):
            click.echo(output.indented_json(output.as_data(one)))
        else:
            output.show_lines(webhook_views.delivery_lines(one), screen())
        return
    found = with_service(settings, listed)
    if as_json:
        click.echo(output.indented_json(output.as_data(found)))
        return
    output.print_list(format, (one.id for one in found.items), found.items, lambda: webhook_views.delivery_table(found.items))
    if format == "table":
        if not found.items:
            click.echo(f"perdure: there are no such deliveries\nperdure webhook send {trigger} sends one", err=True)
        output.show_lines(webhook_views.rejected_lines(found), screen(), error=True)


@click.command("replay", cls=CliCommand)
@trigger_argument
@click.argument("delivery", default="", metavar="[DELIVERY]")
@_filter_options
@click.option("--expect", type=click.IntRange(0), metavar="N", help="Replay those that match; N is how many there are, as a call without it says.")
@json_option
@click.pass_obj
def replay(settings: GlobalOptions, /, *, trigger: str, delivery: str, expect: int | None, as_json: bool, **which: Any) -> None:
    """Start a new execution with what a delivery has brought. Without DELIVERY, those that match are counted, and replayed with --expect."""
    from perdure.async_triggers import AsyncTriggers
    from perdure.cli import output, terminal_text

    async def replayed(call: LocalService) -> TriggeredRun:
        return await AsyncTriggers(call.access).replay(trigger, delivery, tenant=settings.tenant)

    async def replayed_many(call: LocalService) -> ReplayedDeliveries:
        return await AsyncTriggers(call.access).replay_many(trigger, **which, expect=expect, tenant=settings.tenant)

    if delivery:
        refuse_options(LIST_OPTIONS, "a DELIVERY is one")
        one = with_service(settings, replayed)
        click.echo(output.indented_json(output.as_data(one)) if as_json else terminal_text.execution_name(one.key))
        return
    found = with_service(settings, replayed_many)
    if as_json:
        click.echo(output.indented_json(output.as_data(found)))
        return
    for started in found.started:
        click.echo(terminal_text.execution_name(started.key))
    matching = terminal_text.count(found.matching, "delivery matches", "deliveries match")
    then = (
        f"{terminal_text.count(len(found.started), 'execution')} started" if found.applied else f"nothing was started; --expect {found.matching} replays them"
    )
    left = f"; the bodies of {terminal_text.count(len(found.left_out), 'delivery', 'deliveries')} were not kept" if found.left_out else ""
    click.echo(f"perdure: {matching}; {then}{left}", err=True)


webhook.section("Commands", (send, deliveries, replay))
