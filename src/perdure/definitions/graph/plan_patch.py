"""Patches: a live execution continues with another definition. Its new state is the result of walking its history over the new plan.

Nodes that have not begun may be changed in any way; nodes that have begun must stay unchanged, or the patch is refused. A new edge after a settled node is
taken if its port is the one by which the node settled.
"""

from collections.abc import Iterator, Mapping

import msgspec

from perdure.core.errors import BadDefinition, BadValue
from perdure.core.paths import Path
from perdure.definitions.format.compiler import compile_definition
from perdure.definitions.graph.ir import GraphNode
from perdure.definitions.graph.plan import GraphPlan, PlannedNode
from perdure.definitions.graph.token_walk import Firing, Frame, NodeSettled, PassageBegan, PassageDropped, TokenWalk


class PatchMismatch(Exception):  # caught by `patch_problems`, which returns the reason
    """The history of an execution does not fit a plan."""


def patch_problems(before: GraphPlan, walk: TokenWalk, definition: bytes) -> tuple[str, ...]:
    """Returns the reasons why an execution can't continue with another definition; empty if it can."""
    try:
        plan = GraphPlan(compile_definition(msgspec.json.decode(definition)))
    except (BadDefinition, BadValue, msgspec.DecodeError) as error:
        return (f"it is not a valid definition: {error}",)
    if plan.ir.name != before.ir.name:
        return (f"its name is {plan.ir.name}, and the execution belongs to {before.ir.name}",)
    if not walk.is_whole:
        return ("an endless loop has forgotten iterations, so the history is incomplete; start another execution on the new definition",)
    complaints = tuple(_changed_nodes(before, walk, plan))
    if complaints:
        return complaints
    try:
        _ = walk_over_plan(walk, plan)
    except PatchMismatch as error:
        return (str(error),)
    return ()


def patched_walk(before: TokenWalk, plan: GraphPlan) -> TokenWalk:
    """Returns the walk of a live execution over another plan, which fits. Open firings stay the same objects, because the runs of their verbs refer to them."""
    after = walk_over_plan(before, plan)
    turns = {frame.path: frame for frame in before.frames() if frame.stay is not None}  # before open firings move to the new frames
    for path, firing in after.open.items():
        known = before.open.get(path)
        if known is not None:
            known.frame, known.place, known.error = firing.frame, firing.place, firing.error
            after.open[path] = known
    for frame in after.frames():
        if frame.stay is not None and (turned := turns.get(frame.path)) is not None and turned.stay is not None:
            frame.scope, frame.stay.scope, frame.stay.tick = turned.scope, turned.stay.scope, turned.stay.tick
    begun = {one.path for one in before.happened if isinstance(one, NodeSettled)} | before.open.keys()
    after.ready = type(after.ready)(firing for firing in after.ready if firing.path not in begun)
    after.ready.extendleft(reversed([firing for firing in before.ready if firing.path in after.open]))
    after.hops, after.trace, after.traced, after.left = before.hops, before.trace, before.traced, before.left
    return after


def walk_over_plan(walk: TokenWalk, plan: GraphPlan) -> TokenWalk:
    """Repeats everything that has happened in a walk over another plan.

    Raises:
        PatchMismatch: something that has happened is not possible there.
    """
    after = TokenWalk(plan)
    after.hops_max = max(walk.hops_max, walk.hops * 2 + 1)
    frames: dict[Path, Frame] = {}
    for one in walk.happened:
        match one:
            case PassageBegan():
                around = None if one.around is None else _frame_at(after, frames, one.around)
                frames[one.path] = after.begin(_region_of(plan, one), around, one.path, one.scope, one.what)
            case NodeSettled(path):
                firing = after.open.get(path)
                if firing is None:
                    raise PatchMismatch(f"{_node_id(path)} has settled, and would not have been reached; leave the path to it unchanged")
                after.settle(firing, _edges_taken(after, firing, one), one.port, one.chosen, one.error)
            case PassageDropped(path):
                after.drop(_frame_at(after, frames, path))
    left = [_node_id(path) for path in walk.open if path not in after.open]
    if left:
        raise PatchMismatch(f"{left[0]} is in progress, and would not have been reached; leave the path to it unchanged")
    after.hops_max = plan.ir.limits.max_hops
    after.passed_by.clear()  # steps that were passed by before the patch keep reading as they did
    return after


def _region_of(plan: GraphPlan, one: PassageBegan) -> int:
    if not one.block:
        return 0
    bodies = plan.by_id[one.block].node.bodies
    return bodies[one.body] if 0 <= one.body < len(bodies) else int(plan.by_id[one.block].node.on_error)


def _frame_at(walk: TokenWalk, frames: Mapping[Path, Frame], path: Path) -> Frame:
    if path in frames:
        return frames[path]
    for frame in walk.frames():
        if frame.path == path:
            return frame
    raise PatchMismatch("an iteration is in progress that would not have begun; leave the loop unchanged")


def _edges_taken(walk: TokenWalk, firing: Firing, one: NodeSettled) -> list[int]:
    """Returns the edges by which a settled node leads on in another walk: those of its port, or those to the steps that it chose."""
    if not one.chosen:
        return list(walk.by_port(firing, one.port))
    found: dict[str, int] = {}
    plan = walk.plan
    for number in firing.place.out:
        found.setdefault(plan.places[plan.edges[number].target].node.id, number)
    return [found[id] for id in one.to if id in found]


def _changed_nodes(old: GraphPlan, walk: TokenWalk, plan: GraphPlan) -> Iterator[str]:
    """Yields the changes of a plan that affect nodes that have begun."""
    begun = {_node_id(one.path) for one in walk.happened if isinstance(one, NodeSettled)} | {_node_id(path) for path in walk.open}
    for id in sorted(begun):
        before, after = old.by_id[id], plan.by_id.get(id)
        if after is None:
            yield f"{id} has begun, and can't be removed"
        elif _fixed_parts(before.node) != _fixed_parts(after.node):
            yield f"{id} has begun, and can't be changed; add a step after it, or fork the execution from there"
        elif ways := _incoming_ways(plan, after) - _incoming_ways(old, before):
            source, _ = min(ways)
            yield f"{id} has begun, so {source} can't lead to it any more; connect {source} to another step"
        elif gone := _incoming_ways(old, before) - _incoming_ways(plan, after):
            source, _ = min(gone)
            yield f"{id} has begun, and {source} led to it; leave that path unchanged"


def _fixed_parts(node: GraphNode) -> GraphNode:
    """Returns the parts of a node that must not change once it has begun: all but its position and where it leads."""
    rules = tuple(msgspec.structs.replace(rule, edges=(), on_max=()) for rule in node.rules)
    bodies = tuple(0 for _ in node.bodies)
    on_error = 0 if isinstance(node.on_error, int) else node.on_error
    return msgspec.structs.replace(node, region=0, rules=rules, choose=(), default=(), bodies=bodies, on_error=on_error, pointer="", name="")


def _incoming_ways(plan: GraphPlan, place: PlannedNode) -> set[tuple[str, str]]:
    """Returns the nodes and ports that lead to a node, without back edges."""
    return {(plan.places[plan.edges[number].source].node.id, plan.edges[number].port) for number in place.incoming}


def _node_id(path: Path) -> str:
    """Returns the id of the node at a path."""
    segment = path[-1]
    return segment[0] if isinstance(segment, tuple) else str(segment)
