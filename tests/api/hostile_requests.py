"""Requests that are wrong in one place: each field of each operation with each of many bad values, in JSON, in the query, in the path and in the binary form.

Everything but that one place is valid, so that the request fails, if it does, by the bad value.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple, get_args, get_origin
from urllib.parse import urlencode

import msgspec

from perdure.api.json_forms import FieldForm, names_of
from perdure.api.request_arguments import RequestArguments
from perdure.core.paths import Key
from perdure.operations import wire_codec
from perdure.operations.operation_table import FILLED_IN, NO_DEFAULT, Operation
from perdure.service.wire_types import SecretText

DEEP = 700
"""As many arrays in one another as a parser takes, and what walks through them by recursion may not."""

JSON_VALUES: dict[str, str] = {
    "null": "null",
    "true": "true",
    "zero": "0",
    "negative": "-1",
    "negative fraction": "-0.5",
    "fraction": "1.5",
    "2^63 - 1": str(2**63 - 1),
    "2^63": str(2**63),
    "2^64": str(2**64),
    "10^400": "1" + "0" * 400,
    "10^5000": "1" + "0" * 5000,
    "beyond floats": "1e999",
    "a time beyond calendars": "1e300",
    "empty": '""',
    "a word": '"zzz"',
    "long": '"' + "x" * 70_000 + '"',
    "NUL": '"a\\u0000b"',
    "half a surrogate": '"\\ud800"',
    "lines": '"a\\nb"',
    "NaN": '"nan"',
    "infinity": '"inf"',
    "the first day, east": '"0001-01-01T00:00:00+14:00"',
    "the last day, west": '"9999-12-31T23:59:59-14:00"',
    "a time without a zone": '"2026-11-28T07:00:00"',
    "a long duration": '"' + "9" * 400 + 's"',
    "many digits": '"' + "9" * 5000 + '"',
    "array": "[]",
    "array of null": "[null]",
    "array of arrays": "[[],[]]",
    "array of words": '["zzz","a\\u0000"]',
    "array of numbers": "[1e300,-1]",
    "object": "{}",
    "object of null": '{"":null}',
    "object of objects": '{"zzz":{"a":{}}}',
    "a blob": '{"$blob":"x"}',
    "a key of another form": '{"workflow":"","id":""}',
    "deep array": "[" * DEEP + "]" * DEEP,
    "deep object": '{"a":' * DEEP + "1" + "}" * DEEP,
}

TEXTS: dict[str, bytes] = {
    "empty": b"",
    "negative": b"-1",
    "NaN": b"nan",
    "infinity": b"inf",
    "beyond floats": b"1e999",
    "2^63 - 1": b"%d" % (2**63 - 1),
    "2^63": b"%d" % 2**63,
    "10^400": b"1" + b"0" * 400,
    "10^5000": b"1" + b"0" * 5000,
    "other digits": "²".encode(),
    "NUL": b"\0",
    "not UTF-8": b"\xff",
    "half a surrogate": b"\xed\xa0\x80",
    "long": b"x" * 5_000,
    "lines": b"a\nb",
    "slashes": b"a/../b",
    "condition": b"a=b||",
    "conditions": b"a=1e999",
    "the first day, east": b"0001-01-01T00:00:00+14:00",
    "a word": b"zzz",
}

BINARY_VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "negative": -1,
    "2^63 - 1": 2**63 - 1,
    "2^63": 2**63,
    "2^64-1": 2**64 - 1,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "negative fraction": -0.5,
    "a time beyond calendars": 1e300,
    "empty": "",
    "a word": "zzz",
    "NUL": "a\0b",
    "lines": "a\nb",
    "long": "x" * 70_000,
    "no bytes": b"",
    "no MessagePack": b"\xc1",
    "half of a MessagePack": b"\x92\x01",
    "MessagePack of an array": b"\x90",
    "deep MessagePack": b"\x91" * 5_000 + b"\x90",
    "array": [],
    "array of null": [None],
    "array of arrays": [[], []],
    "array of words": ["zzz", "a\0"],
    "array of a pair": [["zzz", 2**63]],
    "array of pairs": [["zzz", float("nan")], ["", b"\xff"]],
    "conditions of no value": [[["zzz", [[b"z", b"a"]]]]],
    "object": {},
    "object of null": {"": None},
    "a key": ["default", "w", "i"],
    "a key of nothing": ["default", "", ""],
    "a long key": ["default", "w" * 2_000, "i"],
    "a workflow of two lines": ["default", "a\nb", "i"],
    "a key of another tenant": ["others", "w", "i"],
}


FOREVER = {"true", "a word", "fraction", "zero"}
"""Values that have a meaning for what decides whether a call waits: those are not sent, since nothing would end the wait."""

WAITS = ("wait", "follow")


class HostileRequest(NamedTuple):
    """A request that is wrong in one place, which `name` says."""

    name: str
    method: str
    path: str
    body: bytes
    headers: dict[str, str]


def requests_to(operation: Operation) -> Iterator[HostileRequest]:
    """Yields the bad requests to an operation in all forms."""
    yield from _json_requests(operation)
    yield from _path_requests(operation)
    yield from _binary_requests(operation)


def _json_requests(operation: Operation) -> Iterator[HostileRequest]:
    reader = RequestArguments(operation)
    valid = _valid_fields(reader.fields)
    path = _path(operation, {})
    names = [name for field in reader.fields for name in names_of(field)]
    if operation.method in ("GET", "DELETE"):
        for name in names:
            for said, text in TEXTS.items():
                query = urlencode({**{one: _query_text(json.loads(raw)) for one, raw in valid.items()}, name: text})
                yield HostileRequest(f"?{name}: {said}", operation.method, f"{path}?{query}", b"", {})
        return
    for name in names:
        for said, raw in JSON_VALUES.items():
            if name in WAITS and said in FOREVER:
                continue
            fields = ",".join(f'"{one}":{its}' for one, its in {**valid, name: raw}.items())
            yield HostileRequest(f"/{name}: {said}", operation.method, path, f"{{{fields}}}".encode(), {"content_type": "application/json"})


def _query_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _valid_fields(fields: list[FieldForm]) -> dict[str, str]:
    """The fields that must be given, with a value of their type, as JSON; and those that decide whether a call waits, so that none waits for an engine."""
    found: dict[str, str] = {}
    for field in fields:
        if field.name in WAITS:
            found[field.json_name] = "false"
        elif field.default is msgspec.NODEFAULT:
            found |= dict.fromkeys(names_of(field), _valid_json(field))
    return found


def _valid_json(field: FieldForm) -> str:
    schema = field.form.schema
    if "enum" in schema:
        return json.dumps(schema["enum"][0])
    kinds = schema.get("type", "object")
    kind = kinds[0] if isinstance(kinds, list) else kinds
    return {"integer": "1", "number": "1", "boolean": "true", "array": "[]", "object": "{}"}.get(kind, '"zzz"')


def _id(operation: Operation) -> str:
    """The id of an execution that exists, unless the operation would wait for it."""
    waits = operation.waits_for_answer or operation.name in ("executions.result", "executions.stream", "executions.events")
    return "none" if waits else "zzz"


def _path(operation: Operation, given: dict[str, bytes]) -> str:
    known = {"id": _id(operation).encode()} | given
    parts = [urlencode({"": known.get(part[1:-1], b"zzz")})[1:] if part.startswith("{") else part for part in operation.path.split("/")]
    return "/".join(parts).replace("+", "%20")


def _path_requests(operation: Operation) -> Iterator[HostileRequest]:
    reader = RequestArguments(operation)
    valid = _valid_fields(reader.fields)
    has_query = operation.method in ("GET", "DELETE")
    query = "?" + urlencode({name: _query_text(json.loads(raw)) for name, raw in valid.items()}) if has_query and valid else ""
    body = b"" if has_query else f"{{{','.join(f'{json.dumps(name)}:{raw}' for name, raw in valid.items())}}}".encode()
    for name in reader.in_path:
        for said, text in TEXTS.items():
            if said == "a word" and _id(operation) == "none":
                continue
            yield HostileRequest(f"{{{name}}}: {said}", operation.method, _path(operation, {name: text}) + query, body, {"content_type": "application/json"})


def _binary_requests(operation: Operation) -> Iterator[HostileRequest]:
    parameters = [one for one in operation.parameters if one.name not in FILLED_IN or one.name == "tenant"]
    valid = {one.name: _sample(one.type) for one in operation.parameters if one.default is NO_DEFAULT}
    if "key" in valid:
        valid["key"] = ["default", "zzz", _id(operation)]
    for name in WAITS:
        if any(one.name == name for one in operation.parameters):
            valid[name] = False
    for one in parameters:
        for where, changed in _changes(one.type, valid.get(one.name)):
            for said, value in BINARY_VALUES.items():
                if one.name in WAITS and said in FOREVER:
                    continue
                yield _binary(operation, f"{one.name}{where}: {said}", {**valid, one.name: changed(value)})
    yield _binary(operation, "an unknown one", {**valid, "unknown": 1})


def _binary(operation: Operation, name: str, given: dict[str, Any]) -> HostileRequest:
    headers = {"content_type": wire_codec.MEDIA_TYPE, "accept": wire_codec.MEDIA_TYPE}
    return HostileRequest(f"binary {name}", "POST", f"/api/call/{operation.name}", msgspec.msgpack.encode(given), headers)


def _changes(kind: Any, valid: Any) -> Iterator[tuple[str, Any]]:
    """Yields the places in an argument, each with a function that returns the argument with another value there."""
    yield "", lambda value: value
    struct = next((one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
    if struct is not None and not struct.__struct_config__.array_like and get_origin(kind) is None:
        whole = valid if isinstance(valid, dict) else _sample(struct)
        for field in msgspec.structs.fields(struct):
            yield f".{field.encode_name}", lambda value, name=field.encode_name: {**whole, name: value}


def _sample(kind: Any) -> Any:
    """A value of a type, as it travels."""
    if kind is Key:
        return ["default", "zzz", "zzz"]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {one.encode_name: "default" if one.name == "tenant" else _sample(one.type) for one in msgspec.structs.fields(kind) if one.required}
    origin, parts = get_origin(kind), get_args(kind)
    if (origin is not None and str(origin) == "typing.Annotated") or hasattr(kind, "__metadata__"):
        if kind == SecretText:
            return ""
        return {"input": b"\x92\x90\x80", "document": b"{}", "text": b"{}"}.get(kind.__metadata__[0].extra["form"], b"\xc0")
    if origin in (list, tuple, frozenset):
        return []
    if parts and origin is not None and hasattr(parts[0], "__mro__") and str in parts:
        return "zzz"
    if parts and all(isinstance(one, str) for one in parts):
        return parts[0]
    plain = {str: "zzz", int: 1, float: 1.0, bool: False, bytes: b"", datetime: "2026-11-28T07:00:00Z"}
    return plain.get(kind)
