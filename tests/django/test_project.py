"""What `perdure.django` does in a project: checks of its settings, tables after a migration, the command, and connections of steps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("django", reason="Django is not installed")

from perdure.cli.exit_codes import ExitCode
from perdure.core.errors import BadValue
from tests.stores.servers import postgres

ROOT = Path(__file__).parents[2]
SETTINGS = "from examples.web.django_shop.settings import *\n"


def managed(directory: Path, *arguments: str, settings: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    """A command of `manage.py` in the example's project, with further settings, in a directory of its own."""
    (directory / "more_settings.py").write_text(SETTINGS + settings)
    variables = {"SHOP_DIRECTORY": str(directory), "PYTHONPATH": f"{ROOT}:{directory}", "DJANGO_SETTINGS_MODULE": "more_settings", **environment}
    command = [sys.executable, "-m", "django", *arguments]
    return subprocess.run(command, cwd=directory, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("PERDURE_APP = None", "PERDURE_APP is None; set PERDURE_APP ="),
        ("PERDURE_APP = 'shop'", "PERDURE_APP is 'shop'; set PERDURE_APP ="),
        ("PERDURE_APP = 'no.such:app'", "which can't be imported (No module named 'no')"),
        ("PERDURE_APP = 'examples.web.flows:order'", "which is Workflow and not an App"),
        ("DATABASES['default']['OPTIONS'] = {}", "its transactions begin as readers"),
    ],
)
def test_a_setting_that_does_not_do_is_reported_by_check(tmp_path: Path, setting: str, says: str) -> None:
    done = managed(tmp_path, "check", "--database", "default", "--fail-level", "WARNING", settings=setting)
    assert done.returncode == 1
    assert says in done.stderr


@pytest.mark.slow
def test_a_project_migrates_twice_and_runs_the_command_on_its_database(tmp_path: Path) -> None:
    assert managed(tmp_path, "check", "--database", "default", "--fail-level", "WARNING").returncode == 0
    for _ in range(2):
        migrated = managed(tmp_path, "migrate")
        assert (migrated.returncode, migrated.stderr) == (0, "")
        assert "shop.db has Perdure's tables" in migrated.stdout
    (tmp_path / "own_app.py").write_text(f"from perdure import App\napp = App(db='sqlite:///{tmp_path}/shop.db')")
    elsewhere = "sqlite:///of-another-program.db"
    listed = managed(tmp_path, "perdure", "ls", "-o", "json", settings="PERDURE_APP = 'own_app:app'", PERDURE_DB=elsewhere)
    assert (listed.returncode, listed.stdout.strip(), listed.stderr) == (0, "[]", ""), "the database of the App, and not that of the environment"
    wrong = managed(tmp_path, "perdure", "no-such-command")
    assert wrong.returncode == ExitCode.FLAGS
    assert "manage.py perdure --help" in wrong.stderr


def test_connections_are_looked_at_before_and_after_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure import django

    said = list[str]()
    monkeypatch.setattr(django, "close_old_connections", lambda: said.append("closed"))

    @django.fresh_connections
    def reserve(order: str) -> str:
        said.append(order)
        if order == "bad":
            raise ValueError(order)
        return order

    assert reserve("o1") == "o1"
    with pytest.raises(ValueError, match="bad"):
        reserve("bad")
    assert said == ["closed", "o1", "closed", "closed", "bad", "closed"]


def test_an_async_function_is_refused() -> None:
    from perdure.django import fresh_connections

    async def reserve() -> None:
        """Would call the ORM on an event loop."""

    with pytest.raises(BadValue, match="a plain function"):
        fresh_connections(reserve)


@pytest.mark.real
def test_a_project_with_an_app_on_postgres_migrates_its_schema(tmp_path: Path) -> None:
    with postgres() as server:
        for _ in range(2):
            migrated = managed(tmp_path, "migrate", PERDURE_DB=server.url)
            assert migrated.returncode == 0, migrated.stderr
            assert f"{server.url} has Perdure's tables" in migrated.stdout
        listed = managed(tmp_path, "perdure", "db", "status", PERDURE_DB=server.url)
        assert listed.returncode == 0 and "0001_tables" in listed.stdout, listed.stderr
