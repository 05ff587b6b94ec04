"""Access to the API of `perdure dev`: for programs of this machine that have the token of the start.

The token alone would not suffice: a page in a browser can send requests to this machine, and a proxy could publish them. So requests for another host name,
from another origin, and those that a proxy has forwarded are refused.
"""

import hmac
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from perdure.api.http_requests import ApiRequest
from perdure.api.problems import Refusal
from perdure.core.errors import Unauthenticated
from perdure.core.header_values import authority_of, host_of, is_loopback
from perdure.service.callers import LOCAL, Caller

DEV_FILE = Path(".perdure/dev.json")
"""Where `perdure dev` keeps its URL and token, in the directory in which it was started."""

FORWARDED = ("forwarded", "x-forwarded-")
"""How the names of headers begin that proxies add."""


class LoopbackAccess:
    """Admits requests with the token as the developer at this machine, who may do everything in the tenant."""

    def __init__(self, token: str, tenant: str = LOCAL.tenant) -> None:
        self._token, self._caller = token, Caller(tenant, LOCAL.subject, LOCAL.roles)

    async def __call__(self, request: ApiRequest) -> Caller:
        """Returns the caller.

        Raises:
            Unauthenticated: the token is missing or wrong.
            Refusal: the request is not for this machine, or comes from elsewhere.
        """
        if any(name.startswith(FORWARDED) and value for name, value in request.headers.items()):
            raise Refusal(403, "forwarded", "this server is for one machine, and the request came through a proxy", "run perdure serve behind a proxy")
        if not _names_this_machine(request.header("host")):
            raise Refusal(403, "wrong_host", "this server answers only requests for a host name of this machine", "use http://127.0.0.1:PORT")
        origin = request.header("origin")
        if origin and authority_of(origin) != request.header("host"):
            raise Refusal(403, "wrong_origin", f"a page of {origin} may not send requests here", "open the page that this server serves")
        scheme, _, given = request.header("authorization").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token.encode()):
            raise Unauthenticated("the request has no token, or a wrong one. Send Authorization: Bearer TOKEN, with the token that perdure dev has printed")
        return self._caller


@lru_cache(1000)
def _names_this_machine(host: str) -> bool:
    return is_loopback(host_of(host))


class DevServer(NamedTuple):
    """The server of a `perdure dev` that runs: its URL and token."""

    url: str
    token: str

    @property
    def page(self) -> str:
        """The address of the console with the token, which is in the fragment: browsers send that to no server."""
        return f"{self.url}/#token={self.token}"


def write_dev_server(file: Path, server: DevServer) -> None:
    """Keeps where a server is, and its token, in a file that only its owner can read."""
    write_private_file(file, json.dumps(server._asdict()))


def write_private_file(file: Path, text: str) -> None:
    """Writes a file that only its owner can read, in place of what it was."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
    fresh.replace(file)


def remove_dev_server(file: Path, server: DevServer) -> None:
    """Removes what `write_dev_server` has kept, unless another server was started here since."""
    if read_dev_server(file) == server:
        file.unlink(missing_ok=True)


def read_dev_server(file: Path) -> DevServer | None:
    """Returns what `write_dev_server` has kept; None if there is nothing of that form."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return DevServer(str(found["url"]), str(found["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
