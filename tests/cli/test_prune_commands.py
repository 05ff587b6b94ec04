"""The command that removes what executions did long ago: what stays is said word for word, and the archive has what went."""

from pathlib import Path

import pytest

from perdure.cli.exit_codes import ExitCode
from tests.cli.shell import Shell, agrees, steady, transcript

pytestmark = pytest.mark.slow

COMMANDS = (
    "prune --older-than 0s --archive DIR/archive --workflow greet",
    "prune --older-than 0s --workflow greet",
    "ls --workflow greet",
    "show ada",
    "result ada",
    "start greet Ada --id ada",
    "rerun ada",
    "undo ada",
    "verify",
)


def test_what_was_removed_is_still_known_and_says_so(shell: Shell, tmp_path: Path) -> None:
    lines = [command.replace("DIR", str(tmp_path)) for command in COMMANDS]
    agrees("prune_then", steady("".join(transcript(line, shell.run(line)) for line in lines), tmp_path))


def test_what_is_in_the_archive_can_be_imported(shell: Shell, tmp_path: Path) -> None:
    assert shell.run(f"prune --older-than 0s --archive {tmp_path}/archive").code == 0
    files = sorted((tmp_path / "archive").iterdir())
    assert len(files) == 4 and all(file.suffix == ".perdure" for file in files)
    other = f"--db sqlite:///{tmp_path}/other.db"
    for file in files:
        assert shell.run(f"import {file} --unsigned {other}").code == 0
    assert shell.run(f"result ada {other}").out == "Hello Ada\n"


def test_nothing_is_removed_that_could_not_be_archived(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("a file in its place")
    said = shell.run(f"prune --older-than 0s --archive {tmp_path}/archive/below")
    assert (said.code, "nothing more was removed" in said.err) == (10, True)
    assert shell.run("result ada").out == "Hello Ada\n"


def test_ids_are_forgotten_only_after_a_warning(shell: Shell) -> None:
    asked = shell.run("prune --older-than 0s --workflow greet --forget-ids")
    assert asked.code != 0 and "runs again, with all its effects" in asked.err
    assert shell.run("result ada").code == 0
    assert "forgotten" in shell.run("prune --older-than 0s --workflow greet --forget-ids --yes").out
    assert shell.run("result ada").code == ExitCode.NOT_FOUND
