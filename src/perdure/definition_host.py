"""The workflow by which an engine runs definitions that it need not know: those that started from the catalog, and those that came with a start.

An engine claims executions by names of programs. All of these have one name, `CATALOG_PROGRAM`, with what each needs behind it: tools, kinds, connections. So
an engine with a host runs every definition for which it has what is needed, and leaves the others to engines that have it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure.core.program import CATALOG_PROGRAM
from perdure.definition_workflow import Tools, imported, step_kinds, tool_steps
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.policy import NO_POLICY, Policy
from perdure.definitions.graph.requirements import engine_capabilities
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.deployment import NOTHING_MORE, Deployment, connection_sources
from perdure.runtime.workflow_programs import Workflow as EngineWorkflow
from perdure.workflow_function import Workflow

AGENT_WORKFLOW = f"{CATALOG_PROGRAM}.agent"
"""The name of the workflow that runs the agents of hosted definitions."""


def definition_host(
    tools: Tools = (),
    *,
    calls: Sequence[Workflow[..., Any]] = (),
    kinds: Mapping[str, Callable[..., Any] | Kind] | None = None,
    deployment: Deployment = NOTHING_MORE,
    policy: Policy = NO_POLICY,
) -> tuple[EngineWorkflow, ...]:
    """Returns the workflows that an engine needs to run definitions of the catalog, with these `tools`, `kinds` and permissions: see `Definition.of`.

    `calls` are workflows of code that agents may use as tools. Steps call workflows by their names, wherever they run. If the deployment has models, the engine
    runs proposal agents as well, which write definitions for it.
    """
    from perdure.definitions.kinds.agents.agent_workflow import definition_agents  # imported here, so that engines without a host do not load it
    from perdure.definitions.kinds.agents.built_in_tools import ToolContext

    registry, toolbox = step_kinds(kinds, deployment), tool_steps(tools)
    graph = GraphWorkflow(
        name=CATALOG_PROGRAM,
        tools=toolbox,
        kinds=registry,
        imports=imported,
        policy=policy,
        agent=AGENT_WORKFLOW,
        connections=None if kinds and "sql" in kinds else frozenset(connection_sources(deployment)),
    )
    graph = dataclasses.replace(graph, capabilities=engine_capabilities(graph, registry.ready()))
    around = ToolContext(graph.tools, graph.kinds, {one.code.name: one for one in calls}, deployment)
    agents = definition_agents(graph.agent, around, deployment, policy)
    if not deployment.models:
        return graph, agents
    from perdure.service.proposal_agent.proposal_agent_workflow import proposal_agent_workflow

    return graph, agents, proposal_agent_workflow(deployment, toolbox)
