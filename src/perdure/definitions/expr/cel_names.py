"""Finds the free names of a CEL expression, each with the constant paths read from it, by its tokens alone.

Variables of macros (``items.all(x, x > 1)``) are not free names, and neither are functions, fields and types.
"""

import re
from math import prod
from typing import NamedTuple

from perdure.definitions.expr.references import ValuePath

CEL_TYPES = frozenset("int uint double bool string bytes list map type null_type dyn".split())  # noqa: SIM905  # readable on one line
CEL_RESERVED = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()  # noqa: SIM905  # readable on one line
)
CEL_LITERALS = frozenset(("true", "false", "null", "in"))
CEL_MACROS = frozenset(("all", "exists", "exists_one", "map", "filter"))
MACROS_OF_TWO = frozenset(("all", "exists", "existsOne", "transformList"))
"""Macros whose first variable is the index in a list or the key of a mapping, and whose second is the value."""

MAPPING = frozenset(("map", "transformList"))

_TOKEN = re.compile(
    r"""
      (?P<blank> \s+ | //[^\n]* )
    | (?P<text> (?:[rR][bB]?|[bB][rR]) (?: \"{3}.*?\"{3} | '{3}.*?'{3} | "[^"\n]*" | '[^'\n]*' )
              | [bB]? (?: \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}(?:[^\\]|\\.)*?'{3} | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' ) )
    | (?P<number> 0[xX][0-9a-fA-F]+[uU]? | (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]? )
    | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<quoted> `[^`\n]*` )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"""(["'])([^\\\n]*)\1""")


class CelToken(NamedTuple):
    """A token: its kind, its text, and its position, from 0."""

    kind: str
    text: str
    at: int


class CelNameUse(NamedTuple):
    """A free name: the constant path that follows it, its position, and whether each iteration of a macro reads it again."""

    name: str
    path: ValuePath
    at: int
    turns: bool


class CelNames(NamedTuple):
    """The free names of an expression, and how its cost may grow.

    `growth` is the factor by which text and lists may multiply when nested macros use their variables several times. `sums` counts the additions,
    `turning_sums` those in macros. `crosses`: a macro uses the variable of another macro around it.
    """

    uses: list[CelNameUse]
    growth: int
    sums: int
    turning_sums: int
    crosses: bool


class _Bound:
    """A variable of a macro: where the macro begins, and how often its body uses the variable."""

    def __init__(self, name: str, maps: bool, at: int) -> None:
        self.name, self.maps, self.at, self.count = name, maps, at, 0


def cel_tokens(text: str) -> list[CelToken]:
    """Returns the tokens of an expression; any other character is a sign."""
    return [CelToken(found.lastgroup or "", found[0], found.start()) for found in _TOKEN.finditer(text) if found.lastgroup != "blank"]


def names_in_cel(text: str) -> CelNames:
    """Finds the free names of an expression."""
    every = [*cel_tokens(text), CelToken("end", "", len(text)), CelToken("end", "", len(text))]
    found: list[CelNameUse] = []
    bound: list[_Bound] = []
    brackets: list[int] = []
    growth, sums, turning_sums, crosses = 1, 0, 0, False
    for place, (kind, word, at) in enumerate(every):
        if kind == "sign":
            sums += word == "+"
            turning_sums += word == "+" and bool(bound)
            if word in "([{":
                brackets.append(len(bound))
                maps = every[place - 1].text in MAPPING
                bound += [_Bound(variable, maps and number == 0, at) for number, variable in enumerate(reversed(_variables(every, place)))]
            elif word in ")]}" and brackets:
                begin = brackets.pop()
                growth *= prod(max(1, one.count - 1) for one in bound[begin:] if one.maps)
                del bound[begin:]
        elif kind == "name" and word not in CEL_LITERALS and not _is_member(every, place):
            if (inner := next((one for one in reversed(bound) if one.name == word), None)) is not None:
                inner.count += 1
                crosses = crosses or inner.at != bound[-1].at
            elif (behind := every[place + 1].text) not in ("(", "{") and (word not in CEL_TYPES or behind in (".", "[")):
                found.append(CelNameUse(word, _path(every, place + 1), at, bool(bound)))
    return CelNames(found, growth, sums, turning_sums, crosses)


def _is_member(every: list[CelToken], place: int) -> bool:
    """Returns whether a name is a field: it follows a dot, and the dot follows a value."""
    if place == 0 or every[place - 1].text != ".":
        return False
    if place == 1:
        return False
    before = every[place - 2]
    return (before.kind in ("name", "text", "quoted", "number") and before.text != "in") or before.text in (")", "]", "}", "?")


def _variables(every: list[CelToken], place: int) -> list[str]:
    """Returns the variables of the macro whose bracket opens here; none if it is not a macro's bracket."""
    if every[place].text != "(" or place < 2 or every[place - 2].text != ".":
        return []
    found, at, macro = list[str](), place + 1, every[place - 1].text
    while len(found) < 2 and every[at].kind == "name" and every[at + 1].text == ",":
        found.append(every[at].text)
        at += 2
    if macro in MACROS_OF_TWO and len(found) == 2:
        return found
    return found[:1] if macro in CEL_MACROS else []


def _path(every: list[CelToken], place: int) -> ValuePath:
    """Returns the constant fields after a name. The last one may be a method, and is then left out."""
    path: list[str | int] = []
    while True:
        one, two, three = every[place], every[place + 1], every[min(place + 2, len(every) - 1)]
        if one.text == "." and two.kind in ("name", "quoted"):
            if three.text == "(":
                return tuple(path)
            path.append(two.text.strip("`") if two.kind == "quoted" else two.text)
            place += 2
        elif one.text == "[" and three.text == "]" and (two.kind == "text") and (plain := _PLAIN.fullmatch(two.text)):
            path.append(plain[2])
            place += 3
        else:
            return tuple(path)
