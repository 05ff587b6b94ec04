"""The JSON form of arguments and results, derived from their types: how each is read, written, and described in a JSON Schema.

    Python                              JSON
    created_at_s: float                 createdAt: "2026-11-28T07:00:00.000000Z"
    deadline_s: float                   deadlineSeconds: 90.5
    ended_at_s: float                   completedAt
    any other name                      the name in camelCase
    key: Key (in a result)              workflow, id, beside the other fields
    tenant, and the tenant of a key     left out: it is that of the caller
    a value of user code                the value itself; bytes are base64, times are ISO 8601, NaN and infinities are null; integers are exact
    bytes                               base64
    conditions on attributes            text as `perdure ls --where` takes it

A form that is wrong is refused with the place of the mistake. What JSON can't say exactly, Perdure's own client sends as MessagePack (`operations.wire_codec`).
"""

from __future__ import annotations

import base64
import binascii
import difflib
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from perdure.code.durations import duration_seconds
from perdure.code.results import Vote
from perdure.core import values
from perdure.core.attribute_filter import AttributeAlternatives, filter_alternatives, parse_filter
from perdure.core.attributes import Attributes, checked_attributes, index_attributes, indexed_attribute_values
from perdure.core.errors import BadValue, ErrorInfo, PerdureError
from perdure.core.paths import Key
from perdure.core.values import Blob
from perdure.service.execution_operations import StartRequest

SCHEMA_OF_TIME = {"type": "string", "format": "date-time"}
INTERNAL_FIELDS: dict[type, frozenset[str]] = {
    StartRequest: frozenset(("definition", "seed", "admission", "carried", "is_new")),
    Vote: frozenset(("at_s", "means")),
}
"""Fields that are for Perdure's own client alone."""

Schema = dict[str, Any]
T = TypeVar("T")


class Form(NamedTuple):
    """How a type is written as JSON, read from it for a tenant, and described. `read` raises BadValue, which names the place."""

    write: Callable[[Any], Any]
    read: Callable[[Any, str, str], Any]
    schema: Schema


JSON_NAMES = {"ended_at_s": "completedAt"}
"""The names that clients of other systems know, where they differ from those in Python."""


def camel(name: str) -> str:
    """Returns the JSON name of a field or parameter."""
    if name in JSON_NAMES:
        return JSON_NAMES[name]
    if is_time(name):
        name = name[:-2]
    elif name.endswith("_s"):
        name = f"{name[:-2]}_seconds"
    first, *others = name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in others)


def is_time(name: str) -> bool:
    """Is true if the name of a field says that its number is a time, in seconds since 1970."""
    return name.endswith("_at_s") or name in ("at_s", "time_s")


def form_of(kind: Any, name: str = "") -> Form:
    """Returns the form of a type. `name` is that of its field, which says whether a number is a time."""
    if is_time(name):
        return _optional(TIME) if _allows_none(kind) else TIME
    return _form_of(kind)


@cache
def _form_of(kind: Any) -> Form:
    if kind == AttributeAlternatives:
        return CONDITIONS
    if kind == Attributes:
        return ATTRIBUTES
    if get_origin(kind) is Annotated:
        extra = next((note.extra for note in get_args(kind)[1:] if isinstance(note, msgspec.Meta) and note.extra), {})
        return ANNOTATED.get(extra.get("form", "")) or _form_of(get_args(kind)[0])
    if (plain := PLAIN.get(kind)) is not None:
        return plain
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(parts)
    if origin is Literal:
        return _literal(parts)
    if origin in (list, tuple, frozenset, set, Sequence) or kind in (list, tuple):
        return _sequence(origin or kind, parts[0] if parts else Any, parts)
    if origin in (dict, Mapping):
        return _mapping(*parts)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return struct_form(kind)
    if isinstance(kind, type) and issubclass(kind, PerdureError):
        return Form(lambda error: {"code": error.code, "message": str(error)}, _unreadable, {"type": "object"})
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _sequence(list, Any, ())
    raise TypeError(f"{kind} has no JSON form")


# Forms of plain types.


def _unreadable(value: Any, where: str, tenant: str) -> Any:
    raise BadValue(where, value, "given here; it is part of results only")


def _checked(kinds: tuple[type, ...], expected: str, schema: Schema) -> Form:
    def read(value: Any, where: str, tenant: str) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise BadValue(where, value, expected)
        return value

    return Form(_write_itself, read, schema)


def _write_itself(value: Any) -> Any:
    return value


def _read_float(value: Any, where: str, tenant: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise BadValue(where, value, "a number")
    try:
        return float(value)
    except OverflowError:
        raise BadValue(where, value, "a number that a float can hold") from None


def _write_float(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _read_bytes(value: Any, where: str, tenant: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise BadValue(where, value, "base64") from None


def write_time(at_s: float) -> str | None:
    """Returns a time as ISO 8601 in UTC; None if no calendar has it."""
    try:
        return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    except (OverflowError, ValueError, OSError):
        return None


def _read_datetime(value: Any, where: str, tenant: str) -> datetime:
    try:
        found = datetime.fromisoformat(value)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    raise BadValue(where, value, "a time with its zone, such as 2026-11-28T07:00:00Z")


def _read_time(value: Any, where: str, tenant: str) -> float:
    return _read_datetime(value, where, tenant).timestamp()


def _read_since(value: Any, where: str, tenant: str) -> float | datetime:
    if isinstance(value, str) and re.match(r"\d{4}-", value):
        return _read_datetime(value, where, tenant)
    return duration_seconds(value, where)


def _write_value(raw: bytes | Blob) -> Any:
    if isinstance(raw, Blob):
        return {"$blob": raw.sha256}
    return writable(values.decode(raw, Any, "a value"))


def writable(value: Any) -> Any:
    """Returns plain data in a form that JSON has."""
    return msgspec.to_builtins(value, str_keys=True, builtin_types=(), order=None)


def _read_document(value: Any, where: str, tenant: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except OverflowError:
        raise BadValue(where, value, "a document whose whole numbers have 64 bits") from None


def _read_document_text(value: Any, where: str, tenant: str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return _read_document(value, where, tenant)
    raise BadValue(where, value, "the text of a document, or an object")


def _read_input(value: Any, where: str, tenant: str) -> bytes:
    match value:
        case list():
            return values.encode((value, {}), where)
        case dict():
            return values.encode(((), value), where)
    raise BadValue(where, value, "an object of arguments by name, or an array of them by position")


def _write_input(raw: bytes) -> Any:
    args, kwargs = values.decode(raw, tuple[list[Any], dict[str, Any]], "an input")
    return writable(kwargs if not args else args if not kwargs else {**{str(number): one for number, one in enumerate(args, 1)}, **kwargs})


def _read_conditions(value: Any, where: str, tenant: str) -> AttributeAlternatives:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise BadValue(where, value, "text such as customer=c1 or 'cents>=500'")
    return filter_alternatives(parse_filter(texts)) if texts else ((),)


def _read_attributes(value: Any, where: str, tenant: str) -> Attributes:
    if not isinstance(value, dict):
        raise BadValue(where, value, "an object of values, or arrays of values, by name")
    return checked_attributes(value)


NO_KEY = {"workflow": None, "id": None}


def _write_key(key: Key) -> Any:
    return {"workflow": key.workflow, "id": key.id}


def _read_key(value: Any, where: str, tenant: str) -> Key:
    if not isinstance(value, dict) or value.keys() != {"workflow", "id"} or not all(isinstance(one, str) for one in value.values()):
        raise BadValue(where, value, 'an object such as {"workflow": "order", "id": "o1"}')
    return Key(tenant, value["workflow"], value["id"])


TEXT = _checked((str,), "text", {"type": "string"})
NUMBER = Form(_write_float, _read_float, {"type": "number"})
TIME = Form(write_time, _read_time, SCHEMA_OF_TIME)
ANYTHING = Form(writable, lambda value, where, tenant: value, {})
VALUE = Form(_write_value, lambda value, where, tenant: values.encode(value, where), {})
CONDITIONS = Form(lambda value: None, _read_conditions, {"type": "string", "description": "conditions on attributes, as `perdure ls --where` takes them"})
ATTRIBUTES = Form(
    lambda value: writable(indexed_attribute_values(index_attributes(value))),
    _read_attributes,
    {"type": "object", "description": "values, or arrays of values, by name"},
)
KEY = Form(
    _write_key,
    _read_key,
    {"type": "object", "properties": {"workflow": {"type": "string"}, "id": {"type": "string"}}, "required": ["workflow", "id"], "additionalProperties": False},
)
BYTES = Form(lambda raw: base64.b64encode(raw).decode(), _read_bytes, {"type": "string", "contentEncoding": "base64"})
PLAIN: dict[Any, Form] = {
    str: TEXT,
    bool: _checked((bool,), "true or false", {"type": "boolean"}),
    int: _checked((int,), "a whole number", {"type": "integer"}),
    float: NUMBER,
    type(None): _checked((type(None),), "null", {"type": "null"}),
    bytes: BYTES,
    Any: ANYTHING,
    object: ANYTHING,
    datetime: Form(lambda value: value.isoformat(), _read_datetime, SCHEMA_OF_TIME),
    Key: KEY,
    Blob: Form(_write_value, _unreadable, {"type": "object"}),
    float | datetime | None: Form(lambda value: None, _read_since, {"type": "string", "description": "a time (ISO 8601), or a duration before now: 1h"}),
    bytes | Blob: Form(_write_value, _unreadable, {}),
    ErrorInfo: Form(
        lambda error: {"code": error.type, "message": error.message},
        lambda value, where, tenant: ErrorInfo(*_error_parts(value, where)),
        {"type": "object", "properties": {"code": {"type": "string"}, "message": {"type": "string"}}, "required": ["code", "message"]},
    ),
}
ANNOTATED = {
    "value": VALUE,
    "input": Form(_write_input, _read_input, {"type": ["object", "array"], "description": "arguments by name, or by position"}),
    "text": Form(lambda raw: raw.decode(errors="replace"), _read_document_text, {"type": ["string", "object"]}),
    "document": Form(lambda raw: msgspec.json.decode(raw), _read_document, {"type": "object"}),
}


def _error_parts(value: Any, where: str) -> tuple[str, str]:
    match value:
        case {"code": str(code), "message": str(message)}:
            return code, message
        case str(message):
            return "task_failed", message
    raise BadValue(where, value, 'text, or an object such as {"code": "out_of_paper", "message": "tray 2"}')


# Forms of composite types.


def _allows_none(kind: Any) -> bool:
    return type(None) in get_args(kind)


def _optional(form: Form) -> Form:
    return Form(
        _write_itself if form.write is _write_itself else lambda value: None if value is None else form.write(value),
        lambda value, where, tenant: None if value is None else form.read(value, where, tenant),
        _or_null(form.schema),
    )


def _or_null(schema: Schema) -> Schema:
    if not schema:
        return {}
    kind = schema.get("type")
    return {**schema, "type": [kind, "null"]} if isinstance(kind, str) and "enum" not in schema else {"anyOf": [schema, {"type": "null"}]}


def _union(parts: tuple[Any, ...]) -> Form:
    known = tuple(part for part in parts if part not in (type(None), msgspec.UnsetType))
    form = _form_of(known[0]) if len(known) == 1 else PLAIN.get(Union[known]) or _alternatives(known)  # noqa: UP007  # made of a tuple
    return _optional(form) if type(None) in parts else form


def _alternatives(parts: tuple[Any, ...]) -> Form:
    tags = {part.__struct_config__.tag: part for part in parts if isinstance(part, type) and issubclass(part, msgspec.Struct) and part.__struct_config__.tag}
    if len(tags) == len(parts):
        return _tagged(tags)
    forms = [_form_of(part) for part in parts]

    def read(value: Any, where: str, tenant: str) -> Any:
        for form in forms:
            try:
                return form.read(value, where, tenant)
            except BadValue as error:
                last = error
        raise last

    def write(value: Any) -> Any:
        form = next((form for part, form in zip(parts, forms, strict=True) if isinstance(part, type) and type(value) is part), None)
        return writable(value) if form is None else form.write(value)

    return Form(write, read, {"anyOf": [form.schema for form in forms]})


def _tagged(kinds: Mapping[Any, type[msgspec.Struct]]) -> Form:
    """Returns the form of a union of structs, each of which a field names: that of its tag."""
    field = next(iter(kinds.values())).__struct_config__.tag_field or "type"
    forms = {tag: struct_form(kind) for tag, kind in kinds.items()}

    def read(value: Any, where: str, tenant: str) -> Any:
        if not isinstance(value, dict):
            raise BadValue(where, value, "an object")
        tag = value.get(field)
        if not isinstance(tag, str) or tag not in forms:
            raise BadValue(f"{where}/{field}", tag, f"one of {', '.join(forms)}")
        return forms[tag].read({name: its for name, its in value.items() if name != field}, where, tenant)

    def write(value: Any) -> Any:
        tag = type(value).__struct_config__.tag
        return {field: tag, **forms[tag].write(value)}

    return Form(write, read, {"oneOf": [_with_tag(form.schema, field, tag) for tag, form in forms.items()]})


def _with_tag(schema: Schema, field: str, tag: Any) -> Schema:
    return {"allOf": [schema, {"type": "object", "properties": {field: {"const": tag}}, "required": [field]}]}


def _literal(choices: tuple[Any, ...]) -> Form:
    def read(value: Any, where: str, tenant: str) -> Any:
        if value not in choices:
            raise BadValue(where, value, f"one of {', '.join(map(str, choices))}")
        return value

    return Form(_write_itself, read, {"enum": list(choices)})


def _sequence(origin: Any, item: Any, parts: tuple[Any, ...]) -> Form:
    if origin is tuple and parts and ... not in parts and len(parts) > 1:
        return _fixed_sequence([_form_of(part) for part in parts])
    form = _form_of(item)
    make: Any = {frozenset: frozenset, set: set, list: list}.get(origin, tuple)

    def read(value: Any, where: str, tenant: str) -> Any:
        if not isinstance(value, list):
            raise BadValue(where, value, "an array")
        return make(form.read(one, f"{where}/{number}", tenant) for number, one in enumerate(value))

    return Form(lambda found: [form.write(one) for one in found], read, {"type": "array", "items": form.schema})


def _fixed_sequence(forms: Sequence[Form]) -> Form:
    def read(value: Any, where: str, tenant: str) -> Any:
        if not isinstance(value, list) or len(value) != len(forms):
            raise BadValue(where, value, f"an array of {len(forms)}")
        return tuple(form.read(one, f"{where}/{number}", tenant) for number, (form, one) in enumerate(zip(forms, value, strict=True)))

    schema = {"type": "array", "prefixItems": [form.schema for form in forms], "minItems": len(forms), "maxItems": len(forms)}
    return Form(lambda found: [form.write(one) for form, one in zip(forms, found, strict=True)], read, schema)


def _mapping(key: Any, item: Any) -> Form:
    form = _form_of(item)
    if key is Key:
        return Form(lambda found: [{**_write_key(one), "error": form.write(its)} for one, its in found.items()], _unreadable, {"type": "array"})

    def read(value: Any, where: str, tenant: str) -> Any:
        if not isinstance(value, dict):
            raise BadValue(where, value, "an object")
        return {name: form.read(one, f"{where}/{name}", tenant) for name, one in value.items()}

    schema: Schema = {"type": "object", "additionalProperties": form.schema} if form.schema else {"type": "object"}
    return Form(lambda found: {str(name): form.write(one) for name, one in found.items()}, read, schema)


class FieldForm(NamedTuple):
    """A field or parameter: its name in Python and in JSON, its form, and its default."""

    name: str
    json_name: str
    form: Form
    default: Any


def struct_fields(kind: type[msgspec.Struct]) -> list[FieldForm]:
    """Returns the fields of a struct that JSON has."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        FieldForm(one.name, camel(one.name), form_of(hints[one.name], one.name), _default_of(one))
        for one in msgspec.structs.fields(kind)
        if one.name != "tenant" and one.name not in INTERNAL_FIELDS.get(kind, ())
    ]


def _default_of(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


@cache
def struct_form(kind: type[msgspec.Struct]) -> Form:
    """Returns the form of a struct: an object."""
    fields: list[FieldForm] = []
    writers: list[Callable[[Any], dict[str, Any]]] = []

    def known() -> list[FieldForm]:
        if not fields:
            fields.extend(struct_fields(kind))
        return fields

    def write(value: Any) -> Any:
        if not writers:
            writers.append(_struct_writer(known()))
        return writers[0](value)

    def read(value: Any, where: str, tenant: str) -> Any:
        if not isinstance(value, dict):
            raise BadValue(where, value, "an object")
        given = read_fields(known(), value, where, tenant)
        if "tenant" in kind.__struct_fields__:
            given["tenant"] = tenant
        try:
            return kind(**given)
        except TypeError as error:
            raise BadValue(where, value, f"what is needed: {error}") from None

    return Form(write, read, SchemaReference(kind, known))


def _struct_writer(fields: Sequence[FieldForm]) -> Callable[[Any], dict[str, Any]]:
    """Returns the function that writes a struct. It takes all values at once, and changes those that JSON does not have as they are."""
    if not fields:
        return lambda value: {}
    names = tuple(one.json_name for one in fields)
    values_of = attrgetter(*(one.name for one in fields), "__class__")
    key = next((one.json_name for one in fields if len(names_of(one)) > 1), None)
    changed = [(one.json_name, one.form.write) for one in fields if one.form.write is not _write_itself and one.json_name != key]
    may_be_unset = any(one.default is msgspec.UNSET for one in fields)

    def write(value: Any) -> dict[str, Any]:
        written = dict(zip(names, values_of(value), strict=False))  # the class comes last, so that there are several values in any case
        if may_be_unset:
            written = {name: its for name, its in written.items() if its is not msgspec.UNSET}
        for name, its_write in changed:
            if name in written:
                written[name] = its_write(written[name])
        if key is None:
            return written
        its_key = written.pop(key)
        return (NO_KEY if its_key is None else _write_key(its_key)) | written

    return write


class SchemaReference(dict[str, Any]):
    """The schema of a struct, by its name, so that one may contain itself. `schema` makes the schema itself."""

    def __init__(self, kind: type[msgspec.Struct], known: Callable[[], list[FieldForm]]) -> None:
        super().__init__({"$ref": f"#/components/schemas/{kind.__name__}"})
        self.kind, self._known = kind, known

    def schema(self) -> Schema:
        """The schema of the object."""
        properties: Schema = {}
        required = list[str]()
        for field in self._known():
            names = names_of(field)
            for name in names:
                properties[name] = field.form.schema if len(names) == 1 else {"type": "string"} if field.form is KEY else {"type": ["string", "null"]}
                required += [name] if field.default is msgspec.NODEFAULT and name not in required else []
        described = (self.kind.__doc__ or "").strip().partition("\n\n")[0]
        return {"type": "object", "description": " ".join(described.split()), "properties": properties, **({"required": required} if required else {})}


def names_of(field: FieldForm) -> tuple[str, ...]:
    """Returns the names in JSON of a field: those of a key, which may be null, are beside the other fields."""
    return ("workflow", "id") if field.name == "key" and field.form in (KEY, form_of(Key | None)) else (field.json_name,)


def read_fields(fields: Sequence[FieldForm], given: Mapping[str, Any], where: str, tenant: str) -> dict[str, Any]:
    """Reads fields by their JSON names; those that are not given are left out.

    Raises:
        BadValue: there is an unknown one, or one is wrong.
    """
    known = {name: field for field in fields for name in names_of(field)}
    for name in given:
        if name not in known:
            likely = difflib.get_close_matches(name, known, 1)
            meant = f"; {likely[0]} is" if likely else ""
            expected = f"{', '.join(sorted(known)) or 'none'}"
            raise BadValue(f"{where}/{name}", name, expected, f"{where}/{name}: {name} is no field here{meant}. The fields are {expected}")
    read: dict[str, Any] = {}
    for field in fields:
        if field.name == "key" and field.form is KEY:
            if (missing := next((name for name in names_of(field) if not isinstance(given.get(name), str)), None)) is not None:
                raise BadValue(f"{where}/{missing}", given.get(missing), "text", f"{where}/{missing}: the {missing} is missing, or no text; give it")
            read["key"] = Key(tenant, given["workflow"], given["id"])
        elif field.json_name in given:
            read[field.name] = field.form.read(given[field.json_name], f"{where}/{field.json_name}", tenant)
    return read
