"""The rows of the fault table: each fault test writes one, and `table` prints them."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.runtime.processes import record

ROWS = "PERDURE_FAULT_ROWS"
"""The variable that names the file that rows are appended to."""


class Verdict(NamedTuple):
    """What came of a fault.

    `lost`: starts and outcomes that were acknowledged, and are not there. `doubled`: steps that ran again after their outcome was recorded, or whose outcome
    was recorded twice. `stuck`: executions that had not ended when all was well again for longer than they need.
    """

    lost: int = 0
    doubled: int = 0
    stuck: int = 0

    def __add__(self, other: object) -> "Verdict":
        assert isinstance(other, Verdict)
        return Verdict(self.lost + other.lost, self.doubled + other.doubled, self.stuck + other.stuck)


UNHARMED = Verdict()


def in_real(*values: object) -> Any:
    """Parameters of a test for `make real`."""
    return pytest.param(*values, marks=pytest.mark.real)


def in_prove(*values: object) -> Any:
    """Parameters of a test for `make prove`."""
    return pytest.param(*values, marks=pytest.mark.prove)


class FaultRow(NamedTuple):
    """A fault, how many times it happened, and what came of it; `note` says on what."""

    fault: str
    how_many: int
    lost: int
    doubled: int
    stuck: int
    note: str = ""


def write_row(fault: str, how_many: int, verdict: Verdict, note: str = "") -> None:
    """Have a row stand in the output of the test, and in the table."""
    row = FaultRow(fault, how_many, *verdict, note)
    record(f"{fault}: {how_many}; lost {verdict.lost}, doubled {verdict.doubled}, stuck {verdict.stuck}{'; ' * bool(note)}{note}")
    if file := os.environ.get(ROWS):
        with Path(file).open("a") as lines:
            lines.write(json.dumps(row) + "\n")


def read_rows(file: Path) -> list[FaultRow]:
    """The rows of a file. Of a fault that has several, the numbers are added up if they have the same note."""
    found = dict[tuple[str, str], FaultRow]()
    for line in file.read_text().splitlines() if file.exists() else ():
        row = FaultRow(*json.loads(line))
        before = found.get((row.fault, row.note), FaultRow(row.fault, 0, 0, 0, 0, row.note))
        many, lost, doubled, stuck = (one + other for one, other in zip(before[1:5], row[1:5], strict=True))
        found[row.fault, row.note] = FaultRow(row.fault, many, lost, doubled, stuck, row.note)
    return list(found.values())
