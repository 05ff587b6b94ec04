"""Loops without end: each turn begins with what it needs of those before, so old turns are forgotten and the log stays bounded.

What a turn begins with are the results of the steps in the loop, the variables and the counters; a compacted log goes on from there.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from perdure.core import events as e
from perdure.core import values
from perdure.core.operations import KeepOperation
from perdure.core.paths import Path
from perdure.core.values import ENCODED_NONE
from perdure.definitions.graph.ir import RepeatOptions
from perdure.definitions.graph.node_scope import NodeScope, Output
from perdure.definitions.graph.token_walk import CycleRun, Firing

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram

ITERATIONS_KEPT = 1
"""Turns that are kept before the present one, if the definition does not say."""


class IterationStart(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a turn begins with: results by id (encoded, port, kind), variables, what it has from the turn before, and what was counted before the first turn.

    From the turn before, a repetition has its result, and a cycle the error behind which its head stands. `passed_by` are steps that it did not reach.
    The limits of hops and steps hold for one turn of such a loop, not for all.
    """

    outputs: dict[str, tuple[bytes, str, str]]
    variables: bytes = ENCODED_NONE
    before: bytes = ENCODED_NONE
    hops: int = 0
    steps: int = 0
    passed_by: tuple[str, ...] = ()


class EndlessLoops:
    """The loops without end of one execution."""

    def __init__(self, run: "GraphProgram") -> None:
        self.run = run
        self.counted: dict[Path, tuple[int, int]] = {}

    def begin(self, path: Path, turn: int, ids: Sequence[str], names: NodeScope, before: Output, repeat: RepeatOptions | None = None) -> None:
        """Note with what a turn begins, and forget turns."""
        run, keep = self.run, (0 if repeat is None else repeat.keep) or ITERATIONS_KEPT
        undo_before = turn - repeat.undo_keep if repeat is not None and repeat.undo_keep else 0
        hops, steps = self.counted.setdefault(path, (run.walk.hops, run.started_steps))
        run.walk.hops, run.started_steps = hops, steps

        def beginning() -> bytes:
            known = {id: names.outputs[id] for id in ids if id in names.outputs}
            outputs = {id: (output.raw, output.port, output.kind) for id, output in known.items()}
            variables = values.encode(run.roots.variables, "the variables")
            passed_by = () if names.turn is None else tuple(sorted(names.turn.passed_by))
            return values.encode(IterationStart(outputs, variables, before.raw, hops, steps, passed_by), "the state of loop", path)

        _ = run.log.note((*path, turn), KeepOperation(ENCODED_NONE if run.log.replaying else beginning(), "turn"))
        if turn > keep:
            run.log.trim(path, turn - keep, max(0, undo_before))
            self._forget_names(path, turn - keep)
            run.walk.forget()

    def _forget_names(self, path: Path, before: int) -> None:
        """Forget what the undo of steps in turns before this one could read."""
        depth, names = len(path), self.run.undo_scopes
        for one in [one for one in names if one[:depth] == path and len(one) > depth and isinstance(turn := one[depth], int) and turn < before]:
            del names[one]

    def lies_in_endless_loop(self, path: Path) -> bool:
        """Whether a path lies in a turn that may be forgotten."""
        return any(path[:end] in self.counted for end in range(1, len(path)))

    def resumes(self, path: Path) -> bool:
        """Whether the log was compacted, and the loop goes on from a later turn."""
        return path in self.run.execution.resumes

    def restored(self, event: e.IterationResumedEvent, names: NodeScope) -> Output:
        """Know again with what a turn begins; return what it has from the turn before."""
        run = self.run
        known: IterationStart = values.decode(run.log.raw(event.value), IterationStart, "the state of loop", event.path)
        for id, (raw, port, kind) in known.outputs.items():
            names.outputs[id] = Output(raw, port, kind)
        if names.turn is not None:
            names.turn.pass_by(known.passed_by)
        run.roots.variables = values.decode(known.variables, dict, "the variables") or {}
        self.counted[event.path] = run.walk.hops, run.started_steps = known.hops, known.steps
        run.walk.forget()
        return Output(known.before)

    # cycles

    def holds(self, firing: Firing) -> bool:
        """Whether a turn of a cycle is not to be begun yet, as it is not the one from which the log goes on. Else, its beginning is noted."""
        stay, run = firing.frame.stay, self.run
        if stay is None or firing.place.cycle != stay.region or not run.plan.is_endless(stay.region):
            return False
        names = firing.frame.scope
        assert isinstance(names, NodeScope)
        if stay.turn == 0 and self.resumes(stay.path):
            run.log.wait_for_turn(stay.path, lambda event: self._go_on(firing, stay, event, names))
            return True
        before = Output() if firing.error is None else Output.of(firing.error, "an error")
        self.begin(stay.path, stay.turn, run.plan.ids_in(stay.region), names, before)
        return False

    def _go_on(self, firing: Firing, stay: CycleRun, event: e.IterationResumedEvent, names: NodeScope) -> None:
        firing.error = self.restored(event, names).value
        self.run.walk.skip_to(firing, stay, event.turn)
        self.run.begin_firing(firing)
