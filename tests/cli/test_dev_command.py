"""Claims about `perdure dev` as a process: what it leaves behind, and how it ends."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure.api.loopback_access import DEV_FILE, DevServer, read_dev_server, remove_dev_server, write_dev_server
from perdure.cli.exit_codes import ExitCode

COMMAND = [sys.executable, "-m", "perdure.cli", "dev", "--port", "0", "--no-reload"]
START_S = 60.0


def test_only_the_server_that_is_named_is_removed(tmp_path: Path) -> None:
    file, first, second = tmp_path / "dev.json", DevServer("http://127.0.0.1:1", "a"), DevServer("http://127.0.0.1:2", "b")
    write_dev_server(file, first)
    write_dev_server(file, second)
    remove_dev_server(file, first)
    assert read_dev_server(file) == second
    remove_dev_server(file, second)
    assert not file.exists()
    remove_dev_server(file, second)


@pytest.mark.slow
def test_it_ends_by_a_signal_and_takes_its_token_with_it(tmp_path: Path) -> None:
    with subprocess.Popen(COMMAND, cwd=tmp_path) as process:
        until_s = time.monotonic() + START_S
        while read_dev_server(tmp_path / DEV_FILE) is None and time.monotonic() < until_s:
            time.sleep(0.02)
        assert read_dev_server(tmp_path / DEV_FILE) is not None
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_S) == 0
    assert not (tmp_path / DEV_FILE).exists()


@pytest.mark.slow
def test_it_has_the_exit_code_of_what_it_ran(tmp_path: Path) -> None:
    ended = subprocess.run([*COMMAND, "nothing.py"], cwd=tmp_path, check=False, capture_output=True, timeout=START_S)
    assert ended.returncode == ExitCode.INPUT and b"nothing.py" in ended.stderr
    assert not (tmp_path / DEV_FILE).exists()


@pytest.mark.slow
def test_what_serves_ends_with_the_process_that_watches_even_if_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([*COMMAND], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("ready") for line in process.stdout)
        process.kill()
        _ = process.stdout.read()  # which ends when the last process that writes there has ended
    assert process.returncode == -signal.SIGKILL
