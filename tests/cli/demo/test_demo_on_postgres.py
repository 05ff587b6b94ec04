"""The demo on a Postgres: workers are killed as on a file, and all that it claims is true."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.sync_client import Client
from tests.cli.demo.test_demo_command import played
from tests.stores.servers import PostgresServer, postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.mark.real
@pytest.mark.parametrize(("options", "kills", "end"), [((), 3, "was shipped"), (("--rejected",), 1, "was given back")])
def test_on_postgres_it_plays_itself_and_all_that_it_claims_is_true(
    server: PostgresServer, tmp_path: Path, options: tuple[str, ...], kills: int, end: str
) -> None:
    said = played(tmp_path, "--db", server.url, *options, within_s=90.0)
    assert said.count("kill -9") == kills and end in said and "counts as dead when nothing was heard of it for 3 s" in said
    with Client(server.url) as client:
        assert {head.status for head in client.list(workflow="order")} == {"completed"}


@pytest.mark.slow
def test_a_database_that_is_not_on_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"--db sqlite:///x\.db is not postgresql://user@host/database; without --db"):
        played(tmp_path, "--db", "sqlite:///x.db")
