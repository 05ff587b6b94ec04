"""The demo as a user sees it: it plays itself, it obeys its keys on a terminal, and it leaves the terminal and the machine as they were."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

DEMO = [sys.executable, "-m", "perdure.cli", "demo"]
WAIT_S = 30.0
PLAYED_S_MAX = 20.0


def environment(directory: Path, takes_s: float) -> dict[str, str]:
    """Everything that it makes is made in `directory`."""
    return os.environ | {"TMPDIR": str(directory), "ORDER_WORLD_TAKES_S": str(takes_s), "TERM": "xterm"}


def left_over(directory: Path) -> list[str]:
    """Files that it has left, and processes whose files were there."""
    processes = [entry for entry in Path("/proc").glob("[0-9]*/environ") if str(directory).encode() in read(entry)]
    return [str(one) for one in (*directory.iterdir(), *processes)]


def read(file: Path) -> bytes:
    """What is in a file that may go away, or be nobody's business."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def played(directory: Path, *options: str, within_s: float = PLAYED_S_MAX) -> str:
    """What the demo prints without a terminal, in a directory in which it leaves nothing."""
    began_s = time.monotonic()
    said = subprocess.run([*DEMO, *options], cwd=directory, env=environment(directory, 0.6), capture_output=True, text=True, timeout=120, check=False)
    assert (said.returncode, said.stderr) == (0, ""), said.stdout + said.stderr
    assert time.monotonic() - began_s < within_s
    assert "All of it was true" in said.stdout and "NOT TRUE" not in said.stdout
    assert "\x1b" not in said.stdout, "colours are for terminals"
    assert not left_over(directory)
    return said.stdout


def test_it_plays_itself_and_all_that_it_claims_is_true(tmp_path: Path) -> None:
    said = played(tmp_path)
    assert said.count("kill -9") == 3 and "while the order waits" in said and "order 1001 was shipped" in said
    assert "done before under this key" in said, "it was to be killed when the bank had charged, and that was not recorded"


@pytest.mark.prove
def test_a_rejected_order_is_given_back_and_without_a_terminal_no_keys_are_awaited(tmp_path: Path) -> None:
    said = played(tmp_path, "--rejected", "--interactive")
    assert said.count("kill -9") == 1 and "order 1001 was given back" in said


class Terminal:
    """A terminal with the demo in it, and whoever sits before it."""

    def __init__(self, process: "subprocess.Popen[bytes]", ours: int, theirs: int) -> None:
        self.process, self.seen = process, ""
        self._ours, self._theirs = ours, theirs
        self._read = 0

    def until(self, text: str) -> None:
        """Read on until this has appeared."""
        ends_s = time.monotonic() + WAIT_S
        while (at := self.seen.find(text, self._read)) < 0:
            assert time.monotonic() < ends_s and self.process.poll() is None, f"there was no {text!r} in: {self.seen}"
            self._receive()
        self._read = at + len(text)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Read to the end; return the exit code."""
        ends_s = time.monotonic() + WAIT_S
        while self.process.poll() is None:
            assert time.monotonic() < ends_s, f"it does not end: {self.seen}"
            self._receive()
        self._receive()
        return self.process.returncode

    def modes(self) -> list[Any]:
        """How the terminal is set."""
        return termios.tcgetattr(self._theirs)

    def _receive(self) -> None:
        while select.select([self._ours], [], [], 0.05)[0]:
            self.seen += os.read(self._ours, 4096).decode()


@contextmanager
def terminal(directory: Path) -> Iterator[Terminal]:
    """The demo in a terminal of its own, whose Ctrl-C reaches it."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", f"import os, sys; os.login_tty(0); os.execv(sys.executable, {[*DEMO, '--interactive']!r})"]
    with subprocess.Popen(
        command, cwd=directory, env=environment(directory, 0.3), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        try:
            yield Terminal(process, ours, theirs)
        finally:
            process.terminate()
            _ = process.wait()
            os.close(ours)
            os.close(theirs)


@pytest.mark.prove
def test_killed_with_a_key_it_goes_on_and_ends_as_the_customer_decides(tmp_path: Path) -> None:
    with terminal(tmp_path) as demo:
        before = demo.modes()
        demo.until("asks the bank")
        demo.press("k")
        demo.until("kill -9 worker")
        demo.until("in the middle of charge")
        demo.until("asks the bank again")
        demo.until("after the kill")
        demo.until("press a or r")
        demo.press("\x1b[A")  # an arrow, which is no approval
        demo.press("k")
        demo.until("while the order waits")
        demo.press("r")
        demo.until("the customer rejects")
        demo.until("given back")
        assert demo.end() == 0
        assert demo.modes() == before
        assert "NOT TRUE" not in demo.seen and "\x1b[32mok\x1b[0m" in demo.seen
    assert not left_over(tmp_path)


@pytest.mark.parametrize(("how", "code"), [pytest.param("\x03", 130, id="Ctrl-C"), pytest.param(signal.SIGTERM, 143, id="SIGTERM", marks=pytest.mark.prove)])
def test_however_it_ends_the_terminal_is_as_it_was_and_nothing_is_left(how: str | signal.Signals, code: int, tmp_path: Path) -> None:
    with terminal(tmp_path) as demo:
        before = demo.modes()
        demo.until("asks the warehouse")
        assert demo.modes() != before
        if isinstance(how, str):
            demo.press(how)
        else:
            demo.process.send_signal(how)
        assert demo.end() == code
        assert demo.modes() == before
    assert not left_over(tmp_path)


@pytest.mark.prove
def test_suspended_it_gives_the_terminal_back_and_resumed_it_takes_it_again(tmp_path: Path) -> None:
    with terminal(tmp_path) as demo:
        before = demo.modes()
        demo.until("asks the warehouse")
        during = demo.modes()
        demo.press("\x1a")
        _, status = os.waitpid(demo.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status) and demo.modes() == before
        demo.process.send_signal(signal.SIGCONT)
        demo.until("asks the bank")
        assert demo.modes() == during
        demo.press("q")
        assert demo.end() == 0
        assert demo.modes() == before
    assert not left_over(tmp_path)
