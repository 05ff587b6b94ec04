"""Claims about what is configured for a Postgres store: where a setting comes from, what is refused, and what is never shown."""

import os
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import BadValue
from perdure.stores.postgres.connection_settings import SETTINGS, connection_settings

SECRET = "hunter2"
URL = "postgresql://ada@db.example.com:6432/shop"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*os.environ,):
        if name.startswith(("PG", "PERDURE_")):
            monkeypatch.delenv(name)


def test_a_url_says_where_and_as_whom_to_connect() -> None:
    settings = connection_settings(f"postgresql://ada:{SECRET}%2F@db.example.com:6432/shop?application_name=web%20shop")
    arguments = settings.main.connect_arguments(settings.main.servers[0])
    assert [arguments[name] for name in ("host", "port", "user", "password", "database")] == ["db.example.com", 6432, "ada", SECRET + "/", "shop"]
    assert arguments["server_settings"] == {"application_name": "web shop"}
    assert str(settings) == "postgresql://ada@db.example.com:6432/shop"


def test_without_anything_the_defaults_hold() -> None:
    settings = connection_settings("postgresql://")
    assert settings.main.servers == ((None, 5432),)
    assert (settings.schema, settings.synchronous_commit, settings.connections, settings.step_connections) == ("perdure", "on", 4, 10)
    assert (settings.connect_timeout_s, settings.statement_timeout_s, settings.pooler, settings.read_only) == (10, 60, "auto", False)
    assert settings.direct is settings.main and not settings.has_direct_url


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("postgresql://one,two:6432,[::1]:7/x", (("one", 5432), ("two", 6432), ("::1", 7))),
        ("postgresql://%2Frun%2Fpostgresql/x", (("/run/postgresql", 5432),)),
        ("postgresql:///x?host=/tmp&port=5433", (("/tmp", 5433),)),
        ("postgresql:///x?host=a,b&port=1,2", (("a", 1), ("b", 2))),
        ("postgresql:///x?host=a,b&port=7", (("a", 7), ("b", 7))),
    ],
)
def test_several_servers_and_directories_of_sockets_are_understood(url: str, servers: tuple[tuple[str, int], ...]) -> None:
    assert connection_settings(url).main.servers == servers


@pytest.mark.parametrize(
    ("url", "attempts"),
    [
        ("postgresql://a/x", [("a", "any")]),
        ("postgresql://a,b/x", [("a", "read-write"), ("b", "read-write")]),
        ("postgresql://a,b/x?target_session_attrs=any", [("a", "any"), ("b", "any")]),
        ("postgresql://a,b/x?target_session_attrs=prefer-standby", [("a", "standby"), ("b", "standby"), ("a", "any"), ("b", "any")]),
    ],
)
def test_of_several_servers_one_that_can_be_written_is_taken_unless_another_is_wanted(url: str, attempts: list[tuple[str, str]]) -> None:
    assert [(host, attributes) for (host, _), attributes in connection_settings(url).main.attempts()] == attempts


def test_a_keyword_comes_before_the_url_that_before_a_service_and_that_before_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "services").write_text("[shop]\nhost=service\nuser=service\ndbname=service\napplication_name=service\n")
    for name, value in {"PGHOST": "variable", "PGUSER": "variable", "PGDATABASE": "variable", "PGAPPNAME": "variable", "PGPORT": "6000"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert str(connection_settings("postgresql://")) == "postgresql://variable@variable:6000/variable"
    monkeypatch.setenv("PGSERVICE", "shop")
    assert str(connection_settings("postgresql://")) == "postgresql://service@service:6000/service"
    settings = connection_settings("postgresql://url@/?service=shop", application_name="keyword")
    assert str(settings) == "postgresql://url@service:6000/service"
    assert settings.main.values["application_name"] == "keyword"


@pytest.mark.parametrize("name", [name for name, one in SETTINGS.items() if one.variable])
def test_every_variable_is_read(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    value = {"port": "7", "perdure_schema": "other", "client_encoding": "UTF8", "perdure_direct_url": URL}.get(name, "")
    one = SETTINGS[name]
    value = value or ("7" if "number" in one.expected else one.accepted.split("|")[0].replace("\\", "") if one.accepted else str(tmp_path / "file"))
    monkeypatch.setenv(one.variable, value)
    assert connection_settings("postgresql://").main.values[name] == value


def test_a_direct_url_takes_over_what_it_does_not_say() -> None:
    direct = "postgresql://db.example.com:5432/?sslmode=require"
    settings = connection_settings(f"postgresql://ada:{SECRET}@pool.example.com:6432/shop?sslmode=prefer", direct_url=direct)
    assert settings.has_direct_url and str(settings.direct) == "postgresql://ada@db.example.com/shop"
    assert settings.direct.password == SECRET and settings.direct.values["sslmode"] == "require" and settings.main.values["sslmode"] == "prefer"


def test_tls_settings_reach_the_driver(tmp_path: Path) -> None:
    file = tmp_path / "root.crt"
    file.write_text("")
    settings = connection_settings(URL, sslmode="verify-full", sslrootcert=str(file))
    arguments = settings.main.connect_arguments(settings.main.servers[0])
    assert "sslmode=verify-full" in arguments["dsn"] and "root.crt" in arguments["dsn"] and arguments["ssl"] is None
    system = connection_settings(URL, sslmode="verify-full", sslrootcert="system").main
    context = system.connect_arguments(system.servers[0])["ssl"]
    assert context.check_hostname and context.get_ca_certs() is not None


@pytest.mark.parametrize(
    ("url", "keywords", "message"),
    [
        ("postgresql://h/x?perdure_schema=Perdure", {}, "URL parameter perdure_schema: 'Perdure' is not a name of small letters"),
        (URL, {"schema": "a" * 41}, "at most 40 long"),
        (URL, {"schema": "a; DROP TABLE x"}, "is not a name of small letters"),
        (URL, {"schema": ""}, "schema=: '' is not a name"),
        (URL, {"synchronous_commit": "maybe"}, "synchronous_commit=: 'maybe' is not one of on, remote_apply, remote_write, local, off"),
        (URL, {"connections": 0}, "connections=: '0' is not a whole number from 1 to 100"),
        (URL, {"connections": 101}, "101 is not a whole number from 1 to 100"),
        (URL, {"statement_timeout_s": -1}, "is not a number of seconds above 0"),
        (URL, {"statement_timeout_s": 0}, "is not a number of seconds above 0"),
        (URL, {"statment_timeout_s": 5}, "'statment_timeout_s' is not a setting; there are schema, "),
        (URL, {"password": 7}, "a int is no password"),
        (URL, {"sslrootcert": "/nowhere/root.crt"}, "is not the name of a file that is there"),
        (URL, {"sslmode": "verify"}, "is not one of disable, allow, prefer, require, verify-ca, verify-full"),
        ("postgresql://h/x?channel_binding=require", {}, "asyncpg has no channel binding. Leave it out, and use sslmode=verify-full"),
        ("postgresql://h/x?statement_timeout=5", {}, "write a setting of the server as options="),
        ("postgresql://h/x?sslmode", {}, "is not followed by = and a value"),
        ("postgresql://h/x?service=none", {}, "service 'none': .* can't be read"),
        ("postgresql:///x?host=a,b&port=1,2,3", {}, "or one for each of the 2 hosts"),
        ("postgresql://h:70000/x", {}, "is not a number from 1 to 65535"),
        ("mysql://h/x", {}, "is not postgresql://user@host/database"),
        ("postgresql:h", {}, "is not postgresql://user@host/database"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_expected(
    url: str, keywords: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "none"))
    with pytest.raises(BadValue, match=message.replace("(", r"\(").replace("?", r"\?")):
        connection_settings(url, **keywords)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{SECRET}/x@h/x",
        f"postgresql://ada:{SECRET}#x@h/x",
        f"postgresql://ada:{SECRET}?x@h/x",
        f"postgresql://ada:[{SECRET}@h/x",
        f"postgresql://ada:{SECRET}@h:port/x",
        f"postgresql://ada:{SECRET}@h:99999/x",
        f"postgresql://ada:{SECRET}@h/x?sslmode=perhaps",
        f"postgresql://ada:{SECRET}@h/x?nothing=1",
        f"postgresql://h/x?password={SECRET}%00",
        f"mysql://ada:{SECRET}@h/x",
        f"postgresql://h/x?perdure_direct_url=mysql%3A%2F%2F{SECRET}%40h",
    ],
)
def test_no_error_shows_a_password(url: str) -> None:
    with pytest.raises(BadValue) as refused:
        connection_settings(url)
    shown = f"{refused.value} {refused.value!r} {refused.value.value!r} {refused.value.__cause__} {refused.value.__context__}"
    assert SECRET not in str(refused.value) and SECRET not in repr(refused.value.value), shown


def test_neither_text_nor_repr_of_settings_shows_a_password() -> None:
    settings = connection_settings(f"postgresql://ada:{SECRET}@h/x?sslpassword={SECRET}", password=lambda: SECRET, direct_url=f"postgresql://ada:{SECRET}@d/x")
    assert SECRET not in f"{settings} {settings!r} {settings.main!r} {settings.direct} {settings.direct!r}"
