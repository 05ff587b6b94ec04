"""What is configured for a Postgres store: where and as whom it connects, and how it uses its connections.

Each setting comes from the first of these that has it: a keyword argument; the URL; the file of services (`PGSERVICE`); the environment; the default.
Parameters of the URL have the names of libpq, or begin with ``perdure_``; the variables of libpq are `PGHOST` and so on. `SETTINGS` has all of them.

The budget of connections. A store has at most `connections` open (4 by default, opened when they are needed), one more for notifications once something
waits for them (an engine, a worker, a client that waits for results), one more for moments while an engine of `run()` renews its lease from another thread,
and `step_connections` more at most (10) in processes that run transactional steps. So n engines, w workers and c clients need at most 6n + 5w + 5c, and
10 more for each process with transactional steps; ``max_connections`` of the server has to exceed that, with 3 for its superusers. A client that makes one
call after another uses one or two. Behind a pooler in transaction mode, only connections in use count there, and one direct connection for notifications.
"""

import configparser
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, Unpack
from urllib.parse import quote, unquote, urlencode, urlsplit

from perdure.core.errors import BadValue

SCHEMES = ("postgresql", "postgres")
URL_FORM = "postgresql://user@host/database"
URL_EXPECTED = f"{URL_FORM}, where characters such as : / ? # @ in a password are percent-encoded"

SynchronousCommit = Literal["on", "remote_apply", "remote_write", "local", "off"]
Pooler = Literal["auto", "transaction", "none"]
Password = str | Callable[[], str | Awaitable[str]]
"""A password, or a function that is called for each new connection, which returns the password or an awaitable of it."""

CONNECTIONS_MAX = 100
SECONDS_MAX = 24 * 3600.0


class ConnectionOptions(TypedDict, total=False):
    """Settings as keyword arguments. See `ConnectionSettings`."""

    schema: str
    synchronous_commit: SynchronousCommit
    connections: int
    step_connections: int
    connect_timeout_s: float
    statement_timeout_s: float
    pooler: Pooler
    direct_url: str
    application_name: str
    password: Password
    sslmode: str
    sslrootcert: str
    sslcert: str
    sslkey: str
    sslpassword: str
    target_session_attrs: str
    read_only: bool


class _Setting(NamedTuple):
    """Where a setting is found, what it may be (`accepted` as a regular expression or by `SECONDS`), and its default. A `secret` is never shown."""

    parameter: str
    variable: str = ""
    accepted: str = ""
    expected: str = ""
    default: str = ""
    keyword: str = ""
    secret: bool = False


def _one_of(*words: str) -> tuple[str, str]:
    return "|".join(map(re.escape, words)), f"one of {', '.join(words)}"


NUMBER, SECONDS = r"[1-9][0-9]{0,2}", r"[0-9]{1,5}(\.[0-9]{1,6})?"
SECONDS_EXPECTED = f"a number of seconds above 0, at most {SECONDS_MAX:,.0f}"
SETTINGS = {
    one.parameter: one
    for one in (
        _Setting(
            "perdure_schema",
            "PERDURE_DB_SCHEMA",
            "[a-z_][a-z0-9_]{0,39}",
            "a name of small letters, digits and _ that begins with no digit, at most 40 long",
            "perdure",
            "schema",
        ),
        _Setting(
            "perdure_synchronous_commit",
            "PERDURE_DB_SYNCHRONOUS_COMMIT",
            *_one_of("on", "remote_apply", "remote_write", "local", "off"),
            "on",
            "synchronous_commit",
        ),
        _Setting("perdure_connections", "PERDURE_DB_CONNECTIONS", NUMBER, f"a whole number from 1 to {CONNECTIONS_MAX}", "4", "connections"),
        _Setting("perdure_step_connections", "PERDURE_DB_STEP_CONNECTIONS", NUMBER, f"a whole number from 1 to {CONNECTIONS_MAX}", "10", "step_connections"),
        _Setting("perdure_statement_timeout", "PERDURE_DB_STATEMENT_TIMEOUT", SECONDS, SECONDS_EXPECTED, "60", "statement_timeout_s"),
        _Setting("perdure_pooler", "PERDURE_DB_POOLER", *_one_of("auto", "transaction", "none"), "auto", "pooler"),
        _Setting("perdure_direct_url", "PERDURE_DB_DIRECT", keyword="direct_url", secret=True),
        _Setting("connect_timeout", "PGCONNECT_TIMEOUT", SECONDS, SECONDS_EXPECTED, "10", "connect_timeout_s"),
        _Setting("application_name", "PGAPPNAME", default="perdure", keyword="application_name"),
        _Setting("host", "PGHOST"),
        _Setting("port", "PGPORT"),
        _Setting("user", "PGUSER"),
        _Setting("password", "PGPASSWORD", keyword="password", secret=True),
        _Setting("passfile", "PGPASSFILE"),
        _Setting("dbname", "PGDATABASE"),
        _Setting("options", "PGOPTIONS"),
        _Setting("krbsrvname", "PGKRBSRVNAME"),
        _Setting("gsslib", "PGGSSLIB", *_one_of("gssapi", "sspi")),
        _Setting(
            "target_session_attrs",
            "PGTARGETSESSIONATTRS",
            *_one_of("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
            keyword="target_session_attrs",
        ),
        _Setting("sslmode", "PGSSLMODE", *_one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"), keyword="sslmode"),
        _Setting("sslrootcert", "PGSSLROOTCERT", keyword="sslrootcert"),
        _Setting("sslcert", "PGSSLCERT", keyword="sslcert"),
        _Setting("sslkey", "PGSSLKEY", keyword="sslkey"),
        _Setting("sslpassword", keyword="sslpassword", secret=True),
        _Setting("sslcrl", "PGSSLCRL"),
        _Setting("sslnegotiation", "PGSSLNEGOTIATION", *_one_of("postgres", "direct")),
        _Setting("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", *_one_of("TLSv1.2", "TLSv1.3")),
        _Setting("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", *_one_of("TLSv1.2", "TLSv1.3")),
        _Setting("channel_binding", "PGCHANNELBINDING", *_one_of("disable", "prefer"), default="prefer"),
        _Setting("gssencmode", "PGGSSENCMODE", *_one_of("disable", "prefer"), default="prefer"),
        _Setting("client_encoding", "PGCLIENTENCODING", "(?i:utf-?8|unicode|auto)", "UTF8, which Perdure uses", "UTF8"),
    )
}
"""All settings, by their parameter of the URL."""

TLS = tuple(name for name in SETTINGS if name.startswith("ssl"))
FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")


@dataclass(frozen=True)
class ServerTarget:
    """Where and as whom to connect. Of several `servers`, each a host or the directory of a socket with a port, the first is taken that fits."""

    servers: tuple[tuple[str | None, int], ...]
    values: Mapping[str, str] = field(repr=False)
    password: Password | None = field(repr=False)

    def connect_arguments(self, server: tuple[str | None, int]) -> dict[str, Any]:
        """Returns the arguments of ``asyncpg.connect`` for one of the servers."""
        values = self.values
        from_system = values.get("sslrootcert") == "system"
        return {
            "dsn": "postgresql://?" + urlencode({name: values[name] for name in TLS if name in values and not from_system}),
            "ssl": self._system_context() if from_system else None,
            "host": server[0],
            "port": server[1],
            "user": values.get("user"),
            "password": self.password,
            "passfile": values.get("passfile"),
            "database": values.get("dbname"),
            "krbsrvname": values.get("krbsrvname"),
            "gsslib": values.get("gsslib"),
            "server_settings": {name: values[name] for name in ("application_name", "options") if values.get(name)},
        }

    def attempts(self) -> list[tuple[tuple[str | None, int], str]]:
        """Returns what to connect to, in order, with the attributes that fit. Of several servers, one that can be written fits, unless the settings differ."""
        wanted = self.values.get("target_session_attrs") or ("read-write" if len(self.servers) > 1 else "any")
        return [(server, one) for one in (("standby", "any") if wanted == "prefer-standby" else (wanted,)) for server in self.servers]

    def _system_context(self) -> ssl.SSLContext:
        """Returns what ``sslrootcert=system`` asks for: the authorities that this computer trusts, and a server whose name is checked."""
        context = ssl.create_default_context()
        if "sslcert" in self.values:
            context.load_cert_chain(self.values["sslcert"], self.values.get("sslkey"), self.values.get("sslpassword"))
        return context

    def __str__(self) -> str:
        """The URL, without passwords and parameters."""
        user = quote(self.values["user"]) + "@" if "user" in self.values else ""
        hosts = ",".join(_shown_server(host, port) for host, port in self.servers)
        return f"postgresql://{user}{hosts}/{quote(self.values.get('dbname', ''))}"


@dataclass(frozen=True)
class ConnectionSettings:
    """All that is configured for a Postgres store. `connection_settings` reads it.

    `main` is where it connects for everything but notifications and migrations, which go to `direct`. `synchronous_commit` is the durability of every
    acknowledged change. `connections` and `step_connections` are the most that are open at a time, without the one for notifications. `pooler` says whether
    the URL leads through a pooler in transaction mode; ``auto`` finds that out. With `read_only`, nothing is ever changed.
    """

    main: ServerTarget
    direct: ServerTarget
    has_direct_url: bool
    schema: str
    synchronous_commit: SynchronousCommit
    connections: int
    step_connections: int
    connect_timeout_s: float
    statement_timeout_s: float
    pooler: Pooler
    read_only: bool = False

    def __str__(self) -> str:
        """The URL, without passwords and parameters."""
        return str(self.main)


def connection_settings(url: str, **given: Unpack[ConnectionOptions]) -> ConnectionSettings:
    """Reads the settings of a store from keyword arguments, its URL, the file of services and the environment, in this order.

    Raises:
        BadValue: one of them is not accepted. No message shows a password.
    """
    keywords: dict[str, Any] = dict(given)
    read_only, password = bool(keywords.pop("read_only", False)), keywords.pop("password", None)
    if password is not None and not isinstance(password, str) and not callable(password):
        raise BadValue("password=", "***", "", f"password=: a {type(password).__name__} is no password; pass text, or a function that returns it")
    by_keyword = {name: str(keywords.pop(one.keyword)) for name, one in SETTINGS.items() if keywords.get(one.keyword) is not None}
    if unknown := [name for name, value in keywords.items() if value is not None]:
        raise BadValue("Postgres store", unknown[0], f"a setting; there are {', '.join(ConnectionOptions.__annotations__)}")
    from_url = _url_values(url, "database URL")
    values = _resolved(by_keyword, from_url)
    main = _target(values, password)
    direct, direct_url = main, values.get("perdure_direct_url")
    if direct_url:
        inherited = {name: value for name, value in values.items() if name not in ("host", "port", "target_session_attrs")}
        direct = _target({**inherited, **_url_and_service(_url_values(direct_url, "direct URL"), inherits=True)}, password)
    return ConnectionSettings(
        main,
        direct,
        bool(direct_url),
        values["perdure_schema"],
        values["perdure_synchronous_commit"],  # type: ignore[arg-type]  # it was checked
        _bounded(values, "perdure_connections"),
        _bounded(values, "perdure_step_connections"),
        _seconds(values, "connect_timeout"),
        _seconds(values, "perdure_statement_timeout"),
        values["perdure_pooler"],  # type: ignore[arg-type]  # it was checked
        read_only,
    )


def _resolved(by_keyword: Mapping[str, str], from_url: Mapping[str, str]) -> dict[str, str]:
    """Returns the values of all settings that have one, checked."""
    defaults = {name: one.default for name, one in SETTINGS.items() if one.default}
    from_environment = {name: value for name, one in SETTINGS.items() if one.variable and (value := os.environ.get(one.variable))}
    values = {
        **defaults,
        **_checked(from_environment, "", lambda one: one.variable),
        **_url_and_service(from_url),
        **_checked(by_keyword, "", lambda one: f"{one.keyword}="),
    }
    for name in FILES:
        if name in values and not (name == "sslrootcert" and values[name] == "system") and not Path(values[name]).is_file():
            raise BadValue(name, values[name], "the name of a file that is there")
    return values


def _url_and_service(from_url: Mapping[str, str], *, inherits: bool = False) -> dict[str, str]:
    """Returns what a URL and the service that it or, unless it `inherits`, the environment names say, checked."""
    values = dict(from_url)
    service, file = values.pop("service", ""), values.pop("servicefile", os.environ.get("PGSERVICEFILE"))
    if not service and not inherits:
        service = os.environ.get("PGSERVICE", "")
    return {**_checked(_service_values(service, file), "service file: "), **_checked(values, "URL parameter ")}


def _checked(values: Mapping[str, str], source: str, named: Callable[[_Setting], str] = lambda one: one.parameter) -> dict[str, str]:
    """Returns the values after checking each of them."""
    for name, value in values.items():
        one = SETTINGS[name]
        if "\0" in value or (one.accepted and re.fullmatch(one.accepted, value) is None):
            expected = one.expected or "text without NUL"
            if name == "channel_binding" and value == "require":
                expected += ": asyncpg has no channel binding. Leave it out, and use sslmode=verify-full, which authenticates the server"
            raise BadValue(source + named(one), "***" if one.secret else value, expected)
    return dict(values)


def _url_values(url: str, what: str) -> dict[str, str]:
    """Returns what a URL says, by parameter. `what` names it in errors, which show nothing that may be part of a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadValue(what, "***", URL_EXPECTED, f"{what}: it can't be parsed; expected {URL_EXPECTED}") from None
    if parts.scheme not in SCHEMES or not url.lower().startswith(f"{parts.scheme}://"):
        raise BadValue(what, f"{parts.scheme}:…", URL_EXPECTED)
    if parts.fragment or "@" in parts.path or ("@" in parts.query and "@" not in parts.netloc):
        raise BadValue(what, "***", URL_EXPECTED, f"{what}: it has a #, or an @ behind its host; expected {URL_EXPECTED}")
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    found = {"user": unquote(user), "password": unquote(password), "dbname": unquote(parts.path[1:])}
    found |= _hosts_and_ports(hosts, what)
    values = {name: value for name, value in found.items() if value}
    for piece in filter(None, parts.query.split("&")):
        name, is_given, value = piece.partition("=")
        name = {"database": "dbname"}.get(unquote(name), unquote(name))
        if name not in SETTINGS and name not in ("service", "servicefile"):
            hint = "; write a setting of the server as options=-c%20name%3Dvalue" if re.fullmatch(r"\w+", name) else ""
            raise BadValue(f"{what}: parameter", name, f"one of {', '.join((*SETTINGS, 'service', 'servicefile'))}{hint}")
        if not is_given:
            raise BadValue(f"{what}: parameter", name, f"followed by = and a value: {name}=…")
        values[name] = unquote(value)
    return values


def _hosts_and_ports(hosts: str, what: str) -> dict[str, str]:
    """Returns the hosts and the ports of ``host:port,host:port``, each separated by commas."""
    found, ports = [], []
    for place in hosts.split(",") if hosts else ():
        match = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", place)
        if match is None:
            raise BadValue(what, "***", URL_EXPECTED, f"{what}: a host or a port in it can't be parsed; expected {URL_EXPECTED}")
        found.append(unquote(match[1].strip("[]")))
        ports.append(match[2] or "")
    return {"host": ",".join(found) if any(found) else "", "port": ",".join(ports) if any(ports) else ""}


def _service_values(service: str, file: str | None) -> dict[str, str]:
    """Returns what the file of services says about one of them: `file`, or else ``~/.pg_service.conf``."""
    if not service:
        return {}
    path = Path(file or "~/.pg_service.conf").expanduser()
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",), interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        values = dict(parser[service])
    except (OSError, KeyError, configparser.Error, UnicodeDecodeError) as error:
        why = f"has no section [{service}]" if isinstance(error, KeyError) else f"can't be read ({type(error).__name__})"
        raise BadValue("PGSERVICE", service, "", f"service {service!r}: {path} {why}. PGSERVICEFILE names the file of services") from None
    for name in values:
        if name not in SETTINGS:
            raise BadValue(f"{path}: [{service}]", name, f"one of {', '.join(SETTINGS)}")
    return values


def _target(values: Mapping[str, str], password: Password | None) -> ServerTarget:
    hosts: Sequence[str | None] = values["host"].split(",") if values.get("host") else [None]
    ports = values.get("port", "").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    if len(ports) != len(hosts) or not all(port == "" or (port.isascii() and port.isdigit() and 0 < int(port) < 2**16) for port in ports):
        raise BadValue("port", values.get("port", ""), f"a number from 1 to 65535, or one for each of the {len(hosts)} hosts, separated by commas")
    servers = tuple((host or None, int(port or 5432)) for host, port in zip(hosts, ports, strict=True))
    return ServerTarget(servers, values, password or values.get("password"))


def _bounded(values: Mapping[str, str], name: str) -> int:
    if (number := int(values[name])) > CONNECTIONS_MAX:
        raise BadValue(name, number, SETTINGS[name].expected)
    return number


def _seconds(values: Mapping[str, str], name: str) -> float:
    length_s = float(values[name])
    if not 0 < length_s <= SECONDS_MAX:
        raise BadValue(name, values[name], SECONDS_EXPECTED)
    return length_s


def _shown_server(host: str | None, port: int) -> str:
    shown = "" if host is None else f"[{host}]" if ":" in host else quote(host, safe="")
    return shown if port == 5432 else f"{shown}:{port}"
