"""What an expression of the ``{{ }}`` language is made of, once it has been read."""

from typing import Any

import msgspec


class Literal(msgspec.Struct, frozen=True):
    """A number, a text, true, false or null."""

    value: Any


class Name(msgspec.Struct, frozen=True):
    """What an expression begins with: a root, or a variable."""

    name: str


class Here(msgspec.Struct, frozen=True):
    """The item that is being looked at, in ``items[.price > 5]``."""


class Member(msgspec.Struct, frozen=True):
    """``.name``"""

    name: str


class Index(msgspec.Struct, frozen=True):
    """``[expression]``"""

    index: "Node"


class Those(msgspec.Struct, frozen=True):
    """``[.price > 5]``: of a list, those for which it holds."""

    condition: "Node"


class Pipe(msgspec.Struct, frozen=True):
    """``|name(arguments)``, which can also be written ``.name(arguments)`` and ``name(value, arguments)``; `at` counts characters from 1."""

    name: str
    arguments: tuple["Node", ...]
    at: int


Part = Member | Index | Those | Pipe


class Access(msgspec.Struct, frozen=True):
    """A value, and what is taken of it, from left to right."""

    base: "Node"
    parts: tuple[Part, ...]


class Not(msgspec.Struct, frozen=True):
    """``!operand``"""

    operand: "Node"


class Signed(msgspec.Struct, frozen=True):
    """``-operand`` or ``+operand``"""

    sign: str
    operand: "Node"


class Chain(msgspec.Struct, frozen=True):
    """Operators of one rank, from left to right: the first operand, and each sign with the next."""

    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]


class Either(msgspec.Struct, frozen=True):
    """``&&``, ``||`` or ``??``: the first operand that decides, as it is, or the last."""

    sign: str
    operands: tuple["Node", ...]


class Choice(msgspec.Struct, frozen=True):
    """``test ? yes : no``; without `yes` (``test ?: no``) the test's own value."""

    test: "Node"
    yes: "Node | None"
    no: "Node"


class Items(msgspec.Struct, frozen=True):
    """``[a, b]``"""

    items: tuple["Node", ...]


class Entries(msgspec.Struct, frozen=True):
    """``{a: 1, 'b': 2}``"""

    entries: tuple[tuple[str, "Node"], ...]


class Pieces(msgspec.Struct, frozen=True):
    """Text with expressions in it."""

    pieces: tuple["str | Node", ...]


Node = Literal | Name | Here | Access | Not | Signed | Chain | Either | Choice | Items | Entries | Pieces
