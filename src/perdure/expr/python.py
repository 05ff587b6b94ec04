"""Conditions in Python: what their source has to look like. They are read here and never run; `perdure.steps.python_conditions` runs them in a sandbox."""

import ast
import warnings

from perdure.core.errors import BadExpression
from perdure.expr.refs import TEXT_CHARACTERS_MAX
from perdure.expr.values import shown

NAME = "evaluate"
HINT = "write def evaluate(output, context): …, which returns true or false"


def checked(source: object, where: str = "") -> str:
    """The source of a condition: one that defines ``evaluate`` of two arguments and imports nothing.

    Raises:
        BadExpression: it does not.
    """
    if type(source) is not str or not source.strip() or len(source) > TEXT_CHARACTERS_MAX:
        raise BadExpression(where, f"python holds {shown(source)}", f"{HINT}; {TEXT_CHARACTERS_MAX:,} characters at most")
    tree = _parsed(source, where)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            raise BadExpression(where, f"the Python imports something (line {node.lineno})", "a condition has its two arguments and nothing else")
    defined = next((one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == NAME), None)
    if defined is None:
        raise BadExpression(where, f"the Python defines no {NAME}", HINT)
    arguments = defined.args
    required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    if required > 2 or (len(arguments.posonlyargs) + len(arguments.args) < 2 and arguments.vararg is None) or None in arguments.kw_defaults:
        raise BadExpression(where, f"{NAME} can't be called with two arguments (line {defined.lineno})", HINT)
    return source


def _parsed(source: str, where: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        raise BadExpression(where, f"this is no Python: {error.msg} (line {error.lineno or 1})", HINT) from None
    except (ValueError, RecursionError, MemoryError):
        raise BadExpression(where, "this is no Python that can be read: it nests too deep, or has a character that is none", HINT) from None
