"""Lists the passages of one node of a graph: each time that it began, with the turns of the loops around it, so that people can go through a loop.

A node of a definition has an id, under which it passes again and again. In code, the passages of an operation are those at the same place in the other turns
and under the same name. Turns that were forgotten are gone.
"""

from collections.abc import Sequence

import msgspec

from perdure.core.errors import BadValue
from perdure.core.execution import Execution
from perdure.core.failure_causes import failure_site
from perdure.core.paths import UNDO, Key, Path, parse_path
from perdure.core.step_attempts import step_attempts
from perdure.core.views import StepState, StepView, step_views
from perdure.definitions.graph.execution_view import ExecutionView
from perdure.service.definition_views import view_of_past
from perdure.service.execution_graphs import Attempts
from perdure.service.past_states import read_past
from perdure.service.store_access import StoreAccess


class NodePassage(msgspec.Struct, frozen=True, kw_only=True):
    """One passage of a node, numbered from 1 in the order in which they began. `turns` are the numbers of the iterations and items around it, from the outside,
    and `attempts` how many its call had.
    """

    number: int
    path: str
    turns: list[int]
    state: StepState
    attempts: int
    started_at_s: float
    ended_at_s: float | None


class PassagePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of passages. `total` counts all that are kept; `next` is the `after` of the next page, None if this was the last."""

    items: list[NodePassage]
    total: int
    next: int | None


async def read_passages(access: StoreAccess, key: Key, node: str, at: int | None, after: int, limit: int) -> PassagePage:
    """The passages of a node, now or after event `at` of the log: up to `limit` behind number `after`.

    Raises:
        NotFound: there is no such execution.
        BadValue: its graph has no such node, or its log has no such event.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    if at is None:
        async with access.tails.use(key) as tail:
            view = await tail.view()
            return _page(node, tail.execution, tail.attempts, view, after, limit)
    past = await read_past(access.store, key, at)
    execution = Execution(key, past.head.root)
    attempts = step_attempts(execution, past.seen)
    view = await view_of_past(access.store, past)
    return _page(node, execution, attempts, view, after, limit)


def _page(node: str, execution: Execution, attempts: Attempts, view: ExecutionView | None, after: int, limit: int) -> PassagePage:
    found = _of_code(node, step_views(execution)) if view is None else _of_definition(node, view)
    items = [_passage(number, path, step, attempts) for number, (path, step) in enumerate(found[after : after + limit], after + 1)]
    return PassagePage(items=items, total=len(found), next=after + limit if len(found) > after + limit else None)


def _of_definition(node: str, view: ExecutionView) -> list[tuple[Path, StepView]]:
    if all(one.id != node for one in view.ir.nodes):
        raise BadValue("node", node, "the id of a node of the graph")
    paths = ((parse_path(step.path), step) for step in view.steps)
    return [(path, step) for path, step in paths if path[0] != UNDO and isinstance(path[-1], tuple) and path[-1][0] == node]


def _of_code(node: str, steps: Sequence[StepView]) -> list[tuple[Path, StepView]]:
    try:
        wanted = failure_site(parse_path(node))
    except ValueError:
        wanted = ""
    paths = ((parse_path(step.path), step) for step in steps)
    found = [(path, step) for path, step in paths if wanted and failure_site(path) == wanted]
    if not found:
        raise BadValue("node", node, "the path of an operation that has begun, and of which the log still has a turn")
    return found


def _passage(number: int, path: Path, step: StepView, attempts: Attempts) -> NodePassage:
    return NodePassage(
        number=number,
        path=step.path,
        turns=[segment if isinstance(segment, int) else segment[1] for segment in path if isinstance(segment, int) or segment[1] > 1],
        state=step.state,
        attempts=len(attempts.get(path, ())),
        started_at_s=step.opened_at_s,
        ended_at_s=step.settled_at_s,
    )
