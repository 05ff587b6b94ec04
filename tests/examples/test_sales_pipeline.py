"""The sales: what the pipeline finds in the files is what plain Python finds there, and the command prints it."""

import csv
import json
import re
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from examples import sales_tools
from perdure import Definition, ExecutionFailed

EXAMPLES = Path(__file__).parents[2] / "examples"


def best(least_cents: int, count: int) -> list[dict[str, Any]]:
    """The best quarters of each country, found by hand."""
    with (EXAMPLES / "data/time-zones.csv").open(encoding="utf-8", newline="") as lines:
        countries = {row["zone"]: row["countries"].split(",")[0] for row in csv.DictReader(lines)}
    groups: dict[tuple[str, str], list[tuple[int, str, str]]] = defaultdict(list)
    with (EXAMPLES / "data/sales.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            code, dated = re.search(r"\[([A-Z]{4})-\d+\]", row["article"]), re.fullmatch(r"\d\d\.\d\d\.\d{4} \d\d:\d\d", row["sold_at"])
            if row["status"] == "paid" and int(row["cents"]) >= least_cents and code and dated:
                day = datetime.strptime(row["sold_at"], "%d.%m.%Y %H:%M").replace(tzinfo=UTC).date()
                groups[countries[row["zone"]], f"Q{(day.month + 2) // 3}"].append((int(row["cents"]) * int(row["quantity"]), code[1], day.isoformat()))
    found = [
        {
            "country": country,
            "quarter": quarter,
            "cents": sum(cents for cents, _, _ in sales),
            "sales": len(sales),
            "articles": len({code for _, code, _ in sales}),
            "first": min(day for _, _, day in sales),
            "last": max(day for _, _, day in sales),
        }
        for (country, quarter), sales in sorted(groups.items())
    ]
    return sorted(found, key=lambda row: -int(str(row["cents"])))[:count]


@pytest.mark.slow
def test_the_command_prints_the_best_quarters(tmp_path: Path) -> None:
    words = ("run", str(EXAMPLES / "sales_pipeline.yaml"), "--tools", str(EXAMPLES / "sales_tools.py"), "-i", "best=3")
    command = [sys.executable, "-m", "perdure.cli", "--db", f"sqlite:///{tmp_path}/perdure.db", *words]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == best(1000, 3)


@pytest.mark.slow
async def test_what_it_finds_is_what_plain_python_finds(tmp_path: Path) -> None:
    definition = Definition.load(EXAMPLES / "sales_pipeline.yaml", tools=[sales_tools.read_table])
    for least_cents, count in ((0, 50), (5000, 4)):
        found = await definition.with_(db=f"sqlite:///{tmp_path}/perdure.db").arun(least_cents=least_cents, best=count)
        assert found == best(least_cents, count) and found


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    definition = Definition.load(EXAMPLES / "sales_pipeline.yaml", tools=[sales_tools.read_table])
    with pytest.raises(ExecutionFailed, match=r"there is no file .*none\.csv; name one that there is"):
        _ = await definition.with_(db=f"sqlite:///{tmp_path}/perdure.db").arun(sales="data/none.csv")
