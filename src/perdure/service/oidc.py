"""Callers by OpenID Connect: verifies ID and access tokens of one issuer, and gives roles to the groups that they name.

A token is a JSON Web Token that is signed by a key of the issuer, for one of the audiences, and not expired. Nothing in the token chooses how it is checked:
its algorithm has to be the one of the key that it names.
"""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.code.call_options import DEFAULT_TENANT
from perdure.core.errors import BadValue, Forbidden, Unauthenticated
from perdure.service.callers import SIGNED_IN, Caller, Role, checked_roles
from perdure.service.issuer_keys import ALGORITHMS, IssuerKeys, is_safe_url

if TYPE_CHECKING:
    import httpx2
    from jwt.types import Options

LEEWAY_S = 60.0
"""How far the clocks of the issuer and of this machine may be apart."""
TOKEN_CHARACTERS_MAX = 16_384
EVERYBODY = "*"
"""In place of a group: everybody whom the issuer knows."""


class GroupGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The roles that a group of the issuer has in a tenant; ``*`` is everybody."""

    group: str
    roles: tuple[Role, ...]
    tenant: str = DEFAULT_TENANT

    def __post_init__(self) -> None:
        """Checks the roles.

        Raises:
            BadValue: one is not a role.
        """
        checked_roles(self.roles)


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose tokens are accepted, for whom they are made, and what their groups may do.

    `audiences` are the values of ``aud`` that are accepted; sign-in in a browser needs that of `client_id`. Claims are named as the issuer names them; a
    dot leads into an object, as in ``realm_access.roles``. A person without a verified e-mail address is named by ``sub``.
    """

    issuer: str
    audiences: tuple[str, ...]
    grants: tuple[GroupGrant, ...]
    client_id: str = ""
    groups_claim: str = "groups"
    subject_claim: str = "email"
    scopes: tuple[str, ...] = ("openid", "profile", "email")

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            BadValue: the issuer is not reached by TLS, or an audience or the grants are missing.
        """
        if not is_safe_url(self.issuer):
            raise BadValue("issuer", self.issuer, "an https URL, as the issuer writes it in its tokens; http only on this machine")
        if not self.audiences or not all(self.audiences):
            raise BadValue("audiences", self.audiences, "what the issuer writes into `aud` of tokens for this service; without it, tokens for others would do")
        if self.client_id and self.client_id not in self.audiences:
            raise BadValue("audiences", self.audiences, f"a list with the client id {self.client_id!r}, which is the audience of ID tokens")
        if not self.grants:
            raise BadValue("grants", self.grants, "at least one group with its roles")


class Identity(msgspec.Struct, frozen=True):
    """Whom a verified token names: a subject such as ``oidc:ada@example.com``, groups, and the end of the token."""

    subject: str
    groups: tuple[str, ...]
    expires_at_s: float


class OidcVerifier:
    """Tells who sends a token. `clock` is the time of day, `monotonic` that by which keys grow old.

    Raises:
        MissingExtra: the libraries of the extra ``oidc`` are not installed.
    """

    def __init__(
        self,
        settings: OidcSettings,
        client: "httpx2.AsyncClient",
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self._clock = settings, clock
        self.issuer = IssuerKeys(settings.issuer, client, monotonic)

    async def caller(self, token: str, tenant: str | None = None) -> Caller:
        """The caller whose token this is, in a tenant (None: the first that the settings give them).

        Raises:
            Unauthenticated: the token is not valid, or not for this service.
            Forbidden: the person has no role in the tenant, or in any.
            IssuerUnavailable: the keys of the issuer are not known, and it did not answer.
        """
        return caller_in(self.settings, await self.identity(token), tenant)

    async def identity(self, token: str, nonce: str | None = None) -> Identity:
        """Whom a token names. With a `nonce`, it must be the one that the sign-in asked with.

        Raises:
            Unauthenticated, IssuerUnavailable: as with `caller`.
        """
        claims = await self._verified(token)
        now_s = self._clock()
        expires_at_s, begins_at_s = _time(claims, "exp"), _time(claims, "nbf", 0.0)
        if now_s >= expires_at_s + LEEWAY_S:
            raise _refused("has expired", "Sign in again")
        if max(begins_at_s, _time(claims, "iat", 0.0)) > now_s + LEEWAY_S:
            raise _refused("is not valid yet", "Compare the clocks of this machine and of the issuer")
        if nonce is not None and claims.get("nonce") != nonce:
            raise _refused("belongs to another sign-in", "Sign in again")
        return Identity(self._subject(claims), self._groups(claims), expires_at_s + LEEWAY_S)

    async def _verified(self, token: str) -> Mapping[str, Any]:
        """The claims of a token whose signature, issuer and audience are right."""
        import jwt

        if len(token) > TOKEN_CHARACTERS_MAX:
            raise _refused(f"has more than {TOKEN_CHARACTERS_MAX:,} characters", "Have the issuer put fewer groups into it")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, RecursionError) as error:  # the second before PyJWT 2.14, of a deep header
            raise _refused("is not a JSON Web Token", "Send a key (prd_…), or an ID or access token of the issuer") from error
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise _refused(f"is signed by {str(algorithm)[:20]!r}", f"Have the issuer sign by one of {', '.join(ALGORITHMS)}")
        key = await self.issuer.find(kid if isinstance(kid, str) else None, algorithm)
        if key is None:
            raise _refused(f"is signed by no key of {self.settings.issuer}", "Sign in again")
        checks: Options = {
            "require": ["exp", "iss", "aud", "sub"],
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
            "enforce_minimum_key_length": True,
        }
        try:
            return jwt.decode(token, key, algorithms=[algorithm], audience=list(self.settings.audiences), issuer=self.settings.issuer, leeway=0, options=checks)
        except jwt.InvalidAudienceError as error:
            raise _refused("is for another service", f"Ask the issuer for one with the audience {' or '.join(self.settings.audiences)}") from error
        except jwt.InvalidIssuerError as error:
            raise _refused("is of another issuer", f"Ask {self.settings.issuer} for one") from error
        except (jwt.PyJWTError, ValueError) as error:
            raise _refused(f"can't be verified ({type(error).__name__})", "Sign in again") from error

    def _subject(self, claims: Mapping[str, Any]) -> str:
        named = _claim(claims, self.settings.subject_claim)
        is_proved = self.settings.subject_claim != "email" or claims.get("email_verified") is True
        name = named if isinstance(named, str) and named and is_proved else claims["sub"]
        if not isinstance(name, str) or not name or len(name) > 500 or not name.isprintable():
            raise _refused("names nobody: its subject is not a printable text of 1 to 500 characters", "Check the claims that the issuer is set to send")
        return f"{SIGNED_IN}{name}"

    def _groups(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        found = _claim(claims, self.settings.groups_claim)
        return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else (found,) if isinstance(found, str) else ()


def granted_roles(settings: OidcSettings, groups: tuple[str, ...]) -> dict[str, frozenset[Role]]:
    """The roles of somebody in these groups, by tenant, in the order of the grants."""
    roles: dict[str, frozenset[Role]] = {}
    for grant in settings.grants:
        if grant.group == EVERYBODY or grant.group in groups:
            roles[grant.tenant] = roles.get(grant.tenant, frozenset()) | frozenset(grant.roles)
    return roles


def caller_in(settings: OidcSettings, identity: Identity, tenant: str | None = None) -> Caller:
    """The caller that an identity is in a tenant (None: the first that the settings give them).

    Raises:
        Forbidden: they have no role in it, or in any.
    """
    roles = granted_roles(settings, identity.groups)
    chosen = next(iter(roles), None) if tenant is None else tenant
    if chosen is None or chosen not in roles:
        raise Forbidden(identity.subject, "anything here" if tenant is None else f"anything in the tenant {tenant}", "viewer")
    return Caller(chosen, identity.subject, roles[chosen], identity.groups, expires_at_s=identity.expires_at_s)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by a path with dots."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _time(claims: Mapping[str, Any], name: str, default: float | None = None) -> float:
    found = claims.get(name, default)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e12:
        raise _refused(f"has no time as `{name}`", "Sign in again")
    return float(found)


def _refused(why: str, instead: str) -> Unauthenticated:
    return Unauthenticated(f"the token {why}. {instead}")
