"""Every exit code is reached: those that no transcript has are reached here."""

import re
from pathlib import Path

import pytest

from perdure.cli.exit_codes import ExitCode
from perdure.sync_client import Client
from tests.cli.shell import GOLDEN, Shell, read_sections

ELSEWHERE = {
    ExitCode.DEFECT: "here",
    ExitCode.INTERRUPTED: "test_processes: it takes a signal",
    ExitCode.PIPE: "test_processes: it takes a pipe",
}


def test_every_code_is_in_a_transcript_or_reached_elsewhere() -> None:
    seen = {ExitCode(int(found)) for file in GOLDEN.glob("*.txt") for found in re.findall(r"^= (\d+)$", file.read_text(), re.MULTILINE)}
    assert seen | set(ELSEWHERE) == set(ExitCode)
    assert not seen & set(ELSEWHERE)


@pytest.mark.slow
def test_a_defect_is_said_in_two_lines_and_shown_with_debug(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Client) -> None:
        raise KeyError("x\ny")

    monkeypatch.setattr(Client, "engines", broken)
    said = shell.run("engines")
    assert (said.code, said.out) == (1, "")
    assert said.err.splitlines() == ["perdure: KeyError: 'x\\ny'", "this is a defect of Perdure; --debug shows where, please report it"]
    assert "Traceback (most recent call last)" in shell.run("engines --debug").err


def test_a_database_that_nobody_knows_is_bad_input_and_its_password_is_not_shown(shell: Shell) -> None:
    said = shell.run("ls --db mysql://user:secret@host/db")
    assert (said.code, said.out) == (10, "")
    assert "mysql://user:***@host/db" in said.err
    assert "secret" not in said.err


def test_every_section_of_a_transcript_belongs_to_a_test_and_is_there_once() -> None:
    sections = [name for file in GOLDEN.glob("*.txt") for name in read_sections(file)]
    source = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert len(sections) > 300 and len(set(sections)) == len(sections)
    assert [name for name in sections if f'"{name}"' not in source] == []
