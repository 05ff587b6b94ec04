"""A tool for models, and how one is made of an operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from perdure.api.json_forms import Schema
from perdure.api.request_arguments import RequestArguments
from perdure.mcp_server.bounded_results import json_text
from perdure.mcp_server.operation_requests import OperationRequests
from perdure.mcp_server.tool_arguments import object_schema, operation_schemas, read_arguments
from perdure.operations import on_executions
from perdure.operations.operation_table import BY_FUNCTION

NO_NAMES: Mapping[str, Any] = {}


class ModelAnswer(NamedTuple):
    """What a tool answers: a value, what to do next (empty: it follows from the value), and whether that says that the work of the tool failed."""

    value: Any
    next_step: str = ""
    is_error: bool = False


class ToolHints(NamedTuple):
    """What a client is told of a tool, so that it may call it without asking: whether it only reads, may be repeated, or may destroy something."""

    reads_only: bool
    is_repeatable: bool
    is_destructive: bool = False


class ModelTool(Protocol):
    """A tool. A caller has it who may call all of its `functions`, which are in the table of operations."""

    @property
    def name(self) -> str:
        """Its name, of up to 64 of the characters a-z, A-Z, 0-9, _ and -."""
        ...

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions of the operations that it calls."""
        ...

    @property
    def description(self) -> str:
        """What it does, for a model, with an example."""
        ...

    @property
    def input_schema(self) -> Schema:
        """The JSON Schema of its arguments."""
        ...

    @property
    def hints(self) -> ToolHints:
        """What a client is told of it."""
        ...

    @property
    def read_by(self) -> str:
        """The tool by which a part of a result is read that was cut."""
        ...

    async def __call__(self, requests: OperationRequests, arguments: Mapping[str, Any]) -> ModelAnswer:
        """Does its work.

        Raises:
            RequestRefused: an argument is wrong, or an operation was refused or failed.
        """
        ...


def described(says: str, example: Mapping[str, Any]) -> str:
    """Returns the description of a tool with an example of its arguments."""
    return f"{says}\n\nExample: {json_text(example)}"


class SingleOperationTool:
    """A tool that performs one operation.

    `names` are the names of arguments here, each with that of the operation; `fixed` are arguments that the tool itself gives; `left_out` are arguments that a
    model does not need; `preset` are other defaults; `about` says what arguments mean; `hidden` are fields of the result that are not shown. Of an execution,
    the id alone may be given; its workflow is then looked up.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        says: str,
        example: Mapping[str, Any],
        *,
        names: Mapping[str, str] = NO_NAMES,
        fixed: Mapping[str, Any] = NO_NAMES,
        left_out: tuple[str, ...] = (),
        preset: Mapping[str, Any] = NO_NAMES,
        read_by: str = "",
        is_destructive: bool = False,
        about: Mapping[str, str] = NO_NAMES,
        hidden: tuple[str, ...] = (),
    ) -> None:
        self.name, self.function, self.says, self.example = name, function, says, example
        self.names, self.fixed, self.left_out, self.preset, self.about = names, fixed, frozenset(left_out), preset, about
        self._hidden = frozenset(hidden)
        self.operation = BY_FUNCTION[function]
        reads = self.operation.role == "viewer" or self.operation.method == "GET"
        self.hints = ToolHints(reads, self.operation.is_repeatable, is_destructive or self.operation.method == "DELETE")
        self.read_by = read_by or (name if reads else "")
        self.description = described(says, example)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The operation."""
        return (self.function,)

    @cached_property
    def _reader(self) -> RequestArguments:
        return RequestArguments(self.operation)

    @cached_property
    def _finds_workflow(self) -> bool:
        return self._reader.takes_key and "workflow" in self._reader.in_path

    @cached_property
    def input_schema(self) -> Schema:
        """The schema of the arguments, from those of the operation."""
        theirs = {theirs: ours for ours, theirs in self.names.items()}
        found = {theirs.get(name, name): one for name, one in operation_schemas(self._reader).items() if name not in self.fixed and name not in self.left_out}
        properties = {name: schema for name, (schema, _) in found.items()}
        required = [name for name, (_, needed) in found.items() if needed]
        return object_schema(properties, required, {name: self._more(name, schema) for name, schema in properties.items()})

    def _more(self, name: str, schema: Schema) -> Schema:
        about = self.about.get(name) or (ARGUMENTS.get(name, "") if "description" not in schema else "")
        return {**({"description": about} if about else {}), **({"default": self.preset[name]} if name in self.preset else {})}

    async def __call__(self, requests: OperationRequests, arguments: Mapping[str, Any]) -> ModelAnswer:
        """Performs the operation."""
        given = {**self.preset, **read_arguments(self.input_schema, arguments)}
        sent = {self.names.get(name, name): value for name, value in given.items()} | dict(self.fixed)
        if self._finds_workflow:
            sent |= await key_of(requests, sent)
        result = await requests(self.function, sent)
        if result is None:
            return ModelAnswer({"done": True})
        return ModelAnswer({name: value for name, value in result.items() if name not in self._hidden} if isinstance(result, dict) else result)


async def key_of(requests: OperationRequests, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the workflow and the id of an execution; with an id alone, those of the only one that has it.

    Raises:
        RequestRefused: there is none, or several.
    """
    if "workflow" in given:
        return {"workflow": given["workflow"], "id": given["id"]}
    found: dict[str, Any] = await requests(on_executions.by_id, {"id": given["id"]})
    return found


ARGUMENTS: Mapping[str, str] = {
    "id": "The id of the execution.",
    "workflow": "The name of its workflow: a slug of the catalog, or code. Needed only if executions of several workflows have the id.",
    "after": "The `next` of the page before, to read the one behind it.",
    "limit": "The most entries of a page.",
    "reason": "Why, for the people who read the history.",
    "wait": "Whether to wait until an engine has done it.",
    "dryRun": "Say what would happen, and change nothing.",
    "undo": "Whether what it has done is undone, as the workflow says.",
    "fromStep": "The id of the step from which on.",
    "at": "The number of an event: as it was after that.",
    "document": "The definition: an object, or its text in YAML or JSON. With a text, findings have the right lines.",
    "note": "What is changed and why, for the people who read the history.",
    "revision": "Do it only while this is still its revision.",
    "text": "Words to look for, in any case.",
    "status": "Statuses: running, waiting, needs_attention, paused, completed, failed, cancelled.",
    "name": "The name of the message.",
    "newId": "The id of the new execution; a random one by default.",
    "version": "Another version of the workflow.",
    "input": "The input: an object of values by name.",
    "step": "The id of the step.",
    "value": "The value: any JSON.",
}
"""What arguments mean that have the same name in several tools, unless the tool or its schema says something else."""
