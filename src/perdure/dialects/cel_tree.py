"""A syntax tree of CEL, by the grammar of its specification: parsed, changed and written again, so that names can be replaced.

Writing preserves parentheses and the spelling of literals.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isinf
from typing import Any, NamedTuple


class CelSyntaxError(Exception):
    """The text is not CEL; the argument says why."""


class CelLiteral(NamedTuple):
    """A number, text, true, false or null, as it was written. `plain`: `value` is what JSON would have."""

    written: str
    value: Any = None
    plain: bool = False


class CelName(NamedTuple):
    """An identifier."""

    name: str


class CelSelect(NamedTuple):
    """A field of something: ``target.field``."""

    target: CelTree
    field: str


class CelIndex(NamedTuple):
    """``target[key]``."""

    target: CelTree
    key: CelTree


class CelCall(NamedTuple):
    """A function, or, with a target, a method."""

    target: CelTree | None
    name: str
    arguments: tuple[CelTree, ...]


class CelUnary(NamedTuple):
    """``!x`` or ``-x``."""

    operator: str
    operand: CelTree


class CelBinary(NamedTuple):
    """Two operands and their operator."""

    operator: str
    left: CelTree
    right: CelTree


class CelTernary(NamedTuple):
    """``condition ? yes : no``."""

    condition: CelTree
    yes: CelTree
    no: CelTree


class CelGroup(NamedTuple):
    """An expression in parentheses."""

    inside: CelTree


class CelList(NamedTuple):
    """A list."""

    items: tuple[CelTree, ...]


class CelMapping(NamedTuple):
    """A mapping."""

    entries: tuple[tuple[CelTree, CelTree], ...]


CelTree = CelLiteral | CelName | CelSelect | CelIndex | CelCall | CelUnary | CelBinary | CelTernary | CelGroup | CelList | CelMapping

_TOKEN = re.compile(
    r"""(?P<blank>[\s]+|//[^\n]*)
      | (?P<text>[rRbB]{0,2}(?:\"\"\"(?s:.*?)(?<!\\)\"\"\"|'''(?s:.*?)(?<!\\)'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
      | (?P<number>0x[0-9a-fA-F]+u?|(?:\d+\.\d+|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+[uU]?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_BINDS = {"||": 0, "&&": 1, "==": 2, "!=": 2, "<": 2, "<=": 2, ">": 2, ">=": 2, "in": 2, "+": 3, "-": 3, "*": 4, "/": 4, "%": 4}
MACROS = frozenset(("all", "exists", "exists_one", "filter", "map"))


def parse_cel(text: str) -> CelTree:
    """Parses a text as an expression.

    Raises:
        NotCel: it is none.
    """
    parser = _Parser(_tokens(text))
    tree = parser.expression()
    if parser.sign is not None:
        raise CelSyntaxError(f"{parser.sign!r} is not expected there")
    return tree


def cel_text(tree: CelTree) -> str:
    """An expression as text."""
    match tree:
        case CelLiteral(text):
            return text
        case CelName(name):
            return name
        case CelSelect(target, field):
            return f"{cel_text(target)}.{field}"
        case CelIndex(target, key):
            return f"{cel_text(target)}[{cel_text(key)}]"
        case CelCall(target, name, arguments):
            return f"{cel_text(target) + '.' if target else ''}{name}({', '.join(map(cel_text, arguments))})"
        case CelUnary(operator, operand):
            return operator + cel_text(operand)
        case CelBinary(operator, left, right):
            return f"{cel_text(left)} {operator} {cel_text(right)}"
        case CelTernary(condition, yes, no):
            return f"{cel_text(condition)} ? {cel_text(yes)} : {cel_text(no)}"
        case CelGroup(inside):
            return f"({cel_text(inside)})"
        case CelList(items):
            return f"[{', '.join(map(cel_text, items))}]"
        case CelMapping(entries):
            return "{" + ", ".join(f"{cel_text(key)}: {cel_text(value)}" for key, value in entries) + "}"


def change_tree(tree: CelTree, change: Callable[[CelTree], CelTree | None]) -> CelTree:
    """The tree with the parts that `change` replaces. Where it returns None, a part stays, and its own parts are changed."""
    if (instead := change(tree)) is not None:
        return instead
    make: Callable[..., CelTree] = type(tree)
    return make(*(_change_field(field, change) for field in tree))


def _change_field(field: Any, change: Callable[[CelTree], CelTree | None]) -> Any:
    if isinstance(field, CelTree):
        return change_tree(field, change)
    return tuple(_change_field(one, change) for one in field) if isinstance(field, tuple) else field


def rename_free_names(tree: CelTree, rename: Callable[[str, list[str | int]], CelTree | None], bound: frozenset[str] = frozenset()) -> CelTree:
    """The tree with what `rename` gives for a free name and the path behind it; what a macro such as `all` binds is not free."""

    def change(part: CelTree) -> CelTree | None:
        match part:
            case CelCall(target, name, (CelName(variable), *rest)) if target is not None and name in MACROS:
                inner = bound | {variable}
                return CelCall(rename_free_names(target, rename, bound), name, (CelName(variable), *(rename_free_names(one, rename, inner) for one in rest)))
        if (chain := constant_path(part)) is None:
            return None
        return part if chain[0] in bound else rename(*chain)

    return change_tree(tree, change)


def tree_parts(tree: CelTree) -> list[CelTree]:
    """The tree and all that it is made of."""
    found: list[CelTree] = []

    def note(part: CelTree) -> CelTree | None:
        found.append(part)
        return None

    change_tree(tree, note)
    return found


def constant_path(tree: CelTree) -> tuple[str, list[str | int]] | None:
    """The name and the path that a chain of fields and constant keys is; None if it is no such chain."""
    keys: list[str | int] = []
    while not isinstance(tree, CelName):
        match tree:
            case CelSelect(target, field):
                keys.append(field)
            case CelIndex(target, CelLiteral(_, key, True)) if isinstance(key, str) or type(key) is int:
                keys.append(key)
            case _:
                return None
        tree = target
    return tree.name, keys[::-1]


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    while position < len(text):
        if (found := _TOKEN.match(text, position)) is None:
            raise CelSyntaxError(f"{text[position : position + 10]!r} at character {position + 1} is nothing that CEL has")
        if found.lastgroup != "blank":
            tokens.append((str(found.lastgroup), found[0]))
        position = found.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def sign(self) -> str | None:
        """The token in turn; None at the end."""
        return self._tokens[self._next][1] if self._next < len(self._tokens) else None

    def expression(self) -> CelTree:
        """An expression."""
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        yes = self._binary(0)
        self._expect(":")
        return CelTernary(condition, yes, self.expression())

    def _binary(self, least: int) -> CelTree:
        """Operators that bind at least so much, and what is between them."""
        left = self._unary()
        while self._kind() != "text" and (level := _BINDS.get(self.sign or "", -1)) >= least:
            left = CelBinary(self._advance()[1], left, self._binary(level + 1))
        return left

    def _unary(self) -> CelTree:
        operators = []
        while self._kind() == "sign" and self.sign in ("!", "-"):
            operators.append(self._advance()[1])
        tree = self._member()
        for operator in reversed(operators):
            tree = CelUnary(operator, tree)
        return tree

    def _member(self) -> CelTree:
        tree = self._primary()
        while True:
            if self._take("."):
                name = self._name()
                tree = CelCall(tree, name, self._arguments(")")) if self._take("(") else CelSelect(tree, name)
            elif self._take("["):
                tree = CelIndex(tree, self.expression())
                self._expect("]")
            else:
                return tree

    def _primary(self) -> CelTree:
        what, text = self._advance()
        match what, text:
            case "number", _:
                return _number(text)
            case "text", _:
                return _text(text)
            case "name", "true" | "false" | "null":
                return CelLiteral(text, {"true": True, "false": False, "null": None}[text], True)
            case "name", "in":
                raise CelSyntaxError("'in' has nothing before it")
            case "name", _:
                return CelCall(None, text, self._arguments(")")) if self._take("(") else CelName(text)
            case "sign", "(":
                inside = self.expression()
                self._expect(")")
                return CelGroup(inside)
            case "sign", "[":
                return CelList(self._arguments("]"))
            case "sign", "{":
                return self._entries()
            case _:
                raise CelSyntaxError(f"{text!r} is not expected there")

    def _arguments(self, end: str) -> tuple[CelTree, ...]:
        items: list[CelTree] = []
        while not self._take(end):
            if items:
                self._expect(",")
                if self._take(end):
                    break
            items.append(self.expression())
        return tuple(items)

    def _entries(self) -> CelTree:
        entries: list[tuple[CelTree, CelTree]] = []
        while not self._take("}"):
            if entries:
                self._expect(",")
                if self._take("}"):
                    break
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
        return CelMapping(tuple(entries))

    def _name(self) -> str:
        what, text = self._advance()
        if what != "name":
            raise CelSyntaxError(f"{text!r} is no name")
        return text

    def _kind(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _advance(self) -> tuple[str, str]:
        if self._next >= len(self._tokens):
            raise CelSyntaxError("it ends too early")
        self._next += 1
        return self._tokens[self._next - 1]

    def _take(self, sign: str) -> bool:
        taken = self._kind() == "sign" and self.sign == sign
        self._next += taken
        return taken

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise CelSyntaxError(f"{sign!r} is missing before {self.sign!r}" if self.sign else f"{sign!r} is missing at the end")


def _number(text: str) -> CelLiteral:
    if text[-1:] in "uU" or text.startswith("0x"):
        return CelLiteral(text)
    value = float(text) if re.search(r"[.eE]", text) else int(text)
    if isinf(value) if isinstance(value, float) else value >= 2**63:
        raise CelSyntaxError(f"the number {text[:30]} is too large; an int has 64 bits")
    return CelLiteral(text, value, True)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "`": "`", "?": "?", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _text(text: str) -> CelLiteral:
    """A text; only one without a prefix and with the common escapes is plain."""
    if text[0] not in "\"'" or text[:3] in ('"""', "'''"):
        return CelLiteral(text)
    pieces = re.findall(r"\\.|[^\\]+", text[1:-1], re.DOTALL)
    if any(piece[0] == "\\" and piece[1:] not in _ESCAPES for piece in pieces):
        return CelLiteral(text)
    return CelLiteral(text, "".join(_ESCAPES[piece[1:]] if piece[0] == "\\" else piece for piece in pieces), True)


def cel_constant(value: Any) -> CelLiteral:
    """A value as a literal."""
    return CelLiteral(json.dumps(value, ensure_ascii=False), value, True)
