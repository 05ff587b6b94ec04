"""The tools of agents: their descriptions for models, and the check of each call that a model asks for."""

import asyncio
import contextvars
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from perdure.code.declarations import CodeWorkflow, Step
from perdure.core.errors import BadValue
from perdure.core.thread_calls import without_stop_iteration
from perdure.definitions.expr import json_schema as schemas
from perdure.definitions.expr.plain_values import shortened
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.plan import plan_of_definition
from perdure.definitions.graph.step_kind import CompositeUse, Kind, KindResult
from perdure.definitions.kinds.models.model_messages import ToolCall, ToolSpec

ANYTHING: dict[str, Any] = {"type": "object"}

UNAUTHORIZED_MAX = 3
"""An agent fails after this many calls of tools that it may not use."""


@dataclasses.dataclass(frozen=True)
class AgentTool:
    """A tool: its description for the model, the step or workflow that performs it, and whether a person has to approve each use.

    `repeats` decides by the arguments whether an interrupted call may be repeated (None: the step decides). `leads` returns the step or workflow for a call
    and its arguments; `counts` names the composite that a call is a use of. With `is_shown`, the result becomes an item of the execution's stream. `about`
    builds the tool from all tools of the agent, for tools that describe the others. With `hands_over`, the result is the answer of the agent.
    """

    name: str
    does: Any
    description: str = ""
    schema: Mapping[str, Any] = dataclasses.field(default_factory=lambda: ANYTHING)
    asks: bool = False
    repeats: Callable[[Any], bool] | None = None
    counts: Callable[[Mapping[str, Any]], CompositeUse | None] | None = None
    is_shown: bool = False
    hands_over: bool = False
    about: Callable[[Mapping[str, "AgentTool"]], "AgentTool"] | None = None
    leads: Callable[[Mapping[str, Any]], tuple[Any, Mapping[str, Any]]] | None = None

    @property
    def spec(self) -> ToolSpec:
        """The description of the tool for the model."""
        return ToolSpec(self.name, self.description, dict(self.schema))

    def call(self, args: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
        """The step or workflow that performs a call, and its arguments."""
        if self.leads is not None:
            return self.leads(args)
        if self.repeats is None or not isinstance(self.does, Step):
            return self.does, args
        return dataclasses.replace(self.does, idempotent=self.does.may_repeat and self.repeats(args)), args


class CountedTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """The composite that a call is a use of: its name, the input that creates it (None: it exists), and its description."""

    name: str
    input: Any = None
    about: str = ""


class ToolCallVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decision about one tool call: perform it, ask a person first, or refuse it and tell the model `why`. `counted` is the composite that it uses."""

    how: Literal["do", "ask", "unfit", "unauthorized"] = "do"
    why: str = ""
    counted: CountedTool | None = None


def tool_of(given: Any) -> AgentTool:
    """The tool for a step, a workflow, a definition or a function. Its arguments follow from the type hints, its description from the docstring; those of a
    definition from its `input` and `description`.

    Raises:
        BadValue: it is none of these, or has a parameter that can't be passed by name.
    """
    if isinstance(given, AgentTool):
        return given
    code = getattr(given, "code", None)
    if isinstance(code, CodeWorkflow):
        about = getattr(given, "about", "") or inspect.getdoc(code.fn) or ""
        return AgentTool(code.name, given, about, getattr(given, "takes", None) or _named(code.codec.schema(), code.fn, code.name, 1))
    if isinstance(code, GraphWorkflow) and code.release is not None:
        ir = plan_of_definition(code.release.sha256, {code.release.sha256: code.release.raw}).ir
        properties = {name: about if isinstance(about, dict) else {} for name, about in ir.input.items()}
        schema = {"type": "object", "properties": properties, "required": list(ir.required), **({"additionalProperties": False} if properties else {})}
        return AgentTool(code.name, given, str(msgspec.json.decode(code.release.raw).get("description", "")), schema)
    if isinstance(given, Step):
        return AgentTool(given.name, given, inspect.getdoc(given.fn) or "", _named(given.codec.schema(), given.fn, given.name, int(given.transaction)))
    name = getattr(given, "__name__", "")
    if not callable(given) or not name or name == "<lambda>":
        raise BadValue("a tool of an agent", given, "a step, a workflow, a definition, a function with a name, or the name of a kind of steps")
    return tool_of(Step(given, name=name))


def _named(schema: dict[str, Any], fn: Callable[..., Any], name: str, skip: int) -> dict[str, Any]:
    for one in list(inspect.signature(fn).parameters.values())[skip:]:
        if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
            raise BadValue(f"the tool {name}", one.name, "a parameter that can be passed by name, as models do")
    return schema


def tool_of_kind(kind: Kind, name: str = "") -> AgentTool:
    """The tool for a kind: the model writes its config."""
    called = name or kind.name

    async def run(**config: Any) -> Any:
        return await perform_kind(kind, config)

    step = dataclasses.replace(kind.step, fn=run, name=called)
    about = ". ".join(part for part in (kind.title, kind.summary, kind.idempotency) if part)
    return AgentTool(called, step, about, object_schema(kind.config or ANYTHING), kind.capabilities.requires_approval, kind.idempotent)


async def perform_kind(kind: Kind, config: Any, input: Any = None) -> Any:
    """Runs a kind once. A function that is not async runs in a thread."""
    fn = kind.step.fn
    parameters = inspect.signature(fn).parameters.values()
    given = {"config": config, "input": input}
    if any(one.name == "env" or one.kind is one.VAR_KEYWORD for one in parameters):
        given["env"] = None
    if kind.step.is_async:
        found = await fn(**given)
    else:
        found = await asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, without_stop_iteration(lambda: fn(**given)))
        found = await found if inspect.isawaitable(found) else found
    return found.data if isinstance(found, KindResult) else found


def schema_of(kind: Any, what: str) -> dict[str, Any]:
    """The JSON Schema of a type, with the schemas that it refers to.

    Raises:
        BadValue: it has none.
    """
    try:
        found = dict(kind.model_json_schema() if hasattr(kind, "model_json_schema") else msgspec.json.schema(kind))
    except (TypeError, ValueError) as error:
        raise BadValue(what, kind, f"a type of plain data, such as a dataclass: {error}") from error
    inner = dict(found.get("$defs", {}))
    top = inner.get(str(found.get("$ref", "")).removeprefix("#/$defs/"))
    return found if top is None else {**top, "$defs": inner}


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as that of an object, as providers require of arguments. A schema of anything else becomes the property ``value``."""
    if schema.get("type", "object") == "object":
        return {"type": "object", **schema}
    return {"type": "object", "properties": {"value": dict(schema)}, "required": ["value"]}


def judge_tool_call(call: ToolCall, tools: Mapping[str, AgentTool], asking: Sequence[str]) -> ToolCallVerdict:
    """Checks a call against the allowed tools and their schemas."""
    tool = tools.get(call.name)
    if tool is None:
        return ToolCallVerdict("unauthorized", f"tried to use {shortened(call.name)!r}, which is unauthorized; allowed are {', '.join(tools) or 'none'}")
    if wrong := schemas.schema_problems(dict(tool.schema), call.args):
        return ToolCallVerdict("unfit", f"its arguments do not fit: {'; '.join(wrong[:5])}")
    count = tool.counts(call.args) if tool.counts is not None else None
    return ToolCallVerdict("ask" if tool.asks or call.name in asking else "do", counted=None if count is None else CountedTool(*count))
