"""The linter: takes source text and returns findings. It reads the syntax only; nothing is imported or run.

Source is decoded as Python decodes it, and positions count characters. Comments such as `# perdure: ignore[PD101]` or `ignore[PD101, PD203]` suppress
findings on their line.
"""

import ast
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from perdure.lint.checks import Check, Violation, context_checks, external_checks, order_checks
from perdure.lint.lint_findings import LintFinding
from perdure.lint.name_resolution import SyntaxModule
from perdure.lint.rules import RULES
from perdure.lint.workflow_code import WorkflowFunction, workflow_code


class SourceRange(NamedTuple):
    """From here to there, lines and columns from 1."""

    line: int
    column: int
    end_line: int
    end_column: int


class SourceError(Exception):
    """The source is not valid Python; says what is wrong, and where."""

    def __init__(self, what: str, line: int = 1, column: int = 1) -> None:
        super().__init__(what)
        self.what, self.line, self.column = what, line, column


def decode_source(raw: bytes) -> str:
    """The text of a file, in the encoding that it declares.

    Raises:
        Unreadable: it declares none that there is, or is not written in it.
    """
    try:
        encoding, _ = tokenize.detect_encoding(iter(raw.splitlines(keepends=True)).__next__)
        return raw.decode(encoding)
    except SyntaxError as error:
        raise SourceError(str(error)) from error
    except UnicodeDecodeError as error:
        raise SourceError(f"it is not written in {error.encoding}", raw.count(b"\n", 0, error.start) + 1) from error


def lines_of(text: str) -> list[str]:
    """The lines as the parser counts them, which ends them at fewer characters than `splitlines` does."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)


def parse_source(text: str) -> ast.Module:
    """The syntax tree.

    Raises:
        Unreadable: there is none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes, for example; Python shows them when the code runs
            return ast.parse(text)
    except SyntaxError as error:
        raise SourceError(error.msg, error.lineno or 1, max(error.offset or 1, 1)) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceError(str(error) or "it is nested too deeply") from error


def source_range(node: ast.AST, lines: list[str]) -> SourceRange:
    """The position of a node; of a statement with a body, its first line."""
    line, offset = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end_offset = getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or offset
    if hasattr(node, "body") and not isinstance(node, ast.expr):
        end_line, end_offset = line, len(_line(lines, line).rstrip("\r\n").encode())
    return SourceRange(line, _column(_line(lines, line), offset), end_line, _column(_line(lines, end_line), end_offset))


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _column(line: str, offset: int) -> int:
    """The parser counts bytes."""
    return (offset if line.isascii() else len(line.encode(errors="surrogatepass")[:offset].decode(errors="ignore"))) + 1


_COMMENT = re.compile(r"#\s*perdure:\s*ignore(?:\[([^\]]*)\])?")


@dataclass
class Ignore:
    """An ignore comment: its position, the codes that it names, and those that suppressed a finding."""

    line: int
    column: int
    end: int
    codes: tuple[str, ...]
    used: set[str] = field(default_factory=set)


class Ignores:
    """The ignores of a file, by line."""

    def __init__(self, lines: list[str]) -> None:
        self._by_line: dict[int, list[Ignore]] = {}
        for one in _read(lines):
            self._by_line.setdefault(one.line, []).append(one)

    def covers(self, code: str, first_line: int, last_line: int) -> bool:
        """Whether a finding on these lines is ignored, which makes the ignore a used one."""
        found = [one for line in range(first_line, last_line + 1) for one in self._by_line.get(line, ()) if code in one.codes]
        for one in found:
            one.used.add(code)
        return bool(found)

    def unused(self) -> Iterator[tuple[Ignore, str]]:
        """The ignores that nothing needed, with each code; without a code, those that name none."""
        for one in (one for line in self._by_line.values() for one in line):
            if not one.codes:
                yield one, ""
            for code in one.codes:
                if code not in one.used:
                    yield one, code


def _read(lines: list[str]) -> Iterator[Ignore]:
    if not any("perdure:" in line for line in lines):
        return
    for token in _tokens(lines):
        if token.type == tokenize.COMMENT:
            for found in _COMMENT.finditer(token.string):
                codes = tuple(dict.fromkeys(code.strip() for code in (found[1] or "").split(",") if code.strip()))
                column = token.start[1] + found.start()
                yield Ignore(token.start[0], column, column + len(found[0]), codes)


def _tokens(lines: Iterable[str]) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(iter(lines).__next__)
    except (tokenize.TokenError, SyntaxError):  # where it ends in the middle of something, what comes before still counts
        return


CHECKS: tuple[Check, ...] = (
    *(external_checks.external_calls, order_checks.unordered_sets, order_checks.bare_coroutines, order_checks.identity_order, order_checks.lost_updates),
    *(
        context_checks.not_awaited,
        context_checks.outer_context,
        context_checks.direct_calls,
        context_checks.called_too_early,
        context_checks.context_in_step,
        context_checks.waiting_keep,
    ),
    *(context_checks.unnamed_repeats, context_checks.repeated_names, context_checks.unbounded_loops),
    *(
        order_checks.declared_elsewhere,
        order_checks.shared_state,
        order_checks.changed_in_steps,
        order_checks.mutable_defaults,
        context_checks.swallowed_cancellations,
        context_checks.work_in_cleanup,
    ),
)


def lint(source: str | bytes, path: str = "-") -> list[LintFinding]:
    """All findings of a module, ordered by position. Source that can't be read is a finding too, never an error."""
    try:
        text = decode_source(source) if isinstance(source, bytes) else source
        return _findings(text.removeprefix("\ufeff"), path)
    except SourceError as error:
        return [unreadable(path, error.what, error.line, error.column)]
    except RecursionError:
        return [unreadable(path, "it is nested too deeply")]


def unreadable(path: str, what: str, line: int = 1, column: int = 1) -> LintFinding:
    """The finding that a file can't be read."""
    return _finding("PD000", f"the file can't be read: {what}", SourceRange(line, column, line, column), path)


def _findings(text: str, path: str) -> list[LintFinding]:
    tree, lines = parse_source(text), lines_of(text)
    ignores = Ignores(lines)
    found: dict[tuple[int, int, str], LintFinding] = {}
    for function, one in _found(tree) if "perdure" in text else ():
        where = source_range(one.node, lines)
        if not ignores.covers(one.code, where.line, where.end_line):
            found.setdefault((where.line, where.column, one.code), _finding(one.code, one.what + _reached(function), where, path, function.workflow))
    for ignore, code in ignores.unused():
        what = f"nothing here is to be ignored as {code}" if code else "this ignore names no code"
        where = SourceRange(ignore.line, ignore.column + 1, ignore.line, ignore.end + 1)
        found[where.line, where.column, f"PD001 {code}"] = _finding("PD001", what, where, path)
    return [found[key] for key in sorted(found)]


def _found(tree: ast.Module) -> Iterator[tuple[WorkflowFunction, Violation]]:
    functions = workflow_code(SyntaxModule(tree)).functions.values()
    return ((function, one) for function in functions for one in chain.from_iterable(check(function) for check in CHECKS))


def _reached(function: WorkflowFunction) -> str:
    """For places that do not look like workflow code, how they come to be."""
    return f" (workflow `{function.workflow}` calls `{function.name}`)" if function.role == "helper" and function.workflow else ""


def _finding(code: str, what: str, where: SourceRange, path: str, workflow: str = "") -> LintFinding:
    kind = RULES[code]
    return LintFinding(path, *where, code, kind.name, kind.severity, f"{what}; {kind.fix}", workflow)
