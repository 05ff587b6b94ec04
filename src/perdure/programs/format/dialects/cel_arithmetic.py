"""Arithmetic of another dialect's CEL, in which all numbers of JSON are doubles; in a definition integers stay integers, and CEL does not mix the two.

Operands whose type only the data decides become doubles. What is compared becomes dynamic, since CEL compares an int with a double only then.
Operands of ``%`` and keys between brackets are left as they stand: doubles have no remainder, and lists no half places.
"""

from __future__ import annotations

from typing import Literal as OneOf

from perdure.programs.format.dialects import cel_tree
from perdure.programs.format.dialects.cel_tree import Binary, Call, Entries, Group, Index, Items, Literal, Name, Ternary, Tree, Unary

Type = OneOf["int", "double", "other", "unknown"]
"""What an operand is: an int as CEL alone decides, a double, neither, or what the data decides."""

COMPARING = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))
_CALLS: dict[str, Type] = {
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
_NUMBERS = Items((Name("int"), Name("double")))


def calculated(tree: Tree) -> Tree:
    """The expression with its arithmetic in doubles, wherever the types of the operands are not known before it is evaluated."""
    return cel_tree.changed(tree, _change)


def _change(part: Tree) -> Tree | None:
    match part:
        case Binary(operator, left, right) if operator in COMPARING:
            return _comparison(operator, left, right)
        case Binary("+" | "-" | "*" | "/"):
            return _arithmetic(part)
        case Binary("%"):
            return part
        case Ternary(condition, yes, no):
            return Ternary(calculated(condition), _dynamic(yes), _dynamic(no))
        case Index(target, key):
            return Index(calculated(target), key)
    return None


def _comparison(operator: str, left: Tree, right: Tree) -> Tree:
    others = right.items if operator == "in" and isinstance(right, Items) else (right,)
    types = {_type(left), *map(_type, others)}
    if types == {"int", "double"}:
        return Binary(operator, _call("dyn", calculated(left)), _dynamic(right))
    compared = _as_text if "other" in types else _as_number if types & {"int", "double"} else _dynamic
    return Binary(operator, compared(left), compared(right))


def _arithmetic(tree: Binary) -> Tree:
    types = [_type(operand) for operand in _operands(tree)]
    if "other" in types or set(types) == {"int"}:
        return Binary(tree.operator, calculated(tree.left), calculated(tree.right))
    if tree.operator == "+" and set(types) == {"unknown"}:
        return _sum_or_text(tree)
    return Binary(tree.operator, _double(tree.left), _double(tree.right))


def _sum_or_text(tree: Binary) -> Tree:
    """A sum of operands that are numbers, texts or lists, which the first of them decides."""
    terms = _operands(tree)
    first = calculated(terms[0])
    is_number = Binary("in", Call(None, "type", (first,)), _NUMBERS)
    numbers, texts = _double(terms[0]), first
    for term in terms[1:]:
        numbers, texts = Binary("+", numbers, _double(term)), Binary("+", texts, calculated(term))
    return Group(Ternary(is_number, _call("dyn", numbers), _call("dyn", texts)))


def _double(tree: Tree) -> Tree:
    """An operand of arithmetic as a double."""
    match tree:
        case Literal(_, value, True) if type(value) is int:
            return cel_tree.constant(float(value))
        case Literal():
            return tree
        case Group(inside):
            return Group(_double(inside))
        case Unary("-", operand):
            return Unary("-", _double(operand))
        case Binary(operator, left, right) if operator in ("+", "-", "*", "/"):
            return Binary(operator, _double(left), _double(right))
        case Ternary(condition, yes, no):
            return Ternary(calculated(condition), _double(yes), _double(no))
        case Call(None, "double", arguments):
            return Call(None, "double", tuple(map(calculated, arguments)))
        case _:
            return _call("double", calculated(tree))


def _dynamic(tree: Tree) -> Tree:
    """What is compared, or one of two results; dynamic if arithmetic decides its type."""
    if not _calculates(tree):
        return calculated(tree)
    match tree:
        case Call(None, "dyn"):
            return calculated(tree)
        case Items(items):
            return Items(tuple(map(_dynamic, items)))
        case Group(inside) if not isinstance(inside, Binary | Unary):
            return Group(_dynamic(inside))
        case Binary("&&" | "||") | Ternary() | Unary("!"):
            return calculated(tree)
        case Binary(operator) if operator in COMPARING:
            return calculated(tree)
    made = calculated(tree)
    return made if isinstance(made, Group) and isinstance(made.inside, Ternary) else _call("dyn", made)


def _as_text(tree: Tree) -> Tree:
    """What is compared with text, a list or a time: a sum in it joins."""
    match tree:
        case Group(inside):
            return Group(_as_text(inside))
        case Binary("+", left, right) if "double" not in map(_type, _operands(tree)):
            return Binary("+", _as_text(left), _as_text(right))
    return _dynamic(tree)


def _as_number(tree: Tree) -> Tree:
    """What is compared with a number: a sum in it adds."""
    is_sum = isinstance(tree, Binary) and tree.operator == "+" and _type(tree) == "unknown"
    return _call("dyn", _double(tree)) if is_sum else _dynamic(tree)


def _type(tree: Tree) -> Type:
    match tree:
        case Literal(_, value, plain):
            is_number = plain and isinstance(value, int | float) and not isinstance(value, bool)
            return "other" if not is_number else "int" if isinstance(value, int) else "double"
        case Group(inside):
            return _type(inside)
        case Unary("-", operand):
            return _type(operand)
        case Unary() | Items() | Entries():
            return "other"
        case Call(_, name, _):
            return _CALLS.get(name, "unknown")
        case Ternary(_, yes, no):
            return _type(yes) if _type(yes) == _type(no) else "unknown"
        case Binary("%"):
            return "int"
        case Binary(operator) if operator in ("+", "-", "*", "/"):
            types = {_type(operand) for operand in _operands(tree)}
            if "other" in types or types == {"int"}:
                return "other" if "other" in types else "int"
            return "unknown" if types == {"unknown"} and operator == "+" else "double"
        case Binary():
            return "other"
    return "unknown"


def _operands(tree: Tree) -> list[Tree]:
    """The operands of a chain of the same operator; of others than ``+``, its two sides."""
    if isinstance(tree, Binary) and tree.operator == "+":
        left = _operands(tree.left) if isinstance(tree.left, Binary) and tree.left.operator == "+" else [tree.left]
        return [*left, tree.right]
    return [tree.left, tree.right] if isinstance(tree, Binary) else [tree]


def _calculates(tree: Tree) -> bool:
    return any(isinstance(part, Binary) and part.operator in ("+", "-", "*", "/") for part in cel_tree.parts(tree))


def _call(name: str, argument: Tree) -> Tree:
    return Call(None, name, (argument,))
