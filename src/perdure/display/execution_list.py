"""The list that `Client.list` returns: a list like any other, which notebooks display as a table."""

from __future__ import annotations

import time

from perdure.service.queries import ListedExecution


class ExecutionList(list[ListedExecution]):
    """Executions, in the order of the query."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What IPython displays: the table that ``perdure ls`` prints."""
        from perdure.display.ipython_formats import list_bundle  # here, so that programs that display nothing do not load it

        return list_bundle(self, time.time())
