"""The capabilities that a definition needs: tools, other definitions, and kinds.

Capabilities have names: ``tool:charge``, ``tool:charge@2`` (of this version), ``kind:http``, ``definition:refund``, ``connection:orders``. An engine claims
only executions whose capabilities it has. A tool without a version fits every execution that needs no particular version.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from perdure.core.pinned_calls import PinnedCalls
from perdure.definitions.format.model import VERBS, transform_source
from perdure.definitions.graph.ir import IR, GraphNode

if TYPE_CHECKING:
    from perdure.definitions.graph.graph_workflow import GraphWorkflow

BUILTIN_VERBS = frozenset(("task", "approve", "listen", "emit", "sleep", "set", "test", "loop", "if", "parallel", "race", "do", "return", "fail"))
"""The verbs that need no capability: Perdure performs them itself, or the workers of a queue do."""

TOOL_PREFIX = "tool:"
"""How the name of a capability begins that is a tool."""


class Requirement(NamedTuple):
    """One required capability: its sort, its name, and the id of the step (empty: the call of `on_failure`). `extra` is an extra of the package."""

    what: Literal["tool", "workflow", "kind", "extra", "connection"]
    name: str
    id: str


def requirements_of(ir: IR) -> Iterator[Requirement]:
    """Yields everything that a definition needs, step by step."""
    for node in ir.nodes:
        yield from _node_requirements(node)
        if (source := transform_source(node.transform)) is not None:
            yield Requirement("kind", source[0], node.id)
        if node.undo is not None:
            yield Requirement("tool", node.undo.tool, node.id)
            yield from _connection(node.undo.tool, node.undo.input, node.id)
    if ir.on_failure.call:
        yield Requirement("workflow", ir.on_failure.call.partition("@")[0], "")


def call_targets(ir: IR) -> Iterator[tuple[str, str]]:
    """Yields the texts by which a definition calls other workflows, with their versions, and the ids of the steps that call (empty: `on_failure`)."""
    for node in ir.nodes:
        if node.kind == "call" and not (target := _target(node.config)).startswith("py:"):
            yield target, node.id
    if ir.on_failure.call:
        yield ir.on_failure.call, ""


def _node_requirements(node: GraphNode) -> Iterator[Requirement]:
    if node.kind == "tool":
        yield Requirement("tool", str(node.config), node.id)
    elif node.kind == "call":
        target = _target(node.config)
        yield Requirement("tool", target, node.id) if target.startswith("py:") else Requirement("workflow", target.partition("@")[0], node.id)
    elif node.kind not in BUILTIN_VERBS:
        yield Requirement("kind", node.kind, node.id)
    yield from _connection(node.kind, node.config, node.id)


def _connection(verb: str, config: Any, id: str) -> Iterator[Requirement]:
    """Yields the connection of the deployment that a config of a verb names."""
    if (field := CONNECTION_FIELDS.get(verb)) is not None and isinstance(config, Mapping) and field in config:
        yield Requirement("connection", str(config[field]), id)


def _target(config: Any) -> str:
    return str(config["target"] if isinstance(config, Mapping) else config)


AGENT_VERBS = {verb.name: verb.agent_role for verb in VERBS if verb.agent_role}
"""The verbs that the agent workflow of a definition performs, unless the engine has a kind of that name; each with its role."""


CONNECTION_FIELDS = {verb.name: verb.connection_field for verb in VERBS if verb.connection_field}
"""The verbs whose steps use a connection of the deployment, each with the field that names it."""


def named_tools(config: Mapping[str, Any]) -> Iterator[str]:
    """The tools that the config of an agent has by their names; operations of an API have none before their document is read."""
    return (one for one in config.get("tools", ()) if isinstance(one, str))


def engine_capabilities(workflow: "GraphWorkflow", kinds: Iterable[str]) -> frozenset[str]:
    """Returns the capabilities of an engine for the executions of a workflow; `kinds` are the kinds of steps that can be used here."""
    versions = (f"{TOOL_PREFIX}{name}@{tool.version}" for name, tool in workflow.tools.items() if tool.version is not None)
    names = (("tool", workflow.tools), ("kind", (*kinds, *AGENT_VERBS)), ("definition", workflow.family), ("connection", workflow.connections or ()))
    return frozenset(map(_on_one_line, (*versions, *(f"{what}:{name}" for what, known in names for name in known))))


def required_capabilities(workflow: "GraphWorkflow", ir: IR, calls: PinnedCalls = ()) -> frozenset[str]:
    """Returns the capabilities that the executions of a definition need, with the versions that tools have in `workflow`.

    Imported functions are left out, and so are `calls` that were pinned when an execution started: it brings what they name.
    """
    pinned = {one.target for one in calls}
    brought = {id for target, id in call_targets(ir) if target in pinned}
    agents = (node for node in ir.nodes if node.kind in AGENT_VERBS and isinstance(node.config, Mapping))
    theirs = (Requirement("tool", name, node.id) for node in agents for name in named_tools(node.config) if name in workflow.tools)
    needs = (need for need in requirements_of(ir) if need.what != "workflow" or need.id not in brought)
    return frozenset(_on_one_line(name) for need in (*needs, *theirs) if (name := _capability(workflow, need)))


def _on_one_line(capability: str) -> str:
    """Returns a capability as one line, for the name of a program."""
    return capability.replace("\n", "\\n")


def _capability(workflow: "GraphWorkflow", need: Requirement) -> str:
    if need.name.startswith("py:"):
        return ""
    if need.name in workflow.tools and need.what in ("tool", "workflow"):
        version = workflow.tools[need.name].version
        return f"{TOOL_PREFIX}{need.name}" if version is None else f"{TOOL_PREFIX}{need.name}@{version}"
    if need.what == "connection":
        return "" if workflow.connections is None else f"connection:{need.name}"
    if need.what == "workflow":
        return f"definition:{need.name}" if need.name in workflow.family else ""  # code is started by its name, wherever it is
    return f"kind:{need.name}" if need.what == "kind" or need.name in workflow.kinds else f"{TOOL_PREFIX}{need.name}"


def pinned_tool_versions(before: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    """Returns the capabilities needed `now`, with the tool versions of those that the execution needed `before`."""
    kept = {_unversioned(one): one for one in before}
    return frozenset(kept.get(_unversioned(one), one) for one in now)


def _unversioned(capability: str) -> str:
    return capability.partition("@")[0] if capability.startswith(TOOL_PREFIX) else capability


def capabilities_text(lacking: Iterable[str]) -> str:
    """Returns missing capabilities in words: ``tool charge, kind http``."""
    return ", ".join(one.replace(":", " ", 1) for one in sorted(lacking))
