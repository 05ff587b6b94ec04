"""The guides to Postgres, docs/guides/postgres.md and docs/guides/transactions-postgres.md, show what happens on a real server."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from tests.docs.pages import ROOT, alike, blocks
from tests.stores.servers import PostgresServer, postgres

PAGE = "docs/guides/transactions-postgres.md"
SHOWN = "postgresql://shop@db.example.com/shop"
RUN = "import sys; from tests.docs import pages as p; page, *urls = sys.argv[1:]; p.STAGES[page] = p.PageSetup(replaced=dict([urls])); p.read(page)"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.mark.slow
def test_what_it_shows_is_what_happens(server: PostgresServer) -> None:
    shown = [block for block in blocks((ROOT / PAGE).read_text(encoding="utf-8")) if block.language == "python"]
    assert len(shown) == 1 and "not run" not in shown[0].marks
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", RUN, PAGE, SHOWN, server.url]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


GUIDE = "docs/guides/postgres.md"
PROMPT = re.compile(r"^\$ ", re.MULTILINE)


@pytest.mark.real
def test_each_command_of_the_guide_prints_what_it_shows(server: PostgresServer, tmp_path: Path) -> None:
    async def set_up() -> None:
        connection = await asyncpg.connect(server.url)
        for statement in ("CREATE DATABASE shop", "CREATE ROLE shop_engine LOGIN", "CREATE ROLE shop_reports LOGIN"):
            await connection.execute(statement)
        await connection.close()

    asyncio.run(set_up())
    url = server.url.replace("/postgres?", "/shop?")
    reports = url.replace("perdure@", "shop_reports@")
    perdure = tmp_path / "perdure"
    perdure.write_text(f'#!/bin/sh\nexec {sys.executable} -m perdure.cli "$@"\n')
    perdure.chmod(0o755)
    environment = {**os.environ, "PERDURE_DB": url, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    _overview, *run = [block for block in blocks((ROOT / GUIDE).read_text(encoding="utf-8")) if block.language == "console"]
    shown = [part for block in run for part in PROMPT.split(block.text)[1:]]
    assert len(shown) > 6
    for command, _, output in (part.partition("\n") for part in shown):
        if command.startswith("perdure db migrate --dry-run"):  # the page tells of a database without tables here
            server.sql("DROP SCHEMA perdure CASCADE", "shop")
        typed = command.replace("postgresql://shop_reports@db.example.com/shop", f"'{reports}'")
        ended = subprocess.run(["sh", "-c", f"{{ {typed}; }} 2>&1"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
        printed = ended.stdout.replace(url, SHOWN)
        assert alike(output, printed), f"{command}\n{printed}"
