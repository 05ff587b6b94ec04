"""Perdure's own tools for agents: pipelines, changes of the workflow, the search for tools, and other agents."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from perdure.core.errors import Fatal
from perdure.programs.code.declare import Step
from perdure.programs.code.info import step_info
from perdure.programs.code.resources import opened
from perdure.programs.graph import kind as kinds
from perdure.programs.graph.kind import Count, Kind
from perdure.steps.agents.patching import patch_workflow
from perdure.steps.agents.tools import Tool, performed, tool_of, tool_of_kind
from perdure.stores.base import Store

FOUND_MAX = 10
INTERPRETER = "code_interpreter"
"""The agent that is no agent: source text in Python, run in the sandbox."""


@dataclasses.dataclass(frozen=True)
class Around:
    """Where an agent finds its tools: those that it was given, the kinds of steps that there are, the workflows that it may call."""

    tools: Mapping[str, Any]
    kinds: Mapping[str, Kind]
    workflows: Mapping[str, Any]

    def find(self, name: str) -> Tool | None:
        """The tool of a name: one that was given, one of Perdure's own, or a kind of steps."""
        if name in self.tools:
            return tool_of(self.tools[name])
        if name in OWN:
            return OWN[name](self)
        return tool_of_kind(self.kinds[name]) if name in self.kinds else None


def _pipeline(around: Around) -> Tool:
    async def execute_pipeline(pipeline: list[dict[str, Any]] | None = None, use: str = "", rows: Any = None, inputs: dict[str, Any] | None = None) -> Any:
        kind = around.kinds.get("pipeline")
        if kind is None:
            raise Fatal("there are no pipelines where this runs")
        given = rows if rows is None or isinstance(rows, Mapping) else {"rows": rows}
        return await performed(kind, _pipelined({"pipeline": pipeline, "use": use}), {**given, **(inputs or {})} if given is not None else inputs)

    about = (
        "Work on tables: a list of operations, each on the rows of the one before, such as"
        ' [{"step": "table_filter", ...}, {"step": "table_sort", "field": "price", "order": "asc"}, {"step": "top_k", "k": 3}].'
        " There are http_request, table_sort, table_filter, table_select, top_k, groupby, join, jq_transform, regex_extract, parse_csv, parse_date."
        " Or use: the name of a pipeline that search_tools has found, with its inputs."
    )
    properties = {
        "pipeline": {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "use": {"type": "string", "minLength": 1},
        "rows": {"description": "the rows to begin with, or several tables by name", "type": ["array", "object"]},
        "inputs": {"type": "object"},
        "session_id": {"type": "string"},
    }
    either = [{"required": ["pipeline"]}, {"required": ["use"]}]
    schema = {"type": "object", "properties": properties, "oneOf": either, "additionalProperties": False}
    step: Step[Any, Any, Any] = Step(execute_pipeline, name="execute_pipeline")

    def leads(args: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
        kind = around.kinds.get("pipeline")
        again = kind is None or kind.may_repeat(_pipelined(args))
        return dataclasses.replace(step, idempotent=again), {name: value for name, value in args.items() if name != "session_id"}

    def counts(args: Mapping[str, Any]) -> Count | None:
        kind, config = around.kinds.get("pipeline"), _pipelined(args)
        return None if kind is None else kinds.counted(kind, kinds.written(kind, config), config)

    return Tool("execute_pipeline", step, about, schema, leads=leads, counts=counts)


def _pipelined(args: Mapping[str, Any]) -> Any:
    """What a model gives, as the config of a pipeline."""
    return {"use": args["use"]} if args.get("use") else args["pipeline"]


def _patch(around: Around) -> Tool:
    about = (
        "Change the workflow that this agent is a step of. Operations are {op: add_step, step: {...}}, {op: remove_step, id}, {op: connect, from, to, port},"
        " {op: set, id, path, value}, or JSON Patch, also with the paths /nodes/- and /edges/-. With scope execution the running one goes on by it at once;"
        " with scope definition a new version is proposed to people. {workflow_tag, patch_spec: {operations, description}} says the same."
    )
    text, operations = {"type": "string"}, {"type": "array", "items": {"type": "object"}, "minItems": 1}
    spec = {"type": "object", "properties": {"operations": operations, "description": text}, "required": ["operations"], "additionalProperties": False}
    schema = {
        "type": "object",
        "properties": {
            "operations": operations,
            "description": text,
            "scope": {"enum": ["execution", "definition"]},
            "workflow_tag": text,
            "patch_spec": spec,
        },
        "oneOf": [{"required": ["operations", "scope"]}, {"required": ["patch_spec"]}],
        "additionalProperties": False,
    }
    step: Step[Any, Any, Any] = Step(patch_workflow, name="patch_workflow")

    def leads(args: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
        return step, {name: value for name, value in args.items() if name != "patch_spec"} | dict(args.get("patch_spec", {}))

    return Tool("patch_workflow", step, about, schema, leads=leads, is_shown=True)


def _search(around: Around) -> Tool:
    about = "Find tools, and pipelines that have been used before, by words of what they do. A pipeline that is found is run by execute_pipeline."
    schema = {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 50}},
        "required": ["query"],
        "additionalProperties": False,
    }

    def among(tools: Mapping[str, Tool]) -> Tool:
        return Tool("search_tools", searching({name: one for name, one in tools.items() if name != "search_tools"}), about, schema)

    return dataclasses.replace(among({}), about=among)


def searching(tools: Mapping[str, Tool]) -> Step[Any, Any, Any]:
    """The step that searches these tools."""

    async def search_tools(query: str, limit: int = FOUND_MAX) -> list[dict[str, Any]]:
        words = query.casefold().split()
        ranked = []
        for tool in tools.values():
            name, text = tool.name.casefold(), f"{tool.name} {tool.description}".casefold()
            score = (sum(word in text for word in words), sum(word in name for word in words))
            if score[0]:
                ranked.append((score, {"name": tool.name, "description": tool.description, "schema": dict(tool.schema)}))
        ranked.sort(key=lambda one: (-one[0][0], -one[0][1], one[1]["name"]))
        found = [about for _, about in ranked[:limit]]
        store = opened.get().store if "execute_pipeline" in tools else None
        return found if store is None or len(found) == limit else found + await _composites(store, query, limit - len(found))

    return Step(search_tools, name="search_tools")


async def _composites(store: Store, query: str, limit: int) -> list[dict[str, Any]]:
    """Pipelines that have been used before, as what `execute_pipeline` is given to use them."""
    from perdure.steps.pipeline.composites import search  # here, as few search

    found = await search(store, query, limit, step_info().execution.tenant)
    return [{"name": "execute_pipeline", "use": one.name, "description": one.description, "inputs": list(one.inputs)} for one in found]


def _delegate(around: Around) -> Tool:
    names = [*around.workflows, *([INTERPRETER] if "python" in around.kinds else [])]

    async def code_interpreter(code: str, input: Any = None) -> Any:
        return await performed(around.kinds["python"], code, input)

    interpreter: Step[Any, Any, Any] = Step(code_interpreter, name=INTERPRETER)

    def leads(args: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
        inputs = dict(args.get("inputs", {}))
        if args["agent_type"] == INTERPRETER:
            return interpreter, {"code": inputs.pop("code", ""), "input": inputs.pop("input", None) if set(inputs) <= {"input"} else inputs}
        return around.workflows[args["agent_type"]], inputs

    about = f"Have another agent do a part of the work, and wait for its answer: inputs are {{task: text}}. {INTERPRETER} runs Python: {{code, input}}."
    properties = {"agent_type": {"enum": names}, "inputs": {"type": "object"}}
    schema = {"type": "object", "properties": properties, "required": ["agent_type", "inputs"], "additionalProperties": False}
    return Tool("delegate_to_agent", None, about, schema, leads=leads)


OWN: dict[str, Callable[[Around], Tool]] = {
    "delegate_to_agent": _delegate,
    "execute_pipeline": _pipeline,
    "patch_workflow": _patch,
    "search_tools": _search,
}
"""Perdure's own tools, by the names by which agents are given them."""
