"""The unit tests of the console's own sources, which Vitest runs."""

import subprocess
import sys

import pytest

from tests.console.browsers import unable
from tools.build_console import INSTALLED, ROOT


@pytest.mark.slow
def test_the_unit_tests_of_the_console_pass() -> None:
    if not INSTALLED.exists():
        unable("the packages of the console are not installed: run make console")
    ended = subprocess.run([sys.executable, "-m", "tools.build_console", "--unit-tests"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
