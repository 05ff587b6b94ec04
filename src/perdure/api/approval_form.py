"""The form of an approval as fields of an HTML form, and what a browser sends back as a value.

A field of a simple type has a field of its own: text, numbers, yes or no, a choice. Any other is written as JSON.
"""

import json
from collections.abc import Mapping
from html import escape
from typing import Any, Literal, NamedTuple

from perdure.core.errors import BadValue

FieldKind = Literal["text", "integer", "number", "boolean", "choice", "json"]

INPUT_TYPES = {"date": "date", "time": "time", "email": "email", "uri": "url"}
"""The input types of formats of text. What a browser checks by them is checked again by the form."""

LONG_TEXT = 200
"""A text that may be longer than this has several lines."""

FIELDS_MAX = 200
"""A form with more fields is one field of JSON."""


class PageField(NamedTuple):
    """A field: its name in the value ("": the value is this field alone), its kind, and its schema."""

    name: str
    kind: FieldKind
    schema: dict[str, Any]
    is_required: bool

    @property
    def pointer(self) -> str:
        """The place of the field in the value, as a JSON pointer."""
        return "/value" if not self.name else f"/value/{self.name.replace('~', '~0').replace('/', '~1')}"


def form_fields(form: Mapping[str, Any] | None) -> list[PageField]:
    """Returns the fields of a form; none if there is no form."""
    if form is None:
        return []
    schema = _resolved(form, form)
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict) or len(properties) > FIELDS_MAX:
        return [PageField("", "json", dict(schema), True)]
    required = schema.get("required")
    names = set(required) if isinstance(required, list) else set[str]()
    return [_field(name, _simple(_resolved(one, form), form), name in names) for name, one in properties.items() if isinstance(one, dict)]


def _field(name: str, schema: dict[str, Any], is_required: bool) -> PageField:
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return PageField(name, "choice", schema, is_required)
    kinds: dict[Any, FieldKind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
    kind = schema.get("type")
    return PageField(name, kinds.get(kind, "json") if isinstance(kind, str) else "json", schema, is_required)


def _simple(schema: dict[str, Any], form: Mapping[str, Any]) -> dict[str, Any]:
    """The alternative of a schema that is not null, if there is one such and null; else the schema itself."""
    options = schema.get("anyOf")
    others = [one for one in options if isinstance(one, dict) and one.get("type") != "null"] if isinstance(options, list) else []
    return {**schema, **_resolved(others[0], form)} if len(others) == 1 else schema


def _resolved(schema: Mapping[str, Any], form: Mapping[str, Any]) -> dict[str, Any]:
    """The target of a reference in the form's own definitions."""
    for _ in range(10):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            break
        definitions = form.get("$defs")
        found = definitions.get(reference.removeprefix("#/$defs/")) if isinstance(definitions, dict) else None
        if not isinstance(found, dict):
            break
        schema = found
    return dict(schema)


def read_form(fields: list[PageField], sent: Mapping[str, str]) -> Any:
    """Returns the value that a browser has sent, where the field at index n is named ``fn``.

    Raises:
        BadValue: a field is no value of its kind. It names the place.
    """
    value: dict[str, Any] = {}
    for number, field in enumerate(fields):
        text = sent.get(f"f{number}", "")
        if field.kind == "boolean":
            value[field.name] = text == "on"
        elif text or (field.kind == "text" and field.is_required):
            value[field.name] = _read(field, text)
    return value.get("") if [field.name for field in fields] == [""] else value if fields else None


def _read(field: PageField, text: str) -> Any:
    what = field.name or "the form"
    try:
        match field.kind:
            case "integer":
                return int(text)
            case "number":
                return float(text) if any(one in text for one in ".eE") else int(text)
            case "choice":
                return field.schema["enum"][int(text)]
            case "json":
                return json.loads(text)
    except (ValueError, IndexError, RecursionError):
        expected = {"integer": "a whole number", "number": "a number", "choice": "one of the choices"}.get(field.kind, "JSON")
        raise BadValue(what, text[:100], expected, where=field.pointer) from None
    return text.replace("\r\n", "\n")


def form_html(fields: list[PageField], sent: Mapping[str, str]) -> str:
    """Returns the fields as HTML, filled in as they were sent."""
    return "".join(_field_html(f"f{number}", field, sent) for number, field in enumerate(fields))


def _field_html(id: str, field: PageField, sent: Mapping[str, str]) -> str:
    schema, text = field.schema, sent.get(id)
    label = str(schema.get("title") or field.name or "Answer")
    hint = f'<p class="hint">{escape(str(schema["description"]))}</p>' if schema.get("description") else ""
    required = " required" if field.is_required and field.kind not in ("boolean", "text") else ""
    if text is None and "default" in schema:
        text = _default_text(field)
    shown, named = escape(text or ""), f'id="{id}" name="{id}"{required}'
    match field.kind:
        case "boolean":
            return f'<label class="check"><input type="checkbox" name="{id}"{" checked" if text == "on" else ""}> {escape(label)}</label>{hint}'
        case "choice":
            chosen = [f'<option value="{n}"{" selected" if text == str(n) else ""}>{escape(_text(one))}</option>' for n, one in enumerate(schema["enum"])]
            entry = f'<select {named}><option value=""></option>{"".join(chosen)}</select>'
        case "json":
            label = f"{label} (JSON)"
            entry = f'<textarea {named} rows="4">{shown}</textarea>'
        case "text" if int(schema.get("maxLength") or 0) > LONG_TEXT:
            entry = f'<textarea {named} rows="4">{shown}</textarea>'
        case "text":
            entry = f'<input type="{INPUT_TYPES.get(str(schema.get("format")), "text")}" value="{shown}" {named}>'
        case _:
            entry = f'<input type="number" step="{"1" if field.kind == "integer" else "any"}" value="{shown}" {named}>'
    return f'<label for="{id}">{escape(label)}</label>{hint}{entry}'


def _default_text(field: PageField) -> str:
    default = field.schema["default"]
    match field.kind:
        case "boolean":
            return "on" if default is True else ""
        case "choice":
            return str(field.schema["enum"].index(default)) if default in field.schema["enum"] else ""
        case "json":
            return json.dumps(default, ensure_ascii=False)
    return "" if default is None else _text(default)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
