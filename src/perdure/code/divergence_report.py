"""Explains a divergence: how the code of a workflow differs from the log of an execution, in words.

Replay stops at the first difference, and can't say whether a step was renamed, removed or moved. The new code is therefore explored, and the operations
that it asks for are compared with the recorded ones, scope by scope and in their order.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from itertools import takewhile

import msgspec

from perdure.code.declarations import CodeWorkflow
from perdure.code.operation_paths import operation_text
from perdure.code.replay_exploration import CodeExploration, OperationNode, RecordedOperations, explore_code, operation_sort, read_recorded_operations
from perdure.core import events as e
from perdure.core.errors import Diverged, Evicted
from perdure.core.operations import Failure, KeepOperation, Operation, is_same_operation
from perdure.core.paths import Key, Path, Segment, path_text
from perdure.core.replay import LoadBlob

LINES_MAX = 20
"""The most differences that are reported singly."""

ALIKE_MAX = 10
"""The most candidates that are compared with the name of a missing operation."""

NAME_CHARACTERS_MAX = 60
"""The number of characters of a name that are compared."""

OTHER_SHAPE = "remembered a value of another shape,"
"""The beginning of a divergence about a value, to which exploration adds nothing."""


class ReplayDifference(msgspec.Struct, eq=False):
    """One difference: its kind, the recorded operation, the one that is asked for, and a line of text. An `open_ended` one is at the end of a scope."""

    clock: int
    what: str
    remembered: OperationNode | None
    asked: OperationNode | None
    line: str
    open_ended: bool = False

    @property
    def places(self) -> list[Path]:
        """The paths of both operations."""
        return [node.path for node in (self.remembered, self.asked) if node is not None]


ReplayDifferences = Iterator[ReplayDifference]


class ReplayComparison:
    """Compares recorded operations with those that the code asks for, scope by scope. Never reports an operation as removed that was merely not reached."""

    def __init__(self, memory: RecordedOperations, exploration: CodeExploration) -> None:
        self._memory = memory
        self._exploration = exploration
        self._unpassed = {*exploration.execution.open, *exploration.dropped, exploration.keep}
        self._waiting = {path[:end] for path in exploration.execution.open for end in range(len(path))}
        for path in exploration.dropped:
            self._waiting.update(path[:end] for end in range(self._race_around(path) + 1, len(path)))

    def _race_around(self, path: Path) -> int:
        """Returns the length of the path of the outermost race in which this operation was dropped; 0 if there is none."""
        return next((end for end in range(len(path)) if _is_race(self._exploration.asked.get(path[:end]))), 0)

    def all(self) -> list[ReplayDifference]:
        """Returns every difference. After a missing operation, what the code asks for at the end of a scope may be from beyond the log."""
        found = [*self._failure(), *self._sequence(self._memory.root, self._exploration.root, None)]
        paired = {one.remembered.path for one in found if one.remembered is not None and one.asked is not None}
        lost = (path for path in self._memory.ops if path not in self._exploration.asked and not any(path[:end] in paired for end in range(1, len(path) + 1)))
        lost_at = min((self._memory.clocks[path] for path in lost), default=None)
        return [one for one in found if not (one.open_ended and lost_at is not None and one.clock >= lost_at)]

    def _failure(self) -> ReplayDifferences:
        finish = self._exploration.finish
        if finish is not None and isinstance(finish.outcome, Failure) and finish.status == "failed" and not self._exploration.guesses:
            left = next((operation_text(path, op) for path, op in self._memory.ops.items() if path not in self._exploration.asked), "something else")
            error = finish.outcome.error
            line = f"the workflow now ends with {error.type}: {error.message}, where the log has {left}"
            yield ReplayDifference(self._exploration.clock, "fails", None, None, line)

    def _both(self, remembered: OperationNode, asked: OperationNode, ended: Path | None) -> ReplayDifferences:
        """Yields the differences of two operations at one path and of what is below them. `ended` is their scope, if the code asked for something after it."""
        if remembered.op is not None and asked.op is not None and is_same_operation(remembered.op, asked.op):
            below = self._side_by_side if _is_branches(asked.op) else self._sequence
            yield from below(remembered, asked, None if _is_race(asked.op) else ended)
        elif _is_branches(remembered.op) and _is_branches(asked.op):
            line = f"{path_text(asked.path)} is remembered as {_label(remembered)}, asked for as {_label(asked)}"
            yield _difference("other branches", remembered, asked, line)
            for segment in [segment for segment in remembered.children if segment in asked.children]:
                yield from self._both(remembered.children[segment], asked.children[segment], None)
        elif remembered.op is None and asked.op is None:
            yield from self._sequence(remembered, asked, ended)
        else:
            yield _difference("other target", remembered, asked, f"{_shown(remembered)} is now {_shown(asked)}")

    def _side_by_side(self, remembered: OperationNode, asked: OperationNode, ended: Path | None) -> ReplayDifferences:
        """Yields the differences of branches, which have no order."""
        for segment in remembered.children | asked.children:
            nothing = OperationNode((*asked.path, segment), 0)
            yield from self._both(remembered.children.get(segment, nothing), asked.children.get(segment, nothing), ended)

    def _sequence(self, remembered: OperationNode, asked: OperationNode, ended: Path | None) -> ReplayDifferences:
        """Yields the differences of the operations of one scope, in order."""
        left, right = deque(remembered.children.values()), deque(asked.children.values())
        shared = remembered.children.keys() & asked.children.keys()
        moved = 0
        while (left or right) and moved <= LINES_MAX:
            first, other = left[0] if left else None, right[0] if right else None
            if first is None or other is None or not {first.path[-1], other.path[-1]} <= shared:
                lost, new = _until(left, shared), _until(right, shared)
                yield from self._unmatched(lost, new, left, right, ended)
                continue
            path = first.path
            if first.path != other.path:
                yield _difference("reordered", first, other, f"{_shown(first)} is remembered where {_shown(other)} is asked now")
                moved += 1
                path = _displaced([node.path for node in left], [node.path for node in right])
            first, other = _take(left, path), _take(right, path)
            behind = path if any(node.sure for node in right) else None
            yield from self._both(first, other, ended or behind)

    def _unmatched(
        self, lost: list[OperationNode], new: list[OperationNode], left: Sequence[OperationNode], right: Sequence[OperationNode], ended: Path | None
    ) -> ReplayDifferences:
        """Yields the differences of operations that are only recorded or only asked for, between two that are both."""
        new = [node for node in new if not _is_gate(node.op)]  # an unrecorded version gate chooses the oldest version, and is no difference
        by_sort: dict[str, list[OperationNode]] = {}
        for node in new:
            by_sort.setdefault(_sort(node), []).append(node)
        renamed: dict[OperationNode, OperationNode] = {}
        for node in lost:
            if alike := by_sort.get(_sort(node)):
                other = _closest(node, alike[:ALIKE_MAX]) if len(renamed) < LINES_MAX else alike[0]
                alike.remove(other)
                renamed[node] = other
                yield _difference("renamed", node, other, f"{_shown(node)} is now {_shown(other)}")
        paired = set(renamed.values())
        lost, new = [node for node in lost if node not in renamed], [node for node in new if node not in paired]
        passed = new if left else list(takewhile(lambda node: node.path not in self._unpassed, new))
        replaced = min(len(lost), len(passed))
        for node, other in zip(lost[:replaced], new[:replaced], strict=True):
            yield _difference("replaced", node, other, f"{_shown(node)} is now {_shown(other)}")
        lost, new = lost[replaced:], new[replaced:]
        asked_there, remembered_there = _first_shown([*new, *right]), _first_shown([*lost, *left])
        for node in lost:
            if left or self._gone(node, ended):
                yield _difference("removed", node, None, f"{_shown(node)} is remembered, where {asked_there} is asked now")
        for node in new:
            if right or node.sure:
                line = f"{_shown(node)} is asked now, where {remembered_there} is remembered"
                yield _difference("inserted", None, node, line, open_ended=not right)

    def _gone(self, node: OperationNode, ended: Path | None) -> bool:
        """Whether an operation at the end of a scope was reached and not asked for."""
        exploration = self._exploration
        if node.path[:-1] in self._waiting:
            return False
        if ended is not None and ended not in self._waiting:
            return True
        if not exploration.sure or exploration.stopped:
            return False
        if exploration.finish is not None:
            return exploration.finish.status != "failed"
        return exploration.placed.issuperset(self._memory.causes.get(node.clock, ()))


def explain_divergence(workflow: CodeWorkflow, key: Key, events: Sequence[e.Event], diverged: Diverged) -> Generator[LoadBlob, bytes, tuple[str, ...]]:
    """Returns how `workflow` differs from the log `events` of the execution `key`, given how replay `diverged`: a line for each difference.

    The first line is about the earliest one. Nothing is performed, and no function of the user but the workflow itself is called. If the exploration finds
    nothing, or the code fails for another reason, the result is the one known mismatch.
    """
    if any(line.startswith(OTHER_SHAPE) for line in diverged.diff):
        return diverged.diff
    try:
        memory = read_recorded_operations(key, events)
        exploration = yield from explore_code(workflow, key, memory)
        lines = _lines(ReplayComparison(memory, exploration).all())
    except (Exception, Evicted, SystemExit):
        return diverged.diff
    return lines or diverged.diff


def _lines(differences: Iterable[ReplayDifference]) -> tuple[str, ...]:
    """Returns the differences in words, the earliest first; one that recurs in later iterations of a loop is listed once."""
    turns: dict[ReplayDifference, set[Path]] = {}
    first: dict[Path, ReplayDifference] = {}
    for difference in sorted(differences, key=lambda one: one.clock):
        turn = _turn_of(difference.places[0]) if difference.places else ()
        known = next((first[place] for place in map(_turnless, difference.places) if place in first), None)
        if known is not None and turn not in turns[known]:
            turns[known].add(turn)
        elif known is None or turn == _turn_of(known.places[0]):
            turns[difference] = {turn}
            first |= {_turnless(place): difference for place in difference.places if _turnless(place) not in first}
    lines = [f"{one.what}: {one.line}{' (and in later iterations)' if len(seen) > 1 else ''}" for one, seen in turns.items()]
    return (*lines[:LINES_MAX], *((f"and {len(lines) - LINES_MAX} more",) if len(lines) > LINES_MAX else ()))


def _turnless(path: Path) -> Path:
    return tuple(-1 if isinstance(segment, int) else segment for segment in path)


def _turn_of(path: Path) -> Path:
    return tuple(segment for segment in path if isinstance(segment, int))


def _sort(node: OperationNode) -> str:
    if node.op is not None:
        return operation_sort(node.op)
    if any(isinstance(segment, int) for segment in node.children):
        return "loop"
    return "turn" if isinstance(node.path[-1], int) else "task"


def _shown(node: OperationNode) -> str:
    return f"{path_text(node.path)} ({_sort(node)})" if node.op is None else operation_text(node.path, node.op)


def _first_shown(nodes: Sequence[OperationNode]) -> str:
    return _shown(nodes[0]) if nodes else "nothing"


def _difference(what: str, remembered: OperationNode | None, asked: OperationNode | None, line: str, open_ended: bool = False) -> ReplayDifference:
    return ReplayDifference(min(node.clock for node in (remembered, asked) if node is not None), what, remembered, asked, line, open_ended)


def _is_branches(op: Operation | None) -> bool:
    return isinstance(op, KeepOperation) and op.role == "branches"


def _is_gate(op: Operation | None) -> bool:
    return isinstance(op, KeepOperation) and op.role == "version"


def _is_race(op: Operation | None) -> bool:
    return isinstance(op, KeepOperation) and op.role == "branches" and op.label.startswith("race ")


def _label(node: OperationNode) -> str:
    return node.op.label if isinstance(node.op, KeepOperation) else ""


def _name(node: OperationNode) -> str:
    """Returns the last name of a path, cut to the length that is compared."""
    last = node.path[-1]
    return str(last) if isinstance(last, int) else last[0][:NAME_CHARACTERS_MAX]


def _closest(node: OperationNode, others: Sequence[OperationNode]) -> OperationNode:
    """Returns the one of `others` whose name is most similar; the first, if none is."""
    names = get_close_matches(_name(node), [_name(other) for other in others], 1) if len(others) > 1 else []
    return next((other for other in others if [_name(other)] == names), others[0])


def _until(nodes: deque[OperationNode], shared: AbstractSet[Segment]) -> list[OperationNode]:
    """Removes and returns the nodes before the first one that is on both sides."""
    taken = []
    while nodes and nodes[0].path[-1] not in shared:
        taken.append(nodes.popleft())
    return taken


def _displaced(left: Sequence[Path], right: Sequence[Path]) -> Path:
    """Returns the one of two swapped operations that moved further."""
    return right[0] if left.index(right[0]) >= right.index(left[0]) else left[0]


def _take(nodes: deque[OperationNode], path: Path) -> OperationNode:
    node = next(node for node in nodes if node.path == path)
    nodes.remove(node)
    return node
