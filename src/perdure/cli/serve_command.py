"""`perdure serve`: an engine, a worker and the HTTP API in one process, where each request needs a key, a token or a session."""

from __future__ import annotations

import logging
import os
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
from perdure.cli.run_commands import LEASE_S_MIN, tool_options
from perdure.cli.shared_options import GlobalOptions

if TYPE_CHECKING:
    from perdure.api.service_api import ServiceServer, ServiceSettings
    from perdure.recording_proxy.recorded_servers import RecordedServers
    from perdure.runtime.engine import Engine
    from perdure.stores.payload_codec import PayloadCodec
    from perdure.stores.protocol import Store

logger = logging.getLogger("perdure.serve")

LISTEN = "127.0.0.1:7788"
ROLES = ("api", "engine", "worker")
NO_KEY = "there is no key yet, so nobody could use the service\nmake the first one: perdure keys create NAME --admin; or name an issuer: --oidc FILE"


@click.command("serve", cls=CliCommand)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@tool_options
@shared_options.environment_options
@shared_options.observation_options
@catalog_option
@mcp_options
@click.option("--watch", "folders", multiple=True, metavar="DIR", envvar="PERDURE_WATCH", help="Keep this folder of definitions in step with the catalog.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Also perform the steps of this queue.")
@click.option("--listen", default=LISTEN, show_default=True, envvar="PERDURE_LISTEN", metavar="HOST:PORT", help="Where the API answers; port 0: any free one.")
@click.option("--role", "roles", default=",".join(ROLES), show_default=True, envvar="PERDURE_ROLE", metavar="ROLE,...", help="The parts that this process has.")
@click.option("--tls-cert", envvar="PERDURE_TLS_CERT", metavar="FILE", help="The certificate chain, in PEM: the API then answers over TLS alone.")
@click.option("--tls-key", envvar="PERDURE_TLS_KEY", metavar="FILE", help="The private key of the certificate, in PEM.")
@click.option("--public-url", default="", envvar="PERDURE_PUBLIC_URL", metavar="URL", help="The address at which people reach the API, for links of approvals.")
@click.option("--logs-url", default="", envvar="PERDURE_LOGS_URL", metavar="TEMPLATE", help="Where logs are read, for links: https://logs.example.com/?q={id}.")
@click.option("--root-path", default="", envvar="PERDURE_ROOT_PATH", metavar="PATH", help="The path below which a proxy publishes the API, such as /perdure.")
@click.option("--forwarded-allow-ips", envvar="PERDURE_FORWARDED_ALLOW_IPS", metavar="IP,...", help="Proxies whose X-Forwarded-For and -Proto are believed.")
@click.option(
    "--cors", "origins", multiple=True, envvar="PERDURE_CORS", metavar="ORIGIN", help="Pages of this origin may use the API, with a key. Several may be given."
)
@click.option("--no-console", is_flag=True, envvar="PERDURE_NO_CONSOLE", help="Do not serve the web console.")
@click.option("--oidc", envvar="PERDURE_OIDC", metavar="FILE", help="TOML with the OpenID Connect issuer, and the roles of its groups (docs/guides/serve.md).")
@click.option(
    "--rate-limit",
    type=click.FloatRange(0),
    default=200.0,
    show_default=True,
    envvar="PERDURE_RATE_LIMIT",
    help="Requests a second of each caller; 0: any number.",
)
@click.option(
    "--active-per-person",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    envvar="PERDURE_ACTIVE_PER_PERSON",
    help="How many executions that one person has started may be in progress; 0: any number. Keys are those of programs, and not limited.",
)
@click.option(
    "--active-of-people",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    envvar="PERDURE_ACTIVE_OF_PEOPLE",
    help="The same for all people together.",
)
@click.option(
    "--grace",
    envvar="PERDURE_GRACE",
    metavar="TIME",
    help="How long requests and steps may take to end after a stop signal; 30s, unless an App says otherwise.",
)
@click.option("--lease", default="15s", metavar="TIME", help="On a server, others take over after this time if the process is killed; at least 1s.")
@click.pass_obj
def serve(settings: GlobalOptions, /, *, targets: tuple[str, ...], queues: tuple[str, ...], roles: str, **given: Any) -> None:
    """Serve the HTTP API, run workflows and definitions, and perform the steps of queues, until stopped.

    Targets are as for perdure worker; definitions of the catalog may use their steps. Every request needs a key (perdure keys create), a token of the issuer of
    --oidc, or a session that was begun at /login, on this machine too. Several processes may serve one database, and --role gives each a part of the work.

    SIGTERM or Ctrl-C stops it gracefully: no connection is accepted any more, requests under way are answered, and steps in flight may end. A second signal
    stops it at once. Nothing that was acknowledged is lost either way.
    """
    import asyncio

    from perdure.cli.targets import served_code
    from perdure.code.durations import duration_seconds
    from perdure.observe.observation import has_prometheus, observation_of
    from perdure.runtime.server import SHUTDOWN_GRACE_S
    from perdure.runtime.server import serve as served
    from perdure.service.secrets.secret_resolver import secret_resolver_for
    from perdure.service.service_workflows import engine_options
    from perdure.service.triggers.clock_watch import ClockWatch

    parts = _checked_roles(roles)
    _expect_folders(given["folders"])
    found = served_code(settings, targets, queues, given)
    if (lease_s := duration_seconds(given["lease"], "--lease")) < LEASE_S_MIN:
        raise click.UsageError(f"--lease {given['lease']} is too short: a busy process would count as dead. It is at least {LEASE_S_MIN:g}s.")
    grace_s = max((app.grace_s for app in found.code.apps), default=SHUTDOWN_GRACE_S) if given["grace"] is None else duration_seconds(given["grace"], "--grace")
    settings.log("perdure")
    observation = observation_of(given, shows_metrics="api" in parts and has_prometheus())
    recorded = recorded_servers(given)
    api = _ApiOfProcess(service_settings(given)._replace(observation=observation, roles=tuple(sorted(parts))), given, recorded) if "api" in parts else None
    if api is not None and api.settings.oidc is None:
        asyncio.run(expect_key(settings, found.db, found.codec))

    def ready(engine: Engine | None) -> None:
        knows = "" if engine is None else known_text(engine)
        click.echo(api.url if api is not None else f"engine {engine.holder} knows {knows}; Ctrl-C stops it" if engine is not None else "a worker is ready")
        if api is not None and engine is not None:
            logger.info("the engine knows %s", knows)
        if api is not None and api.settings.console:
            logger.info("the console is at %s/", api.settings.public_url or api.url)

    how: dict[str, Any] = {"queues": found.queues if "worker" in parts else (), "declares": found.code.queues, "db": found.db, "codec": found.codec}
    how |= {"grace_s": grace_s, "lease_s": lease_s, "secrets": secret_resolver_for, "has_engine": "engine" in parts}
    workflows = [*(one.code for one in found.code.workflows), *hosted_workflows(found.code, given), *([] if recorded is None else [recorded.workflow])]
    members = folder_members(map(Path, given["folders"]), settings.tenant)
    listeners = (*observation.listeners, partial(ClockWatch, workflows=workflows, tenant=settings.tenant), *members)
    how |= {"observer": observation.observer, "listeners": listeners, "engine_options": engine_options}
    if not parts - {"worker"} and not how["queues"]:
        raise click.UsageError("a worker needs queues: name them with --queue")
    asyncio.run(served(workflows, found.code.steps, **how, ready=ready, beside=None if api is None else api.server))


def _expect_folders(folders: tuple[str, ...]) -> None:
    if missing := [one for one in folders if not Path(one).is_dir()]:
        raise CommandExit(ExitCode.INPUT, f"--watch {missing[0]} is not a directory\nname one with definitions in it")


class _ApiOfProcess:
    """The API of this process, on a socket that is open before the database is."""

    def __init__(self, settings: ServiceSettings, given: dict[str, Any], recorded: RecordedServers | None) -> None:
        from perdure.api.api_server import listening_socket, url_of
        from perdure.tasks.http_endpoint import parse_listen_address

        self._mcp = mcp_endpoint(given, recorded)
        self.settings, self._server_settings = settings, tls_settings(given["tls_cert"], given["tls_key"])
        if given["forwarded_allow_ips"]:
            self._server_settings |= {"proxy_headers": True, "forwarded_allow_ips": checked_proxies(given["forwarded_allow_ips"])}
        self._listening = listening_socket(*parse_listen_address(given["listen"]))
        self.url = url_of(self._listening, "https" if given["tls_cert"] else "http") + settings.root_path

    def server(self, store: Store, engine: Engine | None) -> ServiceServer:
        """Returns what serves it."""
        from perdure.api.service_api import ServiceApi, ServiceServer
        from perdure.service.store_access import StoreAccess

        return ServiceServer(ServiceApi(StoreAccess(store, engine), self.settings, mcp=self._mcp), self._listening, **self._server_settings)


def _checked_roles(text: str) -> frozenset[str]:
    found = frozenset(one.strip() for one in text.split(","))
    if unknown := found - set(ROLES):
        raise click.UsageError(f"--role {text}: {min(unknown)!r} is no part of a process; the parts are {', '.join(ROLES)}")
    return found


def service_settings(given: dict[str, Any]) -> ServiceSettings:
    """Returns how the service is set up by the options and the environment; secrets are in the latter alone."""
    from perdure.api.service_api import ServiceSettings, checked_root_path, read_oidc_settings
    from perdure.service.active_limits import ActiveLimits
    from perdure.service.people.signed_links import checked_public_url
    from perdure.service.signing_secrets import environment_secrets

    return ServiceSettings(
        oidc=None if given["oidc"] is None else read_oidc_settings(Path(given["oidc"])),
        client_secret=os.environ.get("PERDURE_OIDC_CLIENT_SECRET", ""),
        secret=environment_secrets(),
        rate_per_s=given["rate_limit"],
        active_limits=ActiveLimits(given["active_per_person"], given["active_of_people"]),
        origins=given["origins"],
        root_path=checked_root_path(given["root_path"]),
        public_url=checked_public_url(given["public_url"], "--public-url"),
        console=not given["no_console"],
        logs_url=given["logs_url"],
    )


def tls_settings(cert: str | None, key: str | None) -> dict[str, Any]:
    """Returns how the server answers over TLS; nothing without a certificate.

    Raises:
        BadValue: the files are no certificate with its key.
    """
    import ssl

    from perdure.core.errors import BadValue

    if (cert is None) != (key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together; pass both")
    if cert is None or key is None:
        return {}
    for option, path in (("--tls-cert", cert), ("--tls-key", key)):
        try:
            Path(path).open("rb").close()
        except OSError as error:
            raise BadValue(option, path, f"a file in PEM that can be read: {error.strerror or error}") from error
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key, password=lambda: b"")
    except (OSError, ssl.SSLError) as error:
        raise BadValue("--tls-cert", cert, f"a certificate chain in PEM whose key, without a passphrase, is in {key}: {error}") from error
    return {"ssl_certfile": cert, "ssl_keyfile": key}


def checked_proxies(text: str) -> list[str]:
    """Returns the addresses and networks of proxies that are believed, or ``*`` alone.

    Raises:
        BadValue: one is no address and no network, such as the name of a host: the server compares addresses, so it would have no effect.
    """
    from ipaddress import ip_address, ip_network

    from perdure.core.errors import BadValue

    proxies = [one.strip() for one in text.split(",")]
    for one in proxies if proxies != ["*"] else ():
        try:
            _ = ip_network(one) if "/" in one else ip_address(one)
        except ValueError as error:
            message = f"a list of addresses and networks, such as 127.0.0.1,10.0.0.0/8, or * for every proxy: {error}"
            raise BadValue("--forwarded-allow-ips", text, message) from error
    return proxies


async def expect_key(settings: GlobalOptions, db: str | Store | None, codec: PayloadCodec | None) -> None:
    """Ends the command if the database has no key: a service that nobody could use does not begin, and none is made up for it.

    Whether it has one is not known while the database is unavailable. The service then begins, and waits for it as all processes do.
    """
    from perdure.core.errors import StoreUnavailable
    from perdure.service.access_keys import has_valid_key
    from perdure.stores.configured_store import database_file, opened_store

    if isinstance(db, str | None) and (file := database_file(settings.url())) and not file.is_file():
        raise CommandExit(ExitCode.INPUT, NO_KEY)
    try:
        async with opened_store(db, codec) as store:
            has_key = await has_valid_key(store)
    except StoreUnavailable:
        return
    if not has_key:
        raise CommandExit(ExitCode.INPUT, NO_KEY)
