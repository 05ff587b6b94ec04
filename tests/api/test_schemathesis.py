"""Claims about the API that Schemathesis checks: whatever it makes of the OpenAPI document, no answer is an error of the server or is not described."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.operations.operation_table import OPERATIONS

ROOT = Path(__file__).parents[2]
SCHEMATHESIS = ROOT / ".venv-schemathesis/bin/st"

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance,"
    "unsupported_method,allow_header_conformance"
)
NOT_ASKED = tuple(one.name for one in OPERATIONS if one.waits_for_answer)
"""Operations that wait for an answer which none of the executions gives."""

EXAMPLES = 50
RUN_S = 1_500


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The URL of an API in another process."""
    with subprocess.Popen([sys.executable, "-m", "tests.api.schemathesis_server", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.kill()


@pytest.mark.prove
@pytest.mark.skipif(not SCHEMATHESIS.exists(), reason="make prove installs Schemathesis")
def test_schemathesis_finds_no_error_of_the_server_and_nothing_that_is_not_described(url: str, tmp_path: Path) -> None:
    phases = ["--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", "1", "--generation-database", "none"]
    bounds = ["--request-timeout", "15", "--continue-on-failure", "--no-color", "--suppress-health-check", "all"]
    left_out = [word for name in NOT_ASKED for word in ("--exclude-operation-id", name)]
    command = [str(SCHEMATHESIS), "run", f"{url}/openapi.json", "--checks", CHECKS, *phases, *bounds, *left_out]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
    assert " passed" in ran.stdout
