"""An OpenAPI document, 3.0 or 3.1, as data: its operations with their parameters, bodies, responses and servers.

The reader is total: what is not as OpenAPI says is a `DocumentRefused` with its place, and only where it is used. A reference leads to a place in the
document itself; one that leads elsewhere is refused, so nothing else is ever read or fetched because of a document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import unquote

from perdure.definitions.expr.plain_values import shortened
from perdure.definitions.format.definition_findings import closest_name, joined_pointer
from perdure.definitions.format.document_parser import TextBounds, parse_document
from perdure.definitions.kinds.openapi.openapi_errors import DocumentRefused, OperationRefused

DOCUMENT_BYTES_MAX = 5_000_000
BOUNDS = TextBounds("it", DOCUMENT_BYTES_MAX, 1_000_000, 150_000)
REFERENCES_MAX = 50
"""How many references may lead from one to the next."""

LISTED_MAX = 12
"""How many operations a message lists."""

Place = Literal["path", "query", "header", "cookie"]
Method = Literal["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"]
METHODS: tuple[Method, ...] = get_args(Method)
STYLES: Mapping[Place, tuple[str, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form", "cookie"),
}
"""The styles of parameters by their place, the default first."""

IGNORED_HEADERS = frozenset(("accept", "content-type", "authorization"))
"""Parameters of these names are ignored, as the specification says: they follow from the body, the responses and the auth profile."""

_BY_METHOD = re.compile(rf"({'|'.join(METHODS)})\s+(/\S*)", re.IGNORECASE)


class Parameter(NamedTuple):
    """A parameter of an operation. `schema` is None if it has none; with `is_json`, its value is written as JSON."""

    name: str
    place: Place
    required: bool
    style: str
    explode: bool
    allows_reserved: bool
    schema: Any
    is_json: bool
    description: str
    where: str

    @property
    def qualified(self) -> str:
        """Its name with its place, which no other parameter of the operation has."""
        return f"{self.place}.{self.name}"


class MediaType(NamedTuple):
    """A content type of a body or a response, with its schema (None: anything) and the encodings of its properties."""

    name: str
    schema: Any
    encoding: Mapping[str, Any]
    where: str


class RequestContent(NamedTuple):
    """The body of a request in each of its content types, in the order of the document."""

    required: bool
    types: tuple[MediaType, ...]
    description: str


class ApiOperation(NamedTuple):
    """An operation. `servers` are those of the operation, its path or the document, whichever is nearest; `responses` are as they are written."""

    id: str
    method: Method
    path: str
    summary: str
    parameters: tuple[Parameter, ...]
    body: RequestContent | None
    responses: Mapping[str, Any]
    servers: tuple[Any, ...]
    where: str

    @property
    def label(self) -> str:
        """The operation in messages."""
        return f"{self.id} ({self.method} {self.path})" if self.id else f"{self.method} {self.path}"


class OpenapiDocument:
    """A document that was read. `name` is what messages call it: its URL or path. `schemas` has those of its schemas that were read, by side and place."""

    def __init__(self, name: str, data: Mapping[str, Any], version: Literal["3.0", "3.1"]) -> None:
        self.name, self.data, self.version = name, data, version
        self.schemas = dict[tuple[str, str, bool], dict[str, Any]]()

    @classmethod
    def read(cls, name: str, text: str | bytes) -> OpenapiDocument:
        """Reads a document of JSON or YAML.

        Raises:
            DocumentRefused: it is neither, is larger than 5 MB, or is not a document of OpenAPI 3.0 or 3.1.
        """
        parsed = parse_document(text, BOUNDS)
        for finding in parsed.findings:
            raise DocumentRefused(name, finding.pointer, f"it can't be read: {finding.message}")
        data = parsed.document
        if not isinstance(data, dict):
            raise DocumentRefused(name, "", "it is not a mapping, as OpenAPI documents are")
        said = data.get("openapi")
        if isinstance(said, str) and said.startswith("3.0."):
            return cls(name, data, "3.0")
        if isinstance(said, str) and said.startswith("3.1."):
            return cls(name, data, "3.1")
        found = f"Swagger {data['swagger']}" if "swagger" in data else shortened(repr(said), 40) if "openapi" in data else "no version"
        raise DocumentRefused(name, "/openapi", f"it has to be of OpenAPI 3.0 or 3.1, and says {found}; convert it")

    def refusal(self, where: str, what: str) -> DocumentRefused:
        """The error for a place of this document."""
        return DocumentRefused(self.name, where, what)

    def target(self, reference: Any, where: str) -> tuple[Any, str]:
        """What a reference leads to, and its place.

        Raises:
            DocumentRefused: it leads out of the document, or to nothing.
        """
        if not isinstance(reference, str):
            raise self.refusal(where, "a $ref is text")
        if not reference.startswith("#"):
            raise self.refusal(
                where, f"the reference {shortened(reference, 100)} leads out of the document, where nothing is read; bundle the documents into one"
            )
        pointer = unquote(reference[1:])
        found: Any = self.data
        if pointer and not pointer.startswith("/"):
            raise self.refusal(where, f"the reference {shortened(reference, 100)} is not a path such as #/components/schemas/Pet")
        try:
            for part in pointer.split("/")[1:]:
                part = part.replace("~1", "/").replace("~0", "~")
                found = found[int(part) if isinstance(found, list) else part]
        except (LookupError, TypeError, ValueError):
            raise self.refusal(where, f"the reference {shortened(reference, 100)} leads to nothing in the document") from None
        return found, pointer

    def resolved(self, value: Any, where: str) -> tuple[Mapping[str, Any], str]:
        """A mapping, with the references that stand in its place followed, and where it is.

        Raises:
            DocumentRefused: it is not a mapping, or its references lead to each other.
        """
        for _ in range(REFERENCES_MAX):
            if not isinstance(value, dict):
                raise self.refusal(where, "this has to be a mapping")
            if "$ref" not in value:
                return value, where
            value, where = self.target(value["$ref"], where)
        raise self.refusal(where, f"more than {REFERENCES_MAX} references lead from one to the next here")

    def mapping(self, holder: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
        """A field that is a mapping; an empty one if it is absent.

        Raises:
            DocumentRefused: it is something else.
        """
        found = holder.get(name)
        if found is not None and not isinstance(found, dict):
            raise self.refusal(joined_pointer(where, name), "this has to be a mapping")
        return found or {}

    def sequence(self, holder: Mapping[str, Any], name: str, where: str) -> list[Any]:
        """A field that is a list; an empty one if it is absent.

        Raises:
            DocumentRefused: it is something else.
        """
        found = holder.get(name)
        if found is not None and not isinstance(found, list):
            raise self.refusal(joined_pointer(where, name), "this has to be a list")
        return found or []

    @cached_property
    def _places(self) -> tuple[Mapping[str, list[tuple[Method, str]]], frozenset[tuple[Method, str]]]:
        """The operations by their ids, each as its method and path; and all of them."""
        by_id, every = dict[str, list[tuple[Method, str]]](), set[tuple[Method, str]]()
        for path, item in self.mapping(self.data, "paths", "").items():
            if not path.startswith("/"):
                continue
            fields, _ = self.resolved(item, joined_pointer("/paths", path))
            for method in METHODS:
                said = fields.get(method.lower())
                if isinstance(said, dict):
                    every.add((method, path))
                    if isinstance(id := said.get("operationId"), str) and id:
                        by_id.setdefault(id, []).append((method, path))
        return by_id, frozenset(every)

    def operation(self, named: str) -> ApiOperation:
        """The operation of an operationId, or of a method and a path as ``GET /pets/{id}``.

        Raises:
            OperationRefused: there is none, or there are several of this id.
            DocumentRefused: it is not as OpenAPI says.
        """
        by_id, every = self._places
        if named in by_id:
            if len(by_id[named]) > 1:
                several = " and ".join(f"{method} {path}" for method, path in by_id[named][:3])
                raise OperationRefused("/operation", f"{self.name} has several operations of the id {named}: {several}; name it by its method and path")
            return self._read_operation(*by_id[named][0])
        if match := _BY_METHOD.fullmatch(named.strip()):
            place = next(((method, path) for method, path in every if method == match[1].upper() and path == match[2]), None)
            if place is not None:
                return self._read_operation(*place)
        known = [*by_id, *(f"{method} {path}" for method, path in sorted(every))]
        near = closest_name(named, known)
        listed = ", ".join((list(by_id) or known)[:LISTED_MAX]) + (" …" if len(by_id or known) > LISTED_MAX else "")
        hint = f"did you mean {near!r}?" if near else f"it has {listed}" if known else "it has none"
        raise OperationRefused("/operation", f"{self.name} has no operation {shortened(named, 100)!r}; {hint}")

    def _read_operation(self, method: Method, path: str) -> ApiOperation:
        item, at = self.resolved(self.mapping(self.data, "paths", "")[path], joined_pointer("/paths", path))
        said, where = item[method.lower()], joined_pointer(at, method.lower())
        servers = next((found for holder, place in ((said, where), (item, at), (self.data, "")) if (found := self.sequence(holder, "servers", place))), [])
        return ApiOperation(
            str(said.get("operationId") or ""),
            method,
            path,
            str(said.get("summary") or said.get("description") or ""),
            tuple(self._parameters(item, at, said, where)),
            self._body(said, where),
            self.mapping(said, "responses", where),
            tuple(servers),
            where,
        )

    def _parameters(self, item: Mapping[str, Any], at: str, said: Mapping[str, Any], where: str) -> Iterator[Parameter]:
        """The parameters of an operation: its own, and those of its path that it does not replace."""
        found = dict[tuple[str, str], Parameter]()
        for holder, place in ((item, at), (said, where)):
            for index, one in enumerate(self.sequence(holder, "parameters", place)):
                parameter = self._parameter(*self.resolved(one, joined_pointer(place, "parameters", index)))
                found[parameter.name, parameter.place] = parameter
        yield from (one for one in found.values() if one.place != "header" or one.name.lower() not in IGNORED_HEADERS)

    def _parameter(self, said: Mapping[str, Any], where: str) -> Parameter:
        name, place = said.get("name"), next((one for one in STYLES if one == said.get("in")), None)
        if not isinstance(name, str) or not name:
            raise self.refusal(where, "a parameter has a name")
        if place is None:
            raise self.refusal(joined_pointer(where, "in"), f"a parameter is in one of {', '.join(STYLES)}")
        style = said.get("style", STYLES[place][0])
        if style not in STYLES[place]:
            raise self.refusal(joined_pointer(where, "style"), f"a parameter in {place} has one of the styles {', '.join(STYLES[place])}")
        schema, is_json = said.get("schema"), False
        if content := self.mapping(said, "content", where):
            media_name, value = next(iter(content.items()))
            media, at = self.resolved(value, joined_pointer(where, "content", media_name))
            schema, is_json, where = media.get("schema"), True, at
        explode = said.get("explode", style in ("form", "cookie"))
        required, reserved = place == "path" or said.get("required") is True, said.get("allowReserved") is True
        return Parameter(
            name, place, required, style, explode is True, reserved, schema, is_json, str(said.get("description") or ""), joined_pointer(where, "schema")
        )

    def _body(self, said: Mapping[str, Any], where: str) -> RequestContent | None:
        if said.get("requestBody") is None:
            return None
        body, at = self.resolved(said["requestBody"], joined_pointer(where, "requestBody"))
        types = tuple(self.media_types(body, at))
        return RequestContent(body.get("required") is True, types, str(body.get("description") or "")) if types else None

    def media_types(self, holder: Mapping[str, Any], where: str) -> Iterator[MediaType]:
        """The content types of a body or a response."""
        for name, value in self.mapping(holder, "content", where).items():
            media, at = self.resolved(value, joined_pointer(where, "content", name))
            yield MediaType(name, media.get("schema"), self.mapping(media, "encoding", at), joined_pointer(at, "schema"))

    def response(self, operation: ApiOperation, status: int) -> tuple[Mapping[str, Any], str] | None:
        """What the document says of a response of this status, and where; None if it says nothing."""
        for key in (str(status), f"{status // 100}XX", f"{status // 100}xx", "default"):
            if key in operation.responses:
                return self.resolved(operation.responses[key], joined_pointer(operation.where, "responses", key))
        return None
