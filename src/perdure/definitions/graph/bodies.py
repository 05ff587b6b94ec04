"""Bodies: the steps inside of a block, as they run. When all that goes on in them has ended, or one way or another it is decided, the block settles."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.core.errors import ErrorInfo
from perdure.core.operations import Failure, SleepOperation
from perdure.core.paths import Path
from perdure.core.values import ENCODED_NONE
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.node_scope import NodeOutcome, NodeScope, Output, combined_outcome
from perdure.definitions.graph.token_walk import Firing, Frame

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram


class BlockRun:
    """One passage through the body of a block. `kind` is do, parallel or race; at most `concurrency` of its entries run at a time (0: all).

    `port` is by which the block settles when the body ends well. The timeout of the block bounds it if it `is_timed`.
    """

    def __init__(self, run: "GraphProgram", doing: VerbRun, kind: str, concurrency: int = 0, go_on: bool = False, is_timed: bool = True) -> None:
        self.run, self.doing, self.kind = run, doing, kind
        self.concurrency, self.go_on, self.is_timed = concurrency, go_on, is_timed
        self.port = "success"
        self.frame: Frame | None = None
        self.held: deque[Firing] = deque()
        self.active = 0
        self.branches: dict[Path, None] = {}
        self.outputs: dict[str, Output] = {}
        self.error: Failure | None = None
        self.is_over = False

    def begin(self, region: int, names: NodeScope | None = None, port: str = "success") -> None:
        """Begin with the steps of `region`."""
        self.port, timeout_s = port, self.doing.node.timeout_s if self.is_timed else None
        if timeout_s is not None:
            _ = self.run.log.attempted(self._timer, lambda: SleepOperation(timeout_s))
            self.run.log.wait(self._timer, lambda _: self._timed_out())
            self._begin_branch(self.doing.path)
        self.region = region
        self.frame = self.run.walk.begin(region, self.doing.firing.frame, self.doing.path, names or self.doing.names, self)

    @property
    def _timer(self) -> Path:
        return (*self.doing.path, ("timeout", 0))

    # what its steps do

    def holds(self, firing: Firing) -> bool:
        """Whether a branch has to wait until another one ends. Else it begins."""
        if firing.frame is not self.frame or self.kind == "do":
            return False
        if self.concurrency and self.active >= self.concurrency:
            self.held.append(firing)
            return True
        self.active += 1
        self._begin_branch(firing.path)
        return False

    def took(self, firing: Firing, output: Output) -> None:
        """A step has settled."""
        if self.is_over:
            return
        self.outputs[firing.place.node.id] = output
        if firing.frame is not self.frame:
            return
        if self.kind == "parallel":
            self._end_branch(firing.path)
        if self.concurrency:
            self._next()
        if self.kind == "race" and output.port not in ("skipped", "error", "rejected", "timeout"):
            self._win(firing, output)

    def failed(self, firing: Firing, error: Failure) -> None:
        """A step has failed, and nothing stands in for it."""
        if self.is_over:
            return
        if firing.frame is self.frame and (self.kind == "race" or (self.kind == "parallel" and self.go_on)):
            self.error = error
            output = Output(port="error")
            self.run.store(firing, output)
            self.run.follow(firing, output, ())
            return
        self._end_branch(firing.path)
        self._end_branch(self.doing.path)
        self._end()
        self.doing.then(error)

    def drained(self) -> None:
        """Nothing goes on in it any more."""
        if self.is_over:
            return
        self._end(is_drained=True)
        if self.kind == "race" and self.error is not None:
            self.doing.then(self.error)
        elif self.kind == "race":
            self.doing.then(NodeOutcome("success", Output.of({"winner": None, "value": None}, "the result of a race")))
        elif self.kind == "parallel":
            self.doing.then(combined_outcome(self.port, dict(self._outputs()), f"the results of the branches of {self.doing.node.id}"))
        else:
            last = [output for _, output in self._outputs()[-1:]]
            self.doing.then(NodeOutcome(self.port, Output(last[0].raw if last else ENCODED_NONE)))

    # how it ends

    def _win(self, firing: Firing, output: Output) -> None:
        self._end_branch(firing.path)
        self._end_branch(self.doing.path)
        self._end(lost=True)
        winner = firing.place.node.id
        self.doing.then(combined_outcome("success", {"value": output}, f"the result of {self.doing.node.id}", lambda found: {"winner": winner, **found}))

    def _timed_out(self) -> None:
        self._end()
        why = f"{self.doing.node.id} has not ended within {self.doing.node.timeout_s:g} s"
        if self.run.plan.has_port(self.doing.firing.place, "timeout"):
            self.doing.then(NodeOutcome("timeout", Output()))
        else:
            self.doing.then(Failure("timeout", 1, ErrorInfo("Timeout", why)))

    def _end(self, is_drained: bool = False, lost: bool = False) -> None:
        self.is_over = True
        if self.frame is not None:
            self.run.walk.drop(self.frame, is_drained)
        if not is_drained:
            self.run.log.drop_under(self.doing.path, lost)
        elif self.run.log.waits_at(self._timer):
            self.run.log.drop(self._timer)
        for branch in list(self.branches):  # unless all came to an end, those that are left have lost, or were cancelled
            if not is_drained:
                self.run.log.give_back(branch)
            self._end_branch(branch)
        if not is_drained:
            self.run.log.receipts.forget(self.doing.path)

    def _begin_branch(self, path: Path) -> None:
        self.branches[path] = None
        self.run.log.receipts.begin(path)

    def _end_branch(self, path: Path) -> None:
        if path in self.branches:
            del self.branches[path]
            self.run.log.receipts.end(path)

    def _next(self) -> None:
        self.active -= 1
        if self.held:
            self.run.walk.ready.append(self.held.popleft())

    def _outputs(self) -> Sequence[tuple[str, Output]]:
        """The results of the steps directly in it, in the order in which they are written; null of those that were not reached this time."""
        return [(id, self.outputs.get(id) or Output()) for id in self.run.plan.ids_directly_in(self.region)]
