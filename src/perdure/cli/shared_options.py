"""The options that several commands share, and the global ones: the database, the tenant and `--debug`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.exit_codes import CommandExit, ExitCode

if TYPE_CHECKING:
    from perdure.observe.log_setup import LogFormat
    from perdure.stores.protocol import ReadOnlyStore
    from perdure.sync_client import Client


F = TypeVar("F", bound=Callable[..., Any])


POSTGRES_INSTEAD = {
    "path": "perdure db path is for SQLite; perdure doctor says where a Postgres database is",
    "backup": "perdure db backup is for SQLite; pg_basebackup or pg_dump makes a backup of a Postgres database",
    "restore": "perdure db restore is for SQLite; restore a Postgres database from the backup that pg_basebackup or pg_dump has made",
    "vacuum": "perdure db vacuum is for SQLite; Postgres returns free space by itself (autovacuum)",
    "upgrade": "perdure db upgrade is for SQLite; perdure db migrate upgrades the tables in Postgres",
}
"""What to do in place of the commands that are for files, by their names."""


IN_A_DATABASE = {
    "run": "it runs the workflow in this process; perdure start has an engine of the server run it",
    "dev": "it is a server",
    "serve": "it is a server",
    "worker": "it runs steps and executions in this process; a worker of a server speaks the protocol of docs/guides/workers.md",
    "demo": "it has a database of its own",
    "doctor": "it examines the files or the tables; GET /readyz says whether the server answers",
    "secret": "a server never shows secrets, nor takes them",
    "check": "it replays logs over code of this machine",
    "db": "it maintains the file or the tables",
}
"""Why a command, or a group of them, has no meaning for a server. Every other command works with one, or with neither."""


@dataclass
class GlobalOptions:
    """The global options. Without a database: PERDURE_DB, else the file in ``.perdure``."""

    db: str | None = None
    server: str | None = None
    tenant: str = "default"
    debug: bool = False
    log_format: LogFormat = "text"

    def client(self, *, creates: bool = False) -> Client:
        """A client of the server or the database. A command that `creates` something also creates a missing database."""
        from perdure.sync_client import Client

        url, token = self.server_or_database(creates=creates)
        return Client(url, token=token)

    def server_or_database(self, *, creates: bool = False) -> tuple[str | None, str | None]:
        """The URL for a client: that of the server, with the token of a perdure dev, or that of the database (None: the default one)."""
        from perdure.stores.configured_store import database_file

        if (server := self.server_url()) is not None:
            return server_and_token(server)
        if not creates and (file := database_file(self.url())):
            self.expect(file)
        return self.db, None

    @asynccontextmanager
    async def look(self, url: str | None = None) -> AsyncIterator[ReadOnlyStore]:
        """Opens the database, or that of `url`, read-only, so that other processes are not affected."""
        from perdure.stores.configured_store import configured_url, database_file, open_read_only_store

        chosen = self.url() if url is None else configured_url(url)
        if file := database_file(chosen):
            self.expect(file)
        store = open_read_only_store(chosen)
        try:
            yield store
        finally:
            await store.close()

    def server_url(self) -> str | None:
        """The URL of the server, or ``dev``; None if the command is for a database."""
        return None if self.db is not None else self.server or os.environ.get("PERDURE_SERVER") or None

    def url(self) -> str:
        """The URL of the database; it may contain a password. A command that needs it ends if it was given a server."""
        from perdure.stores.configured_store import configured_url

        return configured_url(self.database())

    def database(self) -> str | None:
        """The URL of the database, if one was given; it may contain a password. A command that needs a database ends if it was given a server."""
        if (server := self.server_url()) is not None:
            command = click.get_current_context().command_path
            path = command.split()[1:]
            why = IN_A_DATABASE.get(" ".join(path)) or IN_A_DATABASE.get(path[0], "") if path else ""
            said = f"{command} needs the database itself, and was given the server {server}{why and f': {why}'}"
            raise CommandExit(ExitCode.INPUT, f"{said}\nname the database: --db URL")
        return self.db

    def expect(self, file: Path) -> None:
        """Ends the command if the database does not exist."""
        if not file.is_file():
            raise CommandExit(ExitCode.STORE, f"there is no database at {file}\nperdure run creates one; --db or PERDURE_DB names another")

    def file(self) -> Path:
        """The file of the database, which need not exist."""
        from perdure.stores.configured_store import database_file, is_postgres, shown_url

        file = database_file(self.url())
        if file is None:
            command = click.get_current_context().info_name or ""
            instead = POSTGRES_INSTEAD.get(command, "") if is_postgres(self.url()) else ""
            raise CommandExit(ExitCode.INPUT, f"{shown_url(self.url())} is not a file\n{instead or 'name one: --db sqlite:///path/to/file.db'}")
        return file

    def existing_file(self) -> Path:
        """The file of the database; the command ends if it does not exist."""
        file = self.file()
        self.expect(file)
        return file

    def log(self, logger: str, secrets: Sequence[str] = ()) -> None:
        """Sends the log of `logger` to standard error, in the chosen format and without `secrets`. See `set_up_logging`."""
        import logging

        from perdure.observe.log_setup import passwords_in, set_up_logging

        level = logging.DEBUG if self.debug else logging.INFO
        set_up_logging("perdure" if self.debug else logger, level, self.log_format, (*secrets, *passwords_in(self.db or "")))


def server_and_token(server: str) -> tuple[str, str | None]:
    """The URL of a server, and the token for it: that of a `perdure dev` in this directory for ``dev``, else PERDURE_TOKEN."""
    if server != "dev":
        return server, os.environ.get("PERDURE_TOKEN")
    from perdure.api.loopback_access import DEV_FILE, read_dev_server

    found = read_dev_server(DEV_FILE)
    if found is None:
        raise CommandExit(ExitCode.INPUT, f"no perdure dev runs in this directory: there is no {DEV_FILE}\nstart one: perdure dev FILE.py")
    return found.url, found.token


def global_options() -> list[click.Parameter]:
    """The global options, which may precede or follow the command."""
    return [
        click.Option(
            ["--db"], metavar="URL", expose_value=False, callback=_store_option, help="The database; else PERDURE_DB, else sqlite:///.perdure/perdure.db."
        ),
        click.Option(
            ["--server"],
            metavar="URL",
            expose_value=False,
            callback=_store_option,
            help="A server in place of a database (dev: perdure dev); else PERDURE_SERVER.",
        ),
        click.Option(["--tenant"], metavar="NAME", expose_value=False, callback=_store_option, help="The tenant of the executions."),
        click.Option(["--debug"], is_flag=True, default=None, expose_value=False, callback=_store_option, help="Show tracebacks, and log the work of engines."),
    ]


def _store_option(context: click.Context, option: click.Parameter, given: Any) -> None:
    settings = context.find_root().ensure_object(GlobalOptions)
    if given is not None and option.name is not None:
        setattr(settings, option.name, given)


def log_options(command: F) -> F:
    """``--log-format`` of a command that runs executions."""
    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        envvar="PERDURE_LOG_FORMAT",
        expose_value=False,
        callback=_store_option,
        help="How the log is written on standard error: text (the default), or json, one object a line.",
    )(command)


def observation_options(command: F) -> F:
    """``--log-format``, ``--metrics-listen`` and ``--otel`` of a process that serves."""
    said = "Send traces of OpenTelemetry, as the variables OTEL_... say (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER)."
    command = click.option("--otel", is_flag=True, envvar="PERDURE_OTEL", help=said)(command)
    said = "Show metrics to Prometheus at http://HOST:PORT/metrics, without a key (PORT alone: to this machine)."
    command = click.option("--metrics-listen", metavar="HOST:PORT", envvar="PERDURE_METRICS_LISTEN", help=said)(command)
    return log_options(command)


def format_option(choices: Sequence[str] = ("table", "json", "jsonl", "ids")) -> Callable[[F], F]:
    """``-o``: the output format; the first choice is for people."""
    return click.option("-o", "--output", "format", type=click.Choice(choices), default=choices[0], show_default=True, help="The output format.")


def value_format(command: F) -> F:
    """``-o`` of a command that prints a value."""
    return format_option(("text", "json"))(command)


def input_options(command: F) -> F:
    """The arguments of a workflow: by position, by name, or from a file."""
    command = click.option("--input", "source", metavar="FILE", help="All arguments, as JSON from a file, or from standard input (-).")(command)
    command = click.option("-i", "pairs", metavar="KEY=VALUE", multiple=True, help="An argument by name.")(command)
    return click.argument("arguments", nargs=-1, metavar="[ARGS]...")(command)


def id_arguments(command: F) -> F:
    """The ids of executions, unless a filter selects them."""
    return click.argument("ids", nargs=-1, metavar="[ID]...")(command)


def filter_options(command: F) -> F:
    """A filter in place of ids, and the options for a confirmation."""
    command = click.option("--yes", is_flag=True, help="Do not ask for a confirmation.")(command)
    command = click.option("--dry-run", is_flag=True, help="Say what would happen to which executions, and change nothing.")(command)
    command = click.option("--since", metavar="TIME", help="With --all: only executions created in the last 30s, 1h, 2d.")(command)
    command = click.option("--prefix", default="", metavar="TEXT", help="With --all: only executions whose id has this prefix.")(command)
    command = click.option("--workflow", metavar="NAME", help="With --all: only executions of this workflow.")(command)
    return click.option(
        "--all", "everything", is_flag=True, help="In place of ids: all executions on which the command has an effect, or that these options select."
    )(command)


def where_option(help: str) -> Callable[[F], F]:
    """``--where``: conditions on attributes."""
    said = f"{help}: customer=c1, 'cents>=500', 'due<2026-01-31T12:00:00Z', or a name alone. Several must all hold; in one, || separates alternatives."
    return click.option("--where", metavar="CONDITION", multiple=True, help=said)


def status_option(command: F) -> F:
    """The statuses of a filter."""
    return click.option("--status", metavar="STATUS,...", help="With --all: only executions in one of these statuses.")(command)


def replacement_input(given: dict[str, Any]) -> list[Any] | dict[str, Any] | None:
    """The input that replaces another, by position or by name; None if there is none."""
    from perdure.cli import argument_values

    args, kwargs = argument_values.workflow_arguments(given, [])
    if args and kwargs:
        raise click.UsageError("give arguments by position or by name, not both")
    return args or kwargs or None


def refuse_options(names: Sequence[str], why: str) -> None:
    """Refuses those of the options and arguments `names`, as the function of the command calls them, that the command line has: they would do nothing."""
    from click.core import ParameterSource

    context = click.get_current_context()
    given = [one for one in context.command.params if one.name in names and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE]
    if given:
        raise click.UsageError(f"{why}; leave {', '.join(one.opts[0] for one in given)} out")


def json_option(command: F) -> F:
    """``--json``: the short form of ``-o json``."""
    return click.option("--json", "as_json", is_flag=True, help="The same as -o json.")(command)


def id_argument(command: F) -> F:
    """The id of one execution."""
    return click.argument("id", metavar="ID")(command)


def blobs_option(command: F) -> F:
    """The directory with the contents that definitions refer to."""
    said = "The directory with the contents that definitions refer to as cas://sha256:…, one file each, named like the reference."
    return click.option("--blobs", metavar="DIR", envvar="PERDURE_BLOBS", help=said)(command)


def environment_options(command: F) -> F:
    """Options for the deployment and the policy: which places steps may reach, what definitions may do, and the files that they refer to."""
    command = blobs_option(command)
    said = "A policy, which overrules definitions: who may start them, which tools and transitions they may use, and what needs an approval."
    command = click.option("--policy", metavar="FILE", envvar="PERDURE_POLICY", help=said)(command)
    said = "The names of models, and the provider of each."
    command = click.option("--models", metavar="FILE", envvar="PERDURE_MODELS", help=said)(command)
    said = "The working directory of bash steps, with a subdirectory for each execution."
    command = click.option("--work", metavar="DIR", envvar="PERDURE_WORK_DIRECTORY", help=said)(command)
    said = "What shell commands are isolated from: nothing, the network, or everything but their directory."
    command = click.option("--isolate", type=click.Choice(["none", "network", "all"]), default="none", envvar="PERDURE_ISOLATION", help=said)(command)
    said = "What steps may do beyond the default: bash, http:HOST for a private address, file:DIRECTORY for files below it. Separate several by commas."
    return click.option("--allow", multiple=True, metavar="WHAT", envvar="PERDURE_ALLOW", help=said)(command)
