"""The API of a service, with all that it needs on a store: who sends a request, the sign-in of browsers, limits of rates, and the headers of answers."""

import asyncio
import logging
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure.api.answer_headers import AnswerHeaders
from perdure.api.api_app import ApiApp, Authenticate, Endpoint
from perdure.api.api_server import ApiServer
from perdure.api.console_pages import ConsolePages
from perdure.api.log_links import checked_logs_url
from perdure.api.server_access import ServerAccess
from perdure.api.sign_in import OidcSignIn, SignIn
from perdure.api.webhook_routes import WebhookRoutes
from perdure.core.errors import BadValue, StoreError
from perdure.definitions.kinds.http.http_client import http_client
from perdure.observe.observation import UNOBSERVED, ProcessObservation
from perdure.runtime.task_broker import TaskBroker
from perdure.service.active_limits import UNLIMITED_PEOPLE, ActiveLimits
from perdure.service.oidc import OidcSettings, OidcVerifier
from perdure.service.people.signed_links import checked_public_url
from perdure.service.rate_limits import RateLimiter
from perdure.service.secrets.secret_resolver import secret_resolver_for
from perdure.service.server_description import ServerDescription, package_version
from perdure.service.store_access import StoreAccess

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger("perdure.api")

RATE_PER_S = 200.0
"""How many requests a second each caller may send to a process, unless the service is set up otherwise."""
BURST_S = 2.0
"""So many seconds' worth of requests may come at once."""


class ServiceSettings(NamedTuple):
    """How a service is set up. `secret` signs links and exports; `rate_per_s` limits the requests of each caller to this process (0: not at all), and
    `active_limits` how many executions that people have started may be in progress.

    `origins` are those of pages elsewhere that may use the API, `root_path` is the path below which a proxy publishes it, and
    `public_url` the address at which people reach it, for links. `logs_url` is the template of the address at which its logs are read. The
    `observation` of the process counts and traces requests; `roles` are the parts of the process. With `console`, the web page is served.
    """

    oidc: OidcSettings | None = None
    client_secret: str = ""
    secret: bytes = b""
    rate_per_s: float = RATE_PER_S
    active_limits: ActiveLimits = UNLIMITED_PEOPLE
    origins: tuple[str, ...] = ()
    root_path: str = ""
    public_url: str = ""
    observation: ProcessObservation = UNOBSERVED
    roles: tuple[str, ...] = ()
    console: bool = True
    logs_url: str = ""


DEFAULTS = ServiceSettings()


class ServiceApi:
    """The API of a service on a store. `app` answers requests; `run` writes the last uses of keys until it is cancelled.

    With `authenticate`, that says who asks, and neither keys nor a sign-in are for this API. `mcp` answers at ``/mcp``.

    Raises:
        MissingExtra: the settings have an issuer, and the libraries of the extra ``oidc`` are not installed.
        BadValue: a setting is invalid.
    """

    def __init__(
        self, access: StoreAccess, settings: ServiceSettings = DEFAULTS, authenticate: Authenticate | None = None, mcp: Endpoint | None = None
    ) -> None:
        self._keys = access.keys
        self._client: httpx2.AsyncClient | None = None
        oidc: OidcSignIn | None = None
        if settings.oidc is not None:
            oidc = self._issuer(settings.oidc, settings.client_secret)
        server = ServerAccess(access.keys, access.sessions, None if oidc is None else oidc.verifier)
        sign_in = SignIn(access.store, server, oidc, after="/" if settings.console else "/login") if authenticate is None else None
        self.app = ApiApp(
            access,
            authenticate or server,
            secret=settings.secret,
            limiter=RateLimiter(settings.rate_per_s, max(round(settings.rate_per_s * BURST_S), 1)) if settings.rate_per_s else None,
            active_limits=settings.active_limits,
            pages=sign_in,
            console=ConsolePages(() if sign_in is None else sign_in.ways) if settings.console else None,
            webhooks=WebhookRoutes(access),
            mcp=mcp,
            headers=AnswerHeaders(settings.origins),
            root_path=checked_root_path(settings.root_path),
            public_url=checked_public_url(settings.public_url, "--public-url"),
            observer=settings.observation.observer,
            metrics=settings.observation.exposition(access.store),
            broker=TaskBroker(access.store, None, threaded=True, secrets=secret_resolver_for(access.store)),
            facts=_facts(settings),
        )

    def _issuer(self, settings: OidcSettings, client_secret: str) -> OidcSignIn:
        from perdure.service.issuer_keys import expect_libraries

        expect_libraries()
        self._client = http_client(settings.issuer, follow_redirects=False)
        return OidcSignIn(OidcVerifier(settings, self._client), self._client, client_secret)

    async def run(self) -> None:
        """Writes the last uses of keys in the background, until it is cancelled; then the last of them, and closes connections to the issuer."""
        try:
            await self._keys.run()
        finally:
            await self._close()

    async def _close(self) -> None:
        await self.app.aclose()
        try:
            await self._keys.flush()
        except StoreError as error:
            logger.warning("the last uses of keys in the last minute are not known: %s", error)
        if self._client is not None:
            await self._client.aclose()


def _facts(settings: ServiceSettings) -> ServerDescription:
    """Returns what a service says of itself: settings that people ask for, and of secrets only whether there are any."""
    shown: dict[str, Any] = {
        "publicUrl": settings.public_url,
        "rootPath": settings.root_path,
        "corsOrigins": list(settings.origins),
        "oidcIssuer": "" if settings.oidc is None else settings.oidc.issuer,
        "signsLinks": bool(settings.secret),
        "rateLimitPerSecond": settings.rate_per_s,
        "activePerPerson": settings.active_limits.per_person,
        "activeOfPeople": settings.active_limits.in_all,
    }
    return ServerDescription(
        version=package_version(), started_at_s=time.time(), roles=settings.roles, settings=shown, logs_url=checked_logs_url(settings.logs_url)
    )


class ServiceServer:
    """Serves the API of a service on a socket, as a member of a process. `settings` are those of uvicorn.

    Raises:
        MissingExtra: uvicorn is not installed.
    """

    def __init__(self, service: ServiceApi, listening: socket.socket, **settings: Any) -> None:
        self._service, self._server = service, ApiServer(service.app, listening, **settings)

    async def run(self) -> None:
        """Serves until cancelled or stopped."""
        keeping = asyncio.create_task(self._service.run())
        try:
            await self._server.run()
        finally:
            keeping.cancel()
            _ = await asyncio.gather(keeping, return_exceptions=True)
            await self._service.app.access.aclose()

    async def ready(self) -> None:
        """Waits until requests are answered."""
        await self._server.ready()

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return: no connection is accepted any more, long requests that can be repeated end, and others may end within `grace_s`."""
        self._server.stop(grace_s)


def checked_root_path(text: str) -> str:
    """Returns the path below which a proxy publishes a service.

    Raises:
        BadValue: it is no path.
    """
    if text and (not text.startswith("/") or text.endswith("/") or "//" in text or "?" in text or "#" in text or not text.isprintable()):
        raise BadValue("root path", text, "a path that begins with / and does not end with one, such as /perdure")
    return text


def read_oidc_settings(file: Path) -> OidcSettings:
    """Reads whose tokens are accepted, and what their groups may do, from a file of TOML.

    Raises:
        BadValue: it can't be read, or a setting is invalid.
    """
    try:
        return msgspec.toml.decode(file.read_bytes(), type=OidcSettings)
    except OSError as error:
        raise BadValue("--oidc", str(file), f"a file that can be read: {error.strerror}") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadValue("--oidc", str(file), f"TOML with issuer, audiences and grants: {error}") from error
