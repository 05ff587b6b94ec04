"""The ``{{ }}`` language of seed 003: a small language of its own, whose operators are JavaScript's and in which what is missing is null.

A text that is ``{{ expression }}`` as a whole becomes its value, of whatever kind; inside other text, the value is put in. A condition is an expression with
no braces around it, or with some: those count as parentheses. Secrets can be handed on, and nothing else be done with them.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.expr import braces_nodes as n
from perdure.expr import loose, marks
from perdure.expr.braces_grammar import Grammar, read, tokens, too_long, unquoted
from perdure.expr.braces_meaning import ROOTS, Meanings, of_items
from perdure.expr.braces_run import Meaning, Run
from perdure.expr.refs import Read, Scope

SECTIONS = "#^/>="
Named = tuple[str, tuple[str | int, ...]]


class Expression:
    """A text of the language, compiled: the `names` in it, each with the path behind it; what these `reads` are, each `where` empty; its value in a scope."""

    __slots__ = ("_make", "names", "reads")

    def __init__(self, make: Meaning, nodes: Iterable[n.Node]) -> None:
        self._make = make
        self.names = tuple(dict.fromkeys(named for node in nodes for named in _names(node)))
        self.reads = frozenset(read for name, path in self.names for read in _read(name, path))

    def evaluate(self, scope: Scope, where: str = "") -> Any:
        """Its value; nothing of it may be changed. `where` stands in the error.

        Raises:
            ExpressionFailed: it costs too much.
        """
        try:
            return self._make(Run(scope, of_items))
        except ExpressionFailed as error:
            raise ExpressionFailed(where, error.what, error.hint) from None


def text(value: str, where: str = "") -> Expression:
    """The value that a text with ``{{ }}`` in it stands for; the same one for the same text.

    Raises:
        BadExpression: it can't be read.
    """
    return _placed(_text, value, where)


def condition(value: str, where: str = "") -> Expression:
    """The condition that a text is: true or false.

    Raises:
        BadExpression: it can't be read.
    """
    return _placed(_condition, value, where)


def _placed(compile: Any, value: str, where: str) -> Expression:
    try:
        expression: Expression = compile(value)
    except BadExpression as error:
        at = f" (character {error.at})" if error.at else ""
        raise BadExpression(where, f"{_cut(value)!r}: {error.what}{at}", error.hint, error.at) from None
    return expression


def _cut(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "…"


@lru_cache(maxsize=4096)
def _text(value: str) -> Expression:
    too_long(value, "")
    pieces = list(_pieces(value))
    nodes = [piece for piece in pieces if not isinstance(piece, str)]
    if len(pieces) == 1 and nodes:
        _keep_secrets(nodes[0], passed_on=True)
        return Expression(_finished(nodes[0]), nodes)
    secret = [isinstance(piece, n.Access) and piece.base == n.Name("secrets") and len(piece.parts) == 1 for piece in pieces]
    for piece, is_secret in zip(pieces, secret, strict=True):
        if not isinstance(piece, str) and not is_secret:
            _keep_secrets(piece, passed_on=False)
    made = [piece if isinstance(piece, str) else Meanings().of(piece) for piece in pieces]
    return Expression(_marked(made, secret) if any(secret) else _joined(made), nodes)


def _joined(made: list[str | Meaning]) -> Meaning:
    def join(run: Run) -> str:
        return "".join(_shown(run, made))

    return join


def _shown(run: Run, made: list[str | Meaning]) -> list[str]:
    texts = [piece if isinstance(piece, str) else loose.shown(run.weighed(piece(run))) for piece in made]
    run.sized(sum(map(len, texts)))
    return texts


def _marked(made: list[str | Meaning], secret: list[bool]) -> Meaning:
    """Text with secrets in it: its parts, with a mark for each secret."""

    def mark(run: Run) -> Any:
        shown = iter(_shown(run, [piece for piece, is_secret in zip(made, secret, strict=True) if not is_secret]))
        return marks.text([piece(run) if is_secret and not isinstance(piece, str) else next(shown) for piece, is_secret in zip(made, secret, strict=True)])

    return mark


def renamed(value: str, names: Mapping[str, str], whole: bool = False) -> str:
    """A text that has been compiled, with steps called otherwise; with `whole` it is a condition."""
    if whole:
        return _renamed(value, names)
    made, behind = list[str](), 0
    while (opening := value.find("{{", behind)) >= 0:
        end, start = _tag(value, opening)[1], _inside(value, opening + 2)
        made += value[behind:start], _renamed(value[start : end - 2], names), "}}"
        behind = end
    return "".join(made) + value[behind:]


def _renamed(value: str, names: Mapping[str, str]) -> str:
    found = tokens(value)
    for before, root, opening, named in reversed(list(zip([None, *found], found, found[1:], found[2:], strict=False))):
        if root.said != "steps" or root.kind != "name" or (before and before.said in (".", "?.", "|")):
            continue
        quoted = opening.said == "[" and named.kind == "text"
        original = unquoted(named.said) if quoted else named.said
        if (quoted or (opening.said in (".", "?.") and named.kind == "name")) and original in names:
            called = names[original]
            value = value[: named.start] + (f"'{called}'" if quoted else called) + value[named.end :]
    return value


@lru_cache(maxsize=4096)
def _condition(value: str) -> Expression:
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise BadExpression("", "a text has half a character in it", "write the whole character")
    node = read(value, pieces=_quoted)
    _keep_secrets(node, passed_on=False)
    meaning = Meanings().of(node)
    return Expression(lambda run: loose.truthy(meaning(run)), [node])


def _quoted(value: str, where: str) -> n.Node:
    return n.Pieces(tuple(_pieces(value)))


def _pieces(value: str) -> Iterator[str | n.Node]:
    """What a text consists of: text, and the expressions in it."""
    behind = 0
    while (opening := value.find("{{", behind)) >= 0:
        if opening > behind:
            yield value[behind:opening]
        node, behind = _tag(value, opening)
        yield node
    if behind < len(value):
        yield value[behind:]


def _tag(value: str, opening: int) -> tuple[n.Node, int]:
    """The expression between braces that open at `opening`, and where they have closed."""
    if value.startswith("{{{", opening):
        try:
            return _between(value, opening + 3, "}}}")
        except BadExpression:  # it is no {{{ expression }}}, so the third brace opens an object
            return _between(value, opening + 2, "}}")
    return _between(value, opening + 2, "}}")


def _between(value: str, start: int, closing: str) -> tuple[n.Node, int]:
    inside = _blanks(value, start)
    if value[inside : inside + 1] in set(SECTIONS):
        raise BadExpression("", f"{value[inside]!r} opens a section", "sections, partials and comments are not part of the language: use steps", inside + 1)
    if value.startswith("}}", inside):
        raise BadExpression("", "there is nothing between {{ and }}", "write an expression there, or '{{' in quotes to mean the braces", inside + 1)
    grammar = Grammar(value, _inside(value, start))
    node = grammar.expression()
    end = grammar.token.start
    if not value.startswith(closing, end):
        seen = repr(grammar.token.said[:40]) if grammar.token.kind != "end" else "the end"
        raise BadExpression("", f"{seen} can't stand here, {closing!r} was expected", 'write  {{ expression }}, or  {{ "{{" }}  to mean the braces', end + 1)
    return node, end + len(closing)


def _blanks(value: str, start: int) -> int:
    return len(value) - len(value[start:].lstrip())


def _inside(value: str, start: int) -> int:
    """Where an expression begins that stands behind braces, and behind the & of some."""
    inside = _blanks(value, start)
    return inside + value.startswith("&", inside)


def _finished(node: n.Node) -> Meaning:
    """The meaning of a whole expression, with numbers that no JSON can hold taken as null."""
    meaning = Meanings().of(node)
    if isinstance(node, n.Name | n.Literal) or (isinstance(node, n.Access) and not any(isinstance(part, n.Pipe) for part in node.parts)):
        return meaning
    return lambda run: loose.finite(run.weighed(meaning(run)))


def _inner(node: n.Node | n.Part) -> tuple[n.Node | n.Part, ...]:
    match node:
        case n.Access(base, parts):
            return (base, *parts)
        case n.Index(inner) | n.Those(inner) | n.Not(inner) | n.Signed(_, inner):
            return (inner,)
        case n.Pipe(_, inners, _) | n.Items(inners) | n.Either(_, inners):
            return inners
        case n.Chain(first, rest):
            return (first, *(operand for _, operand in rest))
        case n.Choice(test, yes, no):
            return (test, *([yes] if yes else []), no)
        case n.Entries(entries):
            return tuple(item for _, item in entries)
        case n.Pieces(pieces):
            return tuple(piece for piece in pieces if not isinstance(piece, str))
        case _:
            return ()


def _names(node: n.Node | n.Part) -> Iterator[Named]:
    """The names in an expression, each with the path behind it as far as that can be said before it is evaluated."""
    match node:
        case n.Name(name):
            yield name, ()
        case n.Access(n.Name(name), parts):
            yield name, tuple(_steady(parts))
            for part in parts:
                yield from _names(part)
        case _:
            for inner in _inner(node):
                yield from _names(inner)


def _steady(parts: tuple[n.Part, ...]) -> Iterator[str | int]:
    for part in parts:
        match part:
            case n.Member(key) | n.Index(n.Literal(str(key))):
                yield key
            case n.Index(n.Literal(int(place))):
                yield place
            case _:
                return


def _read(name: str, path: tuple[str | int, ...]) -> Iterator[Read]:
    match name:
        case "steps":
            if path:
                yield Read("steps", str(path[0]), path[2:] if path[1:2] == ("output",) else (), "")
        case "lastOutput":
            yield Read("last", "", path, "")
        case "organizationId":
            yield Read("execution", "", ("tenant",), "")
        case "now" | "nowMs":
            yield Read("execution", "", ("now_s",), "")
        case _ if name in ROOTS:
            yield Read(name, "", path, "")
        case _:
            yield Read("vars", "", (name, *path), "")


def _keep_secrets(node: n.Node | n.Part, passed_on: bool) -> None:
    """Raises BadExpression where a secret is not just passed on."""
    match node:
        case n.Access(n.Name("secrets"), parts):
            if not passed_on or len(parts) != 1:
                hint = "write {{ secrets.NAME }}, alone or inside text, and work with it in the step"
                raise BadExpression("", "a secret can only be handed on as it is", hint)
        case n.Choice(test, yes, no):
            _keep_secrets(test, passed_on=False)
            _keep_secrets(no, passed_on)
            if yes:
                _keep_secrets(yes, passed_on)
        case _:
            for inner in _inner(node):
                _keep_secrets(inner, passed_on and isinstance(node, n.Items | n.Entries))
