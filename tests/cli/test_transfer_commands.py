"""The commands that carry executions elsewhere and that replay them, word for word, one after the other."""

from pathlib import Path

import pytest

from tests.cli.shell import CHANGED, FLOWS, Shell, agrees, steady, transcript

SECRET = "a secret that is long enough"
EXPORTING = (
    "export waiting",
    "export waiting",
    "export tree -o DIR/tree.perdure --children --json",
    "export nobody",
    "export ada -o DIR/none/ada.perdure",
)
IMPORTING = (
    "import order-waiting.perdure --db sqlite:///DIR/other.db",
    "import order-waiting.perdure --db sqlite:///DIR/other.db",
    "import order-waiting.perdure --db sqlite:///DIR/other.db --id copy --paused --json",
    "import branches-tree.perdure --db sqlite:///DIR/other.db -o ids",
    "ls --db sqlite:///DIR/other.db",
    "import none.perdure",
    "import text.perdure",
)
REPLAYING = (
    "replay order-waiting.perdure FLOWS",
    "replay order-waiting.perdure CHANGED",
    "replay branches-tree.perdure FLOWS --json",
    "replay branches-tree.perdure CHANGED -o ids",
    "replay order-waiting.perdure",
)


def said(shell: Shell, commands: tuple[str, ...], directory: Path) -> str:
    """What one command after the other says."""
    lines = [command.replace("DIR", str(directory)) for command in commands]
    return steady("".join(transcript(line, shell.run(line)) for line in lines), directory)


@pytest.fixture
def exported(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell beside files with executions."""
    monkeypatch.setenv("PERDURE_SIGNING_SECRET", SECRET)
    for id in ("waiting", "tree"):
        assert shell.run(f"export {id}").code == 0
    (tmp_path / "text.perdure").write_text("this is no export")
    return shell


def test_exporting_says_what_the_file_has(shell: Shell, tmp_path: Path) -> None:
    agrees("export", said(shell, EXPORTING, tmp_path))


@pytest.mark.slow
def test_importing_says_what_is_here_now_and_that_it_may_run_twice(exported: Shell, tmp_path: Path) -> None:
    agrees("import", said(exported, IMPORTING, tmp_path))


def test_a_file_that_was_not_signed_here_is_taken_only_if_that_is_said(exported: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SIGNING_SECRET", "another one that is long enough")
    commands = ("import order-waiting.perdure --id new", "import order-waiting.perdure --id new --paused --unsigned")
    agrees("import_unsigned", said(exported, commands, tmp_path))


def test_replaying_says_whether_the_code_fits(exported: Shell, tmp_path: Path) -> None:
    agrees("replay", said(exported, REPLAYING, tmp_path))


def test_replaying_finds_the_application_that_is_here(exported: Shell, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CHANGED.read_text())
    assert exported.run("replay order-waiting.perdure").code == 11
    (tmp_path / "app.py").write_text(FLOWS.read_text())


def test_a_file_goes_through_a_pipe(exported: Shell, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from perdure.cli.command_list import root

    piped = CliRunner().invoke(root, ["--db", exported.db, "export", "ada", "-o", "-"], prog_name="perdure")
    assert piped.exit_code == 0 and piped.stdout_bytes.startswith(b"\x89perdure\r\n")
    taken = CliRunner().invoke(root, ["--db", f"sqlite:///{tmp_path}/piped.db", "import", "-"], input=piped.stdout_bytes, prog_name="perdure")
    assert (taken.exit_code, taken.stdout) == (0, "greet/ada is imported, completed\n")
    assert exported.run(f"result ada --db sqlite:///{tmp_path}/piped.db").out == "Hello Ada\n"


@pytest.mark.slow
def test_what_was_imported_goes_on_in_the_same_state_as_it_was_in(exported: Shell, tmp_path: Path) -> None:
    other = f"--db sqlite:///{tmp_path}/all.db"
    listed = exported.run("ls -q").out.splitlines()
    for number, name in enumerate(listed):
        assert exported.run(f"export - -o {number}.perdure", stdin=name).code == 0
        assert exported.run(f"import {number}.perdure {other}").code == 0
    for name in listed:
        here, there = (exported.run(f"query - {db}", stdin=name).out for db in ("", other))
        assert here == there
    assert exported.run(f"ls {other} -q --status failed,cancelled,paused,needs_attention").out.count("\n") == 5
