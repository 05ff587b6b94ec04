"""Changes one function of the package by its syntax tree, so that a test run shows whether the suite notices.

A change names what it looks for by Python expressions or statements (`commit.version`, `"a string"`) or by single identifiers (`epoch`); layout, comments
and the code around it do not matter. What it looks for must be there exactly once.
"""

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef


class AnchorMissing(Exception):
    """The source has no place, or several, that fit a change."""


class Never(NamedTuple):
    """The condition that mentions all of these never holds."""

    mentions: tuple[str, ...]
    value: bool = False


class Without(NamedTuple):
    """The statement that mentions all of these is not there."""

    mentions: tuple[str, ...]


class Instead(NamedTuple):
    """The expression `old` is `new`."""

    old: str
    new: str


class Before(NamedTuple):
    """Another statement goes before the one that mentions all of these."""

    mentions: tuple[str, ...]
    statement: str


class Returns(NamedTuple):
    """The function returns this and does nothing else."""

    value: str


Change = Never | Without | Instead | Before | Returns


def never(*mentions: str) -> Never:
    """The smallest condition that mentions all of these never holds."""
    return Never(mentions)


def always(*mentions: str) -> Never:
    """The smallest condition that mentions all of these always holds."""
    return Never(mentions, True)


def without(*mentions: str) -> Without:
    """The smallest statement that mentions all of these is not there."""
    return Without(mentions)


def before(*mentions: str, statement: str) -> Before:
    """Another statement goes before the smallest one that mentions all of these."""
    return Before(mentions, statement)


def changed(source: str, name: str, change: Change) -> str:
    """The source of a module with one change within the function, class or assignment called `name` (dotted).

    Raises:
        AnchorMissing: the name is not there, or what the change looks for is not there exactly once.
    """
    return ast.unparse(ast.fix_missing_locations(changed_tree(source, name, change)))


def changed_tree(source: str, name: str, change: Change) -> ast.Module:
    """The syntax tree of what `changed` returns, without the work of writing it out.

    Raises:
        AnchorMissing: see `changed`.
    """
    module = ast.parse(source)
    place = definition(module, name)
    match change:
        case Never(mentions, value):
            found = _smallest(_conditions(place), mentions, "condition")
            _replace(place, found, ast.Constant(value))
        case Without(mentions):
            _replace(place, _smallest(_statements(place), mentions, "statement"), ast.Pass())
        case Before(mentions, statement):
            _insert(place, _smallest(_statements(place), mentions, "statement"), ast.parse(statement).body)
        case Instead(old, new):
            wanted = ast.dump(_expression(old))
            found = _only([node for node in ast.walk(place) if isinstance(node, ast.expr) and ast.dump(_loaded(node)) == wanted], f"expression {old}")
            _replace(place, found, _expression(new))
        case Returns(value):
            if not isinstance(place, Function):
                raise AnchorMissing(f"{name} is not a function")
            place.body = [ast.Return(_expression(value))]
    return module


def definition(module: ast.Module, name: str) -> ast.AST:
    """The function, class or assignment with a dotted name.

    Raises:
        AnchorMissing: there is none, or more than one.
    """
    found: list[ast.AST] = [module]
    for part in name.split("."):
        found = [inner for outer in found for inner in _defined(outer) if part in _names(inner)]
    return _only(found, f"definition of {name}")


def _defined(outer: ast.AST) -> Iterator[ast.AST]:
    """The definitions directly within another, however deep in its conditions and loops."""
    for inner in ast.iter_child_nodes(outer):
        if isinstance(inner, Function | ast.ClassDef | ast.Assign | ast.AnnAssign):
            yield inner
        elif isinstance(inner, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _defined(inner)


def _names(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _conditions(place: ast.AST) -> Iterator[ast.AST]:
    """Each expression that decides: the tests of branches, loops and filters, the parts of `and`, `or` and `not`, and comparisons."""
    for node in ast.walk(place):
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                yield test
            case ast.comprehension(ifs=tests):
                yield from tests
            case ast.match_case(guard=ast.expr() as test):
                yield test
            case ast.BoolOp(values=values):
                yield from values
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield operand
            case ast.Compare():
                yield node


def _statements(place: ast.AST) -> Iterator[ast.AST]:
    return (node for node in ast.walk(place) if isinstance(node, ast.stmt) and node is not place)


def _smallest(candidates: Iterator[ast.AST], mentions: tuple[str, ...], kind: str) -> ast.AST:
    """The one candidate that is what is mentioned; else the one that mentions everything and has no other such candidate within it."""
    wanted = [_mentions(text) for text in mentions]
    found = {id(node): node for node in candidates if all(any(map(is_it, ast.walk(node))) for is_it in wanted)}
    exact = [node for node in found.values() if isinstance(node, ast.expr) and [ast.unparse(node)] == [ast.unparse(_expression(text)) for text in mentions]]
    if len(exact) == 1:
        return exact[0]
    smallest = [node for node in found.values() if sum(id(inner) in found for inner in ast.walk(node)) == 1]
    return _only(smallest, f"{kind} that mentions {' and '.join(mentions)}")


def _mentions(text: str) -> Callable[[ast.AST], bool]:
    """Whether a node is the expression in `text`; if that is a name, also an attribute, keyword or string that reads so."""
    if not text.isidentifier():
        (statement,) = ast.parse(text).body
        wanted = ast.dump(statement.value if isinstance(statement, ast.Expr) else statement)
        return lambda node: ast.dump(_loaded(node) if isinstance(node, ast.expr) else node) == wanted

    def is_it(node: ast.AST) -> bool:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=name) | ast.Constant(value=name):
                return bool(name == text)
        return False

    return is_it


def _loaded(node: ast.expr) -> ast.expr:
    """The expression as it reads where a value is wanted: a target of an assignment differs from it in its context alone."""
    return node if isinstance(getattr(node, "ctx", None), ast.Load) or not hasattr(node, "ctx") else _expression(ast.unparse(node))


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _only(found: list[Node], what: str) -> Node:
    if len(found) != 1:
        raise AnchorMissing(f"the {what} is there {len(found)} times, not once")
    return found[0]


def _replace(place: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put `new` where `old` is."""
    for node in ast.walk(place):
        for field, value in ast.iter_fields(node):
            if value is old:
                setattr(node, field, new)
                return
            if isinstance(value, list) and any(one is old for one in value):
                setattr(node, field, [new if one is old else one for one in value])
                return


def _insert(place: ast.AST, statement: ast.AST, others: list[ast.stmt]) -> None:
    """Put others before a statement."""
    for node in ast.walk(place):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and any(one is statement for one in value):
                at = next(index for index, one in enumerate(value) if one is statement)
                setattr(node, field, [*value[:at], *others, *value[at:]])
                return
