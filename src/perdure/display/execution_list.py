"""The list that `Client.list` returns: a list like any other, which notebooks display as a table."""

from __future__ import annotations

import time
from typing import Any

from perdure.service.queries import ListedExecution


class ExecutionList(list[ListedExecution]):
    """Executions, in the order of the query."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return self._displayed("text/html")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Writes the table that ``perdure ls`` prints to a printer of IPython, which has one of its own for lists."""
        printer.text(self._displayed("text/plain"))

    def _displayed(self, media_type: str) -> str:
        from perdure.display.ipython_formats import list_bundle  # here, so that programs that display nothing do not load it

        return list_bundle(self, time.time())[media_type]
