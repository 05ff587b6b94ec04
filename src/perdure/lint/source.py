"""Source text: decoded as Python would, parsed, and its places counted in characters."""

import ast
import re
import tokenize
import warnings
from typing import NamedTuple


class Place(NamedTuple):
    """From here to there, lines and columns from 1."""

    line: int
    column: int
    end_line: int
    end_column: int


class Unreadable(Exception):
    """The source is no Python: what is wrong, and where."""

    def __init__(self, what: str, line: int = 1, column: int = 1) -> None:
        super().__init__(what)
        self.what, self.line, self.column = what, line, column


def decoded(raw: bytes) -> str:
    """The text of a file, in the encoding that it declares.

    Raises:
        Unreadable: it declares none that there is, or is not written in it.
    """
    try:
        encoding, _ = tokenize.detect_encoding(iter(raw.splitlines(keepends=True)).__next__)
        return raw.decode(encoding)
    except SyntaxError as error:
        raise Unreadable(str(error)) from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not written in {error.encoding}", raw.count(b"\n", 0, error.start) + 1) from error


def lines_of(text: str) -> list[str]:
    """The lines as the parser counts them, which ends them at fewer characters than `splitlines` does."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)


def parsed(text: str) -> ast.Module:
    """The syntax tree.

    Raises:
        Unreadable: there is none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes and the like; whoever runs the code is told
            return ast.parse(text)
    except SyntaxError as error:
        raise Unreadable(error.msg, error.lineno or 1, max(error.offset or 1, 1)) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(str(error) or "it is nested too deeply") from error


def place(node: ast.AST, lines: list[str]) -> Place:
    """Where a node stands; of a statement with a body, its first line."""
    line, offset = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end_offset = getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or offset
    if hasattr(node, "body") and not isinstance(node, ast.expr):
        end_line, end_offset = line, len(_line(lines, line).rstrip("\r\n").encode())
    return Place(line, _column(_line(lines, line), offset), end_line, _column(_line(lines, end_line), end_offset))


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _column(line: str, offset: int) -> int:
    """The parser counts bytes."""
    return (offset if line.isascii() else len(line.encode(errors="surrogatepass")[:offset].decode(errors="ignore"))) + 1
