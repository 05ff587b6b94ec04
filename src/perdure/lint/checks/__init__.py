"""The checks: each looks at one function that is workflow code, and yields the places where something is wrong, with what that is.

What a check yields is the beginning of a sentence; the kind's fix is its end.
"""

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from perdure.lint.workflow_code import WorkflowFunction


class Violation(NamedTuple):
    """A place, the code of its kind, and what is wrong there."""

    code: str
    node: ast.AST
    what: str


Check = Callable[[WorkflowFunction], Iterator[Violation]]
