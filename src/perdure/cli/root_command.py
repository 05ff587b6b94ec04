"""The root command: help in sections, errors in a line or two, and an exit code for everything that can happen."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from traceback import format_exception
from typing import Any

import click

from perdure.cli import exit_codes
from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.shared_options import GlobalOptions, global_options

EPILOG = f"""\b
Exit codes:
{exit_codes.exit_code_table()}

\b
An ID is a full id, a unique prefix of one, workflow/id, @latest or @failed;
- reads ids from standard input, one a line:  perdure ls --status failed -o ids | perdure cancel -
The guide is docs/guides/cli.md."""


class CliCommand(click.Command):
    """A command that also takes the global options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += global_options()


class CliGroup(click.Group):
    """A group whose commands take the global options too, listed by section in the order in which they were added."""

    command_class = CliCommand

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += global_options()
        self.sections: dict[str, list[str]] = {}

    def section(self, title: str, commands: Sequence[click.Command]) -> None:
        """Adds commands under a title."""
        self.sections[title] = [str(command.name) for command in commands]
        for command in commands:
            self.add_command(command)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in their order."""
        return [name for names in self.sections.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands section by section."""
        columns = max(map(len, self.commands))
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(columns), self.commands[name].get_short_help_str(limit=90)) for name in names])


class CliRoot(CliGroup):
    """The root command. It ends with an exit code and never with an exception."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the command and exits with a code of `exit_codes`."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a character that the terminal can't show must not fail the command
        code = self._ended(partial(super().main, *args, **{**kwargs, "standalone_mode": False}))
        with suppress(BrokenPipeError):
            sys.stdout.flush()
            sys.exit(code)
        _discard_output()
        sys.exit(ExitCode.PIPE)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command that was named."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            _discard_output()
            raise CommandExit(ExitCode.PIPE) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if ctx.ensure_object(GlobalOptions).debug:
                click.echo("".join(format_exception(error)), err=True, nl=False)
            from perdure.cli.terminal_text import error_message

            raise CommandExit(exit_codes.exit_code_of_error(type(error)), error_message(error)) from error

    def _ended(self, run: Callable[[], Any]) -> ExitCode:
        try:
            given = run()
        except click.UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # click has this class since 8.2; earlier versions print the help themselves
                click.echo(error.format_message())
                return ExitCode.OK
            where = error.ctx.command_path if error.ctx else "perdure"
            _complain(f"{error.format_message()}\n{where} --help describes its options")
            return ExitCode.FLAGS
        except CommandExit as outcome:
            _complain(outcome.format_message())
            return outcome.code
        except click.Abort:
            # Ctrl-C may come between the making of a coroutine and its beginning, of which Python would warn when the coroutine is dropped.
            warnings.filterwarnings("ignore", message="coroutine .* was never awaited", category=RuntimeWarning)
            return ExitCode.INTERRUPTED
        return ExitCode(given) if isinstance(given, int) else ExitCode.OK


def _complain(message: str) -> None:
    if message:
        click.echo(f"perdure: {message}", err=True)


def _discard_output() -> None:
    """Redirects standard output to nowhere, so that the interpreter does not complain when it flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@click.group("perdure", cls=CliRoot, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="perdure", message="perdure %(version)s")
def root() -> None:
    """Durable workflows: run, inspect and repair them."""
