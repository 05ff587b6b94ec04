"""The unit tests of the console's own sources, which Vitest runs."""

import subprocess
import sys

import pytest

from tests.console.browsers import unable
from tools.build_console import INSTALLED, ROOT


@pytest.mark.prove
def test_the_unit_tests_of_the_console_pass() -> None:
    passed()


@pytest.mark.slow
def test_the_unit_tests_of_one_file_of_the_console_pass() -> None:
    passed("--only", "words/states.test")


def passed(*options: str) -> None:
    if not INSTALLED.exists():
        unable("the packages of the console are not installed: run make console")
    ended = subprocess.run([sys.executable, "-m", "tools.build_console", "--unit-tests", *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
