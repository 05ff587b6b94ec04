"""What an execution of code is likely to do next, from what the latest completed executions of the same workflow and version have done.

Code has no plan, so this is only known where those executions agree: each has done everything that this one has done so far, and each did the same steps behind
it, in the same order. Otherwise no step is expected. Where an execution has done a step that none of them has, it has left their way, and it is said what they
did there. It looks at steps outside of branches and loops alone.
"""

import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from perdure.core.execution import Execution
from perdure.core.operations import KeepOperation, operation_kind, operation_target
from perdure.core.paths import Key, Path, Segment, path_text
from perdure.definitions.graph.shown_graph import LeftWay
from perdure.service.execution_folds import FoldCache
from perdure.stores.protocol import Head, HeadFilter, Store

EXAMPLES_MAX, EXAMPLES_MIN = 10, 3
"""Of how many executions a plan is drawn at most and at least."""

LOOKED_AT = 50
"""Among how many completed executions those of the same version are looked for."""

KEPT_S, KEPT_MAX = 60.0, 200
EVENTS_MAX = 5_000
"""Longer logs are no examples."""


class ExpectedStep(NamedTuple):
    """A step that is likely to come: its path, and the kind and target of its operation."""

    path: Path
    kind: str
    target: str


class CodePlan(NamedTuple):
    """The steps that are likely to come, in order, and of how many executions they are drawn; or where the execution has left the way of those."""

    steps: Sequence[ExpectedStep]
    examples: int
    left_way: LeftWay | None = None


NOTHING_KNOWN = CodePlan((), 0)


class CodePlans:
    """Draws plans from the executions of a store. What the examples of a version did is kept for a minute."""

    def __init__(self, store: Store, folds: FoldCache) -> None:
        self._store, self._folds = store, folds
        self._known: dict[tuple[str, str, str], tuple[float, list[tuple[Key, list[ExpectedStep]]]]] = {}

    async def plan_of(self, head: Head, execution: Execution) -> CodePlan:
        """What an execution is likely to do next, and where it has left the way of others. Nothing of one that runs a definition or is cancelled; one that has
        ended does nothing more.
        """
        if execution.started is None or execution.definition is not None or execution.cancelling is not None:
            return NOTHING_KNOWN
        examples = [steps for key, steps in await self._examples(head) if key != head.key]
        if len(examples) < EXAMPLES_MIN:
            return NOTHING_KNOWN
        own = _outer_steps(execution)
        left_way = _left_way(own, examples)
        if left_way is not None or execution.ended is not None:
            return CodePlan((), 0, left_way)
        return _drawn_plan({step.path[0] for step in own}, examples)

    async def _examples(self, head: Head) -> list[tuple[Key, list[ExpectedStep]]]:
        name = (head.key.tenant, head.key.workflow, head.program)
        until_s, found = self._known.get(name, (0.0, []))
        if time.monotonic() < until_s:
            return found
        which = HeadFilter(tenant=head.key.tenant, workflow=head.key.workflow, statuses=frozenset(("completed",)), limit=LOOKED_AT)
        alike = [one.key for one in await self._store.heads(which) if one.program == head.program and 0 < one.version <= EVENTS_MAX]
        found = [(key, await self._steps(key)) for key in alike[:EXAMPLES_MAX]]
        self._known[name] = (time.monotonic() + KEPT_S, found)
        while len(self._known) > KEPT_MAX:
            del self._known[next(iter(self._known))]
        return found

    async def _steps(self, key: Key) -> list[ExpectedStep]:
        return await self._folds.of(key).view(_outer_steps)


def _drawn_plan(reached: set[Segment], examples: Sequence[Sequence[ExpectedStep]]) -> CodePlan:
    """The steps that all examples did behind what was reached, if they agree."""
    if any(not reached <= {step.path[0] for step in one} for one in examples):
        return NOTHING_KNOWN
    left = [[step for step in one if step.path[0] not in reached] for one in examples]
    shared = [step for step in left[0] if all(any(other.path == step.path for other in one) for one in left)]
    paths = [step.path for step in shared]
    if any([step.path for step in one if step.path in set(paths)] != paths for one in left):
        return NOTHING_KNOWN
    return CodePlan(shared, len(examples)) if shared else NOTHING_KNOWN


def _left_way(own: Sequence[ExpectedStep], examples: Sequence[Sequence[ExpectedStep]]) -> LeftWay | None:
    """Where an execution has done a step whose name no example has. That a step is repeated more often than before is no other way."""
    known = {_name(step) for one in examples for step in one}
    place = next((number for number, step in enumerate(own) if _name(step) not in known), None)
    if place is None:
        return None
    before = {step.path for step in own[:place]}
    followed = [next((step for step in one if step.path not in before), None) for one in examples]
    instead = Counter(path_text(step.path) for step in followed if step is not None)
    return LeftWay(node=path_text(own[place].path), examples=len(examples), instead=dict(instead.most_common()))


def _name(step: ExpectedStep) -> str | int:
    segment = step.path[0]
    return segment[0] if isinstance(segment, tuple) else segment


def _outer_steps(execution: Execution) -> list[ExpectedStep]:
    """The steps outside of branches and loops, in the order in which they were opened; of a branch or loop, the whole is one. Notes and values are none."""
    found: dict[Segment, ExpectedStep] = {}
    known = [*((path, one.op, one.number) for path, one in execution.settled.items()), *((path, one.op, one.number) for path, one in execution.open.items())]
    for path, op, _ in sorted(known, key=lambda one: one[2]):
        if not path or not _is_of_program(path[0]):
            continue
        if len(path) == 1 and (not isinstance(op, KeepOperation) or op.role == "branches"):
            found[path[0]] = ExpectedStep(path, operation_kind(op), "" if isinstance(op, KeepOperation) else operation_target(op))
        elif len(path) > 1:
            found.setdefault(path[0], ExpectedStep(path[:1], "branch", ""))
    return list(found.values())


def _is_of_program(segment: Segment) -> bool:
    return isinstance(segment, tuple) and segment[1] > 0
