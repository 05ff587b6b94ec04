"""The notebook of the shop in real kernels: it runs from top to bottom, and is continued by the next kernel when one is killed in the middle."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples/notebook/shop.ipynb"
ARTICLES = 200

pytestmark = pytest.mark.slow


def notebook() -> Any:
    """The notebook, read anew."""
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]  # nbformat has few types


def client_in(directory: Path) -> NotebookClient:
    """A client of a kernel for a copy of the notebook."""
    return NotebookClient(notebook(), timeout=60, kernel_name="python3", resources={"metadata": {"path": str(directory)}})


def test_the_notebook_is_stored_without_outputs() -> None:
    cells = notebook().cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")


@pytest.mark.prove
def test_it_is_killed_in_the_middle_and_run_again_from_the_top(tmp_path: Path) -> None:
    begun = client_in(tmp_path)
    with begun.setup_kernel():
        for number, cell in enumerate(begun.nb.cells):
            begun.execute_cell(cell, number)
            if cell.source.startswith("importing ="):
                break
        assert "import_stock/stock" in cell.outputs[0]["data"]["text/html"]
        wait = nbformat.v4.new_code_cell("next(iter(importing.stream(after=3)))")  # type: ignore[no-untyped-call]  # nbformat has few types
        begun.nb.cells.append(wait)
        begun.execute_cell(wait, len(begun.nb.cells) - 1)
        os.kill(begun.km.provisioner.pid, signal.SIGKILL)  # type: ignore[union-attr]  # the kernel runs on this machine

    def rows(statement: str) -> list[Any]:
        with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
            return database.execute(statement).fetchall()

    (before,) = rows("SELECT count(*) FROM stock")
    assert before < (ARTICLES,)

    again = client_in(tmp_path)
    again.execute()
    shown = [output for cell in again.nb.cells if cell.cell_type == "code" for output in cell.outputs]
    assert f"{ARTICLES} of {ARTICLES} rows" in "".join(output.get("text", "") for output in shown)
    texts = [output["data"]["text/plain"] for output in shown if "data" in output]
    assert "'paid, row 2'" in texts and any(text.startswith("order/o1  completed") for text in texts)
    assert all("text/html" in output["data"] for output in shown if "data" in output and output["data"]["text/plain"].startswith(("order/", "import", "ID")))
    assert rows("SELECT count(*), sum(pieces) FROM stock") == [(ARTICLES, sum(range(ARTICLES + 1)))]
    assert sorted(rows("SELECT order_id FROM ledger")) == [("o1",), ("o2",)]
