"""Steps get other ids, and whatever refers to them follows: references, targets of `next` and `needs`, names in CEL and JSONPath."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from perdure.expr.template import is_expression
from perdure.programs.format.canonical import plain
from perdure.programs.format.finding import at, joined, parts
from perdure.programs.format.fit import Expression, Fit
from perdure.programs.format.model import ID_PATTERN
from perdure.programs.format.shapes import Condition, Id, Schema, Value
from perdure.programs.format.steps import placed

_WORD = rf"({ID_PATTERN})"
_REFERENCE = re.compile(rf"(?<!@)@(\{{?)(steps\.)?{_WORD}")
_KEYED = re.compile(r"""(?<!@)(@\{?steps)\[(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')\]""")
_CEL = re.compile(
    r"""(?P<text>[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))"""
    r"""|(?P<keyed>\bsteps\s*\[\s*(?:"(?P<double>[^"\\]*)"|'(?P<single>[^'\\]*)')\s*\])"""
    r"""|(?P<dotted>\bsteps\s*\.\s*(?P<field>\w+))|(?P<after>\.\s*\w+)|(?P<name>[A-Za-z_]\w*)(?!\s*\()""",
    re.DOTALL,
)
_PATH = re.compile(rf"""\$(?:\.{_WORD}|\[(?:"([^"\\]*)"|'([^'\\]*)')\])""")


def renamed(document: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A copy of a document in which nothing is wrong, where the steps that `names` lists are called otherwise, by everybody."""
    found: dict[str, Any] = plain(document)
    fit = Fit(found)
    fit.walk()
    for expression in fit.expressions:
        _put(found, expression.pointer, _renamed(expression, names, "dialect" not in found))
    for one in placed(found):
        if one.id in names:
            one.step["id"] = names[one.id]
    return found


def _put(document: Any, pointer: str, value: Any) -> None:
    *above, last = parts(pointer)
    holder = at(document, joined("", *above))
    if isinstance(holder, list):
        holder[int(last)] = value
    else:
        holder[last] = value


def _renamed(expression: Expression, names: Mapping[str, str], native: bool) -> Any:
    match expression.shape:
        case Schema():
            return expression.value
        case Id():
            return names.get(expression.value, expression.value)
        case Condition():
            return _condition(expression.value, names, "self" not in expression.shape.roots, native)
    has_cel = native and not (isinstance(expression.shape, Value) and not expression.shape.expressions)
    return _template(expression.value, names, has_cel)


def _template(value: Any, names: Mapping[str, str], has_cel: bool) -> Any:
    match value:
        case str():
            return _text(value, names)
        case list():
            return [_template(item, names, has_cel) for item in value]
        case {"expr": str(text)} if has_cel and is_expression(value):
            return {"expr": _cel(text, names)}
        case dict():
            return {name: _template(item, names, has_cel) for name, item in value.items()}
    return value


def _text(text: str, names: Mapping[str, str]) -> str:
    def reference(match: re.Match[str]) -> str:
        is_one = match[1] or match.start() == 0
        return f"@{match[1]}{match[2] or ''}{names.get(match[3], match[3])}" if is_one else match[0]

    def keyed(match: re.Match[str]) -> str:
        name = match[2] if match[2] is not None else match[3]
        return f"{match[1]}[{json.dumps(names[name])}]" if name in names else match[0]

    return _KEYED.sub(keyed, _REFERENCE.sub(reference, text))


def _condition(value: Any, names: Mapping[str, str], steps: bool, native: bool) -> Any:
    match value:
        case str():
            return _text(value, names)
        case {"ref": str(ref)}:
            rest = {name: _template(item, names, native) if name != "matches" else item for name, item in value.items()}
            return rest | {"ref": _json_path(ref, names) if ref.startswith("$") and steps else _text(ref, names)}
        case {"expr": str(text)}:
            renamed = _cel(text, names)
            return value if renamed == text else {"expr": renamed}
        case {"all": list(inner)} | {"any": list(inner)}:
            return {next(iter(value)): [_condition(one, names, steps, native) for one in inner]}
        case {"not": inner}:
            return {"not": _condition(inner, names, steps, native)}
    return value


def _cel(source: str, names: Mapping[str, str]) -> str:
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

    return _CEL.sub(token, source)


def _step_in_cel(name: str) -> str:
    return f"steps[{json.dumps(name, ensure_ascii=False)}]"


def _json_path(path: str, names: Mapping[str, str]) -> str:
    def first(match: re.Match[str]) -> str:
        name = next(group for group in match.groups() if group is not None)
        return f"$[{json.dumps(names[name], ensure_ascii=False)}]" if name in names else match[0]

    return _PATH.sub(first, path, count=1)
