"""`perdure dev`: an engine, a worker and the HTTP API in one process on this machine, which begins anew when a file is saved."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli import shared_options
from perdure.cli.call_recorder import recorded_servers
from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.hosted_definitions import catalog_option, folder_members, hosted_workflows, known_text
from perdure.cli.mcp_command import mcp_endpoint, mcp_options
from perdure.cli.root_command import CliCommand
from perdure.cli.run_commands import tool_options
from perdure.cli.shared_options import GlobalOptions

if TYPE_CHECKING:
    import socket
    import subprocess

    from perdure.api.loopback_access import DevServer
    from perdure.runtime.engine import Engine

DEV_PORT = 7788
WATCHED = frozenset((".py", ".yaml", ".yml", ".json", ".toml"))
DEFINITION_SUFFIXES = frozenset((".yaml", ".yml", ".json"))
LEFT_OUT = frozenset(("__pycache__", "node_modules", "build", "dist", "site-packages"))
"""Directories whose files are not watched, beside hidden ones."""

FILES_MAX = 5_000
"""How many files are watched."""

OPENED = "open.html"
"""The file by which a browser is led to the console, beside that with the URL and the token."""

LOOK_S = 0.3
"""The time between two looks at the files."""

RELOAD_GRACE_S = 10.0
"""How long steps in flight may take to end before the code is loaded anew; those that take longer are performed again."""

SOCKET_VARIABLE, TOKEN_VARIABLE, WATCHER_VARIABLE = "PERDURE_DEV_SOCKET", "PERDURE_DEV_TOKEN", "PERDURE_DEV_WATCHER"
"""How the process that serves receives its socket, the token, and a pipe that ends with the process that watches: all from that one."""


@click.command("dev", cls=CliCommand)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@tool_options
@shared_options.environment_options
@shared_options.observation_options
@catalog_option
@mcp_options
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Also perform the steps of this queue.")
@click.option("--port", type=click.IntRange(0, 65535), default=DEV_PORT, metavar="PORT", help=f"The port on this machine ({DEV_PORT}; 0: any that is free).")
@click.option("--no-reload", is_flag=True, help="Do not begin anew when a file is saved.")
@click.option("--open", "opens", is_flag=True, help="Open the console in a browser.")
@click.pass_obj
def dev(settings: GlobalOptions, /, *, targets: tuple[str, ...], port: int, no_reload: bool, opens: bool, queues: tuple[str, ...], **given: Any) -> None:
    """Run workflows and definitions with an HTTP API, on this machine alone, while you write them.

    Targets are those of perdure worker: name the files that define your workflows. When a file is saved, the code is loaded anew; executions go on where they
    were, and no step that has ended is performed again.

    A target may also be a directory of definitions: each file is published to the catalog, and again when it is saved, without loading the code anew.

    It prints the address of the console, with the token that the API needs, which is a new one at each start. Commands on the same directory find both:
    perdure ls --server dev.
    """
    if SOCKET_VARIABLE in os.environ:
        serve_here(settings, targets, queues, given)
        return
    import secrets

    from perdure.api.api_server import listening_socket, url_of
    from perdure.api.loopback_access import DEV_FILE, DevServer, remove_dev_server, write_dev_server

    _ = settings.database()
    listening, token = listening_socket("127.0.0.1", port, "--port"), secrets.token_urlsafe(24)
    server = DevServer(url_of(listening), token)
    environment = {**os.environ, SOCKET_VARIABLE: str(listening.fileno()), TOKEN_VARIABLE: token}
    stopped = caught_signals()  # from before the file is there: a signal that ended this process at once would leave the token behind
    try:
        write_dev_server(DEV_FILE, server)
    except OSError as error:
        raise CommandExit(
            ExitCode.INPUT,
            f"can't write {DEV_FILE}, which has the address and the token for other commands: {error.strerror}\nbegin in a directory that this user may write",
        ) from error
    try:
        click.echo(server.page)
        if opens:
            open_browser(DEV_FILE.with_name(OPENED), server)
        code = watch(listening, environment, places_of(targets), folders_of(targets), stopped, reloads=not no_reload)
    finally:
        remove_dev_server(DEV_FILE, server)
        DEV_FILE.with_name(OPENED).unlink(missing_ok=True)
    click.get_current_context().exit(code if code >= 0 else 128 - code)  # that of a process which a signal has killed is negative here


def open_browser(file: Path, server: DevServer) -> None:
    """Opens the console in a browser, by way of a file that leads there: on the command line of a browser, others of this machine could read the token."""
    import threading
    import webbrowser

    from perdure.api.loopback_access import write_private_file

    write_private_file(file, f'<!doctype html><title>Perdure</title><meta http-equiv="refresh" content="0; url={server.page}">\n')

    def opened() -> None:
        if not webbrowser.open(file.resolve().as_uri()):
            click.echo("perdure: there is no browser here that can be opened", err=True)

    threading.Thread(target=opened, name="perdure-browser", daemon=True).start()  # a browser for terminals would keep this process waiting


def places_of(targets: tuple[str, ...]) -> list[Path]:
    """Returns the directories to watch: this one, and those of the targets that are files elsewhere."""
    found = [Path.cwd()]
    for target in targets:
        file = Path(target.partition(":")[0]).resolve()
        if file.exists() and not file.is_relative_to(found[0]):
            found.append(file.parent if file.is_file() else file)
    return found


def folders_of(targets: tuple[str, ...]) -> list[Path]:
    """Returns the targets that are folders of definitions."""
    return [Path(target).resolve() for target in targets if Path(target).is_dir()]


def caught_signals() -> list[int]:
    """Returns a list to which each signal that asks this process to stop is added, from now on."""
    import signal

    caught = list[int]()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda found, _: caught.append(found))
    return caught


def watch(listening: socket.socket, environment: dict[str, str], places: list[Path], folders: list[Path], stopped: list[int], *, reloads: bool) -> int:
    """Runs the process that serves, again whenever a file was saved, until there is a signal in `stopped`; returns its exit code. It never misses a request:
    the socket stays open here, and requests are answered with an error while the code does not load.
    """
    import subprocess

    from perdure.api.problems import Refusal
    from perdure.api.unavailable_answers import answer_unavailable

    said = "perdure dev serves nothing at present: its code could not be loaded, or has failed. Its terminal says why"
    has_ended = Refusal(503, "store_unavailable", said, "correct the code and save the file; then repeat the request")
    command = [sys.executable, "-m", "perdure.cli", *sys.argv[1:]]
    pipe, _held = os.pipe()  # only this process has the other end, and never closes it: the pipe ends with this process, even if that is killed
    environment = {**environment, WATCHER_VARIABLE: str(pipe)}
    while True:
        if stopped:
            return 0
        before = saved_files(places, folders)
        child = subprocess.Popen(command, env=environment, pass_fds=(listening.fileno(), pipe), start_new_session=True)
        changed = list[Path]()
        while child.poll() is None and not stopped and not changed:
            time.sleep(LOOK_S)
            changed = changed_files(before, saved_files(places, folders)) if reloads else []
        if child.poll() is not None and not stopped and reloads and child.returncode:
            click.echo("it has ended; save a file to begin anew, or press Ctrl-C", err=True)
            while not stopped and not (changed := changed_files(before, saved_files(places, folders))):
                answer_unavailable(listening, LOOK_S, has_ended)
        ended = end(child, stopped)
        if stopped or not changed:
            return 0 if stopped else ended
        click.echo(f"{changed[0].name} was saved; loading the code anew")


def end(child: subprocess.Popen[bytes], stopped: list[int]) -> int:
    """Ends the process that serves, with the grace of a worker; a second signal ends it at once."""
    from subprocess import TimeoutExpired

    if child.poll() is None:
        child.terminate()
    asked = len(stopped)
    while True:
        try:
            return child.wait(LOOK_S)
        except TimeoutExpired:
            if len(stopped) > max(asked, 1):
                child.kill()


def saved_files(places: list[Path], folders: list[Path]) -> dict[Path, tuple[int, int]]:
    """Returns the watched files with their times and sizes. The definitions in `folders` are left out, since they are synced without loading the code anew."""
    found: dict[Path, tuple[int, int]] = {}
    for file in (file for place in places for file in _files(place)):
        if file.suffix in DEFINITION_SUFFIXES and any(file.is_relative_to(folder) for folder in folders):
            continue
        try:
            known = file.stat()
        except OSError:  # it was removed meanwhile
            continue
        found[file] = (known.st_mtime_ns, known.st_size)
        if len(found) >= FILES_MAX:
            break
    return found


def _files(place: Path) -> Iterator[Path]:
    for directory, inner, names in os.walk(place):
        inner[:] = [name for name in inner if not name.startswith(".") and name not in LEFT_OUT]
        yield from (Path(directory, name) for name in names if Path(name).suffix in WATCHED)


def changed_files(before: dict[Path, tuple[int, int]], now: dict[Path, tuple[int, int]]) -> list[Path]:
    """Returns the files that are new, other than before, or gone."""
    return sorted(file for file in before.keys() | now.keys() if before.get(file) != now.get(file))


def serve_here(settings: GlobalOptions, targets: tuple[str, ...], queues: tuple[str, ...], given: dict[str, Any]) -> None:
    """Serves in this process, on the socket that it was given, until a signal."""
    import asyncio
    import socket

    from perdure.api.api_app import ApiApp
    from perdure.api.api_server import ApiServer
    from perdure.api.console_pages import ConsolePages
    from perdure.api.loopback_access import LoopbackAccess
    from perdure.api.webhook_routes import WebhookRoutes
    from perdure.cli.targets import served_code
    from perdure.observe.observation import has_prometheus, observation_of
    from perdure.runtime.server import serve
    from perdure.runtime.task_broker import TaskBroker
    from perdure.service.secrets.secret_resolver import secret_resolver_for
    from perdure.service.server_description import ServerDescription, package_version
    from perdure.service.service_workflows import engine_options
    from perdure.service.signing_secrets import environment_secrets
    from perdure.service.store_access import StoreAccess
    from perdure.service.triggers.clock_watch import ClockWatch
    from perdure.stores.protocol import Store

    folders, targets = folders_of(targets), tuple(target for target in targets if not Path(target).is_dir())
    listening, token = socket.socket(fileno=int(os.environ.pop(SOCKET_VARIABLE))), os.environ.pop(TOKEN_VARIABLE)
    code, db, codec, queues = served_code(settings, targets, queues, given)
    settings.log("perdure", (token,))
    end_with_watcher(int(os.environ.pop(WATCHER_VARIABLE)))
    observation = observation_of(given, shows_metrics=has_prometheus())
    recorded = recorded_servers(given)

    def api(store: Store, engine: Engine | None) -> ApiServer:
        secret = environment_secrets() or token.encode()  # without a secret of its own, what it signs holds until it ends
        broker = TaskBroker(store, None, threaded=True, secrets=secret_resolver_for(store))
        shown: dict[str, Any] = {"broker": broker, "observer": observation.observer, "metrics": observation.exposition(store)}
        shown["facts"] = ServerDescription(version=package_version(), started_at_s=time.time(), roles=("api", "engine", "worker"), settings={"mode": "dev"})
        access = StoreAccess(store, engine)
        shown |= {"webhooks": WebhookRoutes(access), "console": ConsolePages(("token",)), "mcp": mcp_endpoint(given, recorded)}
        app = ApiApp(access, LoopbackAccess(token, settings.tenant), secret=secret, **shown)
        return ApiServer(app, listening)

    def ready(engine: Engine | None) -> None:
        click.echo(f"ready; it knows {'no workflow' if engine is None else known_text(engine)}")

    how: dict[str, Any] = {"queues": queues, "declares": code.queues, "db": db, "codec": codec, "grace_s": RELOAD_GRACE_S}
    workflows = [*(one.code for one in code.workflows), *hosted_workflows(code, given), *([] if recorded is None else [recorded.workflow])]
    watch = partial(ClockWatch, workflows=workflows, tenant=settings.tenant)
    listeners = (*observation.listeners, watch, *folder_members(folders, settings.tenant))
    how |= {"observer": observation.observer, "listeners": listeners, "engine_options": engine_options}
    asyncio.run(serve(workflows, code.steps, **how, ready=ready, secrets=secret_resolver_for, beside=api))


def end_with_watcher(pipe: int) -> None:
    """Ends this process as by a signal when the process that watches has ended, of whose pipe this is the reading end."""
    import signal
    import threading

    os.set_inheritable(pipe, False)

    def wait() -> None:
        _ = os.read(pipe, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="perdure-dev-watcher", daemon=True).start()
