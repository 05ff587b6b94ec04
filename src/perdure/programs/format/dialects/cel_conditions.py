"""CEL of another dialect, as a condition: its names follow those of the definition.

Simple comparisons become rows that a form can show; what is more is CEL with the names that definitions have, its arithmetic in doubles. Beside it, `source`
keeps the text of the author, which messages quote and which is written again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from perdure.core.errors import BadExpression, MissingExtra
from perdure.expr import cel
from perdure.expr.values import cut
from perdure.programs.format.dialects import cel_tree
from perdure.programs.format.dialects.cel_arithmetic import calculated
from perdure.programs.format.dialects.cel_tree import Binary, Call, Group, Items, Literal, Name, Tree, Unary
from perdure.programs.format.dialects.spelling import escaped, in_cel, whole

_OPERATORS = {"==": "eq", "!=": "neq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_MIRRORED = {"eq": "eq", "neq": "neq", "gt": "lt", "gte": "lte", "lt": "gt", "lte": "gte"}
_METHODS = {"contains": "contains", "startsWith": "starts_with", "endsWith": "ends_with"}


class Meaning(NamedTuple):
    """What names mean: `of` says of a name and the path behind it which root or step of the definition that is, and by which path, or None.

    `optional`: rows take what is missing as null. `renamed` are names that are called something else where `of` knows nothing.
    """

    of: Callable[[str, list[str | int]], tuple[str, list[str | int]] | None]
    optional: bool = False
    renamed: tuple[tuple[str, str], ...] = ()


def condition(text: str, meaning: Meaning) -> dict[str, Any]:
    """The condition that a CEL expression is.

    Raises:
        NotCel: it is none.
    """
    try:
        tree = cel_tree.parse(text)
        if row := _row(tree, meaning):
            return row
        made = cel_tree.written(calculated(_named(tree, meaning)))
    except RecursionError:
        raise cel_tree.NotCel("it nests too deep") from None
    _check(made, text)
    return {"expr": made} if made == text else {"expr": made, "source": text}


def _check(made: str, text: str) -> None:
    """Compiles the expression, if the library is there; without it the definition's own check says so.

    Raises:
        NotCel: it does not compile; in words about the text of the author.
    """
    try:
        cel.compiled(made, source=text)
    except MissingExtra:
        return
    except BadExpression as bad:
        raise cel_tree.NotCel(f"{bad.what.removeprefix(f'{cut(text)!r} is no CEL: ')}; {bad.hint}") from None


def _row(tree: Tree, meaning: Meaning) -> dict[str, Any] | None:
    """The condition as rows; None if it is more than that."""
    match tree:
        case Group(inside):
            return _row(inside, meaning)
        case Binary("&&" | "||" as operator, left, right):
            first, second = _row(left, meaning), _row(right, meaning)
            group = "all" if operator == "&&" else "any"
            if first is None or second is None:
                return None
            flat = first[group] if first.keys() == {group} and not isinstance(left, Group) else [first]
            return {group: [*flat, second]}
        case Binary("in", left, Items(items)):
            ref, values = _reference(left, meaning), [_constant(item) for item in items]
            return None if ref is None or not all(values) else {"ref": ref, "in": [value[0] for value in values if value]}
        case Binary(operator, left, right) if operator in _OPERATORS:
            return _comparison(_OPERATORS[operator], left, right, meaning)
        case Call(target, method, (argument,)) if target is not None and method in _METHODS and (value := _constant(argument)):
            ref = _reference(target, meaning)
            return {"ref": ref, _METHODS[method]: value[0]} if ref and isinstance(value[0], str) else None
        case Unary("!", Group(Binary("==", left, right))):
            return _comparison("neq", left, right, meaning)
        case _:
            return None


def _comparison(operator: str, left: Tree, right: Tree, meaning: Meaning) -> dict[str, Any] | None:
    if _reference(left, meaning) is None:
        operator, left, right = _MIRRORED[operator], right, left
    if (ref := _reference(left, meaning)) is None:
        return None
    if value := _constant(right):
        ordered = operator in ("eq", "neq") or (isinstance(value[0], int | float | str) and not isinstance(value[0], bool))
        return {"ref": ref, operator: value[0]} if ordered else None
    other = _reference(right, meaning)
    return {"ref": ref, operator: other} if other else None


def _reference(tree: Tree, meaning: Meaning) -> str | None:
    chain = cel_tree.path(tree)
    found = meaning.of(*chain) if chain else None
    return whole(*found) + ("?" if meaning.optional else "") if found else None


def _constant(tree: Tree) -> tuple[Any] | None:
    """The value of a literal, as the only item."""
    match tree:
        case Literal(_, value, True):
            return (escaped(value) if isinstance(value, str) else value,)
        case Unary("-", Literal(_, value, True)) if isinstance(value, int | float) and not isinstance(value, bool):
            return (-value,)
        case _:
            return None


def _named(tree: Tree, meaning: Meaning) -> Tree:
    """The expression with the names that definitions have."""

    others = dict(meaning.renamed)

    def rename(name: str, path: list[str | int]) -> Tree | None:
        if found := meaning.of(name, path):
            return Name(in_cel(*found))
        return Name(others[name]) if not path and name in others else None

    return cel_tree.renamed(tree, rename)
