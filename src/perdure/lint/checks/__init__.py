"""The checks: each examines one function of workflow code and yields its violations.

The text of a violation is the beginning of a sentence, which the fix of its rule completes.
"""

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from perdure.lint.workflow_code import WorkflowFunction


class Violation(NamedTuple):
    """A violation: the node, the code of its rule, and a description."""

    code: str
    node: ast.AST
    what: str


Check = Callable[[WorkflowFunction], Iterator[Violation]]
