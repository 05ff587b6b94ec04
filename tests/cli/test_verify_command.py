"""What the command that verifies says of damage, word for word."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.cli.shell import Shell, agrees, steady, transcript

DAMAGE = """
UPDATE heads SET status = 'running' WHERE address LIKE '%"waiting"%';
DELETE FROM log WHERE execution = (SELECT number FROM heads WHERE address LIKE '%"tree"%') AND version < 5;
UPDATE mail SET body = x'00' WHERE address LIKE '%pending%';
INSERT INTO blobs VALUES ('0000000000000000000000000000000000000000000000000000000000000000', x'00')
"""


def test_damage_is_shown_first_with_what_to_do(shell: Shell, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "perdure.db")) as database:
        database.executescript(DAMAGE)
    commands = ("verify", "verify waiting -o ids", "verify -o jsonl", "verify ada")
    agrees("verify_damaged", steady("".join(transcript(command, shell.run(command)) for command in commands), tmp_path))
