"""Claims about `--log-format`: with json each line on standard error is an object, whatever code has set up; PERDURE_LOG_FORMAT says the same."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.serve_process import new_key, serving

pytestmark = pytest.mark.slow

FLOW = """
import logging
import warnings

from perdure import Context, step, workflow

logging.basicConfig(format="mine %(message)s")


@step
def failing(number: int) -> None:
    logging.getLogger("shop").error("of the step", exc_info=ValueError("with s3cr3t"))
    warnings.warn("of Python")
    raise RuntimeError("boom")


@workflow
async def flow(ctx: Context) -> None:
    ctx.log.info("begins", cents=500)
    try:
        await ctx.step(failing, 1)
    except Exception:
        ctx.log.warning("has failed")
"""


def stderr_of(tmp_path: Path, *options: str, **environment: str) -> str:
    (tmp_path / "flow.py").write_text(FLOW)
    command = [sys.executable, "-W", "default", "-m", "perdure.cli", "run", "flow.py", "--id", "f1", *options]
    env = {**os.environ, "PERDURE_TOKEN": "s3cr3t", "PERDURE_DB": f"sqlite:///{tmp_path}/flow.db", **environment}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=True)
    return done.stderr


@pytest.mark.parametrize(
    ("options", "environment"),
    [pytest.param(("--log-format", "json"), {}, marks=pytest.mark.prove), ((), {"PERDURE_LOG_FORMAT": "json"})],
    ids=["option", "environment"],
)
def test_every_line_is_an_object(tmp_path: Path, options: tuple[str, ...], environment: dict[str, str]) -> None:
    said = stderr_of(tmp_path, *options, **environment)
    found: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines()]
    by_logger = {one["logger"]: one for one in reversed(found)}
    assert by_logger["perdure.workflow"]["execution"] == "flow/f1" and by_logger["perdure.workflow"]["fields"] == {"cents": 500}
    of_step = by_logger["shop"]
    assert (of_step["execution"], of_step["step"], of_step["attempt"], of_step["tenant"]) == ("flow/f1", "failing", 1, "default")
    assert of_step["exception"]["type"] == "ValueError" and "s3cr3t" not in said
    assert "UserWarning: of Python" in by_logger["py.warnings"]["message"]


def test_every_line_of_a_server_is_an_object(tmp_path: Path) -> None:
    _ = new_key(tmp_path)
    with serving(tmp_path, "--log-format", "json") as server:
        until_s = time.monotonic() + 30
        while f"the console is at {server.url}/" not in server.log.read_text():
            assert server.process.poll() is None and time.monotonic() < until_s
            time.sleep(0.02)
        server.signal(signal.SIGTERM)
        assert server.ended() == 0
    told: list[dict[str, Any]] = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert any(one["message"].startswith("the engine knows ") for one in told), told


def test_text_leaves_the_handlers_of_the_code(tmp_path: Path) -> None:
    said = stderr_of(tmp_path)
    assert "mine of the step" in said and "mine begins cents=500" in said


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        _ = stderr_of(tmp_path, "--log-format", "xml")
    assert failed.value.returncode == 20 and "'xml' is not one of" in failed.value.stderr
