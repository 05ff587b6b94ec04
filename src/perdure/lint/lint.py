"""Lint: source in, findings out. It reads the syntax alone; nothing is imported, and nothing is run."""

import ast
from collections.abc import Iterator
from itertools import chain

from perdure.lint.checks import Check, Found, cleanup, order, outside, repeats, state, verbs
from perdure.lint.code import Function
from perdure.lint.finding import Finding
from perdure.lint.functions import workflow_code
from perdure.lint.ignores import Ignores
from perdure.lint.kinds import KINDS
from perdure.lint.scopes import Module
from perdure.lint.source import Place, Unreadable, decoded, lines_of, parsed, place

CHECKS: tuple[Check, ...] = (
    *(outside.outside, order.sets, order.bare_coroutines, order.identities, order.lost_updates),
    *(verbs.not_awaited, verbs.outer_context, verbs.direct_calls, verbs.called_too_soon, verbs.context_in_step, verbs.waiting_keep),
    *(repeats.unnamed_repeats, repeats.repeated_names, repeats.unbounded_loops),
    *(state.declared_elsewhere, state.shared, state.changed_in_steps, state.mutable_defaults, cleanup.swallowed, cleanup.work_in_cleanup),
)


def lint(source: str | bytes, path: str = "-") -> list[Finding]:
    """All findings in a module, in the order of their places. What can't be read is a finding too, and never an error."""
    try:
        text = decoded(source) if isinstance(source, bytes) else source
        return _findings(text.removeprefix("\ufeff"), path)
    except Unreadable as error:
        return [unreadable(path, error.what, error.line, error.column)]
    except RecursionError:
        return [unreadable(path, "it is nested too deeply")]


def unreadable(path: str, what: str, line: int = 1, column: int = 1) -> Finding:
    """The finding that a file can't be read."""
    return _finding("PD000", f"the file can't be read: {what}", Place(line, column, line, column), path)


def _findings(text: str, path: str) -> list[Finding]:
    tree, lines = parsed(text), lines_of(text)
    ignores = Ignores(lines)
    found: dict[tuple[int, int, str], Finding] = {}
    for function, one in _found(tree) if "perdure" in text else ():
        where = place(one.node, lines)
        if not ignores.covers(one.code, where.line, where.end_line):
            found.setdefault((where.line, where.column, one.code), _finding(one.code, one.what + _reached(function), where, path, function.workflow))
    for ignore, code in ignores.unused():
        what = f"nothing here is to be ignored as {code}" if code else "this ignore names no code"
        where = Place(ignore.line, ignore.column + 1, ignore.line, ignore.end + 1)
        found[where.line, where.column, f"PD001 {code}"] = _finding("PD001", what, where, path)
    return [found[key] for key in sorted(found)]


def _found(tree: ast.Module) -> Iterator[tuple[Function, Found]]:
    functions = workflow_code(Module(tree)).functions.values()
    return ((function, one) for function in functions for one in chain.from_iterable(check(function) for check in CHECKS))


def _reached(function: Function) -> str:
    """For places that do not look like workflow code, how they come to be."""
    return f" (workflow `{function.workflow}` calls `{function.name}`)" if function.role == "helper" and function.workflow else ""


def _finding(code: str, what: str, where: Place, path: str, workflow: str = "") -> Finding:
    kind = KINDS[code]
    return Finding(path, *where, code, kind.name, kind.severity, f"{what}; {kind.fix}", workflow)
