"""The demos of a definition, in workers and behind a server: killed twice they go on, and what they claim is true."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def said_by(program: str, directory: Path) -> str:
    """What a demo says; all that it claims is true, and it leaves nothing behind."""
    environment = os.environ | {"TMPDIR": str(directory), "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    said = subprocess.run([sys.executable, str(ROOT / program)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.count("kill -9") == 2 and "waits" not in said.stderr and "NOT TRUE" not in said.stdout
    assert not list(directory.iterdir())
    return said.stdout


@pytest.mark.prove
def test_a_definition_in_workers_is_killed_twice_and_all_that_it_claims_is_true(tmp_path: Path) -> None:
    said = said_by("examples/demo_definition.py", tmp_path)
    assert said.count("   true: ") == 5
    assert "✓ pay" in said and "(not taken)" in said


@pytest.mark.prove
def test_a_server_is_killed_twice_and_all_that_it_claims_is_true(tmp_path: Path) -> None:
    said = said_by("examples/demo_http.py", tmp_path)
    assert said.count("   true: ") == 6
    assert "claim@1.0.0" in said and '"created": true' in said and '"created": false' in said
