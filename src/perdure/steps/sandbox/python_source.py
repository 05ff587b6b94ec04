"""What can be seen of the source of a ``python`` step without running it. The sandbox reads it as well; this tells its author earlier, and within bounds."""

from __future__ import annotations

import ast
import re

from perdure.core.errors import SourceFailed
from perdure.expr.python import PARSED_CHARACTERS_MAX, Problem, parsed
from perdure.steps.sandbox.python_job import HINT, LANGUAGE, NAME

_DEFINES = re.compile(rf"^(?:async[ \t]+)?def[ \t]+{NAME}[ \t]*\(", re.MULTILINE)


def problem(source: str) -> SourceFailed | None:
    """Why a source would fail before it does anything, as far as that can be seen; one that is long is not parsed here."""
    if len(source) > PARSED_CHARACTERS_MAX:
        return None if _DEFINES.search(source) else _undefined()
    match parsed(source):
        case Problem(why, line, column):
            return SourceFailed(LANGUAGE, "SyntaxError", why, (line, column))
        case tree:
            return _signature(tree)


def _signature(tree: ast.Module) -> SourceFailed | None:
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == NAME]
    if not functions:
        return _undefined()
    taken = functions[-1].args
    required = len(taken.posonlyargs) + len(taken.args) - len(taken.defaults)
    if required > 1 or not (taken.posonlyargs or taken.args or taken.vararg) or None in taken.kw_defaults:
        return SourceFailed(LANGUAGE, "", f"{NAME} can't be called with one argument; {HINT}", (functions[-1].lineno, 0))
    return None


def _undefined() -> SourceFailed:
    return SourceFailed(LANGUAGE, "", f"it defines no {NAME}; {HINT}")
