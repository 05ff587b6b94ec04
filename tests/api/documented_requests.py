"""Requests made at random from the OpenAPI document, right ones and slightly wrong ones, and a check that each answer is as the document says.

python -m tests.api.documented_requests [SEED]     prints what does not fit
"""

import asyncio
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import jsonschema_rs

from perdure.operations.operation_table import OPERATIONS
from tests.api.api_setup import Answer, Api, api_in_process

TEXTS = (
    "",
    "x",
    "calc",
    "greet",
    "default",
    "a b",
    "ä/ö",
    "perdure.approval",
    "\0",
    "%",
    "'",
    "\U0001f600",
    "@latest",
    "1h",
    "2026-11-28T07:00:00Z",
    "a=1",
    "x" * 5_000,
    "..",
)
INTEGERS = (0, 1, 2, -1, 100, 2**31, 2**53 + 1, 2**63, 2**64, 10**30)
NUMBERS = (0, 0.5, 1, -1, 1e-9, 1e12, 1e308, 10**400)
QUERIED_NUMBERS = (*map(str, INTEGERS), "nan", "inf", "-inf", "1e999", "1.5", "²", "", "1_0", " 1")
ANYTHING: tuple[Any, ...] = (None, True, 0, 1.5, "x", [], {}, [1, [2]], {"a": {"b": [None]}}, 2**70, "\0", {"": ""}, {"$ref": "x"}, {"type": "start"})
WAITS = frozenset({"wait", "waitSeconds", "timeoutSeconds", "follow"})
"""What would make a request last. It is left out, and its default is not to wait."""

DOCUMENT = {"perdure": 1, "name": "made", "steps": [{"id": "one", "set": {"a": 1}}]}
KNOWN: dict[str, tuple[Any, ...]] = {
    "workflow": ("calc", "greet", "trip", "none"),
    "id": ("done", "none"),
    "definition": ("made", "none"),
    "slug": ("made", "none"),
    "reference": ("made", "made@latest", "made@^1", "none", "none@1"),
    "document": (DOCUMENT, {**DOCUMENT, "name": "other"}, {"perdure": 1}, {}),
    "queue": ("mails", "none"),
    "status": ("completed", "failed", ["completed", "failed"]),
    "role": ("viewer",),
    "step": ("add", "none"),
    "name": ("named", "none"),
}
"""Values that mean something to the API of the tests, by the names of parameters."""


MADE: tuple[tuple[str, str, list[Any]], ...] = (("calc", "done", [1]), ("calc", "failed", [-1]), ("greet", "waiting", []), ("trip", "asking", ["Rome"]))
"""The executions that are there: their workflows, ids and inputs."""


PREPARED_EVERY = 20
"""After so many requests new executions are made to ask for: some requests end or remove those that are there."""


class DocumentedRequest(NamedTuple):
    """A request: the operation that it is for, the method, the path with its query, and the body (None: none)."""

    operation: str
    method: str
    path: str
    body: Any = None

    def __str__(self) -> str:
        return f"{self.method} {self.path[:300]} {'' if self.body is None else json.dumps(self.body)[:600]}"


class RequestSource:
    """Makes requests from a document, at random."""

    def __init__(self, document: dict[str, Any], seed: int) -> None:
        self.document, self._random = document, random.Random(seed)
        self.executions: list[tuple[str, str]] = [("none", "none")]
        self.approvals: list[str] = []
        self.operations = {
            (path, method): described for path, methods in document["paths"].items() for method, described in methods.items() if "operationId" in described
        }

    def request(self, path: str, method: str) -> DocumentedRequest:
        """A request for one operation; about one in three is wrong on purpose."""
        described = self.operations[path, method]
        filled, query = path, list[tuple[str, str]]()
        if "{workflow}/{id}" in path and self._random.random() < 0.8:
            filled = path.replace("{workflow}/{id}", "/".join(self._random.choice(self.executions)))
        elif path.startswith("/api/approvals/{id}") and self.approvals and self._random.random() < 0.8:
            filled = path.replace("{id}", quote(self._random.choice(self.approvals), safe=""))
        for parameter in (one for one in described["parameters"] if "$ref" not in one):  # those are headers
            name, schema = parameter["name"], parameter["schema"]
            if parameter["in"] == "path":
                text = str(self._known(name) if self._random.random() < 0.8 else self._random.choice(TEXTS)) or "x"
                filled = filled.replace(f"{{{name}}}", quote(text, safe=""))
            elif name not in WAITS and (parameter["required"] or self._random.random() < 0.3) and self._random.random() < 0.95:
                query += [(name, self._queried(name, schema)) for _ in range(1 if self._random.random() < 0.95 else 2)]
        content = described.get("requestBody", {}).get("content", {}).get("application/json")
        body = None if content is None else self._object(content["schema"])
        if isinstance(body, dict) and self._random.random() < 0.05:
            body["nothing"] = 1
        return DocumentedRequest(described["operationId"], method.upper(), f"{filled}?{urlencode(query)}" if query else filled, body)

    def _known(self, name: str) -> Any:
        return self._random.choice(KNOWN.get(name, TEXTS))

    def _queried(self, name: str, schema: dict[str, Any]) -> str:
        kinds = schema.get("type", "string")
        if self._random.random() < 0.1:
            return self._random.choice(TEXTS)
        if "integer" in kinds or "number" in kinds:
            return self._random.choice(QUERIED_NUMBERS)
        if "boolean" in kinds:
            return self._random.choice(("true", "false", "1", "yes"))
        found = self._known(name)
        return found if isinstance(found, str) else ",".join(map(str, found)) if isinstance(found, list) else json.dumps(found)

    def _object(self, schema: dict[str, Any]) -> Any:
        schema = self._resolved(schema)
        if self._random.random() < 0.03:
            return self._random.choice(ANYTHING)
        required = schema.get("required", ())
        return {
            name: self._value(name, its)
            for name, its in schema.get("properties", {}).items()
            if name not in WAITS and (self._random.random() < 0.97 if name in required else self._random.random() < 0.25)
        }

    def _value(self, name: str, schema: dict[str, Any], depth: int = 0) -> Any:
        schema = self._resolved(schema)
        if not schema or self._random.random() < 0.08:
            return self._random.choice(ANYTHING)
        if name in KNOWN and self._random.random() < 0.7:
            return self._known(name)
        if "enum" in schema:
            return self._random.choice([*schema["enum"], "none"])
        for alternatives in ("anyOf", "oneOf"):
            if alternatives in schema:
                return self._value(name, self._random.choice(schema[alternatives]), depth)
        if "allOf" in schema:
            parts = [self._value(name, one, depth) for one in schema["allOf"]]
            return {field: its for part in parts if isinstance(part, dict) for field, its in part.items()}
        if "const" in schema:
            return schema["const"]
        kinds = schema["type"]
        match kinds if isinstance(kinds, str) else self._random.choice(kinds):
            case "string":
                return self._random.choice(TEXTS)
            case "integer":
                return self._random.choice(INTEGERS)
            case "number":
                return self._random.choice(NUMBERS)
            case "boolean":
                return self._random.random() < 0.5
            case "array":
                return [self._value("", schema.get("items", {}), depth + 1) for _ in range(self._random.randrange(3 if depth < 3 else 1))]
            case "object" if "properties" in schema:
                return self._object(schema)
            case "object":
                return self._random.choice(({}, {"a": 1}, {"a": 1, "b": [2]}))
        return None

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        return found


class AnswerCheck:
    """Checks answers against a document. What it does not describe is wrong: a status, a media type, a field."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._operations = {one["operationId"]: one for methods in document["paths"].values() for one in methods.values() if "operationId" in one}
        self._open: dict[str, Any] = document["components"]["schemas"]
        self._components = {name: _closed(schema, self._open) for name, schema in self._open.items()}
        self._validators: dict[tuple[str, str, str], Any] = {}

    def complaint(self, operation: str, answer: Answer) -> str:
        """What is wrong with an answer; empty if nothing is."""
        described = self._operations[operation]["responses"].get(str(answer.status))
        if answer.status >= 500 and (answer.status != 504 or described is None):  # a 504 says that a process is missing for whose answer the operation waits
            return f"{answer.status}: {answer.body[:500]!r}"
        if described is None:
            return f"the status {answer.status} is not described: {answer.body[:300]!r}"
        content = described.get("content", {})
        if not answer.body:
            return f"{answer.status} has no body, and {' or '.join(content)} is described" if content else ""
        kind = answer.headers["content-type"].partition(";")[0]
        if kind not in content:
            return f"the media type {kind} of {answer.status} is not described"
        if "json" not in kind:
            return ""
        if kind == "application/problem+json" and answer.json.get("code") not in described.get("description", "").split(", "):
            return f"the code of {answer.status} is not described: {answer.body[:300]!r}"
        place = (operation, str(answer.status), kind)
        if place not in self._validators:
            schema = {**_closed(content[kind]["schema"], self._open), "components": {"schemas": self._components}}
            self._validators[place] = jsonschema_rs.Draft202012Validator(schema)
        errors = [f"{'/'.join(map(str, error.instance_path))}: {error.message[:300]}" for error in self._validators[place].iter_errors(answer.json)]
        return f"{answer.status} is not as described: {'; '.join(errors[:3])}" if errors else ""


def _closed(schema: Any, components: dict[str, Any]) -> Any:
    """A schema whose objects have only the fields that it describes. Of what has to satisfy all of several schemas, these are the fields of all."""
    if isinstance(schema, list):
        return [_closed(one, components) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "allOf" in schema:
        parts = [components[one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in schema["allOf"]]
        properties = {name: field for part in parts for name, field in part["properties"].items()}
        return _closed({"type": "object", "properties": properties, "required": [name for part in parts for name in part.get("required", ())]}, components)
    found = {name: _closed(one, components) for name, one in schema.items()}
    return {**found, "additionalProperties": False} if "properties" in found and "additionalProperties" not in found else found


async def prepare(api: Api, source: RequestSource, name: str) -> None:
    """Makes executions and definitions to ask for."""
    source.executions = [("none", "none"), *((workflow, f"{name} {id}") for workflow, id, _ in MADE)]
    for workflow, id, given in MADE:
        _ = await api("POST", "/api/executions", {"workflow": workflow, "id": f"{name} {id}", "input": given, "attributes": {"a": 1}})
    for id in ("done", "failed"):
        _ = await api("GET", f"/api/executions/calc/{quote(f'{name} {id}')}/result?waitSeconds=10")
    _ = await api("POST", "/api/workflows", {"document": DOCUMENT})
    source.approvals = [one["id"] for one in (await api("GET", "/api/approvals")).json["items"]]


WAITING = frozenset(one.name for one in OPERATIONS if one.may_wait({}))
"""Operations that wait for an answer, which may be one that nothing here gives."""


async def complaints(api: Api, seed: int, count: int) -> list[tuple[DocumentedRequest, str]]:
    """Sends `count` requests for each operation, and returns those whose answers are wrong."""
    document = (await api("GET", "/openapi.json")).json
    source, check = RequestSource(document, seed), AnswerCheck(document)
    found: list[tuple[DocumentedRequest, str]] = []
    for number, place in enumerate(source.operations):
        for tried in range(count):
            if (number * count + tried) % PREPARED_EVERY == 0:
                await prepare(api, source, f"e{number}.{tried}")
            request = source.request(*place)
            try:
                async with asyncio.timeout(0.5 if request.operation in WAITING else 5.0):
                    answer = await api(request.method, request.path, request.body)
                wrong = check.complaint(request.operation, answer)
            except TimeoutError:
                wrong = "" if request.operation in WAITING else "no answer within 5 s"
            except Exception as error:  # a defect of any kind
                wrong = f"{type(error).__name__}: {error}"[:500]
            if wrong:
                found.append((request, wrong))
    return found


async def main(seed: int) -> None:
    """Prints what does not fit."""
    with tempfile.TemporaryDirectory() as directory:
        async with api_in_process(Path(directory)) as api:
            for request, wrong in await complaints(api, seed, 40):
                sys.stdout.write(f"{request.operation}: {request}\n    {wrong}\n")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
