"""The guide to moving a database, docs/guides/moving.md, shows what happens with a real server."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT
from tests.stores.servers import DatabaseServer, postgres

PAGE = "docs/guides/moving.md"
SHOWN = "postgresql://shop@db.example.com/shop"
RUN = "import sys; from tests.docs import pages as p; page, *urls = sys.argv[1:]; p.STAGES[page] = p.PageSetup(replaced=dict([urls])); p.read(page)"


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.mark.prove
def test_what_it_shows_is_what_happens(server: DatabaseServer) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", RUN, PAGE, SHOWN, f"'{server.url}'"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
