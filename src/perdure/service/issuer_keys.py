"""The public keys of an OIDC issuer: fetched over HTTP, kept, and fetched again when they are old or a token names a key that is not among them.

Tokens can't make this process flood the issuer: it is asked at most once in `ASKED_EVERY_S`, and after failures less and less often. While it does not
answer, the keys that are known serve for a day.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from perdure.core.error_text import exception_summary
from perdure.core.errors import IssuerUnavailable, MissingExtra
from perdure.core.header_values import is_loopback

if TYPE_CHECKING:
    import httpx2
    from jwt import PyJWK

T = TypeVar("T")

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""The algorithms that are accepted: those whose verifier can't sign."""

FRESH_S = 600.0
"""Keys of this age are fetched again, while they serve: so long a key that the issuer has withdrawn may still be accepted."""
STALE_S = 86_400.0
"""Keys of this age serve no longer."""
ASKED_EVERY_S = 10.0
BACK_OFF_MAX_S = 60.0
TIMEOUT_S = 5.0
DOCUMENT_BYTES_MAX = 512 * 1024

DISCOVERY_PATH = "/.well-known/openid-configuration"


class OidcEndpoints(msgspec.Struct, frozen=True, rename={"keys": "jwks_uri", "authorization": "authorization_endpoint", "token": "token_endpoint"}):
    """What an issuer publishes about itself. The last two are empty where it only makes tokens for programs."""

    issuer: str
    keys: str
    authorization: str = ""
    token: str = ""


def expect_libraries() -> None:
    """Checks that the libraries of the extra are installed.

    Raises:
        MissingExtra: they are not.
    """
    try:
        import cryptography  # noqa: F401  # PyJWT imports it where it is needed
        import httpx2  # noqa: F401  # the same
        import jwt  # noqa: F401  # the same
    except ImportError as missing:
        raise MissingExtra("sign-in by OpenID Connect", missing.name or "PyJWT", "oidc") from None


def is_safe_url(url: str) -> bool:
    """Whether an issuer may be asked at a URL: over TLS, or on this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return bool(host) and (url.startswith("https://") or (url.startswith("http://") and is_loopback(host)))
    except ValueError:  # of an address, or of a URL that is none
        return False


async def fetched_document(client: "httpx2.AsyncClient", url: str, type: type[T]) -> T:
    """A JSON document of an issuer.

    Raises:
        IssuerUnavailable: there was no answer in time, or another one.
    """
    if not is_safe_url(url):
        raise IssuerUnavailable(url, "it is no https URL")
    import httpx2

    try:
        response = await client.get(url, headers={"accept": "application/json"}, timeout=TIMEOUT_S)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise IssuerUnavailable(url, exception_summary(error)) from error
    return read_answer(response, url, type)


def read_answer(response: "httpx2.Response", url: str, type: type[T]) -> T:
    """The JSON document in an answer of an issuer.

    Raises:
        IssuerUnavailable: the status is not 200, or the body is another one.
    """
    if response.status_code != 200:
        raise IssuerUnavailable(url, f"HTTP {response.status_code}")
    if len(response.content) > DOCUMENT_BYTES_MAX:
        raise IssuerUnavailable(url, f"the answer has {len(response.content):,} bytes, more than {DOCUMENT_BYTES_MAX:,}")
    try:
        return msgspec.json.decode(response.content, type=type)
    except msgspec.MsgspecError as error:
        raise IssuerUnavailable(url, f"the answer is not the expected JSON: {error}") from error


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


class _Known(NamedTuple):
    endpoints: OidcEndpoints
    keys: "list[PyJWK]"
    at_s: float


class IssuerKeys:
    """The endpoints and the keys of one issuer. `clock` is a monotonic one."""

    def __init__(self, issuer: str, client: "httpx2.AsyncClient", clock: Callable[[], float]) -> None:
        expect_libraries()
        self._issuer, self._client, self._clock = issuer, client, clock
        self._known: _Known | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._next_s, self._failures = float("-inf"), 0
        self._trouble = IssuerUnavailable(issuer, "it was not asked yet")

    async def endpoints(self) -> OidcEndpoints:
        """The endpoints of the issuer.

        Raises:
            IssuerUnavailable: they are not known, and the issuer did not answer.
        """
        return (await self._current()).endpoints

    async def find(self, kid: str | None, algorithm: str) -> "PyJWK | None":
        """The key of a token; None if the issuer has no such key. A token without a `kid` is of the only key for its algorithm.

        Raises:
            IssuerUnavailable: no keys are known, or they are a day old, and the issuer did not answer.
        """
        known = await self._current()
        if (key := _matching(known.keys, kid, algorithm)) is None and self._may_ask():
            await asyncio.shield(self._fetch_once())  # it may be a new key
            key = None if self._known is None else _matching(self._known.keys, kid, algorithm)
        return key

    async def _current(self) -> _Known:
        age_s = float("inf") if self._known is None else self._clock() - self._known.at_s
        if age_s >= STALE_S and (self._may_ask() or self._fetching is not None):
            await asyncio.shield(self._fetch_once())
        elif age_s >= FRESH_S and self._may_ask():
            _ = self._fetch_once()
        if self._known is None or self._clock() - self._known.at_s >= STALE_S:
            raise self._trouble
        return self._known

    def _may_ask(self) -> bool:
        return self._clock() >= self._next_s

    def _fetch_once(self) -> "asyncio.Task[None]":
        """Begins to fetch, unless this is on its way."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        return self._fetching

    async def _fetch(self) -> None:
        """Fetches what the issuer publishes. A failure leaves what is known, and is kept to be raised where nothing is."""
        try:
            endpoints = await fetched_document(self._client, self._issuer.rstrip("/") + DISCOVERY_PATH, OidcEndpoints)
            if endpoints.issuer != self._issuer:
                raise IssuerUnavailable(self._issuer, f"it calls itself {endpoints.issuer}; set the issuer to that if it is the right one")
            keys = _usable((await fetched_document(self._client, endpoints.keys, _KeySet)).keys)
            if not keys:
                raise IssuerUnavailable(endpoints.keys, f"none of its keys is for {', '.join(ALGORITHMS)}")
            self._known, self._failures = _Known(endpoints, keys, self._clock()), 0
            self._next_s = self._clock() + ASKED_EVERY_S
        except IssuerUnavailable as trouble:
            self._trouble, self._failures = trouble, self._failures + 1
            self._next_s = self._clock() + min(2.0 ** min(self._failures, 10), BACK_OFF_MAX_S)
        finally:
            self._fetching = None


def _usable(found: list[dict[str, Any]]) -> "list[PyJWK]":
    """The keys that tokens may be signed with. Others, such as those for encryption, are passed over, as the standard says."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    keys = list[PyJWK]()
    for one in found:
        if one.get("use", "sig") != "sig":
            continue
        try:
            key = PyJWK(one)
        except (PyJWTError, ValueError, TypeError):
            continue
        if key.algorithm_name in ALGORITHMS:
            keys.append(key)
    return keys


def _matching(keys: "list[PyJWK]", kid: str | None, algorithm: str) -> "PyJWK | None":
    fitting = [key for key in keys if key.algorithm_name == algorithm and kid in (None, key.key_id)]
    return fitting[0] if fitting and (kid is not None or len(fitting) == 1) else None
