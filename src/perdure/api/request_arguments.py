"""Reads the arguments of an operation from a request: its path, its query and its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from perdure.api.json_forms import FieldForm, Schema, camel, form_of, read_fields, struct_fields
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.operations.operation_table import FILLED_IN, NO_DEFAULT, Operation
from perdure.operations.route_aliases import RouteAlias


class ArgumentGroup(NamedTuple):
    """A parameter whose fields are those of the request itself."""

    name: str
    kind: type[msgspec.Struct]
    fields: list[FieldForm]


class RequestArguments:
    """The arguments of one operation, at its own route or at an alias.

    `fields` are what a request gives beside the key in its path; `groups` the parameters whose fields are among them.
    """

    def __init__(self, operation: Operation, alias: RouteAlias | None = None) -> None:
        self.operation, self.alias = operation, alias
        self.method, self.path = (operation.method, operation.path) if alias is None else (alias.method, alias.path)
        self.in_path = [part[1:-1] for part in self.path.split("/") if part.startswith("{")]
        self.takes_key = any(one.name == "key" for one in operation.parameters)
        self.groups: list[ArgumentGroup] = []
        self._plain: list[FieldForm] = []
        for one in (one for one in operation.parameters if one.name not in FILLED_IN):
            if one.name in operation.spread:
                self.groups.append(ArgumentGroup(one.name, one.type, struct_fields(one.type)))
            elif one.name != "key":
                default = msgspec.NODEFAULT if one.default is NO_DEFAULT else one.default
                self._plain.append(FieldForm(one.name, camel(one.name), form_of(one.type, one.name), default))
        if operation.has_plan:
            self._plain.append(FieldForm("dry_run", "dryRun", form_of(bool, "dry_run"), False))
        if alias is not None:
            named = {name: theirs for theirs, name in alias.names.items()}
            self._plain = [_renamed(field, named) for field in self._plain]
            self.groups = [group._replace(fields=[_renamed(field, named) for field in group.fields]) for group in self.groups]
        every = [*self._plain, *(field for group in self.groups for field in group.fields)]
        self.fields = [field for field in every if field.json_name not in self.in_path]
        self._fields_in_path = [field for field in every if field.json_name in self.in_path]
        self._needed = [field for field in self.fields if field.default is msgspec.NODEFAULT]
        self.places = {name: f"/{name}" for name in self.in_path}
        """The places of arguments as JSON pointers, by their names in Python, with and without a unit at the end."""
        for field in every:
            self.places |= dict.fromkeys((field.name, field.name.removesuffix("_s")), f"/{field.json_name}")
        self.makes_key = any(field.name == "key" for group in self.groups for field in group.fields)

    def read(self, path: Mapping[str, str], given: Mapping[str, Any], tenant: str, new_id: str = "") -> dict[str, Any]:
        """Reads arguments from the parameters in the path, and those in the query or the body. What a start leaves out is its id, for which `new_id` is used.

        Raises:
            BadValue: one is missing, unknown, or wrong.
        """
        found: dict[str, Any] = {}
        left = dict(given) if self.alias is None else {**given, **self.alias.fixed}
        for other, name in self.operation.other_names.items():
            if other in left and name not in left:  # if both are given, the other is refused as no field
                left[name] = left.pop(other)
        if self.takes_key:
            found["key"] = Key(tenant, path.get("workflow", "perdure.approval"), path["id"])
        if self.makes_key and left.get("id") is None:
            left["id"] = new_id or uuid4().hex
        if self.makes_key and self.operation.is_workflow_optional:
            left.setdefault("workflow", "")
        read = read_fields(self.fields, left, "", tenant) if left else {}
        for field in self._fields_in_path:
            if field.json_name in path:
                read[field.name] = field.form.read(path[field.json_name], f"/{field.json_name}", tenant)
        for field in self._needed:
            if field.name not in read:
                message = f"/{field.json_name}: it is missing; {self.operation.name} needs it"
                raise BadValue(f"/{field.json_name}", None, "given", message)
        for group in self.groups:
            found[group.name] = _made(group, {field.name: read.pop(field.name) for field in group.fields if field.name in read}, tenant)
        return found | read

    def named_in_body(self, given: dict[str, Any]) -> dict[str, str]:
        """Takes the parameters of the path out of a body that has all arguments, and returns them.

        Raises:
            BadValue: one is missing, or is no text.
        """
        for name in self.in_path:
            if not isinstance(given.get(name), str):
                raise BadValue(f"/{name}", given.get(name), "text", f"/{name}: it is missing, or no text; {self.operation.name} needs it")
        return {name: given.pop(name) for name in self.in_path}

    def from_query(self, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Returns what a query gives, each text as the type that its field has.

        Raises:
            BadValue: a text is no number, or one field is given twice.
        """
        if not query:
            return {}
        schemas = {field.json_name: field.form.schema for field in self.fields}
        return {name: _typed(f"/{name}", texts, schemas.get(name, {})) for name, texts in query.items()}


def _renamed(field: FieldForm, named: Mapping[str, str]) -> FieldForm:
    return field._replace(json_name=named.get(field.json_name, field.json_name))


def _made(group: ArgumentGroup, read: dict[str, Any], tenant: str) -> Any:
    if "tenant" in group.kind.__struct_fields__:
        read["tenant"] = tenant
    return group.kind(**read)


def _typed(where: str, texts: Sequence[str], schema: Schema) -> Any:
    kinds = schema.get("type", "string")
    kind = next((one for one in ([kinds] if isinstance(kinds, str) else kinds) if one != "null"), "string")
    if kind == "array":
        return [_typed(where, [part], schema.get("items", {})) for text in texts for part in text.split(",")]
    if len(texts) > 1:
        raise BadValue(where, list(texts), "given once")
    text = texts[0]
    try:
        match kind:
            case "integer":
                return int(text)
            case "number":
                return float(text)
    except ValueError:
        raise BadValue(where, text, "a number") from None
    if kind == "boolean":
        if text not in ("true", "false", "1", "0"):
            raise BadValue(where, text, "true or false")
        return text in ("true", "1")
    return text
