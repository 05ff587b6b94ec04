"""Starts and messages through an outbox in a Django project's own database, on SQLite and on Postgres."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("django", reason="Django is not installed")

from tests.stores.servers import postgres

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("outbox_project.py")


class Project:
    """The project of `outbox_project.py`, with databases in a directory or on a server."""

    def __init__(self, directory: Path, database: dict[str, Any]) -> None:
        self.directory, self.database = directory, json.dumps(database)

    def run(self, *arguments: str, code: int = 0) -> str:
        variables = {"PYTHONPATH": f"{ROOT}/src:{ROOT}", "PATH": "", "PERDURE_DB": f"sqlite:///{self.directory}/perdure.db"}
        command = [sys.executable, str(PROGRAM), self.database, *arguments]
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=90)
        assert done.returncode == code, done.stderr
        return done.stdout


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            made = Project(tmp_path, {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{tmp_path}/shop.db", "OPTIONS": {"transaction_mode": "IMMEDIATE"}})
        else:
            server = stack.enter_context(postgres())
            made = Project(tmp_path, {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "perdure", "HOST": str(server.directory)})
        made.run("migrate")
        yield made


@pytest.mark.prove
def test_orders_are_started_once_with_their_messages(project: Project) -> None:
    project.run("sell", "0", "30")
    project.run("roll-back")
    assert project.run("relay", "die", code=-9) == ""
    project.run("sell", "30", "5")
    ended = json.loads(project.run("relay"))
    assert ended == sorted([f"order-{number}", "completed", f"{number} in box {number}"] for number in range(35))


@pytest.mark.slow
def test_connections_without_a_transaction_and_others_are_refused(project: Project) -> None:
    first, second = project.run("refused").splitlines()
    assert "it commits by itself; open one with `with transaction.atomic():`" in first
    assert "the connection of Django to the database 'default'" in second
