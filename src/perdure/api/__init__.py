"""The HTTP API: an ASGI application made from the table of operations. It holds no rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.api.api_app import Authenticate, Endpoint
    from perdure.api.service_application import ServiceApplication
    from perdure.app import App
    from perdure.service.oidc import OidcSettings
    from perdure.stores.protocol import Store

__all__ = ["app"]


def app(
    source: App | Store | str | None = None,
    *,
    authenticate: Authenticate | None = None,
    oidc: OidcSettings | None = None,
    client_secret: str = "",
    secret: str | None = None,
    rate_per_s: float = 200.0,
    origins: Sequence[str] = (),
    public_url: str = "",
    console: bool = True,
    logs_url: str = "",
    mcp: bool | Endpoint = False,
) -> ServiceApplication:
    """Returns the HTTP API as an ASGI application, to be mounted in FastAPI or Starlette: ``web.mount("/flows", perdure.api.app(shop))``.

    `source` is an `App`, whose engine then begins what is started here, or a database: a URL, an open store, or by default `PERDURE_DB`. Frameworks do not
    open what is mounted in them, so pass its lifespan: ``FastAPI(lifespan=service.lifespan)``. It opens and closes the App or the database. Alone under an
    ASGI server, it opens and closes itself.

    Requests need a key that ``perdure keys create`` has made, a token of the issuer that `oidc` describes, or the session of a browser that has signed in at
    ``/login``. With `authenticate`, an async function from the request to a `Caller`, your application says who asks, and there is no sign-in.

    `secret` signs links of approvals and exports (default: `PERDURE_SIGNING_SECRET`). Each caller may send `rate_per_s` requests a second to this process
    (0: any number). Pages of the `origins` may use the API with a key; by default only those of the same origin. `public_url` is the address
    at which people reach what this is mounted in, for links of approvals. The web console is served below the same path, unless `console` is false.
    It links to the logs of an execution by the template `logs_url`, such as ``https://logs.example.com/?q={workflow}/{id}``.

    With `mcp`, models have the operations as tools at ``/mcp`` below the same path; a `McpEndpoint` says which workflows are tools of their own.

    Raises:
        BadValue: an option is invalid.
        MissingExtra: `oidc` is given, and the extra ``oidc`` is not installed.
    """
    from perdure.api.service_api import ServiceSettings
    from perdure.api.service_application import ServiceApplication
    from perdure.service.signing_secrets import environment_secrets

    secrets = environment_secrets() if secret is None else secret.encode()
    settings = ServiceSettings(oidc, client_secret, secrets, rate_per_s, origins=tuple(origins), public_url=public_url, console=console, logs_url=logs_url)
    if mcp is True:
        from perdure.mcp_server import McpEndpoint

        mcp = McpEndpoint()
    return ServiceApplication(source, settings, authenticate, mcp or None)
