"""Checks the syntax of Python conditions and never runs them; `definitions.kinds.sandbox.python_conditions` runs them in a sandbox.

Python's own parser takes more than linear memory for some texts (a dotted import of 160,000 names takes 24 GB), so this module refuses a source longer than
`PARSED_CHARACTERS_MAX` or a dotted name longer than `DOTTED_MAX` before the parser sees it.
"""

import ast
import re
import warnings
from typing import NamedTuple

from perdure.core.errors import BadExpression
from perdure.definitions.expr.plain_values import short_value_text, shortened

FUNCTION_NAME = "evaluate"
CONDITION_HINT = "write def evaluate(output, context): …, which returns true or false"

PARSED_CHARACTERS_MAX = 16 * 1024
"""The longest source that is parsed here, which takes at most 50 ms."""

DOTTED_MAX = 32
"""The most parts of a dotted name, as in the sandbox."""

_DOTTED = re.compile(r"(?:\.[\s\\]*[^\s.\\()\[\],;:=#'\"]+[\s\\]*)" + f"{{{DOTTED_MAX}}}")


class PythonProblem(NamedTuple):
    """Why a source can't be parsed, and in which line, from 1 (0: not known)."""

    why: str
    line: int = 0
    column: int = 0


def parse_python(source: str) -> ast.Module | PythonProblem:
    """Returns the syntax tree of a source, or why it can't be parsed."""
    if len(source) > PARSED_CHARACTERS_MAX:
        return PythonProblem(f"it has {len(source):,} characters; at most {PARSED_CHARACTERS_MAX:,} are allowed")
    if found := _DOTTED.search(source):
        return PythonProblem(f"a dotted name has more than {DOTTED_MAX} parts", source.count("\n", 0, found.start()) + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        return PythonProblem(shortened(error.msg, 200), error.lineno or 0, error.offset or 0)
    except (ValueError, RecursionError, MemoryError):
        return PythonProblem("it is nested too deeply, or contains a lone surrogate")


def checked_condition_source(source: object, where: str = "") -> str:
    """Returns the source of a condition after checking that it defines ``evaluate`` with two parameters and imports nothing.

    Raises:
        BadExpression: the source is not such a condition.
    """
    if type(source) is not str or not source.strip() or len(source) > PARSED_CHARACTERS_MAX:
        raise BadExpression(where, f"python holds {short_value_text(source)}", f"{CONDITION_HINT}; {PARSED_CHARACTERS_MAX:,} characters at most")
    tree = parse_python(source)
    if isinstance(tree, PythonProblem):
        raise BadExpression(where, f"the Python can't be parsed: {tree.why} (line {tree.line or 1})", CONDITION_HINT)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            raise BadExpression(where, f"the Python imports something (line {node.lineno})", "use only the two arguments")
    defined = next((one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == FUNCTION_NAME), None)
    if defined is None:
        raise BadExpression(where, f"the Python defines no {FUNCTION_NAME}", CONDITION_HINT)
    arguments = defined.args
    required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    if required > 2 or (len(arguments.posonlyargs) + len(arguments.args) < 2 and arguments.vararg is None) or None in arguments.kw_defaults:
        raise BadExpression(where, f"{FUNCTION_NAME} can't be called with two arguments (line {defined.lineno})", CONDITION_HINT)
    return source
