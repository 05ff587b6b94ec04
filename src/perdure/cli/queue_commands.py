"""The commands for queues: `queues` and `limit`."""

from __future__ import annotations

import time
from typing import Any

import click

from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions, format_option


@click.command("queues", cls=CliCommand)
@format_option()
@click.pass_obj
def queues(settings: GlobalOptions, /, *, format: str) -> None:
    """List the queues of all tenants: their limits, what is claimed, and what waits."""
    from perdure.cli import output, record_views

    with settings.client() as client:
        found = client.queues()
        output.print_list(format, (one.name for one in found), found, lambda: record_views.queue_table(found, time.time()))
        if not found and format == "table":
            click.echo("perdure: no queue has limits or holds anything\nperdure limit QUEUE --concurrency N sets limits", err=True)


@click.command("limit", cls=CliCommand)
@click.argument("queue")
@click.option("--concurrency", metavar="N", help="How many executions, and how many calls, may run at a time; none: no limit.")
@click.option("--per-key", metavar="N", help="How many of each key; none: no limit.")
@click.option("--rate", metavar="N/TIME", help="How many may begin per time, such as 100/1m; none: no limit.")
@click.option("--burst", default=1, metavar="N", help="How many may begin at once after a pause.")
@click.option("--only-tenant", metavar="NAME", help="Limits for this tenant, in place of those for all.")
@click.option("--remove", is_flag=True, help="Remove the limits; those for all apply to a tenant again.")
@format_option()
@click.pass_obj
def limit(
    settings: GlobalOptions,
    /,
    *,
    queue: str,
    concurrency: str | None,
    per_key: str | None,
    rate: str | None,
    burst: int,
    only_tenant: str | None,
    remove: bool,
    format: str,
) -> None:
    """Change the limits of a queue while workers use it.

    Limits are for all tenants together, unless a tenant has its own. The change holds until code declares other limits. What is claimed stays claimed.
    """
    from perdure.cli import output, record_views

    changes: dict[str, Any] = {}
    for what, option, text in (("concurrency", "--concurrency", concurrency), ("concurrency_per_key", "--per-key", per_key)):
        if text is not None:
            changes[what] = None if text == "none" else _number(option, text)
    if rate is not None:
        changes["rate"] = None if rate == "none" else _rate(rate, burst)
    if remove and changes:
        raise click.UsageError("--remove removes all limits: pass it without --concurrency, --per-key and --rate")
    if not changes and not remove:
        raise click.UsageError("nothing to change: pass --concurrency, --per-key or --rate, or --remove")
    with settings.client(creates=True) as client:
        if remove:
            client.remove_limits(queue, tenant=only_tenant)
            click.echo(f"perdure: {queue} has no limits {'of all tenants' if only_tenant is None else f'of {only_tenant}'} any more", err=True)
            return
        status = client.limit(queue, **changes, tenant=only_tenant)
        output.print_list(format, (status.name,), [status], lambda: record_views.queue_table([status], time.time()))


def _number(option: str, text: str) -> int:
    from perdure.core.errors import BadValue

    if not text.isdecimal():
        raise BadValue(option, text, "a number from 0 on, or none")
    return int(text)


def _rate(text: str, burst: int) -> Any:
    from perdure.code.declared_queues import Rate
    from perdure.core.errors import BadValue

    count, _, per = text.partition("/")
    if not count.isdecimal() or not per:
        raise BadValue("--rate", text, "a number per time, such as 100/1m, or none")
    return Rate(int(count), per, burst)
