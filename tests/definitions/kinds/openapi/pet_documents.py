"""A document of an API, with parameters in every place and style, and the bodies and responses that tests need."""

import json
from copy import deepcopy
from typing import Any

from perdure.definitions.kinds.openapi.api_description import OpenapiDocument

STYLED = [
    {"name": "form", "in": "query", "schema": {}},
    {"name": "short", "in": "query", "explode": False, "schema": {}},
    {"name": "piped", "in": "query", "style": "pipeDelimited", "explode": False, "schema": {}},
    {"name": "spaced", "in": "query", "style": "spaceDelimited", "explode": False, "schema": {}},
    {"name": "deep", "in": "query", "style": "deepObject", "schema": {}},
    {"name": "path", "in": "query", "allowReserved": True, "schema": {}},
    {"name": "json", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
    {"name": "X-List", "in": "header", "schema": {}},
    {"name": "X-Object", "in": "header", "explode": True, "schema": {}},
    {"name": "session", "in": "cookie", "schema": {}},
]
PET: dict[str, Any] = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "name": {"type": "string", "minLength": 1},
        "tag": {"type": "string", "nullable": True},
        "parent": {"$ref": "#/components/schemas/Pet"},
    },
}
OK: dict[str, Any] = {"200": {"description": "ok", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "/v1"}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "summary": "All pets",
                "parameters": [
                    {"name": "kind", "in": "query", "required": True, "schema": {"type": "string", "enum": ["cat", "dog"]}},
                    {"$ref": "#/components/parameters/Limit"},
                ],
                "responses": {
                    "200": {"description": "ok", "content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}}}
                },
            },
            "post": {
                "operationId": "addPet",
                "requestBody": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
                "responses": {"201": OK["200"]},
            },
        },
        "/pets/{id}": {
            "parameters": [
                {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
                {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
            ],
            "get": {"operationId": "getPet", "responses": OK},
            "put": {"operationId": "putPet", "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}, "responses": OK},
            "patch": {"requestBody": {"content": {"application/merge-patch+json": {}}}, "responses": OK},
            "delete": {"operationId": "deletePet", "parameters": [{"name": "id", "in": "query", "schema": {"type": "string"}}], "responses": {"204": {}}},
        },
        "/styles": {"get": {"operationId": "styles", "parameters": STYLED, "responses": {}}},
        "/files/{name}": {
            "get": {"operationId": "getFile", "parameters": [{"name": "name", "in": "path", "required": True, "schema": {}}], "responses": {}},
            "post": {
                "operationId": "upload",
                "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}],
                "requestBody": {
                    "content": {
                        "multipart/form-data": {
                            "schema": {"type": "object", "properties": {"title": {"type": "string"}, "file": {"type": "string", "format": "binary"}}},
                            "encoding": {"file": {"contentType": "text/csv"}},
                        }
                    }
                },
                "responses": {},
            },
        },
        "/login": {
            "post": {
                "operationId": "login",
                "requestBody": {
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "schema": {"type": "object", "required": ["user"], "properties": {"user": {"type": "string"}, "password": {"type": "string"}}}
                        }
                    }
                },
                "responses": {},
            }
        },
    },
    "components": {
        "schemas": {"Pet": PET},
        "parameters": {"Limit": {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}}},
    },
}


def pets(**changes: Any) -> dict[str, Any]:
    """The document with other fields."""
    return {**deepcopy(DOCUMENT), **changes}


def with_operation(operation: Any, path: str = "/x", **changes: Any) -> dict[str, Any]:
    """A document of one operation, `GET` of a path."""
    return {"openapi": "3.0.0", "paths": {path: {"get": operation}}, **changes}


def read(data: Any) -> OpenapiDocument:
    """A document that was read from JSON."""
    return OpenapiDocument.read("pets.json", json.dumps(data))
