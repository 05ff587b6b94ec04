"""What an execution of code is likely to do next, from what the latest completed executions of the same workflow and version have done.

Code has no plan, so this is only known where those executions agree: each has done everything that this one has done so far, and each did the same steps behind
it, in the same order. Otherwise nothing is said. It looks at steps outside of branches and loops alone.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from perdure.core.execution import Execution
from perdure.core.operations import KeepOperation, operation_kind, operation_target
from perdure.core.paths import Key, Path, Segment
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
    """The steps that are likely to come, in order, and of how many executions they are drawn."""

    steps: Sequence[ExpectedStep]
    examples: int


NOTHING_KNOWN = CodePlan((), 0)


class CodePlans:
    """Draws plans from the executions of a store. What the examples of a version did is kept for a minute."""

    def __init__(self, store: Store, folds: FoldCache) -> None:
        self._store, self._folds = store, folds
        self._known: dict[tuple[str, str, str], tuple[float, list[list[ExpectedStep]]]] = {}

    async def plan_of(self, head: Head, execution: Execution) -> CodePlan:
        """What an execution is likely to do next; nothing if it runs a definition, or has ended."""
        if execution.started is None or execution.ended is not None or execution.definition is not None or execution.cancelling is not None:
            return NOTHING_KNOWN
        examples = await self._examples(head)
        reached = {path[0] for path in (*execution.settled, *execution.open) if path}
        if len(examples) < EXAMPLES_MIN or any(not _steps_reached(reached, execution) <= {step.path[0] for step in one} for one in examples):
            return NOTHING_KNOWN
        left = [[step for step in one if step.path[0] not in reached] for one in examples]
        shared = [step for step in left[0] if all(any(other.path == step.path for other in one) for one in left)]
        paths = [step.path for step in shared]
        if any([step.path for step in one if step.path in set(paths)] != paths for one in left):
            return NOTHING_KNOWN
        return CodePlan(shared, len(examples)) if shared else NOTHING_KNOWN

    async def _examples(self, head: Head) -> list[list[ExpectedStep]]:
        name = (head.key.tenant, head.key.workflow, head.program)
        until_s, found = self._known.get(name, (0.0, []))
        if time.monotonic() < until_s:
            return found
        which = HeadFilter(tenant=head.key.tenant, workflow=head.key.workflow, statuses=frozenset(("completed",)), limit=LOOKED_AT)
        alike = [one.key for one in await self._store.heads(which) if one.program == head.program and 0 < one.version <= EVENTS_MAX]
        found = [await self._steps(key) for key in alike[:EXAMPLES_MAX]]
        self._known[name] = (time.monotonic() + KEPT_S, found)
        while len(self._known) > KEPT_MAX:
            del self._known[next(iter(self._known))]
        return found

    async def _steps(self, key: Key) -> list[ExpectedStep]:
        return await self._folds.of(key).view(_outer_steps)


def _outer_steps(execution: Execution) -> list[ExpectedStep]:
    """The steps outside of branches and loops, in the order in which they were opened; of a branch or loop, the whole is one."""
    found: dict[Segment, ExpectedStep] = {}
    for path, known in sorted(execution.settled.items(), key=lambda one: one[1].number):
        if not path or not _is_of_program(path[0]):
            continue
        if len(path) == 1 and (not isinstance(known.op, KeepOperation) or known.op.role == "branches"):
            found[path[0]] = ExpectedStep(path, operation_kind(known.op), "" if isinstance(known.op, KeepOperation) else operation_target(known.op))
        elif len(path) > 1:
            found.setdefault(path[0], ExpectedStep(path[:1], "branch", ""))
    return list(found.values())


def _steps_reached(reached: set[Segment], execution: Execution) -> set[Segment]:
    """Those of the reached names that are steps: notes and values that were set are none."""
    kept = {path[0] for path, one in execution.settled.items() if len(path) == 1 and isinstance(one.op, KeepOperation) and one.op.role != "branches"}
    return {segment for segment in reached if _is_of_program(segment)} - kept


def _is_of_program(segment: Segment) -> bool:
    return isinstance(segment, tuple) and segment[1] > 0
