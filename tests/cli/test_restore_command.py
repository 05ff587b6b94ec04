"""The command that puts a backup in the place of the database, word for word."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell, agrees, steady, transcript

COMMANDS = (
    "db backup DIR/copy.db",
    "cancel waiting",
    "db restore DIR/copy.db",
    "db restore DIR/none.db --replace",
    "db restore DIR/copy.db --replace",
    "ls --workflow order --status cancelled -o ids",
    "result ada",
    "db restore DIR/copy.db --db sqlite:///DIR/other/new.db",
)


@pytest.mark.slow
def test_a_backup_takes_the_place_of_the_database_once_one_says_so(shell: Shell, tmp_path: Path) -> None:
    lines = [command.replace("DIR", str(tmp_path)) for command in COMMANDS]
    agrees("db_restore_then", steady("".join(transcript(line, shell.run(line)) for line in lines), tmp_path))
