"""Converts conditions in a dialect's CEL to conditions of a definition.

Simple comparisons become rows that a form can show; the rest stays CEL, with the names of the definition, and `source` beside it keeps the author's text for
messages and for writing it again.

In the dialect all numbers are doubles, while a definition keeps integers and CEL does not mix the two. Operands whose type depends on the data are therefore
converted to doubles, and compared values to `dyn`, since CEL compares an int with a double only then. Operands of ``%`` and keys in brackets are unchanged:
doubles have no remainder, and lists no fractional index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from typing import Literal as OneOf

from perdure.core.errors import BadExpression, MissingExtra
from perdure.definitions.expr import cel
from perdure.definitions.expr.plain_values import shortened
from perdure.dialects import cel_tree
from perdure.dialects.cel_tree import CelBinary, CelCall, CelGroup, CelIndex, CelList, CelLiteral, CelMapping, CelName, CelTernary, CelTree, CelUnary
from perdure.dialects.reference_syntax import escape_template, reference_in_cel, whole_reference

CelType = OneOf["int", "double", "other", "unknown"]
"""The type of an operand: an int by the rules of CEL alone, a double, neither, or known only from the data."""

COMPARING = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))
_CALLS: dict[str, CelType] = {
    "size": "int",
    "int": "int",
    "double": "double",
    "string": "other",
    "bytes": "other",
    "timestamp": "other",
    "duration": "other",
    "map": "other",
    "filter": "other",
}
_NUMBERS = CelList((CelName("int"), CelName("double")))


def with_double_arithmetic(tree: CelTree) -> CelTree:
    """The expression with its arithmetic in doubles, where the types of the operands are not known before it is evaluated."""
    return cel_tree.change_tree(tree, _change)


def _change(part: CelTree) -> CelTree | None:
    match part:
        case CelBinary(operator, left, right) if operator in COMPARING:
            return _typed_comparison(operator, left, right)
        case CelBinary("+" | "-" | "*" | "/"):
            return _arithmetic(part)
        case CelBinary("%"):
            return part
        case CelTernary(condition, yes, no):
            return CelTernary(with_double_arithmetic(condition), _dynamic(yes), _dynamic(no))
        case CelIndex(target, key):
            return CelIndex(with_double_arithmetic(target), key)
    return None


def _typed_comparison(operator: str, left: CelTree, right: CelTree) -> CelTree:
    others = right.items if operator == "in" and isinstance(right, CelList) else (right,)
    types = {_type(left), *map(_type, others)}
    if types == {"int", "double"}:
        return CelBinary(operator, _cel_call("dyn", with_double_arithmetic(left)), _dynamic(right))
    compared = _as_text if "other" in types else _as_number if types & {"int", "double"} else _dynamic
    return CelBinary(operator, compared(left), compared(right))


def _arithmetic(tree: CelBinary) -> CelTree:
    types = [_type(operand) for operand in _operands(tree)]
    if "other" in types or set(types) == {"int"}:
        return CelBinary(tree.operator, with_double_arithmetic(tree.left), with_double_arithmetic(tree.right))
    if tree.operator == "+" and set(types) == {"unknown"}:
        return _sum_or_text(tree)
    return CelBinary(tree.operator, _double(tree.left), _double(tree.right))


def _sum_or_text(tree: CelBinary) -> CelTree:
    """A sum of operands that are numbers, texts or lists, which the first of them decides."""
    terms = _operands(tree)
    first = with_double_arithmetic(terms[0])
    is_number = CelBinary("in", CelCall(None, "type", (first,)), _NUMBERS)
    numbers, texts = _double(terms[0]), first
    for term in terms[1:]:
        numbers, texts = CelBinary("+", numbers, _double(term)), CelBinary("+", texts, with_double_arithmetic(term))
    return CelGroup(CelTernary(is_number, _cel_call("dyn", numbers), _cel_call("dyn", texts)))


def _double(tree: CelTree) -> CelTree:
    """An operand of arithmetic as a double."""
    match tree:
        case CelLiteral(_, value, True) if type(value) is int:
            return cel_tree.cel_constant(float(value))
        case CelLiteral():
            return tree
        case CelGroup(inside):
            return CelGroup(_double(inside))
        case CelUnary("-", operand):
            return CelUnary("-", _double(operand))
        case CelBinary(operator, left, right) if operator in ("+", "-", "*", "/"):
            return CelBinary(operator, _double(left), _double(right))
        case CelTernary(condition, yes, no):
            return CelTernary(with_double_arithmetic(condition), _double(yes), _double(no))
        case CelCall(None, "double", arguments):
            return CelCall(None, "double", tuple(map(with_double_arithmetic, arguments)))
        case _:
            return _cel_call("double", with_double_arithmetic(tree))


def _dynamic(tree: CelTree) -> CelTree:
    """Converts a compared value, or one of two results; dynamic if arithmetic decides its type."""
    if not _calculates(tree):
        return with_double_arithmetic(tree)
    match tree:
        case CelCall(None, "dyn"):
            return with_double_arithmetic(tree)
        case CelList(items):
            return CelList(tuple(map(_dynamic, items)))
        case CelGroup(inside) if not isinstance(inside, CelBinary | CelUnary):
            return CelGroup(_dynamic(inside))
        case CelBinary("&&" | "||") | CelTernary() | CelUnary("!"):
            return with_double_arithmetic(tree)
        case CelBinary(operator) if operator in COMPARING:
            return with_double_arithmetic(tree)
    made = with_double_arithmetic(tree)
    return made if isinstance(made, CelGroup) and isinstance(made.inside, CelTernary) else _cel_call("dyn", made)


def _as_text(tree: CelTree) -> CelTree:
    """Converts a value that is compared with text, a list or a time: a sum in it joins."""
    match tree:
        case CelGroup(inside):
            return CelGroup(_as_text(inside))
        case CelBinary("+", left, right) if "double" not in map(_type, _operands(tree)):
            return CelBinary("+", _as_text(left), _as_text(right))
    return _dynamic(tree)


def _as_number(tree: CelTree) -> CelTree:
    """Converts a value that is compared with a number: a sum in it adds."""
    is_sum = isinstance(tree, CelBinary) and tree.operator == "+" and _type(tree) == "unknown"
    return _cel_call("dyn", _double(tree)) if is_sum else _dynamic(tree)


def _type(tree: CelTree) -> CelType:
    match tree:
        case CelLiteral(_, value, plain):
            is_number = plain and isinstance(value, int | float) and not isinstance(value, bool)
            return "other" if not is_number else "int" if isinstance(value, int) else "double"
        case CelGroup(inside):
            return _type(inside)
        case CelUnary("-", operand):
            return _type(operand)
        case CelUnary() | CelList() | CelMapping():
            return "other"
        case CelCall(_, name, _):
            return _CALLS.get(name, "unknown")
        case CelTernary(_, yes, no):
            return _type(yes) if _type(yes) == _type(no) else "unknown"
        case CelBinary("%"):
            return "int"
        case CelBinary(operator) if operator in ("+", "-", "*", "/"):
            types = {_type(operand) for operand in _operands(tree)}
            if "other" in types or types == {"int"}:
                return "other" if "other" in types else "int"
            return "unknown" if types == {"unknown"} and operator == "+" else "double"
        case CelBinary():
            return "other"
    return "unknown"


def _operands(tree: CelTree) -> list[CelTree]:
    """The operands of a chain of the same operator; of others than ``+``, its two sides."""
    if isinstance(tree, CelBinary) and tree.operator == "+":
        left = _operands(tree.left) if isinstance(tree.left, CelBinary) and tree.left.operator == "+" else [tree.left]
        return [*left, tree.right]
    return [tree.left, tree.right] if isinstance(tree, CelBinary) else [tree]


def _calculates(tree: CelTree) -> bool:
    return any(isinstance(part, CelBinary) and part.operator in ("+", "-", "*", "/") for part in cel_tree.tree_parts(tree))


def _cel_call(name: str, argument: CelTree) -> CelTree:
    return CelCall(None, name, (argument,))


_OPERATORS = {"==": "eq", "!=": "neq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_MIRRORED = {"eq": "eq", "neq": "neq", "gt": "lt", "gte": "lte", "lt": "gt", "lte": "gte"}
_METHODS = {"contains": "contains", "startsWith": "starts_with", "endsWith": "ends_with"}


class CelNameResolver(NamedTuple):
    """The meaning of names: `of` says of a name and the path behind it which root or step of the definition that is, and by which path, or None.

    `optional`: rows take what is missing as null. `renamed` are names that are called something else where `of` knows nothing.
    """

    of: Callable[[str, list[str | int]], tuple[str, list[str | int]] | None]
    optional: bool = False
    renamed: tuple[tuple[str, str], ...] = ()


def condition_from_cel(text: str, meaning: CelNameResolver) -> dict[str, Any]:
    """Converts a CEL expression to a condition.

    Raises:
        NotCel: it is none.
    """
    try:
        tree = cel_tree.parse_cel(text)
        if row := _row(tree, meaning):
            return row
        made = cel_tree.cel_text(with_double_arithmetic(_named(tree, meaning)))
    except RecursionError:
        raise cel_tree.CelSyntaxError("it is nested too deeply") from None
    _check(made, text)
    return {"expr": made} if made == text else {"expr": made, "source": text}


def _check(made: str, text: str) -> None:
    """Compiles the expression, if the library is there; without it the definition's own check says so.

    Raises:
        NotCel: it does not compile; in words about the text of the author.
    """
    try:
        cel.compile_cel(made, source=text)
    except MissingExtra:
        return
    except BadExpression as bad:
        raise cel_tree.CelSyntaxError(f"{bad.what.removeprefix(f'{shortened(text)!r} is not CEL: ')}; {bad.hint}") from None


def _row(tree: CelTree, meaning: CelNameResolver) -> dict[str, Any] | None:
    """The condition as rows; None if it is more than that."""
    match tree:
        case CelGroup(inside):
            return _row(inside, meaning)
        case CelBinary("&&" | "||" as operator, left, right):
            first, second = _row(left, meaning), _row(right, meaning)
            group = "all" if operator == "&&" else "any"
            if first is None or second is None:
                return None
            flat = first[group] if first.keys() == {group} and not isinstance(left, CelGroup) else [first]
            return {group: [*flat, second]}
        case CelBinary("in", left, CelList(items)):
            ref, values = _reference(left, meaning), [_constant(item) for item in items]
            return None if ref is None or not all(values) else {"ref": ref, "in": [value[0] for value in values if value]}
        case CelBinary(operator, left, right) if operator in _OPERATORS:
            return _comparison(_OPERATORS[operator], left, right, meaning)
        case CelCall(target, method, (argument,)) if target is not None and method in _METHODS and (value := _constant(argument)):
            ref = _reference(target, meaning)
            return {"ref": ref, _METHODS[method]: value[0]} if ref and isinstance(value[0], str) else None
        case CelUnary("!", CelGroup(CelBinary("==", left, right))):
            return _comparison("neq", left, right, meaning)
        case _:
            return None


def _comparison(operator: str, left: CelTree, right: CelTree, meaning: CelNameResolver) -> dict[str, Any] | None:
    if _reference(left, meaning) is None:
        operator, left, right = _MIRRORED[operator], right, left
    if (ref := _reference(left, meaning)) is None:
        return None
    if value := _constant(right):
        ordered = operator in ("eq", "neq") or (isinstance(value[0], int | float | str) and not isinstance(value[0], bool))
        return {"ref": ref, operator: value[0]} if ordered else None
    other = _reference(right, meaning)
    return {"ref": ref, operator: other} if other else None


def _reference(tree: CelTree, meaning: CelNameResolver) -> str | None:
    chain = cel_tree.constant_path(tree)
    found = meaning.of(*chain) if chain else None
    return whole_reference(*found) + ("?" if meaning.optional else "") if found else None


def _constant(tree: CelTree) -> tuple[Any] | None:
    """The value of a literal, as the only item."""
    match tree:
        case CelLiteral(_, value, True):
            return (escape_template(value) if isinstance(value, str) else value,)
        case CelUnary("-", CelLiteral(_, value, True)) if isinstance(value, int | float) and not isinstance(value, bool):
            return (-value,)
        case _:
            return None


def _named(tree: CelTree, meaning: CelNameResolver) -> CelTree:
    """The expression with the names that definitions have."""

    others = dict(meaning.renamed)

    def rename(name: str, path: list[str | int]) -> CelTree | None:
        if found := meaning.of(name, path):
            return CelName(reference_in_cel(*found))
        return CelName(others[name]) if not path and name in others else None

    return cel_tree.rename_free_names(tree, rename)
