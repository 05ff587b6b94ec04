"""Runs the fault tests on Postgres, and prints what came of each fault: ``python -m tests.stores.postgres.table [--long] [-k EXPRESSION]``."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.stores.postgres.fault_rows import ROWS, FaultRow, read_rows

HERE = Path(__file__).parent
HEADER = ("fault", "how many", "lost", "doubled", "stuck", "note")


def table(rows: Sequence[FaultRow]) -> str:
    """The rows as a table in Markdown."""
    lines = [HEADER, ("---", "---:", "---:", "---:", "---:", "---"), *([str(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests and print the table; return the exit code of the tests."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.stores.postgres.table")
    parser.add_argument("--long", action="store_true", help="run the long forms as well, which `make prove` runs")
    parser.add_argument("-k", metavar="EXPRESSION", default="", help="run only the tests whose names match")
    chosen = parser.parse_args(arguments)
    marks = "real or prove" if chosen.long else "real"
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "rows"
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-m", marks, "-k", chosen.k, str(HERE)]
        code = subprocess.run(command, cwd=HERE.parents[2], env={**os.environ, ROWS: str(file)}, stdout=sys.stderr).returncode
        sys.stdout.write(table(read_rows(file)) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
