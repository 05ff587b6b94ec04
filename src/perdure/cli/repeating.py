"""The commands that make another execution of one, or give it what it would have worked for: `rerun`, `fork`, `preset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.root import Command
from perdure.cli.running import ARGUMENTS
from perdure.cli.settings import F, Settings, id_argument, input_of, input_options, json_option, value_format

if TYPE_CHECKING:
    from perdure.client import Client, Handle


def _new_options(command: F) -> F:
    """What the new execution is called, in which version it is, whether to wait for it."""
    command = click.option("--timeout", metavar="TIME", help="How long to wait at most.")(command)
    command = click.option("--wait", is_flag=True, help="Wait for its end, and print its result instead of its key.")(command)
    command = click.option("--version", type=click.IntRange(0), metavar="N", help="The version of the workflow; 0 is that of the engine.")(command)
    command = click.option("--id", "new", metavar="NEW", help="The id of the new execution.")(command)
    return value_format(json_option(command))


@click.command("rerun", cls=Command)
@id_argument
@_new_options
@click.pass_obj
def rerun(settings: Settings, /, *, id: str, new: str | None, version: int | None, **given: Any) -> None:
    """Begin a new execution with the same input as another. Its key is printed."""
    from perdure.cli import asking

    with settings.client() as client:
        _follow(client, asking.one(client, settings, id).rerun(id=new, version=version), given)


@click.command("fork", cls=Command, epilog=f"{ARGUMENTS} Given any, they are the whole input, by position or by name.")
@id_argument
@input_options
@click.option("--from", "step", metavar="STEP", help="Only with what was begun before this step, as perdure show calls it.")
@_new_options
@click.pass_obj
def fork(settings: Settings, /, *, id: str, step: str | None, new: str | None, version: int | None, **given: Any) -> None:
    """Begin a new execution with the results that another one has reached.

    What is given as input takes the place of the other's. Its key is printed.
    """
    from perdure.cli import asking

    wanted = input_of(given)
    with settings.client() as client:
        _follow(client, asking.one(client, settings, id).fork(step, input=wanted, id=new, version=version), given)


@click.command("preset", cls=Command)
@id_argument
@click.argument("step")
@click.argument("value", required=False)
@click.pass_obj
def preset(settings: Settings, /, *, id: str, step: str, value: str | None) -> None:
    """Give the result of a STEP in place of its work: of one that is open, or is yet to come, or has failed.

    VALUE is JSON where it parses, else text; nothing is none. STEP is a path, as perdure show and perdure events have it.
    """
    from perdure.cli import asking, values, words
    from perdure.cli.complaints import name

    with settings.client() as client:
        handle = asking.one(client, settings, id)
        handle.preset(step, None if value is None else values.value(value))
        click.echo(f"{name(handle.key)} is told the result of {words.clean(step)}")


def _follow(client: Client, handle: Handle[Any], given: dict[str, Any]) -> None:
    """Say which execution there is now, or wait for what it returns."""
    from perdure.cli import output
    from perdure.cli.asking import known, unknown, waited
    from perdure.cli.complaints import name

    form = "json" if given["as_json"] else given["format"]
    if not given["wait"]:
        output.value({**handle.key._asdict(), "created": handle.created} if form == "json" else name(handle.key), form)
    if (program := unknown(handle.summary(), known(client))) is not None:
        click.echo(f"perdure: no engine here knows {program}, so it waits\nperdure worker FILE.py starts one", err=True)
    if given["wait"]:
        output.value(waited(handle, given["timeout"]), form)
