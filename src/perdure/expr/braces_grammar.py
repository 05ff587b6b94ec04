"""The grammar of the ``{{ }}`` language: text to nodes. Nothing nests deeper than 64 or is longer than 64 KiB, and any other text is a BadExpression.

expression  = rank1 [ "?" [ expression ] ":" expression ]
rank1..7    = "??"; "||"; "&&"; "== != === !=="; "< <= > >= in"; "+ -"; "* / %"
unary       = { "!" | "-" | "+" } value { "." name [ "(" arguments ")" ] | "[" expression "]" | "|" name [ "(" arguments ")" ] }
value       = number | text | name [ "(" arguments ")" ] | "(" expression ")" | "{{" expression "}}" | "[" items "]" | "{" entries "}"
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from perdure.core.errors import BadExpression
from perdure.expr import braces_nodes as n
from perdure.expr.loose import settled

CHARACTERS_MAX = 65_536
DEPTH_MAX = 64

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


class Token(NamedTuple):
    """A piece of the text: its kind (number, name, text, sign, end), what it says, and from where to where it stands."""

    kind: str
    said: str
    start: int
    end: int


class Grammar:
    """One reading of `text` from `start` on; `where` stands in errors. With `pieces`, quoted text may hold ``{{ }}`` itself."""

    def __init__(self, text: str, start: int = 0, where: str = "", pieces: Callable[[str, str], n.Node] | None = None) -> None:
        self.text, self.where, self.pieces = text, where, pieces
        self.depth = 0
        self.items = 0
        self.token = self._read(start)

    def whole(self) -> n.Node:
        """The expression that the whole text is."""
        node = self.expression()
        if self.token.kind != "end":
            raise self.bad(f"{self._seen()} can't stand here", "an operator was expected, or the end")
        return node

    def expression(self) -> n.Node:
        """An expression, up to where none can go on."""
        with _Deeper(self):
            test = self._ranked(0)
            if not self._takes("?"):
                return test
            yes = None if self._is(":") else self.expression()
            self._expect(":", "a choice is written  test ? yes : no")
            return n.Choice(test, yes, self.expression())

    def bad(self, what: str, hint: str) -> BadExpression:
        """The error that something is wrong where the reading stands."""
        return BadExpression(self.where, what, hint, self.token.start + 1)

    def _ranked(self, rank: int) -> n.Node:
        """An expression of operators that bind at least as closely as `rank` says."""
        node = self._unary()
        while (found := self._rank()) >= rank:
            rest = list[tuple[str, n.Node]]()
            while self._rank() == found:
                sign = self.token.said
                self.advance()
                with _Deeper(self):
                    rest.append((sign, self._ranked(found + 1)))
            node = n.Chain(node, tuple(rest)) if found > _RANKS["&&"] else n.Either(rest[0][0], (node, *(operand for _, operand in rest)))
        return node

    def _rank(self) -> int:
        """How closely the operator binds at which the reading stands; -1 if there is none."""
        return _RANKS.get(self.token.said, -1) if self.token.kind in ("sign", "name") else -1

    def _unary(self) -> n.Node:
        sign = self.token.said
        if self.token.kind != "sign" or sign not in ("!", "-", "+"):
            return self._accessed(self._value())
        self.advance()
        with _Deeper(self):
            operand = self._unary()
        return n.Not(operand) if sign == "!" else n.Signed(sign, operand)

    def _accessed(self, base: n.Node) -> n.Node:
        parts = list[n.Part]()
        while self.token.kind == "sign" and self.token.said in (".", "?.", "[", "|"):
            opening = self.token.said
            self.advance()
            if opening == "[" or (opening == "?." and self._takes("[")):
                parts.append(self._index())
                continue
            at, name = self.token.start + 1, self._name("|" if opening == "|" else ".")
            if self._takes("("):
                parts.append(n.Pipe(name, self._list(")"), at))
            else:
                parts.append(n.Pipe(name, (), at) if opening == "|" else n.Member(name))
        return n.Access(base, tuple(parts)) if parts else base

    def _index(self) -> n.Part:
        part: n.Part
        if self._is("."):
            self.items += 1
            part = n.Those(self.expression())
            self.items -= 1
        else:
            part = n.Index(self.expression())
        self._expect("]", "an index is written  items[0]")
        return part

    def _value(self) -> n.Node:
        token = self.token
        if token.kind == "number":
            self.advance()
            return n.Literal(_number(token.said))
        if token.kind == "text":
            self.advance()
            plain = unquoted(token.said)
            return self.pieces(plain, self.where) if self.pieces and "{{" in plain else n.Literal(plain)
        if token.kind == "name" and token.said != "in":
            self.advance()
            return self._named(token)
        match token.said:
            case "(":
                return self._group(")")
            case "[":
                self.advance()
                return n.Items(self._list("]"))
            case "{":
                self.advance()
                return self._group("}}") if self._is("{") and self.token.start == token.end else self._entries()
            case "." if self.items:
                return n.Access(n.Here(), (n.Member(self._after_dot()),))
            case _:
                raise self.bad(f"{self._seen()} can't stand here", "a value was expected: a name, a number, quoted text, [ ], { } or ( )")

    def _after_dot(self) -> str:
        self.advance()
        return self._name(".")

    def _named(self, token: Token) -> n.Node:
        if token.said in _CONSTANTS:
            return n.Literal(_CONSTANTS[token.said])
        if not self._takes("("):
            return n.Name(token.said)
        arguments = self._list(")")
        if not arguments:
            raise BadExpression(self.where, f"{token.said}() is given nothing", f"write {token.said}(value), or value|{token.said}", token.start + 1)
        return n.Access(arguments[0], (n.Pipe(token.said, arguments[1:], token.start + 1),))

    def _group(self, closing: str) -> n.Node:
        self.advance()
        node = self.expression()
        for sign in closing:
            self._expect(sign, f"what was opened is not closed by {closing}")
        return node

    def _list(self, closing: str) -> tuple[n.Node, ...]:
        items = list[n.Node]()
        while not self._takes(closing):
            items.append(self.expression())
            if not self._is(closing):
                self._expect(",", f"values are parted by commas, and end with {closing}")
        return tuple(items)

    def _entries(self) -> n.Node:
        entries = list[tuple[str, n.Node]]()
        while not self._takes("}"):
            token = self.token
            if token.kind not in ("name", "text", "number"):
                raise self.bad(f"{self._seen()} can't be a key", "an object is written  {name: value, 'other name': value}")
            self.advance()
            self._expect(":", "an object is written  {name: value}")
            entries.append((unquoted(token.said) if token.kind == "text" else token.said, self.expression()))
            if not self._is("}"):
                self._expect(",", "entries are parted by commas, and end with }")
        return n.Entries(tuple(entries))

    def _name(self, after: str) -> str:
        if self.token.kind != "name":
            what = "the name of a filter" if after == "|" else "a name"
            hint = "write ['a-b'] for names with other characters, and [0] for items" if after == "." else "as in  items|length"
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
            raise self.bad(f"{self._seen()} can't stand here, {sign!r} was expected", hint)

    def _seen(self) -> str:
        return "the end" if self.token.kind == "end" else repr(self.token.said[:40])

    def advance(self) -> None:
        """Go on by one token."""
        self.token = self._read(self.token.end)

    def _read(self, start: int) -> Token:
        found = _TOKEN.match(self.text, start)
        if found is None:
            rest = self.text[start:].lstrip()[:1]
            hint = "compare with ==, join conditions with && and ||" if rest in "=&" else "write names with other characters as ['a-b']"
            raise BadExpression(self.where, f"{rest!r} is not part of the language", hint, start + 1)
        kind = str(found.lastgroup)
        if kind == "text":
            return self._quoted(found.start(kind))
        return Token(kind, found[kind], found.start(kind), found.end())

    def _quoted(self, start: int) -> Token:
        quote, end = self.text[start], start + 1
        while end < len(self.text) and self.text[end] != quote:
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise BadExpression(self.where, f"the text that begins with {self.text[start : start + 20]!r} does not end", f"close it with {quote}", start + 1)
        return Token("text", self.text[start : end + 1], start, end + 1)


class _Deeper:
    """One level further down, at most `DEPTH_MAX`."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar

    def __enter__(self) -> None:
        self.grammar.depth += 1
        if self.grammar.depth > DEPTH_MAX:
            raise self.grammar.bad(f"this nests deeper than {DEPTH_MAX}", "take it apart into several steps")

    def __exit__(self, *_: object) -> None:
        self.grammar.depth -= 1


def read(text: str, where: str = "", pieces: Callable[[str, str], n.Node] | None = None) -> n.Node:
    """The nodes of an expression.

    Raises:
        BadExpression: it is none.
    """
    too_long(text, where)
    return Grammar(text, 0, where, pieces).whole()


def tokens(text: str) -> list[Token]:
    """The pieces of a text that can be read."""
    grammar = Grammar(text)
    found = list[Token]()
    while grammar.token.kind != "end":
        found.append(grammar.token)
        grammar.advance()
    return found


def too_long(text: str, where: str) -> None:
    """Raises BadExpression if `text` is longer than an expression may be."""
    if len(text) > CHARACTERS_MAX:
        raise BadExpression(where, f"the expression has {len(text):,} characters", f"at most {CHARACTERS_MAX:,}; let a step make the value")


def _number(said: str) -> int | float:
    if said[:2].lower() == "0x" or said.isdigit():
        whole = int(said, 0 if said[:2].lower() == "0x" else 10) if len(said) < 300 else 2**64
        return whole if whole < 2**64 else float(whole)
    return settled(float(said))


def unquoted(quoted: str) -> str:
    """What quoted text says."""
    if "\\" not in quoted:
        return quoted[1:-1]
    plain = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", _unescaped, quoted[1:-1], flags=re.DOTALL)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    character = str(found[2])
    return _ESCAPES.get(character, character if character in "\"'\\/`\n{}" else found[0])
