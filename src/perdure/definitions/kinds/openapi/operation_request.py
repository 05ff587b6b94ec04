"""The request of an operation: parameters checked by the document's schemas, and put where the document says.

A value is always encoded for its place: no parameter can add a segment to a path, a parameter to a query, or a line to a header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from perdure.core.errors import BadExpression
from perdure.definitions.expr.plain_values import shortened
from perdure.definitions.format.definition_findings import closest_name, joined_pointer
from perdure.definitions.format.shapes import is_computed
from perdure.definitions.kinds.http.http_errors import RequestError
from perdure.definitions.kinds.http.http_request import field_texts
from perdure.definitions.kinds.http.http_targets import UrlError, parse_target
from perdure.definitions.kinds.openapi.api_description import ApiOperation, MediaType, OpenapiDocument, Parameter, Place, RequestContent
from perdure.definitions.kinds.openapi.document_schemas import is_binary, value_problems
from perdure.definitions.kinds.openapi.openapi_errors import OperationRefused

BODY = "body"
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
PROBLEMS_MAX = 5
"""How many problems of one value are named."""

_JSON = re.compile(r"(?:application|text)/(?:[\w.+-]+\+)?json|\*/\*|application/\*")
_VARIABLE = re.compile(r"\{([^{}]*)\}")
_VARIABLE_VALUE = re.compile(r"[A-Za-z0-9._~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")
_COOKIE_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SEPARATORS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_RESERVED = ":/?@!$'()*,;"
"""The reserved characters that `allowReserved` leaves as they are; the others would end the parameter."""

_FILE_FIELDS = frozenset(("content", "filename", "type"))


class Values(NamedTuple):
    """The values of an operation: of its parameters, by qualified name, and of its body (absent: `has_body` is false)."""

    parameters: Mapping[str, Any]
    body: Any
    has_body: bool


def accepted_names(operation: ApiOperation) -> dict[str, Parameter | RequestContent]:
    """The names under which `params` may give a value: that of each parameter if no other has it, each with its place, and ``body``."""
    found: dict[str, Parameter | RequestContent] = {one.qualified: one for one in operation.parameters}
    for one in operation.parameters:
        if sum(other.name == one.name for other in operation.parameters) == 1:
            found.setdefault(one.name, one)
    if operation.body is not None:
        found[BODY] = operation.body
    return found


def param_problems(document: OpenapiDocument, operation: ApiOperation, params: Any, is_final: bool) -> Iterator[tuple[str, str]]:
    """The problems of parameters, as JSON pointers within the config of the step and texts. Unless they are `is_final`, values with references are passed over.

    Raises:
        DocumentRefused: the document is not as OpenAPI says.
    """
    if not isinstance(params, Mapping):
        yield "/params", "the parameters are a mapping of names to values"
        return
    known = accepted_names(operation)
    given = {meant.qualified for name in params if isinstance(meant := known.get(name), Parameter)}
    for name, value in params.items():
        at = joined_pointer("/params", str(name))
        meant = known.get(name)
        if meant is None:
            yield at, _unknown_name(operation, str(name), known)
        elif value is None and isinstance(meant, Parameter) and not meant.required:
            continue
        elif is_final or not _holds_references(value):
            yield from ((at, f"{name} {what}") for what in _value_problems(document, operation, meant, value))
    for one in operation.parameters:
        if one.required and one.qualified not in given and _default(document, one) is None:
            yield "/params", f"{one.name} is missing, which {operation.label} requires in its {one.place}{_expected(document, one.schema, one.where)}"
    if operation.body is not None and operation.body.required and BODY not in params:
        yield "/params", f"{BODY} is missing, which {operation.label} requires: {', '.join(one.name for one in operation.body.types)}"


def _unknown_name(operation: ApiOperation, name: str, known: Mapping[str, Any]) -> str:
    same = [one.qualified for one in operation.parameters if one.name == name]
    if same:
        return f"{name} is several parameters of {operation.label}; name one as {' or '.join(same)}"
    short = [one for one in known if one == BODY or known[one].name == one]
    near = closest_name(name, short)
    hint = f"did you mean {near!r}?" if near else f"it has {', '.join(short)}" if short else "it has none"
    return f"{shortened(name, 100)!r} is no parameter of {operation.label}; {hint}"


def _holds_references(value: Any) -> bool:
    if is_computed(value):
        return True
    match value:
        case Mapping():
            return any(map(_holds_references, value.values()))
        case list():
            return any(map(_holds_references, value))
    return False


def _value_problems(document: OpenapiDocument, operation: ApiOperation, meant: Parameter | RequestContent, value: Any) -> Iterator[str]:
    schema, where = (meant.schema, meant.where) if isinstance(meant, Parameter) else (chosen_type(meant).schema, chosen_type(meant).where)
    if schema is None:
        return
    try:
        problems = value_problems(document, "request", schema, where, value)
    except BadExpression:
        return  # the server checks it: a schema that can't be compiled here must not stop a request that it takes
    yield from (f"does not fit {operation.label}: {one.text}" for one in problems[:PROBLEMS_MAX])


def _expected(document: OpenapiDocument, schema: Any, where: str) -> str:
    """What a schema expects, in a few words; empty if it says nothing."""
    if schema is None:
        return ""
    said, _ = document.resolved(schema, where)
    kind, among = said.get("type"), said.get("enum")
    if isinstance(among, list) and among:
        return f": one of {shortened(', '.join(map(str, among)), 100)}"
    return f": {' or '.join(map(str, kind)) if isinstance(kind, list) else kind}" if kind else ""


def _default(document: OpenapiDocument, one: Parameter) -> Any:
    if not isinstance(one.schema, dict):
        return None
    said, _ = document.resolved(one.schema, one.where)
    return said.get("default")


def operation_values(document: OpenapiDocument, operation: ApiOperation, params: Mapping[str, Any]) -> Values:
    """The values that are sent. A required parameter that is not given has its default.

    Raises:
        OperationRefused: a parameter is unknown or missing, or has a value that does not fit.
    """
    for where, what in param_problems(document, operation, params, is_final=True):
        raise OperationRefused(where, what)
    known, found = accepted_names(operation), dict[str, Any]()
    for name, value in params.items():
        if isinstance(meant := known[name], Parameter) and value is not None:
            found[meant.qualified] = value
    for one in operation.parameters:
        if one.required and one.qualified not in found:
            found[one.qualified] = _default(document, one)
    return Values(found, params.get(BODY), operation.body is not None and BODY in params)


def request_config(document: OpenapiDocument, operation: ApiOperation, base: str, values: Values) -> dict[str, Any]:
    """The request as a config of the kind `http`. `base` is the URL of the server.

    Raises:
        OperationRefused: a value can't be put where the document says.
    """
    query = [piece for one, value in _of_place(operation, "query", values) for piece in _query_pieces(one, value)]
    url = base.rstrip("/") + _filled_path(operation, values)
    headers: dict[str, Any] = {one.name: _header_text(one, value) for one, value in _of_place(operation, "header", values)}
    if cookies := [piece for one, value in _of_place(operation, "cookie", values) for piece in _cookie_pieces(one, value)]:
        headers["Cookie"] = "; ".join(cookies)
    found = {"url": f"{url}?{'&'.join(query)}" if query else url, "method": operation.method, "headers": headers}
    if operation.body is not None and values.has_body:
        found |= _body_fields(document, chosen_type(operation.body), values.body, headers)
    return found


def _of_place(operation: ApiOperation, place: Place, values: Values) -> Iterator[tuple[Parameter, Any]]:
    return ((one, values.parameters[one.qualified]) for one in operation.parameters if one.place == place and one.qualified in values.parameters)


def _text(one: Parameter, value: Any) -> str:
    """A single value as text.

    Raises:
        OperationRefused: it is a list or a mapping.
    """
    if one.is_json:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if value is None:
        return ""
    try:
        (found,) = field_texts(value, "")
    except (RequestError, ValueError):
        raise _unsendable(one, f"its style {one.style} has no place for lists or mappings within a value") from None
    return found


def _unsendable(one: Parameter, why: str) -> OperationRefused:
    return OperationRefused(joined_pointer("/params", one.name), f"{one.name} can't be sent in the {one.place}: {why}")


def _encoded(one: Parameter, value: Any, safe: str = "") -> str:
    try:
        return quote(_text(one, value), safe=safe)
    except UnicodeError:
        raise _unsendable(one, "it has text that can't be encoded in UTF-8") from None


def _pairs(one: Parameter, value: Mapping[Any, Any], between: str, safe: str = "") -> list[str]:
    return [f"{quote(str(name), safe='')}{between}{_encoded(one, inner, safe)}" for name, inner in value.items()]


def _filled_path(operation: ApiOperation, values: Values) -> str:
    by_name = {one.name: (one, value) for one, value in _of_place(operation, "path", values)}

    def filled(match: re.Match[str]) -> str:
        if match[1] not in by_name:
            raise OperationRefused("/operation", f"the document has no path parameter {shortened(match[1], 60)!r} for {operation.label}; correct the document")
        return _path_text(*by_name[match[1]])

    segments = list[str]()
    for segment in operation.path.split("/"):
        made = _VARIABLE.sub(filled, segment)
        if made != segment and made.replace("%2E", ".") in (".", ".."):
            raise OperationRefused("/params", f"a parameter of {operation.label} would make a segment {made!r}, which leads to another path")
        segments.append(made)
    return "/".join(segments)


def _path_text(one: Parameter, value: Any) -> str:
    is_list, is_mapping = isinstance(value, list) and not one.is_json, isinstance(value, Mapping) and not one.is_json
    prefix = {"simple": "", "label": ".", "matrix": ";"}[one.style]
    name = f"{quote(one.name, safe='')}=" if one.style == "matrix" else ""
    between = {"simple": ",", "label": ".", "matrix": ";"}[one.style] if one.explode else ","
    if is_list:
        items = [_encoded(one, item) for item in value]
        found = between.join(f"{name}{item}" for item in items) if one.explode else name + ",".join(items)
    elif is_mapping:
        found = between.join(_pairs(one, value, "=")) if one.explode else name + ",".join(_pairs(one, value, ","))
    else:
        found = name + _encoded(one, value)
    if not found.removeprefix(name):
        raise _unsendable(one, "it is empty")
    return prefix + found


def _query_pieces(one: Parameter, value: Any) -> Iterator[str]:
    name, safe = quote(one.name, safe=""), _RESERVED if one.allows_reserved else ""
    if one.style == "deepObject" and not one.is_json:
        yield from _deep_pieces(one, one.name, value, safe)
    elif isinstance(value, Mapping) and not one.is_json:
        yield from _pairs(one, value, "=", safe) if one.explode else [f"{name}={','.join(_pairs(one, value, ',', safe))}"]
    elif isinstance(value, list) and not one.is_json:
        items = [_encoded(one, item, safe) for item in value]
        yield from (f"{name}={item}" for item in items) if one.explode else [f"{name}={_SEPARATORS[one.style].join(items)}"]
    else:
        yield f"{name}={_encoded(one, value, safe)}"


def _deep_pieces(one: Parameter, name: str, value: Any, safe: str) -> Iterator[str]:
    match value:
        case Mapping():
            for key, inner in value.items():
                yield from _deep_pieces(one, f"{name}[{key}]", inner, safe)
        case list():
            for inner in value:
                yield from _deep_pieces(one, name, inner, safe)
        case _:
            yield f"{quote(name, safe='')}={_encoded(one, value, safe)}"


def _header_text(one: Parameter, value: Any) -> str:
    if isinstance(value, list) and not one.is_json:
        found = ",".join(_text(one, item) for item in value)
    elif isinstance(value, Mapping) and not one.is_json:
        found = ",".join(f"{name}{'=' if one.explode else ','}{_text(one, inner)}" for name, inner in value.items())
    else:
        found = _text(one, value)
    if not _HEADER_VALUE.fullmatch(found):
        raise _unsendable(one, "a header is one line of ASCII; encode other characters")
    return found


def _cookie_pieces(one: Parameter, value: Any) -> Iterator[str]:
    if not _COOKIE_NAME.fullmatch(one.name):
        raise _unsendable(one, "the document gives the cookie a name that no cookie can have")
    if isinstance(value, Mapping) and not one.is_json:
        yield from _pairs(one, value, "=") if one.explode else [f"{one.name}={','.join(_pairs(one, value, ','))}"]
    elif isinstance(value, list) and not one.is_json:
        items = [_encoded(one, item) for item in value]
        yield from (f"{one.name}={item}" for item in items) if one.explode else [f"{one.name}={','.join(items)}"]
    else:
        yield f"{one.name}={_encoded(one, value)}"


def chosen_type(body: RequestContent) -> MediaType:
    """The content type in which a body is sent: JSON if it may be, else a form, else the first."""
    for fits in (is_json_type, FORM.__eq__, MULTIPART.__eq__):
        for one in body.types:
            if fits(plain_type(one.name)):
                return one
    return body.types[0]


def is_json_type(name: str) -> bool:
    """Whether a content type is JSON, or any."""
    return _JSON.fullmatch(plain_type(name)) is not None


def plain_type(name: str) -> str:
    """A content type without its parameters, in lower case."""
    return name.partition(";")[0].strip().lower()


def _body_fields(document: OpenapiDocument, media: MediaType, body: Any, headers: dict[str, Any]) -> dict[str, Any]:
    """A body as the fields of a config of the kind `http`. Adds the content type to the headers where that does not follow from the fields."""
    kind = plain_type(media.name)
    if kind in (FORM, MULTIPART):
        if not isinstance(body, Mapping):
            raise OperationRefused("/params/body", "the body is a form, which is a mapping")
        of_bytes = _binary_properties(document, media) if kind == MULTIPART else frozenset[str]()
        files = {str(name): _file(media, str(name), value) for name, value in body.items() if kind == MULTIPART and (name in of_bytes or _is_file(value))}
        form = {str(name): _form_value(str(name), value) for name, value in body.items() if str(name) not in files}
        return {"form": form} if kind == FORM else {"form": form, "files": files}
    if is_json_type(kind):
        if kind not in ("application/json", "*/*", "application/*"):
            headers["Content-Type"] = media.name
        return {"json": body}
    if "*" not in kind:
        headers["Content-Type"] = media.name
    return {"body": body}


def _form_value(name: str, value: Any) -> Any:
    """A value of a form: texts as they are, a mapping or a list of mappings as JSON."""
    if _is_file(value) or (isinstance(value, list) and any(map(_is_file, value))):
        raise OperationRefused("/params/body", f"{name} has bytes, of which a form has one for each field of a multipart body")
    if isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(one, list | Mapping) for one in value)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value


def _is_file(value: Any) -> bool:
    """Whether a value of a form says that it is a file: bytes, or content with a name or a type."""
    if not isinstance(value, Mapping):
        return False
    return set(value) == {"base64"} or (len(value) > 1 and "content" in value and set(value) <= _FILE_FIELDS)


def _binary_properties(document: OpenapiDocument, media: MediaType) -> frozenset[str]:
    """The fields of a form that are files, as the document says."""
    if not isinstance(media.schema, dict):
        return frozenset()
    said, where = document.resolved(media.schema, media.where)
    return frozenset(name for name, one in document.mapping(said, "properties", where).items() if is_binary(one))


def _file(media: MediaType, name: str, value: Any) -> dict[str, Any]:
    found = dict(value) if isinstance(value, Mapping) and "content" in value else {"content": value}
    encoding = media.encoding.get(name)
    kind = encoding.get("contentType") if isinstance(encoding, dict) else None
    if isinstance(kind, str) and "," not in kind and "*" not in kind:
        found.setdefault("type", kind)
    return found


def server_url(document: OpenapiDocument, operation: ApiOperation, address: str, variables: Mapping[str, Any]) -> str:
    """The URL of the server of an operation: the first that the document names, relative to `address`, where the document came from (empty: a file).

    Raises:
        DocumentRefused: its URL is not one.
        OperationRefused: a variable is unknown, or has a value that the document does not allow.
    """
    server, where = (operation.servers[0], "/servers/0") if operation.servers else ({"url": "/"}, "")
    if not isinstance(server, dict) or not isinstance(server.get("url"), str):
        raise document.refusal(where, "a server has a url")
    known = document.mapping(server, "variables", where)
    for name in variables:
        if name not in known:
            near = closest_name(str(name), known)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(known) or 'none'}"
            raise OperationRefused(joined_pointer("/variables", str(name)), f"the server of {operation.label} has no variable {str(name)[:60]!r}; {hint}")

    def filled(match: re.Match[str]) -> str:
        return _variable_value(document, match[1], known.get(match[1]), variables, joined_pointer(where, "variables", match[1]))

    text = _VARIABLE.sub(filled, server["url"])
    try:
        url = parse_target(text, parse_target(address) if address else None)
    except UrlError as error:
        hint = "" if "://" in text else "; give the auth profile a `server`, as the document has only a path"
        raise document.refusal(where, f"the server {shortened(text, 200)!r} can't be used: {error}{hint}") from None
    if urlsplit(str(url)).query:
        raise document.refusal(where, "the URL of a server has no query")
    return str(url)


def _variable_value(document: OpenapiDocument, name: str, about: Any, given: Mapping[str, Any], where: str) -> str:
    if not isinstance(about, dict):
        raise document.refusal(where, f"the server has no variable {shortened(name, 60)!r}, which its URL names")
    if name not in given:
        default = about.get("default")
        if not isinstance(default, str):
            raise OperationRefused("/variables", f"{name} is missing, a variable of the server without a default")
        return default
    value, among = given[name], about.get("enum")
    text = value if isinstance(value, str) else json.dumps(value)
    if isinstance(among, list):
        if text not in among:
            raise OperationRefused(joined_pointer("/variables", name), f"{name} is one of {', '.join(map(str, among))}, not {shortened(text, 60)!r}")
    elif not _VARIABLE_VALUE.fullmatch(text) or set(text) == {"."}:
        raise OperationRefused(joined_pointer("/variables", name), f"{name} is letters, digits, dots and hyphens, not {shortened(text, 60)!r}")
    return text
