"""The test suite of an application, run by a real pytest in a process of its own: it passes, and it notices what breaks the application."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BOOKSHOP = Path(__file__).parents[2] / "examples/bookshop"

pytestmark = pytest.mark.slow


def run_suite(directory: Path, *options: str) -> str:
    """Runs the suite of a copy of the bookshop in `directory`; returns what pytest says."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "perdure.testing.plugin"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120, check=False).stdout


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return shutil.copytree(BOOKSHOP, tmp_path / "bookshop", ignore=shutil.ignore_patterns("__pycache__"))


def test_a_test_of_its_suite_passes_in_every_crash(copied: Path) -> None:
    said = run_suite(copied, "-k", "test_a_sale_is_paid_and_delivered_once")
    assert said.splitlines()[-1].startswith("1 passed, 5 deselected in "), said
    assert not list(copied.glob("*.db*")), "the database of the application is not touched"


@pytest.mark.prove
def test_its_suite_passes_in_every_crash(copied: Path) -> None:
    said = run_suite(copied)
    assert said.splitlines()[-1].startswith("6 passed in "), said
    assert not list(copied.glob("*.db*")), "the database of the application is not touched"


@pytest.mark.parametrize(
    ("right", "wrong", "noticed"),
    [
        pytest.param(
            "bank_transfer(step_info().key, cents)",
            "bank_transfer(str(time.monotonic_ns()), cents)",
            "test_a_sale_is_paid_and_delivered_once",
            marks=pytest.mark.prove,
        ),
        pytest.param("@reserve.undo\n", "", "test_what_can_not_be_sold_goes_back_to_the_shelf", marks=pytest.mark.prove),
    ],
    ids=["a payment without its key", "nothing is undone"],
)
def test_its_suite_notices_a_bug(copied: Path, right: str, wrong: str, noticed: str) -> None:
    code = copied / "bookshop.py"
    assert right in code.read_text()
    code.write_text(f"import time\n{code.read_text().replace(right, wrong)}")
    said = run_suite(copied)
    assert noticed in said and " failed" in said.splitlines()[-1], said
