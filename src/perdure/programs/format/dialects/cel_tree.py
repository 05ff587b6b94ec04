"""CEL as a tree: read, changed and written again, so that the names in an expression can follow those of a definition. The grammar is that of the CEL spec.

Parentheses stay where they were; literals stay as they were written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isinf
from typing import Any, NamedTuple


class NotCel(Exception):
    """The text is no CEL; its argument says why."""


class Literal(NamedTuple):
    """A number, text, true, false or null, as it was written. `plain`: `value` is what JSON would have."""

    written: str
    value: Any = None
    plain: bool = False


class Name(NamedTuple):
    """An identifier."""

    name: str


class Select(NamedTuple):
    """A field of something: ``target.field``."""

    target: Tree
    field: str


class Index(NamedTuple):
    """``target[key]``."""

    target: Tree
    key: Tree


class Call(NamedTuple):
    """A function, or, with a target, a method."""

    target: Tree | None
    name: str
    arguments: tuple[Tree, ...]


class Unary(NamedTuple):
    """``!x`` or ``-x``."""

    operator: str
    operand: Tree


class Binary(NamedTuple):
    """Two sides and what stands between them."""

    operator: str
    left: Tree
    right: Tree


class Ternary(NamedTuple):
    """``condition ? yes : no``."""

    condition: Tree
    yes: Tree
    no: Tree


class Group(NamedTuple):
    """What stands in parentheses."""

    inside: Tree


class Items(NamedTuple):
    """A list."""

    items: tuple[Tree, ...]


class Entries(NamedTuple):
    """A mapping."""

    entries: tuple[tuple[Tree, Tree], ...]


Tree = Literal | Name | Select | Index | Call | Unary | Binary | Ternary | Group | Items | Entries

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


def parse(text: str) -> Tree:
    """The expression that a text is.

    Raises:
        NotCel: it is none.
    """
    parser = _Parser(_tokens(text))
    tree = parser.expression()
    if parser.sign is not None:
        raise NotCel(f"{parser.sign!r} is not expected there")
    return tree


def written(tree: Tree) -> str:
    """An expression as text."""
    match tree:
        case Literal(text):
            return text
        case Name(name):
            return name
        case Select(target, field):
            return f"{written(target)}.{field}"
        case Index(target, key):
            return f"{written(target)}[{written(key)}]"
        case Call(target, name, arguments):
            return f"{written(target) + '.' if target else ''}{name}({', '.join(map(written, arguments))})"
        case Unary(operator, operand):
            return operator + written(operand)
        case Binary(operator, left, right):
            return f"{written(left)} {operator} {written(right)}"
        case Ternary(condition, yes, no):
            return f"{written(condition)} ? {written(yes)} : {written(no)}"
        case Group(inside):
            return f"({written(inside)})"
        case Items(items):
            return f"[{', '.join(map(written, items))}]"
        case Entries(entries):
            return "{" + ", ".join(f"{written(key)}: {written(value)}" for key, value in entries) + "}"


def changed(tree: Tree, change: Callable[[Tree], Tree | None]) -> Tree:
    """The tree with what `change` gives in place of a part; None: the part stays, and its own parts are looked at."""
    if (instead := change(tree)) is not None:
        return instead
    match tree:
        case Select(target, field):
            return Select(changed(target, change), field)
        case Index(target, key):
            return Index(changed(target, change), changed(key, change))
        case Call(target, name, arguments):
            return Call(changed(target, change) if target else None, name, tuple(changed(argument, change) for argument in arguments))
        case Unary(operator, operand):
            return Unary(operator, changed(operand, change))
        case Binary(operator, left, right):
            return Binary(operator, changed(left, change), changed(right, change))
        case Ternary(condition, yes, no):
            return Ternary(changed(condition, change), changed(yes, change), changed(no, change))
        case Group(inside):
            return Group(changed(inside, change))
        case Items(items):
            return Items(tuple(changed(item, change) for item in items))
        case Entries(entries):
            return Entries(tuple((changed(key, change), changed(value, change)) for key, value in entries))
        case _:
            return tree


def renamed(tree: Tree, rename: Callable[[str, list[str | int]], Tree | None], bound: frozenset[str] = frozenset()) -> Tree:
    """The tree with what `rename` gives for a free name and the path behind it; what a macro such as `all` binds is not free."""

    def change(part: Tree) -> Tree | None:
        match part:
            case Call(target, name, (Name(variable), *rest)) if target is not None and name in MACROS:
                inner = bound | {variable}
                return Call(renamed(target, rename, bound), name, (Name(variable), *(renamed(one, rename, inner) for one in rest)))
        if (chain := path(part)) is None:
            return None
        return part if chain[0] in bound else rename(*chain)

    return changed(tree, change)


def parts(tree: Tree) -> list[Tree]:
    """The tree and all that it is made of."""
    found: list[Tree] = []

    def note(part: Tree) -> Tree | None:
        found.append(part)
        return None

    changed(tree, note)
    return found


def path(tree: Tree) -> tuple[str, list[str | int]] | None:
    """The name and the path that a chain of fields and constant keys is; None if it is no such chain."""
    keys: list[str | int] = []
    while not isinstance(tree, Name):
        match tree:
            case Select(target, field):
                keys.append(field)
            case Index(target, Literal(_, key, True)) if isinstance(key, str) or type(key) is int:
                keys.append(key)
            case _:
                return None
        tree = target
    return tree.name, keys[::-1]


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    while position < len(text):
        if (found := _TOKEN.match(text, position)) is None:
            raise NotCel(f"{text[position : position + 10]!r} at character {position + 1} is nothing that CEL has")
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

    def expression(self) -> Tree:
        """An expression."""
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        yes = self._binary(0)
        self._expect(":")
        return Ternary(condition, yes, self.expression())

    def _binary(self, least: int) -> Tree:
        """Operators that bind at least so much, and what is between them."""
        left = self._unary()
        while self._kind() != "text" and (level := _BINDS.get(self.sign or "", -1)) >= least:
            left = Binary(self._advance()[1], left, self._binary(level + 1))
        return left

    def _unary(self) -> Tree:
        operators = []
        while self._kind() == "sign" and self.sign in ("!", "-"):
            operators.append(self._advance()[1])
        tree = self._member()
        for operator in reversed(operators):
            tree = Unary(operator, tree)
        return tree

    def _member(self) -> Tree:
        tree = self._primary()
        while True:
            if self._take("."):
                name = self._name()
                tree = Call(tree, name, self._arguments(")")) if self._take("(") else Select(tree, name)
            elif self._take("["):
                tree = Index(tree, self.expression())
                self._expect("]")
            else:
                return tree

    def _primary(self) -> Tree:
        what, text = self._advance()
        match what, text:
            case "number", _:
                return _number(text)
            case "text", _:
                return _text(text)
            case "name", "true" | "false" | "null":
                return Literal(text, {"true": True, "false": False, "null": None}[text], True)
            case "name", "in":
                raise NotCel("'in' has nothing before it")
            case "name", _:
                return Call(None, text, self._arguments(")")) if self._take("(") else Name(text)
            case "sign", "(":
                inside = self.expression()
                self._expect(")")
                return Group(inside)
            case "sign", "[":
                return Items(self._arguments("]"))
            case "sign", "{":
                return self._entries()
            case _:
                raise NotCel(f"{text!r} is not expected there")

    def _arguments(self, end: str) -> tuple[Tree, ...]:
        items: list[Tree] = []
        while not self._take(end):
            if items:
                self._expect(",")
                if self._take(end):
                    break
            items.append(self.expression())
        return tuple(items)

    def _entries(self) -> Tree:
        entries: list[tuple[Tree, Tree]] = []
        while not self._take("}"):
            if entries:
                self._expect(",")
                if self._take("}"):
                    break
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
        return Entries(tuple(entries))

    def _name(self) -> str:
        what, text = self._advance()
        if what != "name":
            raise NotCel(f"{text!r} is no name")
        return text

    def _kind(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _advance(self) -> tuple[str, str]:
        if self._next >= len(self._tokens):
            raise NotCel("it ends too early")
        self._next += 1
        return self._tokens[self._next - 1]

    def _take(self, sign: str) -> bool:
        taken = self._kind() == "sign" and self.sign == sign
        self._next += taken
        return taken

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise NotCel(f"{sign!r} is missing before {self.sign!r}" if self.sign else f"{sign!r} is missing at the end")


def _number(text: str) -> Literal:
    if text[-1:] in "uU" or text.startswith("0x"):
        return Literal(text)
    value = float(text) if re.search(r"[.eE]", text) else int(text)
    if isinf(value) if isinstance(value, float) else value >= 2**63:
        raise NotCel(f"the number {text[:30]} is too large; an int has 64 bits")
    return Literal(text, value, True)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "`": "`", "?": "?", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _text(text: str) -> Literal:
    """A text; only one without a prefix and with the common escapes is plain."""
    if text[0] not in "\"'" or text[:3] in ('"""', "'''"):
        return Literal(text)
    pieces = re.findall(r"\\.|[^\\]+", text[1:-1], re.DOTALL)
    if any(piece[0] == "\\" and piece[1:] not in _ESCAPES for piece in pieces):
        return Literal(text)
    return Literal(text, "".join(_ESCAPES[piece[1:]] if piece[0] == "\\" else piece for piece in pieces), True)


def constant(value: Any) -> Literal:
    """A value as a literal."""
    return Literal(json.dumps(value, ensure_ascii=False), value, True)
