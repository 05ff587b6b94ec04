"""The kind `openapi`: its declaration, the checks of a step against its document, and the function that performs a step.

A step becomes a request of the kind `http`, and is sent as one: the same guard of addresses, the same limits, and the same rules for what is retried.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from perdure.code.step_environment import StepInfo, step_info
from perdure.core.errors import MissingExtra
from perdure.core.paths import UNDO
from perdure.definitions.format.format_schema import schema_of_shape
from perdure.definitions.format.shapes import is_computed, is_template
from perdure.definitions.format.verb_shapes import OPENAPI_SHAPE
from perdure.definitions.graph.step_kind import Kind, Limit
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.file.confined_directory import FileRefused, path_parts
from perdure.definitions.kinds.http import http_kind, http_request
from perdure.definitions.kinds.http.http_errors import InDoubt, RequestError, ResponseRefused
from perdure.definitions.kinds.http.http_request import REPEATABLE, HttpRequest
from perdure.definitions.kinds.http.http_targets import ReachableAddresses
from perdure.definitions.kinds.openapi import document_sources
from perdure.definitions.kinds.openapi.api_description import DOCUMENT_BYTES_MAX, ApiOperation, Parameter
from perdure.definitions.kinds.openapi.auth_profiles import AuthFields, auth_fields, auth_profiles, find_profile
from perdure.definitions.kinds.openapi.document_sources import SourcedDocument
from perdure.definitions.kinds.openapi.openapi_errors import DocumentRefused, OperationRefused
from perdure.definitions.kinds.openapi.operation_request import accepted_names, operation_values, param_problems, request_config, server_url
from perdure.definitions.kinds.openapi.operation_response import accepted_types, response_problems

PASSED_ON = ("as", "accept", "redirects", "max_bytes", "idempotency_key")
"""The fields of a step that mean what they mean in a step `http`."""

FIELDS = (*(field.name for field in OPENAPI_SHAPE.fields), "idempotent")
_BY_METHOD = re.compile(r"\s*([A-Za-z]+)\s+/")

OUTPUT = {
    "type": "object",
    "properties": {
        **http_kind.OUTPUT["properties"],  # type: ignore[dict-item]  # it is a mapping
        "operation": {"type": "string", "description": "its id, or its method and path"},
        "problems": {"type": "array", "description": "what in the response is not as the document says, as texts"},
    },
    "required": [*http_kind.OUTPUT["required"], "operation", "problems"],
}
CONFIG = {"anyOf": [schema_of_shape(OPENAPI_SHAPE), {"type": "null", "description": "of a task: all of it stands in its input"}]}
INPUT = {"type": ["object", "null"], "description": "further parameters, laid over `params`; they may contain secrets"}
LIMITS = (
    Limit("the document", f"{DOCUMENT_BYTES_MAX:,} bytes", None, "the step fails"),
    Limit("names and values of a document in YAML", "150,000", None, "the step fails; JSON is read faster, and up to the limit of bytes"),
    Limit("age of a document that was fetched", f"{document_sources.FRESH_S:g} s", None, "its URL is asked again"),
    *http_kind.LIMITS,
)
IDEMPOTENCY = (
    "GET, HEAD, OPTIONS, TRACE, PUT and DELETE are sent again after an interruption; POST and PATCH only if the step says `idempotent: true`, and otherwise "
    "fail. The method is that of the document. Idempotency-Key is sent as by `http`, and the same is retried."
)
EXAMPLE = """
perdure: 1
name: adopt
input: {kind: {type: string}, api: {type: string, default: "https://pets.example"}}
order: listed
steps:
  - id: found
    openapi: {url: "@{input.api}/openapi.json", operation: listPets, params: {kind: "@input.kind", limit: 1}}
  - id: adopted
    openapi:
      url: "@{input.api}/openapi.json"
      operation: POST /pets/{id}/adoptions
      params: {id: "@found.body[0].id", body: {by: ada}}
output: {name: "@found.body[0].name", adoption: "@adopted.body.id"}
"""


def openapi_kind(deployment: Deployment) -> Kind:
    """The kind `openapi` of a deployment.

    Raises:
        BadValue: the allowed hosts or an auth profile are invalid.
    """
    _ = ReachableAddresses.of(deployment.allowed.http), auth_profiles(deployment)

    async def run(config: Any = None, input: Any = None, env: Any = None) -> dict[str, Any]:
        return await perform_operation(config, input, deployment)

    def check_step(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        yield from check_openapi_step(step, deployment)

    return Kind(
        "openapi",
        run,
        title="Operation of an API",
        summary="Calls an operation that an OpenAPI document describes: parameters are checked by the document and put where it says.",
        icon="plug",
        config=CONFIG,
        input=INPUT,
        output=OUTPUT,
        limits=LIMITS,
        idempotent=may_be_repeatable,
        idempotency=IDEMPOTENCY,
        check=check_config,
        check_step=check_step,
        is_told_idempotence=True,
        extra="http",
        example=EXAMPLE,
    )


def may_be_repeatable(config: Any) -> bool:
    """Whether an interrupted step may be attempted again. Where only the document says the method, `perform_operation` refuses what may not be repeated."""
    named = config.get("operation") if isinstance(config, Mapping) else None
    match = _BY_METHOD.match(named) if isinstance(named, str) else None
    return match is None or match[1].upper() in REPEATABLE


async def perform_operation(config: Any, input: Any, deployment: Deployment) -> dict[str, Any]:
    """Performs a step: `input` are parameters that are laid over those of `config`; without a config it is the whole step.

    Raises:
        OperationRefused, DocumentRefused, AuthRefused, MissingSecret: nothing was sent.
        InDoubt: an attempt was interrupted that may have carried out an operation that is not idempotent.
        ResponseRefused: the response is not as the document says, and the step asks for that.
        RequestError, AddressRefused, NoResponse, StatusRefused, StatusTransient: as a step `http` would fail.
    """
    try:
        from perdure.definitions.kinds.http import guarded_network, http_exchange  # here, as they take a library that is optional
    except ImportError:
        raise MissingExtra("a step of the kind openapi", "httpx2", "http") from None
    info, loop = step_info(), asyncio.get_running_loop()
    ends_s = loop.time() + http_kind.attempt_limit_s(info.timeout_s)
    given = _given(config, input)
    said = given.config
    sourced = await document_sources.load_document(said, deployment, info.key, ends_s - loop.time())
    operation = sourced.document.operation(said["operation"])
    is_declared = said.get("idempotent") is True or info.path[0] == UNDO  # every undo is repeated until it has succeeded
    if info.interruptions and operation.method not in REPEATABLE and not is_declared:
        why = "an attempt was interrupted, so it may have been carried out, and the step is not declared idempotent"
        raise InDoubt(f"{operation.label}: {why}; find out, then retry the execution")
    request = await _request(given, sourced, operation, deployment, info)
    pool = await guarded_network.guarded_connections(deployment.allowed.http)
    answer = await http_exchange.HttpExchange(pool, request, info.key).result(max(ends_s - loop.time(), 0.001))
    return {**answer, "operation": operation.id or f"{operation.method} {operation.path}", "problems": await _checked(said, sourced, operation, answer)}


class GivenStep(NamedTuple):
    """The config of a step, its parameters, and the names of those that may hold secrets, as they came from the input."""

    config: Mapping[str, Any]
    params: dict[str, Any]
    secret: frozenset[str]


def _given(config: Any, input: Any) -> GivenStep:
    said, further = (input, None) if config is None else (config, input)
    if not isinstance(said, Mapping) or not isinstance(further, Mapping | None):
        raise OperationRefused("", "openapi and `with` must be mappings")
    for where, what in check_config(said, is_final=True):
        raise OperationRefused(where, what)
    params = {**(said.get("params") or {}), **(further or {})}
    return GivenStep(said, params, frozenset(params if config is None else further or ()))


async def _request(given: GivenStep, sourced: SourcedDocument, operation: ApiOperation, deployment: Deployment, info: StepInfo) -> HttpRequest:
    said, document, profile_name = given.config, sourced.document, str(given.config.get("auth") or "")
    profile = find_profile(deployment, profile_name) if profile_name else None
    base = profile.server if profile is not None and profile.server else server_url(document, operation, sourced.address, said.get("variables") or {})
    fields = request_config(document, operation, base, operation_values(document, operation, given.params))
    auth = AuthFields() if profile is None else await auth_fields(profile_name, profile, fields["url"], info, deployment)
    headers = {**fields["headers"], **auth.headers}
    if auth.cookie:
        headers["Cookie"] = "; ".join(filter(None, (headers.get("Cookie", ""), auth.cookie)))
    if types := accepted_types(document, operation):
        headers.setdefault("Accept", f"{types}, */*;q=0.1")
    passed = {name: said[name] for name in PASSED_ON if name in said}
    try:
        request = http_request.build_request({**fields, **passed, "headers": headers, **({"query": auth.query} if auth.query else {})}, None)
    except RequestError as error:
        raise OperationRefused("", f"the request of {operation.label} can't be sent: {error.what}") from None
    places = {one.place for name, one in accepted_names(operation).items() if name in given.secret and isinstance(one, Parameter)}
    in_url = "url" if "path" in places else "query" if "query" in places or auth.query else ""
    return dataclasses.replace(request, secret=in_url, secret_body="body" in given.secret)  # type: ignore[arg-type]  # it is one of the three


async def _checked(said: Mapping[str, Any], sourced: SourcedDocument, operation: ApiOperation, answer: Mapping[str, Any]) -> list[str]:
    """The problems of a response, as the step asks for them.

    Raises:
        ResponseRefused: there are some, and the step is to fail then.
    """
    check = said.get("check_response", "warn")
    if check == "ignore":
        return []
    problems = await asyncio.to_thread(lambda: list(response_problems(sourced.document, operation, answer)))
    if problems and check == "fail":
        raise ResponseRefused(f"{operation.label}: {'; '.join(problems)}")
    return problems


def check_config(config: Any, is_final: bool = False) -> Iterator[tuple[str, str]]:
    """The problems of a config beyond its schema, as JSON pointers and texts. Unless it `is_final`, values with references are passed over."""
    if not isinstance(config, Mapping):
        return
    yield from ((f"/{name}", f"it is no field of openapi, which has {', '.join(FIELDS[:-1])}") for name in config if name not in FIELDS)
    if ("url" in config) is ("file" in config):
        yield "", "it has either url or file, where the document is"
    elif not isinstance(place := config.get("url", config.get("file")), str) or not place:
        yield "/url" if "url" in config else "/file", "the place of the document is text"
    if not isinstance(config.get("operation"), str):
        yield "/operation", "an operation is named by its id, or as GET /pets/{id}"
    for name in ("params", "variables"):
        if not isinstance(config.get(name), Mapping | None):
            yield f"/{name}", f"{name} are a mapping of names to values"
    for name in ("url", *PASSED_ON):
        if name in config and (is_final or not is_computed(config[name])):
            try:
                _ = http_request.FIELD_READERS[name](config[name])
            except RequestError as error:
                yield f"/{name}", error.what
            except MissingExtra:
                continue  # who runs it needs the library, who checks it not
    if isinstance(file := config.get("file"), str) and (is_final or not is_template(file)):
        try:
            _ = path_parts(file)
        except FileRefused as refused:
            yield "/file", str(refused)


def check_openapi_step(step: Mapping[str, Any], deployment: Deployment) -> Iterator[tuple[str, str]]:
    """The problems of a whole step beyond its config: those that its document shows, if that is a file or was fetched before."""
    if step.get("env"):
        yield "", "a request has no environment; put what is in `env` into `params` or `with`"
    config, given = step.get("openapi"), step.get("with")
    if (
        not isinstance(config, Mapping)
        or any(True for _ in check_config(config))
        or any(is_computed(config.get(name)) for name in ("url", "file", "operation"))
    ):
        return
    try:
        document = document_sources.known_document(config, deployment)
        if document is None:
            return
        operation = document.operation(config["operation"])
        params = config.get("params") or {}
        if isinstance(params, Mapping) and isinstance(given, Mapping | None) and not is_computed(params) and not is_computed(given):
            yield from param_problems(document, operation, {**params, **(given or {})}, is_final=False)
    except OperationRefused as error:
        yield error.where, error.what
    except (DocumentRefused, FileRefused) as error:
        yield "", str(error)
