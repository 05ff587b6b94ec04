"""Explains the conditions that a step of a definition has judged: row by row, with the values that they had.

The log keeps what was decided, not what was compared. So the log is replayed up to the moment of each condition, and the condition is evaluated again on the
results that there were then.
"""

from typing import Literal

import msgspec

from perdure.core.errors import BadValue
from perdure.core.paths import Key, Path, parse_path, path_text
from perdure.definitions.expr.condition_rows import ConditionRow
from perdure.definitions.graph.execution_view import NodeConditions, conditions_at_event
from perdure.definitions.graph.graph_run import JudgedCondition
from perdure.definitions.graph.ir import GraphNode
from perdure.definitions.graph.step_texts import condition_text
from perdure.runtime.blob_loader import BlobCache, run_in_threads
from perdure.service.definition_views import OF_A_DEFINITION, definition_of_past
from perdure.service.past_states import read_past
from perdure.service.shown_values import shown_value
from perdure.service.store_access import StoreAccess

SHOWN_MAX = 100
"""How many conditions are shown: those of the last turns."""

ConditionRole = Literal["when", "port", "again", "rule"]
"""``when``: whether the step runs. ``port``: the answer of a `test` or `if`. ``again``: whether a `repeat` goes on. ``rule``: a rule of `next`."""


class ShownCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that was judged at `path`: in a few words, and row by row. `holds` is None if it was not reached or can't be told.

    Of a rule, `number` counts from 1 (0: it is none), and `is_taken` says whether the execution went its way.
    """

    role: ConditionRole
    path: str
    text: str
    holds: bool | None
    rows: list[ConditionRow]
    number: int = 0
    is_taken: bool = False


class ConditionList(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of one passage of a step, in the order in which they were judged. `total` counts all; of more than 100, the last ones are listed.

    They were evaluated again for this list, on the values of then. A long value is shortened text.
    """

    items: list[ShownCondition]
    total: int


async def read_conditions(access: StoreAccess, key: Key, path: str, at: int | None) -> ConditionList:
    """The conditions that a passage of a step has judged, now or by event `at` of the log. Of a path that ends with an item or a turn, those of it alone.

    Raises:
        NotFound: there is no such execution.
        BadValue: it runs code, or no step has begun at the path, or its log has no such event.
        NotReplayable: its log does not replay over the definition.
    """
    try:
        asked = parse_path(path)
    except ValueError:
        raise BadValue("path", path, "the path of a step, such as charge or check/~2") from None
    passage = asked
    while passage and isinstance(passage[-1], int):
        passage = passage[:-1]
    past = await read_past(access.store, key, at)
    if definition_of_past(past) is None:
        raise BadValue("execution", str(key), OF_A_DEFINITION)
    has_begun, judged = past.fold().started is not None, conditions_at_event(key, past.events, past.position, passage)
    found = await run_in_threads(BlobCache(access.store), judged) if has_begun else None
    if found is None or found.node is None:
        raise BadValue("path", path, "the path of a step that has begun by then")
    shown = [one for one in _shown(found, found.node) if _is_of(parse_path(one.path), passage, asked)]
    return ConditionList(items=shown[-SHOWN_MAX:], total=len(shown))


def _is_of(path: Path, passage: Path, asked: Path) -> bool:
    """Whether a condition is of the item or turn that is asked for; those of the step as a whole are of each."""
    return len(path) == len(passage) or path[: len(asked)] == asked


def _shown(found: NodeConditions, node: GraphNode) -> list[ShownCondition]:
    shown: list[ShownCondition] = []
    for one in found.judged:
        role = _role(one, node, is_first=not shown)
        shown.append(
            ShownCondition(
                role=role,
                path=path_text(one.path),
                text=condition_text(one.source),
                holds=one.holds,
                rows=[_shortened(row) for row in one.rows],
                number=one.rule + 1,
                is_taken=one.rule >= 0 and found.taken.partition(" ")[0] == str(one.rule),
            )
        )
    return shown


def _role(one: JudgedCondition, node: GraphNode, *, is_first: bool) -> ConditionRole:
    if one.rule >= 0:
        return "rule"
    if one.path[-1] == ("again", 0):
        return "again"
    return "when" if is_first and node.when is not None else "port"


def _shortened(row: ConditionRow) -> ConditionRow:
    reads = {name: shown_value(value) for name, value in row.reads.items()}
    return msgspec.structs.replace(row, left=shown_value(row.left), right=shown_value(row.right), reads=reads, source=shown_value(row.source))
