"""A real kernel of Jupyter, whose cells a test runs one by one, and which it may kill."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

CELL_TIMEOUT_S = 60


class NotebookKernel:
    """A kernel with a notebook. `run` runs one cell more."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def run(self, source: str) -> str:
        """Runs a cell. Returns what it printed and the texts of what it displays; of an error, its name and message."""
        return "\n".join(text.rstrip("\n") for text in map(_text, self.outputs(source)))

    def outputs(self, source: str) -> list[Any]:
        """Runs a cell, and returns its outputs as the notebook would store them."""
        cell = nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]  # nbformat has few types
        self._client.nb.cells.append(cell)
        with suppress(CellExecutionError, DeadKernelError):  # the outputs say it, or the test has killed the kernel
            self._client.execute_cell(cell, len(self._client.nb.cells) - 1)
        return list(cell.outputs)

    def html(self, source: str) -> str:
        """Runs a cell, and returns the HTML that it displays."""
        return "".join(one["data"].get("text/html", "") for one in self.outputs(source) if "data" in one)

    def interrupt_after(self, seconds: float) -> str:
        """The beginning of a cell that is interrupted in the middle, as the button of Jupyter does it."""
        return f"import os, signal, threading\nthreading.Timer({seconds}, os.kill, (os.getpid(), signal.SIGINT)).start()\n"

    def kill(self) -> None:
        """Kills the kernel, as when its machine fails."""
        os.kill(self._client.km.provisioner.pid, signal.SIGKILL)  # type: ignore[union-attr]  # the kernel runs on this machine


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return f"{output.ename}: {output.evalue}" if output.output_type == "error" else str(output.data["text/plain"])


@contextmanager
def kernel_in(directory: Path) -> Iterator[NotebookKernel]:
    """Starts a kernel in a directory; ends it with the block."""
    notebook = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]  # nbformat has few types
    client = NotebookClient(notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(directory)}})
    with client.setup_kernel():
        yield NotebookKernel(client)
