"""The built-in tools of agents. With one of them, an agent changes the workflow that it is a step of: it patches the execution, or proposes a definition.

Perdure's own tools for agents: pipelines, changes of the workflow, the search for tools, and other agents.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Literal

import msgspec

from perdure.code.declarations import Step
from perdure.code.step_environment import current_resources, step_info
from perdure.core import events as e
from perdure.core import log_format, messages, values
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.errors import BadDefinition, Fatal
from perdure.core.execution import Execution
from perdure.core.operations import PROPOSAL_WORKFLOW, Failure
from perdure.core.paths import Key
from perdure.core.program import CATALOG_PROGRAM, program_name
from perdure.core.replay import fold_events
from perdure.core.values import Blob, verified_payload
from perdure.definitions.format.canonical_form import definition_bytes, definition_hash
from perdure.definitions.format.definition_diff import definition_changes, render_changes
from perdure.definitions.graph import step_kind as kinds
from perdure.definitions.graph.step_kind import CompositeUse, Kind
from perdure.definitions.kinds.agents.agent_tools import AgentTool, perform_kind, tool_of, tool_of_kind
from perdure.definitions.kinds.deployment import NOTHING_MORE, Deployment
from perdure.dialects import patched_definition
from perdure.stores.protocol import Post, Store

ANSWER_S = 30.0
"""How long the tool waits for an engine to decide about a patch."""

LOOK_S = 0.05


async def patch_workflow(
    operations: list[dict[str, Any]],
    scope: Literal["execution", "definition"] = "execution",
    description: str = "",
    workflow_tag: str = patched_definition.TAG_OF_ALL,
) -> dict[str, Any]:
    """Change the workflow whose step the running agent is, which is the one that `workflow_tag` names: its execution, or, as a proposal, its definition.

    Returns under ``patched`` the ``hash`` of the definition by which the execution now goes on, and the ``changes``, in lines; under ``proposal`` also the
    ``definition`` that would come of it, and the hash of the one that it is based on (``base``). A proposal for a definition of the catalog is made there, for
    people to review, and has an ``id``. Done again after a crash, it finds what it has done.

    Raises:
        Fatal: the definition does not allow it, the change is not valid, or what has begun does not fit it.
        TimeoutError: no engine has judged it in time.
    """
    store, info = current_resources.get().store, step_info()
    if store is None:
        raise Fatal("this process has no executions that can be changed")
    parent = await _parent(store, info.execution)
    execution = await _read(store, parent)
    base, before = await _definition(store, execution)
    mark = f"agent {info.key}: "
    if (answer := _answered(await _events(store, parent), mark)) is not None:
        return _patched(before, before, answer)
    if not before.get("allow", {}).get("self_edit"):
        raise Fatal(f"{parent.workflow} may not be changed by its agents; to allow that, write allow: {{self_edit: true}} in its definition")
    after = apply_definition_patch(before, operations, workflow_tag)
    if scope == "definition":
        shown = {"base": f"sha256:{base}", "hash": definition_hash(after), "changes": _changes(before, after), "definition": after, "description": description}
        made = await _propose(store, parent, info.key, shown) if execution.program == CATALOG_PROGRAM else {}
        return {"proposal": {**made, **shown}}
    body = messages.encode_message(messages.PatchMessage(definition_bytes(after), base, f"{mark}{description}"))
    _ = await store.commit([Post(messages=(OutgoingMessage(parent, f"patch:{info.key}", body),))])
    async with asyncio.timeout(ANSWER_S):
        while (answer := _answered(await _events(store, parent), mark)) is None:
            if (await _read(store, parent)).ended is not None:
                raise Fatal(f"{parent} has ended before it could be changed")
            await asyncio.sleep(LOOK_S)
    return _patched(before, after, answer)


async def _propose(store: Store, parent: Key, step_key: str, shown: Mapping[str, Any]) -> dict[str, Any]:
    """Has an execution of Perdure's own workflow make the proposal, and returns what that has returned: it is in the log of the service, once.

    Raises:
        Fatal: the proposal is refused, such as one for a definition that has another version by now.
        TimeoutError: no engine has made it in time.
    """
    key = Key(parent.tenant, PROPOSAL_WORKFLOW, sha256(step_key.encode()).hexdigest()[:32])
    input = values.encode(((), {"document": shown["definition"], "note": shown["description"], "base": shown["base"]}), "a proposal")
    blobs = dict[str, bytes]()
    start = messages.StartMessage(input=values.offload_if_large(input, blobs), origin=parent)
    found = await store.read(parent)
    opens = NewExecution(program_name(PROPOSAL_WORKFLOW, 0), parent if found is None else found.head.root)
    send = OutgoingMessage(key, "start", messages.encode_message(start), opens=opens)
    _ = await store.commit([Post(messages=(send,), blobs=tuple(blobs.items()))])
    async with asyncio.timeout(ANSWER_S):
        while True:
            if (ended := (await _read(store, key)).ended) is not None:
                break
            await asyncio.sleep(LOOK_S)
    if isinstance(ended.outcome, Failure):
        raise Fatal(f"nothing was proposed: {ended.outcome.error.message}")
    value = ended.outcome.value
    made: dict[str, Any] = values.decode(value if isinstance(value, bytes) else await _payload(store, value), dict[str, Any], "a proposal")
    return {name: made[name] for name in ("id", "widens_rights", "expires_at_s")}


async def _payload(store: Store, blob: Blob) -> bytes:
    return verified_payload(blob.sha256, await store.blob(blob.sha256))


def _patched(before: dict[str, Any], after: dict[str, Any], refused: tuple[str, ...]) -> dict[str, Any]:
    if refused:
        raise Fatal(f"the execution can't continue with this definition: {'; '.join(refused)}")
    return {"patched": {"hash": definition_hash(after), "changes": _changes(before, after)}}


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return render_changes(definition_changes(before, after)).splitlines()


def apply_definition_patch(definition: dict[str, Any], operations: Any, workflow_tag: str = patched_definition.TAG_OF_ALL) -> dict[str, Any]:
    """Applies a patch, in any of its forms, to a definition.

    Raises:
        Fatal: it can't be done, or what it makes is not valid; with all that is wrong.
    """
    try:
        return patched_definition.apply_patch(definition, {"workflow_tag": workflow_tag, "patch_spec": {"operations": operations}})
    except BadDefinition as error:
        raise Fatal(f"the change is not valid, and nothing was changed: {error}") from error


async def _parent(store: Store, key: Key) -> Key:
    started = (await _read(store, key)).started
    if started is None or started.origin is None:
        raise Fatal(f"{key} was not started by a definition, so there is nothing to change")
    return started.origin


async def _events(store: Store, key: Key) -> list[e.Event]:
    found = await store.read(key)
    return [] if found is None else log_format.decode_rows(found.payloads)


async def _read(store: Store, key: Key) -> Execution:
    return fold_events(key, await _events(store, key))


async def _definition(store: Store, execution: Execution) -> tuple[str, dict[str, Any]]:
    if execution.definition is None:
        raise Fatal(f"{execution.key} runs code and no definition, so it can't be changed")
    raw = await store.blob(execution.definition.sha256)
    if raw is None:
        raise Fatal(f"the definition of {execution.key} is no longer stored")
    definition: dict[str, Any] = msgspec.json.decode(verified_payload(execution.definition.sha256, raw))
    return execution.definition.sha256, definition


def _answered(events: list[e.Event], mark: str) -> tuple[str, ...] | None:
    """Returns why the patch with this mark was refused (empty: it was applied); None if no engine has decided yet."""
    return next((event.refused for event in reversed(events) if isinstance(event, e.PatchedEvent) and event.reason.startswith(mark)), None)


FOUND_MAX = 10
INTERPRETER = "code_interpreter"
"""The tool that runs Python source text in the sandbox."""


@dataclasses.dataclass(frozen=True)
class ToolContext:
    """The tools that an agent can find: those that it was given, the kinds, and the workflows that it may call; and what its deployment lets it reach."""

    tools: Mapping[str, Any]
    kinds: Mapping[str, Kind]
    workflows: Mapping[str, Any]
    deployment: Deployment = NOTHING_MORE

    def find(self, name: str) -> AgentTool | None:
        """The tool of a name: one that was given, one of Perdure's own, a kind of steps, or a workflow or definition that it may call."""
        if name in self.tools:
            return tool_of(self.tools[name])
        if name in BUILT_IN_TOOLS:
            return BUILT_IN_TOOLS[name](self)
        if name in self.kinds:
            return tool_of_kind(self.kinds[name])
        return tool_of(self.workflows[name]) if name in self.workflows else None


def _pipeline(around: ToolContext) -> AgentTool:
    async def execute_pipeline(pipeline: list[dict[str, Any]] | None = None, use: str = "", rows: Any = None, inputs: dict[str, Any] | None = None) -> Any:
        kind = around.kinds.get("pipeline")
        if kind is None:
            raise Fatal("this process has no pipelines")
        given = rows if rows is None or isinstance(rows, Mapping) else {"rows": rows}
        return await perform_kind(kind, _pipelined({"pipeline": pipeline, "use": use}), {**given, **(inputs or {})} if given is not None else inputs)

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

    def counts(args: Mapping[str, Any]) -> CompositeUse | None:
        kind, config = around.kinds.get("pipeline"), _pipelined(args)
        return None if kind is None else kinds.composite_use(kind, kinds.written_config(kind, config), config)

    return AgentTool("execute_pipeline", step, about, schema, leads=leads, counts=counts)


def _pipelined(args: Mapping[str, Any]) -> Any:
    """Converts the arguments that a model gives to the config of a pipeline."""
    return {"use": args["use"]} if args.get("use") else args["pipeline"]


def _patch(around: ToolContext) -> AgentTool:
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

    return AgentTool("patch_workflow", step, about, schema, leads=leads, is_shown=True)


def _search(around: ToolContext) -> AgentTool:
    about = "Find tools, and pipelines that have been used before, by words of what they do. A pipeline that is found is run by execute_pipeline."
    schema = {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 50}},
        "required": ["query"],
        "additionalProperties": False,
    }

    def among(tools: Mapping[str, AgentTool]) -> AgentTool:
        return AgentTool("search_tools", search_step({name: one for name, one in tools.items() if name != "search_tools"}), about, schema)

    return dataclasses.replace(among({}), about=among)


def search_step(tools: Mapping[str, AgentTool]) -> Step[Any, Any, Any]:
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
        store = current_resources.get().store if "execute_pipeline" in tools else None
        return found if store is None or len(found) == limit else found + await _composites(store, query, limit - len(found))

    return Step(search_tools, name="search_tools")


async def _composites(store: Store, query: str, limit: int) -> list[dict[str, Any]]:
    """Pipelines that have been used before, as what `execute_pipeline` is given to use them."""
    from perdure.definitions.kinds.pipeline.composites import search_composites  # here, as few search

    found = await search_composites(store, query, limit, step_info().execution.tenant)
    return [{"name": "execute_pipeline", "use": one.name, "description": one.description, "inputs": list(one.inputs)} for one in found]


def _delegate(around: ToolContext) -> AgentTool:
    names = [*around.workflows, *([INTERPRETER] if "python" in around.kinds else [])]

    async def code_interpreter(code: str, input: Any = None) -> Any:
        return await perform_kind(around.kinds["python"], code, input)

    interpreter: Step[Any, Any, Any] = Step(code_interpreter, name=INTERPRETER)

    def leads(args: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
        inputs = dict(args.get("inputs", {}))
        if args["agent_type"] == INTERPRETER:
            return interpreter, {"code": inputs.pop("code", ""), "input": inputs.pop("input", None) if set(inputs) <= {"input"} else inputs}
        return around.workflows[args["agent_type"]], inputs

    about = f"Have another agent do a part of the work, and wait for its answer: inputs are {{task: text}}. {INTERPRETER} runs Python: {{code, input}}."
    properties = {"agent_type": {"enum": names}, "inputs": {"type": "object"}}
    schema = {"type": "object", "properties": properties, "required": ["agent_type", "inputs"], "additionalProperties": False}
    return AgentTool("delegate_to_agent", None, about, schema, leads=leads)


def _openapi(around: ToolContext) -> AgentTool:
    from perdure.definitions.kinds.agents.api_tools import openapi_action_tool  # here, as few agents use it

    return openapi_action_tool(around.deployment)


def _memory(name: str, around: ToolContext) -> AgentTool:
    from perdure.definitions.kinds.agents.memory_tools import memory_tools  # here, as few agents use it

    return memory_tools()[name]


BUILT_IN_TOOLS: dict[str, Callable[[ToolContext], AgentTool]] = {
    "delegate_to_agent": _delegate,
    "execute_pipeline": _pipeline,
    "forget": partial(_memory, "forget"),
    "openapi_action": _openapi,
    "patch_workflow": _patch,
    "recall": partial(_memory, "recall"),
    "remember": partial(_memory, "remember"),
    "search_tools": _search,
}
"""Perdure's own tools by name."""
