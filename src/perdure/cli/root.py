"""The root of the commands: help in sections, errors in a line or two, and an exit code for everything that can happen."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from traceback import format_exception
from typing import Any

import click

from perdure.cli import exits
from perdure.cli.exits import Exit, Outcome
from perdure.cli.settings import Settings, shared

EPILOG = f"""\b
Exit codes:
{exits.table()}

\b
An ID is a full id, the beginning of one that fits no other, workflow/id, @latest or @failed;
- reads ids from standard input, one a line:  perdure ls --status failed -o ids | perdure cancel -
The guide is docs/guides/cli.md."""


class Command(click.Command):
    """A command that also takes the global options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += shared()


class Group(click.Group):
    """A group whose commands take the global options too, listed by section in the order in which they were added."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += shared()
        self.sections: dict[str, list[str]] = {}

    def section(self, title: str, commands: Sequence[click.Command]) -> None:
        """Add commands under a title."""
        self.sections[title] = [str(command.name) for command in commands]
        for command in commands:
            self.add_command(command)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All of them, in their order."""
        return [name for names in self.sections.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them, section by section."""
        columns = max(map(len, self.commands))
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(columns), self.commands[name].get_short_help_str(limit=90)) for name in names])


class Root(Group):
    """The command itself: nothing leaves it but an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and exit with a code of `exits`."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # what the terminal can't show is no reason to fail
        code = self._ended(partial(super().main, *args, **{**kwargs, "standalone_mode": False}))
        with suppress(BrokenPipeError):
            sys.stdout.flush()
            sys.exit(code)
        _to_nowhere()
        sys.exit(Exit.PIPE)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            _to_nowhere()
            raise Outcome(Exit.PIPE) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if ctx.ensure_object(Settings).debug:
                click.echo("".join(format_exception(error)), err=True, nl=False)
            from perdure.cli.complaints import complaint

            raise Outcome(exits.of_error(type(error)), complaint(error)) from error

    def _ended(self, run: Callable[[], Any]) -> Exit:
        try:
            given = run()
        except click.UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # which click has from 8.2 on; before, it shows the help by itself
                click.echo(error.format_message())
                return Exit.OK
            where = error.ctx.command_path if error.ctx else "perdure"
            _complain(f"{error.format_message()}\n{where} --help says what it takes")
            return Exit.FLAGS
        except Outcome as outcome:
            _complain(outcome.format_message())
            return outcome.code
        except click.Abort:
            return Exit.INTERRUPTED
        return Exit(given) if isinstance(given, int) else Exit.OK


def _complain(message: str) -> None:
    if message:
        click.echo(f"perdure: {message}", err=True)


def _to_nowhere() -> None:
    """Have what is still to be written go nowhere, so that the interpreter does not complain as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@click.group("perdure", cls=Root, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="perdure", message="perdure %(version)s")
def root() -> None:
    """Durable workflows: run them, look at them, mend them."""
