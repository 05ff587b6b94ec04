"""Edits of a definition, applied all or none: a JSON Patch of the canonical form, or operations that name steps by their ids.

The result is checked like any definition; an edit that leaves a dangling edge or reference is refused as a whole. Renaming a step renames every reference to
it, in `next`, `needs`, templates, CEL and JSONPath.

::

    {op: add_step, step: {...}}                    at the end; or with after: ID, before: ID, or into: ID and in: then, else, do, parallel, race, on_error
    {op: remove_step, id: ID}
    {op: connect, from: ID, to: ID, port: PORT}    an edge of `next`; where the order is not ports, `to` needs `from`
    {op: disconnect, from: ID, to: ID, port: PORT}
    {op: set, id: ID, path: /with/to, value: ...}  without `value` the field is removed; without `id` it is one of the definition
    {op: rename, id: ID, to: NEW}
    {op: move, id: ID, after: ID}                  or before, or into and in
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from perdure.core.errors import BadDefinition, MissingExtra
from perdure.definitions.expr.template import is_expression
from perdure.definitions.format import model
from perdure.definitions.format.canonical_form import canonical_document, canonical_value, normalized_copy
from perdure.definitions.format.definition_findings import closest_name, error_finding, joined_pointer, pointer_parts, value_at_pointer
from perdure.definitions.format.dialect_rules import document_rules
from perdure.definitions.format.document_parser import DEFINITION_BOUNDS, plain_data_finding
from perdure.definitions.format.model import ID_PATTERN
from perdure.definitions.format.shape_check import ExpressionSite, ShapeCheck
from perdure.definitions.format.shapes import ConditionShape, IdShape, SchemaShape, ValueShape
from perdure.definitions.format.step_tree import PlacedStep, placed_steps
from perdure.definitions.format.validator import definition_findings

_ID_GROUP = rf"({ID_PATTERN})"
_STEP_REFERENCE = re.compile(rf"(?<!@)@(\{{?)(steps\.)?{_ID_GROUP}")
_KEYED = re.compile(r"""(?<!@)(@\{?steps)\[(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')\]""")
_CEL_TEXT = re.compile(
    r"""(?P<text>[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))"""
    r"""|(?P<keyed>\bsteps\s*\[\s*(?:"(?P<double>[^"\\]*)"|'(?P<single>[^'\\]*)')\s*\])"""
    r"""|(?P<dotted>\bsteps\s*\.\s*(?P<field>\w+))|(?P<after>\.\s*\w+)|(?P<name>[A-Za-z_]\w*)(?!\s*\()""",
    re.DOTALL,
)
_JSON_PATH_STEP = re.compile(rf"""\$(?:\.{_ID_GROUP}|\[(?:"([^"\\]*)"|'([^'\\]*)')\])""")


def with_renamed_steps(document: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A copy of a valid document in which the steps in `names`, and every reference to them, have new ids."""
    found: dict[str, Any] = normalized_copy(document)
    has_cel = document_rules(found).expressions == "cel"
    fit = ShapeCheck(found)
    fit.walk()
    for expression in fit.expressions:
        _replace_at(found, expression.pointer, _renamed_expression(expression, names, has_cel))
    for one in placed_steps(found):
        if one.id in names:
            one.step["id"] = names[one.id]
    return found


def _replace_at(document: Any, pointer: str, value: Any) -> None:
    *above, last = pointer_parts(pointer)
    holder = value_at_pointer(document, joined_pointer("", *above))
    if isinstance(holder, list):
        holder[int(last)] = value
    else:
        holder[last] = value


def _renamed_expression(expression: ExpressionSite, names: Mapping[str, str], has_cel: bool) -> Any:
    match expression.shape:
        case SchemaShape():
            return expression.value
        case IdShape():
            return names.get(expression.value, expression.value)
        case ConditionShape():
            return _renamed_condition(expression.value, names, "self" not in expression.shape.roots, has_cel)
    may_have_cel = has_cel and not (isinstance(expression.shape, ValueShape) and not expression.shape.expressions)
    return _renamed_template(expression.value, names, may_have_cel)


def _renamed_template(value: Any, names: Mapping[str, str], has_cel: bool) -> Any:
    match value:
        case str():
            return _renamed_text(value, names)
        case list():
            return [_renamed_template(item, names, has_cel) for item in value]
        case {"expr": str(text)} if has_cel and is_expression(value):
            return {"expr": _renamed_cel(text, names)}
        case dict():
            return {name: _renamed_template(item, names, has_cel) for name, item in value.items()}
    return value


def _renamed_text(text: str, names: Mapping[str, str]) -> str:
    def reference(match: re.Match[str]) -> str:
        is_one = match[1] or match.start() == 0
        return f"@{match[1]}{match[2] or ''}{names.get(match[3], match[3])}" if is_one else match[0]

    def keyed(match: re.Match[str]) -> str:
        name = match[2] if match[2] is not None else match[3]
        return f"{match[1]}[{json.dumps(names[name])}]" if name in names else match[0]

    return _KEYED.sub(keyed, _STEP_REFERENCE.sub(reference, text))


def _renamed_condition(value: Any, names: Mapping[str, str], steps: bool, has_cel: bool) -> Any:
    match value:
        case str():
            return _renamed_text(value, names)
        case {"ref": str(ref)}:
            rest = {name: _renamed_template(item, names, has_cel) if name != "matches" else item for name, item in value.items()}
            return rest | {"ref": _renamed_json_path(ref, names) if ref.startswith("$") and steps else _renamed_text(ref, names)}
        case {"expr": str(text)}:
            renamed = _renamed_cel(text, names)
            return value if renamed == text else {"expr": renamed}
        case {"all": list(inner)} | {"any": list(inner)}:
            return {next(iter(value)): [_renamed_condition(one, names, steps, has_cel) for one in inner]}
        case {"not": inner}:
            return {"not": _renamed_condition(inner, names, steps, has_cel)}
    return value


def _renamed_cel(source: str, names: Mapping[str, str]) -> str:
    def token(match: re.Match[str]) -> str:
        if match["keyed"]:
            name = match["double"] if match["double"] is not None else match["single"]
            return _step_in_cel(names[name]) if name in names else match[0]
        if match["dotted"]:
            return _step_in_cel(names[match["field"]]) if match["field"] in names else match[0]
        name = match["name"]
        if name is None or name not in names:
            return match[0]
        return names[name] if re.fullmatch(r"[A-Za-z_]\w*", names[name], re.ASCII) else _step_in_cel(names[name])

    return _CEL_TEXT.sub(token, source)


def _step_in_cel(name: str) -> str:
    return f"steps[{json.dumps(name, ensure_ascii=False)}]"


def _renamed_json_path(path: str, names: Mapping[str, str]) -> str:
    def first(match: re.Match[str]) -> str:
        name = next(group for group in match.groups() if group is not None)
        return f"$[{json.dumps(names[name], ensure_ascii=False)}]" if name in names else match[0]

    return _JSON_PATH_STEP.sub(first, path, count=1)


OPERATIONS_MAX = 1000


def apply_json_patch(definition: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Applies a JSON Patch (RFC 6902) to a canonical definition and returns the result.

    Raises:
        BadDefinition: an operation can't be applied, or the result is not valid. Nothing was changed.
    """
    return _valid(patch_document(definition, patch))


def patch_document(document: Any, patch: Any) -> Any:
    """Applies a JSON Patch to a copy of any document and returns it.

    Raises:
        BadDefinition: an operation can't be applied.
    """
    try:
        from jsonpatch import JsonPatch, JsonPatchException
        from jsonpointer import JsonPointerException
    except ImportError:
        raise MissingExtra("JSON Patch", "jsonpatch", "definitions") from None
    operations = _operations(patch)
    found = _copy(document)
    for number, operation in enumerate(operations):
        if operation.get("op") == "copy" and _size(found) > DEFINITION_BOUNDS.values_max // 2:
            _refuse(number, operation, f"the document would hold more than {DEFINITION_BOUNDS.values_max:,} values")
        try:
            found = JsonPatch([operation]).apply(found, in_place=True)
        except (JsonPatchException, JsonPointerException, TypeError, ValueError, KeyError, IndexError, AttributeError) as problem:
            _refuse(number, operation, f"the operation can't be applied: {' '.join(str(problem).split())[:200]}")
    return found


def apply_operations(definition: dict[str, Any], operations: Any) -> dict[str, Any]:
    """Applies operations that name steps by id to a canonical definition, in order, and returns the result.

    Raises:
        BadDefinition: an operation can't be applied, or the result is not valid. Nothing was changed.
    """
    found = normalized_copy(definition)
    for number, operation in enumerate(_operations(operations)):
        carry_out = _EDITS_BY_NAME.get(str(operation.get("op")))
        if carry_out is None:
            meant = closest_name(str(operation.get("op")), _EDITS_BY_NAME)
            _refuse(number, operation, f"there is no such operation; {f'did you mean {meant!r}?' if meant else 'there are ' + ', '.join(_EDITS_BY_NAME)}")
        try:
            found = carry_out(found, operation)
        except _ImpossibleEdit as why:
            _refuse(number, operation, str(why))
    return _valid(found)


class _ImpossibleEdit(Exception):
    """The reason why an operation can't be applied."""


def _valid(document: Any) -> dict[str, Any]:
    findings = definition_findings(document)
    if any(finding.severity == "error" for finding in findings):
        raise BadDefinition(findings)
    return canonical_document(document)


def _operations(given: Any) -> list[dict[str, Any]]:
    problem = plain_data_finding(given)
    if problem is not None:
        raise BadDefinition([problem])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise BadDefinition([error_finding("bad_edit", "", "a change is a list of operations, each a mapping with 'op'")])
    if len(given) > OPERATIONS_MAX:
        raise BadDefinition([error_finding("bad_edit", "", f"a change has {OPERATIONS_MAX} operations at most, this one {len(given)}; split it")])
    return given


def _refuse(number: int, operation: dict[str, Any], why: str) -> NoReturn:
    raise BadDefinition([error_finding("bad_edit", joined_pointer("", number), f"[{number}] ({str(operation.get('op'))[:40]}): {why}")])


def _add(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    step = operation.get("step")
    if not isinstance(step, dict):
        raise _ImpossibleEdit("'step' is missing, a mapping")
    siblings, index = _spot(document, operation)
    siblings.insert(index, normalized_copy(step))
    return document


def _remove(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    one = _step(document, operation, "id")
    _list(document, one.container).pop(one.index)
    return document


def _move(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    one = _step(document, operation, "id")
    for field in ("after", "before", "into"):
        target = _step(document, operation, field) if field in operation else None
        if target is not None and (target.pointer == one.pointer or any(holder.pointer == one.pointer for holder, _ in target.around)):
            raise _ImpossibleEdit(f"{one.id!r} can't be moved beside or into itself")
    _list(document, one.container).pop(one.index)
    siblings, index = _spot(document, operation)
    siblings.insert(index, one.step)
    return document


def _rename(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    one, name = _step(document, operation, "id"), operation.get("to")
    if not isinstance(name, str):
        raise _ImpossibleEdit("'to' is missing, the new id")
    if name != one.id and any(other.id == name for other in placed_steps(document)):
        raise _ImpossibleEdit(f"there is a step {name!r} already")
    return with_renamed_steps(document, {one.id: name})


def _set(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    path = operation.get("path")
    if not isinstance(path, str) or not path.startswith("/"):
        raise _ImpossibleEdit("'path' is missing, a JSON pointer such as /with/to")
    holder: Any = _step(document, operation, "id").step if "id" in operation else document
    *above, last = pointer_parts(path)
    for part in above:
        holder = holder.setdefault(part, {}) if isinstance(holder, dict) and "value" in operation else _inside(holder, part, path)
    if isinstance(holder, list):
        _inside(holder, last, path)
    elif not isinstance(holder, dict) or ("value" not in operation and last not in holder):
        raise _ImpossibleEdit(f"there is nothing at {path}")
    key: Any = int(last) if isinstance(holder, list) else last
    if "value" in operation:
        holder[key] = normalized_copy(operation["value"])
    else:
        del holder[key]
    return document


def _inside(holder: Any, part: str, path: str) -> Any:
    if isinstance(holder, dict) and part in holder:
        return holder[part]
    if isinstance(holder, list) and part.isdecimal() and int(part) < len(holder):
        return holder[int(part)]
    raise _ImpossibleEdit(f"there is nothing at {path}")


def _connect(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    source, target = _step(document, operation, "from").step, _step(document, operation, "to").step
    port, ids = operation.get("port", ""), _next_of(source)
    if document.get("order") != "ports":
        if port:
            raise _ImpossibleEdit("'port' needs 'order: ports' in the definition; leave 'port' out")
        needs = target.get("needs", [])
        target["needs"] = [needs] if isinstance(needs, str) else needs
        _append(target["needs"], source["id"])
        return document
    match ids:
        case {"choose": list(choices)} if not port:
            _append(choices, target["id"])
        case dict() if "choose" not in ids:
            _append(ids.setdefault(port or "success", {}).setdefault("to", []), target["id"])
        case list() if not any(isinstance(one, dict) for one in ids):
            if port:
                source["next"] = ({"success": {"to": ids}} if ids else {}) | {port: {"to": [*(ids if port == "success" else []), target["id"]]}}
            else:
                _append(ids, target["id"])
                source["next"] = ids
        case _:
            raise _ImpossibleEdit(f"{source['id']!r} continues by {'a closed list' if isinstance(ids, dict) else 'rules'}; set its /next instead")
    return document


def _append(ids: list[str], id: str) -> None:
    if id in ids:
        raise _ImpossibleEdit(f"this edge to or from {id!r} exists already")
    ids.append(id)


def _disconnect(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    source, target = operation.get("from"), operation.get("to")
    step = _step(document, operation, "from").step
    found = False
    if "port" not in operation:
        needs: Any = next((one.step.get("needs", []) for one in placed_steps(document) if one.id == target), [])
        if isinstance(needs, list) and source in needs:
            needs.remove(source)
            found = True
    for port, ids in _targets(_next_of(step)):
        if target in ids and port == operation.get("port", port):
            ids.remove(target)
            found = True
    if not found:
        raise _ImpossibleEdit(f"there is no such edge from {source!r} to {target!r}")
    _without_empty(step)
    return document


def _next_of(step: dict[str, Any]) -> Any:
    """Returns the `next` of a step, spelled out and stored back in that form."""
    if "next" not in step:
        return []
    step["next"] = canonical_value(model.NEXT, step["next"])
    return step["next"]


def _targets(value: Any) -> list[tuple[str, list[str]]]:
    """The lists of ids in a canonical `next`, each with its port; "" where there is none."""
    if isinstance(value, dict):
        if "choose" in value:
            return [("", value["choose"]), ("", value.get("default", []))]
        return [(port, ids) for port, one in value.items() for ids in (one.get("to", []), one.get("on_max", []))]
    return [("", ids) for rule in value if isinstance(rule, dict) for ids in (rule.get("to", []), rule.get("on_max", []))] or [("", value)]


def _without_empty(step: dict[str, Any]) -> None:
    """Removes empty targets from `next`."""
    value = step.get("next")
    if isinstance(value, dict) and "choose" not in value:
        step["next"] = {port: one for port, one in value.items() if one.get("to")}
    if not step.get("next", True):
        del step["next"]


_EDITS_BY_NAME: dict[str, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]] = {
    "add_step": _add,
    "remove_step": _remove,
    "connect": _connect,
    "disconnect": _disconnect,
    "set": _set,
    "rename": _rename,
    "move": _move,
}


def _step(document: dict[str, Any], operation: dict[str, Any], field: str) -> PlacedStep:
    id = operation.get(field)
    every = {one.id: one for one in placed_steps(document)}
    if not isinstance(id, str) or id not in every:
        meant = closest_name(str(id), every)
        raise _ImpossibleEdit(f"{field!r} names {str(id)[:60]!r}, which is not a step{f'; did you mean {meant!r}?' if meant else ''}")
    return every[id]


def _list(document: dict[str, Any], pointer: str) -> list[Any]:
    value: Any = document
    for part in pointer_parts(pointer):
        value = value[int(part)] if isinstance(value, list) else value[part]
    found: list[Any] = value
    return found


def _spot(document: dict[str, Any], operation: dict[str, Any]) -> tuple[list[Any], int]:
    """The list and the place in it that an operation names; without one, the end of all."""
    for field, further in (("after", 1), ("before", 0)):
        if field in operation:
            one = _step(document, operation, field)
            return _list(document, one.container), one.index + further
    if "into" not in operation:
        steps: list[Any] = document["steps"]
        return steps, len(steps)
    holder = _step(document, operation, "into").step
    field = operation.get("in") or next((name for name in ("do", "parallel", "race", "then") if name in holder or (name == "then" and "if" in holder)), "")
    if field not in model.step_fields() or field not in ("then", "else", "do", "parallel", "race", "on_error"):
        raise _ImpossibleEdit("'in' is the field of the block: then, else, do, parallel, race or on_error")
    inner = holder.setdefault(field, [])
    inner = inner.get("steps") if isinstance(inner, dict) else inner
    if not isinstance(inner, list):
        raise _ImpossibleEdit(f"{field!r} of {holder['id']!r} is not a list of steps")
    return inner, len(inner)


def _copy(value: Any) -> Any:
    """Returns a copy of plain data with its numbers unchanged."""
    match value:
        case list():
            return [_copy(item) for item in value]
        case dict():
            return {name: _copy(item) for name, item in value.items()}
    return value


def _size(value: Any) -> int:
    return 1 + sum(map(_size, value.values() if isinstance(value, dict) else value)) if isinstance(value, dict | list) else 1
