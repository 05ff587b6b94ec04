"""Shaping: what a pipeline does, apart from the data that it does it to: its operations in one spelling, with defaults left out, a name and a description.

What a reference came to differs from use to use, so a reference becomes an input of the shape: ``@fetch.min`` is ``@input.min``. Rows that stand in the
pipeline are data and become a table of the input as well. Two pipelines of one shape have one name, in whichever spelling they were written.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from perdure.core.errors import BadExpression
from perdure.expr import refs, template
from perdure.expr.refs import Ref
from perdure.expr.values import cut
from perdure.programs.code.composite import Shape
from perdure.programs.format.canonical import canonical_json
from perdure.steps.pipeline import conditions, operations
from perdure.steps.pipeline.operations import OPERATIONS, Spelled
from perdure.steps.pipeline.running import ROWS

HASH_CHARACTERS = 12
NAME_CHARACTERS_MAX = 48
DESCRIPTION_CHARACTERS_MAX = 300
_STRANGE = re.compile(r"[^a-z0-9]+")


def shape(ops: Sequence[Any], resolved: bool = False) -> Shape | None:
    """The shape of operations, in which references stand for what differs (`resolved`: there are none, an @ is an @); None if they are no pipeline."""
    found = [operations.spelled(one, "") for one in operations.with_fields(list(ops))]
    spelled = [one for one in found if isinstance(one, Spelled)]
    if len(spelled) < len(found) or not spelled:
        return None
    inputs = _Inputs()
    pipeline: list[Any] = []
    try:
        for one in spelled:
            defaults = OPERATIONS[one.name].defaults
            said = {name: value for name, value in one.arguments.items() if name not in defaults or defaults[name] != value}
            given = conditions.literal(said) if resolved else said
            pipeline.append({one.name: _joining(given, inputs) if one.name == "join" else inputs.named(given)})
    except BadExpression:
        return None  # what it fails with is said where it runs
    rows = () if spelled[0].name == "http_request" and not spelled[0].arguments.get("into") else (ROWS,)
    digest = sha256(canonical_json(pipeline).encode()).hexdigest()[:HASH_CHARACTERS]
    words = [_words(one) for one in spelled]
    name = _STRANGE.sub("_", "_".join(short for short, _ in words).lower()).strip("_")[:NAME_CHARACTERS_MAX].strip("_")
    description = cut("; ".join(said for _, said in words), DESCRIPTION_CHARACTERS_MAX)
    described = f"{description[:1].upper()}{description[1:]}"
    made = {one.arguments["into"] for one in spelled if one.name == "http_request" and isinstance(one.arguments.get("into"), str)}
    tables = tuple(one for one in inputs.tables if one not in made)
    return Shape(f"{name}_{digest}", described, pipeline, (*rows, *tables, *inputs.values.values()), tables)


class _Inputs:
    """The inputs of a shape: those that stand for references, and tables, each with a name of its own."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.tables: list[str] = []

    def named(self, value: Any) -> Any:
        """A value, with each reference made one to an input."""
        match value:
            case str() if "@" in value:
                return self._text(value)
            case list():
                return [self.named(item) for item in value]
            case dict():
                return {name: self.named(item) for name, item in value.items()}
            case _:
                return value

    def _text(self, value: str) -> str:
        if value[0] == "@" and value[1:2] not in ("@", "{"):
            ref = refs.parse(value)
            return f"@input.{self._name(ref)}{'?' if ref.optional else ''}"
        parts = template.merged(template.parts_of(value, ""))
        return "".join(part.replace("@", "@@") if isinstance(part, str) else f"@{{input.{self._name(part)}{'?' if part.optional else ''}}}" for part in parts)

    def _name(self, ref: Ref) -> str:
        found = self.values.get(ref.written)
        return self.values.setdefault(ref.written, self._own(ref)) if found is None else found

    def _own(self, ref: Ref) -> str:
        last = next((key for key in reversed(ref.path) if isinstance(key, str)), ref.step or ref.root)
        base = _STRANGE.sub("_", last.lower()).strip("_") or "value"
        return self._free(base if base[0].isalpha() else f"value_{base}")

    def _free(self, base: str) -> str:
        taken = {ROWS, *self.tables, *self.values.values()}
        return next(name for number in range(1, len(taken) + 2) if (name := base if number == 1 else f"{base}_{number}") not in taken)

    def table(self, given: Any) -> str:
        """The name of a table: its own, or one for rows that stand where it should, or for what a reference leads to."""
        if isinstance(given, str) and not given.startswith("@"):
            name = given
        else:
            is_one = isinstance(given, str) and given[1:2] not in ("@", "{")
            name = self._own(refs.parse(given)) if is_one else self._free("table")
        if name not in self.tables:
            self.tables.append(name)
        return name


def _joining(arguments: Mapping[str, Any], inputs: _Inputs) -> dict[str, Any]:
    """A join, whose other table is one of the input."""
    others = {name: value for name, value in arguments.items() if name != "with"}
    return {"with": inputs.table(arguments.get("with")), **inputs.named(others)}


def _words(one: Spelled) -> tuple[str, str]:
    """What an operation does, for a name and for a sentence."""
    given = one.arguments
    match one.name:
        case "http_request":
            host = re.sub(r"^\w+://", "", _text(given.get("url"))).split("/")[0]
            return f"{_text(given.get('method', 'get'))} {host}", f"asks {_text(given.get('url'))} ({_text(given.get('method', 'GET')).upper()})"
        case "table_sort":
            fields = _fields(given.get("field", given.get("by")))
            order = " downwards" if given.get("order") == "desc" else ""
            return f"sort {fields}{order[:5]}", f"sorts by {fields}{order}"
        case "table_filter":
            fields = " ".join(dict.fromkeys(_asked(given.get("condition"))))
            return f"filter {fields}", f"keeps rows by {fields or 'a condition'}"
        case "table_select":
            return "select", f"selects {_fields(given.get('fields'))}"
        case "top_k":
            by = f" by {_fields(given['field'])}" if "field" in given else ""
            return f"top {_text(given.get('k'))}{by}", f"takes the first {_text(given.get('k'))}{by}"
        case "groupby":
            aggregates = given.get("aggregates")
            of = ", ".join(aggregates) if isinstance(aggregates, dict) else "count"
            return f"by {_fields(given.get('by'))}", f"groups by {_fields(given.get('by')) or 'nothing'} ({of})"
        case "join":
            other = given.get("with")
            called = other if isinstance(other, str) else "rows"
            return f"join {called}", f"joins {called} ({_text(given.get('how', 'inner'))}) on {_fields(given.get('on'))}"
        case "jq_transform":
            return "jq", f"transforms by jq {cut(_text(given.get('program')), 60)}"
        case "regex_extract":
            return f"extract {_text(given.get('field'))}", f"extracts from {_text(given.get('field'))}"
        case _:
            return f"date {_text(given.get('field'))}", f"reads {_text(given.get('field'))} as a date"


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _fields(value: Any) -> str:
    match value:
        case str():
            return value.removeprefix("-")
        case {"field": str(field)}:
            return field
        case dict():
            return " ".join(map(str, value))
        case list():
            return " ".join(filter(None, map(_fields, value)))
        case _:
            return ""


def _asked(condition: Any) -> list[str]:
    """The fields that a condition asks for, as far as rows name them."""
    match condition:
        case {"field": str(field)}:
            return [field]
        case list():
            return [field for one in condition for field in _asked(one)]
        case dict():
            return [field for one in condition.values() if isinstance(one, dict | list) for field in _asked(one)]
        case _:
            return []
