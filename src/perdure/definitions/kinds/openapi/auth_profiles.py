"""The auth profiles of a deployment: how requests to an API are authorized, and which servers may have the secret.

The operator names them (`Deployment.auth_profiles`, or `PERDURE_AUTH_PROFILE_NAME` in the environment); a definition has their names alone. A document, which
may come from anywhere, says where its requests go. Therefore a profile names its servers itself, and its secret goes to no other.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from perdure.code.step_environment import StepInfo
from perdure.core.errors import BadValue, MissingSecret
from perdure.core.secret_masks import Mask
from perdure.definitions.format.verb_shapes import PROFILE_PATTERN
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.http.http_targets import PORTS, UrlError, parse_target, url_origin
from perdure.definitions.kinds.openapi.openapi_errors import AuthRefused

VARIABLE = "PERDURE_AUTH_PROFILE_"
"""The environment has an auth profile of each name, as JSON, under this and the name."""

EXPECTED_PROFILE = (
    "an auth profile, such as {bearer: SECRET_NAME, hosts: [api.example]}, {basic: {user: ada, password: SECRET_NAME}, server: https://api.example/v2} or "
    "{api_key: {secret: SECRET_NAME, in: header, name: X-Api-Key}, hosts: [api.example]}"
)
EVERYWHERE = "*"
_SECRET_NAME = re.compile(r"\w+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_TEXT = re.compile(r"[\x20-\x7e]+")


class BasicAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user, and the name of the secret that is the password."""

    user: str
    password: str


class ApiKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"place": "in"}):
    """The name of the secret that is the key, and where it is sent: a header, a query parameter or a cookie of this name."""

    secret: str
    place: Literal["header", "query", "cookie"]
    name: str


class AuthProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How requests are authorized: at most one of `bearer` (the name of a secret), `basic` and `api_key`.

    `server` is the URL of the API, in place of those that documents name. `hosts` are the servers that may have the secret besides: names as
    ``api.example`` or ``api.example:8443``, which are meant with https, origins as ``http://localhost:8080``, or ``*`` for any server.
    """

    bearer: str = ""
    basic: BasicAuth | None = None
    api_key: ApiKey | None = None
    server: str = ""
    hosts: tuple[str, ...] = ()

    @property
    def secret_name(self) -> str:
        """The name of its secret; empty without one."""
        return self.bearer or (self.basic.password if self.basic else "") or (self.api_key.secret if self.api_key else "")

    def origins(self) -> list[tuple[str, str, int]]:
        """The origins that may have its secret.

        Raises:
            UrlError: a host or the server is not one.
        """
        texts = [one if "://" in one else f"https://{one}" for one in self.hosts if one != EVERYWHERE]
        return [url_origin(parse_target(one)) for one in (*texts, *([self.server] if self.server else ()))]


class AuthFields(NamedTuple):
    """What a profile adds to a request: headers, query parameters, and a piece of the header Cookie."""

    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    cookie: str = ""


def auth_profiles(deployment: Deployment) -> Mapping[str, AuthProfile]:
    """The auth profiles of a deployment by name: its own, and those of the environment.

    Raises:
        BadValue: a name or a profile is invalid.
    """
    found = dict[str, Any]()
    for name, value in os.environ.items():
        if name.startswith(VARIABLE) and value:
            try:
                found[name.removeprefix(VARIABLE).lower()] = msgspec.json.decode(value)
            except msgspec.MsgspecError as error:
                raise BadValue(name, "its value", f"JSON of {EXPECTED_PROFILE}: {error}") from None
    return {name: _read(name, profile) for name, profile in {**found, **deployment.auth_profiles}.items()}


def _read(name: str, given: Any) -> AuthProfile:
    what = f"the auth profile {name}"
    if not re.fullmatch(PROFILE_PATTERN, name):
        raise BadValue("the name of an auth profile", name, "a to z, digits and _, and no digit first")
    try:
        profile = given if isinstance(given, AuthProfile) else msgspec.convert(given, AuthProfile)
        _ = profile.origins()
    except (msgspec.ValidationError, UrlError) as error:
        raise BadValue(what, type(given).__name__, f"{EXPECTED_PROFILE}: {error}") from None
    ways = [way for way in ("bearer", "basic", "api_key") if getattr(profile, way)]
    if len(ways) > 1:
        raise BadValue(what, " and ".join(ways), "one way of authorization; make two profiles of it")
    if ways and not _SECRET_NAME.fullmatch(profile.secret_name):
        raise BadValue(what, "its secret", "the name of a secret, not its value")
    if ways and not (profile.hosts or profile.server):
        raise BadValue(what, "no server", 'bound to the servers that may have its secret: hosts: [api.example], or server: a URL (hosts: ["*"] is any server)')
    if profile.basic and (":" in profile.basic.user or not _HEADER_TEXT.fullmatch(profile.basic.user)):
        raise BadValue(what, profile.basic.user, "a user of ASCII without a colon")
    if profile.api_key and not _HEADER_NAME.fullmatch(profile.api_key.name):
        raise BadValue(what, profile.api_key.name, "the name of a header, a query parameter or a cookie")
    return profile


def find_profile(deployment: Deployment, name: str) -> AuthProfile:
    """The profile of a name.

    Raises:
        AuthRefused: this process has none.
    """
    profiles = auth_profiles(deployment)
    if name not in profiles:
        known = f" (known: {', '.join(sorted(profiles))})" if profiles else ""
        how = f"start the engine with {VARIABLE}{name.upper()}, or give its definitions Deployment(auth_profiles={{{name!r}: …}})"
        raise AuthRefused(f"the auth profile {name} is not known in this process{known}; {how}")
    return profiles[name]


async def auth_fields(name: str, profile: AuthProfile, url: str, info: StepInfo, deployment: Deployment) -> AuthFields:
    """What a profile adds to a request to a URL. From then on, its secret is masked in all that the step puts out.

    The secret is that of the step, else that of the deployment, as in the steps of agents, which have none of their definition.

    Raises:
        AuthRefused: the profile does not name the server, or the secret can't be sent.
        MissingSecret: the secret is not set.
    """
    secret_name = profile.secret_name
    if not secret_name:
        return AuthFields()
    origin = url_origin(parse_target(url))
    if EVERYWHERE not in profile.hosts and origin not in profile.origins():
        where = origin[1] if origin[2] == PORTS[origin[0]] else f"{origin[1]}:{origin[2]}"
        host = where if origin[0] == "https" else f"{origin[0]}://{where}"
        raise AuthRefused(f"the auth profile {name} is not for {host}, so its secret is not sent there; who runs the engine can add that to its `hosts`")
    secret = await asyncio.to_thread(info.secret, secret_name) or await asyncio.to_thread(deployment.secret, secret_name)
    if not secret:
        raise MissingSecret(secret_name)
    if not _HEADER_TEXT.fullmatch(secret):
        raise AuthRefused(f"the secret {secret_name} of the auth profile {name} is not one line of ASCII, so it can't be sent; set it again")
    fields = _fields(profile, secret)
    if info.life is not None:
        info.life.mask |= Mask((secret, *(text.removeprefix("Basic ") for text in fields.headers.values() if text.startswith("Basic "))))
    return fields


def _fields(profile: AuthProfile, secret: str) -> AuthFields:
    if profile.basic is not None:
        token = base64.b64encode(f"{profile.basic.user}:{secret}".encode()).decode("ascii")
        return AuthFields(headers={"Authorization": f"Basic {token}"})
    match profile.api_key:
        case ApiKey(place="query", name=name):
            return AuthFields(query={name: secret})
        case ApiKey(place="cookie", name=name):
            return AuthFields(cookie=f"{name}={quote(secret, safe='')}")
        case ApiKey(name=name):
            return AuthFields(headers={name: secret})
    return AuthFields(headers={"Authorization": f"Bearer {secret}"})
