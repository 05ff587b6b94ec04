"""Claims about hosts: what a database URL means, and clear words where there is no store to be had."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure import Context, NeedsAttention, workflow
from perdure.core import values
from perdure.core.errors import BadValue, MissingExtra, NotFound, StoreError, StoreUnavailable
from perdure.core.paths import Key
from perdure.runtime.local_engine import local_engine, wait_for_end
from perdure.stores.configured_store import open_read_only_store, open_store, shown_url
from perdure.stores.memory import MemoryStore
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Store


@pytest.fixture(autouse=True)
def _no_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PERDURE_DB", raising=False)
    monkeypatch.chdir(tmp_path)


async def opened(url: str | None) -> None:
    """Open and close the store of a URL."""
    await open_store(url).close()


def files(directory: Path) -> list[str]:
    """The databases below a directory."""
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*.db"))


# What a URL means.


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///p.db", "p.db"),
        ("sqlite:///new/deeper/p.db", "new/deeper/p.db"),
        ("SQLITE:///p.db", "p.db"),
        ("sqlite:///a%20b.db", "a b.db"),
        ("sqlite:///a b.db", "a b.db"),
        ("sqlite:///100%25.db", "100%.db"),
        ("sqlite:///what%3F%23.db", "what?#.db"),
        ("sqlite:///données-数据.db", "données-数据.db"),
        ("sqlite:///donn%C3%A9es.db", "données.db"),
    ],
)
async def test_a_relative_path_begins_in_the_present_directory(url: str, file: str, tmp_path: Path) -> None:
    await opened(url)
    assert files(tmp_path) == [file]


async def test_four_slashes_begin_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    url = f"sqlite:///{tmp_path}/p.db"
    assert url.startswith("sqlite:////")
    await opened(url)
    assert files(tmp_path) == ["p.db"]


async def test_without_a_url_the_store_is_that_of_perdure_db_and_else_a_file_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await opened(None)
    assert files(tmp_path) == [".perdure/perdure.db"]
    monkeypatch.setenv("PERDURE_DB", "sqlite:///named.db")
    await opened(None)
    assert files(tmp_path) == [".perdure/perdure.db", "named.db"]
    await opened("sqlite:///given.db")
    assert files(tmp_path) == [".perdure/perdure.db", "given.db", "named.db"]


@pytest.mark.parametrize("url", ["memory:", "memory://"])
def test_memory_is_a_store_of_its_own_each_time(url: str, tmp_path: Path) -> None:
    first, second = open_store(url), open_store(url)
    assert isinstance(first, MemoryStore) and isinstance(second, MemoryStore) and first is not second
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "url",
    [
        "mysql://host/name",
        "postgresql+asyncpg://host/name",
        "p.db",
        "/tmp/p.db",
        "C:\\p.db",
        "memory",
        " ",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://p.db",
        "sqlite://host/p.db",
        "sqlite:p.db",
        "sqlite:/tmp/p.db",
        "sqlite:///p.db?mode=ro",
        "sqlite:///p.db#part",
        "sqlite:///p%00.db",
        "sqlite://[",
        "redis://[",
        "mysql://[::1",
    ],
)
def test_what_names_no_store_is_refused_with_what_is_expected(url: str, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=r"database URL: .* is not sqlite:///path/to/file\.db, postgresql://user@host/database or memory:"):
        open_store(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "store"),
    [
        ("redis://host", "Redis"),
        ("rediss://host", "Redis"),
        ("valkey://host", "Valkey"),
    ],
)
def test_a_url_of_an_experimental_store_is_refused_with_that_and_what_to_use(url: str, store: str) -> None:
    with pytest.raises(BadValue, match=rf"the store for {store} is experimental\. Use postgresql://user@host/database") as refused:
        open_store(url.replace("//", "//ada:hunter2@"))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", ["postgresql://host/name", "postgres://ada@host:5433/name", "POSTGRESQL://host/name"])
async def test_a_url_of_postgres_opens_its_store_which_connects_when_it_is_used(url: str) -> None:
    for open_it in (open_store, open_read_only_store):
        store = open_it(url)
        assert isinstance(store, PostgresStore)
        await store.close()


def test_without_asyncpg_a_url_of_postgres_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingExtra, match=r'pip install "perdure\[postgres\]"'):
        open_store("postgresql://host/name")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:hunter2@host/name",
        "postgresql://ada:hunter2/x#y?z@host/name",
        "postgresql://host/name?user=ada&password=hunter2",
        "postgresql://host/name?perdure_direct_url=postgresql%3A%2F%2Fada%3Ahunter2%40host&sslmode=require",
        "redis://:hunter2@host",
    ],
)
def test_a_url_is_shown_without_its_passwords(url: str) -> None:
    assert "hunter2" not in shown_url(url) and "***" in shown_url(url)


def test_a_bad_perdure_db_is_refused_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DB", "redis://host")
    with pytest.raises(BadValue, match="redis://host"):
        open_store()


# Where there is no store to be had.


@pytest.mark.slow
def test_a_file_that_is_open_here_and_in_another_process_is_opened_too(tmp_path: Path) -> None:
    async def twice() -> None:
        store = open_store("sqlite:///p.db")
        await opened("sqlite:///p.db")
        await store.close()

    program = (
        "import sys\nfrom perdure.stores.configured_store import open_store\nstore = open_store('sqlite:///p.db')\nprint('open', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "open\n"
            asyncio.run(twice())
        finally:
            other.kill()
    asyncio.run(twice())


@pytest.mark.parametrize("url", ["sqlite:///in-the-way/p.db", "sqlite:///in-the-way/deeper/p.db"])
def test_a_directory_that_can_not_be_made_is_told_of(url: str, tmp_path: Path) -> None:
    (tmp_path / "in-the-way").write_text("a file")
    with pytest.raises(StoreUnavailable, match=r"in-the-way.*name another file with db= or PERDURE_DB"):
        open_store(url)


def test_a_directory_in_place_of_the_file_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "p.db").mkdir()
    with pytest.raises(StoreError, match=r"p\.db"):
        open_store("sqlite:///p.db")


def test_a_name_that_is_too_long_is_told_of() -> None:
    with pytest.raises(StoreUnavailable, match="name another file"):
        open_store(f"sqlite:///{'x' * 300}.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_is_told_of(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    with pytest.raises(StoreUnavailable, match="closed"):
        open_store("sqlite:///closed/p.db")


async def test_a_damaged_file_is_told_of_and_left_as_it_is(tmp_path: Path) -> None:
    await opened("sqlite:///p.db")
    file = tmp_path / "p.db"
    raw = bytearray(file.read_bytes())
    raw[:4096] = b"damage, " * 512
    file.write_bytes(raw)
    with pytest.raises(StoreError, match=r"p\.db is damaged, or no SQLite database .*; restore it from a backup"):
        open_store("sqlite:///p.db")
    assert file.read_bytes() == raw


def test_a_file_of_something_else_is_told_of_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "p.db").write_text("Dear diary, " * 1000)
    with pytest.raises(StoreError, match=r"p\.db is damaged, or no SQLite database"):
        open_store("sqlite:///p.db")
    assert (tmp_path / "p.db").read_text() == "Dear diary, " * 1000


# Hosting.


@workflow
async def hello(ctx: Context, name: str) -> str:
    return f"Hello {name}"


async def test_a_host_lets_the_file_go_when_its_block_is_left_also_by_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        async with local_engine([hello.code], "sqlite:///p.db"):
            raise ZeroDivisionError
    await opened("sqlite:///p.db")


async def test_waiting_for_what_was_never_started_says_that_there_is_none() -> None:
    async with local_engine([hello.code], "memory:") as engine:
        with pytest.raises(NotFound, match="there is no execution default/hello/e"):
            await wait_for_end(engine, hello.key("e"))


async def test_waiting_for_what_has_ended_already_answers_at_once() -> None:
    async with local_engine([hello.code], "memory:") as engine:
        assert await engine.start(hello.key("e"), hello.code.codec.encode_args(("Ada",), {}, "input"))
        for _ in range(2):
            async with asyncio.timeout(0.9):
                assert values.decode(await wait_for_end(engine, hello.key("e")), str, "result") == "Hello Ada"


async def test_many_may_wait_for_one_end() -> None:
    async with local_engine([hello.code], "memory:") as engine:
        assert await engine.start(hello.key("e"), hello.code.codec.encode_args(("Ada",), {}, "input"))
        raws = await asyncio.gather(*(wait_for_end(engine, hello.key("e")) for _ in range(10)))
        assert len(set(raws)) == 1


@pytest.mark.slow
async def test_an_execution_that_needs_attention_says_so_to_whoever_waits() -> None:
    async def before(ctx: Context) -> None:
        await ctx.sleep(0.5)

    async def after(ctx: Context) -> None:
        await ctx.listen("go")

    key = Key("default", "changing", "e")
    async with local_engine([workflow(name="changing")(before).code], "sqlite:///p.db") as engine:
        assert await engine.start(key, hello.code.codec.encode_args((), {}, "input"))
    async with local_engine([workflow(name="changing")(after).code], "sqlite:///p.db") as engine:
        assert not await engine.start(key, hello.code.codec.encode_args((), {}, "input"))
        with pytest.raises(NeedsAttention, match="diverged"):
            async with asyncio.timeout(10):
                await wait_for_end(engine, key)


class Broken(MemoryStore):
    """A store with a defect in one of its methods: an error that is none of a store's."""

    def __init__(self, method: str) -> None:
        super().__init__()
        setattr(self, method, self._fail)

    async def _fail(self, *_: object) -> None:
        raise ZeroDivisionError("planted")


@workflow
async def waiting(ctx: Context) -> None:
    await ctx.listen("never")


@pytest.mark.parametrize("method", ["renew", "claim"])
async def test_a_host_whose_engine_fails_raises_its_error_and_does_not_wait_for_ever(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(url: str | None = None) -> Store:
        return Broken(method)

    async def wait() -> None:
        async with asyncio.timeout(5), local_engine([waiting.code], "memory:") as engine:
            await engine.start(waiting.key("e"), hello.code.codec.encode_args((), {}, "input"))
            await wait_for_end(engine, waiting.key("e"))

    monkeypatch.setattr("perdure.runtime.local_engine.open_store", broken)
    began_s = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="planted"):
        await wait()
    assert time.monotonic() - began_s < 3, "it waited until it was told to stop"
