"""Claims about `perdure dev` as a process: what it leaves behind, and how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from perdure.api.loopback_access import DEV_FILE, DevServer, read_dev_server, remove_dev_server, write_dev_server
from perdure.cli.dev_command import OPENED
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
def test_in_a_directory_that_it_can_not_write_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / DEV_FILE.parent).touch()
    words = [*COMMAND, "--db", f"sqlite:///{tmp_path}/elsewhere.db"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=START_S)
    assert ended.returncode == ExitCode.INPUT and "begin in a directory that this user may write" in ended.stderr


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


SIGNALLED_AT_ONCE = """
import os, signal
from perdure.api import loopback_access
from perdure.cli import main

write = loopback_access.write_dev_server

def written(*given):
    write(*given)
    os.kill(os.getpid(), signal.SIGTERM)

loopback_access.write_dev_server = written
main()
"""


def test_a_signal_right_after_its_token_is_written_takes_the_token_with_it(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", SIGNALLED_AT_ONCE, *COMMAND[3:]], cwd=tmp_path, timeout=START_S, check=False)
    assert ended.returncode == 0
    assert not (tmp_path / DEV_FILE).exists()


@pytest.mark.slow
def test_it_prints_the_address_of_the_console_with_the_token_and_opens_it_in_a_browser(tmp_path: Path) -> None:
    browser, told = tmp_path / "browser", tmp_path / "told"
    browser.write_text(f'#!/bin/sh\necho "$@" > {told}.part && mv {told}.part {told}\n')
    browser.chmod(0o700)
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    with subprocess.Popen([*COMMAND, "--open"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.readline().strip()
        server = read_dev_server(tmp_path / DEV_FILE)
        assert server is not None and printed == server.page == f"{server.url}/#token={server.token}"
        until_s = time.monotonic() + START_S
        while not told.exists() and time.monotonic() < until_s:
            time.sleep(0.02)
        file = tmp_path / DEV_FILE.with_name(OPENED)
        assert told.read_text().strip() == file.resolve().as_uri(), "the token is on no command line"
        assert f"url={server.page}" in file.read_text() and file.stat().st_mode & 0o077 == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_S) == 0
    assert not file.exists()


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


def asked(server: DevServer) -> tuple[int, str]:
    """The status of a request to the server, and the body of a refusal."""
    request = urllib.request.Request(f"{server.url}/api/executions", headers={"Authorization": f"Bearer {server.token}"})
    try:
        with urllib.request.urlopen(request, timeout=START_S) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.slow
def test_while_the_code_does_not_load_requests_are_refused_with_the_reason(tmp_path: Path) -> None:
    flows = tmp_path / "flows.py"
    flows.write_text("def broken(:\n")
    with subprocess.Popen([*COMMAND[:-1], "flows.py"], cwd=tmp_path) as process:
        try:
            until_s = time.monotonic() + START_S
            while (server := read_dev_server(tmp_path / DEV_FILE)) is None and time.monotonic() < until_s:
                time.sleep(0.02)
            assert server is not None
            for _ in range(2):
                status, said = asked(server)
                assert status == 503 and json.loads(said)["code"] == "store_unavailable" and "could not be loaded" in said
            flows.write_text("from perdure import step\n\n\n@step\ndef nothing() -> None: ...\n")
            while asked(server)[0] != 200 and time.monotonic() < until_s:
                time.sleep(0.1)
            assert asked(server)[0] == 200
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(START_S) == 0


def test_a_port_that_is_taken_is_a_mistake_in_its_option(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [*COMMAND[:4], "--port", str(taken.getsockname()[1])]
        ended = subprocess.run(command, cwd=tmp_path, timeout=START_S, capture_output=True, text=True, check=False)
    assert ended.returncode == ExitCode.INPUT
    assert "--port:" in ended.stderr and "name another port, or port 0 for any that is free" in ended.stderr
