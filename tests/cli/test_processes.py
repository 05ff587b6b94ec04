"""The command as a process: what it imports, how it ends, signals, pipes, what it does without its libraries."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.shell import FLOWS, Shell

pytestmark = pytest.mark.slow

PERDURE = [sys.executable, "-m", "perdure.cli"]
TIMEOUT_S = 20


def run(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PERDURE, *args], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, **options)  # type: ignore[call-overload, no-any-return]  # options of subprocess.run


def python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@contextmanager
def running(args: Sequence[str], **options: object) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([*PERDURE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]  # options of Popen
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


IMPORTED = """
import sys
import time
import perdure
before = set(sys.modules)
from perdure.cli import main
try:
    main()
except SystemExit:
    print("\\n".join(sorted(set(sys.modules) - before)), file=sys.stderr)
"""


@pytest.mark.parametrize("args", [["--help"], ["ls", "--help"]])
def test_help_imports_little(args: list[str]) -> None:
    imported = python(IMPORTED, *args).stderr.split()
    heavy = [name for name in imported if name.startswith(("rich", "sqlite3", "perdure.runtime", "perdure.service", "perdure.stores", "perdure.sync_client"))]
    assert not heavy
    assert len([name for name in imported if name.startswith("perdure.")]) <= 42
    assert len(imported) <= 105


def test_without_its_libraries_it_says_what_to_install() -> None:
    for name in ("click", "rich"):
        found = python(f"import sys; sys.modules[{name!r}] = None; sys.argv = ['perdure', 'ls']; from perdure.cli import main; main()")
        assert (found.returncode, found.stderr.count("\n")) == (1, 1) or name == "rich"
        if name == "click":
            assert 'pip install "perdure[cli]"' in found.stderr


def test_a_value_goes_through_a_pipe_and_errors_do_not(shell: Shell) -> None:
    found = run("--db", shell.db, "result", "ada")
    assert (found.returncode, found.stdout, found.stderr) == (0, "Hello Ada\n", "")
    found = run("--db", shell.db, "result", "failing")
    assert (found.returncode, found.stdout) == (40, "")
    assert "Traceback" not in found.stderr


def test_with_debug_there_is_a_traceback(shell: Shell) -> None:
    found = run("--debug", "--db", shell.db, "result", "failing")
    assert found.returncode == 40
    assert "Traceback (most recent call last)" in found.stderr


def test_who_stops_reading_ends_it_silently(shell: Shell) -> None:
    with running(["--db", shell.db, "events", "tree"]) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(TIMEOUT_S) == 141
        assert process.stderr.read() == ""


def test_ctrl_c_in_the_middle_of_a_run_ends_it_with_130_and_says_how_to_go_on(tmp_path: Path) -> None:
    with running(["--db", f"sqlite:///{tmp_path}/x.db", "run", f"{FLOWS}:thinks", "--id", "t1"]) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "thinking\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        said = process.stderr.read()
    assert "Traceback" not in said
    assert "--id t1" in said


def test_a_store_that_cannot_be_opened_is_50(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, but it is long enough to be looked at " * 20)
    found = run("--db", f"sqlite:///{tmp_path}/text.db", "ls")
    assert found.returncode == 50
    assert found.stderr.count("\n") <= 2


MENDS = [
    "retry a",
    "rerun a",
    "fork a",
    "preset a b",
    "dead-letters",
    "requeue a",
    "discard a",
    "approvals",
    "approve a",
    "reject a",
    "decide a",
    "cancel --all",
]
LOOKS = [
    *MENDS,
    "graph a",
    "patch a --set b.with=1",
    "dlq ls",
    "show a --tokens",
    "ls",
    "show a",
    "events a",
    "logs a",
    "result a",
    "engines",
    "send a go",
    "cancel a",
    "terminate a",
    "pause a",
    "resume a",
    "db check",
]


@pytest.mark.parametrize("command", LOOKS)
def test_a_command_that_creates_nothing_does_not_make_a_database(command: str, tmp_path: Path) -> None:
    found = run("--db", f"sqlite:///{tmp_path}/none/none.db", *command.split())
    assert found.returncode == 50
    assert "there is no database at" in found.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("columns", "environment"), [("40", {}), ("200", {"NO_COLOR": "1"})])
def test_on_a_terminal_a_table_fits_its_width(shell: Shell, columns: str, environment: dict[str, str]) -> None:
    import pty  # there is none on Windows

    parent, child = pty.openpty()
    given = {**os.environ, "COLUMNS": columns, "LINES": "40", "TERM": "xterm", **environment}
    with subprocess.Popen([*PERDURE, "--db", shell.db, "show", "tree"], stdout=child, stderr=child, env=given) as process:
        os.close(child)
        shown = b""
        try:
            while part := os.read(parent, 65536):
                shown += part
        except OSError:  # the terminal is closed
            pass
        assert process.wait(TIMEOUT_S) == 0
    os.close(parent)
    text = shown.decode()
    assert ("\x1b[32m" in text) == ("NO_COLOR" not in environment)
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert len(lines) >= 12


def test_completion_is_what_click_gives() -> None:
    found = run(env={**os.environ, "_PERDURE_COMPLETE": "bash_source"})
    assert found.returncode == 0
    assert "_perdure_completion" in found.stdout


@pytest.mark.parametrize("command", ["ls --watch", "events waiting --follow", "show waiting --watch -o jsonl", "result waiting --wait"])
def test_ctrl_c_leaves_whoever_waits_or_watches_with_130(shell: Shell, command: str) -> None:
    with running(["--db", shell.db, *command.split()]) as process:
        assert process.stdout is not None and process.stderr is not None
        if command.startswith("result"):  # it says nothing; but that it is there, is seen beside the file
            while not list(shell.directory.glob(f"perdure.db.processes/{process.pid}-*")):
                time.sleep(0.02)
        else:
            assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        said = process.stderr.read()
    assert "Traceback" not in said
    assert not said.strip() or "perdure result --wait order/waiting waits for it" in said


def test_what_an_output_cannot_show_is_written_as_an_escape(shell: Shell) -> None:
    given = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    found = run("--db", shell.db, "show", "tree", env=given, encoding="latin-1")
    assert (found.returncode, found.stdout.isascii()) == (0, True)
    assert "`-- +  greeting" in found.stdout
    assert "naïve/café \\u2615@1" in run("--db", shell.db, "ls", env=given, encoding="latin-1").stdout
