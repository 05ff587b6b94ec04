"""Makes the clients of HTTP, except for steps that send requests (see `guarded_network`): which proxies and which certificate authorities they use.

Both are variables of the environment: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR. One that is not usable is an error that
names it. Values of proxies are not shown: they may hold a password.
"""

from __future__ import annotations

import os
import ssl
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from perdure.core.errors import BadValue
from perdure.core.header_values import may_use_proxy

if TYPE_CHECKING:
    import httpx2

PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")

WITHOUT_PROXY = {"http://localhost": None, "http://127.0.0.0/8": None, "http://[::1]/128": None}
"""What `may_use_proxy` says, in the form that a client takes which asks several servers."""


def http_client(url: str = "", **given: Any) -> httpx2.AsyncClient:
    """Returns a client that follows `may_use_proxy`, with what is `given` of the arguments of the library's client.

    `url` is that of the only server that it asks. If no proxy may be used for it, the variables of the environment do not matter. Without `url`, it may
    ask several servers.

    Raises:
        BadValue: a variable of the environment is not usable.
    """
    import httpx2

    if given.get("transport") is not None:
        return httpx2.AsyncClient(**given)
    if url and not may_use_proxy(url):
        return httpx2.AsyncClient(trust_env=False, **given)
    _check_proxies()
    return httpx2.AsyncClient(verify=trusted_authorities(), mounts=WITHOUT_PROXY, **given)


def trusted_authorities() -> ssl.SSLContext:
    """Returns the certificate authorities of the system, or of the files that the environment names.

    Raises:
        BadValue: a variable of the environment is not usable.
    """
    from httpx2 import create_ssl_context

    try:
        return create_ssl_context()
    except OSError as error:
        if (variable := _unusable_file()) is None:
            raise
        name, advice = variable
        reason = error.strerror or str(error)
        message = f"{name}={os.environ[name]} can't be used: {reason}. {advice}"
        raise BadValue(name, os.environ[name], "usable", message) from error


def _unusable_file() -> tuple[str, str] | None:
    """Returns the variable because of which no certificate authorities were read, and what to do; None if it is none of the environment."""
    if (file := os.environ.get("SSL_CERT_FILE")) is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
        except OSError:
            return "SSL_CERT_FILE", "Let it name a file with the certificates of authorities in PEM, or unset it"
    if os.environ.get("SSLKEYLOGFILE"):
        return "SSLKEYLOGFILE", "Let it name a file that can be written, or unset it"
    return None


def _check_proxies() -> None:
    """Raises `BadValue` for a proxy of the environment that is not usable. The library refuses some of them, and fails to find the host of others."""
    from urllib.request import getproxies  # here, as it takes long to import

    proxies = getproxies()
    for scheme in ("http", "https", "all"):
        if (value := proxies.get(scheme)) and (flaw := _proxy_flaw(value)):
            name = f"{scheme}_proxy" if os.environ.get(f"{scheme}_proxy") else f"{scheme}_proxy".upper()
            advice = "Set it to the URL of a proxy, such as http://proxy.example.com:3128, or unset it"
            raise BadValue(name, "***", "usable", f"{name} can't be used: {flaw}. {advice}")


def _proxy_flaw(value: str) -> str:
    """Returns why a proxy is not usable; empty if it is."""
    import httpx2

    url = value if "://" in value else f"http://{value}"
    scheme = url.partition("://")[0].lower()
    if scheme not in PROXY_SCHEMES:
        return f"its scheme is none of {', '.join(PROXY_SCHEMES)}"
    try:
        parts, _ = urlsplit(url), httpx2.Proxy(url).raw_auth
        if not parts.hostname or parts.port == 0:
            return "it has no host, or the port 0"
    except (ValueError, httpx2.InvalidURL):  # their texts may quote a password
        return "it is not a URL"
    if scheme.startswith("socks") and find_spec("socksio") is None:
        return f'the scheme {scheme} needs socksio, which is not installed (pip install "httpx2[socks]")'
    return ""
