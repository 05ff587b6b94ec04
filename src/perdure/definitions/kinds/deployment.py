"""Deployments: what steps may access where they run. The operator of an engine configures it; a definition can't."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from perdure.core.errors import BadValue
from perdure.definitions.format.verb_shapes import CONNECTION_PATTERN

ALLOWABLE = {
    "bash": "shell commands, with the rights of the engine's own user",
    "http:HOST": "requests to HOST though its address is private: a name, an address, a network such as 10.0.0.0/8, or host:port; http alone: all",
    "file:DIRECTORY": "files below DIRECTORY, read and written",
}
"""The permissions beyond the defaults, with their meaning."""


@dataclasses.dataclass(frozen=True)
class Allowed:
    """Permissions beyond the defaults. `http` lists hosts, networks or host:port whose private addresses may be accessed (``*``: all). `file` is the
    directory whose files may be read and written (None: none).
    """

    bash: bool = False
    http: tuple[str, ...] = ()
    file: str | Path | None = None

    @classmethod
    def of(cls, words: Iterable[str]) -> Allowed:
        """Parses permissions from texts such as ``bash``, ``http:10.0.0.0/8`` and ``file:/srv/reports`` ; one text may have several, separated by commas.

        Raises:
            BadValue: nothing is called so, or two directories are.
        """
        bash, http, directory = False, list[str](), ""
        for word in (part.strip() for one in words for part in one.split(",")):
            name, _, rest = word.partition(":")
            match name, rest:
                case "bash", "":
                    bash = True
                case "http", host:
                    http.append(host or "*")
                case "file", there if there and directory in ("", there):
                    directory = there
                case "file", _:
                    raise BadValue("allow", word, "file:DIRECTORY, of one directory")
                case _:
                    raise BadValue("allow", word, f"one of {', '.join(ALLOWABLE)}")
        return cls(bash, tuple(http), directory or None)


def no_secret(_: str) -> str | None:
    """Finds no secret of any name."""
    return None


@dataclasses.dataclass(frozen=True)
class Deployment:
    """The environment of steps. `work` holds a working directory for each execution; `models` are the models by the names that definitions use; `secret`
    returns the value of a secret by its name, or None. Shell commands run with at least the isolation `isolate`. Pipelines are counted and can be searched
    from their second use on, unless `counts_pipelines` is false. `connections` are the databases of `sql` steps, by the names that definitions use: a URL
    (``sqlite:///file.db``, ``postgresql://user@host/database``, with secrets as ``@{secrets.NAME}``), an engine of SQLAlchemy, or ``"store"``, the database of
    the store itself. Those of the environment (`PERDURE_CONNECTION_NAME`) are added.
    `auth_profiles` say how the requests of `openapi` steps are authorized, by the names that definitions use: each an `AuthProfile`, or a mapping of its
    fields. Those of the environment (`PERDURE_AUTH_PROFILE_NAME`, as JSON) are added.
    """

    allowed: Allowed = Allowed()  # frozen, so shared safely
    work: Path = Path(".perdure/work")
    models: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    secret: Callable[[str], str | None] = no_secret
    isolate: Literal["none", "network", "all"] = "none"
    counts_pipelines: bool = True
    connections: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    auth_profiles: Mapping[str, Any] = dataclasses.field(default_factory=dict)


NOTHING_MORE = Deployment()
"""The default deployment."""

VARIABLE = "PERDURE_CONNECTION_"
"""The environment has a connection of each name under this and the name."""

STORE = "store"
"""The source of a connection that is the database of the store itself, on a connection of the store."""

SECRET_IN_URL = r"@(?:\{secrets\.(\w+)\}|secrets\.(\w+)$)"
EXPECTED_SOURCE = 'the URL of a database (sqlite:///file.db, postgresql://user@host/database), "store", or an Engine or AsyncEngine of SQLAlchemy'


def connection_sources(deployment: Deployment) -> Mapping[str, Any]:
    """The sources of all connections of a deployment by name: its own, and those of the environment.

    Raises:
        BadValue: a name or a source is invalid.
    """
    found = {name.removeprefix(VARIABLE).lower(): value for name, value in os.environ.items() if name.startswith(VARIABLE) and value}
    found |= deployment.connections
    for name, source in found.items():
        if not re.fullmatch(CONNECTION_PATTERN, name):
            raise BadValue("the name of a connection", name, "a to z, digits and _, and no digit first")
        if not _is_source(source):
            raise BadValue(f"the connection {name}", shown_source(source), EXPECTED_SOURCE)
    return found


def _is_source(source: Any) -> bool:
    if isinstance(source, str):
        return source == STORE or re.match(SECRET_IN_URL, source) is not None or source.startswith(("sqlite:///", "postgresql://", "postgres://"))
    return hasattr(source, "dialect") and hasattr(source, "connect")


def shown_source(source: Any) -> str:
    """A source for a message: a URL has a password in it."""
    return f"{source.partition(':')[0]}:…" if isinstance(source, str) else type(source).__name__
