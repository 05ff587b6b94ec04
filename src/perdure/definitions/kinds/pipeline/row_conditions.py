"""Conditions on rows: those of `perdure.definitions.expr.condition`, in which ``@self`` and ``$`` are the row, and two shorter spellings of their rows.

::

    {field: price, gt: 10}                     a path to a field, and one operator
    {field: price, op: ">", value: 10}         the same, for who builds it from parts; also =, ==, !=, >=, <, <=, and the names of the operators
    {field: price, gt_field: list_price}       two fields of a row
    {ref: "@self.price", gt: "@self.other"}    as elsewhere in a definition; a JSONPath (``$.items[*].price``) as well
    {all: [...]}  {any: [...]}  {not: ...}
    {expr: "price > 10 && region == 'EU'"}     CEL, in which fields are names and ``self`` is the row

A missing field is null, to which ``eq: null`` and ``exists: false`` hold; it is neither more nor less than anything. Text beside a number is an error of the
row. Values are data: an @ in one is an @.
"""

from collections.abc import Mapping
from typing import Any

from perdure.core.errors import BadExpression
from perdure.definitions.expr import condition, references
from perdure.definitions.expr.condition import AGGREGATES, COMPARED, GROUPS, QUANTIFIERS, CompiledCondition
from perdure.definitions.expr.plain_values import short_value_text, shortened
from perdure.definitions.expr.secret_marks import escape_pointer_key
from perdure.definitions.format.definition_findings import closest_name
from perdure.definitions.format.shapes import is_template
from perdure.definitions.kinds.pipeline import pipeline_rows

SIGNS = {"=": "eq", "==": "eq", "!=": "neq", "<>": "neq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
TO_FIELD = "_field"
"""Behind an operator: what stands on its right is a path to another field."""

_OF_MANY = AGGREGATES.keys() | QUANTIFIERS
_CONSTANT = frozenset(("exists", "empty", "matches"))


class RowScope:
    """The scope in which a condition is judged: one row."""

    __slots__ = ("row",)

    def __init__(self) -> None:
        self.row: dict[str, Any] = {}

    def root(self, name: str) -> Any:
        """The row, as ``self``."""
        if name == "self":
            return self.row
        raise KeyError(name)

    def step(self, id: str) -> Any:
        """A field of the row, as CEL names it."""
        return self.row[id]

    def envelope(self, id: str) -> Any:
        """There are no steps in a row."""
        raise KeyError(id)


def compile_condition(given: Any, is_open: bool = False) -> CompiledCondition:
    """The condition that a value is; with `is_open`, references in it are not resolved yet.

    Raises:
        BadExpression: it is none.
    """
    return condition.compile_condition(_plain(given, "", is_open), "null")


def _plain(one: Any, where: str, is_open: bool) -> Any:
    """A condition in the words of `perdure.definitions.expr.condition`, with nothing of its data taken for a reference."""
    match one:
        case bool():
            return one
        case str() if one.startswith(("@self", "$")):
            return one
        case str() if is_open and is_template(one):
            return True
        case str():
            return {"ref": pipeline_rows.self_reference(_path(one, where))}
        case dict() if "ref" in one or "field" in one:
            return _row(one, where, is_open)
        case {"expr": text, **rest} if not rest:
            return True if is_open and is_template(text) else one
        case {"not": inner, **rest} if not rest:
            return {"not": _plain(inner, f"{where}/not", is_open)}
        case dict() if len(one) == 1 and (name := next(iter(one))) in GROUPS and isinstance(one[name], list):
            return {name: [_plain(inner, f"{where}/{name}/{place}", is_open) for place, inner in enumerate(one[name])]}
        case {"python": _} | {"braces": _}:
            raise BadExpression(where, "a pipeline has only conditions in rows and CEL", "write {field: price, gt: 10}, or {expr: …}")
    known = ("field", "ref", "expr", *GROUPS)
    for name in one if isinstance(one, dict) else ():
        if name not in known and (meant := closest_name(str(name), known)):
            raise BadExpression(where, f"{shortened(str(name))!r} is not part of a condition", f"did you mean {meant!r}?")
    hint = "write {field: price, gt: 10}, {all: […]}, {any: […]}, {not: …} or {expr: …}"
    raise BadExpression(where, f"{short_value_text(one)} is not a condition", hint)


def _row(row: Mapping[str, Any], where: str, is_open: bool) -> dict[str, Any]:
    if "ref" in row and "field" in row:
        raise BadExpression(where, "it has 'field' and 'ref'", "name one of them")
    said = {name: value for name, value in row.items() if name not in ("ref", "field")}
    if said.keys() & {"op", "value"}:
        said = _of_parts(said, where, is_open)
    found: dict[str, Any] = {"ref": _left(row, where, is_open)}
    for name, value in said.items():
        plain, right = _right(name, value, f"{where}/{escape_pointer_key(name)}", is_open)
        found[plain] = right
    return found


def _of_parts(said: dict[str, Any], where: str, is_open: bool) -> dict[str, Any]:
    """An ``{op, value}`` as an operator and its right side."""
    others = [name for name in said if name not in ("op", "value")]
    if others:
        raise BadExpression(where, f"{shortened(others[0])!r} is beside 'op' and 'value'", "write one of the two forms")
    op = said.get("op", "eq")
    if is_open and is_template(op):
        return {}
    name = SIGNS.get(op, op) if isinstance(op, str) else op
    if not isinstance(name, str) or name.removesuffix(TO_FIELD) not in COMPARED | _OF_MANY:
        raise BadExpression(f"{where}/op", f"{shortened(str(op))!r} is not an operator", f"use one of {', '.join((*SIGNS, *sorted(COMPARED)))}")
    return {name: said.get("value", True if name in ("exists", "empty") else None)}


def _left(row: Mapping[str, Any], where: str, is_open: bool) -> str:
    if "field" in row:
        value = row["field"]
        return "@self" if is_open and is_template(value) else pipeline_rows.self_reference(_path(value, f"{where}/field"))
    ref = row["ref"]
    if isinstance(ref, str) and ref.startswith("@") and references.parse_reference(ref, f"{where}/ref").root != "self":
        if is_open:
            return "@self"
        raise BadExpression(f"{where}/ref", f"{shortened(ref)!r} is not a field of the row", "write @self.price, or field: price")
    return ref  # type: ignore[no-any-return]  # what is no text, the condition complains of


def _path(value: Any, where: str) -> pipeline_rows.Path:
    if not isinstance(value, str):
        raise BadExpression(where, f"a field is text, not {short_value_text(value)}", "write price, or address.city")
    try:
        return pipeline_rows.parse_path(value)
    except ValueError as error:
        what, _, hint = str(error).partition("; ")
        raise BadExpression(where, what, hint) from None


def _right(name: str, value: Any, where: str, is_open: bool) -> tuple[str, Any]:
    """An operator and its right side."""
    plain = name.removesuffix(TO_FIELD)
    if plain != name and plain in COMPARED - _CONSTANT:
        return plain, "@self" if is_open and is_template(value) else pipeline_rows.self_reference(_path(value, where))
    if name in _OF_MANY and isinstance(value, dict):
        return name, dict(_right(inner, one, f"{where}/{escape_pointer_key(inner)}", is_open) for inner, one in value.items())
    if name not in COMPARED and name not in _OF_MANY:
        meant = closest_name(name, [*COMPARED, *_OF_MANY])
        raise BadExpression(
            where, f"{shortened(name)!r} is not an operator", f"did you mean {meant!r}?" if meant else f"use one of {', '.join(sorted(COMPARED))}"
        )
    if is_open and _has_reference(value):
        return ("eq", None) if name in _CONSTANT or name in _OF_MANY else (name, "@self")
    return name, value if name == "matches" else literal_template(value)


def _has_reference(value: Any) -> bool:
    match value:
        case list():
            return any(map(_has_reference, value))
        case dict():
            return any(map(_has_reference, value.values()))
        case _:
            return is_template(value)


def literal_template(value: Any) -> Any:
    """A template that yields the value unchanged: each @ in it is literal."""
    match value:
        case str():
            return value.replace("@", "@@") if "@" in value else value
        case list():
            return [literal_template(item) for item in value]
        case dict():
            return {name: literal_template(item) for name, item in value.items()}
        case _:
            return value


def row_condition(one: Any) -> Any:
    """A condition as an author writes it, such that references to the row are paths to fields, and only references to elsewhere are left to be resolved."""
    match one:
        case str() if _of_self(one) is not None:
            return {"field": _of_self(one)}
        case list():
            return [row_condition(inner) for inner in one]
        case dict() if (field := _of_self(one.get("ref"))) is not None:
            return {"field": field, **_rights({name: value for name, value in one.items() if name != "ref"})}
        case dict() if "ref" in one or "field" in one:
            return _rights(one)
        case dict() if len(one) == 1 and (name := next(iter(one))) in GROUPS:
            return {name: row_condition(one[name])}
        case _:
            return one


def _rights(said: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in said.items():
        if name in _OF_MANY and isinstance(value, dict):
            found[name] = _rights(value)
        elif name in COMPARED and (field := _of_self(value)) is not None:
            found[f"{name}{TO_FIELD}"] = field
        elif name == "value" and (field := _of_self(value)) is not None and isinstance(op := said.get("op", "eq"), str):
            found |= {"op": f"{SIGNS.get(op, op)}{TO_FIELD}", "value": field}
        elif name != "op" or "op" not in found:
            found[name] = value
    return found


def _of_self(value: Any) -> str | None:
    """The path of a reference into the row; None if a value is none."""
    if not isinstance(value, str) or not value.startswith("@self"):
        return None
    try:
        parsed = references.parse_reference(value)
    except BadExpression:
        return None
    return pipeline_rows.path_text(parsed.path) if parsed.root == "self" and parsed.path else None
