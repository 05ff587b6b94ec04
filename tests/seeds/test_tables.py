"""The tables of the seeds name tests; these are there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TABLES = sorted(Path(__file__).parent.glob("test_seed_*.py"))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_every_test_that_a_table_names_is_there(table: Path) -> None:
    written = {name for file in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)\(", file.read_text())}
    modules = {file.stem for file in TESTS.rglob("test_*.py")}
    told = set(re.findall(r"\btest_\w+", table.read_text().split('"""', 2)[1]))
    assert told - modules
    assert told <= written | modules, f"named, and not there: {told - written - modules}"
