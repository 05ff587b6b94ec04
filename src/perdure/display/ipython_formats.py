"""What IPython displays for statuses and lists of executions, which belong to layers that know nothing of displays; and how it learns of that.

A client registers the formats when it is made in a process that has imported IPython. IPython itself is never imported here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from perdure.cli import plain_text
from perdure.cli.execution_views import execution_head, execution_table
from perdure.display import html_text
from perdure.service.queries import ExecutionStatus, ListedExecution

Bundle = dict[str, str]
"""What is displayed, by its media type."""


NO_EXECUTIONS = "no executions"


class _AllPrograms:
    """Stands for the programs that living engines know, where they have not been looked up."""

    def __contains__(self, program: object) -> bool:
        return True


ALL_PROGRAMS = _AllPrograms()


def list_bundle(listed: Sequence[ListedExecution], now_s: float) -> Bundle:
    """The display of a list of executions: a table."""
    if not listed:
        return {"text/plain": NO_EXECUTIONS, "text/html": NO_EXECUTIONS}
    content = execution_table(listed, ALL_PROGRAMS, now_s)
    return {"text/plain": plain_text.table(content), "text/html": html_text.frame(html_text.table(content))}


def status_bundle(status: ExecutionStatus, now_s: float) -> Bundle:
    """The display of the status of an execution."""
    lines = list(execution_head(status, ALL_PROGRAMS, now_s))
    return {"text/plain": "\n".join(map(plain_text.line, lines)), "text/html": html_text.frame(html_text.lines(lines))}


FORMATS: dict[type, Callable[[Any], Bundle]] = {
    ExecutionStatus: lambda status: status_bundle(status, time.time()),
    ListedExecution: lambda one: list_bundle((one,), time.time()),
}


def register_formats() -> None:
    """Registers the formats with the shell of IPython in this process, if there is one. Registering them again has no effect."""
    shell = sys.modules["IPython"].get_ipython()
    if shell is None:
        return
    bundles = shell.display_formatter.mimebundle_formatter
    for kind, bundle in FORMATS.items():
        bundles.for_type(kind, bundle)
