"""The demo of a definition: killed twice it goes on, and what it claims is true."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_it_is_killed_twice_and_all_that_it_claims_is_true(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples/demo_definition.py")]
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.count("kill -9") == 2 and "waits" not in said.stderr
    assert "NOT TRUE" not in said.stdout and said.stdout.count("   true: ") == 5
    assert "✓ pay" in said.stdout and "(not taken)" in said.stdout
    assert not list(tmp_path.iterdir())
