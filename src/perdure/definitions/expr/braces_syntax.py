"""The nodes and the parser of the ``{{ }}`` language. It refuses nesting beyond 64 levels and text beyond 64 KiB with BadExpression.

expression  = rank1 [ "?" [ expression ] ":" expression ]
rank1..7    = "??"; "||"; "&&"; "== != === !=="; "< <= > >= in"; "+ -"; "* / %"
unary       = { "!" | "-" | "+" } value { "." name [ "(" arguments ")" ] | "[" expression "]" | "|" name [ "(" arguments ")" ] }
value       = number | text | name [ "(" arguments ")" ] | "(" expression ")" | "{{" expression "}}" | "[" items "]" | "{" entries "}"
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from perdure.core.errors import BadExpression
from perdure.definitions.expr.lenient_values import js_result


class BracesLiteral(msgspec.Struct, frozen=True):
    """A number, a text, true, false or null."""

    value: Any


class BracesName(msgspec.Struct, frozen=True):
    """The name that an expression begins with: a root, or a variable."""

    name: str


class BracesCurrentItem(msgspec.Struct, frozen=True):
    """The item that is being tested, in ``items[.price > 5]``."""


class BracesMember(msgspec.Struct, frozen=True):
    """``.name``"""

    name: str


class BracesIndex(msgspec.Struct, frozen=True):
    """``[expression]``"""

    index: "BracesNode"


class BracesSelection(msgspec.Struct, frozen=True):
    """``[.price > 5]``: the items of a list for which the condition holds."""

    condition: "BracesNode"


class BracesPipe(msgspec.Struct, frozen=True):
    """``|name(arguments)``, which can also be written ``.name(arguments)`` and ``name(value, arguments)``; `at` counts characters from 1."""

    name: str
    arguments: tuple["BracesNode", ...]
    at: int


BracesPart = BracesMember | BracesIndex | BracesSelection | BracesPipe


class BracesAccess(msgspec.Struct, frozen=True):
    """A value and the accesses to its parts, from left to right."""

    base: "BracesNode"
    parts: tuple[BracesPart, ...]


class BracesNot(msgspec.Struct, frozen=True):
    """``!operand``"""

    operand: "BracesNode"


class BracesSigned(msgspec.Struct, frozen=True):
    """``-operand`` or ``+operand``"""

    sign: str
    operand: "BracesNode"


class BracesChain(msgspec.Struct, frozen=True):
    """Operators of one rank, from left to right: the first operand, and each sign with the next."""

    first: "BracesNode"
    rest: tuple[tuple[str, "BracesNode"], ...]


class BracesShortCircuit(msgspec.Struct, frozen=True):
    """``&&``, ``||`` or ``??``: the first operand that decides, unconverted, or the last."""

    sign: str
    operands: tuple["BracesNode", ...]


class BracesConditional(msgspec.Struct, frozen=True):
    """``test ? yes : no``; without `yes` (``test ?: no``) the test's own value."""

    test: "BracesNode"
    yes: "BracesNode | None"
    no: "BracesNode"


class BracesList(msgspec.Struct, frozen=True):
    """``[a, b]``"""

    items: tuple["BracesNode", ...]


class BracesMapping(msgspec.Struct, frozen=True):
    """``{a: 1, 'b': 2}``"""

    entries: tuple[tuple[str, "BracesNode"], ...]


class BracesText(msgspec.Struct, frozen=True):
    """Text with expressions in it."""

    pieces: tuple["str | BracesNode", ...]


BracesNode = (
    BracesLiteral
    | BracesName
    | BracesCurrentItem
    | BracesAccess
    | BracesNot
    | BracesSigned
    | BracesChain
    | BracesShortCircuit
    | BracesConditional
    | BracesList
    | BracesMapping
    | BracesText
)


CHARACTERS_MAX = 65_536
NESTING_MAX = 64

RANKS: tuple[tuple[str, ...], ...] = (
    ("??",),
    ("||",),
    ("&&",),
    ("===", "!==", "==", "!="),
    ("<=", ">=", "<", ">", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>0[xX][0-9a-fA-F]+|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[^\W\d][\w$]*|\$[\w$]*)
      | (?P<text>["'])
      | (?P<sign>===|!==|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?!\d)|[-+*/%<>!?:.,|()\[\]{}])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_RANKS = {sign: rank for rank, signs in enumerate(RANKS) for sign in signs}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CONSTANTS = {"true": True, "false": False, "null": None, "undefined": None}


class BracesToken(NamedTuple):
    """A token of the text: its kind (number, name, text, sign, end), its text and its span."""

    kind: str
    said: str
    start: int
    end: int


class BracesParser:
    """Parses `text` from `start` on; `where` is the location for errors. With `pieces`, quoted text may contain ``{{ }}``."""

    def __init__(self, text: str, start: int = 0, where: str = "", pieces: Callable[[str, str], BracesNode] | None = None) -> None:
        self.text, self.where, self.pieces = text, where, pieces
        self.depth = 0
        self.items = 0
        self.token = self._read(start)

    def whole(self) -> BracesNode:
        """Parses the whole text as one expression."""
        node = self.expression()
        if self.token.kind != "end":
            raise self.bad(f"{self._seen()} is unexpected", "write an operator before it, or remove it")
        return node

    def expression(self) -> BracesNode:
        """Parses an expression, as far as it extends."""
        with _Deeper(self):
            test = self._ranked(0)
            if not self._takes("?"):
                return test
            yes = None if self._is(":") else self.expression()
            self._expect(":", "write a choice as  test ? yes : no")
            return BracesConditional(test, yes, self.expression())

    def bad(self, what: str, hint: str) -> BadExpression:
        """Returns the error for the current position."""
        return BadExpression(self.where, what, hint, self.token.start + 1)

    def _ranked(self, rank: int) -> BracesNode:
        """Parses an expression whose operators bind at least as tightly as `rank`."""
        node = self._unary()
        while (found := self._rank()) >= rank:
            rest = list[tuple[str, BracesNode]]()
            while self._rank() == found:
                sign = self.token.said
                self.advance()
                with _Deeper(self):
                    rest.append((sign, self._ranked(found + 1)))
            node = BracesChain(node, tuple(rest)) if found > _RANKS["&&"] else BracesShortCircuit(rest[0][0], (node, *(operand for _, operand in rest)))
        return node

    def _rank(self) -> int:
        """Returns the precedence of the operator at the current position; -1 if there is none."""
        return _RANKS.get(self.token.said, -1) if self.token.kind in ("sign", "name") else -1

    def _unary(self) -> BracesNode:
        sign = self.token.said
        if self.token.kind != "sign" or sign not in ("!", "-", "+"):
            return self._accessed(self._value())
        self.advance()
        with _Deeper(self):
            operand = self._unary()
        return BracesNot(operand) if sign == "!" else BracesSigned(sign, operand)

    def _accessed(self, base: BracesNode) -> BracesNode:
        parts = list[BracesPart]()
        while self.token.kind == "sign" and self.token.said in (".", "?.", "[", "|"):
            opening = self.token.said
            self.advance()
            if opening == "[" or (opening == "?." and self._takes("[")):
                parts.append(self._index())
                continue
            at, name = self.token.start + 1, self._name("|" if opening == "|" else ".")
            if self._takes("("):
                parts.append(BracesPipe(name, self._list(")"), at))
            else:
                parts.append(BracesPipe(name, (), at) if opening == "|" else BracesMember(name))
        return BracesAccess(base, tuple(parts)) if parts else base

    def _index(self) -> BracesPart:
        part: BracesPart
        if self._is("."):
            self.items += 1
            part = BracesSelection(self.expression())
            self.items -= 1
        else:
            part = BracesIndex(self.expression())
        self._expect("]", "write an index as  items[0]")
        return part

    def _value(self) -> BracesNode:
        token = self.token
        if token.kind == "number":
            self.advance()
            return BracesLiteral(_number(token.said))
        if token.kind == "text":
            self.advance()
            plain = unquoted_text(token.said)
            return self.pieces(plain, self.where) if self.pieces and "{{" in plain else BracesLiteral(plain)
        if token.kind == "name" and token.said != "in":
            self.advance()
            return self._named(token)
        match token.said:
            case "(":
                return self._group(")")
            case "[":
                self.advance()
                return BracesList(self._list("]"))
            case "{":
                self.advance()
                return self._group("}}") if self._is("{") and self.token.start == token.end else self._entries()
            case "." if self.items:
                return BracesAccess(BracesCurrentItem(), (BracesMember(self._after_dot()),))
            case _:
                raise self.bad(f"{self._seen()} is unexpected", "write a value: a name, a number, quoted text, [ ], { } or ( )")

    def _after_dot(self) -> str:
        self.advance()
        return self._name(".")

    def _named(self, token: BracesToken) -> BracesNode:
        if token.said in _CONSTANTS:
            return BracesLiteral(_CONSTANTS[token.said])
        if not self._takes("("):
            return BracesName(token.said)
        arguments = self._list(")")
        if not arguments:
            raise BadExpression(self.where, f"{token.said}() has no argument", f"write {token.said}(value), or value|{token.said}", token.start + 1)
        return BracesAccess(arguments[0], (BracesPipe(token.said, arguments[1:], token.start + 1),))

    def _group(self, closing: str) -> BracesNode:
        self.advance()
        node = self.expression()
        for sign in closing:
            self._expect(sign, f"close it by {closing}")
        return node

    def _list(self, closing: str) -> tuple[BracesNode, ...]:
        items = list[BracesNode]()
        while not self._takes(closing):
            items.append(self.expression())
            if not self._is(closing):
                self._expect(",", f"separate values by commas, and end with {closing}")
        return tuple(items)

    def _entries(self) -> BracesNode:
        entries = list[tuple[str, BracesNode]]()
        while not self._takes("}"):
            token = self.token
            if token.kind not in ("name", "text", "number"):
                raise self.bad(f"{self._seen()} can't be a key", "write an object as  {name: value, 'other name': value}")
            self.advance()
            self._expect(":", "write an object as  {name: value}")
            entries.append((unquoted_text(token.said) if token.kind == "text" else token.said, self.expression()))
            if not self._is("}"):
                self._expect(",", "separate entries by commas, and end with }")
        return BracesMapping(tuple(entries))

    def _name(self, after: str) -> str:
        if self.token.kind != "name":
            what = "the name of a filter" if after == "|" else "a name"
            hint = "write ['a-b'] for names with other characters, and [0] for items" if after == "." else "write it as in  items|length"
            raise self.bad(f"{self._seen()} can't follow {after!r}, {what} was expected", hint)
        name = self.token.said
        self.advance()
        return name

    def _is(self, sign: str) -> bool:
        return self.token.kind == "sign" and self.token.said == sign

    def _takes(self, sign: str) -> bool:
        if not self._is(sign):
            return False
        self.advance()
        return True

    def _expect(self, sign: str, hint: str) -> None:
        if not self._takes(sign):
            raise self.bad(f"{self._seen()} is unexpected, {sign!r} was expected", hint)

    def _seen(self) -> str:
        return "the end" if self.token.kind == "end" else repr(self.token.said[:40])

    def advance(self) -> None:
        """Advances by one token."""
        self.token = self._read(self.token.end)

    def _read(self, start: int) -> BracesToken:
        found = _TOKEN.match(self.text, start)
        if found is None:
            rest = self.text[start:].lstrip()[:1]
            hint = "compare with ==, join conditions with && and ||" if rest in "=&" else "write names with other characters as ['a-b']"
            raise BadExpression(self.where, f"{rest!r} is not part of the language", hint, start + 1)
        kind = str(found.lastgroup)
        if kind == "text":
            return self._quoted(found.start(kind))
        return BracesToken(kind, found[kind], found.start(kind), found.end())

    def _quoted(self, start: int) -> BracesToken:
        quote, end = self.text[start], start + 1
        while end < len(self.text) and self.text[end] != quote:
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise BadExpression(self.where, f"the text that begins with {self.text[start : start + 20]!r} does not end", f"close it with {quote}", start + 1)
        return BracesToken("text", self.text[start : end + 1], start, end + 1)


class _Deeper:
    """Counts one level of nesting, of at most `NESTING_MAX`."""

    def __init__(self, grammar: BracesParser) -> None:
        self.grammar = grammar

    def __enter__(self) -> None:
        self.grammar.depth += 1
        if self.grammar.depth > NESTING_MAX:
            raise self.grammar.bad(f"this nests deeper than {NESTING_MAX}", "split it into several steps")

    def __exit__(self, *_: object) -> None:
        self.grammar.depth -= 1


def parse_braces(text: str, where: str = "", pieces: Callable[[str, str], BracesNode] | None = None) -> BracesNode:
    """Parses an expression into nodes.

    Raises:
        BadExpression: the text is not an expression.
    """
    refuse_too_long(text, where)
    return BracesParser(text, 0, where, pieces).whole()


def braces_tokens(text: str) -> list[BracesToken]:
    """Returns the tokens of a text, as far as it can be read."""
    grammar = BracesParser(text)
    found = list[BracesToken]()
    while grammar.token.kind != "end":
        found.append(grammar.token)
        grammar.advance()
    return found


def refuse_too_long(text: str, where: str) -> None:
    """Raises BadExpression if `text` is longer than an expression may be."""
    if len(text) > CHARACTERS_MAX:
        raise BadExpression(where, f"the expression has {len(text):,} characters", f"write at most {CHARACTERS_MAX:,}, or compute the value in a step")


def _number(said: str) -> int | float:
    if said[:2].lower() == "0x" or said.isdigit():
        whole = int(said, 0 if said[:2].lower() == "0x" else 10) if len(said) < 300 else 2**64
        return whole if whole < 2**64 else float(whole)
    return js_result(float(said))


def unquoted_text(quoted: str) -> str:
    """Returns the text without its quotes and escapes."""
    if "\\" not in quoted:
        return quoted[1:-1]
    plain = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", _unescaped, quoted[1:-1], flags=re.DOTALL)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    character = str(found[2])
    return _ESCAPES.get(character, character if character in "\"'\\/`\n{}" else found[0])
