"""The command `fake-llm`: a scripted model provider on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand

if TYPE_CHECKING:
    from perdure.fake_llm import Fake


@click.command("fake-llm", cls=CliCommand)
@click.argument("script", metavar="SCRIPT")
@click.option("--port", default=0, show_default=True, metavar="N", type=click.IntRange(0, 65_535), help="The port to listen on; 0: any free port.")
@click.option("--log", metavar="FILE", help="A file to which each request is written as a line of JSON.")
def fake_llm(*, script: str, port: int, log: str | None) -> None:
    """Serve the answers of SCRIPT like a model provider, until Ctrl-C: OpenAI's and Anthropic's protocols, no key, no network."""
    from perdure.fake_llm import fake_server

    try:
        opened = fake_server.open_listener(port)
    except OSError as error:
        raise CommandExit(ExitCode.INPUT, f"can't listen on port {port}: {error.strerror or error}\n--port 0 takes any free port") from None
    with opened:
        fake, url = _fake(script, log), fake_server.listener_address(opened)
        click.echo(f"listening on {url}\nenvironment:")
        for name, value in fake_server.environment(url).items():
            click.echo(f"  {name}={value}")
        click.echo("models.yaml:")
        for line in fake_server.models_yaml(url).splitlines():
            click.echo(f"  {line}")
        fake_server.run_server(fake, opened)


def _fake(script: str, log: str | None) -> Fake:
    from perdure.core.errors import BadValue
    from perdure.fake_llm import Fake, load

    try:
        return Fake(load(script), None if log is None else Path(log))
    except BadValue as error:
        raise CommandExit(ExitCode.INPUT, str(error)) from None
    except OSError as error:
        raise CommandExit(ExitCode.INPUT, f"{script} can't be read: {error.strerror or error}") from None
