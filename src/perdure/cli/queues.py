"""The commands about queues: `queues` and `limit`."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.root import Command
from perdure.cli.settings import Settings, format_option


@click.command("queues", cls=Command)
@format_option()
@click.pass_obj
def queues(settings: Settings, /, *, format: str) -> None:
    """List the queues: what they allow, what is held, and what waits. Over all tenants."""
    from perdure.cli import output, render_queues

    with settings.client() as client:
        found = client.queues()
        output.listing(format, (one.name for one in found), found, lambda: render_queues.queues(found))
        if not found and format == "table":
            click.echo("perdure: nothing is in a queue, and none has limits\nperdure limit QUEUE --concurrency N gives it some", err=True)


@click.command("limit", cls=Command)
@click.argument("queue")
@click.option("--concurrency", metavar="N", help="How many executions may run at a time, and how many calls; none: any number.")
@click.option("--per-key", metavar="N", help="How many of each key; none: any number.")
@click.option("--rate", metavar="N/TIME", help="How many may begin per time, such as 100/1m; none: any number.")
@click.option("--burst", default=1, metavar="N", help="How many of those may be made up for at once.")
@format_option()
@click.pass_obj
def limit(settings: Settings, /, *, queue: str, concurrency: str | None, per_key: str | None, rate: str | None, burst: int, format: str) -> None:
    """Change what a queue allows, while everything runs.

    It stays so until the code declares something else. What is held stays held.
    """
    from perdure.cli import output, render_queues

    changes: dict[str, Any] = {}
    for what, option, text in (("concurrency", "--concurrency", concurrency), ("concurrency_per_key", "--per-key", per_key)):
        if text is not None:
            changes[what] = None if text == "none" else _number(option, text)
    if rate is not None:
        changes["rate"] = None if rate == "none" else _rate(rate, burst)
    if not changes:
        raise click.UsageError("say what is to be changed: --concurrency, --per-key or --rate")
    with settings.client(creates=True) as client:
        stand = client.limit(queue, **changes)
        output.listing(format, (stand.name,), [stand], lambda: render_queues.queues([stand]))


def _number(option: str, text: str) -> int:
    from perdure.core.errors import BadValue

    if not text.isdecimal():
        raise BadValue(option, text, "a number from 0 on, or none")
    return int(text)


def _rate(text: str, burst: int) -> Any:
    from perdure.core.errors import BadValue
    from perdure.programs.code.queues import Rate

    count, _, per = text.partition("/")
    if not count.isdecimal() or not per:
        raise BadValue("--rate", text, "a number per time, such as 100/1m, or none")
    return Rate(int(count), per, burst)
