"""Graphs as data: the plan of a definition, and of an execution its plan with what has happened in it.

An execution of code has no plan. Its graph is that of its operations, with an edge to each from those that it follows directly.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

import msgspec

from perdure.core.errors import BadValue
from perdure.core.execution import Execution
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.core.paths import UNDO, Key, Path, parse_path, path_text
from perdure.core.step_attempts import StepAttempt, step_attempts
from perdure.core.views import StepView, step_views
from perdure.definitions.format.compiler import compile_definition
from perdure.definitions.graph.execution_view import ExecutionView
from perdure.definitions.graph.operation_graph import operation_graph
from perdure.definitions.graph.shown_graph import NodePassages, PictureState, ShownEdge, ShownGraph, ShownNode, shown_graph
from perdure.service.catalog import load_version
from perdure.service.code_plans import CodePlan
from perdure.service.dead_letter_groups import step_name
from perdure.service.definition_views import view_of_past
from perdure.service.past_states import read_past
from perdure.service.store_access import StoreAccess

Attempts = Mapping[Path, Sequence[StepAttempt]]


async def read_graph(access: StoreAccess, key: Key, at: int | None = None) -> ShownGraph:
    """The graph of an execution, now or after event `at` of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event, or it has not begun.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    if at is None:
        async with access.tails.use(key) as tail:
            if "graph" not in tail.cached:
                plan = await access.code_plans.plan_of(tail.head, tail.execution)
                tail.cached["graph"] = _with_expected(await tail.look(_graph_of), plan)
            found: ShownGraph = tail.cached["graph"]  # of the type that `_graph_of` returns
            return found
    past = await read_past(access.store, key, at)
    execution = Execution(key, past.head.root)
    attempts = step_attempts(execution, past.seen)
    view = await view_of_past(access.store, past)
    return _graph_of(execution, attempts, view, past.version)


def _graph_of(execution: Execution, attempts: Attempts, view: ExecutionView | None, version: int) -> ShownGraph:
    if view is None and execution.started is None:
        raise BadValue("execution", str(execution.key), "one that has begun; it has no graph yet")
    if view is None:
        return _graph_of_code(execution, attempts, version)
    states: dict[str, PictureState] = {node.id: view.states.get(node.id, "not_reached") for node in view.ir.nodes}
    passages = _passages(view.steps, attempts, {node.id for node in view.ir.nodes})
    return shown_graph(view.ir, states, view.taken, passages, version)


def _graph_of_code(execution: Execution, attempts: Attempts, version: int) -> ShownGraph:
    found = operation_graph(execution)
    passages = {step.path: NodePassages([step], len(attempts.get(parse_path(step.path), ()))) for step in step_views(execution)}
    return shown_graph(found.ir, found.states, found.taken, passages, version)


def _with_expected(graph: ShownGraph, plan: CodePlan) -> ShownGraph:
    """The graph with the steps that are likely to come, one behind the other, and all behind those of the outermost list that nothing follows; or with the
    place at which the execution has left the way of others.
    """
    if not plan.steps:
        return graph if plan.left_way is None else msgspec.structs.replace(graph, left_way=plan.left_way)
    outer = {node.id for node in graph.nodes if not node.block}
    ends = [*(outer - {edge.source for edge in graph.edges})]
    nodes, edges = [*graph.nodes], [*graph.edges]
    for step in plan.steps:
        id = path_text(step.path)
        nodes.append(_expected_node(id, step.kind, step.target))
        edges += [ShownEdge(source=end, target=id, label="", is_back=False, is_taken=False) for end in sorted(ends)]
        ends = [id]
    return msgspec.structs.replace(graph, nodes=nodes, edges=edges, drawn_from=plan.examples)


def _expected_node(id: str, kind: str, target: str) -> ShownNode:
    return ShownNode(
        id=id,
        kind="approve" if target == APPROVAL_WORKFLOW else kind,
        name=id,
        detail="" if target in ("", APPROVAL_WORKFLOW, id) else target,
        modifiers=[],
        block="",
        region=0,
        state="not_reached",
        path="",
        passages=0,
        attempts=0,
        started_at_s=None,
        ended_at_s=None,
    )


def _passages(steps: Sequence[StepView], attempts: Attempts, ids: Collection[str]) -> dict[str, NodePassages]:
    """The passages of nodes by id. What is opened beside a node, or for an item of it, is no passage, and its attempts count."""
    found: dict[str, NodePassages] = {}
    for step in steps:
        path = parse_path(step.path)
        if path[0] == UNDO or (id := step_name(step.path)) not in ids:
            continue
        known = found.setdefault(id, NodePassages([]))
        known.attempts += len(attempts.get(path, ()))
        if isinstance(path[-1], tuple) and path[-1][0] == id:
            known.steps.append(step)
    return found


async def read_plan(access: StoreAccess, tenant: str, reference: str) -> ShownGraph:
    """The plan of the version that a reference to the catalog names, under the number that it has there.

    Raises:
        BadValue: the text is no reference.
        NotFound, Ambiguous: it names no version, or several.
    """
    found, _, _, canonical = await load_version(access, tenant, reference)
    plan = await asyncio.to_thread(lambda: shown_graph(compile_definition(msgspec.json.decode(canonical))))
    return msgspec.structs.replace(plan, version=found.version)
